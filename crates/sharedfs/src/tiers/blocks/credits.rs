//! Space credits: every acknowledged entry can be digested (docs/semantics.md, Guarantees).
//!
//! Mechanism: a session debits blocks, at worst, from a limit SharedFS granted before it appends. The sum of the
//! blocks granted and not yet digested never exceeds the free blocks less a reserve. A digest turns a debit into
//! (at most as many) used blocks.
//!
//! Policy: the reserve, which lets delete, truncate and digest proceed on a full store.

use cuesta_format::BLOCK_BYTES;

/// Promises made to sessions, in blocks.
#[derive(Debug)]
pub struct Credits {
    outstanding: u64,
    reserve: u64,
}

impl Credits {
    /// For a tier of `blocks` blocks.
    #[must_use]
    pub fn new(blocks: u64) -> Credits {
        let small = ((2 << 20) / BLOCK_BYTES).min(blocks / 16);
        Credits { outstanding: 0, reserve: (blocks / 100).max(small).max(1) }
    }

    /// Blocks promised and not digested.
    #[must_use]
    pub fn outstanding(&self) -> u64 {
        self.outstanding
    }

    /// How much is there for sessions, promised or not, when `free` blocks are free.
    #[must_use]
    pub fn for_sessions(&self, free: u64) -> u64 {
        free.saturating_sub(self.reserve)
    }

    /// How much may still be promised when `free` blocks are free.
    #[must_use]
    pub fn available(&self, free: u64) -> u64 {
        free.saturating_sub(self.outstanding + self.reserve)
    }

    /// Promises blocks.
    pub fn grant(&mut self, blocks: u64) {
        self.outstanding += blocks;
    }

    /// Takes promised blocks back: they were digested, or their session is gone.
    pub fn settle(&mut self, blocks: u64) {
        debug_assert!(blocks <= self.outstanding);
        self.outstanding = self.outstanding.saturating_sub(blocks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_promised_than_is_free_beyond_the_reserve() {
        let mut credits = Credits::new(16_384);
        assert_eq!(credits.reserve, 512);
        assert_eq!(Credits::new(160).reserve, 10);
        assert_eq!(Credits::new(1 << 20).reserve, 10_485);
        assert_eq!(credits.available(1000), 488);
        credits.grant(400);
        assert_eq!(credits.available(1000), 88);
        credits.settle(400);
        assert_eq!(credits.available(100), 0);
    }
}
