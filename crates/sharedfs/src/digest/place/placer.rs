//! Place and copy: content of a batch goes into new blocks, or over blocks that [`overwrites`](super::overwrites) may
//! write where they lie.
//!
//! A block that a write covers in part is made of the file's old bytes there and the batch's writes and cuts.
//! Behind the end of a file its last block is zero, always: growing it later shows zeros.

use super::choice::FastTier;
use super::placements::{Change, Placements};
use super::spans::{Span, SpanKind, Spans};
use super::standing::Standing;
use crate::Error;
use crate::metadata::{ExtentList, Snapshot};
use crate::namespace::{Content, Node, Part};
use crate::tiers::{Arenas, Claims, ContentWriter, Reservation, Run, Space, split_at_arenas};
use cuesta_format::entry::crc32c;
use cuesta_format::wire::Placed;
use cuesta_format::{BLOCK_BYTES, BlockAddress, Extent, TierNumber};
use cuesta_media::Node as MemoryNode;
use parking_lot::Mutex;
use std::mem::discriminant;
use std::ops::Range;

const BLOCK: usize = BLOCK_BYTES as usize;

/// There is no room for the batch within what its session may take.
#[derive(Debug, PartialEq, Eq)]
pub struct OutOfBlocks;

/// Places the files of one batch.
pub struct Placer<'a> {
    /// The copied log.
    pub batch: &'a [u8],
    /// The arenas.
    pub arenas: &'a Arenas,
    /// What writes there.
    pub writer: ContentWriter<'a>,
    /// The blocks that the batch names.
    pub claims: &'a Claims,
    /// The committed state before the batch.
    pub before: &'a Snapshot,
    /// Where blocks come from; locked for moments, never while content is copied.
    pub space: &'a Mutex<Space>,
    /// What this batch takes.
    pub reservation: &'a mut Reservation,
    /// Blocks promised to its session when its log was read.
    pub promised: u64,
    /// The memory node that new blocks are to be on.
    pub near: Option<MemoryNode>,
    /// Whether committed blocks may be written where they lie; asked where there are some.
    pub may_overwrite: &'a dyn Fn() -> bool,
    /// Blocks may be such as a digest was cut off in.
    pub recovering: bool,
    /// There are blocks that the medium does not take, or such as have a copy.
    pub has_bad_or_copied: bool,
    /// How full the fast tier was before the batch.
    pub fast: FastTier,
    /// Makes more of a tier's blocks usable. Says whether it did.
    pub grow: &'a dyn Fn(TierNumber) -> Result<bool, Error>,
}

/// What becomes of blocks of a file that a batch writes.
enum Destination {
    /// They are written where they lie.
    Over(BlockAddress),
    /// They are placed anew.
    Anew,
    /// Content written to them is lost, like their old content.
    Lost(BlockAddress),
}

impl Placer<'_> {
    /// Places what remains of one file's pieces.
    pub fn place(
        &mut self,
        number: u32,
        node: &Node,
        parts: &[Part],
        out: &mut Placements,
    ) -> Result<Result<(), OutOfBlocks>, Error> {
        let mut spans = std::mem::take(&mut out.spans);
        spans.clear();
        let result = self.place_spans(number, node, parts, &mut spans, out);
        out.spans = spans;
        result
    }

    fn place_spans(
        &mut self,
        number: u32,
        node: &Node,
        parts: &[Part],
        spans: &mut Spans,
        out: &mut Placements,
    ) -> Result<Result<(), OutOfBlocks>, Error> {
        for part in parts {
            match part.content {
                Content::Log(_) => {
                    spans.add(part.start / BLOCK_BYTES..part.end.div_ceil(BLOCK_BYTES), SpanKind::Write);
                }
                Content::Staged(address) => spans.add_staged(part, address),
                Content::Gone => {
                    // Blocks cut at an edge only are made anew of the bytes they keep.
                    let edges = [part.start, if part.end == u64::MAX { 0 } else { part.end }];
                    for edge in edges.into_iter().filter(|edge| !edge.is_multiple_of(BLOCK_BYTES)) {
                        let block = edge / BLOCK_BYTES;
                        if self.old_block(node, block)?.is_some() {
                            spans.add(block..block + 1, SpanKind::Write);
                        }
                    }
                }
            }
        }
        let standing = Standing::of(node, self.before, &spans.written())?;
        let mut holes = parts.iter().filter(|part| part.content == Content::Gone).map(whole_blocks);
        let mut hole = holes.next();
        for Span { blocks: span, kind } in spans.iter() {
            while let Some(blocks) = hole.clone().filter(|blocks| blocks.start < span.start) {
                self.add_hole(number, node, blocks, out);
                hole = holes.next();
            }
            match kind {
                SpanKind::Adopt(address) if !self.is_bad(*address, span) => {
                    self.adopt(number, node, span, *address, out)?;
                    continue;
                }
                SpanKind::Adopt(_) | SpanKind::Assemble => {
                    match self.place_anew(number, node, span.clone(), parts, out)? {
                        Ok(()) => continue,
                        full => return Ok(full),
                    }
                }
                SpanKind::Write => {}
            }
            for (blocks, address) in standing.runs(span.clone()) {
                let address = address.filter(|_| (self.may_overwrite)());
                for (blocks, destination) in self.destinations(blocks, address, parts) {
                    match destination {
                        Destination::Over(address) => standing.overwrite(&blocks, address, parts, out),
                        Destination::Lost(address) => standing.leave(&blocks, address, out),
                        Destination::Anew => match self.place_anew(number, node, blocks, parts, out)? {
                            Ok(()) => {}
                            full => return Ok(full),
                        },
                    }
                }
            }
        }
        for blocks in hole.into_iter().chain(holes) {
            self.add_hole(number, node, blocks, out);
        }
        Ok(Ok(()))
    }

    /// How the content of `blocks` is placed, which may be written where they lie if there is an address. The session may know a block that has
    /// a copy by the address of that, so its content goes elsewhere, and the session is told. A bad block's content goes elsewhere, too. If the batch writes it in part, the rest of the block is damaged. Where
    /// no checksum could say so, it stays where it is, and the medium tells its readers.
    fn destinations(
        &self,
        blocks: Range<u64>,
        address: Option<BlockAddress>,
        parts: &[Part],
    ) -> Vec<(Range<u64>, Destination)> {
        let Some(address) = address else { return vec![(blocks, Destination::Anew)] };
        if !self.has_bad_or_copied {
            return vec![(blocks, Destination::Over(address))];
        }
        let allocator = &self.space.lock().allocator;
        let mut destinations: Vec<(Range<u64>, Destination)> = Vec::new();
        for block in blocks.clone() {
            let address = address.plus((block - blocks.start) * BLOCK_BYTES);
            let bytes = block * BLOCK_BYTES..(block + 1) * BLOCK_BYTES;
            let inside = &parts[parts.partition_point(|part| part.end <= bytes.start)..];
            let is_below = address.tier() != TierNumber::FAST;
            let destination = if is_below && allocator.copies().has(address) {
                Destination::Anew
            } else if !allocator.is_bad(address) {
                Destination::Over(address)
            } else if self.has_sum(address) || covered(inside, bytes) == BLOCK_BYTES {
                Destination::Anew
            } else {
                Destination::Lost(address)
            };
            match destinations.last_mut().filter(|(_, last)| discriminant(last) == discriminant(&destination))
            {
                Some((last, _)) => last.end += 1,
                None => destinations.push((block..block + 1, destination)),
            }
        }
        destinations
    }

    /// Whether a checksum can say that a block is damaged.
    fn has_sum(&self, address: BlockAddress) -> bool {
        self.arenas.geometry().of_tier(address.tier()).checks_content
    }

    /// Puts the content of `blocks` into new ones.
    fn place_anew(
        &mut self,
        number: u32,
        node: &Node,
        blocks: Range<u64>,
        parts: &[Part],
        out: &mut Placements,
    ) -> Result<Result<(), OutOfBlocks>, Error> {
        let first = out.extents.len();
        // Content that a program waits for is not long, however much of it comes together here.
        let length = if node.is_synchronous { 0 } else { blocks.end - blocks.start };
        let mut block = blocks.start;
        while block < blocks.end {
            let Some(run) = self.take(blocks.end - block, length)? else {
                return Ok(Err(OutOfBlocks));
            };
            let extent = Extent { file_block: block, blocks: run.blocks, address: run.address };
            self.fill(node, parts, &extent, out)?;
            out.bytes_copied += u64::from(run.blocks) * BLOCK_BYTES;
            out.extents.push(extent);
            out.placed.push(Placed { inode: node.record.inode, extent });
            block = extent.end_block();
        }
        out.changes.push(Change { node: number, blocks, extents: first..out.extents.len() });
        Ok(Ok(()))
    }

    /// Whether the medium does not take some of these blocks, or their checksums.
    fn is_bad(&self, address: BlockAddress, blocks: &Range<u64>) -> bool {
        let allocator = &self.space.lock().allocator;
        self.has_bad_or_copied
            && (0..blocks.end - blocks.start).any(|block| allocator.is_bad(address.plus(block * BLOCK_BYTES)))
    }

    /// Makes blocks that the session wrote the file's, as they are.
    fn adopt(
        &mut self,
        number: u32,
        node: &Node,
        blocks: &Range<u64>,
        address: BlockAddress,
        out: &mut Placements,
    ) -> Result<(), Error> {
        let all = Extent { file_block: blocks.start, blocks: (blocks.end - blocks.start) as u32, address };
        let first = out.extents.len();
        for extent in split_at_arenas(self.arenas.geometry(), &all) {
            let run = Run { address: extent.address, blocks: extent.blocks };
            let expected = |block| self.claims.sum_of(block, self.batch);
            self.writer.adopt(run, expected, |block| {
                out.damaged.push((node.record.inode, block));
                out.lost.push(node.record.inode);
            })?;
            self.reservation.adopted.push(run);
            out.extents.push(extent);
            out.placed.push(Placed { inode: node.record.inode, extent });
        }
        out.changes.push(Change { node: number, blocks: blocks.clone(), extents: first..out.extents.len() });
        Ok(())
    }

    /// A run of blocks for `wanted` ones, the last of a run of `run_blocks`, unless they were promised to others.
    fn take(&mut self, wanted: u64, run_blocks: u64) -> Result<Option<Run>, Error> {
        let most = u32::try_from(wanted).unwrap_or(u32::MAX);
        for tier in self.fast.choices(run_blocks, self.arenas.tiers_count()) {
            // Blocks of a lower tier are made usable when they are needed.
            let lacks = || self.space.lock().allocator.free_blocks_in(tier) == 0;
            if tier != TierNumber::FAST && lacks() && !(self.grow)(tier)? {
                self.space.lock().allocator.note_lacking(tier);
                continue;
            }
            let Space { allocator, credits, .. } = &mut *self.space.lock();
            let others = credits.outstanding().saturating_sub(self.promised);
            if wanted > allocator.free_blocks().saturating_sub(others) {
                continue;
            }
            if let Some(run) = allocator.take(tier, most, self.near, self.reservation) {
                return Ok(Some(run));
            }
        }
        Ok(None)
    }

    fn add_hole(&self, number: u32, node: &Node, blocks: Range<u64>, out: &mut Placements) {
        if !blocks.is_empty() && node.before.is_some() {
            out.changes.push(Change { node: number, blocks, extents: 0..0 });
        }
    }

    /// Where a block of the file lay before the batch.
    fn old_block(&self, node: &Node, block: u64) -> Result<Option<BlockAddress>, Error> {
        let holds = |extent: &&Extent| (extent.file_block..extent.end_block()).contains(&block);
        let address = |extent: &Extent| extent.address_of(block);
        if let Some(shifted) = &node.shifted {
            let is_behind = block * BLOCK_BYTES >= shifted.size;
            let found = shifted.extents.iter().filter(|_| !is_behind).find(holds);
            return Ok(found.map(address));
        }
        let Some(before) = node.before else { return Ok(None) };
        if block * BLOCK_BYTES >= before.size {
            return Ok(None);
        }
        Ok(match &node.extents {
            ExtentList::Inline(extents) => extents.iter().find(holds).map(address),
            ExtentList::Table => {
                self.before.extents(before.inode, block..block + 1)?.iter().find(holds).map(address)
            }
        })
    }

    /// Copies what remains of the batch into a new extent.
    fn fill(&self, node: &Node, parts: &[Part], extent: &Extent, out: &mut Placements) -> Result<(), Error> {
        let from = extent.file_block * BLOCK_BYTES;
        let to = extent.end_block() * BLOCK_BYTES;
        let mut part = parts.partition_point(|part| part.end <= from);
        let mut at = from;
        while at < to {
            let covering = parts[part..].first().filter(|part| part.start <= at);
            let whole_end = covering.map_or(at, |part| part.end.min(to) / BLOCK_BYTES * BLOCK_BYTES);
            if let Some(&Part { start, content: Content::Log(place), .. }) = covering
                && whole_end > at
            {
                let place = place as usize + (at - start) as usize;
                let bytes = &self.batch[place..place + (whole_end - at) as usize];
                self.writer.put(extent.address.plus(at - from), bytes)?;
                at = whole_end;
            } else {
                // A block that the parts cover altogether does not depend on its old content.
                let is_covered = covered(&parts[part..], at..at + BLOCK_BYTES) == BLOCK_BYTES;
                let old = if is_covered { None } else { self.old_block(node, at / BLOCK_BYTES)? };
                let mut block = [0; BLOCK];
                let is_given = old.map_or(Ok(true), |old| self.arenas.read_if_given(old, &mut block))?;
                let is_sound = self.assemble(&mut block, &parts[part..], at)?;
                let to = extent.address.plus(at - from);
                match old {
                    _ if !is_sound => {
                        out.damaged.push((node.record.inode, to));
                        out.lost.push(node.record.inode);
                        self.writer.put_damaged(to, &block)?;
                    }
                    Some(old) if !is_given || !self.recovering && self.arenas.is_known_damaged(old)? => {
                        out.damaged.push((node.record.inode, old));
                        self.writer.put_damaged(to, &block)?;
                    }
                    _ => self.writer.put(to, &block)?,
                }
                at += BLOCK_BYTES;
            }
            while parts.get(part).is_some_and(|part| part.end <= at) {
                part += 1;
            }
        }
        Ok(())
    }

    /// Puts the parts over the old bytes of the block at byte `at` of the file. Says whether none of them is damaged.
    fn assemble(&self, block: &mut [u8; BLOCK], parts: &[Part], at: u64) -> Result<bool, Error> {
        let end = at + BLOCK_BYTES;
        let mut is_sound = true;
        for part in parts.iter().take_while(|part| part.start < end) {
            let start = part.start.max(at);
            let covered = (start - at) as usize..(part.end.min(end) - at) as usize;
            match part.content {
                Content::Gone => block[covered].fill(0),
                Content::Log(place) => {
                    let place = place as usize + (start - part.start) as usize;
                    let bytes = &self.batch[place..place + covered.len()];
                    block[covered].copy_from_slice(bytes);
                }
                Content::Staged(address) => {
                    let from = address + (start - part.start);
                    let staged = BlockAddress(from - from % BLOCK_BYTES);
                    let mut source = [0; BLOCK];
                    let is_given = self.arenas.read_if_given(staged, &mut source)?;
                    let sum = self.claims.sum_of(staged, self.batch);
                    is_sound &= is_given && sum.is_none_or(|sum| sum == crc32c(&source));
                    let inside = (from % BLOCK_BYTES) as usize;
                    let bytes = covered.len();
                    block[covered].copy_from_slice(&source[inside..inside + bytes]);
                }
            }
        }
        Ok(is_sound)
    }
}

/// How many bytes of a range parts cover, of which the first reaches into it.
fn covered(parts: &[Part], range: Range<u64>) -> u64 {
    let inside = parts.iter().take_while(|part| part.start < range.end);
    inside.map(|part| part.end.min(range.end) - part.start.max(range.start)).sum()
}

/// The blocks that lie wholly in a cut.
fn whole_blocks(part: &Part) -> Range<u64> {
    let start = part.start.div_ceil(BLOCK_BYTES);
    let end = if part.end == u64::MAX { u64::MAX } else { part.end / BLOCK_BYTES };
    start..end.max(start)
}
