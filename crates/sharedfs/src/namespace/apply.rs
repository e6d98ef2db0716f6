//! Applying one operation to the view: every check first, then every change, so that a rejected entry leaves
//! nothing behind.
//!
//! The checks hold for any log, however its writer came to write it. Each inode that an entry names exists and is
//! of the right kind. Names stand for the inodes the entry says. Directories stay a tree, and link counts add up.

use super::applied::Applied;
use super::attributes::check_list;
use super::lookup::Lookup;
use super::names::place_in;
use super::pieces::Content;
use super::rejection::{Rejection, Stop};
use super::shift::Shift;
use super::view::View;
use crate::metadata::Dirent;
use cuesta_format::{
    BLOCK_BYTES, FILE_BYTES_MAX, FileKind, InodeNumber, InodeRecord, LINKS_MAX, NAME_BYTES_MAX, Operation,
    SYMLINK_BYTES_MAX, SessionId, Timestamp,
};

/// What an inode that is made holds.
#[derive(Clone, Copy)]
struct Holds<'a> {
    target: &'a [u8],
    list: &'a [u8],
}

struct Rename<'a> {
    parent: InodeNumber,
    name: &'a [u8],
    new_parent: InodeNumber,
    new_name: &'a [u8],
    inode: InodeNumber,
    replaced: InodeNumber,
    orphan: bool,
    exchange: bool,
}

impl<'a, L: Lookup> Applied<'a, L> {
    /// Applies one operation made at `now`.
    pub fn apply(&self, view: &mut View, operation: &Operation<'a>, now: Timestamp) -> Result<(), Stop> {
        match *operation {
            Operation::Void => Ok(()),
            Operation::Write { inode, offset, data } => self.write(view, inode, offset, data, now),
            Operation::WriteStaged { inode, offset, staged } => {
                self.write_staged(view, inode, offset, &staged, now)
            }
            Operation::Truncate { inode, size } => self.truncate(view, inode, size, now),
            Operation::Clear { inode, offset, length, grow } => {
                self.clear(view, inode, offset, length, grow, now)
            }
            Operation::Shift { inode, offset, length, insert } => {
                self.shift(view, inode, offset, length, insert, now)
            }
            Operation::CreateUnnamed { parent, exclusive, inode, mode, uid, gid, list } => {
                let mut record = InodeRecord { links: 0, ..InodeRecord::new(inode, mode, uid, gid, now) };
                // The directory need not be there any more.
                if let Some(directory) = view.find(self.store, parent)? {
                    record.tree = view.node(directory).record.tree;
                }
                record.parent = if exclusive { InodeNumber::NONE } else { parent };
                self.create_unnamed(view, record, list)
            }
            Operation::Create { parent, inode, mode, uid, gid, device, name, target, list } => {
                let record = InodeRecord { device, ..InodeRecord::new(inode, mode, uid, gid, now) };
                self.create(view, parent, name, record, Holds { target, list }, now)
            }
            Operation::Link { parent, inode, name } => self.link(view, parent, inode, name, now),
            Operation::Unlink { parent, inode, name, orphan } => {
                self.unlink(view, parent, inode, name, orphan, now)
            }
            Operation::Rename { parent, name, new_parent, new_name, inode, replaced, orphan, exchange } => {
                let rename = Rename { parent, name, new_parent, new_name, inode, replaced, orphan, exchange };
                self.rename(view, &rename, now)
            }
            Operation::SetAttributes { inode, attributes } => {
                self.set_attributes(view, inode, attributes, now)
            }
            Operation::Release { inode } => self.release(view, inode),
            Operation::SetExtended { inode, name, value } => {
                self.set_extended(view, inode, name, Some(value), now)
            }
            Operation::SetAccessList { inode, mode, list } => {
                self.set_access_list(view, inode, mode, list, now)
            }
            Operation::RemoveExtended { inode, name } => self.set_extended(view, inode, name, None, now),
            Operation::ForgetCaller { caller } => Ok(view.calls.forget(self.store, caller)?),
            Operation::DependOn { dependency } => {
                view.dependencies.add(dependency);
                Ok(())
            }
        }
    }

    pub(crate) fn existing(&self, view: &mut View, inode: InodeNumber) -> Result<u32, Stop> {
        Ok(view.find(self.store, inode)?.ok_or(Rejection::NoInode(inode))?)
    }

    pub(super) fn file(&self, view: &mut View, inode: InodeNumber) -> Result<u32, Stop> {
        let at = self.existing(view, inode)?;
        if view.node(at).record.kind() != FileKind::File {
            return Err(Rejection::Kind(inode).into());
        }
        Ok(at)
    }

    /// A directory that names can be put into.
    fn directory(&self, view: &mut View, inode: InodeNumber) -> Result<u32, Stop> {
        let at = self.existing(view, inode)?;
        let record = &view.node(at).record;
        if record.kind() != FileKind::Directory {
            return Err(Rejection::Kind(inode).into());
        }
        if record.links == 0 {
            return Err(Rejection::NoInode(inode).into());
        }
        Ok(at)
    }

    /// The directory entry, which must stand for `expected` ([`InodeNumber::NONE`]: nothing).
    fn name(
        &self,
        view: &mut View,
        parent: InodeNumber,
        name: &[u8],
        expected: InodeNumber,
    ) -> Result<u32, Stop> {
        debug_assert!(name.len() <= NAME_BYTES_MAX);
        let expected_new = expected == InodeNumber::NONE;
        let at = view.name(self.store, self.batch, parent, name, expected_new)?;
        let found = view.names.get(at).now.map_or(InodeNumber::NONE, |dirent| dirent.inode);
        if found != expected {
            return Err(Rejection::Name { parent, expected, found }.into());
        }
        Ok(at)
    }

    fn write(
        &self,
        view: &mut View,
        inode: InodeNumber,
        offset: u64,
        data: &[u8],
        now: Timestamp,
    ) -> Result<(), Stop> {
        let at = self.file(view, inode)?;
        let end = offset.checked_add(data.len() as u64).filter(|&end| end <= FILE_BYTES_MAX);
        let end = end.ok_or(Rejection::Size)?;
        let node = view.change(at);
        node.record.modified = now;
        node.record.changed = now;
        if !data.is_empty() {
            node.record.size = node.record.size.max(end);
            let (start, _) = place_in(self.batch, data);
            view.push_piece(at, offset, end, Content::Log(start));
        }
        Ok(())
    }

    fn truncate(&self, view: &mut View, inode: InodeNumber, size: u64, now: Timestamp) -> Result<(), Stop> {
        let at = self.file(view, inode)?;
        if size > FILE_BYTES_MAX {
            return Err(Rejection::Size.into());
        }
        let node = view.change(at);
        node.record.modified = now;
        node.record.changed = now;
        let shrinks = size < node.record.size;
        // A file in mapped mode is cut in place, never by the log.
        let cuts = shrinks && !node.record.mapped;
        node.record.size = size;
        if cuts {
            view.push_piece(at, size, u64::MAX, Content::Gone);
        }
        Ok(())
    }

    fn clear(
        &self,
        view: &mut View,
        inode: InodeNumber,
        offset: u64,
        length: u64,
        grow: bool,
        now: Timestamp,
    ) -> Result<(), Stop> {
        let at = self.file(view, inode)?;
        let end = offset.checked_add(length).filter(|&end| end <= FILE_BYTES_MAX).ok_or(Rejection::Size)?;
        if length == 0 {
            return Err(Rejection::Range.into());
        }
        let node = view.change(at);
        node.record.modified = now;
        node.record.changed = now;
        let size = node.record.size;
        let held = match node.record.mapped {
            // How long the file is, the kernel knows: it is cleared in place but for what makes it longer.
            true if grow => end,
            true => offset,
            // A range that reaches the file's end takes all of its last block.
            false if end < size => end,
            false => size.next_multiple_of(BLOCK_BYTES),
        };
        if grow {
            node.record.size = node.record.size.max(end);
        }
        if offset < held {
            view.push_piece(at, offset, held, Content::Gone);
        }
        Ok(())
    }

    fn shift(
        &self,
        view: &mut View,
        inode: InodeNumber,
        offset: u64,
        length: u64,
        insert: bool,
        now: Timestamp,
    ) -> Result<(), Stop> {
        let at = self.file(view, inode)?;
        let size = view.node(at).record.size;
        let whole = offset.is_multiple_of(BLOCK_BYTES) && length.is_multiple_of(BLOCK_BYTES) && length > 0;
        let end = offset.checked_add(length).ok_or(Rejection::Size)?;
        if !whole || offset >= size || (!insert && end >= size) {
            return Err(Rejection::Range.into());
        }
        let size = if insert { size.checked_add(length) } else { Some(size - length) };
        let size = size.filter(|&size| size <= FILE_BYTES_MAX).ok_or(Rejection::Size)?;
        view.shift(self.store, at, Shift { offset, length, insert })?;
        let record = &mut view.change(at).record;
        record.size = size;
        record.modified = now;
        record.changed = now;
        Ok(())
    }

    fn create_unnamed(&self, view: &mut View, record: InodeRecord, list: &[u8]) -> Result<(), Stop> {
        let inode = record.inode;
        if FileKind::from_mode(record.mode) != Some(FileKind::File) {
            return Err(Rejection::Mode(record.mode).into());
        }
        if !self.numbers.contains(&inode.0) || view.is_known(self.store, inode)? {
            return Err(Rejection::InodeTaken(inode).into());
        }
        check_list(inode, list)?;
        let at = view.create(self.batch, record, b"");
        view.change(at).holder = Some(self.session);
        self.hand_down(view, at, list)
    }

    fn create(
        &self,
        view: &mut View,
        parent: InodeNumber,
        name: &[u8],
        mut record: InodeRecord,
        Holds { target, list }: Holds<'_>,
        now: Timestamp,
    ) -> Result<(), Stop> {
        let inode = record.inode;
        let directory = self.directory(view, parent)?;
        let kind = FileKind::from_mode(record.mode).ok_or(Rejection::Mode(record.mode))?;
        if (kind == FileKind::Symlink) == target.is_empty() || target.len() > SYMLINK_BYTES_MAX {
            return Err(Rejection::Target.into());
        }
        check_list(inode, list)?;
        if !self.numbers.contains(&inode.0) || view.is_known(self.store, inode)? {
            return Err(Rejection::InodeTaken(inode).into());
        }
        let entry = self.name(view, parent, name, InodeNumber::NONE)?;
        view.names.set(entry, Some(Dirent { inode, kind }));
        if kind == FileKind::Directory {
            record.parent = parent;
            view.change(directory).record.links += 1;
        }
        record.size = target.len() as u64;
        record.tree = view.node(directory).record.tree;
        let at = view.create(self.batch, record, target);
        self.hand_down(view, at, list)?;
        touch_directory(view, directory, 1, now);
        Ok(())
    }

    fn link(
        &self,
        view: &mut View,
        parent: InodeNumber,
        inode: InodeNumber,
        name: &[u8],
        now: Timestamp,
    ) -> Result<(), Stop> {
        let directory = self.directory(view, parent)?;
        let at = self.existing(view, inode)?;
        let record = view.node(at).record;
        if record.kind() == FileKind::Directory {
            return Err(Rejection::Kind(inode).into());
        }
        let may_be_named = view.node(at).holder.is_some() && record.parent != InodeNumber::NONE;
        let tree = view.node(directory).record.tree;
        // An inode without a name lies nowhere: it counts where it gets its first.
        if record.tree != tree && record.links > 0 {
            return Err(Rejection::Tree(inode).into());
        }
        if record.links == 0 && !may_be_named || record.links >= LINKS_MAX {
            return Err(Rejection::Links(inode).into());
        }
        let entry = self.name(view, parent, name, InodeNumber::NONE)?;
        view.names.set(entry, Some(Dirent { inode, kind: record.kind() }));
        let node = view.change(at);
        node.record.links += 1;
        node.record.tree = tree;
        node.record.parent = InodeNumber::NONE;
        node.record.changed = now;
        node.holder = None;
        touch_directory(view, directory, 1, now);
        Ok(())
    }

    fn unlink(
        &self,
        view: &mut View,
        parent: InodeNumber,
        inode: InodeNumber,
        name: &[u8],
        orphan: bool,
        now: Timestamp,
    ) -> Result<(), Stop> {
        let directory = self.directory(view, parent)?;
        let at = self.existing(view, inode)?;
        check_removable(view, at)?;
        let entry = self.name(view, parent, name, inode)?;
        view.names.set(entry, None);
        self.drop_link(view, at, directory, orphan, now);
        touch_directory(view, directory, -1, now);
        Ok(())
    }

    fn rename(&self, view: &mut View, rename: &Rename<'_>, now: Timestamp) -> Result<(), Stop> {
        let &Rename { parent, name, new_parent, new_name, inode, replaced, orphan, exchange } = rename;
        let from = self.directory(view, parent)?;
        let to = self.directory(view, new_parent)?;
        let moved = self.existing(view, inode)?;
        let old_entry = self.name(view, parent, name, inode)?;
        let new_entry = self.name(view, new_parent, new_name, replaced)?;
        if inode == replaced {
            // Two names of one inode: POSIX leaves both (and so does an exchange).
            return Ok(());
        }
        if view.node(from).record.tree != view.node(to).record.tree {
            return Err(Rejection::Tree(inode).into());
        }
        let moved_kind = view.node(moved).record.kind();
        self.check_acyclic(view, moved, moved_kind, from, to)?;
        let displaced = if replaced == InodeNumber::NONE {
            if exchange {
                return Err(Rejection::NoInode(replaced).into());
            }
            None
        } else {
            let at = self.existing(view, replaced)?;
            let kind = view.node(at).record.kind();
            if exchange {
                self.check_acyclic(view, at, kind, to, from)?;
            } else {
                if (kind == FileKind::Directory) != (moved_kind == FileKind::Directory) {
                    return Err(Rejection::Kind(replaced).into());
                }
                check_removable(view, at)?;
            }
            Some((at, kind))
        };

        view.names.set(new_entry, Some(Dirent { inode, kind: moved_kind }));
        let back = displaced.filter(|_| exchange);
        view.names.set(old_entry, back.map(|(_, kind)| Dirent { inode: replaced, kind }));
        move_directory(view, moved, moved_kind, from, to);
        view.change(moved).record.changed = now;
        match (displaced, exchange) {
            (Some((at, kind)), true) => {
                move_directory(view, at, kind, to, from);
                view.change(at).record.changed = now;
            }
            (Some((at, _)), false) => self.drop_link(view, at, to, orphan, now),
            (None, _) => {}
        }
        let grows = i64::from(displaced.is_none());
        touch_directory(view, from, if exchange { 0 } else { -1 }, now);
        touch_directory(view, to, if exchange { 0 } else { grows }, now);
        Ok(())
    }

    /// A directory must not move below itself.
    fn check_acyclic(
        &self,
        view: &mut View,
        moved: u32,
        kind: FileKind,
        from: u32,
        to: u32,
    ) -> Result<(), Stop> {
        if kind != FileKind::Directory || from == to || view.is_above(self.store, moved, to)? == Some(false) {
            return Ok(());
        }
        Err(Rejection::Cycle(view.node(moved).record.inode).into())
    }

    fn release(&self, view: &mut View, inode: InodeNumber) -> Result<(), Stop> {
        let at = self.existing(view, inode)?;
        if view.node(at).holder != Some(self.session) {
            return Err(Rejection::NotOrphan(inode).into());
        }
        // Before it was known to be without a name, no other session could have a lease on it.
        let was_held = view.node(at).held_before.is_some();
        let stays = self.store.is_open_elsewhere(inode) || was_held && self.store.is_in_logs_elsewhere(inode);
        let node = view.change(at);
        node.holder = stays.then_some(SessionId::NOBODY);
        node.removed = !stays;
        Ok(())
    }

    /// Takes one name's link from an inode; `directory` held that name. With `orphan` this session has it open.
    fn drop_link(&self, view: &mut View, at: u32, directory: u32, orphan: bool, now: Timestamp) {
        let node = view.change(at);
        node.record.changed = now;
        if node.record.kind() == FileKind::Directory {
            node.record.links = 0;
            let parent = view.change(directory);
            parent.record.links = parent.record.links.saturating_sub(1);
        } else {
            node.record.links -= 1;
        }
        let node = view.change(at);
        if node.record.links == 0 {
            let nobody = || self.store.is_open_elsewhere(node.record.inode).then_some(SessionId::NOBODY);
            node.holder = if orphan { Some(self.session) } else { nobody() };
            node.removed = node.holder.is_none();
        }
    }
}

/// An inode whose name goes away: a directory must be empty, and not the root.
fn check_removable(view: &View, at: u32) -> Result<(), Rejection> {
    let record = &view.node(at).record;
    if record.links == 0 || record.inode == InodeNumber::ROOT {
        return Err(Rejection::Links(record.inode));
    }
    if record.kind() == FileKind::Directory && record.size > 0 {
        return Err(Rejection::NotEmpty(record.inode));
    }
    Ok(())
}

/// A directory that changes its parent takes its `..` along.
fn move_directory(view: &mut View, at: u32, kind: FileKind, from: u32, to: u32) {
    if kind != FileKind::Directory || from == to {
        return;
    }
    view.move_directory(at, to);
    let from = view.change(from);
    from.record.links = from.record.links.saturating_sub(1);
    view.change(to).record.links += 1;
}

/// A directory gained or lost entries.
fn touch_directory(view: &mut View, at: u32, entries: i64, now: Timestamp) {
    let record = &mut view.change(at).record;
    record.size = record.size.saturating_add_signed(entries);
    record.modified = now;
    record.changed = now;
}
