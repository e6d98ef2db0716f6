//! `ioctl`: the requests that files answer on every file system. What a file system may or may not have (its flags, its
//! extents) is not served, and counted.

use cuesta_format::{BLOCK_BYTES, FileKind};

use super::{Answer, Call, Failure};
use crate::{process, user_memory};

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
const FS_IOC_FIEMAP: usize = 0xc020_660b;
const FS_IOC_GETFLAGS: usize = 0x8008_6601;
const FS_IOC_SETFLAGS: usize = 0x4008_6602;
const FS_IOC_FSGETXATTR: usize = 0x801c_581f;
const FS_IOC_FSSETXATTR: usize = 0x401c_5820;

pub fn serve(call: &Call) -> Answer {
    let pin = call.pin(0)?;
    pin.file()?.check_not_path()?;
    let file = pin.file()?;
    match call.word(1) as u32 as usize {
        FICLONE | FICLONERANGE | FIDEDUPERANGE => Err(Failure::Errno(libc::EOPNOTSUPP)),
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
        FS_IOC_FIEMAP => call.unserved(libc::EOPNOTSUPP),
        FS_IOC_GETFLAGS | FS_IOC_SETFLAGS | FS_IOC_FSGETXATTR | FS_IOC_FSSETXATTR => {
            call.unserved(libc::ENOTTY)
        }
        _ => Err(Failure::Errno(libc::ENOTTY)),
    }
}
