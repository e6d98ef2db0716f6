//! The calls of the model, one function each.

use super::lists::Lists;
use super::resolve::{Last, Parent, check_length};
use super::{Body, Directory, Handle, Inode, InodeNumber, Model};
use crate::operations::operation::{Extended, FallocateMode, Kind, OpenFlags, Outcome, PathText, Slot};
use crate::operations::sparse::Sparse;
use rustix::io::Errno;
use std::collections::BTreeMap;

const SET_UID: u32 = 0o4000;
const SET_GID: u32 = 0o2000;
const GROUP_EXECUTE: u32 = 0o010;
const FILE_BYTES_MAX: u64 = (1 << 44) - 4096;
const BLOCK: u64 = 4096;

type Result<T> = std::result::Result<T, Errno>;

// ---- open files ------------------------------------------------------------------------------

impl Model {
    pub(super) fn open(
        &mut self,
        slot: Slot,
        path: &PathText,
        flags: OpenFlags,
        mode: u32,
    ) -> Result<Outcome> {
        self.release(slot);
        let (inode, created) = match flags.create {
            true => self.open_or_create(path, flags, mode)?,
            false => (self.lookup(path, true)?, false),
        };
        if self.is_directory(inode) && (flags.write || flags.create || flags.truncate) {
            return Err(Errno::ISDIR);
        }
        if let Body::Node { .. } = self.inodes[&inode].body {
            // Nobody listens; what opens a pipe or a device is the kernel's.
            return Err(Errno::NXIO);
        }
        if flags.truncate && !created {
            self.content_mut(inode)?.set_size(0);
        }
        self.handles.insert(slot, Handle { inode, flags, offset: 0 });
        Ok(Outcome::Done)
    }

    fn open_or_create(
        &mut self,
        path: &PathText,
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(InodeNumber, bool)> {
        let parent = self.parent_to_create(path, !flags.exclusive)?;
        match self.child(&parent)? {
            Some(_) if flags.exclusive => Err(Errno::EXIST),
            Some(inode) => Ok((inode, false)),
            None => {
                let body = Body::File(Sparse::default());
                Ok((self.create(&parent, body, mode)?, true))
            }
        }
    }

    pub(super) fn open_unnamed(
        &mut self,
        slot: Slot,
        path: &PathText,
        mode: u32,
        exclusive: bool,
    ) -> Result<Outcome> {
        self.release(slot);
        let directory = self.lookup(path, true)?;
        self.directory(directory)?;
        let inode = self.add(directory, Body::File(Sparse::default()), mode);
        let new = self.inode_mut(inode);
        (new.links, new.linkable) = (0, !exclusive);
        let flags = OpenFlags { read: true, write: true, ..OpenFlags::default() };
        self.handles.insert(slot, Handle { inode, flags, offset: 0 });
        Ok(Outcome::Done)
    }

    pub(super) fn close(&mut self, slot: Slot) -> Result<Outcome> {
        self.handle(slot)?;
        self.release(slot);
        Ok(Outcome::Done)
    }

    pub(super) fn release(&mut self, slot: Slot) {
        if let Some(handle) = self.handles.remove(&slot) {
            self.drop_if_unused(handle.inode);
        }
    }

    pub(super) fn seek(&mut self, slot: Slot, offset: u64) -> Result<Outcome> {
        self.handles.get_mut(&slot).ok_or(Errno::BADF)?.offset = offset;
        Ok(Outcome::Done)
    }

    /// `at` is a pwrite's offset; a handle opened for appending ignores it, as Linux does.
    pub(super) fn write(&mut self, slot: Slot, at: Option<u64>, bytes: &[u8]) -> Result<Outcome> {
        let Handle { inode, flags, offset } = *self.handle(slot)?;
        if !flags.write {
            return Err(Errno::BADF);
        }
        if bytes.is_empty() {
            return Ok(Outcome::Written(0));
        }
        let content = self.content_mut(inode)?;
        let start = if flags.append { content.size() } else { at.unwrap_or(offset) };
        if start.saturating_add(bytes.len() as u64) > FILE_BYTES_MAX {
            return Err(Errno::FBIG);
        }
        content.write(start, bytes);
        if at.is_none() {
            self.seek(slot, start + bytes.len() as u64)?;
        }
        Ok(Outcome::Written(bytes.len()))
    }

    pub(super) fn read(&mut self, slot: Slot, at: Option<u64>, length: u32) -> Result<Outcome> {
        let Handle { inode, flags, offset } = *self.handle(slot)?;
        if !flags.read {
            return Err(Errno::BADF);
        }
        let Body::File(content) = &self.inodes[&inode].body else {
            return Err(Errno::ISDIR);
        };
        let bytes = content.read(at.unwrap_or(offset), u64::from(length));
        if at.is_none() {
            self.seek(slot, offset + bytes.len() as u64)?;
        }
        Ok(Outcome::Bytes(bytes))
    }

    pub(super) fn truncate(&mut self, path: &PathText, length: u64) -> Result<Outcome> {
        let inode = self.lookup(path, true)?;
        self.set_size(inode, length)
    }

    pub(super) fn ftruncate(&mut self, slot: Slot, length: u64) -> Result<Outcome> {
        let Handle { inode, flags, .. } = *self.handle(slot)?;
        if !flags.write || self.is_directory(inode) {
            return Err(Errno::INVAL);
        }
        self.set_size(inode, length)
    }

    fn set_size(&mut self, inode: InodeNumber, length: u64) -> Result<Outcome> {
        if self.is_directory(inode) {
            return Err(Errno::ISDIR);
        }
        let is_file = matches!(self.inodes[&inode].body, Body::File(_));
        if is_file && length > FILE_BYTES_MAX {
            return Err(Errno::FBIG);
        }
        self.content_mut(inode)?.set_size(length);
        Ok(Outcome::Done)
    }

    pub(super) fn fallocate(
        &mut self,
        slot: Slot,
        mode: FallocateMode,
        offset: u64,
        length: u64,
    ) -> Result<Outcome> {
        let Handle { inode, flags, .. } = *self.handle(slot)?;
        if length == 0 {
            return Err(Errno::INVAL);
        }
        if !flags.write {
            return Err(Errno::BADF);
        }
        let end = offset.saturating_add(length);
        if end > FILE_BYTES_MAX {
            return Err(Errno::FBIG);
        }
        // Linux takes a file for modified before it looks closer.
        let content = self.content_mut(inode)?;
        let size = content.size();
        let aligned = offset.is_multiple_of(BLOCK) && length.is_multiple_of(BLOCK);
        match mode {
            FallocateMode::CollapseRange if !aligned || end >= size => return Err(Errno::INVAL),
            FallocateMode::InsertRange if !aligned => return Err(Errno::INVAL),
            FallocateMode::InsertRange if size + length > FILE_BYTES_MAX => return Err(Errno::FBIG),
            FallocateMode::InsertRange if offset >= size => return Err(Errno::INVAL),
            _ => {}
        }
        let grown = size.max(end);
        match mode {
            FallocateMode::CollapseRange => content.collapse(offset, length),
            FallocateMode::InsertRange => content.insert(offset, length),
            FallocateMode::KeepSize => {}
            FallocateMode::Extend => content.set_size(grown),
            FallocateMode::PunchHole | FallocateMode::ZeroKeepSize => content.zero(offset, length),
            FallocateMode::ZeroRange => {
                content.zero(offset, length);
                content.set_size(grown);
            }
        }
        Ok(Outcome::Done)
    }
}

// ---- names -----------------------------------------------------------------------------------

impl Model {
    pub(super) fn mkdir(&mut self, path: &PathText, mode: u32) -> Result<Outcome> {
        let parent = self.parent(path)?;
        self.must_be_free(&parent, true)?;
        let body = Body::Directory(Directory { entries: BTreeMap::new(), parent: parent.directory });
        self.create(&parent, body, mode & 0o1777)?;
        Ok(Outcome::Done)
    }

    pub(super) fn make_node(
        &mut self,
        path: &PathText,
        kind: Kind,
        mode: u32,
        device: u64,
    ) -> Result<Outcome> {
        let parent = self.parent(path)?;
        self.must_be_free(&parent, false)?;
        let body = match kind {
            Kind::Directory => return Err(Errno::PERM),
            Kind::Symlink => return Err(Errno::INVAL),
            Kind::File => Body::File(Sparse::default()),
            Kind::Pipe | Kind::Socket => Body::Node { kind, device: 0 },
            Kind::CharacterDevice | Kind::BlockDevice => Body::Node { kind, device },
        };
        self.create(&parent, body, mode)?;
        Ok(Outcome::Done)
    }

    pub(super) fn symlink(&mut self, target: &PathText, path: &PathText) -> Result<Outcome> {
        check_length(target.as_bytes())?;
        let parent = self.parent(path)?;
        self.must_be_free(&parent, false)?;
        self.create(&parent, Body::Symlink(target.clone()), 0o777)?;
        Ok(Outcome::Done)
    }

    pub(super) fn link(&mut self, existing: &PathText, new: &PathText) -> Result<Outcome> {
        let inode = self.lookup(existing, false)?;
        self.link_inode(inode, new)
    }

    pub(super) fn link_inode(&mut self, inode: InodeNumber, new: &PathText) -> Result<Outcome> {
        let parent = self.parent(new)?;
        let name = self.must_be_free(&parent, false)?;
        if self.is_directory(inode) {
            return Err(Errno::PERM);
        }
        let linked = &self.inodes[&inode];
        if linked.links == 0 && !linked.linkable {
            return Err(Errno::NOENT);
        }
        self.directory_mut(parent.directory)?.entries.insert(name, inode);
        let linked = self.inode_mut(inode);
        linked.links += 1;
        linked.linkable = false;
        Ok(Outcome::Done)
    }

    pub(super) fn unlink(&mut self, path: &PathText) -> Result<Outcome> {
        let parent = self.parent(path)?;
        let Last::Name(name) = &parent.last else {
            return Err(Errno::ISDIR);
        };
        let inode = self.child(&parent)?.ok_or(Errno::NOENT)?;
        if self.is_directory(inode) {
            return Err(Errno::ISDIR);
        }
        if parent.trailing_slash {
            return Err(Errno::NOTDIR);
        }
        self.directory_mut(parent.directory)?.entries.remove(name);
        self.inode_mut(inode).links -= 1;
        self.drop_if_unused(inode);
        Ok(Outcome::Done)
    }

    pub(super) fn rmdir(&mut self, path: &PathText) -> Result<Outcome> {
        let parent = self.parent(path)?;
        let name = match &parent.last {
            Last::Name(name) => name,
            Last::Dot => return Err(Errno::INVAL),
            Last::DotDot => return Err(Errno::NOTEMPTY),
            Last::Root => return Err(Errno::BUSY),
        };
        let inode = self.child(&parent)?.ok_or(Errno::NOENT)?;
        if !self.directory(inode)?.entries.is_empty() {
            return Err(Errno::NOTEMPTY);
        }
        self.remove_directory(parent.directory, name);
        Ok(Outcome::Done)
    }

    pub(super) fn rename(&mut self, from: &PathText, to: &PathText, replace: bool) -> Result<Outcome> {
        let (old, new) = (self.parent(from)?, self.parent(to)?);
        let Last::Name(old_name) = &old.last else {
            return Err(Errno::BUSY);
        };
        let Last::Name(new_name) = &new.last else {
            return Err(if replace { Errno::BUSY } else { Errno::EXIST });
        };
        let source = self.child(&old)?.ok_or(Errno::NOENT)?;
        let target = self.child(&new)?;
        if target.is_some() && !replace {
            return Err(Errno::EXIST);
        }
        let is_directory = self.is_directory(source);
        if !is_directory && (old.trailing_slash || new.trailing_slash) {
            return Err(Errno::NOTDIR);
        }
        if is_directory && self.is_inside(new.directory, source) {
            return Err(Errno::INVAL);
        }
        if target == Some(source) {
            return Ok(Outcome::Done);
        }
        if let Some(target) = target {
            if self.is_inside(old.directory, target) {
                return Err(Errno::NOTEMPTY);
            }
            match (is_directory, self.is_directory(target)) {
                (true, false) => return Err(Errno::NOTDIR),
                (false, true) => return Err(Errno::ISDIR),
                (true, true) if !self.directory(target)?.entries.is_empty() => return Err(Errno::NOTEMPTY),
                (true, true) => self.remove_directory(new.directory, new_name),
                (false, false) => {
                    self.inode_mut(target).links -= 1;
                    self.drop_if_unused(target);
                }
            }
        }
        self.directory_mut(old.directory)?.entries.remove(old_name);
        self.directory_mut(new.directory)?.entries.insert(new_name.clone(), source);
        if is_directory && old.directory != new.directory {
            self.inode_mut(old.directory).links -= 1;
            self.inode_mut(new.directory).links += 1;
            if let Body::Directory(moved) = &mut self.inode_mut(source).body {
                moved.parent = new.directory;
            }
        }
        Ok(Outcome::Done)
    }

    pub(super) fn exchange(&mut self, from: &PathText, to: &PathText) -> Result<Outcome> {
        let (old, new) = (self.parent(from)?, self.parent(to)?);
        let (Last::Name(old_name), Last::Name(new_name)) = (&old.last, &new.last) else {
            return Err(Errno::BUSY);
        };
        let source = self.child(&old)?.ok_or(Errno::NOENT)?;
        let target = self.child(&new)?.ok_or(Errno::NOENT)?;
        let ends = [(source, &old, &new), (target, &new, &old)];
        if ends.iter().any(|(inode, at, _)| at.trailing_slash && !self.is_directory(*inode)) {
            return Err(Errno::NOTDIR);
        }
        let moves_below = |(inode, _, to): &(InodeNumber, &Parent, &Parent)| {
            self.is_directory(*inode) && self.is_inside(to.directory, *inode)
        };
        if ends.iter().any(moves_below) {
            return Err(Errno::INVAL);
        }
        if source == target {
            return Ok(Outcome::Done);
        }
        self.directory_mut(old.directory)?.entries.insert(old_name.clone(), target);
        self.directory_mut(new.directory)?.entries.insert(new_name.clone(), source);
        for (inode, at, to) in ends {
            if let Body::Directory(moved) = &mut self.inode_mut(inode).body {
                moved.parent = to.directory;
                self.inode_mut(at.directory).links -= 1;
                self.inode_mut(to.directory).links += 1;
            }
        }
        Ok(Outcome::Done)
    }

    pub(super) fn readlink(&self, path: &PathText) -> Result<Outcome> {
        match &self.inodes[&self.lookup(path, false)?].body {
            Body::Symlink(target) => Ok(Outcome::Target(target.clone())),
            _ => Err(Errno::INVAL),
        }
    }

    /// The name `parent` ends in, if nothing bears it yet.
    fn must_be_free(&self, parent: &Parent, for_directory: bool) -> Result<Vec<u8>> {
        let Last::Name(name) = &parent.last else {
            return Err(Errno::EXIST);
        };
        match self.child(parent)? {
            Some(_) => Err(Errno::EXIST),
            None if parent.trailing_slash && !for_directory => Err(Errno::NOENT),
            None => Ok(name.clone()),
        }
    }

    /// Makes a new inode under the name `parent` ends in.
    fn create(&mut self, parent: &Parent, body: Body, mode: u32) -> Result<InodeNumber> {
        let name = self.must_be_free(parent, true)?;
        let is_directory = matches!(body, Body::Directory(_));
        let number = self.add(parent.directory, body, mode);
        if is_directory {
            self.inode_mut(parent.directory).links += 1;
        }
        self.directory_mut(parent.directory)?.entries.insert(name, number);
        Ok(number)
    }

    /// Makes a new inode in a directory, under no name yet.
    fn add(&mut self, directory: InodeNumber, body: Body, mode: u32) -> InodeNumber {
        let number = self.next_inode;
        self.next_inode += 1;
        let Inode { mode: parent_mode, gid: parent_gid, .. } = self.inodes[&directory];
        let is_directory = matches!(body, Body::Directory(_));
        let links = if is_directory { 2 } else { 1 };
        let (extended, lists) = (Extended::new(), Lists::default());
        let mut inode =
            Inode { body, mode, uid: 0, gid: 0, links, linkable: false, modified: None, extended, lists };
        if parent_mode & SET_GID != 0 {
            inode.gid = parent_gid;
            inode.mode |= if is_directory { SET_GID } else { 0 };
        }
        inode.inherit_lists(&self.inodes[&directory].lists);
        self.inodes.insert(number, inode);
        number
    }

    /// Takes an empty directory out of `parent`.
    fn remove_directory(&mut self, parent: InodeNumber, name: &[u8]) {
        let holder = self.directory_mut(parent).expect("the caller looked the name up in it");
        let removed = holder.entries.remove(name).expect("the caller found the name");
        self.inode_mut(parent).links -= 1;
        self.inode_mut(removed).links = 0;
        self.drop_if_unused(removed);
    }

    /// Whether `inode` is `ancestor` or lies below it.
    fn is_inside(&self, mut inode: InodeNumber, ancestor: InodeNumber) -> bool {
        while inode != ancestor {
            match self.directory(inode) {
                Ok(directory) if directory.parent != inode => inode = directory.parent,
                _ => return false,
            }
        }
        true
    }
}

// ---- attributes ------------------------------------------------------------------------------

impl Model {
    pub(super) fn chmod(&mut self, inode: InodeNumber, mode: u32) -> Outcome {
        let inode = self.inode_mut(inode);
        inode.mode = mode & 0o7777;
        inode.remask();
        Outcome::Done
    }

    /// Set-id bits of anything but a directory go, except a set-gid bit that means mandatory
    /// locking (no group execute).
    pub(super) fn lchown(&mut self, path: &PathText, uid: u32, gid: u32) -> Result<Outcome> {
        let number = self.lookup(path, false)?;
        let is_directory = self.is_directory(number);
        let inode = self.inode_mut(number);
        inode.uid = if uid == u32::MAX { inode.uid } else { uid };
        inode.gid = if gid == u32::MAX { inode.gid } else { gid };
        if !is_directory {
            inode.mode &= !SET_UID;
            if inode.mode & GROUP_EXECUTE != 0 {
                inode.mode &= !SET_GID;
            }
        }
        Ok(Outcome::Done)
    }
}
