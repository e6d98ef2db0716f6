//! The term for which SharedFS performs the operations on an inode, and whether the calling thread sends
//! calls on names.

use crate::sync::{AtomicU64, Ordering};
use cuesta_format::wire::Sends;
use cuesta_media::clock;
use std::cell::Cell;

/// Until when SharedFS performs the operations on an inode: twice the kernel's ticks in milliseconds, plus
/// one for a directory. 0: it never did.
#[derive(Debug, Default)]
pub(crate) struct ShippedUntil(AtomicU64);

thread_local! {
    /// This thread's call on names may be sent.
    static SENDS_NAMES: Cell<bool> = const { Cell::new(false) };
}

/// Ends, when dropped, that calls of this thread may be sent.
pub(super) struct SendingNames;

impl Drop for SendingNames {
    fn drop(&mut self) {
        SENDS_NAMES.set(false);
    }
}

/// From now on the calling thread may send calls on names, until the guard is dropped.
pub(super) fn send_names() -> SendingNames {
    SENDS_NAMES.set(true);
    SendingNames
}

/// The operations that the calling thread's call would send, rather than wait for the lease of a directory.
pub(crate) fn sends_of_thread() -> Sends {
    if SENDS_NAMES.get() { Sends::Names } else { Sends::Nothing }
}

impl ShippedUntil {
    pub(crate) fn set(&self, sends: Sends, term_ms: u32) {
        let until = clock::milliseconds() + u64::from(term_ms);
        self.0.store(until << 1 | u64::from(sends == Sends::Names), Ordering::Relaxed);
    }

    /// Whether such operations are to be sent now.
    #[inline]
    pub(crate) fn is_now(&self, sends: Sends) -> bool {
        match (self.0.load(Ordering::Relaxed), sends) {
            (0, _) | (_, Sends::Nothing) => false,
            (until, _) => (until & 1 == 1) == (sends == Sends::Names) && clock::milliseconds() < until >> 1,
        }
    }
}
