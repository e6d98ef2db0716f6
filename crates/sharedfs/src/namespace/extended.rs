//! Extended attributes a batch touches: what each was and is, while their names and values stay where they are, in
//! the copied log.

use super::names::place_in;
use cuesta_format::InodeNumber;
use cuesta_format::access_list::{ACCESS_LIST, DEFAULT_LIST};
use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;

/// Where an attribute's name is. Those of access control lists are in no log: a new inode takes over its
/// directory's.
#[derive(Clone, Copy, Debug)]
enum Name {
    InBatch(u32, u32),
    AccessList,
    DefaultList,
}

impl Name {
    fn of(batch: &[u8], name: &[u8]) -> Name {
        match name {
            ACCESS_LIST => Name::AccessList,
            DEFAULT_LIST => Name::DefaultList,
            _ => {
                let (start, length) = place_in(batch, name);
                Name::InBatch(start, length)
            }
        }
    }

    fn bytes(self, batch: &[u8]) -> &[u8] {
        match self {
            Name::InBatch(start, length) => &batch[start as usize..(start + length) as usize],
            Name::AccessList => ACCESS_LIST,
            Name::DefaultList => DEFAULT_LIST,
        }
    }

    fn len(self) -> u32 {
        match self {
            Name::InBatch(_, length) => length,
            Name::AccessList => ACCESS_LIST.len() as u32,
            Name::DefaultList => DEFAULT_LIST.len() as u32,
        }
    }
}

/// An extended attribute that was touched.
#[derive(Clone, Copy, Debug)]
pub struct Attribute {
    /// The inode that has it.
    pub inode: InodeNumber,
    name: Name,
    value: (u32, u32),
    /// The inode has it.
    pub is_there: bool,
    /// The inode had it before the batch.
    was_there: bool,
    /// Length of the value now.
    length: u32,
    /// The batch set or removed it.
    is_changed: bool,
}

impl Attribute {
    /// Its name, in the batch it was read from.
    #[must_use]
    pub fn name<'a>(&self, batch: &'a [u8]) -> &'a [u8] {
        self.name.bytes(batch)
    }

    /// The value the batch gave it, there as well.
    #[must_use]
    pub fn value<'a>(&self, batch: &'a [u8]) -> &'a [u8] {
        &batch[self.value.0 as usize..(self.value.0 + self.value.1) as usize]
    }

    /// Bytes its name and value take now.
    #[must_use]
    pub fn bytes(&self) -> u32 {
        if self.is_there { self.name.len() + self.length } else { 0 }
    }

    /// Whether the batch leaves another attribute than it found.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.is_changed && (self.is_there || self.was_there)
    }
}

/// All touched extended attributes.
#[derive(Debug, Default)]
pub struct Attributes {
    attributes: Vec<Attribute>,
    index: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Attributes {
    /// Forgets everything, keeping the memory.
    pub fn clear(&mut self) {
        self.attributes.clear();
        self.index.clear();
    }

    /// The attribute's number, if it was touched before.
    #[must_use]
    pub fn find(&self, batch: &[u8], inode: InodeNumber, name: &[u8]) -> Option<u32> {
        let hash = self.hasher.hash_one((inode, name));
        let same = |&at: &u32| {
            let attribute = &self.attributes[at as usize];
            attribute.inode == inode && attribute.name(batch) == name
        };
        self.index.find(hash, same).copied()
    }

    /// Adds one that was not touched before. Its value was `before` bytes long. `name` lies in `batch`, unless
    /// it is that of an access control list.
    pub fn add(&mut self, batch: &[u8], inode: InodeNumber, name: &[u8], before: Option<u32>) -> u32 {
        let hash = self.hasher.hash_one((inode, name));
        let at = self.attributes.len() as u32;
        self.attributes.push(Attribute {
            inode,
            name: Name::of(batch, name),
            value: (0, 0),
            is_there: before.is_some(),
            was_there: before.is_some(),
            length: before.unwrap_or(0),
            is_changed: false,
        });
        let (attributes, hasher) = (&self.attributes, &self.hasher);
        self.index.insert_unique(hash, at, |&at| {
            let attribute = &attributes[at as usize];
            hasher.hash_one((attribute.inode, attribute.name(batch)))
        });
        at
    }

    /// The attribute with a number.
    #[must_use]
    pub fn get(&self, at: u32) -> &Attribute {
        &self.attributes[at as usize]
    }

    /// Gives it a value, which lies in `batch`, or takes it away.
    pub fn set(&mut self, batch: &[u8], at: u32, value: Option<&[u8]>) {
        let attribute = &mut self.attributes[at as usize];
        attribute.is_changed = true;
        attribute.is_there = value.is_some();
        attribute.value = value.map_or((0, 0), |value| place_in(batch, value));
        attribute.length = attribute.value.1;
    }

    /// Those the batch leaves otherwise than it found them.
    pub fn changed(&self) -> impl Iterator<Item = &Attribute> {
        self.attributes.iter().filter(|attribute| attribute.is_changed())
    }

    /// How many were touched.
    #[must_use]
    pub fn touched(&self) -> usize {
        self.attributes.len()
    }
}
