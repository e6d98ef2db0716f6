//! The newest epoch on the disk, at rest ([`cuesta_format::epochs`]).

use crate::Error;
use cuesta_format::epochs::{EPOCHS_BYTES, RECORD_BYTES, RECORDS, decode, encode, record_offset};
use cuesta_format::geometry::EPOCHS_FILE;
use cuesta_format::{Epoch, StoreId};
use cuesta_media::{create_written, lengthen, recorder};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

/// The record that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recorded {
    /// The store never went by epochs.
    Never,
    /// This epoch and all before are on the disk.
    Epoch(Epoch),
    /// Both records are damaged.
    Damaged,
}

/// The file of records.
#[derive(Debug)]
pub(super) struct EpochFile {
    path: PathBuf,
    store: StoreId,
    file: Option<OwnedFd>,
}

fn failed(errno: Errno) -> Error {
    Error::errno("write down which epoch is on the disk")(errno)
}

impl EpochFile {
    pub(super) fn of(tier: &Path, store: StoreId) -> EpochFile {
        EpochFile { path: tier.join(EPOCHS_FILE), store, file: None }
    }

    pub(super) fn read(&self) -> Result<Recorded, Error> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = match rustix::fs::open(&self.path, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(Recorded::Never),
            opened => opened.map_err(Error::errno("open what says which epoch is on the disk"))?,
        };
        let mut newest = None;
        for number in 0..RECORDS {
            let (mut bytes, offset) = ([0; RECORD_BYTES], record_offset(Epoch(number)));
            let got = rustix::io::pread(&file, &mut bytes, offset).unwrap_or(0);
            recorder::record_file_read(&file, offset, got);
            newest = newest.max(decode(&bytes, self.store).filter(|_| got == RECORD_BYTES));
        }
        Ok(newest.map_or(Recorded::Damaged, Recorded::Epoch))
    }

    /// The disk has the record when this returns.
    pub(super) fn write(&mut self, epoch: Epoch) -> Result<(), Error> {
        let (bytes, offset) = (encode(self.store, epoch), record_offset(epoch));
        let file = self.provide()?;
        recorder::record_file_write(file.as_fd(), offset, &bytes);
        match rustix::io::pwrite(file, &bytes, offset) {
            Ok(RECORD_BYTES) => {}
            Ok(_) => return Err(failed(Errno::IO)),
            Err(errno) => return Err(failed(errno)),
        }
        rustix::fs::fdatasync(file).map_err(failed)?;
        recorder::record_file_sync(file.as_fd());
        Ok(())
    }

    fn provide(&mut self) -> Result<&OwnedFd, Error> {
        if self.file.is_none() {
            let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = match rustix::fs::open(&self.path, flags, Mode::empty()) {
                Err(Errno::NOENT) => create_written(&self.path, EPOCHS_BYTES)?,
                opened => {
                    let file = opened.map_err(failed)?;
                    lengthen(&file, EPOCHS_BYTES)?;
                    file
                }
            };
            self.file = Some(file);
        }
        self.file.as_ref().ok_or_else(|| failed(Errno::NOENT))
    }
}
