//! Staging: the whole blocks of a large write go straight into blocks that SharedFS granted; the entry names them.
//!
//! The payload is written before the entry gets its place in the log and without the inode's lock, so a write that
//! blocks holds up no other. If anything fails here, the write goes through the log, which also answers for memory of the
//! program that cannot be read.
//!
//! Where blocks have checksums, the program's bytes are copied first and summed on the way, and the copy is written:
//! another thread may change the buffer meanwhile.

use crate::cache::file_content::FileContent;
use crate::client::client::Client;
use crate::log::windows::{BUFFER_BYTES, StagedRun, Windows};
use crate::open_files::open_file::OpenFile;
use crate::steering::destination::{Destination, TIER_BELOW, Thresholds};
use crate::steering::predictions::Prediction;
use cuesta_format::entry::Crc32c;
use cuesta_format::operation::{BlockRun, StagedWrite};
use cuesta_format::{BLOCK_BYTES, FILE_BYTES_MAX, LogPosition, Medium};
use cuesta_media::UserSlice;
use cuesta_media::emulate::settle;

const BLOCK: usize = BLOCK_BYTES as usize;
/// Blocks that are copied and summed at once.
const COPIED_BLOCKS: u64 = (BUFFER_BYTES / BLOCK) as u64;

/// How the bytes of a write lie in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WriteShape {
    /// Bytes before the first whole block.
    head: usize,
    /// Whole blocks.
    blocks: u32,
    /// Bytes behind them.
    tail: usize,
}

impl WriteShape {
    pub(crate) fn of(offset: u64, bytes: usize) -> WriteShape {
        let head = (offset.next_multiple_of(BLOCK_BYTES) - offset) as usize;
        let rest = bytes.saturating_sub(head);
        WriteShape { head: head.min(bytes), blocks: (rest / BLOCK) as u32, tail: rest % BLOCK }
    }

    /// Blocks that the entry of such a write may cost: those of its windows are granted already.
    pub(crate) fn cost(&self) -> u64 {
        u64::from(self.head > 0) + u64::from(self.tail > 0)
    }
}

/// Payload that lies in blocks of windows, and the body of the entry that will name them.
#[derive(Debug)]
pub(crate) struct Staged {
    pub(crate) shape: WriteShape,
    pub(crate) body: Vec<u8>,
    runs: Vec<StagedRun>,
}

impl Staged {
    /// Whether the payload can be stored at `offset`.
    pub(crate) fn fits(&self, offset: u64, bytes: usize) -> bool {
        WriteShape::of(offset, bytes) == self.shape
    }

    /// Overlays a file's content with the payload. The entry is at `position`, its body at `body`.
    pub(crate) fn overlay(
        &self,
        content: &mut FileContent,
        offset: u64,
        position: LogPosition,
        body: LogPosition,
    ) {
        let WriteShape { head, tail, .. } = self.shape;
        let edges = body.plus((self.body.len() - head - tail) as u64);
        let mut at = offset + head as u64;
        if head > 0 {
            content.write(offset..at, edges);
        }
        for BlockRun { address, blocks } in self.runs.iter().map(|run| run.run) {
            let end = at + u64::from(blocks) * BLOCK_BYTES;
            content.write_staged(at..end, address, position);
            at = end;
        }
        if tail > 0 {
            content.write(at..at + tail as u64, edges.plus(head as u64));
        }
    }
}

impl Client {
    /// Stages a write of `bytes` bytes, if it is to be staged. Without an offset it goes to the end of the file, as far
    /// as that is known.
    pub(crate) fn stage(
        &self,
        file: &OpenFile,
        (data, bytes): (&[UserSlice<'_>], usize),
        at: Option<u64>,
        prediction: Option<Prediction>,
    ) -> Option<Staged> {
        let thresholds = Thresholds::of(self.session.welcome.stage_bytes)?;
        let streams = self.session.welcome.medium == Medium::Block
            && thresholds.is_streamed(bytes, file.write_stream.note(at, bytes));
        // A process whose files may not be long may not write far into an arena either.
        if !(streams || thresholds.is_long(bytes)) || self.file_limit() < FILE_BYTES_MAX {
            return None;
        }
        let (shape, destination) = {
            let state = file.inode_ref().state.read();
            state.lease?;
            let offset = at.unwrap_or(state.record.size);
            let shape = WriteShape::of(offset, bytes);
            let first = offset + shape.head as u64;
            let end = first + u64::from(shape.blocks) * BLOCK_BYTES;
            let added = state.missing(first..end).unwrap_or_default();
            let overwrites = added < u64::from(shape.blocks);
            let streams = streams && shape.head == 0;
            (shape, thresholds.destination(shape.blocks.into(), (overwrites, streams), prediction))
        };
        let windows = match destination {
            Destination::Log => return None,
            Destination::Staged(TIER_BELOW) => &self.lower_windows,
            Destination::Staged(_) => &self.windows,
        };
        let runs = windows.take(&self.session, &self.kept_descriptors, shape.blocks)?;
        let geometry = self.session.geometry().of_tier(runs.first()?.run.address.tier());
        let has_sums = self.session.welcome.medium == Medium::Block || geometry.checks_content;
        let mut reader = Reader { parts: data, done: 0 };
        let mut edges = vec![0; shape.head + shape.tail];
        let (head, tail) = edges.split_at_mut(shape.head);
        reader.copy(head)?;
        let sums = match has_sums {
            true => Some(self.write_summed((windows, &runs), &mut reader)?),
            false => {
                self.write_gathered((windows, &runs), &mut reader)?;
                None
            }
        };
        // What returned is durable on persistent memory.
        if self.session.welcome.medium == Medium::Pmem && !runs.iter().all(StagedRun::flush) {
            return None;
        }
        if self.session.arenas.plays_disks {
            settle();
        }
        reader.copy(tail)?;
        let mut body = Vec::new();
        let named: Vec<BlockRun> = runs.iter().map(|run| run.run).collect();
        StagedWrite::encode(&named, sums.as_deref(), head, tail, &mut body);
        Some(Staged { shape, body, runs })
    }

    /// Writes the next bytes to the blocks, straight from the program's memory.
    fn write_gathered(
        &self,
        (windows, runs): (&Windows, &[StagedRun]),
        reader: &mut Reader<'_, '_>,
    ) -> Option<()> {
        for run in runs {
            let parts = reader.take(run.run.blocks as usize * BLOCK);
            run.write(&self.session, windows, 0, &parts).ok()?;
        }
        Some(())
    }

    /// Writes a copy of the next bytes to the blocks. Answers the checksum of each.
    fn write_summed(
        &self,
        (windows, runs): (&Windows, &[StagedRun]),
        reader: &mut Reader<'_, '_>,
    ) -> Option<Vec<u32>> {
        let mut buffer = windows.buffer();
        let mut sums = Vec::new();
        let mut write_all = || {
            for run in runs {
                let blocks = u64::from(run.run.blocks);
                for first in (0..blocks).step_by(COPIED_BLOCKS as usize) {
                    let count = COPIED_BLOCKS.min(blocks - first) as usize;
                    let copied = &mut buffer[..count * BLOCK];
                    for block in copied.chunks_mut(BLOCK) {
                        sums.push(reader.copy_summed(block)?);
                    }
                    run.write(&self.session, windows, first * BLOCK_BYTES, &[UserSlice::from(&*copied)])
                        .ok()?;
                }
            }
            Some(())
        };
        let written = write_all();
        windows.keep_buffer(buffer);
        written.map(|()| sums)
    }
}

/// Reads the program's memory from its beginning to its end.
struct Reader<'r, 'd> {
    parts: &'r [UserSlice<'d>],
    /// Bytes of the first part that were read.
    done: usize,
}

impl<'d> Reader<'_, 'd> {
    /// The next bytes of one part, at most `most`.
    fn next(&mut self, most: usize) -> Option<UserSlice<'d>> {
        loop {
            let (first, rest) = self.parts.split_first()?;
            let (_, left) = first.split_at(self.done);
            if left.is_empty() {
                (self.parts, self.done) = (rest, 0);
                continue;
            }
            let (taken, _) = left.split_at(most);
            self.done += taken.len();
            return Some(taken);
        }
    }

    /// The next bytes, as they lie.
    fn take(&mut self, bytes: usize) -> Vec<UserSlice<'d>> {
        let mut parts = Vec::new();
        let mut missing = bytes;
        while missing > 0
            && let Some(part) = self.next(missing)
        {
            missing -= part.len();
            parts.push(part);
        }
        parts
    }

    /// Copies the next bytes. `None`: they cannot be read.
    fn copy(&mut self, out: &mut [u8]) -> Option<()> {
        let mut done = 0;
        while done < out.len() {
            let part = self.next(out.len() - done)?;
            part.copy_in(&mut out[done..done + part.len()]).ok()?;
            done += part.len();
        }
        Some(())
    }

    /// Copies the next bytes, and answers their checksum.
    fn copy_summed(&mut self, out: &mut [u8]) -> Option<u32> {
        let mut sum = Crc32c::new();
        let mut done = 0;
        while done < out.len() {
            let part = self.next(out.len() - done)?;
            part.copy_in_summed(&mut out[done..done + part.len()], &mut sum).ok()?;
            done += part.len();
        }
        Some(sum.value())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_has_a_head_blocks_and_a_tail() {
        let shape = |head, blocks, tail| WriteShape { head, blocks, tail };
        assert_eq!(WriteShape::of(0, 2 * BLOCK), shape(0, 2, 0));
        assert_eq!(WriteShape::of(BLOCK_BYTES - 3, 3 + BLOCK + 5), shape(3, 1, 5));
        assert_eq!(WriteShape::of(1, 10), shape(10, 0, 0));
        assert_eq!(WriteShape::of(1, 2 * BLOCK), shape(BLOCK - 1, 1, 1));
        assert_eq!((shape(0, 9, 0).cost(), shape(1, 9, 0).cost(), shape(1, 9, 7).cost()), (0, 1, 2));
    }

    #[test]
    fn bytes_are_read_in_order_across_parts_and_summed() {
        let bytes: Vec<u8> = (0..3 * BLOCK as u32).map(|at| (at * 7) as u8).collect();
        let cuts = [&bytes[..5], &bytes[5..5], &bytes[5..BLOCK + 9], &bytes[BLOCK + 9..]];
        let parts = cuts.map(UserSlice::from);
        let mut reader = Reader { parts: &parts, done: 0 };
        let mut head = [0; 3];
        reader.copy(&mut head).unwrap();
        let mut block = [0; BLOCK];
        assert_eq!(reader.copy_summed(&mut block), Some(cuesta_format::entry::crc32c(&bytes[3..3 + BLOCK])));
        assert_eq!((&head[..], &block[..]), (&bytes[..3], &bytes[3..3 + BLOCK]));
        let taken = reader.take(BLOCK);
        assert_eq!(taken.iter().map(UserSlice::len).collect::<Vec<_>>(), [6, BLOCK - 6]);
        let mut rest = vec![0; BLOCK - 3];
        reader.copy(&mut rest).unwrap();
        assert_eq!(rest, bytes[2 * BLOCK + 3..]);
        assert_eq!(reader.copy(&mut [0]), None);
    }
}
