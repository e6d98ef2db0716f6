//! The mover of the simulated store: its next step, and the time of that in the trace's own time.
//!
//! | blocks above | the mover |
//! |---|---|
//! | their homes are there, and they exceed the low mark | moves down the first piece that the policy names and that has its home above, with the pauses of the level |
//! | they and the copies exceed 98 % | moves down or drops what the policy names |
//! | else, or if nothing is cold | copies up what the policy names |
//! | with the next copy they would exceed 98 % | first moves down or drops what the policy names, if the policy says that the copy is worth more |
//!
//! A copy that leaves takes no time, for its home is below. So copies do not count for the level.

use super::store::Store;
use super::uses::{PieceId, Uses};
use cuesta_format::BLOCK_BYTES;
use cuesta_placement::{Budget, Level, Moment, Piece, Policy, Side, low_mark};
use std::collections::HashMap;
use std::time::Duration;

/// Where nothing is to be done, the mover looks again after so long.
const LOOK_AGAIN_US: u64 = 100_000;
/// With copies the fast tier is filled up to so many thousandths: the rest is for writes until copies are dropped.
const COPIES_MARK: u64 = 980;
/// So many copies are passed over for one piece that has its home above.
const COPIES_MAX: usize = 64;
/// If the tier is above a mark, and nothing in it is cold enough.
const NOTHING_COLD_US: u64 = 1_000_000;
/// Shares of reads and writes are taken so often, and the last time counts an eighth.
const SHARES_US: u64 = 1_000_000;

/// See the module.
#[derive(Debug)]
pub struct Mover<'a> {
    uses: &'a Uses,
    ids: HashMap<Piece, PieceId>,
    bytes_in_us: f64,
    /// So many pieces are known to the policy at most.
    pieces_max: usize,
    level: Level,
    /// Until then the disk is busy with what moves.
    busy_us: u64,
    /// Then the next step is due.
    next_us: u64,
    /// Bytes read and written since the last shares were taken, and before.
    since: (u64, u64),
    recent: (u64, u64),
    shares_us: u64,
    low_mark: u64,
}

/// How long a step took, and the pause behind it.
struct Step {
    took_us: u64,
    pause_us: u64,
}

impl<'a> Mover<'a> {
    /// A mover that moves so many megabytes in a second.
    pub fn new(uses: &'a Uses, mb_per_second: f64, pieces_max: usize) -> Mover<'a> {
        let ids = uses.pieces.iter().enumerate().map(|(id, &piece)| (piece, id as PieceId)).collect();
        Mover {
            uses,
            ids,
            bytes_in_us: mb_per_second,
            pieces_max,
            level: Level::Rest,
            busy_us: 0,
            next_us: 0,
            since: (0, 0),
            recent: (0, 0),
            shares_us: 0,
            low_mark: low_mark(0, 0),
        }
    }

    /// Programs read and wrote so many bytes.
    pub fn note(&mut self, read: u64, written: u64) {
        self.since.0 += read;
        self.since.1 += written;
    }

    /// Does all that is due until then.
    pub fn run_until(&mut self, now_us: u64, store: &mut Store, policy: &mut dyn Policy) {
        // Writes since the last look may have made it more urgent. Then there is no pause.
        if self.level_of(store) > self.level {
            self.next_us = self.next_us.min(now_us).max(self.busy_us);
        }
        while self.next_us <= now_us {
            self.take_shares(self.next_us);
            let Step { took_us, pause_us } = self.step(self.next_us, store, policy);
            self.busy_us = self.next_us + took_us.max(1);
            self.next_us = self.busy_us + pause_us;
        }
    }

    fn take_shares(&mut self, now_us: u64) {
        while self.shares_us + SHARES_US <= now_us {
            self.shares_us += SHARES_US;
            let decayed = |before: u64, since: u64| before - before.div_ceil(8) + since;
            self.recent = (decayed(self.recent.0, self.since.0), decayed(self.recent.1, self.since.1));
            self.since = (0, 0);
            self.low_mark = low_mark(self.recent.0, self.recent.1);
            if self.recent == (0, 0) {
                // Nothing happened for long.
                self.shares_us = self.shares_us.max(now_us / SHARES_US * SHARES_US);
            }
        }
    }

    fn level_of(&self, store: &Store) -> Level {
        let usage = store.usage();
        self.level.next(usage.homes, usage.capacity, self.low_mark)
    }

    /// Moves one piece.
    fn step(&mut self, now_us: u64, store: &mut Store, policy: &mut dyn Policy) -> Step {
        let at = Moment(now_us / 1000);
        self.level = self.level_of(store);
        let usage = store.usage();
        let is_full = !is_room(usage.used, usage.capacity);
        if self.level > Level::Rest || is_full {
            let is_urgent = self.level == Level::Emergency;
            let demoted = if is_full {
                self.demote(at, is_urgent, store, policy)
            } else {
                self.demote_home(at, is_urgent, store, policy)
            };
            if let Some(bytes) = demoted {
                let took_us = self.time_of(bytes);
                // No program waits here: the mover works as much as its level allows.
                let budget = Budget::default();
                let pause_us = match self.level {
                    Level::Rest => 0,
                    level => budget.pause_after(level, Duration::from_micros(took_us)).as_micros() as u64,
                };
                return Step { took_us, pause_us };
            }
            if is_full {
                return Step { took_us: 0, pause_us: NOTHING_COLD_US };
            }
        }
        let has_room = is_room(usage.used + self.uses.piece_bytes / BLOCK_BYTES, usage.capacity);
        let Some(choice) = policy.next_up(at, has_room) else {
            return Step { took_us: 0, pause_us: LOOK_AGAIN_US };
        };
        let Some(&piece) = self.ids.get(&choice.piece) else { return Step { took_us: 0, pause_us: 0 } };
        let freed = if has_room { Some(0) } else { self.demote(at, false, store, policy) };
        let copied = if freed.is_some() { store.promote(piece) } else { None };
        policy.placed(choice.piece, store.side(piece), at);
        let took_us = self.time_of(freed.unwrap_or(0) + copied.unwrap_or(0));
        Step { took_us, pause_us: if copied.is_some() { 0 } else { LOOK_AGAIN_US } }
    }

    /// Moves the first piece down that has its home above. Copies that the policy names before stay: there is room for them.
    fn demote_home(
        &self,
        at: Moment,
        is_urgent: bool,
        store: &mut Store,
        policy: &mut dyn Policy,
    ) -> Option<u64> {
        let mut copies = Vec::new();
        let mut moved = None;
        while moved.is_none() && copies.len() < COPIES_MAX {
            let Some(choice) = policy.next_down(at, is_urgent) else { break };
            let Some(&piece) = self.ids.get(&choice.piece) else { continue };
            if store.has_home_above(piece) {
                moved = Some(store.demote(piece));
                policy.placed(choice.piece, Side::Lower, at);
            } else {
                copies.push((choice.piece, piece));
            }
        }
        // Behind so many copies one has to go, or the mover would look at them each time.
        let dropped = if moved.is_none() && copies.len() == COPIES_MAX { copies.pop() } else { None };
        for (piece, _) in copies {
            policy.placed(piece, Side::Upper, at);
        }
        let (piece, id) = match dropped {
            Some(dropped) => dropped,
            None => return moved,
        };
        store.demote(id);
        policy.placed(piece, Side::Lower, at);
        Some(0)
    }

    /// Moves a piece down. Answers its bytes; `None`: nothing is cold enough.
    fn demote(&self, at: Moment, is_urgent: bool, store: &mut Store, policy: &mut dyn Policy) -> Option<u64> {
        for is_last in [false, true] {
            while let Some(choice) = policy.next_down(at, is_urgent) {
                let Some(&piece) = self.ids.get(&choice.piece) else { continue };
                let is_above = store.side(piece) == Side::Upper;
                let moved = store.demote(piece);
                policy.placed(choice.piece, Side::Lower, at);
                if is_above {
                    return Some(moved);
                }
            }
            if is_last || policy.known() < self.pieces_max {
                break;
            }
            // It forgot pieces: a look at all files finds them.
            for piece in store.above() {
                policy.found(self.uses.pieces[piece as usize], Side::Upper, Moment(0));
            }
        }
        None
    }

    fn time_of(&self, bytes: u64) -> u64 {
        (bytes as f64 / self.bytes_in_us) as u64
    }
}

fn is_room(used: u64, capacity: u64) -> bool {
    used * 1000 <= capacity * COPIES_MARK
}
