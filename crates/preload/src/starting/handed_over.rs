//! A library of the store that the loader was handed under another name.

/// A library of the store that the loader was handed under another name.
#[derive(Debug)]
pub struct HandedOver {
    /// Where the loader found it.
    pub folder: Vec<u8>,
    /// Where it would have found it.
    pub path: Vec<u8>,
    /// Which inode of the store it is.
    pub inode: u64,
}
