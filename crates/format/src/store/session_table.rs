//! The session table: SharedFS's own record of which logs there are, at rest.
//!
//! | bytes | what |
//! |---|---|
//! | 0..64, 4096..4160 | two copies of the head |
//! | from 8192 | slots; each two copies of [`SessionRecord`] |
//!
//! A record is never changed in place: the older (or damaged) one of its two copies is replaced and the
//! sequence number tells which one counts, so a torn update leaves what was there before.
//!
//! All of it stands in two files (docs/decisions/0046): whatever one of them lost, the other has.

use crate::entry::crc32c;
use crate::{InodeNumber, LeaseGeneration, LogGeneration, LogPosition, SegmentId, SessionId, StoreId};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Sessions that can be attached at once.
pub const SESSION_SLOTS: u32 = 1024;

/// Bytes of a copy of the head.
pub const HEAD_BYTES: usize = 64;

const HEAD_PITCH: u64 = 4096;
const SLOTS_START: u64 = 2 * HEAD_PITCH;
const RECORD_BYTES: usize = 64;

/// Where the head's copy `copy` (0 or 1) lies.
#[must_use]
pub fn head_offset(copy: u32) -> u64 {
    u64::from(copy) * HEAD_PITCH
}

/// Bytes of one copy of a slot whose ring has `ring_slots` segments.
#[must_use]
pub fn record_bytes(ring_slots: u32) -> usize {
    (RECORD_BYTES + 4 * (ring_slots as usize + 1)).next_multiple_of(64)
}

/// Where copy `copy` (0 or 1) of slot `slot` lies.
#[must_use]
pub fn record_offset(ring_slots: u32, slot: u32, copy: u32) -> u64 {
    SLOTS_START + (u64::from(slot) * 2 + u64::from(copy)) * record_bytes(ring_slots) as u64
}

/// Bytes of the whole table.
#[must_use]
pub fn table_bytes(ring_slots: u32) -> u64 {
    record_offset(ring_slots, SESSION_SLOTS, 0).next_multiple_of(4096)
}

/// Numbers that are never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableHead {
    /// The next session's number.
    pub next_session: SessionId,
    /// No inode at or above it exists or may be made.
    pub inode_limit: InodeNumber,
    /// The store of the table; all zeros: a version wrote it that did not say.
    pub store: StoreId,
    /// The number of the last daemon that opened the store; 0: not known.
    pub incarnation: u64,
    /// The beginning of the name of the boot in which that was; 0: not known.
    pub boot: u64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct HeadLayout {
    checksum: U32,
    zero: U32,
    sequence: U64,
    next_session: U64,
    inode_limit: U64,
    store: [u8; 16],
    incarnation: U64,
    boot: U64,
}

const _: () = assert!(size_of::<HeadLayout>() == HEAD_BYTES);

impl TableHead {
    /// The bytes of a copy.
    #[must_use]
    pub fn encode(&self, sequence: u64) -> [u8; HEAD_BYTES] {
        let mut layout = HeadLayout {
            checksum: U32::ZERO,
            zero: U32::ZERO,
            sequence: sequence.into(),
            next_session: self.next_session.0.into(),
            inode_limit: self.inode_limit.0.into(),
            store: self.store.0,
            incarnation: self.incarnation.into(),
            boot: self.boot.into(),
        };
        layout.checksum = crc32c(&layout.as_bytes()[4..]).into();
        zerocopy::transmute!(layout)
    }

    /// A copy and its sequence number, if it is sound.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<(u64, TableHead)> {
        let (layout, _) = HeadLayout::ref_from_prefix(bytes).ok()?;
        if crc32c(&layout.as_bytes()[4..]) != layout.checksum.get() {
            return None;
        }
        let head = TableHead {
            next_session: SessionId(layout.next_session.get()),
            inode_limit: InodeNumber(layout.inode_limit.get()),
            store: StoreId(layout.store),
            incarnation: layout.incarnation.get(),
            boot: layout.boot.get(),
        };
        (layout.sequence.get() > 0).then_some((layout.sequence.get(), head))
    }
}

/// A session's log, as SharedFS keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRecord {
    /// The session; `SessionId(0)` means the slot is free.
    pub session: SessionId,
    /// Its process.
    pub pid: u32,
    /// Generation of the log from `start` on.
    pub log_generation: LogGeneration,
    /// The lease generation entries of that log generation carry.
    pub lease_generation: LeaseGeneration,
    /// Where this log generation starts.
    pub start: LogPosition,
    /// The log was digested to its end and counts no more. SharedFS still has to remove its segments, which a process
    /// that lives may still write to, and then to free the slot.
    pub ended: bool,
    /// While its process has not come back to a daemon that recovered it: inodes it has open have numbers below this. It is
    /// none while the process talks to the daemon there is.
    pub away_below: InodeNumber,
    /// The segments of the ring's slots, in slot order.
    pub segments: Vec<SegmentId>,
    /// The segment that is the log's commit file, if it has one: what its session waited for on medium `block` was written
    /// there first, the byte at each position at that modulo the segment's length.
    pub commit_file: Option<SegmentId>,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RecordLayout {
    checksum: U32,
    segments: U32,
    sequence: U64,
    session: U64,
    log_generation: U64,
    lease_generation: U64,
    start: U64,
    pid: U32,
    flags: U32,
    away_below: U64,
}

/// The log counts no more.
const ENDED: u32 = 1;
/// Behind the segments' names stands that of the commit file.
const HAS_COMMIT_FILE: u32 = 2;

const _: () = assert!(size_of::<RecordLayout>() == RECORD_BYTES);

impl SessionRecord {
    /// A free slot.
    #[must_use]
    pub fn free() -> SessionRecord {
        SessionRecord {
            session: SessionId(0),
            pid: 0,
            log_generation: LogGeneration(0),
            lease_generation: LeaseGeneration(0),
            start: LogPosition(0),
            ended: false,
            away_below: InodeNumber::NONE,
            segments: Vec::new(),
            commit_file: None,
        }
    }

    /// Every segment that is the session's.
    pub fn all_segments(&self) -> impl Iterator<Item = SegmentId> {
        self.segments.iter().copied().chain(self.commit_file)
    }

    /// Whether no session owns the slot.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.session == SessionId(0)
    }

    /// Writes a copy into `out`, replacing its content.
    pub fn encode(&self, sequence: u64, out: &mut Vec<u8>) {
        let layout = RecordLayout {
            checksum: U32::ZERO,
            segments: (self.segments.len() as u32).into(),
            sequence: sequence.into(),
            session: self.session.0.into(),
            log_generation: self.log_generation.0.into(),
            lease_generation: self.lease_generation.0.into(),
            start: self.start.0.into(),
            pid: self.pid.into(),
            flags: (if self.ended { ENDED } else { 0 }
                | if self.commit_file.is_some() { HAS_COMMIT_FILE } else { 0 })
            .into(),
            away_below: self.away_below.0.into(),
        };
        out.clear();
        out.extend_from_slice(layout.as_bytes());
        for segment in self.all_segments() {
            out.extend_from_slice(&segment.0.to_le_bytes());
        }
        let checksum = crc32c(&out[4..]);
        out[..4].copy_from_slice(&checksum.to_le_bytes());
    }

    /// A copy and its sequence number, if it is sound; `bytes` is a whole copy's room.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<(u64, SessionRecord)> {
        let (layout, rest) = RecordLayout::ref_from_prefix(bytes).ok()?;
        let flags = layout.flags.get();
        let count = layout.segments.get() as usize;
        let has_commit_file = flags & HAS_COMMIT_FILE != 0;
        let names = rest.get(..4 * (count + usize::from(has_commit_file)))?;
        if crc32c(&bytes[4..RECORD_BYTES + names.len()]) != layout.checksum.get() {
            return None;
        }
        let names = names.as_chunks::<4>().0.iter().map(|name| SegmentId(u32::from_le_bytes(*name)));
        let mut segments: Vec<_> = names.collect();
        let commit_file = if has_commit_file { segments.pop() } else { None };
        let record = SessionRecord {
            session: SessionId(layout.session.get()),
            pid: layout.pid.get(),
            log_generation: LogGeneration(layout.log_generation.get()),
            lease_generation: LeaseGeneration(layout.lease_generation.get()),
            start: LogPosition(layout.start.get()),
            ended: flags & ENDED != 0,
            away_below: InodeNumber(layout.away_below.get()),
            segments,
            commit_file,
        };
        (layout.sequence.get() > 0).then_some((layout.sequence.get(), record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_survives_and_each_flipped_bit_is_noticed() {
        let record = SessionRecord {
            session: SessionId(7),
            pid: 1234,
            log_generation: LogGeneration(2),
            lease_generation: LeaseGeneration(3),
            start: LogPosition(640),
            ended: true,
            away_below: InodeNumber(77),
            segments: vec![SegmentId(4), SegmentId(9)],
            commit_file: Some(SegmentId(11)),
        };
        let mut bytes = Vec::new();
        record.encode(5, &mut bytes);
        let used = bytes.len();
        bytes.resize(record_bytes(64), 0xee);
        assert_eq!(SessionRecord::decode(&bytes), Some((5, record.clone())));
        let mut without = Vec::new();
        let record = SessionRecord { commit_file: None, ..record };
        record.encode(6, &mut without);
        without.resize(record_bytes(64), 0xee);
        assert_eq!(SessionRecord::decode(&without), Some((6, record)));
        for bit in 0..used * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(SessionRecord::decode(&damaged), None, "bit {bit}");
        }
        assert_eq!(SessionRecord::decode(&[0; 320]), None);
    }

    #[test]
    fn a_head_survives() {
        let head = TableHead {
            next_session: SessionId(3),
            inode_limit: InodeNumber(2),
            store: StoreId([5; 16]),
            incarnation: 7,
            boot: 9,
        };
        assert_eq!(TableHead::decode(&head.encode(9)), Some((9, head)));
        assert_eq!(TableHead::decode(&[0; HEAD_BYTES]), None);
    }

    #[test]
    fn copies_do_not_overlap() {
        assert!(head_offset(1) + HEAD_BYTES as u64 <= record_offset(64, 0, 0));
        assert_eq!(record_offset(64, 0, 1) - record_offset(64, 0, 0), record_bytes(64) as u64);
        assert!(record_offset(64, SESSION_SLOTS - 1, 1) + record_bytes(64) as u64 <= table_bytes(64));
    }
}
