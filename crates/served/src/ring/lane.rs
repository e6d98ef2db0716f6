//! The protocol of one lane: a word that says which end has the turn, and which end sleeps.
//!
//! | state | the client | the daemon |
//! |---|---|---|
//! | `QUIET` | may read the last answer, and write the next request | waits |
//! | `ASKED` | waits; may withdraw the request, which makes the lane `QUIET` | may take the request |
//! | `RUNNING` | waits | reads the request, runs it, writes the answer, and makes the lane `QUIET` |
//!
//! Each end sets its own flag before it sleeps, by an exchange that fails if the state has changed meanwhile. The end that
//! changes the state takes the flags out with the same step, and wakes the sleeper if it found a flag. So no wake-up is
//! lost, and there is none while the other end is looking. Both the withdrawal and the taking are exchanges from `ASKED`:
//! one of them succeeds.
//!
//! This file knows neither memory nor futexes; `models` runs it under the model checker.

use crate::ring::sync::{Ordering, Word, mistake};

const QUIET: u32 = 0;
const ASKED: u32 = 1;
const RUNNING: u32 = 2;
const STATE: u32 = 3;
const DAEMON_SLEEPS: u32 = 4;
const CLIENT_SLEEPS: u32 = 8;
/// How often an exchange is tried again. Two ends that keep the protocol need three tries.
const TRIES: usize = 16;

/// The other end did not keep the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

/// The client's end. The lane is the calling thread's alone.
#[derive(Debug)]
pub(crate) struct ClientEnd<'w, W>(pub(crate) &'w W);

/// The daemon's end.
#[derive(Debug)]
pub(crate) struct DaemonEnd<'w, W>(pub(crate) &'w W);

impl<W: Word> ClientEnd<'_, W> {
    /// Publishes the request that `store` writes. Answers whether the daemon has to be woken.
    #[inline]
    pub(crate) fn ask(&self, store: impl FnOnce()) -> bool {
        store();
        self.0.swap(ASKED, Ordering::Release) & DAEMON_SLEEPS != 0 && !mistake("waking the daemon")
    }

    /// Whether the answer is there. If so, it may be read.
    #[inline]
    pub(crate) fn is_answered(&self) -> bool {
        self.0.load(Ordering::Acquire) & STATE == QUIET
    }

    /// Whether the daemon has not begun with the request.
    pub(crate) fn is_unheard(&self) -> bool {
        self.0.load(Ordering::Relaxed) & STATE == ASKED
    }

    /// Says that the client is about to sleep. Answers on which value of the word; nothing if the answer has come.
    pub(crate) fn begin_sleep(&self) -> Option<u32> {
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            if seen & STATE == QUIET && !mistake("looking again before the client sleeps") {
                return None;
            }
            let asleep = seen | CLIENT_SLEEPS;
            if asleep == seen {
                return Some(seen);
            }
            match self.0.exchange(seen, asleep, Ordering::Relaxed) {
                Ok(_) => return Some(asleep),
                Err(now) => seen = now,
            }
        }
    }

    /// Takes the request back. Answers whether it was not begun, and never will be.
    pub(crate) fn withdraw(&self) -> bool {
        let mut seen = self.0.load(Ordering::Relaxed);
        while seen & STATE == ASKED {
            if mistake("withdrawing by an exchange") {
                self.0.swap(QUIET, Ordering::Relaxed);
                return true;
            }
            match self.0.exchange(seen, QUIET, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }
}

impl<W: Word> DaemonEnd<'_, W> {
    /// Whether there is something to take.
    #[inline]
    pub(crate) fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed) & STATE != QUIET
    }

    /// Takes a request if there is one. If so, it may be read.
    #[inline]
    pub(crate) fn take(&self) -> Result<bool, Broken> {
        for _ in 0..TRIES {
            let seen = self.0.load(Ordering::Relaxed);
            match seen & !CLIENT_SLEEPS {
                ASKED => {}
                QUIET | DAEMON_SLEEPS if seen & CLIENT_SLEEPS == 0 => return Ok(false),
                _ => return Err(Broken),
            }
            let running = RUNNING | seen & CLIENT_SLEEPS;
            if mistake("taking by an exchange") {
                self.0.swap(running, Ordering::Acquire);
                return Ok(true);
            }
            if self.0.exchange(seen, running, Ordering::Acquire).is_ok() {
                return Ok(true);
            }
        }
        Err(Broken)
    }

    /// Says that the daemon is about to sleep. Answers on which value of the word; nothing if something has come.
    pub(crate) fn begin_sleep(&self) -> Option<u32> {
        const ASLEEP: u32 = QUIET | DAEMON_SLEEPS;
        match self.0.exchange(QUIET, ASLEEP, Ordering::Relaxed) {
            Ok(_) | Err(ASLEEP) => Some(ASLEEP),
            Err(_) => None,
        }
    }

    /// Publishes the answer that `store` writes. Answers whether the client has to be woken.
    #[inline]
    pub(crate) fn answer(&self, store: impl FnOnce()) -> Result<bool, Broken> {
        store();
        let was = self.0.swap(QUIET, Ordering::Release);
        match was & STATE {
            RUNNING => Ok(was & CLIENT_SLEEPS != 0 && !mistake("waking the client")),
            _ => Err(Broken),
        }
    }
}
