//! Which inodes are open, counted here and shown to SharedFS.
//!
//! An inode that loses its last name stays while any process has it open. This session counts its own opens,
//! and its unlink looks at the count. Other sessions' unlinks need the slots behind the client page
//! ([`cuesta_format::control`]). Opening and closing takes no message: SharedFS reads the slots when it
//! digests the removal of an inode's last name. Before another session could remove that name, SharedFS had
//! fenced this session. So an open that SharedFS did not see finds that the generation has moved, and is
//! tried again.

use crate::session::control::ClientMapping;
use crate::sync::{AtomicBool, AtomicUsize, Ordering};
use cuesta_format::InodeNumber;
use cuesta_format::control::{OPEN_FOR_WRITING, OPEN_SLOTS_FIRST, OPEN_SLOTS_MAX};

/// Slots that an open tries before the session uses more of them.
const TRIES: usize = 16;

/// The open found no free slot.
const UNLISTED: usize = usize::MAX;

/// The session's slots.
#[derive(Debug)]
pub(crate) struct OpenSlots {
    pub(crate) client_page: ClientMapping,
    /// This process is a child of fork, and the slots belong to its parent.
    abandoned: AtomicBool,
    /// How many opens for writing this process has or is about to have. Mostly there are none, and a search
    /// of the slots is saved.
    pub(crate) writers: AtomicUsize,
}

impl OpenSlots {
    pub(crate) fn new(client_page: ClientMapping) -> OpenSlots {
        OpenSlots { client_page, abandoned: AtomicBool::new(false), writers: AtomicUsize::new(0) }
    }

    /// From now on this process changes no slot.
    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Release);
    }

    /// Hides from SharedFS that this session writes. Answers the slots that said so.
    pub(crate) fn hide_writers(&self) -> Vec<(usize, u64)> {
        let used = self.client_page.page().open_slots.load(Ordering::Relaxed) as usize;
        let writer = |index| {
            let said = self.client_page.open_slot(index)?.load(Ordering::Relaxed);
            let hidden = said & OPEN_FOR_WRITING != 0 && self.replace(index, said, said & !OPEN_FOR_WRITING);
            hidden.then_some((index, said))
        };
        (0..used.min(OPEN_SLOTS_MAX)).filter_map(writer).collect()
    }

    /// Shows the writers again. A file that another thread closed meanwhile stays closed.
    pub(crate) fn show_writers(&self, writers: &[(usize, u64)]) {
        for &(index, said) in writers {
            self.replace(index, said & !OPEN_FOR_WRITING, said);
        }
    }

    /// Whether a slot says that this session writes the inode, or opens without a slot make it uncertain.
    pub(crate) fn have_writer(&self, inode: InodeNumber) -> bool {
        let page = self.client_page.page();
        if self.writers.load(Ordering::SeqCst) == 0 {
            return page.open_unlisted.load(Ordering::SeqCst) != 0;
        }
        let used = page.open_slots.load(Ordering::Relaxed) as usize;
        let writes = |index| {
            let slot = self.client_page.open_slot(index);
            slot.is_some_and(|slot| slot.load(Ordering::SeqCst) == inode.0 | OPEN_FOR_WRITING)
        };
        (0..used.min(OPEN_SLOTS_MAX)).any(writes) || page.open_unlisted.load(Ordering::SeqCst) != 0
    }

    fn replace(&self, index: usize, from: u64, to: u64) -> bool {
        let Some(slot) = self.client_page.open_slot(index) else { return false };
        slot.compare_exchange(from, to, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// Puts the word `said`, an open of an inode, into a free slot. `seed` spreads opens of one inode.
    #[inline]
    pub(crate) fn take(&self, said: u64, seed: u32) -> usize {
        let key = (said ^ u64::from(seed) << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        loop {
            let used = self.client_page.page().open_slots.load(Ordering::Relaxed) as usize;
            if used < OPEN_SLOTS_FIRST {
                self.use_more(OPEN_SLOTS_FIRST);
                continue;
            }
            let used = used.min(OPEN_SLOTS_MAX);
            let start = (key >> 32) as usize;
            for index in start..start + TRIES {
                let index = index % used;
                if self.put(index, said) {
                    return index;
                }
            }
            if used == OPEN_SLOTS_MAX {
                return self.take_any(said);
            }
            self.use_more(2 * used);
        }
    }

    #[cold]
    fn use_more(&self, slots: usize) {
        self.client_page.page().open_slots.fetch_max(slots as u32, Ordering::SeqCst);
    }

    #[cold]
    fn take_any(&self, said: u64) -> usize {
        if let Some(index) = (0..OPEN_SLOTS_MAX).find(|&index| self.put(index, said)) {
            return index;
        }
        self.client_page.page().open_unlisted.fetch_add(1, Ordering::SeqCst);
        UNLISTED
    }

    /// This store is ordered before the look at the generation that follows.
    #[inline]
    fn put(&self, index: usize, said: u64) -> bool {
        let Some(slot) = self.client_page.open_slot(index) else { return false };
        slot.load(Ordering::Relaxed) == 0
            && slot.compare_exchange(0, said, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// The log holds everything that the session did to the inode by now.
    #[inline]
    pub(crate) fn release(&self, index: usize) {
        if self.abandoned.load(Ordering::Acquire) {
            return;
        }
        if index == UNLISTED {
            self.client_page.page().open_unlisted.fetch_sub(1, Ordering::Release);
        } else if let Some(slot) = self.client_page.open_slot(index) {
            slot.store(0, Ordering::Release);
        }
    }
}
