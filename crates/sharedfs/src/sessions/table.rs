//! The session table, mapped: which logs there are, kept so that no crash can tear it.
//!
//! Each record has two places. An update goes to the one that does not count, is made durable, and counts
//! from then on because its sequence number is higher (`format::session_table`).

use crate::Error;
use crate::metadata::MetadataError;
use cuesta_format::session_table::{
    HEAD_BYTES, SESSION_SLOTS, SessionRecord, TableHead, head_offset, record_bytes, record_offset,
    table_bytes,
};
use cuesta_format::superblock::Medium;
use cuesta_format::{InodeNumber, SessionId};
use cuesta_media::emulate::Emulated;
use cuesta_media::{Mapping, Protection};
use std::path::Path;
use std::sync::Arc;

/// Which of a record's two copies counts, and its sequence number (0: neither was ever written).
#[derive(Clone, Copy, Debug, Default)]
struct Current {
    copy: u32,
    sequence: u64,
}

/// The mapped table.
#[derive(Debug)]
pub struct SessionTable {
    mapping: Mapping,
    ring_slots: u32,
    head: TableHead,
    head_current: Current,
    slots: Vec<Current>,
    free: Vec<u32>,
    scratch: Vec<u8>,
    /// It is the next daemon's.
    is_left: bool,
}

/// A slot's number and what it holds.
pub type OccupiedSlot = (u32, SessionRecord);

impl SessionTable {
    /// Makes the table of a new store.
    pub fn create(path: &Path, ring_slots: u32, medium: Medium) -> Result<(), Error> {
        let mapping = Mapping::create(path, table_bytes(ring_slots), medium, false)?;
        let head =
            TableHead { next_session: SessionId(1), inode_limit: InodeNumber(InodeNumber::ROOT.0 + 1) };
        mapping.write_through(head_offset(0), &head.encode(1))?;
        mapping.fence()?;
        Ok(())
    }

    /// Opens the table and lists the sessions in it.
    pub fn open(
        path: &Path,
        ring_slots: u32,
        medium: Medium,
    ) -> Result<(SessionTable, Vec<OccupiedSlot>), Error> {
        let mapping = Mapping::open(path, Protection::ReadWrite, medium)?;
        let (head_current, head) = read_head(&mapping)?;
        let mut table = SessionTable {
            mapping,
            ring_slots,
            head,
            head_current,
            slots: Vec::with_capacity(SESSION_SLOTS as usize),
            free: Vec::new(),
            scratch: Vec::new(),
            is_left: false,
        };
        let mut occupied = Vec::new();
        let mut bytes = vec![0; table_bytes(ring_slots) as usize];
        table.mapping.read(0, &mut bytes)?;
        for slot in 0..SESSION_SLOTS {
            let (current, record) = read_slot(&bytes, ring_slots, slot)?;
            table.slots.push(current);
            match record {
                Some(record) if !record.is_free() => occupied.push((slot, record)),
                _ => table.free.push(slot),
            }
        }
        table.free.reverse();
        Ok((table, occupied))
    }

    /// Has it play another medium.
    pub fn emulate(&self, emulated: &Arc<Emulated>) {
        self.mapping.emulate(emulated);
    }

    /// The head of a table that nobody has open.
    pub fn read_head(path: &Path, medium: Medium) -> Result<TableHead, Error> {
        let mapping = Mapping::open(path, Protection::ReadOnly, medium)?;
        read_head(&mapping).map(|(_, head)| head)
    }

    /// Takes a slot nobody uses for `record`, durably; `None`: there is none.
    pub fn occupy(&mut self, record: &SessionRecord) -> Result<Option<u32>, Error> {
        let Some(&slot) = self.free.last() else { return Ok(None) };
        self.write(slot, record)?;
        self.free.pop();
        Ok(Some(slot))
    }

    /// Replaces a slot's record, durably.
    pub fn write(&mut self, slot: u32, record: &SessionRecord) -> Result<(), Error> {
        self.check_kept()?;
        let current = self.slots[slot as usize];
        let next = Current { copy: 1 - current.copy, sequence: current.sequence + 1 };
        record.encode(next.sequence, &mut self.scratch);
        self.mapping.write_through(record_offset(self.ring_slots, slot, next.copy), &self.scratch)?;
        self.mapping.fence()?;
        self.slots[slot as usize] = next;
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

    /// Moves them, durably.
    pub fn set_head(&mut self, head: TableHead) -> Result<(), Error> {
        self.check_kept()?;
        let next = Current { copy: 1 - self.head_current.copy, sequence: self.head_current.sequence + 1 };
        self.mapping.write_through(head_offset(next.copy), &head.encode(next.sequence))?;
        self.mapping.fence()?;
        self.head_current = next;
        self.head = head;
        Ok(())
    }
}

/// Which copy of a slot counts, and its record, from the bytes of the table.
fn read_slot(table: &[u8], ring_slots: u32, slot: u32) -> Result<(Current, Option<SessionRecord>), Error> {
    let mut best = (Current::default(), None);
    let mut damaged = 0;
    for copy in 0..2 {
        let bytes = &table[record_offset(ring_slots, slot, copy) as usize..][..record_bytes(ring_slots)];
        // Most slots were never used.
        if bytes.iter().all(|&byte| byte == 0) {
            continue;
        }
        match SessionRecord::decode(bytes) {
            Some((sequence, record)) if sequence > best.0.sequence => {
                best = (Current { copy, sequence }, Some(record));
            }
            Some(_) => {}
            None => damaged += 1,
        }
    }
    if damaged == 2 {
        return Err(Error::SessionTable { slot });
    }
    Ok(best)
}

fn read_head(mapping: &Mapping) -> Result<(Current, TableHead), Error> {
    let mut best = None;
    for copy in 0..2 {
        let mut bytes = [0; HEAD_BYTES];
        mapping.read(head_offset(copy), &mut bytes)?;
        if let Some((sequence, head)) = TableHead::decode(&bytes)
            && best.is_none_or(|(current, _): (Current, TableHead)| sequence > current.sequence)
        {
            best = Some((Current { copy, sequence }, head));
        }
    }
    best.ok_or(Error::SessionTableHead)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuesta_format::{LeaseGeneration, LogGeneration, LogPosition, SegmentId};

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

    #[test]
    fn a_torn_update_leaves_the_record_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sessions");
        SessionTable::create(&path, 8, Medium::Memory).unwrap();
        let (mut table, occupied) = SessionTable::open(&path, 8, Medium::Memory).unwrap();
        assert!(occupied.is_empty());
        let slot = table.occupy(&record(5)).unwrap().unwrap();
        table.write(slot, &record(6)).unwrap();
        let newest = record_offset(8, slot, table.slots[slot as usize].copy);
        table.mapping.write(newest + 20, &[0xff; 9]).unwrap();
        drop(table);
        let (mut table, occupied) = SessionTable::open(&path, 8, Medium::Memory).unwrap();
        assert_eq!(occupied, [(slot, record(5))]);
        let other = table.occupy(&record(7)).unwrap().unwrap();
        assert_ne!(other, slot);
        table.release(slot).unwrap();
        table.release(other).unwrap();
        drop(table);
        assert!(SessionTable::open(&path, 8, Medium::Memory).unwrap().1.is_empty());
    }

    #[test]
    fn both_copies_damaged_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sessions");
        SessionTable::create(&path, 8, Medium::Memory).unwrap();
        let (table, _) = SessionTable::open(&path, 8, Medium::Memory).unwrap();
        for copy in 0..2 {
            table.mapping.write(record_offset(8, 4, copy), &[0xff; 9]).unwrap();
        }
        drop(table);
        let opened = SessionTable::open(&path, 8, Medium::Memory);
        assert!(matches!(opened, Err(Error::SessionTable { slot: 4 })));
    }
}
