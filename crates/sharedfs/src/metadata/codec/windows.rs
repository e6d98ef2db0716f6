//! The table of windows: session and address of the first block, and the blocks that the session may still name.

use super::keys::{Table, pair_key};
use crate::metadata::journal::Redo;
use std::collections::BTreeMap;

/// The changes of a transaction to the table, by session and address.
pub(crate) type WindowChanges = BTreeMap<(u64, u64), Option<Vec<u8>>>;

/// Adds the changes to those of the transaction.
pub(crate) fn gather(changes: &WindowChanges, redo: &mut Redo) {
    for (&(session, address), blocks) in changes {
        redo.push(Table::Windows, &pair_key(session, address), blocks.as_deref());
    }
}
