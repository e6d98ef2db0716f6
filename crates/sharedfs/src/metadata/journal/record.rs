//! The journal's bytes: its records, and the number of the file's header that says how many of them count.

use crate::metadata::files::JOURNAL_BYTES;
use cuesta_format::entry::crc32c;

const UNIT_BYTES: u64 = 16;
const HEADER_BYTES: usize = 16;
/// Bits of either half of the number in the header.
const HALF_BITS: u32 = 20;
const HALF: u64 = (1 << HALF_BITS) - 1;
const _: () = assert!(JOURNAL_BYTES / UNIT_BYTES <= HALF);

/// Which journal: each commit of the tree begins the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct JournalGeneration(pub(in super::super) u64);

impl JournalGeneration {
    /// The one behind it.
    #[must_use]
    pub(in super::super) fn next(self) -> JournalGeneration {
        JournalGeneration(self.0 + 1)
    }
}

/// How far it is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct JournalEnd {
    /// Which journal it is.
    pub(in super::super) generation: JournalGeneration,
    /// Bytes of it that count.
    pub(in super::super) end: u64,
}

impl JournalEnd {
    /// The number that says so in the header.
    pub(super) fn number(self) -> u64 {
        ((self.generation.0 & HALF) << HALF_BITS) | (self.end / UNIT_BYTES)
    }

    /// The place that a number says, of a journal that is not older than `oldest`: the number holds only the
    /// low bits of the generation.
    pub(super) fn from_number(number: u64, oldest: JournalGeneration) -> JournalEnd {
        let newer_by = (number >> HALF_BITS).wrapping_sub(oldest.0) & HALF;
        JournalEnd { generation: JournalGeneration(oldest.0 + newer_by), end: (number & HALF) * UNIT_BYTES }
    }
}

/// Whether one number says more than another, of journals that are not half of all generations apart.
pub(in super::super) fn is_newer(one: u64, other: u64) -> bool {
    let newer_by = (one >> HALF_BITS).wrapping_sub(other >> HALF_BITS) & HALF;
    match newer_by {
        0 => one & HALF > other & HALF,
        _ => newer_by <= HALF / 2,
    }
}

/// Bytes that a record takes of so many bytes of changes.
pub(super) fn record_bytes(changes: usize) -> u64 {
    ((HEADER_BYTES + changes) as u64).next_multiple_of(UNIT_BYTES)
}

/// A record.
pub(super) fn encode(generation: JournalGeneration, changes: &[u8]) -> Vec<u8> {
    let mut record = Vec::with_capacity(record_bytes(changes.len()) as usize);
    record.extend_from_slice(&[0; 4]);
    record.extend_from_slice(&(changes.len() as u32).to_le_bytes());
    record.extend_from_slice(&generation.0.to_le_bytes());
    record.extend_from_slice(changes);
    record.resize(record.capacity(), 0);
    let checksum = crc32c(&record[4..]).to_le_bytes();
    record[..4].copy_from_slice(&checksum);
    record
}

/// Reads records one behind the other, as far as they are sound.
#[derive(Debug)]
pub(super) struct Records<'a> {
    generation: JournalGeneration,
    rest: &'a [u8],
    /// Bytes of those read.
    pub(super) end: u64,
}

impl<'a> Records<'a> {
    pub(super) fn new(generation: JournalGeneration, bytes: &'a [u8]) -> Records<'a> {
        Records { generation, rest: bytes, end: 0 }
    }

    /// Whether nothing comes behind those read.
    pub(super) fn at_end(&self) -> bool {
        self.rest.is_empty()
    }
}

impl<'a> Iterator for Records<'a> {
    /// Its changes.
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (header, behind) = self.rest.split_first_chunk::<HEADER_BYTES>()?;
        let length = u32::from_le_bytes([header[4], header[5], header[6], header[7]]) as usize;
        let (record, rest) = self.rest.split_at_checked(record_bytes(length) as usize)?;
        if crc32c(&record[4..]).to_le_bytes() != header[..4] || header[8..] != self.generation.0.to_le_bytes()
        {
            return None;
        }
        self.rest = rest;
        self.end += record.len() as u64;
        Some(&behind[..length])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_up_to_the_first_damaged_one() {
        let generation = JournalGeneration(7);
        let mut bytes = [&b"one"[..], &[2; 1000], b""].map(|changes| encode(generation, changes)).concat();
        let read = |bytes: &[u8], generation| {
            let mut records = Records::new(generation, bytes);
            let lengths: Vec<usize> = records.by_ref().map(<[u8]>::len).collect();
            (lengths, records.end, records.at_end())
        };
        assert_eq!(read(&bytes, generation), (vec![3, 1000, 0], bytes.len() as u64, true));
        assert_eq!(read(&bytes, generation.next()), (vec![], 0, false));
        assert_eq!(read(&bytes[..40], generation), (vec![3], 32, false));
        bytes[32 + 500] ^= 1;
        assert_eq!(read(&bytes, generation), (vec![3], 32, false));
    }

    #[test]
    fn a_number_says_a_place_and_means_no_journal_before_the_oldest() {
        for generation in [0, 5, HALF, HALF + 1, 1 << 40] {
            let place = JournalEnd { generation: JournalGeneration(generation), end: 4096 };
            assert_eq!(JournalEnd::from_number(place.number(), place.generation), place);
            let newer = JournalEnd { generation: JournalGeneration(generation + 9), ..place };
            assert_eq!(JournalEnd::from_number(newer.number(), place.generation), newer);
            let seen_late = JournalEnd::from_number(place.number(), newer.generation);
            assert!(seen_late.generation > newer.generation);
        }
    }
}
