//! Directory entries a batch touches.
//!
//! The names themselves stay where they are, in the copied log; the table keeps their places and hashes, so
//! that a new name costs no allocation.

use crate::metadata::Dirent;
use cuesta_format::InodeNumber;
use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;

/// A directory entry that was touched.
#[derive(Clone, Copy, Debug)]
pub struct Name {
    /// The directory.
    pub parent: InodeNumber,
    start: u32,
    length: u32,
    /// The inode the name stood for before the batch.
    pub before: Option<Dirent>,
    /// That it stood for nothing was not looked up: the commit finds out.
    pub taken_on_trust: bool,
    /// The inode it stands for now.
    pub now: Option<Dirent>,
}

impl Name {
    /// The name's bytes, in the batch it was read from.
    #[must_use]
    pub fn bytes<'a>(&self, batch: &'a [u8]) -> &'a [u8] {
        &batch[self.start as usize..(self.start + self.length) as usize]
    }
}

/// All touched directory entries.
#[derive(Debug, Default)]
pub struct Names {
    names: Vec<Name>,
    index: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

/// The place of `part`, which is a piece of `whole`.
pub fn place_in(whole: &[u8], part: &[u8]) -> (u32, u32) {
    let start = (part.as_ptr() as usize).wrapping_sub(whole.as_ptr() as usize);
    debug_assert!(start + part.len() <= whole.len());
    (start as u32, part.len() as u32)
}

impl Names {
    /// Forgets everything, keeping the memory.
    pub fn clear(&mut self) {
        self.names.clear();
        self.index.clear();
    }

    /// The entry's number, if it was touched before.
    #[must_use]
    pub fn find(&self, batch: &[u8], parent: InodeNumber, name: &[u8]) -> Option<u32> {
        let hash = self.hasher.hash_one((parent, name));
        let same = |&at: &u32| {
            let entry = &self.names[at as usize];
            entry.parent == parent && entry.bytes(batch) == name
        };
        self.index.find(hash, same).copied()
    }

    /// Adds an entry that was not touched before; `name` lies in `batch`.
    pub fn add(
        &mut self,
        batch: &[u8],
        parent: InodeNumber,
        name: &[u8],
        before: Option<Dirent>,
        taken_on_trust: bool,
    ) -> u32 {
        let hash = self.hasher.hash_one((parent, name));
        let (start, length) = place_in(batch, name);
        let at = self.names.len() as u32;
        self.names.push(Name { parent, start, length, before, taken_on_trust, now: before });
        let (names, hasher) = (&self.names, &self.hasher);
        self.index.insert_unique(hash, at, |&at| {
            let entry = &names[at as usize];
            hasher.hash_one((entry.parent, entry.bytes(batch)))
        });
        at
    }

    /// The entry with a number.
    #[must_use]
    pub fn get(&self, at: u32) -> &Name {
        &self.names[at as usize]
    }

    /// Says what an entry stands for from now on.
    pub fn set(&mut self, at: u32, now: Option<Dirent>) {
        self.names[at as usize].now = now;
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> &[Name] {
        &self.names
    }
}
