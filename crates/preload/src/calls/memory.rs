//! Mapping a file of ours: a private mapping is anonymous memory filled with the content.

use super::{Answer, Call, Failure};
use crate::{process, user_memory};

const PAGE_BYTES: usize = 4096;

pub fn map(call: &Call) -> Answer {
    let [address, length, protection, flags, _, offset] = call.arguments;
    if flags as i32 & libc::MAP_ANONYMOUS != 0 {
        return Err(Failure::NotOurs);
    }
    let pin = call.pin(4)?;
    if flags as i32 & libc::MAP_TYPE != libc::MAP_PRIVATE {
        return call.unserved(libc::ENODEV);
    }
    if length == 0 || offset % PAGE_BYTES != 0 {
        return Err(Failure::Errno(libc::EINVAL));
    }
    let file = pin.file()?;
    if file.flags() & libc::O_ACCMODE == libc::O_WRONLY {
        return Err(Failure::Errno(libc::EACCES));
    }
    let writable = protection | (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let anonymous = flags | libc::MAP_ANONYMOUS as usize;
    let start = call.kernel([address, length, writable, anonymous, usize::MAX, 0]);
    if start < 0 {
        return Ok(start);
    }
    match fill(file, start as usize, length, offset) {
        Ok(()) => {
            if writable != protection {
                protect(start as usize, length, protection);
            }
            Ok(start)
        }
        Err(failure) => {
            // SAFETY: the mapping just made, which nobody knows yet.
            unsafe { crate::arch::syscall(libc::SYS_munmap as usize, [start as usize, length, 0, 0, 0, 0]) };
            Err(failure)
        }
    }
}

fn fill(file: &cuesta_libfs::OpenFile, start: usize, length: usize, offset: usize) -> Result<(), Failure> {
    let client = process::client()?;
    let mut filled = 0;
    while filled < length {
        let mut rest = [user_memory::slice_mut(start + filled, length - filled)];
        match client.pread(file, &mut rest, (offset + filled) as i64)? {
            0 => break,
            count => filled += count,
        }
    }
    Ok(())
}

fn protect(start: usize, length: usize, protection: usize) {
    // SAFETY: narrows the protection of the mapping just made to what the application asked for.
    unsafe { crate::arch::syscall(libc::SYS_mprotect as usize, [start, length, protection, 0, 0, 0]) };
}
