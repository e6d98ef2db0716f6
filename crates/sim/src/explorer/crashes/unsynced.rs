//! What programs stored through shared mappings and did not sync: words of eight bytes, each of which a crash may leave
//! as it was at the last msync, or as any store since has left it. Whatever else changes such a word changes all that it
//! may be.

use super::step::Step;
use crate::model::{InodeNumber, Model};
use crate::operations::operation::Slot;
use crate::operations::tree::Tree;
use std::collections::BTreeMap;

/// What reaches the file together at the least.
const WORD: u64 = 8;

/// All that a word may be, its newest value last.
type Versions = Vec<[u8; WORD as usize]>;

/// The words of every file.
#[derive(Clone, Debug, Default)]
pub(in crate::explorer) struct Unsynced {
    of: BTreeMap<InodeNumber, BTreeMap<u64, Versions>>,
}

fn word(model: &Model, inode: InodeNumber, number: u64) -> [u8; WORD as usize] {
    let mut bytes = [0; WORD as usize];
    if let Some(content) = model.content(inode) {
        let read = content.read(number * WORD, WORD);
        bytes[..read.len()].copy_from_slice(&read);
    }
    bytes
}

impl Unsynced {
    /// Whether everything is synced.
    pub(in crate::explorer) fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// A step led from one model to the other.
    pub(in crate::explorer) fn note(&mut self, step: &Step, before: &Model, after: &Model) {
        match step {
            Step::StoreMapped(_, slot, offset, data) => {
                self.stored(*slot, *offset, data.length as usize, before, after);
            }
            Step::SyncMapped(_, slot) => self.synced(*slot, after),
            // Of no file there is anything left to be synced.
            Step::FindNoneMapped(_) => self.of.clear(),
            _ => self.called(before, after),
        }
    }

    /// A store through a mapping led from one model to the other.
    fn stored(&mut self, slot: Slot, offset: u64, bytes: usize, before: &Model, after: &Model) {
        let Some(inode) = after.mapped(slot) else { return };
        let words = self.of.entry(inode).or_default();
        for number in offset / WORD..(offset + bytes as u64).div_ceil(WORD) {
            let versions = words.entry(number).or_insert_with(|| vec![word(before, inode, number)]);
            versions.push(word(after, inode, number));
        }
    }

    /// The file was synced through a mapping.
    fn synced(&mut self, slot: Slot, model: &Model) {
        if let Some(inode) = model.mapped(slot) {
            self.of.remove(&inode);
        }
    }

    /// Another call led from one model to the other.
    fn called(&mut self, before: &Model, after: &Model) {
        self.of.retain(|inode, _| after.content(*inode).is_some());
        for (inode, words) in &mut self.of {
            for (number, versions) in words {
                let (old, new) = (word(before, *inode, *number), word(after, *inode, *number));
                for version in versions {
                    for at in (0..WORD as usize).filter(|at| old[*at] != new[*at]) {
                        version[at] = new[at];
                    }
                }
            }
        }
    }

    /// `tree`, which is that of `model`, with what `found` has of these words where it may have that.
    pub(in crate::explorer) fn allowed(&self, model: &Model, tree: &Tree, found: &Tree) -> Tree {
        let mut tree = tree.clone();
        for (inode, words) in &self.of {
            for path in model.paths_to(*inode) {
                for (number, versions) in words {
                    tree.take_word(&path, number * WORD, versions, found);
                }
            }
        }
        tree
    }
}
