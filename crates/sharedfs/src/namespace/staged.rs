//! Applying a staged write: its blocks lie in an arena, its edges in the log.

use super::applied::Applied;
use super::lookup::Lookup;
use super::names::place_in;
use super::pieces::Content;
use super::rejection::{Rejection, Stop};
use super::view::View;
use crate::tiers::Run;
use cuesta_format::operation::{BlockRun, StagedWrite};
use cuesta_format::{BLOCK_BYTES, FILE_BYTES_MAX, InodeNumber, Timestamp};

impl<'a, L: Lookup> Applied<'a, L> {
    /// Stores bytes and blocks at `offset`. Each block must be granted to the log's session, and named once.
    pub(super) fn write_staged(
        &self,
        view: &mut View,
        inode: InodeNumber,
        offset: u64,
        staged: &StagedWrite<'a>,
        now: Timestamp,
    ) -> Result<(), Stop> {
        let at = self.file(view, inode)?;
        let end = offset.checked_add(staged.bytes()).filter(|&end| end <= FILE_BYTES_MAX);
        let end = end.ok_or(Rejection::Size)?;
        let mut runs: Vec<Run> = staged.runs().map(run_of).collect();
        if let Some(run) = runs.iter().find(|&&run| view.claims.overlap(run) || !self.store.may_name(run)) {
            return Err(Rejection::Window(run.address).into());
        }
        runs.sort_unstable_by_key(|run| run.address);
        if let Some(twice) = runs.windows(2).find(|pair| end_of(pair[0]) > pair[1].address.0) {
            return Err(Rejection::Window(twice[1].address).into());
        }
        let node = view.change(at);
        node.record.modified = now;
        node.record.changed = now;
        node.record.size = node.record.size.max(end);
        let mut start = offset;
        if !staged.head().is_empty() {
            let (place, bytes) = place_in(self.batch, staged.head());
            view.push_piece(at, start, start + u64::from(bytes), Content::Log(place));
            start += u64::from(bytes);
        }
        let mut sums = staged.sum_bytes().map(|sums| place_in(self.batch, sums).0);
        for run in staged.runs().map(run_of) {
            let bytes = u64::from(run.blocks) * BLOCK_BYTES;
            view.push_piece(at, start, start + bytes, Content::Staged(run.address.0));
            view.claims.add(run, sums);
            start += bytes;
            sums = sums.map(|place| place + run.blocks * size_of::<u32>() as u32);
        }
        if !staged.tail().is_empty() {
            let (place, _) = place_in(self.batch, staged.tail());
            view.push_piece(at, start, end, Content::Log(place));
        }
        Ok(())
    }
}

fn run_of(run: BlockRun) -> Run {
    Run { address: run.address, blocks: run.blocks }
}

fn end_of(run: Run) -> u64 {
    run.address.0 + u64::from(run.blocks) * BLOCK_BYTES
}
