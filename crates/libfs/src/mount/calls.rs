//! Calls of a mount. SharedFS performs them where it performs the operations on an inode of theirs
//! ([`crate::sharing::send`]), else the session itself does.
//!
//! The kernel may keep what the session itself answers, as long as the session has the lease. Of what SharedFS
//! answers it may keep nothing: no notice tells when that changes.

use crate::cache::inode::next_fill;
use crate::cache::version::Tenure;
use crate::client::client::Client;
use crate::errno::Error;
use crate::open_files::open_file::OpenFile;
use crate::paths::access_list::NewMode;
use crate::paths::credentials::Credentials;
use crate::paths::path::Base;
use crate::sharing::by_number::{Asker, CallByNumber};
use crate::sharing::shipped::Shipper;
use crate::sharing::terms::send;
use crate::sync::{Arc, Ordering};
use cuesta_format::wire::Sends;
use cuesta_format::{FileKind, InodeNumber, InodeRecord, Timestamp};
use libc::{O_ACCMODE, O_CREAT, O_EXCL, O_NOFOLLOW, O_PATH, O_RDONLY};

/// An answer to the mount.
#[derive(Clone, Copy, Debug)]
pub struct Answer<T> {
    /// The answer itself.
    pub value: T,
    /// The session itself gave it: the kernel may keep it.
    pub is_own: bool,
}

impl<T> Answer<T> {
    fn own(value: T) -> Answer<T> {
        Answer { value, is_own: true }
    }

    fn shipped(value: T) -> Answer<T> {
        Answer { value, is_own: false }
    }

    /// The same about something else.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Answer<U> {
        Answer { value: change(self.value), is_own: self.is_own }
    }
}

impl Client {
    /// Makes a call by the session, or has `shipped` make it if SharedFS performs operations on an inode of
    /// the call. If `shipped` answers [`Error::Shipped`], too, the session makes the call.
    fn here_or_shipped<T>(
        &self,
        own: impl Fn() -> Result<T, Error>,
        shipped: impl FnOnce(&dyn Shipper) -> Result<T, Error>,
    ) -> Result<Answer<T>, Error> {
        if let Some(shipper) = self.shipping.shipper() {
            let sending = send(Sends::Everything);
            match own() {
                Err(Error::Shipped(_)) => {}
                done => return done.map(Answer::own),
            }
            drop(sending);
            match shipped(shipper) {
                Err(Error::Shipped(_)) => {}
                done => return done.map(Answer::shipped),
            }
        }
        own().map(Answer::own)
    }

    /// Makes a call that names inodes by their numbers.
    pub fn call_by_number(
        &self,
        who: &Credentials,
        call: &CallByNumber<'_>,
    ) -> Result<Answer<Option<InodeRecord>>, Error> {
        let shipped = |shipper: &dyn Shipper| shipper.by_number(Asker::of(who), call);
        self.here_or_shipped(|| self.perform_by_number(who, call), shipped)
    }

    /// Makes a call that answers attributes.
    pub fn record_by_number(
        &self,
        who: &Credentials,
        call: &CallByNumber<'_>,
    ) -> Result<Answer<InodeRecord>, Error> {
        let Answer { value, is_own } = self.call_by_number(who, call)?;
        let value = value.ok_or_else(|| Error::Daemon("attributes are missing in an answer".into()))?;
        Ok(Answer { value, is_own })
    }

    /// The attributes of what a name leads to. `None`: there is no such name.
    pub fn look_up_name(
        &self,
        who: &Credentials,
        directory: InodeNumber,
        name: &[u8],
    ) -> Result<Answer<Option<InodeRecord>>, Error> {
        let look_up = CallByNumber::LookUp { directory, name };
        let known = |found| match found {
            Err(Error::NotFound) => Ok(None),
            found => found,
        };
        self.here_or_shipped(
            || known(self.perform_by_number(who, &look_up)),
            |shipper| known(shipper.by_number(Asker::of(who), &look_up)),
        )
    }

    /// The attributes of an inode, and the tenure under which they hold.
    pub fn attributes(&self, number: InodeNumber) -> Result<Answer<(InodeRecord, Tenure)>, Error> {
        let own = || self.stat_inode(number).map(|(stat, tenure)| (stat.record, tenure));
        let stat = CallByNumber::Stat { inode: number };
        self.here_or_shipped(own, |shipper| {
            let record = shipper.by_number(Asker::of(&Credentials::default()), &stat)?;
            let mut record = record.ok_or(Error::NotFound)?;
            record.accessed = self.noted_access(&record).unwrap_or(record.accessed);
            Ok((record, Tenure(next_fill())))
        })
    }

    /// When this session last read the inode, if SharedFS does not know of that and nothing has changed since.
    fn noted_access(&self, record: &InodeRecord) -> Option<Timestamp> {
        if !self.has_accesses() {
            return None;
        }
        let noted = self.accesses.noted.lock().get(&record.inode).copied();
        noted.filter(|time| *time > record.accessed.max(record.changed))
    }

    /// Opens an inode. The kernel has checked the rights.
    pub fn open_by_number(
        &self,
        who: &Credentials,
        number: InodeNumber,
        flags: i32,
    ) -> Result<Answer<(Arc<OpenFile>, InodeRecord, Tenure)>, Error> {
        let own = || {
            let file = self.open(who, Base::Inode(number), b"", flags, 0)?;
            match self.stat_inode(number) {
                Ok((stat, tenure)) => Ok((file, stat.record, tenure)),
                Err(error) => {
                    self.close(file)?;
                    Err(error)
                }
            }
        };
        self.here_or_shipped(own, |shipper| {
            let (file, record) = self.open_shipped(shipper, who, number, flags)?;
            Ok((file, record, Tenure(next_fill())))
        })
    }

    /// Opens a file that SharedFS keeps, without a lease: the file counts as open before SharedFS says that
    /// it is there, and so it stays.
    fn open_shipped(
        &self,
        shipper: &dyn Shipper,
        who: &Credentials,
        number: InodeNumber,
        flags: i32,
    ) -> Result<(Arc<OpenFile>, InodeRecord), Error> {
        let inode = self.cache.get_or_insert(number);
        let open = {
            let _state = inode.state.read();
            self.count_open(&inode, FileKind::File, flags)
        };
        let record = shipper.by_number(Asker::of(who), &CallByNumber::Stat { inode: number })?;
        let record = record.ok_or(Error::NotFound)?;
        if record.kind() != FileKind::File || record.links == 0 {
            return Err(Error::Shipped(number));
        }
        if flags & O_PATH == 0 && flags & O_ACCMODE != O_RDONLY {
            self.check_not_running(&record)?;
        }
        Ok((self.opened(open, flags, who.writer(&record), true), record))
    }

    /// Makes a file and opens it. `flags` has `O_CREAT` and `O_EXCL`.
    pub fn make_by_number(
        &self,
        who: &Credentials,
        directory: InodeNumber,
        name: &[u8],
        flags: i32,
        mode: NewMode,
    ) -> Result<Answer<(Arc<OpenFile>, InodeRecord)>, Error> {
        debug_assert_eq!(flags & (O_CREAT | O_EXCL), O_CREAT | O_EXCL, "the name must be new");
        let own = || self.open_or_make(who, Base::Inode(directory), name, flags, mode);
        self.here_or_shipped(own, |shipper| {
            let number = shipper.number_for_file()?;
            let awaited = self.await_file(number, flags);
            let record = shipper.make_file(Asker::of(who), directory, name, mode, number)?;
            Ok((self.open_made(who, awaited, &record, flags), record))
        })
    }

    /// Has SharedFS tell that it read the file for this session, if it did. Of its own reads the session tells
    /// by [`Client::tell_accesses`].
    pub fn tell_shipped_accesses(&self, file: &OpenFile) {
        if file.was_read_there.swap(false, Ordering::Relaxed)
            && let Some(shipper) = self.shipping.shipper()
        {
            // If that fails, only times are lost.
            let _ = shipper.settle();
        }
    }

    /// Opens what a name leads to, only to hold it: the inode stays until the file is closed. Answers its
    /// attributes from before.
    pub fn hold_by_name(
        &self,
        who: &Credentials,
        directory: InodeNumber,
        name: &[u8],
    ) -> Result<Answer<(Arc<OpenFile>, InodeRecord)>, Error> {
        let flags = O_PATH | O_NOFOLLOW;
        let own = || {
            let file = self.open(who, Base::Inode(directory), name, flags, 0)?;
            let record = self.stat_open(&file)?.record;
            Ok((file, record))
        };
        self.here_or_shipped(own, |shipper| {
            let look = CallByNumber::LookUp { directory, name };
            let record = shipper.by_number(Asker::of(who), &look)?.ok_or(Error::NotFound)?;
            let inode = self.cache.get_or_insert(record.inode);
            let open = {
                let _state = inode.state.read();
                self.count_open(&inode, record.kind(), flags)
            };
            Ok((self.opened(open, flags, who.writer(&record), true), record))
        })
    }
}
