//! The file of marks: how far each log was acknowledged, as its session said ([`cuesta_format::acknowledged`], docs/decisions/0045).
//!
//! The daemon makes it and hands it out; sessions write it; recovery and `cuesta fsck` read it. A store on memory or persistent memory
//! has none, as its entries say all.

use crate::Error;
use cuesta_format::Medium;
use cuesta_format::acknowledged::MARKS_BYTES;
use cuesta_format::geometry::ACKNOWLEDGED_FILE;
use cuesta_media::{create_written, lengthen, recorder};
use cuesta_oplog::MarkSource;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The reading end, as it was when a recovery or a check began.
#[derive(Debug, Default)]
pub struct MarksRead(Option<OwnedFd>);

impl MarkSource for MarksRead {
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let file = self.0.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let got = rustix::io::pread(file, &mut *out, offset)?;
        recorder::record_file_read(file, offset, got);
        if got == out.len() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

/// The file.
#[derive(Clone, Debug)]
pub struct MarksFile {
    path: PathBuf,
}

impl MarksFile {
    /// That of the tier.
    #[must_use]
    pub fn of(tier: &Path) -> MarksFile {
        MarksFile { path: tier.join(ACKNOWLEDGED_FILE) }
    }

    /// Makes the missing part of it: a store of an earlier version has none, and another process may have cut
    /// it. Its marks stay.
    pub fn provide(&self, medium: Medium) -> Result<(), Error> {
        if medium != Medium::Block {
            return Ok(());
        }
        match self.open(OFlags::RDWR) {
            Ok(file) => {
                if lengthen(&file, MARKS_BYTES)? {
                    tracing::warn!("the file {ACKNOWLEDGED_FILE} was cut short: it is made whole again");
                }
                Ok(())
            }
            Err(Errno::NOENT) => {
                create_written(&self.path, MARKS_BYTES)?;
                Ok(())
            }
            Err(errno) => Err(Error::errno("open what says how far logs are acknowledged")(errno)),
        }
    }

    /// To read; where it cannot be opened, nothing is said.
    #[must_use]
    pub fn read(&self) -> MarksRead {
        MarksRead(self.open(OFlags::RDONLY).ok())
    }

    /// A descriptor for a session.
    pub fn descriptor(&self) -> Result<OwnedFd, Error> {
        self.open(OFlags::RDWR).map_err(Error::errno("open what says how far logs are acknowledged"))
    }

    fn open(&self, access: OFlags) -> Result<OwnedFd, Errno> {
        rustix::fs::open(&self.path, access | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
    }
}
