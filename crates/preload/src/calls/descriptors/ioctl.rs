//! `ioctl`: the requests that files answer on every file system, and on ext4. Where on a disk a file lies is not told, and
//! counted.

use cuesta_format::{BLOCK_BYTES, FileKind};

use cuesta_format::mount_calls::DSYNC_REQUEST;
use rustix::fd::{AsRawFd as _, OwnedFd};

use crate::call::{Answer, Call, Failure};
use crate::calls::attributes::flags;
use crate::calls::kinds::by_mount;
use crate::descriptors::{self, kernel};
use crate::memory::user_memory;
use crate::process;

const DSYNC: usize = DSYNC_REQUEST as usize;
const FICLONE: usize = 0x4004_9409;
const FICLONERANGE: usize = 0x4020_940d;
const FIDEDUPERANGE: usize = 0xc018_9436;
const FIONREAD: usize = 0x541b;
const FIONBIO: usize = 0x5421;
const FIONCLEX: usize = 0x5450;
const FIOCLEX: usize = 0x5451;
const FIOASYNC: usize = 0x5452;
const FIOQSIZE: usize = 0x5460;
const FIGETBSZ: usize = 2;
/// A loop device of a file, or of another.
const LOOP_SET_FD: usize = 0x4c00;
const LOOP_CHANGE_FD: usize = 0x4c06;
/// The same with all that is to be set; the descriptor comes first in its structure.
const LOOP_CONFIGURE: usize = 0x4c0a;
const LOOP_CONFIGURATION_WORDS: usize = 76;
const FS_IOC_FIEMAP: usize = 0xc020_660b;
const FS_IOC_GETFLAGS: usize = 0x8008_6601;
const FS_IOC_SETFLAGS: usize = 0x4008_6602;
const FS_IOC_FSGETXATTR: usize = 0x801c_581f;
const FS_IOC_FSSETXATTR: usize = 0x401c_5820;

pub fn serve(call: &Call) -> Answer {
    let pin = match call.pin(0) {
        Err(Failure::NotOurs) => return about_second(call),
        pin => pin?,
    };
    pin.file()?.check_not_path()?;
    let file = pin.file()?;
    match call.word(1) as u32 as usize {
        FICLONE => clone_from(call.int(2)),
        FICLONERANGE => {
            // struct file_clone_range begins with the descriptor.
            let [source, ..]: [i64; 4] = user_memory::read(call.word(2))?;
            clone_from(source as i32)
        }
        FIDEDUPERANGE => Err(Failure::Errno(libc::EOPNOTSUPP)),
        FIONREAD if file.kind() == FileKind::File => {
            let size = process::client()?.stat_open(file)?.record.size;
            let offset = pin.with_offset(|file| Ok(file.offset()))?;
            // As the kernel does it: what does not fit is cut off.
            user_memory::write(call.word(2), &(size.wrapping_sub(offset) as i32))?;
            Ok(0)
        }
        request @ (FIOCLEX | FIONCLEX) => {
            let flag = if request == FIOCLEX { libc::FD_CLOEXEC } else { 0 };
            let arguments = [call.word(0), libc::F_SETFD as usize, flag as usize, 0, 0, 0];
            // The kernel keeps close-on-exec on the placeholder.
            // SAFETY: changes a descriptor as the application asked.
            Ok(unsafe { crate::arch::syscall(libc::SYS_fcntl as usize, arguments) })
        }
        FIONBIO => {
            let on: i32 = user_memory::read(call.word(2))?;
            let others = file.flags() & !libc::O_NONBLOCK;
            pin.set_flags(if on == 0 { others } else { others | libc::O_NONBLOCK })?;
            Ok(0)
        }
        // No file tells when it is ready.
        FIOASYNC => match user_memory::read::<i32>(call.word(2))? {
            0 => Ok(0),
            _ => Err(Failure::Errno(libc::ENOTTY)),
        },
        FIOQSIZE => {
            let blocks = process::client()?.stat_open(file)?.record.blocks;
            user_memory::write(call.word(2), &(blocks * BLOCK_BYTES))?;
            Ok(0)
        }
        FIGETBSZ => {
            user_memory::write(call.word(2), &(BLOCK_BYTES as i32))?;
            Ok(0)
        }
        DSYNC => {
            process::client()?.dsync(file)?;
            Ok(0)
        }
        FS_IOC_FIEMAP => call.unserved(libc::EOPNOTSUPP),
        FS_IOC_GETFLAGS => flags::get(call.word(2)),
        FS_IOC_SETFLAGS => flags::set(call, file),
        FS_IOC_FSGETXATTR => flags::get_extended(call.word(2)),
        FS_IOC_FSSETXATTR => flags::set_extended(call, file),
        _ => Err(Failure::Errno(libc::ENOTTY)),
    }
}

/// Files share no blocks. The kernel looks at the other descriptor before it asks the file system.
fn clone_from(source: i32) -> Answer {
    let (is_open, if_open) = match descriptors::pin(source) {
        Some(pin) => (!pin.is_path(), libc::EOPNOTSUPP),
        None => {
            let flags = rustix::fs::fcntl_getfl(kernel::borrow(source));
            (flags.is_ok_and(|flags| !flags.contains(rustix::fs::OFlags::PATH)), libc::EXDEV)
        }
    };
    Err(Failure::Errno(if is_open { if_open } else { libc::EBADF }))
}

/// A request to a file of the kernel's about one of ours.
fn about_second(call: &Call) -> Answer {
    match call.word(1) as u32 as usize {
        FICLONE if descriptors::pin(call.int(2)).is_some() => Err(Failure::Errno(libc::EXDEV)),
        LOOP_SET_FD | LOOP_CHANGE_FD | LOOP_CONFIGURE if !is_loop_device(call.int(0)) => {
            Err(Failure::NotOurs)
        }
        LOOP_SET_FD | LOOP_CHANGE_FD => {
            let file = kernels_file(call, call.int(2))?;
            Ok(call.kernel([call.word(0), call.word(1), file.as_raw_fd() as usize, 0, 0, 0]))
        }
        LOOP_CONFIGURE => {
            let mut asked: [u32; LOOP_CONFIGURATION_WORDS] =
                user_memory::read(call.word(2)).map_err(|_| Failure::NotOurs)?;
            let file = kernels_file(call, asked[0] as i32)?;
            asked[0] = file.as_raw_fd() as u32;
            Ok(call.kernel([call.word(0), call.word(1), asked.as_ptr() as usize, 0, 0, 0]))
        }
        _ => Err(Failure::NotOurs),
    }
}

fn is_loop_device(fd: i32) -> bool {
    const MAJOR: u32 = 7;
    rustix::fs::fstat(kernel::borrow(fd)).is_ok_and(|found| {
        found.st_mode & libc::S_IFMT == libc::S_IFBLK && rustix::fs::major(found.st_rdev) == MAJOR
    })
}

/// The file that the kernel is to read and write in the place of one of the store: the mount's, where there is one.
fn kernels_file(call: &Call, fd: i32) -> Result<OwnedFd, Failure> {
    let pin = descriptors::pin(fd).ok_or(Failure::NotOurs)?;
    if pin.is_path() {
        return Err(Failure::Errno(libc::EBADF));
    }
    if pin.file()?.kind() != FileKind::File {
        return Err(Failure::Errno(libc::EINVAL));
    }
    if by_mount::is_mounted() {
        return Ok(by_mount::open_again(&pin)?);
    }
    let prefix = process::configuration()?.prefix.escape_ascii();
    let name = pin.path().escape_ascii();
    crate::process::report(format_args!(
        "{prefix}{name} cannot be the file of a loop device: the kernel reaches the store by a mount alone (mount it with \
         `cuesta mount`, and run the program again)"
    ));
    call.unserved(libc::EOPNOTSUPP)?;
    Err(Failure::Unserved(libc::EOPNOTSUPP))
}
