//! The control block of a session: the notice page we write, the client page we only take hints from, and the
//! eventfd the session kicks.

use crate::Error;
use cuesta_format::control::{
    CLIENT_BYTES, CONTROL_BYTES, ClientPage, NoticePage, OPEN_FOR_WRITING, OPEN_SLOTS_MAX, OPEN_SLOTS_OFFSET,
    SEEN_READS_OFFSET, STATE_CLOSED, STATE_LOST, STATE_UNWRITABLE, UNSERVED_SLOTS,
};
use cuesta_format::kept_names::{self, WAYS, set_of};
use cuesta_format::seen_reads::{SEEN_READS, SeenRead};
use cuesta_format::superblock::Medium;
use cuesta_format::{InodeNumber, LeaseGeneration, LogGeneration, LogPosition};
use cuesta_media::{Mapping, Protection, clock, wait};
use std::mem::offset_of;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Both pages, mapped, and the eventfd.
#[derive(Debug)]
pub struct Control {
    notice: Mapping,
    client: Mapping,
    notice_file: OwnedFd,
    client_file: OwnedFd,
    kick: OwnedFd,
    /// The session's count of lock files when it was last looked at.
    lock_files: AtomicU64,
    /// The same of its seen reads.
    seen_reads: AtomicU64,
}

macro_rules! word {
    ($mapping:expr, $accessor:ident, $page:ident . $field:ident) => {
        match $mapping.$accessor(offset_of!($page, $field) as u64) {
            Ok(word) => word,
            Err(outside) => unreachable!("the page holds its own fields: {outside}"),
        }
    };
}

impl Control {
    /// Makes the pages of a new session.
    pub fn new() -> Result<Control, Error> {
        let notice_file = wait::sealed_memfd("cuesta-notice", CONTROL_BYTES as u64)?;
        let client_file = wait::sealed_memfd("cuesta-client", CLIENT_BYTES as u64)?;
        let map = |file: &OwnedFd, bytes: usize| {
            let mapping =
                Mapping::of_file(file, 0, bytes as u64, Protection::ReadWrite, Medium::Memory, false)?;
            mapping.touch(0, CONTROL_BYTES as u64).map(|()| mapping)
        };
        Ok(Control {
            notice: map(&notice_file, CONTROL_BYTES)?,
            client: map(&client_file, CLIENT_BYTES)?,
            notice_file,
            client_file,
            kick: wait::eventfd()?,
            lock_files: AtomicU64::new(0),
            seen_reads: AtomicU64::new(0),
        })
    }

    /// Descriptors for the session: notice page, client page, eventfd.
    pub fn descriptors(&self) -> Result<[OwnedFd; 3], Error> {
        let copy = |file: &OwnedFd| file.try_clone().map_err(Error::io("copy a descriptor"));
        Ok([copy(&self.notice_file)?, copy(&self.client_file)?, copy(&self.kick)?])
    }

    /// The eventfd the session raises.
    #[must_use]
    pub fn kick(&self) -> &OwnedFd {
        &self.kick
    }

    fn notice_word(&self, offset: usize) -> &AtomicU64 {
        match self.notice.atomic_u64(offset as u64) {
            Ok(word) => word,
            Err(outside) => unreachable!("the page holds its own fields: {outside}"),
        }
    }

    /// Moves the lease generation: from now on no operation of the session returns without asking. Ordered
    /// before every later read of its log.
    pub fn publish_generation(&self, generation: LeaseGeneration) {
        self.notice_word(offset_of!(NoticePage, generation)).store(generation.0, Ordering::SeqCst);
        std::sync::atomic::fence(Ordering::SeqCst);
    }

    /// Tells how far the log is in the shared area and how many entries that is, and wakes the waiters.
    pub fn publish_digested(&self, digested: LogPosition, entries: u64) {
        self.notice_word(offset_of!(NoticePage, digested_entries)).store(entries, Ordering::SeqCst);
        self.notice_word(offset_of!(NoticePage, digested)).store(digested.0, Ordering::SeqCst);
        let wake: &AtomicU32 = word!(self.notice, atomic_u32, NoticePage.digest_wake);
        wake.fetch_add(1, Ordering::SeqCst);
        if self.is_awaited() {
            wait::wake_all(wake);
        }
    }

    /// Tells how many ring slots are granted.
    pub fn publish_slots(&self, slots: u32) {
        self.notice_word(offset_of!(NoticePage, granted_slots)).store(u64::from(slots), Ordering::SeqCst);
    }

    /// Tells how many blocks the session may debit in all.
    pub fn publish_credit(&self, limit: u64) {
        self.notice_word(offset_of!(NoticePage, credit_limit)).store(limit, Ordering::SeqCst);
    }

    /// Tells which limits of users hold.
    pub fn publish_quotas(&self, shown: u64) {
        self.notice_word(offset_of!(NoticePage, quotas)).store(shown, Ordering::SeqCst);
    }

    /// Tells the habit of the sessions before: whether they synced their new files.
    pub fn publish_sync_habit(&self, habit: u64) {
        self.notice_word(offset_of!(NoticePage, sync_habit)).store(habit, Ordering::Relaxed);
    }

    /// Tells after how many bytes the next kick is due.
    pub fn publish_kick_bytes(&self, bytes: u64) {
        self.notice_word(offset_of!(NoticePage, kick_bytes)).store(bytes, Ordering::SeqCst);
    }

    /// Tells how many entries the log may hold undigested.
    pub fn publish_entries_max(&self, entries: u64) {
        self.notice_word(offset_of!(NoticePage, entries_max)).store(entries, Ordering::SeqCst);
    }

    /// Tells whether the log is looked at without a kick that it holds something. When it no longer is, every read of
    /// [`Control::completed`] behind this sees what the session did not kick for.
    pub fn publish_polled(&self, is_polled: bool) {
        self.notice_word(offset_of!(NoticePage, attended)).store(is_polled.into(), Ordering::SeqCst);
        std::sync::atomic::fence(Ordering::SeqCst);
    }

    /// Tells that another session is about to take the directory, or one beside it; to be taken back by
    /// [`Control::no_longer_wants`].
    pub fn wants(&self, directory: InodeNumber) {
        self.wanted(directory).fetch_add(1, Ordering::SeqCst);
    }

    /// Tells that it is not, any more.
    pub fn no_longer_wants(&self, directory: InodeNumber) {
        self.wanted(directory).fetch_sub(1, Ordering::SeqCst);
    }

    fn wanted(&self, directory: InodeNumber) -> &AtomicU64 {
        let offset = offset_of!(NoticePage, wanted) + set_of(directory) * size_of::<AtomicU64>();
        self.notice_word(offset)
    }

    /// How long a mount's kernel may still keep names of the directory, as its session says.
    #[must_use]
    pub fn names_left(&self, directory: InodeNumber) -> Option<Duration> {
        let set = offset_of!(ClientPage, kept_names) + set_of(directory) * WAYS * size_of::<AtomicU64>();
        let mark = |way| self.client.atomic_u64((set + way * size_of::<AtomicU64>()) as u64);
        let marks = std::array::from_fn(|way| mark(way).map_or(0, |mark| mark.load(Ordering::SeqCst)));
        kept_names::left(marks, directory, clock::ticks())
    }

    /// Tells that the session is over, and wakes all waiters.
    pub fn publish_closed(&self) {
        word!(self.notice, atomic_u32, NoticePage.state).fetch_or(STATE_CLOSED, Ordering::SeqCst);
        let wake: &AtomicU32 = word!(self.notice, atomic_u32, NoticePage.digest_wake);
        wake.fetch_add(1, Ordering::SeqCst);
        wait::wake_all(wake);
    }

    /// Tells that the disk did not take a log.
    pub fn publish_unwritable(&self) {
        word!(self.notice, atomic_u32, NoticePage.state).fetch_or(STATE_UNWRITABLE, Ordering::SeqCst);
    }

    /// Tells that a disk lost content which the session staged.
    pub fn publish_loss(&self) {
        word!(self.notice, atomic_u32, NoticePage.state).fetch_or(STATE_LOST, Ordering::SeqCst);
    }

    /// Whether the session says that a thread waits for a digest.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        word!(self.client, atomic_u32, ClientPage.waiters).load(Ordering::SeqCst) > 0
    }

    /// The generation of the log the session says it writes. To be read before [`Control::completed`].
    #[must_use]
    pub fn log_generation(&self) -> LogGeneration {
        LogGeneration(word!(self.client, atomic_u64, ClientPage.log_generation).load(Ordering::Acquire))
    }

    /// How far the session says its log is written.
    #[must_use]
    pub fn completed(&self) -> LogPosition {
        LogPosition(word!(self.client, atomic_u64, ClientPage.completed).load(Ordering::Acquire))
    }

    /// How far the session says its log is on the disk (medium `block`).
    #[must_use]
    pub fn durable(&self) -> LogPosition {
        LogPosition(word!(self.client, atomic_u64, ClientPage.durable).load(Ordering::Acquire))
    }

    /// How far the session says it has done with its log and with the blocks its digests freed.
    #[must_use]
    pub fn retired(&self) -> LogPosition {
        LogPosition(word!(self.client, atomic_u64, ClientPage.retired).load(Ordering::Acquire))
    }

    /// Visits the inodes the session says it has open. Says whether that is all of them.
    #[must_use]
    pub fn visit_open(&self, mut visit: impl FnMut(InodeNumber)) -> bool {
        let used = word!(self.client, atomic_u32, ClientPage.open_slots).load(Ordering::SeqCst) as usize;
        for slot in 0..used.min(OPEN_SLOTS_MAX) {
            let offset = (OPEN_SLOTS_OFFSET + slot * size_of::<u64>()) as u64;
            let Ok(slot) = self.client.atomic_u64(offset) else { break };
            match slot.load(Ordering::SeqCst) {
                0 => {}
                said => visit(InodeNumber(said & !OPEN_FOR_WRITING)),
            }
        }
        word!(self.client, atomic_u64, ClientPage.open_unlisted).load(Ordering::SeqCst) == 0
    }

    /// Whether the session says it has the inode open for writing.
    #[must_use]
    pub fn writes(&self, inode: InodeNumber) -> bool {
        let used = word!(self.client, atomic_u32, ClientPage.open_slots).load(Ordering::SeqCst) as usize;
        (0..used.min(OPEN_SLOTS_MAX)).any(|slot| {
            let offset = (OPEN_SLOTS_OFFSET + slot * size_of::<u64>()) as u64;
            let slot = self.client.atomic_u64(offset);
            slot.is_ok_and(|slot| slot.load(Ordering::SeqCst) == inode.0 | OPEN_FOR_WRITING)
        })
    }

    /// How many lock files the session says it has asked for since this was last called.
    #[must_use]
    pub fn new_lock_files(&self) -> u64 {
        let said = word!(self.client, atomic_u64, ClientPage.lock_files).load(Ordering::Relaxed);
        said.saturating_sub(self.lock_files.swap(said, Ordering::Relaxed))
    }

    /// Operations the session says it was served.
    #[must_use]
    pub fn operations(&self) -> u64 {
        word!(self.client, atomic_u64, ClientPage.operations).load(Ordering::Relaxed)
    }

    /// Bytes that the session says it has read and written.
    #[must_use]
    pub fn bytes_moved(&self) -> (u64, u64) {
        let read = word!(self.client, atomic_u64, ClientPage.bytes_read).load(Ordering::Relaxed);
        let written = word!(self.client, atomic_u64, ClientPage.bytes_written).load(Ordering::Relaxed);
        (read, written)
    }

    /// Visits the reads that the session says it did since this was last called, of which only the last ones are known.
    pub fn visit_new_reads(&self, mut visit: impl FnMut(SeenRead)) {
        let said = word!(self.client, atomic_u64, ClientPage.seen_reads).load(Ordering::Acquire);
        let before = self.seen_reads.swap(said, Ordering::Relaxed);
        let new = said.wrapping_sub(before).min(SEEN_READS as u64);
        for number in 0..new {
            let entry = said.wrapping_sub(number + 1) as usize % SEEN_READS;
            let word = |word: usize| {
                let offset = SEEN_READS_OFFSET + (2 * entry + word) * size_of::<u64>();
                self.client.atomic_u64(offset as u64).map_or(0, |word| word.load(Ordering::Relaxed))
            };
            visit(SeenRead::of([word(0), word(1)]));
        }
    }

    /// How often the session says that its predictors were right and wrong.
    #[must_use]
    pub fn predictions(&self) -> [u64; 4] {
        let mut bytes = [0; 4 * size_of::<u64>()];
        if self.client.read(offset_of!(ClientPage, predictions) as u64, &mut bytes).is_err() {
            return [0; 4];
        }
        let (words, _) = bytes.as_chunks::<8>();
        std::array::from_fn(|at| u64::from_ne_bytes(words[at]))
    }

    /// The habit that the session tells of: whether it syncs its new files. 0: it tells of none.
    #[must_use]
    pub fn sync_habit(&self) -> u64 {
        word!(self.client, atomic_u64, ClientPage.sync_habit).load(Ordering::Relaxed)
    }

    /// Calls that the session says it could not be served, by system call number.
    #[must_use]
    pub fn unserved(&self) -> [u32; UNSERVED_SLOTS] {
        let mut bytes = [0; 4 * UNSERVED_SLOTS];
        if self.client.read(offset_of!(ClientPage, unserved) as u64, &mut bytes).is_err() {
            return [0; UNSERVED_SLOTS];
        }
        let (words, _) = bytes.as_chunks::<4>();
        std::array::from_fn(|call| u32::from_ne_bytes(words[call]))
    }
}
