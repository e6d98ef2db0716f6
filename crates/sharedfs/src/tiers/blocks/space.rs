//! Blocks and promises, behind one lock.

use super::allocator::Allocator;
use super::credits::Credits;

/// Blocks and promises; taken for placing and for committing, never while a log is read.
#[derive(Debug)]
pub struct Space {
    /// Blocks.
    pub allocator: Allocator,
    /// Promises.
    pub credits: Credits,
}
