//! The purpose of opening a store.

/// The purpose of opening a store: that decides about records of its identity which are missing or damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To serve it: a fast tier elsewhere must prove to be the store's.
    Serve,
    /// To repair it: a fast tier is believed by its owner and its superblock, and gets a new record.
    Repair,
    /// To look at it, or to remove it: nothing is written.
    Look,
}
