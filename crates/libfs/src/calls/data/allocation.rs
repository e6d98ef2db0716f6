//! What `fallocate` may be asked to do.

/// What `fallocate` does to a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Allocation {
    /// Ensures space, and extends the file to the range's end.
    Extend,
    /// Ensures space; the size stays.
    KeepSize,
    /// The range reads as zeros; the size stays.
    Punch,
    /// Like `Punch`; also ensures space, and extends the file to the range's end.
    Zero,
    /// Takes the range, of whole blocks, out of the file.
    Collapse,
    /// Inserts a range of whole blocks into the file.
    Insert,
}
