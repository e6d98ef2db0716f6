//! A call that was made: when, by which process, and its answer.

use super::answer::Answer;
use super::ledger::Instant;
use crate::operations::operation::{Operation, PathText};
use crate::programs::doors::Door;

/// A call that was made.
#[derive(Clone, Debug)]
pub struct Past {
    /// The process that made it.
    pub lane: usize,
    /// By which door.
    pub door: Door,
    /// The operation.
    pub operation: Operation,
    /// When it began.
    pub begun: Instant,
    /// When it returned, or when its process was seen dead.
    pub ended: Instant,
    /// `None`: its process was killed before it returned.
    pub answer: Option<Answer>,
    /// The answer for people.
    pub text: String,
}

impl Past {
    /// Wherever it is put in order: what failed, or only looks.
    pub(super) fn changes_nothing(&self) -> bool {
        self.answer.is_some_and(|answer| answer.errno != 0 || !self.operation.is_mutation())
    }

    /// A rename that the kernel may have answered itself: it looks up two names one after the other, and moves nothing if they are of
    /// one file, as when another has just moved it. Then there is something of the second name.
    pub(super) fn may_have_moved_nothing(&self) -> Option<&PathText> {
        match &self.operation {
            Operation::Rename { to, .. } | Operation::RenameExchange { to, .. }
                if self.door == Door::Mount && self.answer.is_some_and(|answer| answer.errno == 0) =>
            {
                Some(to)
            }
            _ => None,
        }
    }
}
