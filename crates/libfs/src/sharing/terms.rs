//! The term for which SharedFS performs the operations on an inode, and which operations the calling thread
//! sends.

use crate::sync::{AtomicU64, Ordering};
use cuesta_format::wire::Sends;
use cuesta_media::clock;
use std::cell::Cell;

/// Until when SharedFS performs the operations on an inode: four times the kernel's ticks in milliseconds,
/// and a bit for each kind of operations. 0: it never did.
#[derive(Debug, Default)]
pub(crate) struct ShippedUntil(AtomicU64);

/// Operations on content.
const CONTENTS: u64 = 1;
/// Operations on names.
const NAMES: u64 = 2;

thread_local! {
    /// The operations that this thread's call sends.
    static SENDS: Cell<Sends> = const { Cell::new(Sends::Nothing) };
}

/// Restores, when dropped, which operations of this thread are sent.
pub(crate) struct Sending(Sends);

impl Drop for Sending {
    fn drop(&mut self) {
        SENDS.set(self.0);
    }
}

/// From now on the calling thread sends such operations, until the guard is dropped.
pub(crate) fn send(sends: Sends) -> Sending {
    Sending(SENDS.replace(sends))
}

/// The operations that the calling thread's call would send, rather than wait for a lease.
pub(crate) fn sends_of_thread() -> Sends {
    SENDS.get()
}

fn bits(sends: Sends) -> u64 {
    match sends {
        Sends::Nothing => 0,
        Sends::Contents => CONTENTS,
        Sends::Names => NAMES,
        Sends::Everything => CONTENTS | NAMES,
    }
}

impl ShippedUntil {
    pub(crate) fn set(&self, sends: Sends, term_ms: u32) {
        let until = clock::milliseconds() + u64::from(term_ms);
        self.0.store(until << 2 | bits(sends), Ordering::Relaxed);
    }

    /// Whether such operations are to be sent now.
    #[inline]
    pub(crate) fn is_now(&self, sends: Sends) -> bool {
        match self.0.load(Ordering::Relaxed) {
            0 => false,
            until => until & bits(sends) != 0 && clock::milliseconds() < until >> 2,
        }
    }
}
