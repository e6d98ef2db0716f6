//! Plays a trace through a policy, and counts the reads that found their content above.

use super::mover::Mover;
use super::store::{Moved, Store};
use super::uses::{Use, Uses, What};
use cuesta_format::BLOCK_BYTES;
use cuesta_placement::{Kind, Limits, Moment, Side};
use fastrand::Rng;

/// How a trace is played.
#[derive(Clone, Copy, Debug)]
pub struct Playing {
    /// Room of the fast tier, in pieces.
    pub capacity: u64,
    pub limits: Limits,
    /// The policy sees one read in so many.
    pub sample: u32,
    pub mb_per_second: f64,
    /// Reads before are not counted.
    pub counted_from_us: u64,
    pub seed: u64,
}

/// Reads, by count and bytes. A request that lies in several pieces is a read of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Reads {
    pub reads: u64,
    pub bytes: u64,
}

impl Reads {
    /// One more.
    pub fn add(&mut self, bytes: u64) {
        self.reads += 1;
        self.bytes += bytes;
    }
}

/// How a policy did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    pub hits: Reads,
    pub misses: Reads,
    /// Reads of the pieces that are told to be hot, and those of them that hit.
    pub hot: Reads,
    pub hot_hits: Reads,
    /// Bytes that moved in the whole trace.
    pub moved: Moved,
    /// Bytes that lie elsewhere at the end than where they were written.
    pub elsewhere: u64,
}

/// Plays a trace. `is_hot` tells the pieces whose hits are counted apart.
pub fn play(uses: &Uses, kind: Kind, playing: &Playing, is_hot: impl Fn(&Use) -> bool) -> Outcome {
    let mut policy = kind.begin(playing.limits);
    let mut store = Store::new(uses, playing.capacity * (uses.piece_bytes / BLOCK_BYTES));
    let mut mover = Mover::new(uses, playing.mb_per_second, playing.limits.pieces_max);
    let mut outcome = Outcome::default();
    let mut rng = Rng::with_seed(playing.seed);
    let mut is_seen = false;
    for next in &uses.uses {
        mover.run_until(next.at_us, &mut store, &mut *policy);
        let is_counted = next.at_us >= playing.counted_from_us;
        let (at, bytes) = (Moment(next.at_us / 1000), u64::from(next.bytes));
        let piece = uses.pieces[next.piece as usize];
        match next.what {
            What::Read => {
                mover.note(bytes, 0);
                let missed = u64::from(store.read(next.piece, next.blocks));
                if is_counted {
                    let (reads, hot) = match missed {
                        0 => (&mut outcome.hits, Some(&mut outcome.hot_hits)),
                        _ => (&mut outcome.misses, None),
                    };
                    reads.add(bytes);
                    if is_hot(next) {
                        outcome.hot.add(bytes);
                        hot.into_iter().for_each(|hot| hot.add(bytes));
                    }
                }
                if next.begins {
                    is_seen = playing.sample <= 1 || rng.u32(..playing.sample) == 0;
                }
                if is_seen {
                    // Some of a piece may lie above, and some below. The blocks that were read count.
                    let side = if missed == 0 { Side::Upper } else { Side::Lower };
                    policy.read(piece, side, 1, at);
                }
            }
            What::Write => {
                mover.note(0, bytes);
                let side = store.write(next.piece, next.blocks);
                policy.written(piece, side, at);
            }
            What::Gone => {
                if store.is_live(next.piece) && store.discard(next.piece, next.blocks) {
                    policy.forget(piece);
                }
            }
        }
    }
    outcome.moved = store.moved;
    outcome.elsewhere = store.bytes_elsewhere();
    outcome
}

impl Moved {
    /// Bytes that a disk read or wrote for them.
    pub fn both_ways(&self) -> u64 {
        self.down + self.up
    }
}
