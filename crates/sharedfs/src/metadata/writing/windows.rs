//! Windows, as a transaction changes them.

use super::transaction::Transaction;
use cuesta_format::{BlockAddress, SessionId};

impl Transaction {
    /// Notes which blocks of a window its session may still name; `None`: there are none.
    pub fn put_window(&mut self, session: SessionId, address: BlockAddress, blocks: Option<Vec<u8>>) {
        self.windows.insert((session.0, address.0), blocks);
    }
}
