//! Windows, as a transaction changes them: which blocks their sessions may still name.

use super::transaction::Transaction;
use crate::metadata::codec::{Table, pair_key};
use crate::metadata::journal::Redo;
use cuesta_format::{BlockAddress, SessionId};
use std::collections::BTreeMap;

/// The changes of a transaction to the table, by session and address.
pub(super) type WindowChanges = BTreeMap<(u64, u64), Option<Vec<u8>>>;

/// Adds the changes to those of the transaction.
pub(super) fn gather(changes: &WindowChanges, redo: &mut Redo) {
    for (&(session, address), blocks) in changes {
        redo.push(Table::Windows, &pair_key(session, address), blocks.as_deref());
    }
}

impl Transaction {
    /// Notes which blocks of a window its session may still name; `None`: there are none.
    pub fn put_window(&mut self, session: SessionId, address: BlockAddress, blocks: Option<Vec<u8>>) {
        self.windows.insert((session.0, address.0), blocks);
    }
}
