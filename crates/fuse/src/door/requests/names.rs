//! Names: looked up, made, moved, taken away.

use super::attributes::shown;
use crate::door::call::Call;
use crate::door::dispatch::Door;
use crate::door::refusal::Refusal;
use crate::door::state::overtaken::{Elsewhere, Node};
use crate::door::who;
use crate::kernel::abi::{
    BatchForgetIn, EntryOut, ForgetIn, ForgetOne, LinkIn, MakeDirectoryIn, MakeNodeIn, RenameFlaggedIn,
    RenameIn,
};
use cuesta_format::{FileKind, InodeNumber, InodeRecord, StoreId};
use cuesta_libfs::{Answer, Base, CallByNumber, Error, NewMode, OpenFile, RenameFlags};
use std::sync::Arc;

/// How often a name is looked up whose inode goes before it is held.
const HOLDS_MAX: u32 = 100;

impl Door {
    pub(in crate::door) fn look_up(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let name = call.arguments.text()?;
        if name == b"." || name == b".." {
            return self.look_up_of_handle(call, name);
        }
        if let Some(inode) = self.asked_by_number(call, name) {
            return self.look_up_number(call, inode);
        }
        if self.overtaken.found_gone(call.header.pid, call.began) {
            return self.look_up_and_hold(call, name);
        }
        let Answer { value, is_own } =
            self.client.look_up_name(&who::asks(&call.header), call.inode(), name)?;
        match value {
            Some(record) => self.put_found(call, Answer { value: record, is_own }),
            None if self.keeping.names_hold() => {
                // There is none.
                put_name(call, Answer { value: EntryOut::default(), is_own });
            }
            None => return Err(Error::NotFound.into()),
        }
        Ok(())
    }

    /// Answers with what was looked up.
    fn put_found(&self, call: &mut Call<'_>, found: Answer<InodeRecord>) {
        let record = &found.value;
        let Some(elsewhere) = self.known.elsewhere(record, call.node()) else {
            return self.put_entry(call, found);
        };
        // It may move it or not.
        self.known.place(Elsewhere { parent: Node::UNKNOWN, ..elsewhere });
        match self.overtaken.find_elsewhere(call.header.pid, elsewhere, call.began) {
            Some(node) => {
                let entry = EntryOut { node: node.0, ..self.entry(record, None) };
                call.answer.put(&entry);
            }
            None => self.put_entry(call, found),
        }
    }

    /// The inode of a file handle (`open_by_handle_at`, NFS) that the kernel does not know any more, or the directory a
    /// directory lies in, on the way to the root. One that has lost its last name is not found again.
    fn look_up_of_handle(&self, call: &mut Call<'_>, name: &[u8]) -> Result<(), Refusal> {
        let node = call.header.node;
        let (record, _) = self.client.attributes(call.inode())?.value;
        if !has_names(&record) {
            return Err(Refusal(libc::ENOENT));
        }
        let entry = if name == b"." {
            EntryOut { node, ..self.entry(&record, None) }
        } else {
            let (parent, _) = self.client.attributes(record.parent)?.value;
            self.entry(&parent, None)
        };
        // These are no names that the kernel keeps.
        call.answer.put(&entry);
        Ok(())
    }

    /// The inode behind the name stays until the kernel has forgotten it.
    fn look_up_and_hold(&self, call: &mut Call<'_>, name: &[u8]) -> Result<(), Refusal> {
        for _ in 0..HOLDS_MAX {
            let held = self.client.hold_by_name(&who::asks(&call.header), call.inode(), name)?;
            let (file, record) = held.value;
            // Between SharedFS's answer and the hold the name may have gone, and the inode with it.
            let is_held =
                || self.client.attributes(record.inode).is_ok_and(|found| has_names(&found.value.0));
            if held.is_own || is_held() {
                self.put_found(call, Answer { value: record, is_own: held.is_own });
                self.known.keep(file).into_iter().for_each(|file| self.close(file));
                return Ok(());
            }
            self.close(file);
        }
        Err(Refusal(libc::ESTALE))
    }

    /// Answers with an inode, which the kernel knows once more from now on.
    pub(in crate::door) fn put_entry(&self, call: &mut Call<'_>, found: Answer<InodeRecord>) {
        let directory = call.node();
        put_name(call, found.map(|record| self.entry(&record, Some(directory))));
    }

    /// The same, to be put where it belongs; `directory`: the kernel learns of it by a name in that.
    pub(in crate::door) fn entry(&self, record: &InodeRecord, directory: Option<Node>) -> EntryOut {
        self.known.note(record, directory);
        self.known.tell(record);
        let generation = self.generation_of(record.inode);
        EntryOut { node: record.inode.0, generation, attributes: shown(record), ..EntryOut::default() }
    }

    /// No number is ever another inode's within a store, so that a handle is one of the store's, or of another store. The
    /// kernel knows the root without having been told.
    fn generation_of(&self, inode: InodeNumber) -> u64 {
        let StoreId(store) = self.client.store();
        let [a, b, c, d, ..] = store;
        if inode == InodeNumber::ROOT { 0 } else { u32::from_le_bytes([a, b, c, d]).into() }
    }

    /// Has the kernel keep the name that is the answer, if it may. That goes out at once.
    pub(in crate::door) fn keep_name(&self, call: &mut Call<'_>) {
        let Some(entry) = call.entry.filter(|_| self.keeping.names_hold()) else { return };
        if self.client.may_keep_name(call.inode(), call.moment, call.began) {
            let (entry_valid, entry_valid_ns) = self.keeping.name();
            call.answer.put_first(&EntryOut { entry_valid, entry_valid_ns, ..entry });
        }
    }

    pub(in crate::door) fn make_node(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let MakeNodeIn { mode, device, umask, .. } = call.arguments.structure()?;
        let name = call.arguments.text()?;
        let mode = NewMode { bits: mode, umask };
        let who = who::trusted(&call.header);
        let make = CallByNumber::MakeNode { directory: call.inode(), name, mode, device: device.into() };
        let made = self.client.record_by_number(&who, &make)?;
        self.put_entry(call, made);
        Ok(())
    }

    pub(in crate::door) fn make_directory(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let MakeDirectoryIn { mode, umask } = call.arguments.structure()?;
        let name = call.arguments.text()?;
        let mode = NewMode { bits: mode, umask };
        // The kernel's other bits are no bits of a new directory's.
        let mode = NewMode { bits: mode.bits & 0o7777, ..mode };
        let make = CallByNumber::MakeDirectory { directory: call.inode(), name, mode };
        let made = self.client.record_by_number(&who::trusted(&call.header), &make)?;
        self.put_entry(call, made);
        Ok(())
    }

    pub(in crate::door) fn make_symbolic_link(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let (name, target) = (call.arguments.text()?, call.arguments.text()?);
        let make = CallByNumber::MakeLink { directory: call.inode(), name, target };
        let made = self.client.record_by_number(&who::trusted(&call.header), &make)?;
        self.put_entry(call, made);
        Ok(())
    }

    pub(in crate::door) fn link(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let LinkIn { node } = call.arguments.structure()?;
        let name = call.arguments.text()?;
        let link = CallByNumber::Link { inode: Node(node).inode(), directory: call.inode(), name };
        let linked = self.client.record_by_number(&who::trusted(&call.header), &link)?;
        self.put_entry(call, linked);
        Ok(())
    }

    pub(in crate::door) fn unlink(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let name = call.arguments.text()?;
        self.remove(call, name, &CallByNumber::Unlink { directory: call.inode(), name })
    }

    pub(in crate::door) fn remove_directory(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let name = call.arguments.text()?;
        self.remove(call, name, &CallByNumber::RemoveDirectory { directory: call.inode(), name })
    }

    fn remove(&self, call: &Call<'_>, name: &[u8], remove: &CallByNumber<'_>) -> Result<(), Refusal> {
        let held = self.hold(call.inode(), name);
        let done = self.client.call_by_number(&who::trusted(&call.header), remove);
        self.let_go(held, done.is_ok());
        done?;
        Ok(())
    }

    pub(in crate::door) fn rename(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let RenameIn { new_directory } = call.arguments.structure()?;
        self.rename_to(call, Node(new_directory), RenameFlags::default(), false)
    }

    pub(in crate::door) fn rename_flagged(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let RenameFlaggedIn { new_directory, flags, .. } = call.arguments.structure()?;
        const KNOWN: u32 = libc::RENAME_NOREPLACE | libc::RENAME_EXCHANGE | libc::RENAME_WHITEOUT;
        if flags & !KNOWN != 0 {
            return Err(Refusal(libc::EINVAL));
        }
        let no_replace = flags & libc::RENAME_NOREPLACE != 0;
        let exchange = flags & libc::RENAME_EXCHANGE != 0;
        let whiteout = flags & libc::RENAME_WHITEOUT != 0;
        self.rename_to(call, Node(new_directory), RenameFlags { no_replace, exchange }, whiteout)
    }

    fn rename_to(
        &self,
        call: &mut Call<'_>,
        to_node: Node,
        flags: RenameFlags,
        whiteout: bool,
    ) -> Result<(), Refusal> {
        let (old, new) = (call.arguments.text()?, call.arguments.text()?);
        let (from, to) = (call.inode(), to_node.inode());
        let who = who::trusted(&call.header);
        let moved = if whiteout {
            let moved = self.directories_exchanged((from, old), (to, new), false);
            let (source, target) = ((call.base(), old), (Base::Inode(to), new));
            self.client.rename_leaving_whiteout(&who, source, target, flags.no_replace)?;
            moved
        } else {
            let exchanged = flags.exchange.then(|| self.directories_exchanged((from, old), (to, new), true));
            let rename = |flags| {
                let (directory, new_directory, new_name) = (from, to, new);
                let rename = CallByNumber::Rename { directory, name: old, new_directory, new_name, flags };
                Ok::<_, Error>(self.client.call_by_number(&who, &rename)?.value)
            };
            let new_name = RenameFlags { no_replace: true, ..RenameFlags::default() };
            let moved = match rename(if flags == RenameFlags::default() { new_name } else { flags }) {
                Err(Error::Exists) if flags == RenameFlags::default() => {
                    let replaced = self.hold(to, new);
                    let moved = rename(flags);
                    self.let_go(replaced, moved.is_ok());
                    moved?
                }
                moved => moved?,
            };
            exchanged.unwrap_or([moved.map(|moved| moved.inode), None])
        };
        let ends = [(call.node(), to_node), (to_node, call.node())];
        for (directory, (old_parent, parent)) in moved.into_iter().zip(ends) {
            if let Some(directory) = directory
                && self.known.begin_move(directory, old_parent)
            {
                let moved = Elsewhere { directory, parent };
                self.overtaken.note_moved(call.header.pid, moved, call.began);
            }
        }
        self.await_moved_names(call, from, to);
        if flags.exchange {
            self.await_moved_names(call, to, from);
        }
        Ok(())
    }

    /// Directories that the kernel takes from one to another by a rename, and back, and which these are.
    fn directories_exchanged(
        &self,
        (from, old): (InodeNumber, &[u8]),
        (to, new): (InodeNumber, &[u8]),
        is_exchange: bool,
    ) -> [Option<InodeNumber>; 2] {
        let directory = |parent, name| {
            let record = self.client.look_up_name(&who::onlooker(), parent, name).ok()?.value?;
            (record.kind() == FileKind::Directory).then_some(record.inode)
        };
        let there = (from != to).then(|| directory(from, old)).flatten();
        let back = (from != to && is_exchange).then(|| directory(to, new)).flatten();
        [there, back]
    }

    /// A name takes along that the kernel keeps it: it may there, too, or else it moves when it is not kept any more. Then none
    /// is kept for a while where it came from, so that this happens seldom, and not with each name.
    fn await_moved_names(&self, call: &Call<'_>, from: InodeNumber, to: InodeNumber) {
        let may_be_kept = from != to && self.client.names_left(from).is_some();
        if may_be_kept && !self.client.may_keep_name(to, call.moment, call.began) {
            self.client.await_names(from);
        }
    }

    /// The inode of a name that is about to be removed: while it is held the inode stays.
    fn hold(&self, directory: InodeNumber, name: &[u8]) -> Option<Answer<(Arc<OpenFile>, InodeRecord)>> {
        self.client.hold_by_name(&who::onlooker(), directory, name).ok()
    }

    /// Goes on holding it if that was its last name and the kernel knows it. `is_removed`: the name is.
    fn let_go(&self, held: Option<Answer<(Arc<OpenFile>, InodeRecord)>>, is_removed: bool) {
        let Some(Answer { value: (file, before), is_own }) = held else { return };
        let stays = if is_own {
            self.client.stat_open(&file).is_ok_and(|stat| has_names(&stat.record))
        } else {
            // To look again, the session would take the inode from SharedFS. Held too long, it only stays until the kernel
            // has forgotten it.
            !is_removed || before.kind() != FileKind::Directory && before.links > 1
        };
        let left = if stays { Some(file) } else { self.known.keep(file) };
        left.into_iter().for_each(|file| self.close(file));
    }

    pub(in crate::door) fn forget(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let ForgetIn { lookups } = call.arguments.structure()?;
        self.forget_one(call.header.node, lookups);
        Ok(())
    }

    pub(in crate::door) fn forget_many(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let BatchForgetIn { count, .. } = call.arguments.structure()?;
        for _ in 0..count {
            let ForgetOne { node, lookups } = call.arguments.structure()?;
            self.forget_one(node, lookups);
        }
        Ok(())
    }

    fn forget_one(&self, node: u64, lookups: u64) {
        if let Some(kept) = self.known.forget(Node(node).inode(), lookups) {
            self.close(kept);
        }
    }
}

fn has_names(record: &InodeRecord) -> bool {
    match record.kind() {
        FileKind::Directory => record.parent != InodeNumber::NONE && record.links > 0,
        _ => record.links > 0,
    }
}

/// Answers with what a name leads to, of which the kernel may be let keep it.
fn put_name(call: &mut Call<'_>, entry: Answer<EntryOut>) {
    call.answer.put(&entry.value);
    call.entry = entry.is_own.then_some(entry.value);
}
