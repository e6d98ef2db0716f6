//! Mapping a file of ours: a private mapping is anonymous memory filled with the content.
//!
//! Code that is mapped, of whatever file, is patched before it can run.

use cuesta_format::FileKind;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd};
use rustix::fs::{MemfdFlags, memfd_create};

use super::{Answer, Call, Failure};
use crate::{patch, process, user_memory};

const PAGE_BYTES: usize = 4096;

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
    if length == 0 || kind != libc::MAP_PRIVATE && !is_shared {
        return Err(Failure::Errno(libc::EINVAL));
    }
    if is_shared {
        return call.unserved(libc::ENODEV);
    }
    if file.flags() & libc::O_ACCMODE == libc::O_WRONLY {
        return Err(Failure::Errno(libc::EACCES));
    }
    if file.kind() != FileKind::File {
        return Err(Failure::Errno(libc::ENODEV));
    }
    let writable = protection | (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let anonymous = flags | libc::MAP_ANONYMOUS as usize;
    let start = call.kernel([address, length, writable, anonymous, usize::MAX, 0]);
    if start < 0 {
        return Ok(start);
    }
    match fill(file, start as usize, length, offset) {
        Ok(filled) => {
            if is_private_code(protection, flags) {
                let read = |at, bytes: &mut [u8]| read_exactly(file, at, bytes);
                // Code that is no library's stays as it is.
                let _ = patch::patch_mapped(&read, start as usize, length, offset as u64);
            }
            if writable != protection {
                protect(start as usize, length, protection);
            }
            end_behind(call, start as usize, length, filled.next_multiple_of(PAGE_BYTES));
            Ok(start)
        }
        Err(failure) => {
            // SAFETY: the mapping just made, which nobody knows yet.
            unsafe { crate::arch::syscall(libc::SYS_munmap as usize, [start as usize, length, 0, 0, 0, 0]) };
            Err(failure)
        }
    }
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
        // SAFETY: used during this call; a descriptor closed meanwhile answers EBADF.
        let file = unsafe { BorrowedFd::borrow_raw(fd as i32) };
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
pub fn read_exactly(file: &cuesta_libfs::OpenFile, at: u64, bytes: &mut [u8]) -> Option<()> {
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

/// Fills the mapping, and answers how much of it the file has.
fn fill(file: &cuesta_libfs::OpenFile, start: usize, length: usize, offset: usize) -> Result<usize, Failure> {
    let client = process::client()?;
    let mut filled = 0;
    while filled < length {
        let mut rest = [user_memory::slice_mut(start + filled, length - filled)];
        match client.pread(file, &mut rest, (offset + filled) as i64)? {
            0 => break,
            count => filled += count,
        }
    }
    Ok(filled)
}

/// Pages behind the file's last have nothing to show: there, the mapping is one of an empty file, so that to touch them
/// is SIGBUS. Where that cannot be made, they stay zeros.
fn end_behind(call: &Call, start: usize, length: usize, kept: usize) {
    let empty = (kept < length).then(|| memfd_create(c"end of file", MemfdFlags::CLOEXEC));
    if let Some(Ok(empty)) = empty {
        let [_, _, protection, flags, ..] = call.arguments;
        let flags = flags & !(libc::MAP_FIXED_NOREPLACE as usize) | libc::MAP_FIXED as usize;
        call.kernel([start + kept, length - kept, protection, flags, empty.as_raw_fd() as usize, 0]);
    }
}

fn protect(start: usize, length: usize, protection: usize) {
    // SAFETY: narrows the protection of the mapping just made to what the application asked for.
    unsafe { crate::arch::syscall(libc::SYS_mprotect as usize, [start, length, protection, 0, 0, 0]) };
}
