//! Policy: whether a program writes a file from front to back and waits for none of it.
//!
//! A stream of short writes is better staged than logged. The digest would copy each of them from the log, and on a
//! disk that is slower than the program. The first writes go into the log, because a stream is known by its length.

use crate::sync::{AtomicU64, Ordering};

/// The position of a file's writer, and how long it has written from there. Threads that write at once may lose a write.
#[derive(Debug, Default)]
pub(crate) struct WriteStream {
    /// Where a sequential write begins.
    next: AtomicU64,
    /// Bytes of the stream so far.
    bytes: AtomicU64,
}

impl WriteStream {
    /// A write at an offset, or at the end of the file. Returns the bytes of the stream before it.
    #[inline]
    pub(crate) fn note(&self, at: Option<u64>, bytes: usize) -> u64 {
        let is_sequential = at.is_none_or(|at| self.next.load(Ordering::Relaxed) == at);
        let before = if is_sequential { self.bytes.load(Ordering::Relaxed) } else { 0 };
        if let Some(at) = at {
            self.next.store(at + bytes as u64, Ordering::Relaxed);
        }
        self.bytes.store(before + bytes as u64, Ordering::Relaxed);
        before
    }

    /// A program syncs the file. The next write begins another stream.
    #[inline]
    pub(crate) fn end(&self) {
        self.bytes.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_grows_until_a_jump_or_an_fsync() {
        let stream = WriteStream::default();
        assert_eq!([0, 10, 20].map(|at| stream.note(Some(at), 10)), [0, 10, 20]);
        assert_eq!(stream.note(Some(100), 10), 0, "a jump");
        assert_eq!(stream.note(Some(110), 5), 10);
        stream.end();
        assert_eq!(stream.note(Some(115), 5), 0, "behind an fsync");
    }

    #[test]
    fn each_append_goes_on_with_the_stream() {
        let stream = WriteStream::default();
        assert_eq!([(); 3].map(|()| stream.note(None, 7)), [0, 7, 14]);
    }
}
