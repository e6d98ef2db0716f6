//! Call tags: a process without a session (a *caller*) has each call executed once, however often it asks for it.
//!
//! The daemon executes a caller's calls. When it dies before it answers, the caller asks the next daemon. So the entry by which a
//! call takes effect carries a tag behind its body, and the digest commits the call's outcome ([`CallRecord`]) together with
//! the entry's changes. The next daemon recovers every log first, and then looks the call up.
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
    /// The caller, and which of its calls in flight it is.
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

    /// The tag that these bytes are.
    #[must_use]
    pub(super) fn decode(bytes: &[u8; TAG_BYTES]) -> CallTag {
        let Layout { caller, user, process, call } = zerocopy::transmute!(*bytes);
        let caller = Caller { user: user.get(), id: CallerId(caller) };
        CallTag {
            slot: CallSlot { caller, slot: (call.get() >> SLOT_SHIFT) as u16 },
            process: process.get(),
            number: call.get() & CallTag::NUMBER_MAX,
        }
    }
}
