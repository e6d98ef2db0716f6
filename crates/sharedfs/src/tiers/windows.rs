//! Windows: runs of free blocks that a session may write, once each, and name in its log (docs/decisions/0063).
//!
//! | a block of a window is | because | may be allocated |
//! |---|---|---|
//! | granted | the session may write it | no |
//! | adopted | a digest made it a file's | no |
//! | returned | a digest found it named, and no file gets it | when the session has retired that digest |
//!
//! The metadata store has one record for each window: the granted blocks. It is there before the session hears of the
//! window, and each digest changes it in the transaction that adopts or returns. So recovery finds each block either
//! granted, or a file's, or free.
//!
//! This file knows neither log entries nor the content of blocks.

use super::blocks::{Bitmap, Run};
use cuesta_format::{BLOCK_BYTES, BlockAddress, LogPosition, SessionId, TierNumber};
use std::collections::BTreeMap;

/// A window, as far as it is granted.
#[derive(Clone, Debug)]
struct Window {
    /// Which blocks are not granted any more.
    spent: Bitmap,
    /// The session writes no block of it any more. Its log names blocks of it below this.
    done_below: Option<LogPosition>,
}

/// The windows of all sessions.
#[derive(Debug, Default)]
pub struct Windows {
    windows: BTreeMap<(SessionId, BlockAddress), Window>,
    held: u64,
}

/// The effect of a batch on one window.
#[derive(Clone, Debug)]
pub(crate) struct WindowChange {
    /// Its first block.
    pub(crate) address: BlockAddress,
    /// Its blocks that are granted then, as they are kept; `None`: none is.
    pub(crate) record: Option<Vec<u8>>,
    /// Blocks that the session did not name, and never will.
    pub(crate) unnamed: Vec<Run>,
    after: Option<Bitmap>,
    spent: u32,
}

/// Blocks that a batch names, by address.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    claims: BTreeMap<u64, Claim>,
    blocks: u64,
}

/// Neighbouring blocks that one entry names.
#[derive(Clone, Copy, Debug)]
struct Claim {
    blocks: u32,
    /// Where in the copied log their checksums begin, if they have some.
    sums: Option<u32>,
}

fn end_of(address: u64, blocks: u32) -> u64 {
    address + u64::from(blocks) * BLOCK_BYTES
}

impl Claims {
    pub(crate) fn clear(&mut self) {
        self.claims.clear();
        self.blocks = 0;
    }

    /// How many blocks there are.
    pub(crate) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Whether a run shares a block with one that is there.
    pub(crate) fn overlap(&self, run: Run) -> bool {
        let before = self.claims.range(..end_of(run.address.0, run.blocks)).next_back();
        before.is_some_and(|(&address, claim)| end_of(address, claim.blocks) > run.address.0)
    }

    /// Adds a run. `sums`: where in the copied log its checksums begin.
    pub(crate) fn add(&mut self, run: Run, sums: Option<u32>) {
        self.blocks += u64::from(run.blocks);
        self.claims.insert(run.address.0, Claim { blocks: run.blocks, sums });
    }

    /// The checksum that a block must have by its entry; `batch` is the copied log.
    pub(crate) fn sum_of(&self, block: BlockAddress, batch: &[u8]) -> Option<u32> {
        let (&address, claim) = self.claims.range(..=block.0).next_back()?;
        let index = (block.0 - address) / BLOCK_BYTES;
        let place = claim.sums.filter(|_| index < u64::from(claim.blocks))? as usize;
        let bytes = batch.get(place + index as usize * size_of::<u32>()..)?.first_chunk()?;
        Some(u32::from_le_bytes(*bytes))
    }

    pub(crate) fn runs(&self) -> impl Iterator<Item = Run> {
        self.claims
            .iter()
            .map(|(&address, claim)| Run { address: BlockAddress(address), blocks: claim.blocks })
    }

    /// The blocks that are in none of `adopted`.
    pub(crate) fn without(&self, adopted: &[Run]) -> Vec<Run> {
        let mut adopted: Vec<Run> = adopted.to_vec();
        adopted.sort_unstable_by_key(|run| run.address);
        let mut rest = Vec::new();
        for run in self.runs() {
            let (mut at, end) = (run.address.0, end_of(run.address.0, run.blocks));
            let first = adopted.partition_point(|taken| end_of(taken.address.0, taken.blocks) <= at);
            for taken in adopted[first..].iter().take_while(|taken| taken.address.0 < end) {
                push_run(&mut rest, at, taken.address.0);
                at = end_of(taken.address.0, taken.blocks).max(at);
            }
            push_run(&mut rest, at, end);
        }
        rest
    }
}

fn push_run(runs: &mut Vec<Run>, start: u64, end: u64) {
    if start < end {
        runs.push(Run { address: BlockAddress(start), blocks: ((end - start) / BLOCK_BYTES) as u32 });
    }
}

/// The runs of a window's blocks that are granted.
fn granted(address: BlockAddress, spent: &Bitmap) -> Vec<Run> {
    let mut runs = Vec::new();
    let mut at = 0;
    while let Some((first, blocks)) = spent.find_free(at..spent.blocks(), u32::MAX) {
        runs.push(Run { address: address.plus(u64::from(first) * BLOCK_BYTES), blocks });
        at = first + blocks;
    }
    runs
}

fn record_of(spent: &Bitmap) -> Vec<u8> {
    let mut record = spent.blocks().to_le_bytes().to_vec();
    spent.to_bytes(&mut record);
    record
}

fn spent_in(record: &[u8]) -> Option<Bitmap> {
    let (blocks, bitmap) = record.split_first_chunk()?;
    Some(Bitmap::from_bytes(u32::from_le_bytes(*blocks), bitmap))
}

/// The granted blocks of a window, by its record; `None`: it is none.
pub(crate) fn window_rest(address: BlockAddress, record: &[u8]) -> Option<Vec<Run>> {
    Some(granted(address, &spent_in(record)?))
}

impl Windows {
    /// Blocks of all windows that are granted.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.held
    }

    /// How many of them lie in a tier.
    #[must_use]
    pub fn held_in(&self, tier: TierNumber) -> u64 {
        let inside = self.windows.iter().filter(|((_, address), _)| address.tier() == tier);
        inside.map(|(_, window)| u64::from(window.spent.free())).sum()
    }

    /// How many windows a session has.
    #[must_use]
    pub fn count(&self, session: SessionId) -> usize {
        self.of(session).count()
    }

    fn of(&self, session: SessionId) -> impl Iterator<Item = (BlockAddress, &Window)> {
        let all = (session, BlockAddress(0))..=(session, BlockAddress(u64::MAX));
        self.windows.range(all).map(|(&(_, address), window)| (address, window))
    }

    /// The record of a window of which all blocks are granted.
    pub(crate) fn record_of_new(run: Run) -> Vec<u8> {
        record_of(&Bitmap::new(run.blocks))
    }

    /// A session got a window.
    pub fn add(&mut self, session: SessionId, run: Run) {
        self.held += u64::from(run.blocks);
        let window = Window { spent: Bitmap::new(run.blocks), done_below: None };
        self.windows.insert((session, run.address), window);
    }

    /// A window is found at rest. Says whether its record can be read.
    pub(crate) fn find(&mut self, session: SessionId, address: BlockAddress, record: &[u8]) -> bool {
        let Some(spent) = spent_in(record) else { return false };
        self.held += u64::from(spent.free());
        self.windows.insert((session, address), Window { spent, done_below: None });
        true
    }

    /// The session's window in which the block is granted, and the block's place in it. Blocks that a digest took from one window
    /// may lie in a later one: their file is gone, and its blocks were granted again.
    fn window_with(
        &self,
        session: SessionId,
        block: BlockAddress,
    ) -> Option<((SessionId, BlockAddress), u32)> {
        self.of(session).find_map(|(address, window)| {
            let index = block.0.checked_sub(address.0)? / BLOCK_BYTES;
            let index = u32::try_from(index).ok().filter(|&index| index < window.spent.blocks())?;
            (window.spent.free_in(index..index + 1) == 1).then_some(((session, address), index))
        })
    }

    /// Whether a window that begins there would be taken for one that the session has.
    #[must_use]
    pub fn begins_at(&self, session: SessionId, address: BlockAddress) -> bool {
        self.windows.contains_key(&(session, address))
    }

    /// Whether all blocks of a run are granted to the session, in one window.
    #[must_use]
    pub fn hold(&self, session: SessionId, run: Run) -> bool {
        let Some((key, first)) = self.window_with(session, run.address) else { return false };
        let spent = &self.windows[&key].spent;
        first + run.blocks <= spent.blocks() && spent.free_in(first..first + run.blocks) == run.blocks
    }

    /// The session writes no block of the window any more, and its log names blocks of it below `position` only.
    pub fn finish(&mut self, session: SessionId, address: BlockAddress, position: LogPosition) {
        if let Some(window) = self.windows.get_mut(&(session, address)) {
            window.done_below.get_or_insert(position);
        }
    }

    /// The effect on a session's windows of the commit of a batch that names `claims`, up to a position.
    pub(crate) fn after(&self, session: SessionId, claims: &Claims, to: LogPosition) -> Vec<WindowChange> {
        let mut spent: BTreeMap<BlockAddress, Bitmap> = BTreeMap::new();
        for run in claims.runs() {
            if let Some((key, first)) = self.window_with(session, run.address) {
                let after = spent.entry(key.1).or_insert_with(|| self.windows[&key].spent.clone());
                after.set(first, run.blocks);
            }
        }
        let done = self.of(session).filter(|(_, window)| window.done_below.is_some_and(|below| below <= to));
        for (address, window) in done {
            spent.entry(address).or_insert_with(|| window.spent.clone());
        }
        let change = |(address, after): (BlockAddress, Bitmap)| {
            let window = &self.windows[&(session, address)];
            let is_done = window.done_below.is_some_and(|below| below <= to);
            let is_over = is_done || after.free() == 0;
            let unnamed = if is_done { granted(address, &after) } else { Vec::new() };
            let spent = if is_over { window.spent.free() } else { after.used() - window.spent.used() };
            let record = (!is_over).then(|| record_of(&after));
            WindowChange { address, record, unnamed, after: (!is_over).then_some(after), spent }
        };
        spent.into_iter().map(change).collect()
    }

    /// The batch is committed.
    pub(crate) fn apply(&mut self, session: SessionId, changes: Vec<WindowChange>) {
        for change in changes {
            self.held -= u64::from(change.spent);
            let key = (session, change.address);
            match (change.after, self.windows.get_mut(&key)) {
                (Some(after), Some(window)) => window.spent = after,
                _ => drop(self.windows.remove(&key)),
            }
        }
    }

    /// The granted blocks of a session: among them are all that it wrote and no digest has taken.
    pub(crate) fn granted_to(&self, session: SessionId) -> Vec<Run> {
        self.of(session).flat_map(|(address, window)| granted(address, &window.spent)).collect()
    }

    /// The session is over: the blocks that it did not name.
    pub(crate) fn end_session(&mut self, session: SessionId) -> Vec<Run> {
        let addresses: Vec<BlockAddress> = self.of(session).map(|(address, _)| address).collect();
        let ended = addresses.into_iter().filter_map(|address| {
            let window = self.windows.remove(&(session, address))?;
            self.held -= u64::from(window.spent.free());
            Some(granted(address, &window.spent))
        });
        ended.flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: SessionId = SessionId(3);

    fn run(first: u64, blocks: u32) -> Run {
        Run { address: BlockAddress(first * BLOCK_BYTES), blocks }
    }

    fn claims(runs: &[Run]) -> Claims {
        let mut claims = Claims::default();
        runs.iter().for_each(|&run| claims.add(run, None));
        claims
    }

    #[test]
    fn only_granted_blocks_of_one_window_are_held() {
        let mut windows = Windows::default();
        windows.add(S, run(10, 8));
        windows.add(S, run(18, 4));
        windows.add(SessionId(4), run(40, 4));
        assert!(windows.hold(S, run(10, 8)) && windows.hold(S, run(12, 2)) && windows.hold(S, run(18, 4)));
        assert!(!windows.hold(S, run(9, 2)) && !windows.hold(S, run(16, 3)) && !windows.hold(S, run(40, 1)));
        assert!(!windows.hold(SessionId(2), run(10, 1)) && !windows.hold(SessionId(5), run(41, 1)));
        let changes = windows.after(S, &claims(&[run(11, 3), run(18, 4)]), LogPosition(64));
        assert_eq!(changes.iter().map(|change| change.record.is_some()).collect::<Vec<_>>(), [true, false]);
        windows.apply(S, changes);
        assert!(!windows.hold(S, run(11, 1)) && windows.hold(S, run(14, 4)) && !windows.hold(S, run(18, 1)));
        assert_eq!((windows.held(), windows.count(S)), (9, 1));
        assert_eq!(windows.end_session(S), [run(10, 1), run(14, 4)]);
        assert_eq!((windows.held(), windows.count(S)), (4, 0));
    }

    /// The file of the first blocks is gone before the log that names the last ones is digested.
    #[test]
    fn blocks_of_a_window_are_granted_though_blocks_that_it_had_lie_in_a_later_one() {
        let mut windows = Windows::default();
        windows.add(S, run(10, 8));
        windows.apply(S, windows.after(S, &claims(&[run(10, 4)]), LogPosition(64)));
        windows.add(S, run(11, 2));
        assert!(windows.begins_at(S, run(10, 1).address) && !windows.begins_at(S, run(12, 1).address));
        assert!(windows.hold(S, run(14, 4)) && windows.hold(S, run(11, 2)) && !windows.hold(S, run(10, 1)));
        let changes = windows.after(S, &claims(&[run(11, 2), run(14, 3)]), LogPosition(128));
        windows.apply(S, changes);
        assert_eq!((windows.held(), windows.count(S)), (1, 1));
        assert!(windows.hold(S, run(17, 1)) && !windows.hold(S, run(11, 1)) && !windows.hold(S, run(14, 1)));
    }

    #[test]
    fn the_rest_of_a_finished_window_is_free_once_the_log_is_digested_that_far() {
        let mut windows = Windows::default();
        windows.add(S, run(10, 8));
        windows.finish(S, run(10, 8).address, LogPosition(640));
        assert!(windows.after(S, &Claims::default(), LogPosition(576)).is_empty());
        let changes = windows.after(S, &claims(&[run(12, 2)]), LogPosition(640));
        assert_eq!(changes[0].unnamed, [run(10, 2), run(14, 4)]);
        assert!(changes[0].record.is_none());
        windows.apply(S, changes);
        assert_eq!((windows.held(), windows.count(S)), (0, 0));
    }

    #[test]
    fn a_window_is_found_as_it_was_left() {
        let mut windows = Windows::default();
        windows.add(S, run(10, 100));
        let changes = windows.after(S, &claims(&[run(11, 70)]), LogPosition(0));
        let record = changes[0].record.clone().unwrap();
        assert_eq!(window_rest(run(10, 1).address, &record).unwrap(), [run(10, 1), run(81, 29)]);
        let mut found = Windows::default();
        assert!(found.find(S, run(10, 1).address, &record));
        assert_eq!(found.held(), 30);
        assert!(found.hold(S, run(10, 1)) && !found.hold(S, run(11, 1)));
        assert!(!found.find(S, run(10, 1).address, &record[..3]));
    }

    #[test]
    fn claims_know_their_blocks_once() {
        let mut batch = vec![0; 100];
        batch[40..48].copy_from_slice(&[1, 0, 0, 0, 2, 0, 0, 0]);
        let mut claims = Claims::default();
        claims.add(run(10, 2), Some(40));
        claims.add(run(20, 4), None);
        let sum = |block| claims.sum_of(run(block, 1).address, &batch);
        assert_eq!([sum(9), sum(10), sum(11), sum(12), sum(20)], [None, Some(1), Some(2), None, None]);
        assert!(claims.overlap(run(11, 1)) && claims.overlap(run(9, 2)) && claims.overlap(run(5, 100)));
        assert!(!claims.overlap(run(12, 8)) && !claims.overlap(run(9, 1)) && !claims.overlap(run(24, 1)));
        let rest = claims.without(&[run(22, 1), run(10, 1), run(20, 1)]);
        assert_eq!(rest, [run(11, 1), run(21, 1), run(23, 1)]);
        assert_eq!(claims.without(&[run(0, 50)]), []);
    }
}
