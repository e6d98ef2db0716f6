//! Programs that do little: SharedFS does the first calls of a process, which has no session until it has shown that one pays.
//!
//! A session costs its attachment, a log segment, and a fence of whoever has the directory that the program works in: more than all that a
//! shell's `mv` does. So a process of the store's own user or of root is served at first as those of other users are
//! ([`crate::store`]), and takes a session with its first call behind an allowance, or with one that only a session can do.
//!
//! What is served is judged by what the kernel says of the process: one whose rights are others than its user's has a session from the start.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::{credentials, process, thread};

/// Calls that are served, unless `CUESTA_CALLS_SERVED` says another number.
const ALLOWANCE: u32 = 24;
/// An open file costs SharedFS a pipe, and so counts as so many calls.
pub const COST_OF_OPEN: u32 = 3;
/// As many bytes read or written count as one call more.
const BYTES_OF_CALL: usize = 16 << 10;

/// What is left of the allowance. 0: the process is not on trial.
static LEFT: AtomicU32 = AtomicU32::new(0);
/// The process has had its trial.
static IS_OVER: AtomicBool = AtomicBool::new(false);

/// How many calls of the process, which is about to be attached, are served at first.
pub fn allowance() -> u32 {
    if thread::is_vforked() || IS_OVER.load(Ordering::Relaxed) || !credentials::effective().is_plain {
        return 0;
    }
    let allowance = process::variable(c"CUESTA_CALLS_SERVED").and_then(|text| number_in(text.to_bytes()));
    allowance.unwrap_or(ALLOWANCE)
}

/// So many are.
pub fn begin(allowance: u32) {
    LEFT.store(allowance, Ordering::Relaxed);
}

/// The number that `NAME=number` says.
fn number_in(assignment: &[u8]) -> Option<u32> {
    let at = assignment.iter().position(|byte| *byte == b'=')?;
    std::str::from_utf8(&assignment[at + 1..]).ok()?.parse().ok()
}

/// Whether SharedFS does the calls of this process for a while.
#[inline]
pub fn is_on() -> bool {
    LEFT.load(Ordering::Relaxed) != 0
}

/// SharedFS has done a call that counts as so many.
#[inline]
pub fn spend(calls: u32) {
    let left = LEFT.load(Ordering::Relaxed);
    if left != 0 {
        // Threads that spend at once may both be let off: it is only an allowance.
        LEFT.store(left.saturating_sub(calls).max(1), Ordering::Relaxed);
        if left <= calls.saturating_add(1) {
            process::want_session();
        }
    }
}

/// So many bytes were read or written.
#[inline]
pub fn note_bytes(bytes: usize) {
    if is_on() && bytes >= BYTES_OF_CALL {
        spend((bytes / BYTES_OF_CALL) as u32);
    }
}

/// What the process may has changed, and SharedFS does not know: it takes a session with its next call.
pub fn cut_short() {
    if is_on() {
        process::want_session();
    }
    IS_OVER.store(true, Ordering::Relaxed);
}

/// The process has a session now.
pub fn end() {
    LEFT.store(0, Ordering::Relaxed);
    IS_OVER.store(true, Ordering::Relaxed);
}

/// A child has a trial of its own.
pub fn after_fork() {
    LEFT.store(0, Ordering::Relaxed);
    IS_OVER.store(false, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::number_in;

    #[test]
    fn what_is_no_number_says_nothing() {
        assert_eq!(number_in(b"CUESTA_CALLS_SERVED=0"), Some(0));
        assert_eq!(number_in(b"CUESTA_CALLS_SERVED=70"), Some(70));
        assert_eq!(number_in(b"CUESTA_CALLS_SERVED="), None);
        assert_eq!(number_in(b"CUESTA_CALLS_SERVED=x"), None);
    }
}
