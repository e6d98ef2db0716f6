//! The tree's bytes on the medium, with a checksum for each page of them: a damaged page is noticed when it is
//! read. (redb's own checksums are compared when the whole tree is checked.)
//!
//! In front of every [`CHUNK_BYTES`] of the tree lies one page of checksums. Bytes that were never written are
//! zeros, and their kept checksum is zero. A page of a commit is never written over before the next one is durable.
//! So a crash leaves no page that counts half written. The first page, redb's header, may be torn; it has a
//! checksum of its own.

use cuesta_format::entry::crc32c;
use cuesta_media::{AccessError, SharedMemory};
use std::ops::Range;
use std::sync::LazyLock;

/// Bytes that are summed as one.
pub(crate) const PAGE_BYTES: u64 = 4096;
const SUM_BYTES: u64 = size_of::<u32>() as u64;
/// Checksums that lie in one page.
pub(crate) const SUMS: usize = (PAGE_BYTES / SUM_BYTES) as usize;
/// Bytes of the tree behind each page of checksums.
const CHUNK_BYTES: u64 = PAGE_BYTES / SUM_BYTES * PAGE_BYTES;
/// With that page.
const STRIDE_BYTES: u64 = PAGE_BYTES + CHUNK_BYTES;

static SUM_OF_ZEROS: LazyLock<u32> = LazyLock::new(|| crc32c(&[0; PAGE_BYTES as usize]));

/// The kept checksum of a page with this checksum.
fn kept(sum: u32) -> u32 {
    sum ^ *SUM_OF_ZEROS
}

/// Where a byte of the tree lies, counted from where the tree begins on the medium.
fn place(offset: u64) -> u64 {
    offset / CHUNK_BYTES * STRIDE_BYTES + PAGE_BYTES + offset % CHUNK_BYTES
}

/// Where the checksum of the page lies that a byte of the tree is in.
fn sum_place(offset: u64) -> u64 {
    offset / CHUNK_BYTES * STRIDE_BYTES + offset % CHUNK_BYTES / PAGE_BYTES * SUM_BYTES
}

/// How much of the medium a tree of this length takes: whole pages.
pub(crate) fn medium_bytes(length: u64) -> u64 {
    if length == 0 { 0 } else { (place(length - 1) + 1).next_multiple_of(PAGE_BYTES) }
}

/// How long a tree can be on so much of it.
pub(crate) fn tree_bytes(medium_bytes: u64) -> u64 {
    let last = (medium_bytes % STRIDE_BYTES).saturating_sub(PAGE_BYTES);
    medium_bytes / STRIDE_BYTES * CHUNK_BYTES + last
}

/// A range cut where chunks end.
fn pieces(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        let end = range.end.min((at / CHUNK_BYTES + 1) * CHUNK_BYTES);
        (at < end).then(|| std::mem::replace(&mut at, end)..end)
    })
}

/// The tree on a medium, from `start` on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckedPages<'a> {
    pub(crate) medium: &'a SharedMemory,
    pub(crate) start: u64,
}

impl CheckedPages<'_> {
    fn sum(&self, page: u64) -> Result<u32, AccessError> {
        self.medium.sum(self.start + place(page), PAGE_BYTES)
    }

    /// Reads a page; answers the checksum of its bytes, and its kept checksum.
    pub(crate) fn load(
        &self,
        page: u64,
        out: &mut [u8; PAGE_BYTES as usize],
    ) -> Result<(u32, u32), AccessError> {
        let mut bytes = [0; SUM_BYTES as usize];
        self.medium.read(self.start + sum_place(page), &mut bytes)?;
        self.medium.read(self.start + place(page), out)?;
        Ok((kept(crc32c(out)), u32::from_le_bytes(bytes)))
    }

    /// The checksums that are kept of the pages of the chunk that a page is in.
    pub(crate) fn sums(&self, page: u64) -> Result<Vec<u32>, AccessError> {
        let mut bytes = [0; PAGE_BYTES as usize];
        self.medium.read(self.start + page / CHUNK_BYTES * STRIDE_BYTES, &mut bytes)?;
        let words = bytes.chunks_exact(SUM_BYTES as usize);
        Ok(words.map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect())
    }

    fn is_intact(&self, page: u64) -> Result<bool, AccessError> {
        let mut bytes = [0; SUM_BYTES as usize];
        self.medium.read(self.start + sum_place(page), &mut bytes)?;
        Ok(kept(self.sum(page)?) == u32::from_le_bytes(bytes))
    }

    /// Reads bytes that are there. Answers the first page of them that is not what was written. The tree's first page a crash may have
    /// torn: it is judged by [`CheckedPages::is_first_intact`].
    pub(crate) fn read(&self, offset: u64, out: &mut [u8]) -> Result<Option<u64>, AccessError> {
        let end = offset + out.len() as u64;
        for piece in pieces(offset..end) {
            let part = &mut out[(piece.start - offset) as usize..(piece.end - offset) as usize];
            self.medium.read(self.start + place(piece.start), part)?;
        }
        let pages = (offset / PAGE_BYTES).max(1)..end.div_ceil(PAGE_BYTES);
        for page in pages.map(|page| page * PAGE_BYTES) {
            if !self.is_intact(page)? {
                return Ok(Some(page));
            }
        }
        Ok(None)
    }

    /// Whether the tree's first page is sound.
    pub(crate) fn is_first_intact(&self) -> Result<bool, AccessError> {
        self.is_intact(0)
    }

    /// Writes bytes for which there is room, pages of them whole; a fence has to follow.
    pub(crate) fn write(&self, offset: u64, data: &[u8]) -> Result<(), AccessError> {
        let end = offset + data.len() as u64;
        for piece in pieces(offset..end) {
            let part = &data[(piece.start - offset) as usize..(piece.end - offset) as usize];
            self.medium.write_through(self.start + place(piece.start), part)?;
            for page in piece.start / PAGE_BYTES..piece.end.div_ceil(PAGE_BYTES) {
                self.keep_sum(page * PAGE_BYTES)?;
            }
        }
        Ok(())
    }

    fn keep_sum(&self, page: u64) -> Result<(), AccessError> {
        let sum = kept(self.sum(page)?);
        self.medium.write_through(self.start + sum_place(page), &sum.to_le_bytes())
    }

    /// The tree was `before` bytes long and is about to be cut to `length`. The bytes behind that read as zeros
    /// when it grows again. A fence has to follow.
    pub(crate) fn cut(&self, length: u64, before: u64) -> Result<(), AccessError> {
        let inside = length % PAGE_BYTES;
        if inside > 0 {
            let zeros = [0; PAGE_BYTES as usize];
            self.medium.write_through(self.start + place(length), &zeros[inside as usize..])?;
            self.keep_sum(length - inside)?;
        }
        // Checksums of chunks behind this one go with their chunks.
        let end = before.min(length.next_multiple_of(CHUNK_BYTES));
        for page in length.div_ceil(PAGE_BYTES)..end.div_ceil(PAGE_BYTES) {
            let place = self.start + sum_place(page * PAGE_BYTES);
            self.medium.write_through(place, &[0; SUM_BYTES as usize])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_lie_behind_their_checksums_and_fit_the_medium() {
        for (offset, lies) in
            [(0, 4096), (5000, 9096), (CHUNK_BYTES - 1, STRIDE_BYTES - 1), (CHUNK_BYTES, STRIDE_BYTES + 4096)]
        {
            assert_eq!(place(offset), lies, "{offset}");
            let pages = (offset + 1).next_multiple_of(PAGE_BYTES);
            assert_eq!(tree_bytes(medium_bytes(offset + 1)), pages, "{offset}");
        }
        assert_eq!((sum_place(0), sum_place(4096), sum_place(CHUNK_BYTES + 4095)), (0, 4, STRIDE_BYTES));
        assert_eq!((medium_bytes(0), tree_bytes(0), tree_bytes(4096)), (0, 0, 0));
        assert_eq!(tree_bytes(STRIDE_BYTES + 100), CHUNK_BYTES, "no room for more than checksums");
        let cut: Vec<_> = pieces(CHUNK_BYTES - 5..2 * CHUNK_BYTES + 1).collect();
        let ends = [CHUNK_BYTES - 5, CHUNK_BYTES, 2 * CHUNK_BYTES, 2 * CHUNK_BYTES + 1];
        assert_eq!(cut, ends.windows(2).map(|ends| ends[0]..ends[1]).collect::<Vec<_>>());
    }
}
