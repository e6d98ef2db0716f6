//! A store's device number, where programs of all users that the store serves find it.
//!
//! The daemon writes it beside the socket for other users; `cuesta run` reads it, and hands it to the program that it starts.

use crate::stores::store::Store;
use cuesta_format::geometry::{USERS_DEVICE_FILE, USERS_FOLDER};
use cuesta_sharedfs::trust::TrustedStore;
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat, renameat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;

const FILE_MODE: Mode = Mode::from_raw_mode(0o644);
/// Longer is no number.
const DIGITS_MAX: u64 = 24;

/// Publishes the number of the store in its folder for other users, which is there.
pub fn publish(trusted: &TrustedStore) -> std::io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = openat(trusted.folder(), USERS_FOLDER, flags, Mode::empty())?;
    let unfinished = format!("{USERS_DEVICE_FILE}.new");
    match rustix::fs::unlinkat(&folder, &unfinished, rustix::fs::AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno.into()),
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(openat(&folder, &unfinished, flags, FILE_MODE)?);
    // Whatever the mask is: all may read it.
    rustix::fs::fchmod(&file, FILE_MODE)?;
    writeln!(file, "{}", trusted.identity().device.0)?;
    Ok(renameat(&folder, &unfinished, &folder, USERS_DEVICE_FILE)?)
}

/// The number of a store, if its daemon said one.
pub fn read(store: &Store) -> Option<u64> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(CWD, store.users_folder().join(USERS_DEVICE_FILE), flags, Mode::empty()).ok()?;
    let stat = fstat(&file).ok()?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if !is_file || stat.st_uid != store.folder().metadata().ok()?.uid() {
        return None;
    }
    let mut text = String::new();
    File::from(file).take(DIGITS_MAX).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
