//! Memory that a burst of work left free goes back to the kernel when the daemon is idle.
//!
//! For each inode and name of a batch a digest makes and drops some hundred bytes, beside those that stay. The C
//! library keeps the pages around the latter, on each of the heaps that threads got from it. Behind a million new
//! files that was a hundred MiB.

use std::sync::atomic::{AtomicU64, Ordering};

/// So many entries digested leave something that is worth the milliseconds it takes to look for it.
const ENTRIES_LEAST: u64 = 16 << 10;

/// Entries digested when memory was last given back.
#[derive(Debug, Default)]
pub(crate) struct IdleMemory {
    entries: AtomicU64,
}

impl IdleMemory {
    /// Gives back what is free if much was digested since that was last done, `entries` in all.
    pub(crate) fn give_back(&self, entries: u64) {
        if entries.saturating_sub(self.entries.load(Ordering::Relaxed)) < ENTRIES_LEAST {
            return;
        }
        self.entries.store(entries, Ordering::Relaxed);
        // SAFETY: any thread may call it at any time; it touches nothing that is in use. Its answer, whether
        // there was something, is of no interest.
        unsafe { libc::malloc_trim(0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many pages that these pieces touch are resident, as far as the kernel still maps them.
    fn resident(pieces: &[usize]) -> usize {
        let is_resident = |&&at: &&usize| {
            let mut page = 0_u8;
            let start = (at & !4095) as *mut libc::c_void;
            // SAFETY: it looks at what is mapped there, whatever that is, and writes one byte.
            unsafe { libc::mincore(start, 4096, &raw mut page) == 0 && page & 1 == 1 }
        };
        pieces.iter().filter(is_resident).count()
    }

    #[test]
    fn memory_between_pieces_that_stay_is_given_back() {
        const PIECE: usize = 4000;
        let mut pieces: Vec<_> = (0..60_000).map(|_| Some(vec![1_u8; PIECE])).collect();
        // Each tenth piece stays, so that no end of the heap is free by itself.
        let places: Vec<usize> = pieces.iter().flatten().map(|piece| piece.as_ptr().addr()).collect();
        pieces.iter_mut().enumerate().filter(|(n, _)| n % 10 > 0).for_each(|(_, piece)| drop(piece.take()));
        let before = resident(&places);
        let memory = IdleMemory::default();
        memory.give_back(ENTRIES_LEAST - 1);
        assert!(resident(&places) > before * 3 / 4, "nothing was digested that would be worth it");
        memory.give_back(ENTRIES_LEAST);
        let after = resident(&places);
        assert!(after < before / 2, "{after} pages of {before} are left");
        assert_eq!(pieces.iter().flatten().map(|piece| usize::from(piece[PIECE - 1])).sum::<usize>(), 6000);
    }
}
