//! Appending: the one path every change takes, and the only code that stores into a log.
//!
//! 1. [`Appender::admit`] finds room, before any lock.
//! 2. [`Appender::reserve`] fixes the entry's place, under the lock that orders it among its like.
//! 3. The body is copied, the header sealed, one fence makes both durable.
//! 4. The entry completes once all before it have: "returned" implies "recoverable". On medium `block` that is meant of
//!    the death of processes; the power may go once [`Appender::sync`] returned.
//!
//! Nothing between 2 and 4 blocks, allocates or calls the kernel (bar yielding to a preempted neighbour). A fault
//! in the application's memory leaves a void entry, so that the log has no hole.

use crate::acknowledged::Marks;
use crate::commit_file;
use crate::durable::{Durable, LogUnwritten, Taken};
use crate::order::Order;
use crate::space::{Admission, LogFull, Space};
use cuesta_format::call_tag::TAG_BYTES;
use cuesta_format::control::ClientPage;
use cuesta_format::entry::{
    Crc32c, EntryKind, FLAG_SYNCHRONOUS, FLAG_TAGGED, HEADER_BYTES, Header, Salt, entry_bytes,
};
use cuesta_format::{
    CallTag, Geometry, InodeNumber, LeaseGeneration, LogPosition, Medium, NAME_BYTES_MAX, Operation,
    SYMLINK_BYTES_MAX, Timestamp,
};
use cuesta_media::planted::{self, Bug};
use cuesta_media::{AccessError, Fault, Mapping, Piece, UserSlice, UserSliceMut, Window};
use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Names of this length and less are encoded in a small buffer: all but long symbolic links.
const SMALL_BODY_BYTES: usize = 48 + 2 * NAME_BYTES_MAX + 2;
const LARGE_BODY_BYTES: usize = 48 + NAME_BYTES_MAX + SYMLINK_BYTES_MAX + 2;

/// A log's segments in this process's memory: slot `n` at `n` segment lengths, the first ones again behind the
/// last, so that an entry is contiguous wherever it starts.
#[derive(Debug)]
pub struct Ring {
    window: Window,
    geometry: Geometry,
}

impl Ring {
    /// `window` spans the ring and its overlap; LibFS maps granted segments into it.
    #[must_use]
    pub fn new(window: Window, geometry: Geometry) -> Ring {
        Ring { window, geometry }
    }

    /// The window, for mapping more segments.
    #[must_use]
    pub fn window(&self) -> &Window {
        &self.window
    }

    /// The sizes.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    #[inline]
    fn offset(&self, position: LogPosition) -> u64 {
        self.geometry.ring_offset(position)
    }

    /// Has the disk take the bytes between two positions, at most a lap.
    fn sync(&self, from: LogPosition, to: LogPosition) -> Result<(), AccessError> {
        let bytes = to.0.saturating_sub(from.0).min(self.geometry.ring_bytes());
        let start = self.offset(from);
        let ahead = bytes.min(self.geometry.ring_bytes() - start);
        self.window.sync(start, ahead)?;
        self.window.sync(0, bytes - ahead)
    }

    /// Copies bytes of the log out.
    pub fn read(&self, position: LogPosition, out: &mut [u8]) -> Result<(), AccessError> {
        self.window.read(self.offset(position), out)
    }

    /// Copies bytes of the log out to the application.
    #[inline]
    pub fn read_user(&self, position: LogPosition, out: UserSliceMut<'_>) -> Result<(), AccessError> {
        self.window.read_user(self.offset(position), out)
    }
}

/// What an entry says beside its operation.
#[derive(Clone, Copy, Debug)]
pub struct Stamp<'a> {
    /// The lease generation the operation runs under.
    pub lease_generation: LeaseGeneration,
    /// Blocks debited at worst.
    pub debit_blocks: u32,
    /// Its time.
    pub time: Timestamp,
    /// The call it executes, if the caller may ask for it again; room for the tag was admitted as a part of the body.
    pub tag: Option<&'a CallTag>,
    /// Of a write: its program is expected to wait for it soon.
    pub is_synchronous: bool,
}

impl Stamp<'_> {
    /// Bytes of the tag, behind the body.
    #[inline]
    fn tag_bytes(&self) -> usize {
        if self.tag.is_some() { TAG_BYTES } else { 0 }
    }

    /// The header's flags for it.
    #[inline]
    fn flags(&self) -> u8 {
        let tagged = if self.tag.is_some() { FLAG_TAGGED } else { 0 };
        tagged | if self.is_synchronous { FLAG_SYNCHRONOUS } else { 0 }
    }
}

/// A place in the log that must be filled.
#[derive(Debug)]
#[must_use = "an unfilled reservation blocks every later one"]
pub struct Reservation {
    position: LogPosition,
    bytes: u64,
}

/// No position of a log is as large: the medium took everything.
const NO_LOSS: u64 = u64::MAX;

/// An entry that is complete, and durable but on medium `block`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Where it starts.
    pub position: LogPosition,
    /// Where its body starts.
    pub body: LogPosition,
    /// The position behind it.
    pub end: LogPosition,
}

/// The writing end of one session's log.
#[derive(Debug)]
pub struct Appender {
    ring: Ring,
    salt: AtomicU32,
    space: Space,
    order: Order,
    durable: Durable,
    /// Where the log says how far it is acknowledged, on medium `block`.
    marks: Mutex<Option<Marks>>,
    /// Entries that reach beyond are lost, or a scan does not come to them: the medium did not take what lies there.
    lost_behind: AtomicU64,
    /// Entries completed, less those that a fence voided.
    entries: AtomicU64,
    page: Arc<Mapping>,
}

impl Appender {
    /// A log that starts at `start`. `page` is the session's [`ClientPage`].
    #[must_use]
    pub fn new(ring: Ring, salt: Salt, start: LogPosition, page: Arc<Mapping>) -> Appender {
        Appender {
            ring,
            salt: AtomicU32::new(salt.to_bits()),
            space: Space::new(start),
            order: Order::new(start),
            durable: Durable::new(start),
            marks: Mutex::new(None),
            lost_behind: AtomicU64::new(NO_LOSS),
            entries: AtomicU64::new(0),
            page,
        }
    }

    /// The mapped ring.
    #[must_use]
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Says how far the log may be written from now on.
    pub fn set_limit(&self, granted_slots: u32, retired: LogPosition) {
        self.space.set_limit(&self.ring.geometry, granted_slots, retired);
    }

    /// How far the log may be written.
    #[must_use]
    pub fn limit(&self) -> LogPosition {
        self.space.limit()
    }

    /// Everything below was admitted.
    #[must_use]
    pub fn admitted(&self) -> LogPosition {
        self.space.admitted()
    }

    /// Whether no scan will ever find an entry that ends there and is complete.
    #[inline]
    #[must_use]
    pub fn is_lost(&self, end: LogPosition) -> bool {
        end.0 > self.lost_behind.load(Ordering::Acquire)
    }

    /// Everything below is written and durable.
    #[must_use]
    pub fn completed(&self) -> LogPosition {
        self.order.completed()
    }

    /// Everything below is on the disk, on medium `block`.
    #[must_use]
    pub fn durable_until(&self) -> LogPosition {
        self.durable.until()
    }

    /// How many entries were completed; [`Appender::recount`] takes the voided ones off.
    #[inline]
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.entries.load(Ordering::Relaxed)
    }

    /// Counts on from so many. No operation is in flight.
    pub fn recount(&self, entries: u64) {
        self.entries.store(entries, Ordering::Relaxed);
    }

    /// From now on the log says there how far it is acknowledged.
    pub fn keep_marks(&self, marks: Option<Marks>) {
        *self.marks.lock().unwrap_or_else(PoisonError::into_inner) = marks;
    }

    /// Everything below is acknowledged: an entry that says so proves that whatever is missing there was damaged.
    #[inline]
    fn acknowledged(&self) -> LogPosition {
        match self.ring.window.medium() {
            Medium::Block => self.durable.until(),
            Medium::Memory | Medium::Pmem => self.order.completed(),
        }
    }

    /// Makes every entry that is complete durable on medium `block`, as far as it is not `digested`; on others it is.
    /// `make_dependencies_durable` makes durable what the entries depend on, and says whether it could. It is called for each write, once it
    /// is settled which entries are written: an entry that completes later may depend on more.
    /// `commit` writes pieces of the window to the log's commit file, durably; where it does not, the log's own pages are written.
    pub fn sync(
        &self,
        digested: LogPosition,
        make_dependencies_durable: impl Fn() -> bool,
        commit: impl Fn(&Window, &[Piece]) -> bool,
    ) -> Result<(), LogUnwritten> {
        if self.ring.window.medium() != Medium::Block || planted::active(Bug::SyncForgotten) {
            return Ok(());
        }
        self.durable.raise(digested);
        self.durable.reach(
            || self.completed(),
            |from, to| {
                if !make_dependencies_durable() {
                    return Err(LogUnwritten);
                }
                let settled = self.durable.settled().min(from);
                let limit = if planted::active(Bug::CommitFileLapped) { from } else { settled };
                if let Some((pieces, count)) = commit_file::pieces(&self.ring.geometry, from, to, limit)
                    && commit(&self.ring.window, &pieces[..count])
                {
                    return Ok(Taken::ByTheCommitFile);
                }
                self.ring.sync(settled, to).map(|()| Taken::ByItsPages).map_err(|_| LogUnwritten)
            },
            |durable| self.publish_durable(durable),
        )
    }

    /// A digest up to there need not have the log's pages written before it writes over what the store has; and a recovery that finds
    /// less knows that the log was damaged. The log does not start again meanwhile.
    fn publish_durable(&self, position: LogPosition) {
        if let Some(marks) = &*self.marks.lock().unwrap_or_else(PoisonError::into_inner) {
            marks.store(self.salt(), position);
        }
        if let Ok(word) = self.page.atomic_u64(offset_of!(ClientPage, durable) as u64) {
            word.store(position.0, Ordering::Release);
        }
    }

    /// Room for an entry with a body of `body_bytes`; taken before any lock.
    #[inline]
    pub fn admit(&self, body_bytes: usize) -> Result<Admission<'_>, LogFull> {
        self.space.admit(entry_bytes(body_bytes) as u64)
    }

    /// Fixes the entry's place. Call under the lock that orders the operation among those it conflicts with.
    #[inline]
    pub fn reserve(&self, admission: Admission<'_>) -> Reservation {
        let bytes = admission.bytes;
        admission.consume();
        Reservation { position: self.order.reserve(bytes), bytes }
    }

    /// Fills a reservation with an operation other than a write of application memory.
    pub fn append(&self, reservation: Reservation, operation: &Operation<'_>, stamp: Stamp<'_>) -> Appended {
        let body_bytes = operation.body_bytes();
        let header = Header {
            kind: operation.kind(),
            flags: operation.flags() | stamp.flags(),
            body_bytes: (body_bytes + stamp.tag_bytes()) as u32,
            debit_blocks: stamp.debit_blocks,
            position: reservation.position,
            lease_generation: stamp.lease_generation,
            inode: operation.inode(),
            argument: operation.argument(),
            time: stamp.time,
            acknowledged: self.acknowledged(),
        };
        let checksum = if let Operation::Write { data, .. } = operation {
            self.store(reservation.body(), data);
            Crc32c::new().with(data)
        } else if let Operation::WriteStaged { staged, .. } = operation {
            self.store(reservation.body(), staged.body());
            Crc32c::new().with(staged.body())
        } else if let Operation::SetExtended { name, value, .. } = operation {
            // As it is, however long: its body is the two, one behind the other.
            self.store(reservation.body(), name);
            self.store(reservation.body().plus(name.len() as u64), value);
            Crc32c::new().with(name).with(value)
        } else if body_bytes <= SMALL_BODY_BYTES {
            self.store_encoded(&mut [0; SMALL_BODY_BYTES][..body_bytes], operation, reservation.body())
        } else {
            self.store_encoded(&mut [0; LARGE_BODY_BYTES][..body_bytes], operation, reservation.body())
        };
        let checksum = self.store_tag(&reservation, body_bytes, stamp.tag, checksum);
        self.finish(&reservation, &header, checksum.value())
    }

    /// Fills a reservation with a write of `data`, all parts of it one entry. A fault in the application's memory
    /// leaves a void entry and is returned: the caller makes the memory present, or answers EFAULT.
    #[inline]
    pub fn append_write(
        &self,
        reservation: Reservation,
        inode: InodeNumber,
        offset: u64,
        data: &[UserSlice<'_>],
        stamp: Stamp<'_>,
    ) -> Result<Appended, Fault> {
        let body = reservation.body();
        let mut copied = 0;
        let mut sum = Crc32c::new();
        let mut fault = None;
        for part in data {
            if part.is_empty() {
                continue;
            }
            let at = self.ring.offset(body.plus(copied as u64));
            match self.ring.window.write_user_summed(at, *part, &mut sum) {
                Ok(()) => copied += part.len(),
                Err(AccessError::Fault(part_fault)) => {
                    let (_, rest) = part.split_at(part_fault.copied);
                    if rest.copy_in(&mut [0]).is_ok() {
                        // The application's memory is there, so it is the log's that is not.
                        self.lose_behind(reservation.position);
                    }
                    fault = Some(Fault { copied: copied + part_fault.copied });
                    break;
                }
                Err(outside) => unreachable!("an admitted entry lies in the window: {outside}"),
            }
        }
        let mut header = Header {
            kind: EntryKind::Write,
            flags: stamp.flags(),
            body_bytes: (copied + stamp.tag_bytes()) as u32,
            debit_blocks: stamp.debit_blocks,
            position: reservation.position,
            lease_generation: stamp.lease_generation,
            inode,
            argument: offset,
            time: stamp.time,
            acknowledged: self.acknowledged(),
        };
        if let Some(fault) = fault {
            header.kind = EntryKind::Void;
            header.flags = 0;
            header.body_bytes = (reservation.bytes - HEADER_BYTES as u64) as u32;
            self.finish(&reservation, &header, 0);
            return Err(fault);
        }
        let sum = self.store_tag(&reservation, copied, stamp.tag, sum);
        Ok(self.finish(&reservation, &header, sum.value()))
    }

    fn store_encoded(&self, buffer: &mut [u8], operation: &Operation<'_>, at: LogPosition) -> Crc32c {
        operation.encode_body(buffer);
        self.store(at, buffer);
        Crc32c::new().with(buffer)
    }

    /// Stores the tag, if there is one, behind a body of `body_bytes` with this checksum. Answers that of both.
    #[inline]
    fn store_tag(
        &self,
        reservation: &Reservation,
        body_bytes: usize,
        tag: Option<&CallTag>,
        checksum: Crc32c,
    ) -> Crc32c {
        let Some(tag) = tag else { return checksum };
        let bytes = tag.encode();
        self.store(reservation.body().plus(body_bytes as u64), &bytes);
        checksum.with(&bytes)
    }

    fn store(&self, at: LogPosition, bytes: &[u8]) {
        match self.ring.window.write_through(self.ring.offset(at), bytes) {
            Ok(()) => {}
            Err(AccessError::Fault(_)) => self.lose_behind(at),
            Err(outside) => unreachable!("an admitted entry lies in the window: {outside}"),
        }
    }

    /// The medium does not take an entry's byte at `at`. Told before the entry completes, and so before any behind it does.
    #[cold]
    fn lose_behind(&self, at: LogPosition) {
        self.lost_behind.fetch_min(at.0, Ordering::AcqRel);
    }

    /// Seals, fences and completes in order.
    #[inline]
    fn finish(&self, reservation: &Reservation, header: &Header, body_checksum: u32) -> Appended {
        debug_assert_eq!(header.entry_bytes(), reservation.bytes);
        self.store(reservation.position, &header.seal(self.salt(), body_checksum));
        if !planted::active(Bug::MissingFence) {
            self.ring.window.order();
        }
        if planted::active(Bug::EarlyCompletion) {
            return self.complete_early(reservation);
        }
        let end = reservation.position.plus(reservation.bytes);
        self.order.complete(reservation.position, end, |end, entries, ordering| {
            // Only this thread has the turn: a locked instruction would be one too many.
            self.entries.store(self.entries.load(Ordering::Relaxed) + entries, Ordering::Relaxed);
            if let Ok(word) = self.page.atomic_u64(offset_of!(ClientPage, completed) as u64) {
                word.store(end.0, ordering);
            }
        });
        Appended { position: reservation.position, body: reservation.body(), end }
    }

    #[cold]
    fn complete_early(&self, reservation: &Reservation) -> Appended {
        let end = reservation.position.plus(reservation.bytes);
        self.entries.fetch_add(1, Ordering::Relaxed);
        if let Ok(word) = self.page.atomic_u64(offset_of!(ClientPage, completed) as u64) {
            word.fetch_max(end.0, Ordering::AcqRel);
        }
        self.order.complete_early(end);
        Appended { position: reservation.position, body: reservation.body(), end }
    }

    #[inline]
    fn salt(&self) -> Salt {
        Salt::from_bits(self.salt.load(Ordering::Relaxed))
    }

    /// The header of an own entry, which starts at `position` and was not overwritten since. It is not checked
    /// anew: this session wrote it.
    #[inline]
    #[must_use]
    pub fn header_at(&self, position: LogPosition) -> Option<Header> {
        let mut bytes = [0; HEADER_BYTES];
        self.ring.read(position, &mut bytes).ok()?;
        let header = Header::of_own(&bytes, position).ok()?;
        (header.entry_bytes() <= self.ring.geometry.entry_bytes_max()).then_some(header)
    }

    /// The body of the entry at a position whose header was read there. Says whether it can be read.
    #[must_use]
    pub fn body_at(&self, position: LogPosition, header: &Header, body: &mut Vec<u8>) -> bool {
        body.resize(header.body_bytes as usize, 0);
        self.ring.read(position.plus(HEADER_BYTES as u64), body).is_ok()
    }

    /// Starts again at `position` under a new salt, after a fence voided what lay behind. No operation is in flight.
    pub fn restart(&self, position: LogPosition, salt: Salt) {
        self.space.restart(position);
        self.order.restart(position);
        self.durable.restart(position, |start| {
            // Both at once for a write that ends now: no mark may join this salt and a position of before.
            self.salt.store(salt.to_bits(), Ordering::Release);
            self.publish_durable(start);
        });
        self.lost_behind.store(NO_LOSS, Ordering::Release);
        if let Ok(word) = self.page.atomic_u64(offset_of!(ClientPage, completed) as u64) {
            word.store(position.0, Ordering::Release);
        }
    }
}

impl Reservation {
    /// Where the entry starts.
    #[must_use]
    pub fn position(&self) -> LogPosition {
        self.position
    }

    /// Where its body starts.
    #[must_use]
    pub fn body(&self) -> LogPosition {
        self.position.plus(HEADER_BYTES as u64)
    }
}
