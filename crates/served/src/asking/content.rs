//! Bytes on their way between the application's memory and messages.

use cuesta_format::WRITE_BYTES_MAX;
use cuesta_libfs::Error;
use cuesta_media::{AccessError, Fault, SharedMemory, UserSlice, UserSliceMut};

/// The bytes of an answer, where they lie.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Content<'a> {
    /// In a message from the socket.
    Message(&'a [u8]),
    /// In a lane: so many bytes from an offset on.
    Lane(&'a SharedMemory, u64, usize),
}

impl Content<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Content::Message(bytes) => bytes.len(),
            Content::Lane(_, _, len) => *len,
        }
    }

    /// Copies as many bytes from `at` on as the application's `part` is long.
    fn copy_out(&self, at: usize, mut part: UserSliceMut<'_>) -> Result<(), Fault> {
        match self {
            Content::Message(bytes) => part.copy_out(&bytes[at..at + part.len()]),
            Content::Lane(memory, start, _) => {
                memory.read_user(start + at as u64, part).map_err(|error| match error {
                    AccessError::Fault(fault) => fault,
                    _ => Fault { copied: 0 },
                })
            }
        }
    }

    /// Copies all of it to the application's memory, `skip` bytes into that. `Err`: how many were copied before a bad address.
    pub(crate) fn scatter(&self, out: &mut [UserSliceMut<'_>], skip: usize) -> Result<(), usize> {
        let (mut skip, mut done) = (skip, 0);
        for slice in out {
            if skip >= slice.len() {
                skip -= slice.len();
                continue;
            }
            let part = slice.part(skip, self.len() - done);
            let end = done + part.len();
            self.copy_out(done, part).map_err(|fault| done + fault.copied)?;
            (skip, done) = (0, end);
        }
        Ok(())
    }
}

/// The bytes of one write, from the application's memory: those before a bad address, if there are any.
pub(crate) fn gather(data: &[UserSlice<'_>]) -> Result<Vec<u8>, Error> {
    let wanted: usize = data.iter().map(UserSlice::len).sum();
    let mut bytes = vec![0; wanted.min(WRITE_BYTES_MAX)];
    let mut filled = 0;
    for slice in data {
        let (part, _) = slice.split_at(bytes.len() - filled);
        let end = filled + part.len();
        if let Err(fault) = part.copy_in(&mut bytes[filled..end]) {
            bytes.truncate(filled + fault.copied);
            return if bytes.is_empty() { Err(Error::Fault) } else { Ok(bytes) };
        }
        filled = end;
    }
    Ok(bytes)
}
