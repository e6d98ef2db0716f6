//! Reading, writing and sizing.

use crate::call::{Answer, Call, Failure};
use crate::memory::user_memory;
use crate::process;
use crate::store::OpenFile;
use cuesta_format::FileKind;
use cuesta_libfs::{Allocation, Whence};

/// Longest vector the kernel takes.
const VECTOR_LIMIT: usize = 1024;

/// Most bytes one call moves, as the kernel has it.
const COUNT_LIMIT: usize = 0x7fff_f000;

/// Flags of preadv2/pwritev2 that ask for nothing that is not so anyway, or is not done behind the call.
const HARMLESS_FLAGS: i32 = DURABLE_FLAGS | libc::RWF_HIPRI | libc::RWF_NOWAIT | RWF_DONTCACHE | RWF_NOSIGNAL;

/// Flags of pwritev2 that ask for the write to be durable.
const DURABLE_FLAGS: i32 = libc::RWF_DSYNC | libc::RWF_SYNC;

const RWF_NOAPPEND: i32 = 0x20;

const RWF_DONTCACHE: i32 = 0x80;

/// No signal by a pipe without a reader.
const RWF_NOSIGNAL: i32 = 0x100;

/// From here on what one call moves may lead beyond the last offset.
const FAR: u64 = i64::MAX as u64 - COUNT_LIMIT as u64;

/// All that `sync_file_range` may be asked for.
const SYNC_RANGE_FLAGS: u32 =
    libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;

/// The kernel's checks of a read before it asks the file system, in its order.
fn check_read(file: &OpenFile, buffer: [usize; 2], position: u64) -> Result<(), Failure> {
    if is_plain(buffer, position) {
        return Ok(());
    }
    file.check_readable()?;
    check_area(buffer, position)
}

/// The same of a write.
fn check_write(file: &OpenFile, buffer: [usize; 2], position: u64) -> Result<(), Failure> {
    if is_plain(buffer, position) {
        return Ok(());
    }
    file.check_writable()?;
    check_area(buffer, position)
}

#[inline]
fn is_plain([address, length]: [usize; 2], position: u64) -> bool {
    length <= COUNT_LIMIT && user_memory::is_in_reach(address, length) && position < FAR
}

#[cold]
fn check_area([address, length]: [usize; 2], position: u64) -> Result<(), Failure> {
    if !user_memory::is_in_reach(address, length) {
        return Err(Failure::Errno(libc::EFAULT));
    }
    check_position(length, position)
}

/// No offset in a file may come to what `off_t` does not hold.
pub fn check_position(length: usize, position: u64) -> Result<(), Failure> {
    match (position as i64).checked_add(length as i64) {
        Some(end) if position as i64 >= 0 && end >= position as i64 => Ok(()),
        _ => Err(Failure::Errno(libc::EINVAL)),
    }
}

/// Where `pread` and its like begin: before zero they begin nowhere, whatever the descriptor is.
fn position(call: &Call) -> Result<u64, Failure> {
    u64::try_from(call.word(3) as i64).map_err(|_| Failure::Errno(libc::EINVAL))
}

pub fn read(call: &Call) -> Answer {
    let pin = call.pin(0)?;
    let client = process::client()?;
    let asked = [call.word(1), call.word(2)];
    let mut buffer = [user_memory::slice_mut(asked[0], asked[1].min(COUNT_LIMIT))];
    pin.with_offset(|file| {
        check_read(file, asked, file.offset_to_check(asked[1]))?;
        Ok(client.read(file, &mut buffer)? as isize)
    })
}

pub fn write(call: &Call) -> Answer {
    let pin = call.pin(0)?;
    let client = process::client()?;
    let asked = [call.word(1), call.word(2)];
    let buffer = [user_memory::slice(asked[0], asked[1].min(COUNT_LIMIT))];
    pin.with_offset(|file| {
        check_write(file, asked, file.offset_to_check(asked[1]))?;
        Ok(client.write(file, &buffer)? as isize)
    })
}

pub fn pread(call: &Call) -> Answer {
    let pin = call.pin(0)?;
    let position = position(call)?;
    let file = pin.file()?;
    check_read(file, [call.word(1), call.word(2)], position)?;
    let mut buffer = [user_memory::slice_mut(call.word(1), call.word(2).min(COUNT_LIMIT))];
    Ok(process::client()?.pread(file, &mut buffer, position as i64)? as isize)
}

pub fn pwrite(call: &Call) -> Answer {
    let pin = call.pin(0)?;
    let position = position(call)?;
    let file = pin.file()?;
    check_write(file, [call.word(1), call.word(2)], position)?;
    let buffer = [user_memory::slice(call.word(1), call.word(2).min(COUNT_LIMIT))];
    Ok(process::client()?.pwrite(file, &buffer, position as i64)? as isize)
}

/// The parts of an I/O vector, as pairs of address and length, which are at most [`COUNT_LIMIT`] together.
pub fn vector(call: &Call) -> Result<Vec<[usize; 2]>, Failure> {
    // The kernel takes the lower half for the number.
    let count = call.word(2) as u32 as usize;
    if count > VECTOR_LIMIT {
        return Err(Failure::Errno(libc::EINVAL));
    }
    let mut parts = Vec::with_capacity(count);
    for index in 0..count {
        let part: [usize; 2] = user_memory::read(call.word(1).wrapping_add(index * 16))?;
        if part[1] > isize::MAX as usize {
            return Err(Failure::Errno(libc::EINVAL));
        }
        parts.push(part);
    }
    let (mut total, is_one) = (0, count == 1);
    for [address, length] in &mut parts {
        let moved = (*length).min(COUNT_LIMIT - total);
        // A single part is cut off before the kernel looks where it ends.
        if !user_memory::is_in_reach(*address, if is_one { moved } else { *length }) {
            return Err(Failure::Errno(libc::EFAULT));
        }
        *length = moved;
        total += moved;
    }
    Ok(parts)
}

/// Where a vectored call begins; `None` for the descriptor's own offset.
fn vector_position(call: &Call, plain: i64, second: i64) -> Result<Option<u64>, Failure> {
    match call.number as i64 {
        number if number == plain => Ok(None),
        number if number == second && call.word(3) as i64 == -1 => Ok(None),
        _ => position(call).map(Some),
    }
}

/// Whether the flags of a vectored call say that it appends.
fn vector_appends(call: &Call, second: i64) -> Result<Option<bool>, Failure> {
    let flags = if call.number as i64 == second { call.int(5) } else { 0 };
    if flags & !(HARMLESS_FLAGS | libc::RWF_APPEND | RWF_NOAPPEND) != 0 {
        return Err(Failure::Errno(libc::EOPNOTSUPP));
    }
    match (flags & libc::RWF_APPEND != 0, flags & RWF_NOAPPEND != 0) {
        (true, true) => Err(Failure::Errno(libc::EINVAL)),
        (false, false) => Ok(None),
        (appends, _) => Ok(Some(appends)),
    }
}

pub fn read_vector(call: &Call) -> Answer {
    let pin = call.pin(0)?;
    let client = process::client()?;
    let position = vector_position(call, libc::SYS_readv, libc::SYS_preadv2)?;
    pin.file()?.check_readable()?;
    let parts = vector(call)?;
    let bytes: usize = parts.iter().map(|[_, length]| length).sum();
    if bytes == 0 {
        return Ok(0);
    }
    let flags = if call.number as i64 == libc::SYS_preadv2 { call.int(5) } else { 0 };
    if flags & !libc::RWF_HIPRI != 0 && pin.file()?.kind() == FileKind::Directory {
        return Err(Failure::Errno(libc::EOPNOTSUPP));
    }
    let mut buffers: Vec<_> =
        parts.iter().map(|[address, length]| user_memory::slice_mut(*address, *length)).collect();
    let check = |position: u64| {
        check_position(bytes, position)?;
        vector_appends(call, libc::SYS_preadv2)
    };
    match position {
        Some(position) => {
            check(position)?;
            Ok(client.pread(pin.file()?, &mut buffers, position as i64)? as isize)
        }
        None => pin.with_offset(|file| {
            check(file.offset_to_check(bytes))?;
            Ok(client.read(file, &mut buffers)? as isize)
        }),
    }
}

pub fn write_vector(call: &Call) -> Answer {
    let pin = call.pin(0)?;
    let client = process::client()?;
    let position = vector_position(call, libc::SYS_writev, libc::SYS_pwritev2)?;
    pin.file()?.check_writable()?;
    let parts = vector(call)?;
    let bytes: usize = parts.iter().map(|[_, length]| length).sum();
    if bytes == 0 {
        return Ok(0);
    }
    let buffers: Vec<_> =
        parts.iter().map(|[address, length]| user_memory::slice(*address, *length)).collect();
    let write = |file: &OpenFile, from: u64| {
        check_position(bytes, from)?;
        let appends = vector_appends(call, libc::SYS_pwritev2)?.unwrap_or_else(|| file.appends());
        let position = position.map(|position| position as i64);
        Ok(client.write_appending(file, &buffers, position, appends)? as isize)
    };
    let written = match position {
        Some(from) => write(pin.file()?, from),
        None => pin.with_offset(|file| write(file, file.offset_to_check(bytes))),
    }?;
    if call.number as i64 == libc::SYS_pwritev2 && call.int(5) & DURABLE_FLAGS != 0 {
        client.fsync(pin.file()?)?;
    }
    Ok(written)
}

pub fn seek(call: &Call) -> Answer {
    let pin = call.pin(0)?;
    pin.file()?.check_not_path()?;
    let whence = match call.int(2) {
        libc::SEEK_SET => Whence::Set,
        libc::SEEK_CUR => Whence::Current,
        libc::SEEK_END => Whence::End,
        libc::SEEK_DATA => Whence::Data,
        libc::SEEK_HOLE => Whence::Hole,
        _ => return Err(Failure::Errno(libc::EINVAL)),
    };
    let client = process::client()?;
    pin.with_offset(|file| Ok(client.seek(file, call.word(1) as i64, whence)? as isize))
}

pub fn sync_file(call: &Call) -> Answer {
    let pin = call.pin(0)?;
    process::client()?.fsync(pin.file()?)?;
    Ok(0)
}

pub fn sync_store(call: &Call) -> Answer {
    let pin = call.pin(0)?;
    process::client()?.sync_everything(pin.file()?)?;
    Ok(0)
}

/// Ours; with the kernel's sync, which follows, everybody else's.
pub fn sync_all() -> Answer {
    if let Some(client) = process::attached() {
        client.sync()?;
    }
    Err(Failure::NotOurs)
}

pub fn truncate_open(call: &Call) -> Answer {
    let pin = call.pin(0)?;
    let size = call.word(1) as i64;
    if size < 0 {
        // Whatever the descriptor is.
        return Err(Failure::Errno(libc::EINVAL));
    }
    process::client()?.truncate_open(pin.file()?, size)?;
    Ok(0)
}

pub fn allocate(call: &Call) -> Answer {
    const KEEP_PUNCHED: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    const KEEP_ZEROED: i32 = libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE;
    const UNSHARE: i32 = libc::FALLOC_FL_UNSHARE_RANGE;
    const WRITE_ZEROES: i32 = 0x80;
    const KEEP_UNSHARED: i32 = libc::FALLOC_FL_UNSHARE_RANGE | libc::FALLOC_FL_KEEP_SIZE;
    let pin = call.pin(0)?;
    let file = pin.file()?;
    file.check_not_path()?;
    let (offset, length) = (call.word(2) as i64, call.word(3) as i64);
    let what = match call.int(1) {
        0 => Allocation::Extend,
        libc::FALLOC_FL_KEEP_SIZE => Allocation::KeepSize,
        // No space is set aside, so that to punch a hole and to zero what the file has are the same.
        KEEP_PUNCHED | KEEP_ZEROED => Allocation::Punch,
        libc::FALLOC_FL_ZERO_RANGE => Allocation::Zero,
        libc::FALLOC_FL_COLLAPSE_RANGE => Allocation::Collapse,
        libc::FALLOC_FL_INSERT_RANGE => Allocation::Insert,
        _ if offset < 0 || length <= 0 => return Err(Failure::Errno(libc::EINVAL)),
        // These the kernel has for file systems that can do them, once it has looked at the file.
        UNSHARE | KEEP_UNSHARED | WRITE_ZEROES => {
            file.check_writable()?;
            return Err(Failure::Errno(libc::EOPNOTSUPP));
        }
        _ => return Err(Failure::Errno(libc::EOPNOTSUPP)),
    };
    process::client()?.allocate(file, what, offset, length)?;
    Ok(0)
}

/// Advice about access is not needed.
pub fn advise(call: &Call) -> Answer {
    let pin = call.pin(0)?;
    pin.file()?.check_not_path()?;
    let is_known = (0..=libc::POSIX_FADV_NOREUSE).contains(&call.int(3));
    if !is_known || (call.word(2) as i64) < 0 { Err(Failure::Errno(libc::EINVAL)) } else { Ok(0) }
}

/// Nor is reading ahead.
pub fn read_ahead(call: &Call) -> Answer {
    let pin = call.pin(0)?;
    let file = pin.file()?;
    file.check_readable()?;
    let is_length = call.word(2) as isize >= 0;
    if is_length && file.kind() == FileKind::File { Ok(0) } else { Err(Failure::Errno(libc::EINVAL)) }
}

pub fn sync_range(call: &Call) -> Answer {
    let pin = call.pin(0)?;
    pin.file()?.check_not_path()?;
    let (offset, length) = (call.word(1) as i64, call.word(2) as i64);
    let is_range = offset >= 0 && offset.checked_add(length).is_some_and(|end| end >= offset);
    if !is_range || call.word(3) as u32 & !SYNC_RANGE_FLAGS != 0 {
        return Err(Failure::Errno(libc::EINVAL));
    }
    process::client()?.fsync(pin.file()?)?;
    Ok(0)
}
