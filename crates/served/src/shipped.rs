//! Operations that sessions send: on files that several of them change, and that SharedFS therefore keeps in its own session
//! ([`cuesta_libfs::Shipper`]).
//!
//! They name inodes by their numbers, which only processes of the store's own user and of root may: those have a session, whose log
//! could say the same.

use crate::client::{Client, unexpected};
use crate::connection::{Connection, InHand, permitted};
use crate::protocol::{Place, READ_BYTES_MAX, Request, Response};
use cuesta_format::{InodeNumber, InodeRecord, LogDependency};
use cuesta_libfs::{Error, NewMode, ShippedChange, ShippedFile};

/// So many numbers are reserved for one process at most: one for each of its threads that makes a file.
const NUMBERS_MAX: usize = 64;
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

    /// What a file that SharedFS keeps is like.
    pub fn ship_stat(&self, file: &ShippedFile) -> Result<InodeRecord, Error> {
        match self.ask(&Request::ShippedStat { file: *file })? {
            Response::Record(record) => Ok(record),
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

    /// Makes a file that the process has open already, by a number for it. [`Error::Exists`]: so does the name.
    /// [`Error::Shipped`]: the daemon does not know the number.
    pub fn make_file(
        &self,
        place: Place,
        path: &[u8],
        mode: NewMode,
        inode: InodeNumber,
    ) -> Result<InodeRecord, Error> {
        match self.ask(&Request::MakeFile { place, path, mode, inode })? {
            Response::Made { record, next } => {
                self.reserved.lock().push(next);
                Ok(record)
            }
            _ => Err(unexpected()),
        }
    }
}

impl Connection<'_> {
    /// The part of the session's log that an answer given now rests on, if the disk may lack some of it.
    pub(crate) fn log_end(&self) -> Option<LogDependency> {
        self.shared.client().ok()?.undurable_end()
    }

    /// A number for a file of the process.
    pub(crate) fn reserve(&self) -> Result<InodeNumber, Error> {
        self.check_trusted()?;
        let number = self.shared.client()?.reserve_number()?;
        let mut reserved = self.reserved.lock();
        if reserved.len() >= NUMBERS_MAX {
            reserved.remove(0);
        }
        reserved.push(number);
        Ok(number)
    }

    /// The number is used up, whatever comes of it.
    fn take_reserved(&self, inode: InodeNumber) -> Result<(), Error> {
        let mut reserved = self.reserved.lock();
        let known = reserved.iter().position(|number| *number == inode).ok_or(Error::Shipped(inode))?;
        reserved.swap_remove(known);
        Ok(())
    }

    pub(crate) fn make_file(
        &self,
        place: Place,
        path: &[u8],
        mode: NewMode,
        inode: InodeNumber,
    ) -> Result<Response, Error> {
        self.take_reserved(inode)?;
        let place = self.place(place)?;
        let record = place.client().make_file(self.who(), place.base()?, path, mode, inode)?;
        Ok(Response::Made { record, next: self.reserve()? })
    }

    /// Whether the process may name an inode by its number.
    pub(crate) fn check_trusted(&self) -> Result<(), Error> {
        if self.holder.is_trusted { Ok(()) } else { Err(Error::NotPermitted) }
    }

    pub(crate) fn shipped_read(
        &self,
        file: &ShippedFile,
        at: u64,
        count: u32,
        in_hand: &mut InHand,
    ) -> Result<Response, Error> {
        let mut bytes = self.room_to_read(count, in_hand)?;
        let read = self.shipped_read_into(file, at, UserSliceMut::from(&mut bytes[..]))?;
        bytes.truncate(read);
        Ok(Response::Bytes(bytes))
    }

    pub(crate) fn shipped_read_into(
        &self,
        file: &ShippedFile,
        at: u64,
        out: UserSliceMut<'_>,
    ) -> Result<usize, Error> {
        self.check_trusted()?;
        self.shared.client()?.perform_read(file, &mut [out], at)
    }

    pub(crate) fn shipped_write(
        &self,
        file: &ShippedFile,
        at: Option<u64>,
        data: &[u8],
    ) -> Result<Response, Error> {
        self.check_trusted()?;
        let (count, end) = self.shared.client()?.perform_write(file, &[UserSlice::from(data)], at)?;
        Ok(Response::Written { count: count as u64, end })
    }

    pub(crate) fn shipped_change(
        &self,
        file: &ShippedFile,
        change: ShippedChange,
    ) -> Result<Response, Error> {
        self.check_trusted()?;
        let change = match change {
            ShippedChange::SetAttributes { set } => ShippedChange::SetAttributes { set: permitted(set) },
            change => change,
        };
        self.shared.client()?.perform_change(self.who(), file, change)?;
        Ok(Response::Done)
    }

    pub(crate) fn shipped_stat(&self, file: &ShippedFile) -> Result<Response, Error> {
        self.check_trusted()?;
        Ok(Response::Record(self.shared.client()?.perform_stat(file)?.record))
    }
}
