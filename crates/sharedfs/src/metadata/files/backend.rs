//! redb's storage: a mapped file that takes room on the medium only as far as it was written.
//!
//! redb doubles its file when it grows, and expects zeros there. Here the length it sees is a number in a header
//! page, in front of its bytes and of the journal's ([`crate::metadata::journal`]). The file below is allocated in
//! chunks, ahead of the highest byte ever written. [`BackendFile::ensure_slack`] allocates ahead of a transaction,
//! so that the transaction does not meet a full medium half-way. Should it all the same, that is an error and never
//! a SIGBUS.
//!
//! redb works on no file that once refused a write. So one that found the medium full says so
//! ([`BackendFile::ran_full`]), and is given up ([`BackendFile::give_up`]) for another one on the same bytes.
//!
//! Stores go through `media`'s write-through copies: durable at the next fence of the same thread. The thread that
//! syncs announces itself. Stores of another thread (a reader evicts pages) are fenced on the spot.

use super::checked_pages::{CheckedPages, PAGE_BYTES, medium_bytes, tree_bytes};
use super::copies::{Copies, Files, Side};
use super::header::{
    HEADER_BYTES, JOURNAL_BYTES, JOURNAL_OFFSET, LENGTH_MAX, LENGTH_OFFSET, MAGIC, MAGIC_OFFSET, TREE_OFFSET,
    WRITTEN_OFFSET, seal, unseal,
};
use crate::metadata::MetadataError;
use crate::metadata::tree::guard;
use cuesta_media::emulate::Emulated;
use cuesta_media::{AccessError, MediaError};
use parking_lot::{RwLock, RwLockReadGuard};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The medium is allocated in steps of this size.
const CHUNK_BYTES: u64 = 4 << 20;
/// The header's note of how far the file was written moves in steps of this size.
const WRITTEN_STEP_BYTES: u64 = 1 << 20;

/// Bytes that stay allocated on a disk behind the last byte, also while no daemon runs: other programs may fill the
/// disk meanwhile, and reading, removing and stopping take some changes of the metadata.
const SET_ASIDE_BYTES: u64 = 8 << 20;

/// The file under the tree.
#[derive(Debug)]
pub(crate) struct BackendFile {
    copies: Copies,
    /// Length redb sees.
    length: AtomicU64,
    /// Nothing at or behind it was ever written: it reads as zeros. A copy of the header's.
    written: AtomicU64,
    /// Held while the header or the length of the mapping changes.
    growth: Mutex<()>,
    syncing_thread: AtomicUsize,
    full: AtomicBool,
    /// Held for reading by each write.
    given_up: RwLock<bool>,
    /// So many syncs from now on one finds the medium full.
    #[cfg(test)]
    pub(crate) syncs_left: AtomicU64,
}

impl BackendFile {
    /// Bytes of the journal.
    pub(crate) const JOURNAL_BYTES: u64 = JOURNAL_BYTES;

    /// Opens the file, or makes an empty one if the file is empty.
    pub(crate) fn open(files: &Files) -> Result<BackendFile, MetadataError> {
        let file = match Copies::open(files)? {
            (copies, None) => BackendFile::make(copies, files)?,
            (copies, Some(header)) => {
                let file = BackendFile::new(copies, header.length, header.written);
                if header.written > header.length.next_multiple_of(WRITTEN_STEP_BYTES) {
                    // A kill came between the two steps of making it shorter.
                    file.shrink(header.length).map_err(|error| MetadataError::Damaged(error.to_string()))?;
                }
                file
            }
        };
        file.announce_syncing_thread();
        if files.heals() {
            let _growing = file.growth.lock().unwrap_or_else(PoisonError::into_inner);
            file.set_aside();
        }
        Ok(file)
    }

    fn make(copies: Copies, files: &Files) -> Result<BackendFile, MetadataError> {
        copies.set_len(TREE_OFFSET)?;
        copies.write_zeros(0, TREE_OFFSET)?;
        let file = BackendFile::new(copies, 0, 0);
        let unwritten = |_| MetadataError::Foreign(files.path().to_path_buf());
        // The magic goes last: a header without it is no store yet.
        file.note(LENGTH_OFFSET, 0).map_err(unwritten)?;
        file.note(WRITTEN_OFFSET, 0).map_err(unwritten)?;
        file.note_journal(0).map_err(unwritten)?;
        file.note_word(MAGIC_OFFSET, MAGIC).map_err(unwritten)?;
        file.copies.fence_second();
        Ok(file)
    }

    fn new(copies: Copies, length: u64, written: u64) -> BackendFile {
        BackendFile {
            copies,
            length: length.into(),
            written: written.into(),
            growth: Mutex::new(()),
            syncing_thread: 0.into(),
            full: false.into(),
            given_up: RwLock::new(false),
            #[cfg(test)]
            syncs_left: u64::MAX.into(),
        }
    }

    /// The copies it lies in.
    pub(crate) fn copies(&self) -> &Copies {
        &self.copies
    }

    /// Bytes of the tree that were ever written.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Has it play another medium.
    pub(crate) fn emulate(&self, emulated: &Arc<Emulated>) {
        self.copies.first.emulate(emulated);
    }

    /// How far the journal counts, as [`crate::metadata::journal`] says it; `None` if that is not what was written.
    pub(crate) fn journal_number(&self) -> Result<Option<u64>, AccessError> {
        let mut bytes = [0; 8];
        self.copies.first.read(JOURNAL_OFFSET, &mut bytes)?;
        Ok(unseal(u64::from_le_bytes(bytes)))
    }

    /// Durably says how far the journal counts.
    pub(crate) fn note_journal(&self, number: u64) -> Result<(), AccessError> {
        self.note(JOURNAL_OFFSET, number)
    }

    /// Reads bytes of the journal.
    pub(crate) fn read_journal(&self, offset: u64, out: &mut [u8]) -> Result<(), AccessError> {
        self.copies.first.read(HEADER_BYTES + offset, out)
    }

    /// Reads bytes of the journal's second copy; false: there is none, or it cannot be read.
    pub(crate) fn read_second_journal(&self, offset: u64, out: &mut [u8]) -> bool {
        matches!(self.copies.read_second(HEADER_BYTES + offset, out), Some(Ok(())))
    }

    /// Writes bytes of one copy of the journal anew.
    pub(crate) fn mend_journal(&self, side: Side, bytes: &[u8], is_told: bool) {
        let what = match side {
            Side::First => "the metadata's journal",
            Side::Second => "the second copy of the metadata's journal",
        };
        self.copies.mend_part(side, HEADER_BYTES, bytes, is_told.then_some(what));
    }

    /// Durably writes bytes of the journal.
    pub(crate) fn write_journal(&self, offset: u64, bytes: &[u8]) -> Result<(), AccessError> {
        self.copies.write_through(HEADER_BYTES + offset, bytes)?;
        self.copies.fence()
    }

    /// The second copy is as durable as the first.
    pub(crate) fn settle_second(&self) {
        self.copies.fence_second();
    }

    /// From here on, this thread writes and syncs.
    pub(crate) fn announce_syncing_thread(&self) {
        self.syncing_thread.store(thread_mark(), Ordering::Relaxed);
    }

    /// Bytes allocated on the medium that were never written: what can be added without asking it for more.
    pub(crate) fn slack_bytes(&self) -> u64 {
        tree_bytes(self.copies.first.len() - TREE_OFFSET).saturating_sub(self.written.load(Ordering::Acquire))
    }

    /// Bytes taken on the medium.
    pub(crate) fn allocated_bytes(&self) -> u64 {
        self.copies.bytes()
    }

    /// Allocates until there are `bytes` of slack; on a file that was given up, nothing.
    pub(crate) fn ensure_slack(&self, bytes: u64) -> Result<(), MediaError> {
        let Ok(_kept) = self.check_kept() else { return Ok(()) };
        let _growing = self.growth.lock().unwrap_or_else(PoisonError::into_inner);
        self.allocate(self.written.load(Ordering::Acquire).saturating_add(bytes))
    }

    /// Whether a write found no room on the medium.
    pub(crate) fn ran_full(&self) -> bool {
        self.full.load(Ordering::Acquire)
    }

    /// From now on, redb can neither read nor write through this file; no write is under way any more.
    pub(crate) fn give_up(&self) {
        *self.given_up.write() = true;
    }

    /// Says that it was not given up, nor is as long as the result lives.
    fn check_kept(&self) -> io::Result<RwLockReadGuard<'_, bool>> {
        let given_up = self.given_up.read();
        if *given_up {
            return Err(io::Error::other("this handle on the metadata store was given up"));
        }
        Ok(given_up)
    }

    /// Allocates up to `end`; `growth` is held.
    fn allocate(&self, end: u64) -> Result<(), MediaError> {
        let wanted = medium_bytes(end.min(2 * LENGTH_MAX)) + TREE_OFFSET;
        let wanted = wanted.next_multiple_of(CHUNK_BYTES);
        if wanted > self.copies.first.len() { self.copies.set_len(wanted) } else { Ok(()) }
    }

    /// On a disk, allocates what is set aside, if there is room; `growth` is held.
    fn set_aside(&self) {
        if self.copies.are_two() {
            let end = self.written.load(Ordering::Acquire).saturating_add(SET_ASIDE_BYTES);
            if let Err(error) = self.allocate(end) {
                tracing::debug!(%error, "the disk has no room to set aside for the metadata");
            }
        }
    }

    /// Durably changes a number of the header.
    fn note(&self, offset: u64, value: u64) -> Result<(), AccessError> {
        self.note_word(offset, seal(value))
    }

    fn note_word(&self, offset: u64, value: u64) -> Result<(), AccessError> {
        self.copies.write_word(offset, value)
    }

    fn extend_written(&self, end: u64) -> io::Result<()> {
        let _growing = self.growth.lock().unwrap_or_else(PoisonError::into_inner);
        if end <= self.written.load(Ordering::Acquire) {
            return Ok(());
        }
        let written = end.next_multiple_of(WRITTEN_STEP_BYTES);
        self.allocate(written).map_err(|error| {
            self.full.fetch_or(error.is_full(), Ordering::AcqRel);
            refused(error)
        })?;
        self.note(WRITTEN_OFFSET, written).map_err(outside)?;
        self.written.store(written, Ordering::Release);
        Ok(())
    }

    fn shrink(&self, length: u64) -> io::Result<()> {
        let _growing = self.growth.lock().unwrap_or_else(PoisonError::into_inner);
        self.note(LENGTH_OFFSET, length).map_err(outside)?;
        self.length.store(length, Ordering::Release);
        let written = self.written.load(Ordering::Acquire);
        if written > length {
            // The bytes cut off are given back, and read as zeros when the file grows again.
            self.copies.cut_pages(length, written).and_then(|()| self.copies.fence()).map_err(outside)?;
            self.copies.fence_second();
            self.note(WRITTEN_OFFSET, length).map_err(outside)?;
            self.written.store(length, Ordering::Release);
            self.copies.set_len(TREE_OFFSET + medium_bytes(length)).map_err(refused)?;
            self.set_aside();
        }
        Ok(())
    }

    /// The tree.
    fn pages(&self) -> CheckedPages<'_> {
        CheckedPages { medium: &self.copies.first, start: TREE_OFFSET }
    }

    /// Reads bytes of the tree that were written. A page that one copy does not have comes from the other.
    /// Answers a page that neither has.
    fn read_tree(&self, offset: u64, out: &mut [u8]) -> io::Result<Option<u64>> {
        let is_first_torn = offset == 0 && !matches!(self.pages().is_first_intact(), Ok(true));
        match self.pages().read(offset, out) {
            Ok(None) if !is_first_torn => return Ok(None),
            Ok(found) if !self.copies.are_two() => return Ok(found),
            // The medium does not give it.
            Err(AccessError::Fault(_)) if !self.copies.are_two() => return Ok(Some(offset)),
            Ok(_) | Err(AccessError::Fault(_)) => {}
            Err(error) => return Err(outside(error)),
        }
        let end = offset + out.len() as u64;
        let mut lost = None;
        for page in (offset / PAGE_BYTES..end.div_ceil(PAGE_BYTES)).map(|page| page * PAGE_BYTES) {
            let (from, to) = (page.max(offset), (page + PAGE_BYTES).min(end));
            let part = &mut out[(from - offset) as usize..(to - offset) as usize];
            match self.copies.mend(page) {
                Some(bytes) => part.copy_from_slice(&bytes[(from - page) as usize..(to - page) as usize]),
                // A crash may have torn it: redb finds out by its own checksums.
                None if page == 0 => {}
                None => lost = lost.or(Some(page)),
            }
        }
        Ok(lost)
    }

    fn check(&self, offset: u64, len: usize) -> io::Result<u64> {
        match offset.checked_add(len as u64) {
            Some(end) if end <= self.length.load(Ordering::Acquire) => Ok(end),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// A number that differs between threads that are alive.
fn thread_mark() -> usize {
    thread_local!(static MARK: u8 = const { 0 });
    MARK.with(|mark| std::ptr::from_ref(mark).addr())
}

fn refused(error: MediaError) -> io::Error {
    if error.is_full() { io::ErrorKind::StorageFull.into() } else { error.errno().into() }
}

fn outside(error: AccessError) -> io::Error {
    io::Error::other(error)
}

/// The handle redb owns.
#[derive(Clone, Debug)]
pub(crate) struct Backend(pub(crate) Arc<BackendFile>);

impl redb::StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.length.load(Ordering::Acquire))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let _kept = self.0.check_kept()?;
        self.0.check(offset, out.len())?;
        let written = self.0.written.load(Ordering::Acquire);
        let stored = written.saturating_sub(offset).min(out.len() as u64) as usize;
        let (stored, zeros) = out.split_at_mut(stored);
        zeros.fill(0);
        if stored.is_empty() {
            return Ok(());
        }
        let damaged = self.0.read_tree(offset, stored)?;
        if let Some(page) = damaged {
            // redb goes on after no error. All that it makes of this is abandoned.
            guard::note_damage(page);
            out.fill(0);
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let _kept = self.0.check_kept()?;
        if len > LENGTH_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        if len < self.0.length.load(Ordering::Acquire) {
            return self.0.shrink(len);
        }
        let _growing = self.0.growth.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.note(LENGTH_OFFSET, len).map_err(outside)?;
        self.0.length.store(len, Ordering::Release);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let _kept = self.0.check_kept()?;
        self.0.copies.fence().map_err(outside)?;
        #[cfg(test)]
        if self.0.syncs_left.fetch_sub(1, Ordering::Relaxed) == 0 {
            self.0.full.store(true, Ordering::Release);
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let _kept = self.0.check_kept()?;
        let end = self.0.check(offset, data.len())?;
        if end > self.0.written.load(Ordering::Acquire) {
            self.0.extend_written(end)?;
        }
        self.0.copies.write_pages(offset, data).map_err(outside)?;
        if self.0.syncing_thread.load(Ordering::Relaxed) != thread_mark() {
            self.0.copies.fence().map_err(outside)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuesta_media::Medium;
    use redb::StorageBackend;

    #[test]
    fn a_cut_reads_as_zeros_and_lengths_survive() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("meta");
        let open = || Backend(Arc::new(BackendFile::open(&Files::new(&path, Medium::Memory)).unwrap()));
        let backend = open();
        backend.set_len(64 << 20).unwrap();
        assert!(backend.0.allocated_bytes() < 8 << 20, "nothing is written yet");
        backend.write(5_000_000, &[7; 100]).unwrap();
        drop(backend);

        let backend = open();
        assert_eq!(backend.len().unwrap(), 64 << 20);
        let mut bytes = [1; 200];
        backend.read(5_000_000, &mut bytes).unwrap();
        assert_eq!((&bytes[..100], &bytes[100..]), (&[7; 100][..], &[0; 100][..]));
        backend.set_len(5_000_010).unwrap();
        backend.set_len(64 << 20).unwrap();
        backend.read(5_000_000, &mut bytes).unwrap();
        assert_eq!((&bytes[..10], &bytes[10..]), (&[7; 10][..], &[0; 190][..]));
        assert!(backend.read(64 << 20, &mut bytes).is_err());
        assert!(backend.write((64 << 20) - 1, &[0; 2]).is_err());
    }

    #[test]
    fn slack_is_allocated_ahead() {
        let folder = tempfile::tempdir().unwrap();
        let file = BackendFile::open(&Files::new(&folder.path().join("meta"), Medium::Memory)).unwrap();
        assert!(file.slack_bytes() < CHUNK_BYTES);
        file.ensure_slack(10 << 20).unwrap();
        assert!((10 << 20..(10 << 20) + CHUNK_BYTES + 1).contains(&file.slack_bytes()));
        assert!(file.ensure_slack(u64::MAX).is_err());
    }

    #[test]
    fn a_foreign_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("meta");
        std::fs::write(&path, [3; 5000]).unwrap();
        assert!(matches!(
            BackendFile::open(&Files::new(&path, Medium::Memory)),
            Err(MetadataError::Foreign(_))
        ));
        std::fs::write(&path, b"short").unwrap();
        assert!(matches!(
            BackendFile::open(&Files::new(&path, Medium::Memory)),
            Err(MetadataError::Foreign(_))
        ));
    }
}
