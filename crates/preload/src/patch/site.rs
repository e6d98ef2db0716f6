//! A system call instruction, and the bytes around it.

/// A number the sweep could not tell.
pub const UNKNOWN_NUMBER: u16 = u16::MAX;

/// One system call instruction and the bytes around it that a jump replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// First replaced byte, from the start of the image.
    pub start: u32,
    /// Replaced bytes, the `syscall` included.
    pub length: u8,
    /// Where in them the `syscall` stands.
    pub syscall: u8,
    /// The number, if straight-line code sets it to a constant, else [`UNKNOWN_NUMBER`].
    pub number: u16,
    /// Where in them displacements relative to the instruction pointer stand; 0 for none.
    pub relative: [u8; 2],
}
