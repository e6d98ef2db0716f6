//! Mapping a file of ours: a private mapping is one of a memory file that has the content. So what the program does to it
//! later (giving pages back, growing it, touching what lies behind the end) does what it does to a mapping of the file.
//! A shared one is of the file that the kernel has in its place while it is mapped so ([`crate::store::Client::map_shared`]).
//!
//! Code that is mapped, of whatever file, is patched before it can run.

use crate::call::{Answer, Call, Failure};
use crate::descriptors::kernel;
use crate::store::OpenFile;
use crate::users::store_user::StoreUser;
use crate::{patch, process};
use cuesta_format::{FILE_BYTES_MAX, FileKind};
use cuesta_libfs::Error;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{MemfdFlags, memfd_create};

const PAGE_BYTES: usize = 4096;
/// Bytes copied at a time. Touching the buffer costs more than copying, so it is no larger than pays.
const BUFFER_BYTES: usize = 64 << 10;

pub fn map(call: &Call) -> Answer {
    let [address, length, protection, flags, _, offset] = call.arguments;
    if flags as i32 & libc::MAP_ANONYMOUS != 0 {
        return Err(Failure::NotOurs);
    }
    let pin = match call.pin(4) {
        Err(Failure::NotOurs) => return map_code(call),
        pin => pin?,
    };
    if offset % PAGE_BYTES != 0 {
        return Err(Failure::Errno(libc::EINVAL));
    }
    let file = pin.file()?;
    file.check_not_path()?;
    let kind = flags as i32 & libc::MAP_TYPE;
    let is_shared = matches!(kind, libc::MAP_SHARED | libc::MAP_SHARED_VALIDATE);
    if length == 0 {
        return Err(Failure::Errno(libc::EINVAL));
    }
    let last = (FILE_BYTES_MAX as usize).checked_sub(length).ok_or(Failure::Errno(libc::ENOMEM))?;
    if file.kind() == FileKind::File && offset > last {
        return Err(Failure::Errno(libc::EOVERFLOW));
    }
    if kind != libc::MAP_PRIVATE && !is_shared {
        return Err(Failure::Errno(libc::EINVAL));
    }
    let access = file.flags() & libc::O_ACCMODE;
    let writes = is_shared && protection as i32 & libc::PROT_WRITE != 0;
    if access == libc::O_WRONLY || writes && access != libc::O_RDWR {
        return Err(Failure::Errno(libc::EACCES));
    }
    if file.kind() != FileKind::File {
        return Err(Failure::Errno(libc::ENODEV));
    }
    if is_shared {
        let client = process::client()?;
        let _as_store_user = StoreUser::become_again();
        let shared = match client.map_shared(file, access == libc::O_RDWR) {
            Err(Error::Unsupported) => return call.unserved(libc::ENODEV),
            shared => shared?,
        };
        return Ok(call.kernel([address, length, protection, flags, shared.as_raw_fd() as usize, offset]));
    }
    let copy = copy(file, length, offset)?;
    let start = call.kernel([address, length, protection, flags, copy.as_raw_fd() as usize, offset]);
    if start > 0 && is_private_code(protection, flags) {
        let read = |at, bytes: &mut [u8]| read_exactly(file, at, bytes);
        // Code that is no library's stays as it is.
        let _ = patch::patch_mapped(&read, start as usize, length, offset as u64);
    }
    Ok(start)
}

fn is_private_code(protection: usize, flags: usize) -> bool {
    const CODE: i32 = libc::PROT_READ | libc::PROT_EXEC;
    protection as i32 & CODE == CODE && flags as i32 & libc::MAP_TYPE == libc::MAP_PRIVATE
}

/// A mapping of the kernel's: if it is a library's code, its system calls are ours to see.
fn map_code(call: &Call) -> Answer {
    let [_, length, protection, flags, fd, offset] = call.arguments;
    if !is_private_code(protection, flags) || length == 0 {
        return Err(Failure::NotOurs);
    }
    let start = call.kernel(call.arguments);
    if start > 0 {
        let file = kernel::borrow(fd as i32);
        let read = |at, bytes: &mut [u8]| read_kernels(file, at, bytes);
        // Code that is no library's stays as it is.
        let _ = patch::patch_mapped(&read, start as usize, length, offset as u64);
    }
    Ok(start)
}

/// Fills `bytes` from the kernel's file, which must have them.
pub fn read_kernels(file: impl AsFd, at: u64, bytes: &mut [u8]) -> Option<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        match rustix::io::pread(&file, &mut bytes[filled..], at + filled as u64) {
            Ok(0) | Err(_) => return None,
            Ok(count) => filled += count,
        }
    }
    Some(())
}

/// Fills `bytes` from our file, which must have them.
pub fn read_exactly(file: &OpenFile, at: u64, bytes: &mut [u8]) -> Option<()> {
    let client = process::client().ok()?;
    let mut filled = 0;
    while filled < bytes.len() {
        match client.pread(file, &mut [(&mut bytes[filled..]).into()], (at + filled as u64) as i64) {
            Ok(0) | Err(_) => return None,
            Ok(count) => filled += count,
        }
    }
    Some(())
}

/// A memory file that has of the file what a mapping of `length` bytes from `offset` shows, at the same offsets; what lies
/// behind the file's end lies behind its end, too.
fn copy(file: &OpenFile, length: usize, offset: usize) -> Result<OwnedFd, Failure> {
    let copy = memfd_create(c"cuesta-mapping", MemfdFlags::CLOEXEC)?;
    let client = process::client()?;
    let size = client.stat_open(file)?.record.size;
    let end = offset.checked_add(length).and_then(|end| end.checked_next_multiple_of(PAGE_BYTES));
    let end = (end.ok_or(Failure::Errno(libc::EOVERFLOW))? as u64).min(size);
    rustix::fs::ftruncate(&copy, end)?;
    let mut at = offset as u64;
    let mut buffer = vec![0; BUFFER_BYTES.min(end.saturating_sub(at) as usize)];
    while at < end {
        let wanted = buffer.len().min((end - at) as usize);
        let count = client.pread(file, &mut [(&mut buffer[..wanted]).into()], at as i64)?;
        if count == 0 {
            // It has become shorter meanwhile.
            rustix::fs::ftruncate(&copy, at)?;
            break;
        }
        let mut rest = &buffer[..count];
        // Holes stay holes.
        if rest.iter().all(|byte| *byte == 0) {
            at += count as u64;
            continue;
        }
        while !rest.is_empty() {
            let written = rustix::io::pwrite(&copy, rest, at)?;
            rest = &rest[written..];
            at += written as u64;
        }
    }
    Ok(copy)
}
