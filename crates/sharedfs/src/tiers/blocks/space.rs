//! Blocks and promises, behind one lock.

use super::allocator::Allocator;
use super::credits::Credits;
use crate::tiers::windows::Windows;

/// Blocks and promises; taken for placing and for committing, never while a log is read.
#[derive(Debug)]
pub struct Space {
    /// Blocks.
    pub allocator: Allocator,
    /// Promises.
    pub credits: Credits,
    /// Blocks that sessions may write, taken out of the free ones.
    pub windows: Windows,
}
