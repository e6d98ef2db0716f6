//! The state of the model, and which function performs which operation.

use super::lists::Lists;
use crate::operations::operation::{
    Attributes, Extended, Kind, OpenFlags, Operation, Outcome, PathText, Slot, Timestamp,
};
use crate::operations::sparse::Sparse;
use rustix::io::Errno;
use std::collections::BTreeMap;

/// An inode's number; never used again.
pub type InodeNumber = u64;

/// A whole file system with its open files. Cloning is cheap: file blocks are shared.
#[derive(Clone)]
pub struct Model {
    pub(crate) inodes: BTreeMap<InodeNumber, Inode>,
    pub(crate) root: InodeNumber,
    pub(super) next_inode: InodeNumber,
    pub(super) handles: BTreeMap<Slot, Handle>,
    pub(super) mappings: BTreeMap<Slot, InodeNumber>,
}

/// The state of one inode.
#[derive(Clone)]
pub(crate) struct Inode {
    pub(crate) body: Body,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) links: u32,
    /// It was opened without a name and may be given one.
    pub(crate) linkable: bool,
    pub(crate) modified: Option<Timestamp>,
    pub(crate) extended: Extended,
    pub(crate) lists: Lists,
}

/// What an inode holds.
#[derive(Clone)]
pub(crate) enum Body {
    File(Sparse),
    Directory(Directory),
    Symlink(PathText),
    /// A pipe, a socket or a device.
    Node {
        kind: Kind,
        device: u64,
    },
}

/// A directory; the root is its own parent.
#[derive(Clone)]
pub(crate) struct Directory {
    pub(crate) entries: BTreeMap<Vec<u8>, InodeNumber>,
    pub(crate) parent: InodeNumber,
}

/// An open file description.
#[derive(Clone)]
pub(super) struct Handle {
    pub(super) inode: InodeNumber,
    pub(super) flags: OpenFlags,
    pub(super) offset: u64,
}

impl Default for Model {
    fn default() -> Model {
        Model::new()
    }
}

impl Model {
    /// An empty file system: a root directory of root's, mode 0755.
    pub fn new() -> Model {
        let root = 1;
        let body = Body::Directory(Directory { entries: BTreeMap::new(), parent: root });
        let extended = Extended::new();
        let inode = Inode {
            body,
            mode: 0o755,
            uid: 0,
            gid: 0,
            links: 2,
            linkable: false,
            modified: None,
            extended,
            lists: Lists::default(),
        };
        let (inodes, handles) = (BTreeMap::from([(root, inode)]), BTreeMap::new());
        Model { inodes, root, next_inode: 2, handles, mappings: BTreeMap::new() }
    }

    /// Carries out one call.
    pub fn apply(&mut self, operation: &Operation) -> Result<Outcome, Errno> {
        use Operation::*;
        match operation {
            Open { slot, path, flags, mode } => self.open(*slot, path, *flags, *mode),
            OpenUnnamed { slot, path, mode, exclusive } => self.open_unnamed(*slot, path, *mode, *exclusive),
            LinkOpen { slot, new } => {
                let inode = self.handle(*slot)?.inode;
                self.link_inode(inode, new)
            }
            Close { slot } => self.close(*slot),
            Write { slot, data } => self.write(*slot, None, &data.bytes()),
            Pwrite { slot, offset, data } => self.write(*slot, Some(*offset), &data.bytes()),
            Read { slot, length } => self.read(*slot, None, *length),
            Pread { slot, offset, length } => self.read(*slot, Some(*offset), *length),
            Seek { slot, offset } => self.seek(*slot, *offset),
            Truncate { path, length } => self.truncate(path, *length),
            Ftruncate { slot, length } => self.ftruncate(*slot, *length),
            Fallocate { slot, mode, offset, length } => self.fallocate(*slot, *mode, *offset, *length),
            Fsync { slot } => self.handle(*slot).map(|_| Outcome::Done),
            MakeNode { path, kind, mode, device } => self.make_node(path, *kind, *mode, *device),
            Mkdir { path, mode } => self.mkdir(path, *mode),
            Rmdir { path } => self.rmdir(path),
            Link { existing, new } => self.link(existing, new),
            Symlink { target, path } => self.symlink(target, path),
            Unlink { path } => self.unlink(path),
            Rename { from, to } => self.rename(from, to, true),
            RenameExchange { from, to } => self.exchange(from, to),
            RenameNoReplace { from, to } => self.rename(from, to, false),
            Chmod { path, mode } => self.lookup(path, true).map(|inode| self.chmod(inode, *mode)),
            Fchmod { slot, mode } => {
                let inode = self.handle(*slot)?.inode;
                Ok(self.chmod(inode, *mode))
            }
            Lchown { path, uid, gid } => self.lchown(path, *uid, *gid),
            Utimens { path, modified } => {
                let inode = self.lookup(path, true)?;
                self.inode_mut(inode).modified = Some(*modified);
                Ok(Outcome::Done)
            }
            Stat { path } => self.lookup(path, true).map(|inode| self.stat(inode)),
            Lstat { path } => self.lookup(path, false).map(|inode| self.stat(inode)),
            Fstat { slot } => self.handle(*slot).map(|handle| self.stat(handle.inode)),
            Readlink { path } => self.readlink(path),
            Readdir { path } => {
                let directory = self.directory(self.lookup(path, true)?)?;
                Ok(Outcome::Names(directory.entries.keys().cloned().map(PathText).collect()))
            }
            SetExtended { .. }
            | FsetExtended { .. }
            | RemoveExtended { .. }
            | GetExtended { .. }
            | ListExtended { .. }
            | FlistExtended { .. } => self.apply_extended(operation),
            SetList { path, default, list } => {
                let inode = self.lookup(path, true)?;
                self.set_list(inode, *default, list)
            }
        }
    }

    /// A crash: open files are gone, and with them inodes without a name.
    pub fn crash(&mut self) {
        self.keep_open(|_| false);
    }

    /// Some open files are closed, as when processes end.
    pub fn keep_open(&mut self, stays: impl Fn(Slot) -> bool) {
        let slots: Vec<Slot> = self.handles.keys().copied().filter(|slot| !stays(*slot)).collect();
        for slot in slots {
            self.release(slot);
        }
    }

    /// Where the next write to a slot goes, if it is in use.
    pub fn position(&self, slot: Slot) -> Option<u64> {
        Some(self.handles.get(&slot)?.offset)
    }

    /// How a slot was opened, if it is in use.
    pub fn flags(&self, slot: Slot) -> Option<OpenFlags> {
        Some(self.handles.get(&slot)?.flags)
    }

    /// The slots in use, and the inodes open there.
    pub(crate) fn open_files(&self) -> impl Iterator<Item = (Slot, InodeNumber)> {
        self.handles.iter().map(|(slot, handle)| (*slot, handle.inode))
    }

    /// Inodes that have a name or are open.
    pub fn inode_count(&self) -> u64 {
        self.inodes.len() as u64
    }

    pub(super) fn stat(&self, number: InodeNumber) -> Outcome {
        Outcome::Attributes(self.inodes[&number].attributes())
    }

    pub(super) fn directory(&self, number: InodeNumber) -> Result<&Directory, Errno> {
        match &self.inodes[&number].body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(Errno::NOTDIR),
        }
    }

    pub(super) fn directory_mut(&mut self, number: InodeNumber) -> Result<&mut Directory, Errno> {
        let inode = self.inode_mut(number);
        inode.modified = None;
        match &mut inode.body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(Errno::NOTDIR),
        }
    }

    /// The content of a regular file, about to change.
    pub(super) fn content_mut(&mut self, number: InodeNumber) -> Result<&mut Sparse, Errno> {
        let inode = self.inode_mut(number);
        inode.modified = None;
        match &mut inode.body {
            Body::File(content) => Ok(content),
            Body::Directory(_) => Err(Errno::ISDIR),
            Body::Symlink(_) | Body::Node { .. } => Err(Errno::INVAL),
        }
    }

    pub(super) fn inode_mut(&mut self, number: InodeNumber) -> &mut Inode {
        self.inodes.get_mut(&number).expect("entries and handles name inodes that exist")
    }

    pub(super) fn is_directory(&self, number: InodeNumber) -> bool {
        matches!(self.inodes[&number].body, Body::Directory(_))
    }

    pub(super) fn handle(&self, slot: Slot) -> Result<&Handle, Errno> {
        self.handles.get(&slot).ok_or(Errno::BADF)
    }

    /// Forgets an inode that neither a name nor a handle holds.
    pub(super) fn drop_if_unused(&mut self, number: InodeNumber) {
        let open = self.handles.values().any(|handle| handle.inode == number);
        if self.inodes[&number].links == 0 && !open {
            self.inodes.remove(&number);
        }
    }
}

impl Inode {
    pub(crate) fn attributes(&self) -> Attributes {
        let (kind, size) = match &self.body {
            Body::File(content) => (Kind::File, content.size()),
            Body::Directory(_) => (Kind::Directory, 0),
            Body::Symlink(target) => (Kind::Symlink, target.0.len() as u64),
            Body::Node { kind, .. } => (*kind, 0),
        };
        Attributes {
            kind,
            mode: self.mode,
            links: self.links,
            uid: self.uid,
            gid: self.gid,
            size,
            modified: self.modified,
        }
    }
}
