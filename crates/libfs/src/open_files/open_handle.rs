//! The count of opens of an inode: it rises while an [`OpenHandle`] lives, and a slot shows the open to
//! SharedFS.

use crate::cache::inode::Inode;
use crate::session::open_slots::OpenSlots;
use crate::sync::{Arc, Ordering};
use cuesta_format::FileKind;
use cuesta_format::control::OPEN_FOR_WRITING;
use libc::{O_ACCMODE, O_PATH, O_RDWR, O_WRONLY};

/// Counts an inode as open for as long as it lives, and shows the open in a slot.
#[derive(Debug)]
pub(crate) struct OpenHandle {
    inode: Arc<Inode>,
    kind: FileKind,
    slots: Arc<OpenSlots>,
    slot: usize,
    writes: bool,
}

impl OpenHandle {
    /// One more open of an inode. Call with the inode locked and reachable.
    pub(crate) fn new(inode: &Arc<Inode>, kind: FileKind, flags: i32, slots: &Arc<OpenSlots>) -> OpenHandle {
        let others = inode.opens.fetch_add(1, Ordering::SeqCst);
        OpenHandle::listed(inode, kind, flags, slots, others)
    }

    /// The first open of a new inode, which its maker counted already.
    pub(crate) fn made(inode: &Arc<Inode>, kind: FileKind, flags: i32, slots: &Arc<OpenSlots>) -> OpenHandle {
        OpenHandle::listed(inode, kind, flags, slots, 0)
    }

    fn listed(
        inode: &Arc<Inode>,
        kind: FileKind,
        flags: i32,
        slots: &Arc<OpenSlots>,
        seed: u32,
    ) -> OpenHandle {
        let writes = flags & O_PATH == 0 && matches!(flags & O_ACCMODE, O_WRONLY | O_RDWR);
        let said = inode.number.0 | if writes { OPEN_FOR_WRITING } else { 0 };
        if writes {
            slots.writers.fetch_add(1, Ordering::SeqCst);
        }
        let slot = slots.take(said, seed);
        OpenHandle { inode: Arc::clone(inode), kind, slots: Arc::clone(slots), slot, writes }
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

impl Drop for OpenHandle {
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
    use crate::session::control::ClientMapping;
    use cuesta_format::InodeNumber;
    use cuesta_format::control::CLIENT_BYTES;
    use cuesta_format::control::OPEN_SLOTS_FIRST;
    use cuesta_format::control::OPEN_SLOTS_MAX;
    use cuesta_media::wait::sealed_memfd;

    fn slots() -> Arc<OpenSlots> {
        let file = sealed_memfd("test", CLIENT_BYTES as u64).unwrap();
        Arc::new(OpenSlots::new(ClientMapping::map(&file).unwrap()))
    }

    fn listed(slots: &OpenSlots) -> Vec<u64> {
        let all = (0..OPEN_SLOTS_MAX).map(|index| slots.client_page.open_slot(index).unwrap());
        all.map(|slot| slot.load(Ordering::Relaxed)).filter(|&number| number != 0).collect()
    }

    #[test]
    fn open_inodes_are_listed_in_the_used_slots() {
        let slots = slots();
        let inode = Arc::new(Inode::unknown(InodeNumber(77), InodeNumber::NONE));
        let one = OpenHandle::new(&inode, FileKind::File, O_RDWR, &slots);
        let two = OpenHandle::new(&inode, FileKind::File, O_RDWR | O_PATH, &slots);
        let mut seen = listed(&slots);
        seen.sort_unstable();
        assert_eq!(seen, [77, 77 | OPEN_FOR_WRITING]);
        assert!(one.slot < OPEN_SLOTS_FIRST && two.slot < OPEN_SLOTS_FIRST);
        assert_eq!(slots.client_page.page().open_slots.load(Ordering::Relaxed), OPEN_SLOTS_FIRST as u32);
        drop(one);
        assert_eq!(listed(&slots), [77]);
        slots.abandon();
        drop(two);
        assert_eq!(listed(&slots), [77]);
    }

    #[test]
    fn an_inode_has_a_writer_for_as_long_as_it_is_open_for_writing() {
        let slots = slots();
        let inode = Arc::new(Inode::unknown(InodeNumber(7), InodeNumber::NONE));
        let reader = OpenHandle::new(&inode, FileKind::File, 0, &slots);
        assert!(!slots.have_writer(InodeNumber(7)));
        let writers = [O_WRONLY, O_RDWR].map(|flags| OpenHandle::new(&inode, FileKind::File, flags, &slots));
        assert!(slots.have_writer(InodeNumber(7)) && !slots.have_writer(InodeNumber(8)));
        let [one, other] = writers;
        drop(one);
        assert!(slots.have_writer(InodeNumber(7)));
        drop(other);
        assert!(!slots.have_writer(InodeNumber(7)));
        drop(reader);
    }

    /// As long as the count of writers is zero, no search looks at the slots.
    #[test]
    fn only_opens_for_writing_count_as_writers() {
        let slots = slots();
        let inode = Arc::new(Inode::unknown(InodeNumber(7), InodeNumber::NONE));
        let open = |flags| OpenHandle::new(&inode, FileKind::File, flags, &slots);
        let count = || slots.writers.load(Ordering::SeqCst);
        let writer = open(O_RDWR);
        drop([open(0), open(O_RDWR | O_PATH)]);
        assert!(
            slots.have_writer(InodeNumber(7)),
            "closing a file that was not open for writing takes no writer's count"
        );
        let hidden = slots.hide_writers();
        assert!(!slots.have_writer(InodeNumber(7)));
        slots.show_writers(&hidden);
        assert!(slots.have_writer(InodeNumber(7)));
        let made = OpenHandle::made(&inode, FileKind::File, O_WRONLY, &slots);
        assert_eq!(count(), 2);
        drop((writer, made));
        assert_eq!(count(), 0);

        // An open without a slot does not show which inode it writes.
        let all: Vec<OpenHandle> = (0..OPEN_SLOTS_MAX).map(|_| open(0)).collect();
        let unlisted = open(O_WRONLY);
        assert!(slots.have_writer(InodeNumber(7)) && slots.have_writer(InodeNumber(8)));
        drop((unlisted, all));
        assert!(!slots.have_writer(InodeNumber(7)) && count() == 0);
    }

    #[test]
    fn slots_grow_as_needed_and_opens_without_one_are_counted() {
        let slots = slots();
        let inode = Arc::new(Inode::unknown(InodeNumber(5), InodeNumber::NONE));
        let open = |_| OpenHandle::new(&inode, FileKind::File, 0, &slots);
        let all: Vec<OpenHandle> = (0..OPEN_SLOTS_MAX + 3).map(open).collect();
        assert_eq!(listed(&slots).len(), OPEN_SLOTS_MAX);
        assert_eq!(slots.client_page.page().open_slots.load(Ordering::Relaxed), OPEN_SLOTS_MAX as u32);
        assert_eq!(slots.client_page.page().open_unlisted.load(Ordering::Relaxed), 3);
        drop(all);
        assert!(listed(&slots).is_empty());
        assert_eq!(slots.client_page.page().open_unlisted.load(Ordering::Relaxed), 0);
    }
}
