//! Copying between descriptors: sendfile, splice, copy_file_range, where an end or both are ours.
//!
//! The kernel cannot reach what is ours, so the bytes go through a buffer. What has been read but could not be
//! written stays unread: offsets move by what arrived.

use cuesta_libfs::Whence;

use super::{Answer, Call, Failure};
use crate::descriptors::{self, Pin};
use crate::{process, thread, user_memory};

/// Most bytes moved in one step.
const STEP_BYTES: usize = 128 * 1024;
/// What a pipe that is ready to be written takes without waiting.
const PIPE_BYTES: usize = 4096;
/// Most bytes one call moves, as the kernel has it.
const COUNT_LIMIT: usize = 0x7fff_f000;

/// One end of a transfer.
struct End {
    fd: i32,
    pin: Option<Pin>,
    /// The offset the application keeps, and where it keeps it.
    given: Option<(i64, usize)>,
}

impl End {
    fn new(call: &Call, fd: usize, offset: usize) -> Result<Self, Failure> {
        let fd = call.int(fd);
        if descriptors::is_hidden(fd) {
            return Err(Failure::Errno(libc::EBADF));
        }
        let given = match offset {
            0 => None,
            address => Some((user_memory::read::<i64>(address)?, address)),
        };
        Ok(Self { fd, pin: descriptors::pin(fd), given })
    }

    fn is_pipe(&self) -> bool {
        self.pin.is_none()
            && kernel(libc::SYS_fcntl, [self.fd as usize, libc::F_GETPIPE_SZ as usize, 0, 0]) >= 0
    }

    /// Where the next byte is, if that is known beforehand.
    fn offset(&self) -> Result<Option<i64>, Failure> {
        match (&self.pin, self.given) {
            (_, Some((offset, _))) => Ok(Some(offset)),
            (Some(pin), None) => {
                let client = process::client()?;
                pin.with_offset(|file| Ok(client.seek(file, 0, Whence::Current)? as i64)).map(Some)
            }
            (None, None) => Ok(None),
        }
    }

    /// So many bytes went through; only what could be read beforehand has not moved by itself.
    fn moved_by(&mut self, bytes: usize) -> Result<(), Failure> {
        match (&self.pin, &mut self.given) {
            (_, Some((offset, address))) => {
                *offset += bytes as i64;
                user_memory::write(*address, offset)
            }
            (Some(pin), None) => {
                let client = process::client()?;
                pin.with_offset(|file| Ok(client.seek(file, bytes as i64, Whence::Current)?)).map(|_| ())
            }
            (None, None) => Ok(()),
        }
    }

    /// Reads without moving, where that is possible.
    fn read(&self, buffer: &mut [u8]) -> Result<usize, Failure> {
        let offset = self.offset()?;
        match (&self.pin, offset) {
            (Some(pin), Some(offset)) => {
                Ok(process::client()?.pread(pin.file()?, &mut [buffer.into()], offset)?)
            }
            (_, Some(offset)) => {
                let fd = self.fd as usize;
                let to = [fd, buffer.as_mut_ptr() as usize, buffer.len(), offset as usize];
                waiting(libc::SYS_pread64, to)
            }
            (_, None) => {
                let to = [self.fd as usize, buffer.as_mut_ptr() as usize, buffer.len(), 0];
                waiting(libc::SYS_read, to)
            }
        }
    }

    fn write(&self, bytes: &[u8], ready_only: bool) -> Result<usize, Failure> {
        let from = [self.fd as usize, bytes.as_ptr() as usize, bytes.len(), 0];
        match (&self.pin, self.given) {
            (Some(pin), Some((offset, _))) => {
                Ok(process::client()?.pwrite(pin.file()?, &[bytes.into()], offset)?)
            }
            (Some(pin), None) => {
                let client = process::client()?;
                pin.with_offset(|file| Ok(client.write(file, &[bytes.into()])?))
            }
            (None, Some((offset, _))) => {
                waiting(libc::SYS_pwrite64, [from[0], from[1], from[2], offset as usize])
            }
            (None, None) if ready_only => {
                waiting(libc::SYS_write, [from[0], from[1], from[2].min(PIPE_BYTES), 0])
            }
            (None, None) => waiting(libc::SYS_write, from),
        }
    }
}

fn kernel(number: i64, [first, second, third, fourth]: [usize; 4]) -> isize {
    // SAFETY: reads or writes a buffer of ours, or only asks.
    unsafe { crate::arch::syscall(number as usize, [first, second, third, fourth, 0, 0]) }
}

/// A call that may wait, as long as the application's own would.
fn waiting(number: i64, [first, second, third, fourth]: [usize; 4]) -> Result<usize, Failure> {
    let answer = thread::wait(number, [first, second, third, fourth, 0, 0], number != libc::SYS_poll);
    usize::try_from(answer).map_err(|_| Failure::Errno(-answer as i32))
}

/// Moves up to `count` bytes, in as many steps as nothing has to wait for after the first.
fn transfer(mut from: End, mut to: End, count: usize, ready_only: bool) -> Answer {
    let count = count.min(COUNT_LIMIT);
    let mut buffer = vec![0u8; count.min(STEP_BYTES)];
    let mut moved = 0;
    while moved < count {
        let step = (count - moved).min(buffer.len()).min(if ready_only { PIPE_BYTES } else { STEP_BYTES });
        let done = from.read(&mut buffer[..step]).and_then(|read| {
            let mut written = 0;
            while written < read {
                // What came out of a pipe cannot be put back.
                let part = to.write(&buffer[written..read], ready_only)?;
                if to.given.is_some() {
                    to.moved_by(part)?;
                }
                written += part;
                if from.offset()?.is_some() {
                    from.moved_by(part)?;
                    break;
                }
            }
            Ok(written)
        });
        match done {
            Ok(0) => break,
            Ok(bytes) => moved += bytes,
            Err(_) if moved > 0 => break,
            Err(failure) => return Err(failure),
        }
        if ready_only {
            break;
        }
    }
    Ok(moved as isize)
}

pub fn send_file(call: &Call) -> Answer {
    let to = End::new(call, 0, 0)?;
    let from = End::new(call, 1, call.word(2))?;
    if from.pin.is_none() && to.pin.is_none() {
        return Err(Failure::NotOurs);
    }
    transfer(from, to, call.word(3), false)
}

pub fn splice(call: &Call) -> Answer {
    let (from, to) = (End::new(call, 0, call.word(1))?, End::new(call, 2, call.word(3))?);
    if from.pin.is_none() && to.pin.is_none() {
        return Err(Failure::NotOurs);
    }
    let pipe = if from.pin.is_none() { &from } else { &to };
    if !pipe.is_pipe() {
        return Err(Failure::Errno(libc::EINVAL));
    }
    if pipe.given.is_some() {
        return Err(Failure::Errno(libc::ESPIPE));
    }
    let is_reading = from.pin.is_none();
    let events = if is_reading { libc::POLLIN } else { libc::POLLOUT };
    let mut ready = libc::pollfd { fd: pipe.fd, events, revents: 0 };
    let patience = if call.int(5) & libc::SPLICE_F_NONBLOCK as i32 != 0 { 0 } else { usize::MAX };
    if waiting(libc::SYS_poll, [(&raw mut ready) as usize, 1, patience, 0])? == 0 {
        return Err(Failure::Errno(libc::EAGAIN));
    }
    // One step: the first has waited, and what a further one could move is not known.
    let count = if is_reading { call.word(4).min(STEP_BYTES) } else { call.word(4) };
    transfer(from, to, count, true)
}

/// Between files of two file systems the kernel answers EXDEV, and programs copy by themselves.
pub fn copy_range(call: &Call) -> Answer {
    let (from, to) = (End::new(call, 0, call.word(1))?, End::new(call, 2, call.word(3))?);
    let (Some(source), Some(target)) = (&from.pin, &to.pin) else {
        return Err(if from.pin.is_some() || to.pin.is_some() {
            Failure::Errno(libc::EXDEV)
        } else {
            Failure::NotOurs
        });
    };
    if call.word(5) != 0 {
        return Err(Failure::Errno(libc::EINVAL));
    }
    if target.file()?.flags() & libc::O_APPEND != 0 {
        return Err(Failure::Errno(libc::EBADF));
    }
    if source.inode() == target.inode() {
        let (read, written) = (from.offset()?.unwrap_or(0), to.offset()?.unwrap_or(0));
        if read.abs_diff(written) < call.word(4) as u64 {
            return Err(Failure::Errno(libc::EINVAL));
        }
    }
    transfer(from, to, call.word(4), false)
}
