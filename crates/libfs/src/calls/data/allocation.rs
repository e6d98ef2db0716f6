//! What `fallocate` may be asked to do.

/// What `fallocate` does to a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Allocation {
    /// Makes sure of space, and that the file reaches to the range's end.
    Extend,
    /// Makes sure of space; the size stays.
    KeepSize,
    /// What the file has there reads as zeros; the size stays.
    Punch,
    /// As `Punch`, makes sure of space, and the file reaches to the range's end.
    Zero,
    /// Takes the range, of whole blocks, out of the file.
    Collapse,
    /// Makes room of whole blocks in the file.
    Insert,
}
