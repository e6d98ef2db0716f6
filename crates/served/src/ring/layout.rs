//! Where things lie in a ring's memory. Both ends must agree: the file has no head, and its size is its version.
//!
//! ```text
//! lane 0                                                              lane 1
//! | state | request bytes | client's processor | answer bytes | daemon's processor |   | log's end | ... | request | answer | state | ...
//! 0       4               8                    12             16                   20  24          48    64        34 KiB   68 KiB
//! ```
//!
//! The words of a lane have a cache line of their own, which both ends write. No other lane's words share it.

/// Calls that can be in flight at once.
pub(crate) const LANES: usize = 8;
/// Bytes of the words of one lane: a cache line.
const WORDS_BYTES: u64 = 64;
/// Bytes from one lane to the next: whole pages.
const LANE_BYTES: u64 = 68 << 10;
/// Longest request by a lane: a write of 32 KiB, and what says where it goes.
pub(crate) const REQUEST_BYTES: usize = (LANE_BYTES / 2 - WORDS_BYTES) as usize;
/// Longest answer by a lane: 32 KiB that were read, or as many of names.
pub(crate) const ANSWER_BYTES: usize = (LANE_BYTES / 2) as usize;
/// Bytes of a ring.
pub(crate) const RING_BYTES: u64 = LANES as u64 * LANE_BYTES;
/// An answer of so many bytes did not fit: the client asks again by the socket, which comes to the same.
pub(crate) const TOO_LONG: u32 = u32::MAX;

/// [`crate::Response::Bytes`], as a message begins: such answers are written and read where they lie.
pub(crate) const BYTES: u32 = 3;

/// What says how many bytes follow, in a message whose bytes are stored before their number is known.
pub(crate) const LENGTH_BYTES: usize = 3;

/// As postcard writes lengths, but of the same size for all that fit a lane.
pub(crate) fn length_of_bytes(length: usize) -> [u8; LENGTH_BYTES] {
    const MORE: u8 = 0x80;
    [MORE | length as u8, MORE | (length >> 7) as u8, (length >> 14) as u8]
}

/// Where the parts of one lane lie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneLayout {
    start: u64,
}

impl LaneLayout {
    pub(crate) const fn of(lane: usize) -> LaneLayout {
        assert!(lane < LANES);
        LaneLayout { start: lane as u64 * LANE_BYTES }
    }

    /// The word of [`super::lane`].
    pub(crate) const fn state(self) -> u64 {
        self.start
    }

    pub(crate) const fn request_bytes(self) -> u64 {
        self.start + 4
    }

    /// The processor that the client waits on.
    pub(crate) const fn clients_processor(self) -> u64 {
        self.start + 8
    }

    pub(crate) const fn answer_bytes(self) -> u64 {
        self.start + 12
    }

    /// The processor that the daemon's thread answered on last.
    pub(crate) const fn daemons_processor(self) -> u64 {
        self.start + 16
    }

    /// The part of a log that the answer rests on: the session, the generation and the position. Session 0: none.
    pub(crate) const fn log_end(self) -> [u64; 3] {
        [self.start + 24, self.start + 32, self.start + 40]
    }

    pub(crate) const fn request(self) -> u64 {
        self.start + WORDS_BYTES
    }

    pub(crate) const fn answer(self) -> u64 {
        self.start + LANE_BYTES / 2
    }
}

const _: () = {
    let last = LaneLayout::of(LANES - 1);
    assert!(LANE_BYTES.is_multiple_of(4096) && RING_BYTES < 2 << 20);
    assert!(last.request() + REQUEST_BYTES as u64 == last.answer());
    assert!(last.answer() + ANSWER_BYTES as u64 == RING_BYTES);
};
