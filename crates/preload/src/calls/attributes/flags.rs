//! A file's flags (`lsattr`, `chattr`, project quotas), and what is known of its pages.
//!
//! Files of the store have the one flag that says how they are kept, as those of ext4 do, and no other can be set: that
//! is refused as of a flag that a file system does not know, and counted.

use crate::call::{Answer, Call, Failure};
use crate::memory::user_memory;
use crate::process;
use crate::store::OpenFile;
use crate::users::credentials;
use cuesta_format::FileKind;

/// `FS_EXTENT_FL`: the file's content is kept in extents.
const IN_EXTENTS: u32 = 0x0008_0000;
const PAGE_BYTES: u64 = 4096;
/// `struct fsxattr`, as words: flags, extent size hint, extents, project, copy-on-write hint, and room.
type FileAttributes = [u32; 7];

/// Writes the flags as `FS_IOC_GETFLAGS` has them.
pub fn get(address: usize) -> Answer {
    user_memory::write(address, &IN_EXTENTS)?;
    Ok(0)
}

/// `FS_IOC_SETFLAGS`.
pub fn set(call: &Call, file: &OpenFile) -> Answer {
    let flags: u32 = user_memory::read(call.word(2))?;
    check_owner(file)?;
    if flags & !IN_EXTENTS != 0 { call.unserved(libc::EOPNOTSUPP) } else { Ok(0) }
}

/// `FS_IOC_FSGETXATTR`.
pub fn get_extended(address: usize) -> Answer {
    user_memory::write(address, &FileAttributes::default())?;
    Ok(0)
}

/// `FS_IOC_FSSETXATTR`.
pub fn set_extended(call: &Call, file: &OpenFile) -> Answer {
    let wanted: FileAttributes = user_memory::read(call.word(2))?;
    check_owner(file)?;
    if wanted[0] != 0 || wanted[3] != 0 { call.unserved(libc::EOPNOTSUPP) } else { Ok(0) }
}

fn check_owner(file: &OpenFile) -> Result<(), Failure> {
    let record = process::client()?.stat_open(file)?.record;
    if credentials::effective().owns(&record) { Ok(()) } else { Err(Failure::Errno(libc::EPERM)) }
}

/// `cachestat`: all that the store keeps in memory is there already.
pub fn cached(call: &Call) -> Answer {
    let pin = call.pin(0)?;
    let file = pin.file()?;
    file.check_not_path()?;
    let [from, length]: [u64; 2] = user_memory::read(call.word(1))?;
    if call.int(3) != 0 {
        return Err(Failure::Errno(libc::EINVAL));
    }
    let size = match file.kind() {
        FileKind::File => process::client()?.stat_open(file)?.record.size,
        _ => 0,
    };
    let end = if length == 0 { size } else { size.min(from.saturating_add(length)) };
    let pages = end.div_ceil(PAGE_BYTES).saturating_sub(from / PAGE_BYTES);
    // In the cache; changed, being written, thrown out, thrown out lately.
    user_memory::write(call.word(2), &[pages, 0, 0, 0, 0])?;
    Ok(0)
}
