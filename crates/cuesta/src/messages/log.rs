//! Messages of a process in the background go to the store's log, which is put aside when it is long.
//!
//! The daemon and the mount's process write to the same file, each as its standard error. The one that finds it long puts it
//! aside, and the other one follows. So both logs together take twice [`BYTES_MAX`], and a line more for each process.

use crate::messages::failure::{Failure, WRONG_USAGE};
use crate::stores::store::LOG_FILE;
use rustix::fs::{FileType, Gid, Mode, OFlags, Uid, fchown, fstat, openat};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::fs::File;
use std::io::{IsTerminal as _, Write};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use tracing::level_filters::LevelFilter;

/// A longer log is put aside.
const BYTES_MAX: u64 = 8 << 20;
/// The variable that says how much is told.
const LEVEL_VARIABLE: &str = "CUESTA_LOG";

/// Tells what happens on standard error, which may be the log of the store in `folder`. A level that does not exist is refused, or
/// in the background told and passed over, so that the store is served.
pub fn prepare(folder: &Path, in_background: bool) -> Result<(), Failure> {
    let asked = std::env::var_os(LEVEL_VARIABLE).filter(|text| !text.is_empty());
    let level = asked.as_ref().and_then(|text| text.to_str()?.parse().ok());
    let unknown = asked.filter(|_| level.is_none()).map(|text| {
        format!(
            "{LEVEL_VARIABLE}={}: there is no such level (error, warn, info, debug, trace, off)",
            text.display()
        )
    });
    if let Some(unknown) = &unknown
        && !in_background
    {
        return Err(Failure::new(unknown).exiting(WRONG_USAGE));
    }
    tracing_subscriber::fmt()
        .with_max_level(level.unwrap_or(LevelFilter::INFO))
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .with_writer(Mutex::new(Log { path: folder.join(LOG_FILE), bytes_max: BYTES_MAX }))
        // Where the log cannot be written, no message can say so, and the daemon goes on without.
        .log_internal_errors(false)
        .init();
    if let Some(unknown) = unknown {
        tracing::warn!("{unknown}; info is used");
    }
    Ok(())
}

/// The log at `path`, which the next process in the background writes to. Root opens it also in a store of another user. That user may
/// have put a link or another file in its place: it is looked at by its descriptor before anything is written.
pub fn open(path: &Path) -> std::io::Result<File> {
    if path.symlink_metadata().is_ok_and(|log| log.is_file() && log.len() > BYTES_MAX) {
        std::fs::rename(path, aside(path))?;
    }
    let folder = File::open(path.parent().unwrap_or(Path::new(".")))?;
    let name = path.file_name().unwrap_or_default();
    let owner = fstat(&folder)?;
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let open = |more| openat(&folder, name, flags | more, Mode::RUSR | Mode::WUSR);
    let file = match open(OFlags::CREATE | OFlags::EXCL) {
        Ok(file) => {
            if geteuid().is_root() && owner.st_uid != 0 {
                fchown(&file, Some(Uid::from_raw(owner.st_uid)), Some(Gid::from_raw(owner.st_gid)))?;
            }
            file
        }
        Err(Errno::EXIST) => open(OFlags::empty())?,
        Err(errno) => return Err(errno.into()),
    };
    let found = fstat(&file)?;
    let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
    if !is_file || found.st_nlink != 1 || found.st_uid != owner.st_uid {
        let why = format!("{} is not the log of the store's user: remove it", path.display());
        return Err(std::io::Error::other(why));
    }
    Ok(File::from(file))
}

fn aside(path: &Path) -> PathBuf {
    path.with_extension("log.old")
}

/// Standard error, as long as it is the file at `path`.
struct Log {
    path: PathBuf,
    bytes_max: u64,
}

impl Log {
    /// Goes on with a log that is not long. What fails leaves the one there is.
    fn turn_over(&self) -> std::io::Result<()> {
        let error = std::io::stderr();
        let ours = File::from(error.as_fd().try_clone_to_owned()?).metadata()?;
        if ours.len() <= self.bytes_max || !ours.is_file() {
            return Ok(());
        }
        let there = self.path.symlink_metadata()?;
        let is = |other: &std::fs::Metadata| (other.dev(), other.ino()) == (ours.dev(), ours.ino());
        let is_at = |path: &Path| path.symlink_metadata().is_ok_and(|found| is(&found));
        if is(&there) {
            std::fs::rename(&self.path, aside(&self.path))?;
        } else if !is_at(&aside(&self.path)) {
            // It is another file, which a service manager, perhaps, keeps short.
            return Ok(());
        }
        let next = open(&self.path)?;
        for number in [libc::STDOUT_FILENO, libc::STDERR_FILENO] {
            // SAFETY: both are the log that was put aside, or the one this process started with. No other value owns them.
            if unsafe { libc::dup2(next.as_raw_fd(), number) } < 0 {
                return Err(std::io::Error::last_os_error());
            }
        }
        Ok(())
    }
}

impl Write for Log {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let _ = self.turn_over();
        std::io::stderr().write(line)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
