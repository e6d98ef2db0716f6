//! The control pages, mapped by the client: the notice page, which it reads, and the client page, which it
//! writes. Also the page that all sessions share.

use cuesta_format::Medium;
use cuesta_format::control::{
    CLIENT_BYTES, CONTROL_BYTES, ClientPage, NoticePage, OPEN_SLOTS_MAX, OPEN_SLOTS_OFFSET,
    SEEN_READS_OFFSET, StorePage,
};
use cuesta_media::{Mapping, MediaError, Protection};
use rustix::fd::OwnedFd;
use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// The notice page: what SharedFS tells this session.
#[derive(Debug)]
pub(crate) struct NoticeMapping(Mapping);

impl NoticeMapping {
    pub(crate) fn map(file: &OwnedFd) -> Result<NoticeMapping, MediaError> {
        Ok(NoticeMapping(map(file, Protection::ReadOnly)?))
    }

    /// Maps another page in place of this one.
    pub(crate) fn replace(&self, file: &OwnedFd) -> Result<(), MediaError> {
        self.0.replace(file)
    }

    #[inline]
    pub(crate) fn page(&self) -> &NoticePage {
        // SAFETY: the mapping is CONTROL_BYTES long (checked by `of_file`), page-aligned, and lives as long
        // as `self`. The type consists of atomics only. Other processes may store to it; we never do.
        unsafe { &*self.0.as_ptr().cast::<NoticePage>() }
    }
}

/// The page that all sessions of the store share, and the number of the session's daemon.
#[derive(Debug)]
pub(crate) struct StorePageMapping {
    page: Mapping,
    number: AtomicU64,
}

impl StorePageMapping {
    /// `number` is that of the daemon that this session attached to.
    pub(crate) fn map(file: &OwnedFd, number: u64) -> Result<StorePageMapping, MediaError> {
        Ok(StorePageMapping { page: map(file, Protection::ReadOnly)?, number: AtomicU64::new(number) })
    }

    /// Whether no other daemon has begun to recover the logs of this one's sessions.
    #[inline]
    pub(crate) fn is_current(&self) -> bool {
        let number = self.number.load(Ordering::Relaxed);
        self.read(offset_of!(StorePage, incarnation)) == Some(number)
    }

    /// A word of the page; 0 if the file was cut.
    #[inline]
    pub(crate) fn word(&self, offset: usize) -> u64 {
        self.read(offset).unwrap_or(0)
    }

    /// The page is a file of the store. A process that may write the file can cut it, and a plain load would then
    /// raise SIGBUS. The copy is one load of eight bytes.
    #[inline]
    fn read(&self, offset: usize) -> Option<u64> {
        let mut word = [0; size_of::<u64>()];
        let is_there = self.page.read(offset as u64, &mut word).is_ok();
        fence(Ordering::Acquire);
        is_there.then(|| u64::from_ne_bytes(word))
    }

    /// The session belongs to the daemon of this number from now on.
    pub(crate) fn set_number(&self, number: u64) {
        self.number.store(number, Ordering::SeqCst);
    }
}

/// The client page: what this session tells SharedFS.
#[derive(Clone, Debug)]
pub(crate) struct ClientMapping(Arc<Mapping>);

impl ClientMapping {
    pub(crate) fn map(file: &OwnedFd) -> Result<ClientMapping, MediaError> {
        let protection = Protection::ReadWrite;
        let mapping = Mapping::of_file(file, 0, CLIENT_BYTES as u64, protection, Medium::Memory, false)?;
        mapping.touch(0, CONTROL_BYTES as u64)?;
        Ok(ClientMapping(Arc::new(mapping)))
    }

    /// The mapping, shared with the log's appender.
    pub(crate) fn mapping(&self) -> Arc<Mapping> {
        Arc::clone(&self.0)
    }

    #[inline]
    pub(crate) fn page(&self) -> &ClientPage {
        // SAFETY: as for `NoticeMapping::page`; this mapping is longer, and writable.
        unsafe { &*self.0.as_ptr().cast::<ClientPage>() }
    }

    /// Maps another page in place of this one, and copies everything to it. Nothing may be opened meanwhile.
    /// A slot that another thread clears while the words are copied is cleared in the new page, too.
    pub(crate) fn replace(&self, file: &OwnedFd) -> Result<(), MediaError> {
        let last = self.0.again()?;
        let next =
            Mapping::of_file(file, 0, CLIENT_BYTES as u64, Protection::ReadWrite, Medium::Memory, false)?;
        let slots = self.page().open_slots.load(Ordering::SeqCst) as usize;
        let bytes = OPEN_SLOTS_OFFSET + slots.min(OPEN_SLOTS_MAX) * size_of::<u64>();
        let mut copied = Vec::with_capacity(bytes / size_of::<u64>());
        for offset in (0..bytes as u64).step_by(size_of::<u64>()) {
            let word = last.atomic_u64(offset).map_or(0, |word| word.load(Ordering::SeqCst));
            if let Ok(to) = next.atomic_u64(offset) {
                to.store(word, Ordering::SeqCst);
            }
            copied.push(word);
        }
        self.0.replace(file)?;
        // From here on no thread changes the old page.
        for (offset, copied) in (0..).step_by(size_of::<u64>()).zip(copied) {
            if let (Ok(from), Ok(to)) = (last.atomic_u64(offset), next.atomic_u64(offset)) {
                let change = from.load(Ordering::SeqCst).wrapping_sub(copied);
                to.fetch_add(change, Ordering::SeqCst);
            }
        }
        Ok(())
    }

    /// A word of the ring of seen reads.
    pub(crate) fn seen_read(&self, word: usize) -> Option<&AtomicU64> {
        self.0.atomic_u64((SEEN_READS_OFFSET + word * size_of::<AtomicU64>()) as u64).ok()
    }

    /// A slot for the number of an open inode.
    #[inline]
    pub(crate) fn open_slot(&self, index: usize) -> Option<&AtomicU64> {
        self.0.atomic_u64((OPEN_SLOTS_OFFSET + index * size_of::<AtomicU64>()) as u64).ok()
    }
}

fn map(file: &OwnedFd, protection: Protection) -> Result<Mapping, MediaError> {
    Mapping::of_file(file, 0, CONTROL_BYTES as u64, protection, Medium::Memory, true)
}
