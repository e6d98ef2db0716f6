//! Copying between descriptors: sendfile, splice, copy_file_range, where an end or both are ours.
//!
//! The kernel cannot reach files of the store, so the bytes go through a buffer. A byte that was read but could not be
//! written stays unread: offsets move by what arrived.

use cuesta_format::{FILE_BYTES_MAX, FileKind};
use cuesta_libfs::Whence;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::cell::Cell;

use crate::call::{Answer, Call, Failure};
use crate::descriptors::{self, Pin};
use crate::memory::user_memory;
use crate::process;
use crate::thread::{self, signals};

/// Most bytes moved in one step.
const STEP_BYTES: usize = 128 * 1024;
/// Most bytes one call moves, as the kernel has it.
const COUNT_LIMIT: usize = 0x7fff_f000;

/// The kind of what the kernel made without a file (`eventfd`, `epoll_create`).
const NO_KIND: u32 = 0;

/// One end of a transfer.
struct End {
    fd: i32,
    pin: Option<Pin>,
    /// Where the next byte is, if that is known: in a file of ours, or where the application says.
    position: Option<i64>,
    /// Where the application keeps the offset, if it does.
    kept_at: Option<usize>,
    /// What the kernel said of a descriptor of its own, once it was asked: the flags and the kind.
    told: Told,
}

#[derive(Default)]
struct Told {
    flags: Cell<Option<i32>>,
    kind: Cell<Option<u32>>,
}

impl End {
    /// The end at a descriptor; where it begins is still to be read from `offset`, if that is an address.
    fn new(call: &Call, fd: usize, offset: usize) -> Result<Self, Failure> {
        let fd = call.int(fd);
        if descriptors::is_hidden(fd) {
            return Err(Failure::Errno(libc::EBADF));
        }
        let kept_at = if offset == 0 { None } else { Some(offset) };
        Ok(Self { fd, pin: descriptors::pin(fd), position: None, kept_at, told: Told::default() })
    }

    /// Reads where it begins, if the application says so.
    fn read_offset(&mut self) -> Result<(), Failure> {
        self.position = self.kept_at.map(user_memory::read::<i64>).transpose()?;
        Ok(())
    }

    /// Fails if the descriptor is no open file.
    fn check_open(&self) -> Result<(), Failure> {
        if self.flags()? & libc::O_PATH != 0 { Err(Failure::Errno(libc::EBADF)) } else { Ok(()) }
    }

    /// Fails if `count` bytes from its beginning lead beyond the last offset.
    fn check_area(&self, count: usize) -> Result<(), Failure> {
        let position = match (self.position, &self.pin) {
            (Some(position), _) => position as u64,
            (None, Some(pin)) => pin.with_offset(|file| Ok(file.offset()))?,
            // The kernel checks its own.
            (None, None) => 0,
        };
        crate::calls::data::contents::check_position(count, position)
    }

    /// Whether it has no offsets: a pipe or a socket.
    fn is_stream(&self) -> Result<bool, Failure> {
        Ok(matches!(self.kind()?, libc::S_IFIFO | libc::S_IFSOCK))
    }

    /// The flags it was opened with.
    fn flags(&self) -> Result<i32, Failure> {
        match &self.pin {
            Some(pin) => Ok(pin.file()?.flags()),
            None => ask_once(&self.told.flags, || {
                let flags = kernel(libc::SYS_fcntl, [self.fd as usize, libc::F_GETFL as usize, 0, 0]);
                if flags < 0 { Err(Failure::Errno(-flags as i32)) } else { Ok(flags as i32) }
            }),
        }
    }

    /// Fails if it is not open for this.
    fn check_access(&self, without: i32) -> Result<(), Failure> {
        let flags = self.flags()?;
        let way = flags & libc::O_ACCMODE;
        // The fourth way neither reads nor writes.
        let is_closed = flags & libc::O_PATH != 0 || way == without || way == libc::O_ACCMODE;
        if is_closed { Err(Failure::Errno(libc::EBADF)) } else { Ok(()) }
    }

    fn check_readable(&self) -> Result<(), Failure> {
        self.check_access(libc::O_WRONLY)
    }

    fn check_writable(&self) -> Result<(), Failure> {
        self.check_access(libc::O_RDONLY)
    }

    /// What kind of file it is, as the bits of a mode say it.
    fn kind(&self) -> Result<u32, Failure> {
        let Some(pin) = &self.pin else {
            return ask_once(&self.told.kind, || kernel_kind(self.fd));
        };
        Ok(match pin.file()?.kind() {
            FileKind::File => libc::S_IFREG,
            FileKind::Directory => libc::S_IFDIR,
            // Open by their paths only.
            _ => libc::S_IFLNK,
        })
    }

    fn is_pipe(&self) -> bool {
        self.pin.is_none() && self.kind() == Ok(libc::S_IFIFO)
    }

    /// The most that a pipe holds.
    fn pipe_bytes(&self) -> Result<usize, Failure> {
        let answer = kernel(libc::SYS_fcntl, [self.fd as usize, libc::F_GETPIPE_SZ as usize, 0, 0]);
        usize::try_from(answer).map_err(|_| Failure::Errno(-answer as i32))
    }

    /// Takes the file's own offset, if it is ours and the application gives none.
    fn begin(&mut self) -> Result<(), Failure> {
        if let (Some(pin), None) = (&self.pin, self.position) {
            let client = process::client()?;
            let at = pin.with_offset(|file| Ok(client.seek(file, 0, Whence::Current)?))?;
            self.position = Some(at as i64);
        }
        Ok(())
    }

    /// So many bytes went through.
    fn moved_by(&mut self, bytes: usize) {
        // Bytes from a device without end come from no place in it.
        let is_endless = self.pin.is_none() && self.kind() == Ok(libc::S_IFCHR);
        if let Some(position) = self.position.as_mut().filter(|_| !is_endless) {
            *position += bytes as i64;
        }
    }

    /// Leaves the offset where the transfer ended.
    fn finish(&self) -> Result<(), Failure> {
        match (self.kept_at, &self.pin, self.position) {
            (Some(address), _, Some(position)) => user_memory::write(address, &position),
            (None, Some(pin), Some(position)) => {
                let client = process::client()?;
                pin.with_offset(|file| Ok(client.seek(file, position, Whence::Set)?)).map(|_| ())
            }
            _ => Ok(()),
        }
    }

    fn read(&self, buffer: &mut [u8]) -> Result<usize, Failure> {
        let to = [self.fd as usize, buffer.as_mut_ptr() as usize, buffer.len()];
        match (&self.pin, self.position) {
            (Some(pin), Some(position)) => {
                Ok(process::client()?.pread(pin.file()?, &mut [buffer.into()], position)?)
            }
            (_, Some(position)) => waiting(libc::SYS_pread64, [to[0], to[1], to[2], position as usize]),
            (_, None) => waiting(libc::SYS_read, [to[0], to[1], to[2], 0]),
        }
    }

    /// Puts pages that hold `bytes` into a pipe, as many as it takes without waiting. `None`: it takes nothing.
    fn take_ready(&self, bytes: &[u8]) -> Result<Option<usize>, Failure> {
        let vector = [bytes.as_ptr() as usize, bytes.len()];
        let flags = libc::SPLICE_F_NONBLOCK as usize;
        let arguments = [self.fd as usize, vector.as_ptr() as usize, 1, flags, 0, 0];
        let answer = thread::wait(libc::SYS_vmsplice, arguments, true);
        match usize::try_from(answer) {
            Ok(taken) => Ok(Some(taken)),
            Err(_) if answer == -(libc::EAGAIN as isize) => Ok(None),
            Err(_) => Err(Failure::Errno(-answer as i32)),
        }
    }

    /// Bytes that lie in a pipe.
    fn bytes_ready(&self) -> Result<usize, Failure> {
        let mut bytes = 0i32;
        let answer =
            kernel(libc::SYS_ioctl, [self.fd as usize, libc::FIONREAD as usize, &raw mut bytes as usize, 0]);
        if answer < 0 { Err(Failure::Errno(-answer as i32)) } else { Ok(bytes.unsigned_abs() as usize) }
    }

    /// Waits until a pipe can be read or written; not at all if `flags` of the call or the pipe's own say so.
    fn wait_ready(&self, events: i16, flags: u32) -> Result<(), Failure> {
        let mut ready = libc::pollfd { fd: self.fd, events, revents: 0 };
        let is_patient = flags & libc::SPLICE_F_NONBLOCK == 0 && self.flags()? & libc::O_NONBLOCK == 0;
        let patience = if is_patient { usize::MAX } else { 0 };
        match waiting(libc::SYS_poll, [(&raw mut ready) as usize, 1, patience, 0])? {
            0 => Err(Failure::Errno(libc::EAGAIN)),
            // Its last reader is gone: the kernel says so before it looks at the file.
            _ if events == libc::POLLOUT && ready.revents & libc::POLLERR != 0 => {
                signals::raise(libc::SIGPIPE);
                Err(Failure::Errno(libc::EPIPE))
            }
            _ => Ok(()),
        }
    }

    fn write(&self, bytes: &[u8]) -> Result<usize, Failure> {
        let from = [self.fd as usize, bytes.as_ptr() as usize, bytes.len()];
        match (&self.pin, self.position) {
            (Some(pin), Some(position)) => {
                Ok(process::client()?.pwrite(pin.file()?, &[bytes.into()], position)?)
            }
            (_, Some(position)) => {
                waiting(libc::SYS_pwrite64, [from[0], from[1], from[2], position as usize])
            }
            // The kernel copies nothing to these.
            (_, None) if self.kind()? == NO_KIND => Err(Failure::Errno(libc::EINVAL)),
            (_, None) => waiting(libc::SYS_write, [from[0], from[1], from[2], 0]),
        }
    }
}

/// The answer that the kernel gave before, or the one that `ask` gets from it now.
fn ask_once<T: Copy>(told: &Cell<Option<T>>, ask: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    if let Some(told) = told.get() {
        return Ok(told);
    }
    let answer = ask()?;
    told.set(Some(answer));
    Ok(answer)
}

/// What kind of file one of the kernel's is.
fn kernel_kind(fd: i32) -> Result<u32, Failure> {
    let mut found = std::mem::MaybeUninit::<libc::stat>::zeroed();
    let into = found.as_mut_ptr() as usize;
    let answer = kernel(libc::SYS_fstat, [fd as usize, into, 0, 0]);
    if answer < 0 {
        return Err(Failure::Errno(-answer as i32));
    }
    // SAFETY: the kernel has filled it.
    Ok(unsafe { found.assume_init() }.st_mode & libc::S_IFMT)
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

/// Moves up to `count` bytes, as much at a time as `step` says of what is left; zero ends it.
fn transfer(
    mut from: End,
    mut to: End,
    count: usize,
    step: impl Fn(&End, usize) -> Result<usize, Failure>,
) -> Answer {
    let count = count.min(COUNT_LIMIT);
    let mut buffer = vec![0u8; count.min(STEP_BYTES)];
    let mut moved = 0;
    from.begin()?;
    to.begin()?;
    while moved < count {
        let wanted = match step(&from, moved) {
            Ok(wanted) => wanted.min(count - moved).min(buffer.len()),
            Err(_) if moved > 0 => break,
            Err(failure) => return Err(failure),
        };
        if wanted == 0 {
            break;
        }
        let done = from.read(&mut buffer[..wanted]).and_then(|read| {
            let mut written = 0;
            while written < read {
                let part = to.write(&buffer[written..read])?;
                to.moved_by(part);
                from.moved_by(part);
                written += part;
                // Bytes that came out of a pipe cannot be put back; those of a file can be read again.
                if from.position.is_some() {
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
    }
    finish(&from, &to, moved)
}

fn finish(from: &End, to: &End, moved: usize) -> Answer {
    if moved > 0 {
        // In this order: both may be the same description. Each moves whether or not the other offset can be written.
        let finished = [to.finish(), from.finish()];
        finished.into_iter().collect::<Result<(), Failure>>()?;
    }
    Ok(moved as isize)
}

/// Fills a pipe from a file, as far as it takes something without waiting once it has begun to.
fn fill_pipe(mut from: End, to: End, count: usize, flags: u32) -> Answer {
    from.begin()?;
    to.wait_ready(libc::POLLOUT, flags)?;
    if count > 0 && from.pin.is_some() && from.kind()? == libc::S_IFDIR {
        return Err(Failure::Errno(libc::EINVAL));
    }
    let (count, step) = (count.min(COUNT_LIMIT), to.pipe_bytes()?);
    let mut moved = 0;
    while moved < count {
        match fill_step(&from, &to, (count - moved).min(step)) {
            Ok(Some(0)) => break,
            Ok(Some(bytes)) => {
                from.moved_by(bytes);
                moved += bytes;
            }
            Ok(None) if moved > 0 => break,
            // Another writer was faster.
            Ok(None) => to.wait_ready(libc::POLLOUT, flags)?,
            Err(_) if moved > 0 => break,
            Err(failure) => return Err(failure),
        }
    }
    finish(&from, &to, moved)
}

/// Puts up to `bytes` of a file into a pipe: a slot for what each page of the file holds of them, as the kernel does. Zero at the file's
/// end, and `None` if the pipe takes nothing.
fn fill_step(from: &End, to: &End, bytes: usize) -> Result<Option<usize>, Failure> {
    let offset = from.position.unwrap_or(0) as usize % user_memory::PAGE_BYTES;
    let mut pages = Pages::new(offset + bytes)?;
    let buffer = &mut pages.bytes()[offset..];
    match from.read(buffer)? {
        0 => Ok(Some(0)),
        read => to.take_ready(&buffer[..read]),
    }
}

/// Memory of its own. A pipe keeps the pages that it has taken when the memory goes.
struct Pages {
    start: *mut libc::c_void,
    length: usize,
}

impl Pages {
    fn new(length: usize) -> Result<Self, Failure> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: new memory.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), length, protection, MapFlags::PRIVATE) }?;
        Ok(Self { start, length })
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is this one's alone.
        unsafe { std::slice::from_raw_parts_mut(self.start.cast(), self.length) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: nothing points into it any more.
        let _ = unsafe { munmap(self.start, self.length) };
    }
}

/// Empties a pipe into a file: the bytes that lie in it now, and not those that come later.
fn drain_pipe(from: End, to: End, count: usize, flags: u32) -> Answer {
    from.wait_ready(libc::POLLIN, flags)?;
    transfer(from, to, count, |from, moved| {
        let ready = from.bytes_ready()?;
        // Nothing lies in one that is ready when its last writer is gone: the read says so.
        Ok(if moved == 0 { ready.max(1) } else { ready })
    })
}

pub fn send_file(call: &Call) -> Answer {
    let answer = send(call);
    if call.word(2) != 0 && matches!(answer, Err(Failure::Errno(_)) | Ok(0)) {
        // The position is written back whatever became of the call.
        let position: i64 = user_memory::read(call.word(2))?;
        user_memory::write(call.word(2), &position)?;
    }
    answer
}

fn send(call: &Call) -> Answer {
    let to = End::new(call, 0, 0)?;
    let mut from = End::new(call, 1, call.word(2))?;
    if from.pin.is_none() && to.pin.is_none() {
        return Err(Failure::NotOurs);
    }
    from.read_offset()?;
    from.check_readable()?;
    if from.kept_at.is_some() && (from.is_stream()? || from.kind()? == NO_KIND) {
        return Err(Failure::Errno(libc::ESPIPE));
    }
    from.check_area(call.word(3))?;
    to.check_writable()?;
    if from.position.is_some_and(|position| position as u64 >= FILE_BYTES_MAX) {
        return Err(Failure::Errno(libc::EOVERFLOW));
    }
    let appends = to.flags()? & libc::O_APPEND != 0 && !to.is_pipe();
    let count = call.word(3);
    // What could not be put back is not taken.
    if appends || from.is_stream()? || count > 0 && matches!(from.kind()?, libc::S_IFDIR | NO_KIND) {
        return Err(Failure::Errno(libc::EINVAL));
    }
    if to.is_pipe() {
        fill_pipe(from, to, count, 0)
    } else {
        transfer(from, to, count, |_, _| Ok(STEP_BYTES))
    }
}

/// All that `splice`, `tee` and `vmsplice` may be asked for.
const SPLICE_FLAGS: u32 =
    libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK | libc::SPLICE_F_MORE | libc::SPLICE_F_GIFT;

/// `tee`, between pipes only.
pub fn tee(call: &Call) -> Answer {
    if call.pin(0).is_err() && call.pin(1).is_err() {
        return call.pin(0).and(Err(Failure::NotOurs));
    }
    if call.word(3) as u32 & !SPLICE_FLAGS != 0 {
        return Err(Failure::Errno(libc::EINVAL));
    }
    if call.word(2) == 0 {
        return Ok(0);
    }
    let (from, to) = (End::new(call, 0, 0)?, End::new(call, 1, 0)?);
    from.check_readable()?;
    to.check_writable()?;
    Err(Failure::Errno(libc::EINVAL))
}

/// `vmsplice`, into or out of a pipe only.
pub fn splice_memory(call: &Call) -> Answer {
    let pin = call.pin(0)?;
    if call.word(3) as u32 & !SPLICE_FLAGS != 0 {
        return Err(Failure::Errno(libc::EINVAL));
    }
    if !pin.reads() && !pin.writes() {
        return Err(Failure::Errno(libc::EBADF));
    }
    let has_bytes = crate::calls::data::contents::vector(call)?.iter().any(|[_, length]| *length != 0);
    if has_bytes { Err(Failure::Errno(libc::EBADF)) } else { Ok(0) }
}

pub fn splice(call: &Call) -> Answer {
    if call.pin(0).is_ok() || call.pin(2).is_ok() {
        if call.word(4) == 0 {
            return Ok(0);
        }
        if call.word(5) as u32 & !SPLICE_FLAGS != 0 {
            return Err(Failure::Errno(libc::EINVAL));
        }
    }
    let (mut from, mut to) = (End::new(call, 0, call.word(1))?, End::new(call, 2, call.word(3))?);
    if from.pin.is_none() && to.pin.is_none() {
        return Err(Failure::NotOurs);
    }
    let (count, flags) = (call.word(4), call.word(5) as u32);
    from.check_open()?;
    to.check_open()?;
    let is_filling = from.pin.is_some();
    let (file, pipe) = if is_filling { (&from, &to) } else { (&to, &from) };
    let (has_pipe, file_appends) = (pipe.is_pipe(), file.flags()? & libc::O_APPEND != 0);
    if has_pipe && pipe.kept_at.is_some() {
        return Err(Failure::Errno(libc::ESPIPE));
    }
    to.read_offset()?;
    from.read_offset()?;
    from.check_readable()?;
    to.check_writable()?;
    if !has_pipe || !is_filling && file_appends {
        return Err(Failure::Errno(libc::EINVAL));
    }
    if is_filling {
        from.check_area(count)?
    } else {
        to.check_area(count)?
    }
    if from.pin.is_none() { drain_pipe(from, to, count, flags) } else { fill_pipe(from, to, count, flags) }
}

/// Between files of two file systems the kernel answers EXDEV, and programs copy by themselves.
pub fn copy_range(call: &Call) -> Answer {
    let (mut from, mut to) = (End::new(call, 0, call.word(1))?, End::new(call, 2, call.word(3))?);
    if from.pin.is_none() && to.pin.is_none() {
        return Err(Failure::NotOurs);
    }
    from.check_open()?;
    to.check_open()?;
    from.read_offset()?;
    to.read_offset()?;
    let kinds = [from.kind()?, to.kind()?];
    if call.int(5) != 0 {
        return Err(Failure::Errno(libc::EINVAL));
    }
    if kinds.contains(&libc::S_IFDIR) {
        return Err(Failure::Errno(libc::EISDIR));
    }
    if kinds.iter().any(|kind| *kind != libc::S_IFREG) {
        return Err(Failure::Errno(libc::EINVAL));
    }
    from.check_readable()?;
    to.check_writable()?;
    if to.flags()? & libc::O_APPEND != 0 {
        return Err(Failure::Errno(libc::EBADF));
    }
    let (Some(source), Some(target)) = (&from.pin, &to.pin) else {
        return Err(Failure::Errno(libc::EXDEV));
    };
    let is_same = source.inode() == target.inode();
    let size = process::client()?.stat_open(source.file()?)?.record.size;
    from.begin()?;
    to.begin()?;
    let (read, written) = (from.position.unwrap_or(0), to.position.unwrap_or(0));
    let asked = call.word(4) as u64;
    if [read, written].iter().any(|at| (*at as u64).checked_add(asked).is_none()) {
        return Err(Failure::Errno(libc::EOVERFLOW));
    }
    let count = call.word(4).min(size.saturating_sub(read as u64) as usize);
    if is_same && read.abs_diff(written) < count as u64 {
        return Err(Failure::Errno(libc::EINVAL));
    }
    crate::calls::data::contents::check_position(count, read as u64)?;
    crate::calls::data::contents::check_position(count, written as u64)?;
    transfer(from, to, count, |_, _| Ok(STEP_BYTES))
}
