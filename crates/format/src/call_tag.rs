//! Call tags: a process without a session (a *caller*) has each call executed once, however often it asks for it.
//!
//! The daemon executes a caller's calls. When it dies before it answers, the caller asks the next daemon. So the entry by which a
//! call takes effect carries a tag behind its body, and the digest commits the call's outcome ([`CallRecord`]) together with
//! what the entry changes. The next daemon recovers every log first, and then looks the call up.
//!
//! | bytes | tag |
//! |---|---|
//! | 0..16 | the caller |
//! | 16..20 | its user, as the kernel certified |
//! | 20..24 | its process, or 0 if the daemon cannot see it |
//! | 24..32 | number of the call; the slot in the upper 16 bits |
//!
//! The record of a slot is that of its last call: a caller has one call in flight in each slot. An entry
//! [`crate::Operation::ForgetCaller`] removes the records of a caller that is gone.

use crate::Operation;
use crate::entry::{EntryKind, Header};
use serde::{Deserialize, Serialize};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes of a tag.
pub const TAG_BYTES: usize = 32;

/// Calls that a caller may have in flight.
pub const CALL_SLOTS: u16 = 64;

/// Where the slot is in the word of the number.
const SLOT_SHIFT: u32 = 48;

/// Which caller it is: random, and never used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CallerId(pub [u8; 16]);

/// A caller. Its user belongs to it, so that a user who guesses another caller's number meets a caller of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Caller {
    /// Its user.
    pub user: u32,
    /// Its number.
    pub id: CallerId,
}

/// One of the calls that a caller has in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CallSlot {
    /// The caller.
    pub caller: Caller,
    /// Which of its calls, below [`CALL_SLOTS`].
    pub slot: u16,
}

/// What an entry says of the call that it executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallTag {
    /// Whose call it is.
    pub slot: CallSlot,
    /// The caller's process, or 0.
    pub process: u32,
    /// The call: each one of a slot has a larger number than the one before.
    pub number: u64,
}

/// The last call of a slot that took effect, and what it came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRecord {
    /// The call.
    pub number: u64,
    /// The caller's process, or 0.
    pub process: u32,
    /// The inode that was made or changed; of a write, how many bytes were written.
    pub value: u64,
    /// Where the bytes end that were written.
    pub end: u64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Layout {
    caller: [u8; 16],
    user: U32,
    process: U32,
    call: U64,
}

const _: () = assert!(size_of::<Layout>() == TAG_BYTES);

impl CallTag {
    /// The largest number of a call.
    pub const NUMBER_MAX: u64 = (1 << SLOT_SHIFT) - 1;

    /// The bytes behind the body. The number is at most [`CallTag::NUMBER_MAX`].
    #[must_use]
    pub fn encode(&self) -> [u8; TAG_BYTES] {
        debug_assert!(self.number <= CallTag::NUMBER_MAX);
        let Caller { user, id } = self.slot.caller;
        zerocopy::transmute!(Layout {
            caller: id.0,
            user: user.into(),
            process: self.process.into(),
            call: (self.number | u64::from(self.slot.slot) << SLOT_SHIFT).into(),
        })
    }

    /// The tag of an entry that has one; `body` is all of the entry's body, whose checksum is right.
    #[must_use]
    pub fn of(header: &Header, body: &[u8]) -> Option<CallTag> {
        // The body of a void entry was never checked.
        let has_tag = header.is_tagged() && header.kind != EntryKind::Void;
        let bytes = body.last_chunk::<TAG_BYTES>().filter(|_| has_tag)?;
        let Layout { caller, user, process, call } = zerocopy::transmute!(*bytes);
        let caller = Caller { user: user.get(), id: CallerId(caller) };
        Some(CallTag {
            slot: CallSlot { caller, slot: (call.get() >> SLOT_SHIFT) as u16 },
            process: process.get(),
            number: call.get() & CallTag::NUMBER_MAX,
        })
    }

    /// What the call came to that `operation` executed.
    #[must_use]
    pub fn record(&self, operation: &Operation<'_>) -> CallRecord {
        let (value, end) = match *operation {
            Operation::Write { offset, data, .. } => {
                (data.len() as u64, offset.saturating_add(data.len() as u64))
            }
            _ => (operation.inode().0, 0),
        };
        CallRecord { number: self.number, process: self.process, value, end }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
