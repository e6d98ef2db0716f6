//! Shared mappings in the model: a store through one is a write, as far as the file reaches.

use super::{Body, InodeNumber, Model};
use crate::operations::operation::{PathText, Slot};
use crate::operations::sparse::Sparse;
use crate::operations::tree::join;
use rustix::io::Errno;

impl Model {
    /// Maps the file open in a slot.
    pub fn map(&mut self, slot: Slot) -> Result<(), Errno> {
        let inode = self.handle(slot)?.inode;
        self.mappings.insert(slot, inode);
        Ok(())
    }

    /// The file mapped by way of a slot, if it is still there.
    pub fn mapped(&self, slot: Slot) -> Option<InodeNumber> {
        self.mappings.get(&slot).copied().filter(|inode| self.inodes.contains_key(inode))
    }

    /// Stores bytes through a mapping; those behind the end are lost.
    pub fn store_mapped(&mut self, slot: Slot, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        let Some(inode) = self.mapped(slot) else { return Ok(()) };
        let content = self.content_mut(inode)?;
        let kept = content.size().saturating_sub(offset).min(bytes.len() as u64);
        content.write(offset, &bytes[..kept as usize]);
        Ok(())
    }

    /// Unmaps.
    pub fn unmap(&mut self, slot: Slot) {
        self.mappings.remove(&slot);
    }

    /// The content of a file.
    pub fn content(&self, inode: InodeNumber) -> Option<&Sparse> {
        match &self.inodes.get(&inode)?.body {
            Body::File(content) => Some(content),
            _ => None,
        }
    }

    /// Every path that leads to an inode.
    pub fn paths_to(&self, inode: InodeNumber) -> Vec<PathText> {
        let mut found = Vec::new();
        let mut folders = vec![(PathText::from("/"), self.root)];
        while let Some((path, folder)) = folders.pop() {
            let Body::Directory(directory) = &self.inodes[&folder].body else { continue };
            for (name, child) in &directory.entries {
                let path = join(&path, name);
                if *child == inode {
                    found.push(path.clone());
                }
                folders.push((path, *child));
            }
        }
        found
    }
}
