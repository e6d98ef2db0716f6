//! Belady's optimum: the fewest misses that a fast tier of so many pieces can have, if it knows the whole trace.
//!
//! Of each piece the optimum knows when it is read next. It keeps the pieces that are read soonest. A piece whose next use is a write, which brings
//! it up anyway, is worth nothing until then. *With bypass* a read or a write need not bring its piece up; *without*, it must, and the
//! piece that is read last leaves.
//!
//! With bypass it is the lower bound of all stores that bring a piece up only when it is read or written: a piece that is kept from one use to
//! the next read saves one miss, and of all such intervals the most are kept that overlap in no moment more often than there is room, by leaving
//! out the one that ends last (Carlisle and Lloyd, "On the k-coloring of intervals"). A store that brings pieces up ahead of their reads could
//! have fewer, and so could one that has above only those blocks of a piece that were written. Without bypass it is no bound: a store may leave
//! below the pieces that are read once. It passes over removed content: programs write that before they read it again.

use crate::replay::simulation::uses::{Uses, What};
use std::collections::BTreeSet;

/// A piece that is not read again.
const NEVER: u32 = u32::MAX;

/// The misses among the reads from `counted_from_us` on. Others cost nothing.
pub fn misses(uses: &Uses, capacity: u64, counted_from_us: u64, has_bypass: bool) -> u64 {
    let reads_next = next_reads(uses, counted_from_us);
    // The pieces that are kept, the one that is read last at the end, and when each of them is.
    let mut kept: BTreeSet<(u32, u32)> = BTreeSet::new();
    let mut read_at = vec![None; uses.pieces.len()];
    let mut misses = 0;
    let uses_next = uses.uses.iter().zip(&reads_next);
    for (next, &next_read) in uses_next.filter(|(next, _)| next.what != What::Gone) {
        let piece = next.piece;
        let was_kept = read_at[piece as usize].take();
        if let Some(at) = was_kept {
            kept.remove(&(at, piece));
        }
        if next.what == What::Read && was_kept.is_none() && next.at_us >= counted_from_us {
            misses += 1;
        }
        if has_bypass && next_read == NEVER {
            continue;
        }
        if kept.len() as u64 >= capacity {
            match kept.last() {
                Some(&(last, leaves)) if !has_bypass || last > next_read => {
                    kept.remove(&(last, leaves));
                    read_at[leaves as usize] = None;
                }
                _ => continue,
            }
        }
        kept.insert((next_read, piece));
        read_at[piece as usize] = Some(next_read);
    }
    misses
}

/// The number of the use that reads each use's piece next, if no other use comes before.
fn next_reads(uses: &Uses, counted_from_us: u64) -> Vec<u32> {
    let mut next = vec![NEVER; uses.pieces.len()];
    let mut reads_next = vec![NEVER; uses.uses.len()];
    let numbered = uses.uses.iter().enumerate().rev();
    for (number, one) in numbered.filter(|(_, one)| one.what != What::Gone) {
        let piece = one.piece as usize;
        reads_next[number] = next[piece];
        let is_read = one.what == What::Read;
        next[piece] = match is_read && one.at_us >= counted_from_us {
            true => number as u32,
            // A read that is not counted brings the piece up at no cost, as a write does.
            false => NEVER,
        };
    }
    reads_next
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::simulation::uses::Use;

    /// A trace of one letter a piece: small ones read it, large ones write it.
    fn uses(text: &str) -> Uses {
        let mut uses = Uses { pieces: Vec::new(), ..Uses::default() };
        for (at, letter) in text.chars().enumerate() {
            let what = if letter.is_lowercase() { What::Read } else { What::Write };
            let piece = u32::from(letter.to_ascii_lowercase()) - u32::from('a');
            uses.uses.push(Use { at_us: at as u64, blocks: 1, piece, bytes: 1, what, begins: true });
        }
        uses.pieces =
            (0..26).map(|index| cuesta_placement::Piece::new(cuesta_format::InodeNumber(0), index)).collect();
        uses
    }

    /// The fewest misses of all choices, by trying them all.
    fn tried(uses: &Uses, at: usize, kept: u32, capacity: u64, counted_from_us: u64) -> u64 {
        let Some(next) = uses.uses.get(at) else { return 0 };
        let bit = 1_u32 << next.piece;
        let is_counted = next.what == What::Read && next.at_us >= counted_from_us;
        let missed = u64::from(is_counted && kept & bit == 0);
        let rest = |kept: u32| tried(uses, at + 1, kept, capacity, counted_from_us);
        let without = kept & !bit;
        let best = match () {
            () if u64::from(without.count_ones()) < capacity => rest(without).min(rest(without | bit)),
            () => {
                let leaving = (0..26).map(|piece| 1_u32 << piece).filter(|leaves| without & leaves != 0);
                leaving
                    .map(|leaves| rest(without & !leaves | bit))
                    .min()
                    .unwrap_or(u64::MAX)
                    .min(rest(without))
            }
        };
        missed + best
    }

    #[test]
    fn it_is_the_least_of_all_choices() {
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..400 {
            let letters: String = (0..11).map(|_| *rng.choice(b"abcdabcdABCD").unwrap() as char).collect();
            let trace = uses(&letters);
            for (capacity, from) in [(1, 0), (2, 0), (2, 4), (3, 0)] {
                let least = tried(&trace, 0, 0, capacity, from);
                assert_eq!(misses(&trace, capacity, from, true), least, "{letters} {capacity} {from}");
                assert!(misses(&trace, capacity, from, false) >= least);
            }
        }
    }

    #[test]
    fn what_is_read_once_is_left_below() {
        let trace = uses("axaybaz");
        assert_eq!(misses(&trace, 1, 0, true), 5);
        assert_eq!(misses(&trace, 1, 0, false), 7);
    }

    #[test]
    fn a_write_brings_its_piece_up() {
        assert_eq!(misses(&uses("AaBbAa"), 1, 0, true), 0);
        assert_eq!(misses(&uses("ABab"), 1, 0, true), 1);
    }
}
