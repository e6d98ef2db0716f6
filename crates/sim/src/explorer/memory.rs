//! What recovery found in the states that were recovered, for all the runs that can come to equal ones: those whose
//! workloads begin alike, and recoveries that crash.
//!
//! A state is recovered once; after that, whoever comes to it is told what was found. This rests on recovery depending
//! on nothing but the state and what the [`Subject`](super::Subject) says are its circumstances. Results are many
//! times the same, and kept once.

use super::image::ImageHash;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::rc::Rc;

/// Different results kept; with more of them everything is forgotten, which costs time and nothing else.
const RESULTS_MAX: usize = 4000;

/// What one recovery came to.
pub(super) type Recovery<F> = Rc<Result<F, String>>;

/// See the head of the file.
pub struct Memory<F> {
    of_state: HashMap<(ImageHash, u64), Recovery<F>>,
    results: HashSet<Recovery<F>>,
}

impl<F> Default for Memory<F> {
    fn default() -> Memory<F> {
        Memory { of_state: HashMap::new(), results: HashSet::new() }
    }
}

impl<F: Eq + Hash> Memory<F> {
    /// What recovering `image` in these circumstances came to.
    pub(super) fn recall(&self, image: ImageHash, circumstances: u64) -> Option<Recovery<F>> {
        self.of_state.get(&(image, circumstances)).cloned()
    }

    /// Keeps it.
    pub(super) fn keep(
        &mut self,
        image: ImageHash,
        circumstances: u64,
        found: Result<F, String>,
    ) -> Recovery<F> {
        if self.results.len() >= RESULTS_MAX {
            *self = Memory::default();
        }
        let found = Rc::new(found);
        let found = match self.results.get(&found) {
            Some(equal) => Rc::clone(equal),
            None => {
                self.results.insert(Rc::clone(&found));
                found
            }
        };
        self.of_state.insert((image, circumstances), Rc::clone(&found));
        found
    }
}
