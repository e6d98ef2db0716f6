//! Devices of bytes: persistent memory that is mapped as a whole (`/dev/dax0.0`), with no file system and no calls that read or write.

use crate::error::MediaError;
use rustix::fd::BorrowedFd;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

/// How long the device `file` is, in bytes.
pub fn device_bytes(file: BorrowedFd<'_>) -> Result<u64, MediaError> {
    let stat = rustix::fs::fstat(file).map_err(MediaError::system("examine file"))?;
    len(stat.st_rdev)
}

/// Whether a file is a device of bytes.
pub(crate) fn is_of_bytes(file: BorrowedFd<'_>) -> Result<bool, MediaError> {
    let stat = rustix::fs::fstat(file).map_err(MediaError::system("examine file"))?;
    Ok(FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice)
}

/// How long such a device is, in bytes.
pub(crate) fn len(device: u64) -> Result<u64, MediaError> {
    told(device, "size")
}

/// What mappings of the device `file` begin and end at multiples of, in bytes.
pub fn alignment_of_device(file: BorrowedFd<'_>) -> Result<u64, MediaError> {
    let stat = rustix::fs::fstat(file).map_err(MediaError::system("examine file"))?;
    told(stat.st_rdev, "align")
}

/// A figure of a device, as the kernel tells it.
fn told(device: u64, what: &str) -> Result<u64, MediaError> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let examined = MediaError::system("examine device");
    let path = format!("/sys/dev/char/{major}:{minor}/{what}");
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(&examined)?;
    let mut digits = [0; 24];
    let length = rustix::io::read(&file, &mut digits).map_err(&examined)?;
    let text = std::str::from_utf8(&digits[..length]).ok();
    text.and_then(|text| text.trim().parse().ok()).ok_or_else(|| examined(Errno::NODEV))
}
