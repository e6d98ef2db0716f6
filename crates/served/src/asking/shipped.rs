//! The asking end of shipped operations: a session sends them, because several sessions change the same file or directory
//! ([`cuesta_libfs::Shipper`]).

use super::client::Client;
use super::line::unexpected;
use crate::protocol::messages::{PathBase, READ_BYTES_MAX, Request, Response};
use cuesta_format::{InodeNumber, InodeRecord};
use cuesta_libfs::{Asker, CallByNumber, Error, NewMode, ShippedChange, ShippedFile};
use cuesta_media::{UserSlice, UserSliceMut};

impl Client {
    /// Reads a file that SharedFS keeps, at an offset.
    pub fn ship_read(
        &self,
        file: &ShippedFile,
        out: &mut [UserSliceMut<'_>],
        at: u64,
    ) -> Result<usize, Error> {
        let wanted: usize = out.iter().map(UserSliceMut::len).sum();
        let mut done = 0;
        loop {
            let count = (wanted - done).min(READ_BYTES_MAX) as u32;
            let request = Request::ShippedRead { file: *file, at: at.saturating_add(done as u64), count };
            let read = match self.content(&request, |content| (content.len(), content.scatter(out, done))) {
                Err(_) if done > 0 => return Ok(done),
                Err(error) => return Err(error),
                Ok((read, Ok(()))) => read,
                Ok((_, Err(copied))) if done + copied > 0 => return Ok(done + copied),
                Ok((_, Err(_))) => return Err(Error::Fault),
            };
            done += read;
            if read < count as usize || done >= wanted {
                return Ok(done);
            }
        }
    }

    /// Writes to a file that SharedFS keeps, at an offset or at its end. Answers how much, and the offset behind it.
    pub fn ship_write(
        &self,
        file: &ShippedFile,
        data: &[UserSlice<'_>],
        at: Option<u64>,
    ) -> Result<(usize, u64), Error> {
        match self.ask_writing(data, |data| Request::ShippedWrite { file: *file, at, data })? {
            Response::Written { count, end } => Ok((count as usize, end)),
            _ => Err(unexpected()),
        }
    }

    /// Changes a file that SharedFS keeps.
    pub fn ship_change(&self, file: &ShippedFile, change: ShippedChange) -> Result<(), Error> {
        self.done(&Request::ShippedChange { file: *file, change })
    }

    /// The disk has everything that SharedFS performed when this returns.
    pub fn sync(&self) -> Result<(), Error> {
        self.done(&Request::Sync)
    }

    /// The attributes of a file that SharedFS keeps.
    pub fn ship_stat(&self, file: &ShippedFile) -> Result<InodeRecord, Error> {
        match self.ask(&Request::ShippedStat { file: *file })? {
            Response::Record(record) => Ok(record),
            _ => Err(unexpected()),
        }
    }

    /// Makes a call that names inodes by their numbers, with these credentials.
    pub fn by_number(&self, who: Asker, call: &CallByNumber<'_>) -> Result<Option<InodeRecord>, Error> {
        match self.ask(&Request::ByNumber { who, call: *call })? {
            Response::Record(record) => Ok(Some(record)),
            Response::Done => Ok(None),
            _ => Err(unexpected()),
        }
    }
}

impl Client {
    /// A number for a file that is to be made.
    pub fn number_for_file(&self) -> Result<InodeNumber, Error> {
        let kept = self.reserved.lock().pop();
        kept.map_or_else(|| self.number(&Request::Reserve).map(InodeNumber), Ok)
    }

    /// Makes a file that the process has open already, by a number for it, with the credentials of the connection or with
    /// others. [`Error::Exists`]: so does the name.
    /// [`Error::Shipped`]: the daemon does not know the number.
    pub fn make_file(
        &self,
        place: PathBase,
        path: &[u8],
        mode: NewMode,
        inode: InodeNumber,
        who: Option<Asker>,
    ) -> Result<InodeRecord, Error> {
        match self.ask(&Request::MakeFile { place, path, mode, inode, who })? {
            Response::Made { record, next } => {
                self.reserved.lock().push(next);
                Ok(record)
            }
            _ => Err(unexpected()),
        }
    }
}
