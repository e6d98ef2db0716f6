//! Which inodes are open, counted here and shown to SharedFS.
//!
//! An inode that loses its last name stays while anybody has it open. This session's own opens it counts itself: an
//! unlink looks at the count. What other sessions' unlinks must know lies in the slots behind the client page
//! ([`cuesta_format::control`]): opening and closing takes no message, and SharedFS looks at the slots when it digests
//! the end of an inode's last name. It fenced this session before anybody could end that name; so an open that
//! SharedFS did not see finds the generation moved behind it, and is made again.

use crate::control::Told;
use crate::inode::Inode;
use crate::sync::{Arc, AtomicBool, AtomicUsize, Ordering};
use cuesta_format::control::{OPEN_FOR_WRITING, OPEN_SLOTS_FIRST, OPEN_SLOTS_MAX};
use cuesta_format::{FileKind, InodeNumber};
use libc::{O_ACCMODE, O_PATH, O_RDWR, O_WRONLY};

/// Slots tried before more of them are used.
const TRIES: usize = 16;
/// No slot was free.
const UNLISTED: usize = usize::MAX;

/// The session's slots.
#[derive(Debug)]
pub(crate) struct OpenSlots {
    told: Told,
    /// They are the parent's of this process, which uses them on.
    abandoned: AtomicBool,
    /// How many opens for writing this process has there or is about to: mostly none, and no slot is looked at.
    writers: AtomicUsize,
}

/// Counts an inode as open for as long as it lives.
#[derive(Debug)]
pub(crate) struct Opened {
    inode: Arc<Inode>,
    kind: FileKind,
    slots: Arc<OpenSlots>,
    slot: usize,
    writes: bool,
}

impl OpenSlots {
    pub(crate) fn new(told: Told) -> OpenSlots {
        OpenSlots { told, abandoned: AtomicBool::new(false), writers: AtomicUsize::new(0) }
    }

    /// From now on nothing is changed in them.
    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Release);
    }

    /// From now on nothing says that this session writes; answers what did.
    pub(crate) fn hide_writers(&self) -> Vec<(usize, u64)> {
        let used = self.told.page().open_slots.load(Ordering::Relaxed) as usize;
        let writer = |index| {
            let said = self.told.open_slot(index)?.load(Ordering::Relaxed);
            let hidden = said & OPEN_FOR_WRITING != 0 && self.replace(index, said, said & !OPEN_FOR_WRITING);
            hidden.then_some((index, said))
        };
        (0..used.min(OPEN_SLOTS_MAX)).filter_map(writer).collect()
    }

    /// It goes on after all; what other threads closed meanwhile stays closed.
    pub(crate) fn show_writers(&self, writers: &[(usize, u64)]) {
        for &(index, said) in writers {
            self.replace(index, said & !OPEN_FOR_WRITING, said);
        }
    }

    /// Whether they say that this session writes the inode, or cannot say.
    pub(crate) fn have_writer(&self, inode: InodeNumber) -> bool {
        let page = self.told.page();
        if self.writers.load(Ordering::SeqCst) == 0 {
            return page.open_unlisted.load(Ordering::SeqCst) != 0;
        }
        let used = page.open_slots.load(Ordering::Relaxed) as usize;
        let writes = |index| {
            let slot = self.told.open_slot(index);
            slot.is_some_and(|slot| slot.load(Ordering::SeqCst) == inode.0 | OPEN_FOR_WRITING)
        };
        (0..used.min(OPEN_SLOTS_MAX)).any(writes) || page.open_unlisted.load(Ordering::SeqCst) != 0
    }

    fn replace(&self, index: usize, from: u64, to: u64) -> bool {
        let Some(slot) = self.told.open_slot(index) else { return false };
        slot.compare_exchange(from, to, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// Puts what says that an inode is open into a free slot. `seed` tells opens of one inode apart.
    #[inline]
    fn take(&self, said: u64, seed: u32) -> usize {
        let key = (said ^ u64::from(seed) << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        loop {
            let used = self.told.page().open_slots.load(Ordering::Relaxed) as usize;
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
        self.told.page().open_slots.fetch_max(slots as u32, Ordering::SeqCst);
    }

    #[cold]
    fn take_any(&self, said: u64) -> usize {
        if let Some(index) = (0..OPEN_SLOTS_MAX).find(|&index| self.put(index, said)) {
            return index;
        }
        self.told.page().open_unlisted.fetch_add(1, Ordering::SeqCst);
        UNLISTED
    }

    /// Ordered before the look at the generation that follows.
    #[inline]
    fn put(&self, index: usize, said: u64) -> bool {
        let Some(slot) = self.told.open_slot(index) else { return false };
        slot.load(Ordering::Relaxed) == 0
            && slot.compare_exchange(0, said, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// Everything the session did to the inode is in its log by now.
    #[inline]
    fn release(&self, index: usize) {
        if self.abandoned.load(Ordering::Acquire) {
            return;
        }
        if index == UNLISTED {
            self.told.page().open_unlisted.fetch_sub(1, Ordering::Release);
        } else if let Some(slot) = self.told.open_slot(index) {
            slot.store(0, Ordering::Release);
        }
    }
}

impl Opened {
    /// One more of an inode. Call under its lock, while it is reachable.
    pub(crate) fn new(inode: &Arc<Inode>, kind: FileKind, flags: i32, slots: &Arc<OpenSlots>) -> Opened {
        let others = inode.opens.fetch_add(1, Ordering::SeqCst);
        Opened::listed(inode, kind, flags, slots, others)
    }

    /// The first one of an inode that was counted as it was made.
    pub(crate) fn made(inode: &Arc<Inode>, kind: FileKind, flags: i32, slots: &Arc<OpenSlots>) -> Opened {
        Opened::listed(inode, kind, flags, slots, 0)
    }

    fn listed(inode: &Arc<Inode>, kind: FileKind, flags: i32, slots: &Arc<OpenSlots>, seed: u32) -> Opened {
        let writes = flags & O_PATH == 0 && matches!(flags & O_ACCMODE, O_WRONLY | O_RDWR);
        let said = inode.number.0 | if writes { OPEN_FOR_WRITING } else { 0 };
        if writes {
            slots.writers.fetch_add(1, Ordering::SeqCst);
        }
        let slot = slots.take(said, seed);
        Opened { inode: Arc::clone(inode), kind, slots: Arc::clone(slots), slot, writes }
    }

    #[inline]
    pub(crate) fn inode(&self) -> &Arc<Inode> {
        &self.inode
    }

    #[inline]
    pub(crate) fn kind(&self) -> FileKind {
        self.kind
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.slots.release(self.slot);
        if self.writes {
            self.slots.writers.fetch_sub(1, Ordering::SeqCst);
        }
        self.inode.opens.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuesta_format::control::CLIENT_BYTES;
    use cuesta_media::wait::sealed_memfd;

    fn slots() -> Arc<OpenSlots> {
        let file = sealed_memfd("test", CLIENT_BYTES as u64).unwrap();
        Arc::new(OpenSlots::new(Told::map(&file).unwrap()))
    }

    fn listed(slots: &OpenSlots) -> Vec<u64> {
        let all = (0..OPEN_SLOTS_MAX).map(|index| slots.told.open_slot(index).unwrap());
        all.map(|slot| slot.load(Ordering::Relaxed)).filter(|&number| number != 0).collect()
    }

    #[test]
    fn what_is_open_is_listed_in_the_slots_that_are_used() {
        let slots = slots();
        let inode = Arc::new(Inode::unknown(InodeNumber(77), InodeNumber::NONE));
        let one = Opened::new(&inode, FileKind::File, O_RDWR, &slots);
        let two = Opened::new(&inode, FileKind::File, O_RDWR | O_PATH, &slots);
        let mut seen = listed(&slots);
        seen.sort_unstable();
        assert_eq!(seen, [77, 77 | OPEN_FOR_WRITING]);
        assert!(one.slot < OPEN_SLOTS_FIRST && two.slot < OPEN_SLOTS_FIRST);
        assert_eq!(slots.told.page().open_slots.load(Ordering::Relaxed), OPEN_SLOTS_FIRST as u32);
        drop(one);
        assert_eq!(listed(&slots), [77]);
        slots.abandon();
        drop(two);
        assert_eq!(listed(&slots), [77]);
    }

    #[test]
    fn who_writes_an_inode_is_told_for_as_long_as_it_is_open() {
        let slots = slots();
        let inode = Arc::new(Inode::unknown(InodeNumber(7), InodeNumber::NONE));
        let reader = Opened::new(&inode, FileKind::File, 0, &slots);
        assert!(!slots.have_writer(InodeNumber(7)));
        let writers = [O_WRONLY, O_RDWR].map(|flags| Opened::new(&inode, FileKind::File, flags, &slots));
        assert!(slots.have_writer(InodeNumber(7)) && !slots.have_writer(InodeNumber(8)));
        let [one, other] = writers;
        drop(one);
        assert!(slots.have_writer(InodeNumber(7)));
        drop(other);
        assert!(!slots.have_writer(InodeNumber(7)));
        drop(reader);
    }

    /// As long as the count says that there is none, nobody looks at the slots.
    #[test]
    fn only_who_writes_counts_as_a_writer() {
        let slots = slots();
        let inode = Arc::new(Inode::unknown(InodeNumber(7), InodeNumber::NONE));
        let open = |flags| Opened::new(&inode, FileKind::File, flags, &slots);
        let count = || slots.writers.load(Ordering::SeqCst);
        let writer = open(O_RDWR);
        drop([open(0), open(O_RDWR | O_PATH)]);
        assert!(slots.have_writer(InodeNumber(7)), "who closes and did not write takes nobody's count");
        let hidden = slots.hide_writers();
        assert!(!slots.have_writer(InodeNumber(7)));
        slots.show_writers(&hidden);
        assert!(slots.have_writer(InodeNumber(7)));
        let made = Opened::made(&inode, FileKind::File, O_WRONLY, &slots);
        assert_eq!(count(), 2);
        drop((writer, made));
        assert_eq!(count(), 0);

        // Of one without a slot nobody can tell which inode it writes.
        let all: Vec<Opened> = (0..OPEN_SLOTS_MAX).map(|_| open(0)).collect();
        let unlisted = open(O_WRONLY);
        assert!(slots.have_writer(InodeNumber(7)) && slots.have_writer(InodeNumber(8)));
        drop((unlisted, all));
        assert!(!slots.have_writer(InodeNumber(7)) && count() == 0);
    }

    #[test]
    fn more_slots_are_used_when_they_are_needed_and_what_finds_none_is_counted() {
        let slots = slots();
        let inode = Arc::new(Inode::unknown(InodeNumber(5), InodeNumber::NONE));
        let open = |_| Opened::new(&inode, FileKind::File, 0, &slots);
        let all: Vec<Opened> = (0..OPEN_SLOTS_MAX + 3).map(open).collect();
        assert_eq!(listed(&slots).len(), OPEN_SLOTS_MAX);
        assert_eq!(slots.told.page().open_slots.load(Ordering::Relaxed), OPEN_SLOTS_MAX as u32);
        assert_eq!(slots.told.page().open_unlisted.load(Ordering::Relaxed), 3);
        drop(all);
        assert!(listed(&slots).is_empty());
        assert_eq!(slots.told.page().open_unlisted.load(Ordering::Relaxed), 0);
    }
}
