//! Call tags of entries: which entry has one, and the record of the call that the entry executed.
//!
//! The tag's bytes are in `call_tag.rs`. This file knows entries and operations as well, so that these need not know each
//! other.

use super::call_tag::{CallRecord, CallTag, TAG_BYTES};
use super::entry::{EntryKind, Header};
use super::operation::Operation;

impl CallTag {
    /// The tag of an entry that has one; `body` is all of the entry's body, whose checksum is right.
    #[must_use]
    pub fn of(header: &Header, body: &[u8]) -> Option<CallTag> {
        // The body of a void entry was never checked.
        let has_tag = header.is_tagged() && header.kind != EntryKind::Void;
        let bytes = body.last_chunk::<TAG_BYTES>().filter(|_| has_tag)?;
        Some(CallTag::decode(bytes))
    }

    /// The record of the call that `operation` executed.
    #[must_use]
    pub fn record(&self, operation: &Operation<'_>) -> CallRecord {
        let (value, end) = match *operation {
            Operation::Write { offset, data, .. } => {
                (data.len() as u64, offset.saturating_add(data.len() as u64))
            }
            Operation::WriteStaged { offset, staged, .. } => {
                (staged.bytes(), offset.saturating_add(staged.bytes()))
            }
            _ => (operation.inode().0, 0),
        };
        CallRecord { number: self.number, process: self.process, value, end }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call_tag::{CallSlot, Caller, CallerId};
    use crate::entry::FLAG_TAGGED;
    use crate::{InodeNumber, LeaseGeneration, LogPosition, Timestamp};

    fn tag() -> CallTag {
        let caller = Caller { user: 0x0403_0201, id: CallerId([7; 16]) };
        let slot = CallSlot { caller, slot: 63 };
        CallTag { slot, process: 9, number: CallTag::NUMBER_MAX }
    }

    fn header(flags: u8, body_bytes: usize) -> Header {
        Header {
            kind: EntryKind::Write,
            flags,
            body_bytes: body_bytes as u32,
            debit_blocks: 1,
            position: LogPosition(64),
            lease_generation: LeaseGeneration(1),
            inode: InodeNumber(5),
            argument: 100,
            time: Timestamp(1),
            acknowledged: LogPosition(0),
        }
    }

    #[test]
    fn golden_bytes_of_a_tag() {
        let bytes = tag().encode();
        assert_eq!(bytes[..16], [7; 16]);
        assert_eq!(bytes[16..], [1, 2, 3, 4, 9, 0, 0, 0, 255, 255, 255, 255, 255, 255, 63, 0]);
    }

    #[test]
    fn a_tag_lies_behind_the_body_and_is_no_part_of_it() {
        let body = [&b"content"[..], &tag().encode()].concat();
        let tagged = header(FLAG_TAGGED, body.len());
        assert_eq!(CallTag::of(&tagged, &body), Some(tag()));
        assert_eq!(tagged.content_bytes(), 7);
        let write = Operation::decode(&tagged, &body).unwrap();
        assert_eq!(write, Operation::Write { inode: InodeNumber(5), offset: 100, data: b"content" });
        let record = CallRecord { number: CallTag::NUMBER_MAX, process: 9, value: 7, end: 107 };
        assert_eq!(tag().record(&write), record);

        let plain = header(0, body.len());
        assert_eq!(CallTag::of(&plain, &body), None);
        assert_eq!(plain.content_bytes() as usize, body.len());
        let void = Header { kind: EntryKind::Void, ..tagged };
        assert_eq!(CallTag::of(&void, &body), None, "its body was not checked");
        assert_eq!(Operation::decode(&void, b""), Ok(Operation::Void));
    }

    #[test]
    fn a_body_too_short_for_its_tag_is_an_error() {
        for length in 0..TAG_BYTES {
            let body = vec![0; length];
            let short = header(FLAG_TAGGED, length);
            assert!(Operation::decode(&short, &body).is_err(), "{length} bytes");
            assert_eq!((CallTag::of(&short, &body), short.content_bytes()), (None, 0));
        }
    }
}
