//! The session table, mapped: which logs there are, kept so that no crash can tear it, and no damage of one place lose it.
//!
//! Each record has two places. An update goes to the one that does not count, is made durable, and counts
//! from then on because its sequence number is higher (`format::session_table`).
//!
//! The same stands in a second file (docs/decisions/0046). An update goes there next, and nothing waits for it:
//! after a loss of power the second file may be older, never newer. Opening the table takes the newest record of
//! both, and writes records that the one lacks.
//!
//! A session that begins has no log, so a loss of power may take its record: the disk gets that with the next update that is
//! made durable, which is the one that gives the session a log, at the latest. Inode numbers are taken from the head in
//! large steps. So a process that starts waits for the disk once, not three times.

use crate::Error;
use crate::metadata::MetadataError;
use cuesta_format::geometry::{SESSIONS_COPY_FILE, SESSIONS_FILE};
use cuesta_format::session_table::{
    HEAD_BYTES, SESSION_SLOTS, SessionRecord, TableHead, head_offset, record_bytes, record_offset,
    table_bytes,
};
use cuesta_format::superblock::Medium;
use cuesta_format::{InodeNumber, SessionId, StoreId};
use cuesta_media::emulate::Emulated;
use cuesta_media::{Mapping, Protection, create_allocated, lengthen, recorder};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::Path;
use std::sync::Arc;

/// A process takes so many times the inode numbers it needs from the head, for the processes that follow.
const NUMBERS_STEP: u64 = 64;

/// The two files.
const FILES: [&str; 2] = [SESSIONS_FILE, SESSIONS_COPY_FILE];

/// Which of a record's two copies counts, and its sequence number (0: neither was ever written).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Current {
    copy: u32,
    sequence: u64,
}

/// A record and which copy of it that is.
type Versioned<R> = (Current, R);

/// The records of one file.
#[derive(Debug, Default)]
struct OneFile {
    head: Option<Versioned<TableHead>>,
    slots: Vec<Option<Versioned<SessionRecord>>>,
    /// Copies of slots that were written and are not sound.
    damaged: Vec<u32>,
    /// It is missing, or too short.
    is_short: bool,
}

/// What both files say together.
#[derive(Debug)]
pub struct TableRead {
    files: [OneFile; 2],
    head: Versioned<TableHead>,
    slots: Vec<Option<Versioned<SessionRecord>>>,
}

/// The mapped table.
#[derive(Debug)]
pub struct SessionTable {
    mapping: Mapping,
    copy: Mapping,
    ring_slots: u32,
    head: TableHead,
    head_current: Current,
    slots: Vec<Current>,
    /// Slots whose record was written since something was last made durable, and its bytes.
    unsettled: BTreeMap<u32, Vec<u8>>,
    /// The first inode number that was never given.
    numbers_next: InodeNumber,
    free: Vec<u32>,
    scratch: Vec<u8>,
    /// It is the next daemon's.
    is_left: bool,
}

/// A slot's number and its record.
pub type OccupiedSlot = (u32, SessionRecord);

fn newest<R>(one: Option<Versioned<R>>, other: Option<Versioned<R>>) -> Option<Versioned<R>> {
    match (one, other) {
        (Some(one), Some(other)) => Some(if other.0.sequence > one.0.sequence { other } else { one }),
        (one, other) => one.or(other),
    }
}

impl OneFile {
    /// The records of a store's file; none, if it is another store's.
    fn read(path: &Path, ring_slots: u32, store: StoreId) -> Result<OneFile, Error> {
        let read = || -> std::io::Result<Vec<u8>> {
            let mut file = File::open(path)?;
            let mut bytes = Vec::new();
            file.by_ref().take(table_bytes(ring_slots)).read_to_end(&mut bytes)?;
            recorder::record_file_read(&file, 0, bytes.len());
            Ok(bytes)
        };
        let mut bytes = match read() {
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            read => read.map_err(Error::io("read the session table"))?,
        };
        let is_short = (bytes.len() as u64) < table_bytes(ring_slots);
        bytes.resize(table_bytes(ring_slots) as usize, 0);
        let mut found = OneFile { is_short, ..OneFile::default() };
        for copy in 0..2 {
            let at = head_offset(copy) as usize;
            if let Some((sequence, head)) = TableHead::decode(&bytes[at..at + HEAD_BYTES]) {
                if head.store != store && head.store != StoreId([0; 16]) {
                    return Ok(OneFile {
                        slots: vec![None; SESSION_SLOTS as usize],
                        is_short,
                        ..OneFile::default()
                    });
                }
                found.head = newest(found.head, Some((Current { copy, sequence }, head)));
            }
        }
        for slot in 0..SESSION_SLOTS {
            let mut newest_record = None;
            for copy in 0..2 {
                let at = record_offset(ring_slots, slot, copy) as usize;
                let bytes = &bytes[at..at + record_bytes(ring_slots)];
                // Most slots were never used.
                if bytes.iter().fold(0, |all, &byte| all | byte) == 0 {
                    continue;
                }
                match SessionRecord::decode(bytes) {
                    Some((sequence, record)) => {
                        newest_record = newest(newest_record, Some((Current { copy, sequence }, record)));
                    }
                    None => found.damaged.push(slot),
                }
            }
            found.slots.push(newest_record);
        }
        Ok(found)
    }
}

impl TableRead {
    /// Reads the table of a store's tier, which no daemon changes meanwhile.
    pub fn of(tier: &Path, ring_slots: u32, store: StoreId) -> Result<TableRead, Error> {
        let read = |name| OneFile::read(&tier.join(name), ring_slots, store);
        let files = [read(FILES[0])?, read(FILES[1])?];
        let [one, other] = &files;
        let head = newest(one.head, other.head).ok_or(Error::SessionTableHead)?;
        let slots: Vec<_> = one
            .slots
            .iter()
            .zip(&other.slots)
            .map(|(one, other)| newest(one.clone(), other.clone()))
            .collect();
        for (slot, _) in (0..SESSION_SLOTS).zip(&slots).filter(|(_, kept)| kept.is_none()) {
            let damaged = files.iter().flat_map(|file| &file.damaged).filter(|&&damaged| damaged == slot);
            // A file that is whole there says that the slot was never used.
            let is_sound =
                |file: &OneFile| !file.is_short && file.head.is_some() && !file.damaged.contains(&slot);
            // One may be the first that was ever written there, and torn.
            if damaged.count() > 1 && !files.iter().any(is_sound) {
                return Err(Error::SessionTable { slot });
            }
        }
        Ok(TableRead { files, head, slots })
    }

    /// The numbers that are never given twice.
    #[must_use]
    pub fn head(&self) -> TableHead {
        self.head.1
    }

    /// The sessions.
    pub fn occupied(&self) -> impl Iterator<Item = OccupiedSlot> {
        let slots = (0..SESSION_SLOTS).zip(&self.slots);
        slots.filter_map(|(slot, kept)| match kept {
            Some((_, record)) if !record.is_free() => Some((slot, record.clone())),
            _ => None,
        })
    }

    /// How many records the first file lacks. No crash takes a record from it that the second one has.
    #[must_use]
    pub fn lost_by_the_first(&self) -> usize {
        let [first, _] = &self.files;
        let is_older = |kept: &Option<Versioned<SessionRecord>>,
                        newest: &Option<Versioned<SessionRecord>>| {
            newest.as_ref().map(|newest| newest.0.sequence) != kept.as_ref().map(|kept| kept.0.sequence)
        };
        let slots = first.slots.iter().zip(&self.slots).filter(|(kept, newest)| is_older(kept, newest));
        let head = first.head.map(|head| head.0.sequence) != Some(self.head.0.sequence);
        slots.count() + usize::from(head)
    }
}

/// Opens one of the files to write, and makes the missing part of it.
fn provide(path: &Path, bytes: u64, medium: Medium) -> Result<Mapping, Error> {
    match File::options().read(true).write(true).open(path) {
        Ok(file) => {
            lengthen(&file, bytes)?;
            Ok(Mapping::of_file(&file, 0, bytes, Protection::ReadWrite, medium, false)?)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let file = create_allocated(path, bytes)?;
            Ok(Mapping::of_file(&file, 0, bytes, Protection::ReadWrite, medium, false)?)
        }
        Err(error) => Err(Error::io("open the session table")(error)),
    }
}

impl SessionTable {
    /// Makes the table of a new store.
    pub fn create(tier: &Path, ring_slots: u32, store: StoreId, medium: Medium) -> Result<(), Error> {
        let head = TableHead {
            next_session: SessionId(1),
            inode_limit: InodeNumber(InodeNumber::ROOT.0 + 1),
            store,
            incarnation: 0,
            boot: 0,
        };
        for name in FILES {
            let mapping = Mapping::create(&tier.join(name), table_bytes(ring_slots), medium, false)?;
            mapping.write_through(head_offset(0), &head.encode(1))?;
            mapping.fence()?;
        }
        Ok(())
    }

    /// Opens the table, lists the sessions in it, and mends each of its files from the other.
    pub fn open(
        tier: &Path,
        ring_slots: u32,
        store: StoreId,
        medium: Medium,
    ) -> Result<(SessionTable, Vec<OccupiedSlot>), Error> {
        let read = TableRead::of(tier, ring_slots, store)?;
        let lost = read.lost_by_the_first();
        if lost > 0 || read.files[0].is_short {
            tracing::warn!(
                records = lost,
                "the session table was damaged: {SESSIONS_FILE} is mended from {SESSIONS_COPY_FILE}"
            );
        }
        let occupied = read.occupied().collect();
        let [mapping, copy] = FILES.map(|name| provide(&tier.join(name), table_bytes(ring_slots), medium));
        let (mapping, copy) = (mapping?, copy?);
        let mut scratch = Vec::new();
        let mut slots = Vec::with_capacity(SESSION_SLOTS as usize);
        let mut free = Vec::new();
        for (file, mapping) in read.files.iter().zip([&mapping, &copy]) {
            let mut has_written = false;
            if file.head.map(|head| head.0) != Some(read.head.0) {
                let (current, head) = read.head;
                mapping.write_through(head_offset(current.copy), &head.encode(current.sequence))?;
                has_written = true;
            }
            for (slot, (kept, newest)) in (0..SESSION_SLOTS).zip(file.slots.iter().zip(&read.slots)) {
                let Some((current, record)) = newest else { continue };
                if kept.as_ref().map(|kept| kept.0) != Some(*current) {
                    record.encode(current.sequence, &mut scratch);
                    mapping.write_through(record_offset(ring_slots, slot, current.copy), &scratch)?;
                    has_written = true;
                }
            }
            if has_written {
                mapping.fence()?;
            }
        }
        for (slot, kept) in (0..SESSION_SLOTS).zip(&read.slots) {
            slots.push(kept.as_ref().map_or(Current::default(), |kept| kept.0));
            if kept.as_ref().is_none_or(|kept| kept.1.is_free()) {
                free.push(slot);
            }
        }
        free.reverse();
        let (head_current, head) = read.head;
        let is_left = false;
        let table = SessionTable {
            mapping,
            copy,
            ring_slots,
            head,
            head_current,
            slots,
            unsettled: BTreeMap::new(),
            numbers_next: head.inode_limit,
            free,
            scratch,
            is_left,
        };
        Ok((table, occupied))
    }

    /// Has it play another medium.
    pub fn emulate(&self, emulated: &Arc<Emulated>) {
        self.mapping.emulate(emulated);
    }

    /// Takes an unused slot for `record`, that of a session without a log; `None`: there is none. No crash of a process takes
    /// it back; a loss of power may, until another record is written durably.
    pub fn occupy(&mut self, record: &SessionRecord) -> Result<Option<u32>, Error> {
        let Some(&slot) = self.free.last() else { return Ok(None) };
        self.put(slot, record)?;
        self.free.pop();
        Ok(Some(slot))
    }

    /// Replaces a slot's record, durably.
    pub fn write(&mut self, slot: u32, record: &SessionRecord) -> Result<(), Error> {
        self.put(slot, record)?;
        self.settle()
    }

    /// Writes a record over the copy that does not count on the disk.
    fn put(&mut self, slot: u32, record: &SessionRecord) -> Result<(), Error> {
        self.check_kept()?;
        let Current { copy, sequence } = self.slots[slot as usize];
        let is_settled = !self.unsettled.contains_key(&slot);
        let next = Current { copy: if is_settled { 1 - copy } else { copy }, sequence: sequence + 1 };
        record.encode(next.sequence, &mut self.scratch);
        self.mapping.write_through(record_offset(self.ring_slots, slot, next.copy), &self.scratch)?;
        self.slots[slot as usize] = next;
        self.unsettled.insert(slot, self.scratch.clone());
        Ok(())
    }

    /// Makes the records that were put durable.
    fn settle(&mut self) -> Result<(), Error> {
        self.mapping.fence()?;
        // Nothing waits for the second file: it may be older, for a while.
        for (slot, record) in std::mem::take(&mut self.unsettled) {
            let place = record_offset(self.ring_slots, slot, self.slots[slot as usize].copy);
            self.copy.write(place, &record)?;
        }
        Ok(())
    }

    /// Empties a slot, durably; it may be taken again.
    pub fn release(&mut self, slot: u32) -> Result<(), Error> {
        self.write(slot, &SessionRecord::free())?;
        self.free.push(slot);
        Ok(())
    }

    /// From now on it is another's: nothing is written to it.
    pub fn leave(&mut self) {
        self.is_left = true;
    }

    fn check_kept(&self) -> Result<(), Error> {
        if self.is_left { Err(MetadataError::Left.into()) } else { Ok(()) }
    }

    /// The numbers that are never given twice.
    #[must_use]
    pub fn head(&self) -> TableHead {
        self.head
    }

    /// Inode numbers that were never given before, durably taken: the first of `count`.
    pub fn take_numbers(&mut self, count: u32) -> Result<InodeNumber, Error> {
        let first = self.numbers_next;
        let end = InodeNumber(first.0 + u64::from(count));
        if end > self.head.inode_limit {
            let inode_limit = InodeNumber(first.0 + u64::from(count) * NUMBERS_STEP);
            self.set_head(TableHead { inode_limit, ..self.head })?;
        }
        self.numbers_next = end;
        Ok(first)
    }

    /// Moves them, durably.
    pub fn set_head(&mut self, head: TableHead) -> Result<(), Error> {
        self.check_kept()?;
        let next = Current { copy: 1 - self.head_current.copy, sequence: self.head_current.sequence + 1 };
        self.mapping.write_through(head_offset(next.copy), &head.encode(next.sequence))?;
        self.settle()?;
        self.copy.write(head_offset(next.copy), &head.encode(next.sequence))?;
        self.head_current = next;
        self.head = head;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuesta_format::{LeaseGeneration, LogGeneration, LogPosition, SegmentId};

    const STORE: StoreId = StoreId([6; 16]);

    fn record(session: u64) -> SessionRecord {
        SessionRecord {
            session: SessionId(session),
            pid: 9,
            log_generation: LogGeneration(1),
            lease_generation: LeaseGeneration(1),
            start: LogPosition(0),
            ended: false,
            away_below: InodeNumber::NONE,
            segments: vec![SegmentId(3)],
            commit_file: None,
        }
    }

    fn open(tier: &Path) -> Result<(SessionTable, Vec<OccupiedSlot>), Error> {
        SessionTable::open(tier, 8, STORE, Medium::Memory)
    }

    fn made() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        SessionTable::create(folder.path(), 8, STORE, Medium::Memory).unwrap();
        folder
    }

    #[test]
    fn a_torn_update_leaves_the_record_before() {
        let folder = made();
        let (mut table, occupied) = open(folder.path()).unwrap();
        assert!(occupied.is_empty());
        let slot = table.occupy(&record(4)).unwrap().unwrap();
        table.write(slot, &record(5)).unwrap();
        table.write(slot, &record(6)).unwrap();
        let newest = record_offset(8, slot, table.slots[slot as usize].copy);
        // The second file comes behind the first.
        table.mapping.write(newest + 20, &[0xff; 9]).unwrap();
        table.copy.write(newest + 20, &[0xff; 9]).unwrap();
        drop(table);
        let (mut table, occupied) = open(folder.path()).unwrap();
        assert_eq!(occupied, [(slot, record(5))]);
        let other = table.occupy(&record(7)).unwrap().unwrap();
        assert_ne!(other, slot);
        table.release(slot).unwrap();
        table.release(other).unwrap();
        drop(table);
        assert!(open(folder.path()).unwrap().1.is_empty());
    }

    /// Each record that the disk has is the last one that was written durably, or one that came after it.
    #[test]
    fn a_record_that_is_put_again_never_overwrites_the_one_that_the_disk_has() {
        let folder = made();
        let (mut table, _) = open(folder.path()).unwrap();
        let slot = table.occupy(&record(5)).unwrap().unwrap();
        table.write(slot, &record(6)).unwrap();
        let settled = table.slots[slot as usize].copy;
        for id in 7..10 {
            table.put(slot, &record(id)).unwrap();
            assert_ne!(table.slots[slot as usize].copy, settled, "record {id}");
        }
        let another = table.occupy(&record(20)).unwrap().unwrap();
        table.release(another).unwrap();
        assert!(table.unsettled.is_empty());
        let second = OneFile::read(&folder.path().join(SESSIONS_COPY_FILE), 8, STORE).unwrap();
        assert_eq!(second.slots[slot as usize].as_ref().unwrap().1, record(9));
        table.put(slot, &record(10)).unwrap();
        assert_eq!(table.slots[slot as usize].copy, settled);
        // A process that dies loses nothing of it.
        drop(table);
        assert_eq!(open(folder.path()).unwrap().1, [(slot, record(10))]);
    }

    #[test]
    fn numbers_are_never_given_twice_and_seldom_taken_from_the_head() {
        let folder = made();
        let mut next = InodeNumber(InodeNumber::ROOT.0 + 1);
        for _ in 0..3 {
            let (mut table, _) = open(folder.path()).unwrap();
            let before = table.head_current.sequence;
            for _ in 0..NUMBERS_STEP {
                let first = table.take_numbers(10).unwrap();
                assert!(first >= next);
                next = InodeNumber(first.0 + 10);
                assert!(next <= table.head().inode_limit);
            }
            assert_eq!(table.head_current.sequence, before + 1);
        }
    }

    #[test]
    fn all_copies_damaged_is_an_error() {
        let folder = made();
        let (table, _) = open(folder.path()).unwrap();
        for copy in 0..2 {
            table.mapping.write(record_offset(8, 4, copy), &[0xff; 9]).unwrap();
            table.copy.write(record_offset(8, 4, copy), &[0xff; 9]).unwrap();
        }
        drop(table);
        assert!(matches!(open(folder.path()), Err(Error::SessionTable { slot: 4 })));
    }

    /// Whatever happens to one of the files: zeroed blocks, flipped bits, a cut, its removal, an old copy, another store's.
    #[test]
    fn a_record_lost_by_one_file_comes_from_the_other() {
        const SEED: u64 = 46;
        let mut random = fastrand::Rng::with_seed(SEED);
        for round in 0..60 {
            let folder = made();
            let another = tempfile::tempdir().unwrap();
            SessionTable::create(another.path(), 8, StoreId([1; 16]), Medium::Memory).unwrap();
            let (mut table, _) = open(folder.path()).unwrap();
            let slots: Vec<u32> = (1..30).map(|id| table.occupy(&record(id)).unwrap().unwrap()).collect();
            let path = folder.path().join(FILES[random.usize(0..2)]);
            let old = std::fs::read(&path).unwrap();
            for &slot in &slots[..10] {
                table.write(slot, &record(100 + u64::from(slot))).unwrap();
            }
            table.release(slots[20]).unwrap();
            let mut head = table.head();
            head.inode_limit = InodeNumber(5000);
            table.set_head(head).unwrap();
            drop(table);
            let expected = open(folder.path()).unwrap().1;
            let mut bytes = std::fs::read(&path).unwrap();
            match round % 6 {
                0 => {
                    let at = random.usize(0..bytes.len() / 4096) * 4096;
                    bytes[at..at + 4096].fill(0);
                }
                1 => (0..200).for_each(|_| bytes[random.usize(0..30000)] ^= 1 << random.u8(0..8)),
                2 => bytes.truncate(random.usize(0..30000)),
                3 => bytes = old,
                4 => bytes = std::fs::read(another.path().join(FILES[0])).unwrap(),
                _ => bytes.clear(),
            }
            std::fs::remove_file(&path).unwrap();
            if round % 12 < 11 {
                std::fs::write(&path, bytes).unwrap();
            }
            let (table, found) = open(folder.path()).unwrap();
            assert_eq!(found, expected, "seed {SEED}, round {round}");
            assert_eq!(table.head().inode_limit, InodeNumber(5000), "seed {SEED}, round {round}");
            drop(table);
            // Each has all again. Another store's file is passed over, and not written anew.
            for name in FILES.into_iter().filter(|_| round % 6 != 4) {
                let one = OneFile::read(&folder.path().join(name), 8, STORE).unwrap();
                let kept = one.slots.iter().flatten().filter(|kept| !kept.1.is_free()).count();
                assert_eq!(kept, expected.len(), "seed {SEED}, round {round}");
            }
        }
    }
}
