//! Policy: how long a lease is kept that others wait for, and what they do meanwhile.
//!
//! A session that gets a lease which changes hands all the time keeps it for a moment, so that busy sessions trade
//! batches and not operations (docs/design/sharing.md). It keeps it for `lease_hold_us`, or for some times as long as it took to
//! come by, whichever is longer: most of the time is spent working. A holder that does nothing keeps it no longer.
//!
//! A waiter has a processor to spare, and it will wait for the holder's log. So its thread digests that log
//! meanwhile, and little is left when the lease moves.

use crate::SharedFs;
use crate::digest::driver::Progress;
use cuesta_format::{InodeNumber, SessionId};
use std::time::{Duration, Instant};

/// A lease is kept for so many times what it took to come by, on a file and on a directory,
const COSTS_KEPT: u32 = 8;
const COSTS_KEPT_OF_DIRECTORY: u32 = 64;
/// but never longer.
const KEPT_MAX: Duration = Duration::from_millis(5);
/// The holder is looked at so often.
const LOOK: Duration = Duration::from_micros(100);
/// One that does nothing for so many looks does nothing.
const IDLE_LOOKS: u32 = 3;
/// One that would change a directory if it had a processor is given so many: a scheduler lets others run for some milliseconds.
const STARVED_LOOKS: u32 = 40;
/// A session that waits for a processor, and has done nothing since it got a directory, keeps the directory for this time more, again
/// and again, up to `KEPT_MAX` in all.
const UNBEGUN_KEPT: Duration = Duration::from_millis(1);
/// A log with less than this is left for later: a commit costs the same for many entries.
const BATCH_LEAST_BYTES: u64 = 256 << 10;
/// Less than this is digested in the time that the fence takes anyway.
const CAUGHT_UP_BYTES: u64 = 8 << 10;
/// A holder goes on for so much longer, at most, while its log is digested, and not with a log that takes longer
/// than that. On busy processors holder and digest would catch up with each other for long.
const CATCHING_UP_MAX: Duration = Duration::from_millis(5);
const TOO_MUCH_BYTES: u64 = 4 << 20;
/// A turn ends early once so much of the holder's log is left to digest: with several waiters, each of them waits for the digests of all turns
/// before its own. Sessions that overwrote pages left 60 MiB each, 15 ms of a fence.
const TURN_BYTES_MAX: u64 = 8 << 20;

/// How long a lease is kept that took so long to come by, where `least` is the least.
pub(crate) fn kept_for(cost: Duration, least: Duration, is_directory: bool) -> Duration {
    (cost * if is_directory { COSTS_KEPT_OF_DIRECTORY } else { COSTS_KEPT }).clamp(least, KEPT_MAX.max(least))
}

impl SharedFs {
    /// Waits up to `left` for the holders of the inode, and has their logs digested as they go on.
    pub(crate) fn wait_for_holders(&self, inode: InodeNumber, left: Duration) {
        let until = Instant::now() + left;
        let holders = self.holders_of(inode);
        let is_directory = self.core.lock().leases.is_contended_directory(inode);
        let mut seen = self.work_of(&holders);
        let mut idle_looks = 0;
        loop {
            let looked = Instant::now();
            for &holder in &holders {
                if self.pending_bytes(holder) >= BATCH_LEAST_BYTES && !self.is_starved() {
                    // The session that needs the digest finds an error by itself.
                    let _: Option<Result<Progress, _>> = self.digest_unless_busy(holder);
                }
            }
            if holders.iter().any(|&holder| self.pending_bytes(holder) > TURN_BYTES_MAX) {
                self.release_from(&holders, inode);
                return;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let until = until + CATCHING_UP_MAX;
                return holders.into_iter().for_each(|holder| self.catch_up_with(holder, until));
            }
            std::thread::sleep(LOOK.saturating_sub(looked.elapsed()).min(left));
            let before = std::mem::replace(&mut seen, self.work_of(&holders));
            idle_looks = if seen == before { idle_looks + 1 } else { 0 };
            if self.holders_of(inode) != holders {
                return;
            }
            let is_idle = match idle_looks {
                ..IDLE_LOOKS => false,
                IDLE_LOOKS..STARVED_LOOKS => !is_directory || !self.want_processors(&holders),
                STARVED_LOOKS.. => true,
            };
            if is_idle {
                self.release_from(&holders, inode);
                return;
            }
        }
    }

    /// Ends the turn of these holders. If others have the inode by now, their turn goes on.
    fn release_from(&self, holders: &[SessionId], inode: InodeNumber) {
        let leases = &mut self.core.lock().leases;
        if leases.holders(inode).iter().map(|(session, _)| session).eq(holders) {
            leases.release(inode, self.opened.elapsed());
        }
    }

    /// Whether the holder of a directory that sessions take from each other keeps it for longer, because its turn has not begun: a
    /// fence now would be for nothing, and it would come back to fence the next one. A new process takes a millisecond to begin
    /// where processors are busy.
    pub(crate) fn keeps_until_begun(&self, holders: &[SessionId], inode: InodeNumber) -> bool {
        let &[holder] = holders else { return false };
        let now = self.opened.elapsed();
        let core = self.core.lock();
        let Some(found) = core.sessions.get(&holder).filter(|_| core.leases.is_contended_directory(inode))
        else {
            return false;
        };
        let is_unbegun = found.turns.get(&inode).is_some_and(|turn| {
            found.control.operations() == turn.operations && now < turn.granted + KEPT_MAX
        });
        drop(core);
        let is_kept = is_unbegun && self.want_processors(holders);
        if is_kept {
            self.core.lock().leases.hold_until(inode, now + UNBEGUN_KEPT);
        }
        is_kept
    }

    fn holders_of(&self, inode: InodeNumber) -> Vec<SessionId> {
        self.core.lock().leases.holders(inode).into_iter().map(|(session, _)| session).collect()
    }

    /// Whether one of these sessions would work if it, or the thread that answers it, had a processor.
    fn want_processors(&self, sessions: &[SessionId]) -> bool {
        let core = self.core.lock();
        let found: Vec<_> = sessions.iter().filter_map(|session| core.sessions.get(session)).collect();
        let is_unanswered = found.iter().any(|found| found.is_unanswered);
        let pids: Vec<_> = found.into_iter().map(|found| found.pid).collect();
        drop(core);
        is_unanswered || pids.into_iter().any(wants_processor)
    }

    /// The answer to what the session asked is sent.
    pub(crate) fn note_answer(&self, session: SessionId) {
        if let Some(found) = self.core.lock().sessions.get_mut(&session) {
            found.is_unanswered = false;
        }
    }

    /// Digests a session's log while the session goes on, as long as each time less was added: both wait for
    /// the rest of the log when the session is fenced. Where that takes longer, it had better stand still.
    fn catch_up_with(&self, session: SessionId, until: Instant) {
        let mut before = u64::MAX;
        while Instant::now() < until {
            let pending = self.pending_bytes(session);
            if !(CAUGHT_UP_BYTES..=TOO_MUCH_BYTES).contains(&pending) || pending > before / 4 * 3 {
                return;
            }
            match self.digest_unless_busy(session) {
                None => std::thread::sleep(LOOK),
                Some(Ok(Progress::Digested { .. })) => before = pending,
                Some(_) => return,
            }
        }
    }

    /// What these sessions have done, as they say: it moves while they read, write and log.
    fn work_of(&self, sessions: &[SessionId]) -> u64 {
        let core = self.core.lock();
        let found = sessions.iter().filter_map(|session| core.sessions.get(session));
        found.fold(0, |sum, found| {
            sum.wrapping_add(found.control.operations()).wrapping_add(found.completed().0)
        })
    }
}

/// Whether the first thread of a process waits for a processor, or has one: the kernel calls that running. Of a process with more
/// threads that is a guess.
fn wants_processor(pid: u32) -> bool {
    let told = std::fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The program's name, in brackets, may hold anything.
    let behind_name = told.iter().rposition(|&byte| byte == b')').map_or(&[][..], |at| &told[at + 1..]);
    behind_name.starts_with(b" R")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_process_wants_a_processor_and_a_sleeping_one_does_not() {
        assert!(!wants_processor(u32::MAX));
        let mut sleeper = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let mut spinner =
            std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let until = Instant::now() + Duration::from_secs(20);
        let is_as_told = || !wants_processor(sleeper.id()) && wants_processor(spinner.id());
        while !is_as_told() && Instant::now() < until {
            std::thread::yield_now();
        }
        assert!(is_as_told());
        for one in [&mut sleeper, &mut spinner] {
            one.kill().unwrap();
            one.wait().unwrap();
        }
    }

    #[test]
    fn a_costly_lease_is_kept_longer_within_bounds() {
        let us = Duration::from_micros;
        assert_eq!(kept_for(us(50), us(1000), false), us(1000));
        assert_eq!(kept_for(us(300), us(1000), false), us(2400));
        assert_eq!(kept_for(us(50), us(1000), true), us(3200));
        for is_directory in [false, true] {
            assert_eq!(kept_for(us(90_000), us(1000), is_directory), us(5000));
            assert_eq!(kept_for(us(90_000), us(20_000), is_directory), us(20_000));
        }
    }
}
