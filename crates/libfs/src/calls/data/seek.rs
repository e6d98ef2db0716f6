//! Moving an open file's offset, and finding data and holes.

use crate::client::client::Client;
use crate::errno::Error;
use crate::open_files::open_file::OpenFile;
use cuesta_format::FileKind;

/// Where `lseek` counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Whence {
    /// The start.
    Set,
    /// The present offset.
    Current,
    /// The end of the file.
    End,
    /// The next data from an offset on.
    Data,
    /// The next hole from an offset on.
    Hole,
}

impl Client {
    /// Moves the file's offset.
    pub fn seek(&self, file: &OpenFile, offset: i64, whence: Whence) -> Result<u64, Error> {
        file.check_not_path()?;
        let mut present = file.offset.lock();
        let target = match whence {
            Whence::Set => u64::try_from(offset).map_err(|_| Error::Invalid)?,
            Whence::Current => offset_from(*present, offset)?,
            Whence::End => offset_from(self.end_of(file)?, offset)?,
            Whence::Data | Whence::Hole => self.find_boundary(file, offset, whence == Whence::Data)?,
        };
        *present = target;
        if target == 0 && file.kind() == FileKind::Directory {
            *file.listing.lock() = None;
        }
        Ok(target)
    }

    fn end_of(&self, file: &OpenFile) -> Result<u64, Error> {
        Ok(self.stat_open(file)?.record.size)
    }

    /// The first offset from `offset` on with data, or in a hole. The file's own offset stays.
    pub fn find_boundary(&self, file: &OpenFile, offset: i64, data: bool) -> Result<u64, Error> {
        let offset = u64::try_from(offset).map_err(|_| Error::NoData)?;
        let inode = file.inode_ref();
        self.operate(|_attempt| {
            loop {
                let state = self.reading(inode)?;
                let size = state.record.size;
                if let Some(mapped) = state.mapped() {
                    return Ok(self.find_mapped(mapped, offset, data)?);
                }
                let Some(content) = state.file() else {
                    // A directory's positions have no end, as on ext4.
                    let is_directory = state.record.kind() == FileKind::Directory;
                    let found = if data { offset } else { i64::MAX as u64 };
                    return if is_directory { Ok(found) } else { Err(Error::Invalid.into()) };
                };
                if offset >= size {
                    return Err(Error::NoData.into());
                }
                let found = content.boundary(offset, size, data);
                drop(state);
                match found {
                    Ok(found) => return Ok(found.ok_or(Error::NoData)?),
                    Err(()) => self.fetch_extents(inode)?,
                }
            }
        })
    }
}

fn offset_from(start: u64, offset: i64) -> Result<u64, Error> {
    let target = start.checked_add_signed(offset).filter(|target| i64::try_from(*target).is_ok());
    target.ok_or(Error::Invalid)
}
