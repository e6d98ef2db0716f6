//! The answering end of shipped operations: SharedFS performs them in its own session ([`cuesta_libfs::Shipper`]).
//!
//! They name inodes by their numbers. Only processes of the store's own user and of root may do so: those have a session, whose
//! log could say the same.

use super::allowed::permitted;
use super::connection::{Connection, InHand};
use crate::protocol::messages::{PathBase, Response};
use cuesta_format::{InodeNumber, LogDependency};
use cuesta_libfs::{Asker, CallByNumber, Error, NewMode, ShippedChange, ShippedFile};
use cuesta_media::{UserSlice, UserSliceMut};

/// So many numbers are reserved for one process at most: one for each of its threads that makes a file.
const NUMBERS_MAX: usize = 64;

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
        place: PathBase,
        path: &[u8],
        mode: NewMode,
        inode: InodeNumber,
        who: Option<Asker>,
    ) -> Result<Response, Error> {
        self.check_trusted()?;
        self.take_reserved(inode)?;
        let place = self.place(place)?;
        let who = who.map_or_else(|| self.who().clone(), |who| who.credentials());
        let record = place.client().make_file(&who, place.base()?, path, mode, inode)?;
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

    /// Makes a call with other credentials than the connection's. The sender's log could say the same.
    pub(crate) fn by_number(&self, who: Asker, call: &CallByNumber<'_>) -> Result<Response, Error> {
        self.check_trusted()?;
        call.check()?;
        let record = self.shared.client()?.perform_by_number(&who.credentials(), call)?;
        Ok(record.map_or(Response::Done, Response::Record))
    }

    pub(crate) fn shipped_stat(&self, file: &ShippedFile) -> Result<Response, Error> {
        self.check_trusted()?;
        Ok(Response::Record(self.shared.client()?.perform_stat(file)?.record))
    }
}
