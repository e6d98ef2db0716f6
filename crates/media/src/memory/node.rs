//! A memory node, and asking the kernel to take a file's memory from one.

use super::shared::SharedMemory;
use std::fmt;
use syscalls::{Sysno, raw_syscall};

/// The kernel numbers at most so many nodes (`CONFIG_NODES_SHIFT` is 10 at most).
pub(super) const NODES_MAX: u32 = 1024;
/// `MPOL_PREFERRED`: another node, where this one is full.
const PREFERRED: usize = 1;
/// A memory node, as the kernel numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Node(pub u32);

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Has the file that is mapped get the memory it has not got yet from a node, while that has some. A tmpfs remembers it with the file.
pub(crate) fn prefer(memory: &SharedMemory, node: Node) {
    if node.0 >= NODES_MAX {
        return;
    }
    let mut nodes = [0_u64; NODES_MAX as usize / 64];
    nodes[node.0 as usize / 64] = 1 << (node.0 % 64);
    // SAFETY: the range is mapped, of which no byte changes, and the kernel reads the set of nodes (one bit less than is said).
    unsafe {
        let (start, len, bits) = (memory.as_ptr(), memory.len(), NODES_MAX + 1);
        raw_syscall!(Sysno::mbind, start, len, PREFERRED, nodes.as_ptr(), bits, 0)
    };
}
