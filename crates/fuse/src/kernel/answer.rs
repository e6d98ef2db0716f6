//! The answer to a request, while it is put together: in memory that its worker uses again and again.

use zerocopy::{Immutable, IntoBytes};

/// Bytes behind an answer's header.
#[derive(Debug)]
pub struct Answer {
    bytes: Box<[u8]>,
    used: usize,
}

impl Answer {
    /// Room for answers of up to `bytes_max`.
    #[must_use]
    pub fn new(bytes_max: usize) -> Answer {
        Answer { bytes: vec![0; bytes_max].into_boxed_slice(), used: 0 }
    }

    /// Begins a new one.
    pub fn clear(&mut self) {
        self.used = 0;
    }

    /// What stands in it.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.used]
    }

    /// Adds a structure.
    pub fn put(&mut self, structure: &(impl IntoBytes + Immutable)) {
        self.put_bytes(structure.as_bytes());
    }

    /// Adds bytes, for which there is room: everything but what programs ask for by size is short.
    pub fn put_bytes(&mut self, bytes: &[u8]) {
        self.bytes[self.used..][..bytes.len()].copy_from_slice(bytes);
        self.used += bytes.len();
    }

    /// Puts a structure in the place of the one it begins with.
    pub fn put_first(&mut self, structure: &(impl IntoBytes + Immutable)) {
        let bytes = structure.as_bytes();
        self.bytes[..self.used][..bytes.len()].copy_from_slice(bytes);
    }

    /// Adds zeros up to a multiple of 8 bytes.
    pub fn align(&mut self) {
        let end = self.used.next_multiple_of(8);
        self.bytes[self.used..end].fill(0);
        self.used = end;
    }

    /// Room for `wanted` bytes, as far as there is some; of it so many are added as `fill` says it filled.
    pub fn fill<E>(
        &mut self,
        wanted: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<(), E> {
        let free = &mut self.bytes[self.used..];
        let wanted = wanted.min(free.len());
        let filled = fill(&mut free[..wanted])?;
        self.used += filled.min(wanted);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_what_was_put_there() {
        let mut answer = Answer::new(32);
        answer.put(&7u32);
        answer.put_bytes(b"abc");
        answer.align();
        assert_eq!(answer.bytes(), [&7u32.to_ne_bytes(), b"abc".as_slice(), &[0]].concat());
        let filled = answer.fill(100, |room| {
            assert_eq!(room.len(), 24);
            room[0] = 9;
            Ok::<_, ()>(1)
        });
        assert_eq!((filled, answer.bytes().len(), answer.bytes()[8]), (Ok(()), 9, 9));
        assert_eq!(answer.fill(1, |_| Err(5)), Err(5));
        answer.put_first(&8u32);
        assert_eq!(answer.bytes()[..7], *[8u32.to_ne_bytes().as_slice(), b"abc"].concat());
        answer.clear();
        assert_eq!(answer.bytes(), b"");
    }
}
