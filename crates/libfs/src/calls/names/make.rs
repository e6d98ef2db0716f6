//! Making inodes: `mkdir`, `mknod`, `symlink`, and the file that an `open` makes.

use crate::cache::directory_content::{DirectoryContent, NameState, NameTarget};
use crate::cache::file_content::FileContent;
use crate::cache::inode::{Content, Inode, State};
use crate::client::attempt::Attempt;
use crate::client::client::Client;
use crate::client::halt::Halt;
use crate::errno::Error;
use crate::paths::access_list::{NewMode, inherited};
use crate::paths::capabilities::Capability;
use crate::paths::confinement::Rights;
use crate::paths::credentials::{Credentials, EXECUTE, WRITE};
use crate::paths::path::{Base, Follow, LastName, Name, Resolved};
use crate::session::quotas::Payers;
use crate::sync::{Arc, Ordering};
use cuesta_format::quota::Amounts;
use cuesta_format::{FileKind, InodeNumber, InodeRecord, LINKS_MAX, Operation, SYMLINK_BYTES_MAX};
use std::cell::Cell;

/// The inode to make.
pub(crate) struct NewInode<'a> {
    pub(crate) kind: FileKind,
    pub(crate) mode: NewMode,
    pub(crate) device: u64,
    pub(crate) target: &'a [u8],
    /// It counts as open from the moment it has a name.
    pub(crate) open: bool,
    /// The number that was reserved for it, until an attempt uses it.
    pub(crate) number: Option<&'a Cell<Option<InodeNumber>>>,
}

impl Client {
    /// `mkdir`. Like all calls that make something, it answers the record of what it made. Another process
    /// may remove it at once, so a second look could fail.
    pub fn make_directory(
        &self,
        credentials: &Credentials,
        base: Base<'_>,
        path: &[u8],
        mode: impl Into<NewMode>,
    ) -> Result<InodeRecord, Error> {
        let mode = mode.into();
        let mode = NewMode { bits: mode.bits & (0o777 | libc::S_ISVTX), ..mode };
        let new_inode =
            NewInode { kind: FileKind::Directory, mode, device: 0, target: b"", open: false, number: None };
        self.make_at(credentials, base, path, &new_inode)
    }

    /// `mknod`; `mode` includes the kind.
    pub fn make_node(
        &self,
        credentials: &Credentials,
        base: Base<'_>,
        path: &[u8],
        mode: impl Into<NewMode>,
        device: u64,
    ) -> Result<InodeRecord, Error> {
        let mode = mode.into();
        let kind = match mode.bits & libc::S_IFMT {
            0 => FileKind::File,
            _ => FileKind::from_mode(mode.bits).ok_or(Error::Invalid)?,
        };
        match kind {
            FileKind::Directory => return Err(Error::NotPermitted),
            FileKind::Symlink => return Err(Error::Invalid),
            _ => {}
        }
        let device = if is_device(kind) { device } else { 0 };
        let new_inode = NewInode { kind, mode, device, target: b"", open: false, number: None };
        self.make_at(credentials, base, path, &new_inode)
    }

    /// `symlink`.
    pub fn symlink(
        &self,
        credentials: &Credentials,
        target: &[u8],
        base: Base<'_>,
        path: &[u8],
    ) -> Result<InodeRecord, Error> {
        if target.is_empty() {
            return Err(Error::NotFound);
        }
        if target.len() > SYMLINK_BYTES_MAX {
            return Err(Error::NameTooLong);
        }
        let new_inode = NewInode {
            kind: FileKind::Symlink,
            mode: 0o777.into(),
            device: 0,
            target,
            open: false,
            number: None,
        };
        self.make_at(credentials, base, path, &new_inode)
    }

    pub(crate) fn make_at(
        &self,
        credentials: &Credentials,
        base: Base<'_>,
        path: &[u8],
        new_inode: &NewInode<'_>,
    ) -> Result<InodeRecord, Error> {
        self.operate(|attempt| {
            let found = self.walk(credentials, base, path, Follow::Never)?;
            let name = new_name(&found, new_inode.kind == FileKind::Directory)?;
            self.check_confined_in(credentials, &found.parent, Rights::to_make(new_inode.kind))?;
            self.make(attempt, credentials, &found.parent, name, new_inode).map(|(_, record)| record)
        })
    }

    /// Makes an inode under a name that the walk has just found free.
    pub(crate) fn make(
        &self,
        attempt: &mut Attempt<'_>,
        credentials: &Credentials,
        directory: &Arc<Inode>,
        name: &Name,
        new_inode: &NewInode<'_>,
    ) -> Result<(Arc<Inode>, InodeRecord), Halt> {
        let (list, record) = {
            // Checked before a number is taken and the entry is prepared, because the answer may be no.
            let parent = self.reading(directory)?;
            check_can_make(credentials, &parent)?;
            let is_free = is_whiteout(new_inode.kind, new_inode.device);
            if is_device(new_inode.kind) && !is_free && !credentials.may(Capability::MakeDevices) {
                return Err(Error::NotPermitted.into());
            }
            let list = list_for(&parent, new_inode.kind)?.to_vec();
            let record = new_record(attempt, credentials, &parent, &list, new_inode.kind, new_inode.mode);
            (list, record)
        };
        charge_inode(attempt, credentials, &record)?;
        let number = match new_inode.number {
            // A fence voided the entry that used the number, so an inode of that number is gone.
            Some(reserved) => reserved.get().ok_or(Error::Shipped(InodeNumber::NONE))?,
            None => attempt.number()?,
        };
        let operation = Operation::Create {
            parent: directory.number,
            inode: number,
            mode: record.mode,
            uid: record.uid,
            gid: record.gid,
            device: new_inode.device,
            name,
            target: new_inode.target,
            list: &list,
        };
        attempt.prepare_effect(operation.body_bytes(), 0)?;
        let mut parent = self.changing(directory)?;
        check_can_make(credentials, &parent)?;
        let is_as_seen = list_for(&parent, new_inode.kind)? == list
            && new_record(attempt, credentials, &parent, &list, new_inode.kind, new_inode.mode) == record;
        if !is_as_seen {
            return Err(Halt::Again);
        }
        let retired = self.session.retired();
        if parent.directory().is_none_or(|content| content.find(name, retired) != NameState::Absent) {
            // In an incomplete directory, a name that SharedFS has just denied stays unknown.
            let unknown = |content: &DirectoryContent| content.find(name, retired) == NameState::Unknown;
            if !parent.directory().is_some_and(unknown) {
                return Err(Halt::Again);
            }
        }
        let is_directory = new_inode.kind == FileKind::Directory;
        if is_directory && parent.record.links >= LINKS_MAX {
            return Err(Error::LinkLimit.into());
        }
        let appended = attempt.append(&operation)?;
        new_inode.number.inspect(|reserved| reserved.set(None));
        let mut record = InodeRecord { inode: number, ..record };
        record.device = new_inode.device;
        record.size = new_inode.target.len() as u64;
        if is_directory {
            record.parent = directory.number;
            parent.record.links += 1;
        }
        let content = match new_inode.kind {
            FileKind::File => Content::File(FileContent::empty()),
            FileKind::Directory => Content::Directory(Box::new(DirectoryContent::empty())),
            FileKind::Symlink => Content::Symlink(new_inode.target.into()),
            _ => Content::Special,
        };
        let mut inode = Inode::made(record, content, appended.end);
        inode.state.get_mut().inherit_list(&list);
        let inode = Arc::new(inode);
        if new_inode.open {
            inode.opens.fetch_add(1, Ordering::SeqCst);
        }
        self.cache.insert(Arc::clone(&inode));
        parent.record.size += 1;
        parent.touch_content(attempt.now);
        parent.logged = appended.end;
        if let Some(content) = parent.directory_mut() {
            content.put(name, NameTarget { inode: number, kind: new_inode.kind });
        }
        Ok((inode, record))
    }

    /// Makes a file without a name, which counts as open. It may get a name later, unless it is `exclusive`.
    pub(crate) fn make_unnamed(
        &self,
        attempt: &mut Attempt<'_>,
        credentials: &Credentials,
        directory: &Arc<Inode>,
        mode: NewMode,
        exclusive: bool,
    ) -> Result<(Arc<Inode>, InodeRecord), Halt> {
        let (record, list) = {
            let parent = self.reading(directory)?;
            parent.check(credentials, WRITE | EXECUTE)?;
            if parent.is_unlinked() {
                return Err(Error::NotPermitted.into());
            }
            let list = parent.default_list()?.to_vec();
            (new_record(attempt, credentials, &parent, &list, FileKind::File, mode), list)
        };
        charge_inode(attempt, credentials, &record)?;
        let InodeRecord { mode, uid, gid, .. } = record;
        let (inode, parent) = (attempt.number()?, directory.number);
        let operation = Operation::CreateUnnamed { parent, exclusive, inode, mode, uid, gid, list: &list };
        attempt.prepare_effect(operation.body_bytes(), 0)?;
        let appended = attempt.append(&operation)?;
        let parent = if exclusive { InodeNumber::NONE } else { directory.number };
        let record = InodeRecord { inode, parent, links: 0, ..record };
        let mut inode = Inode::made(record, Content::File(FileContent::empty()), appended.end);
        inode.state.get_mut().inherit_list(&list);
        let inode = Arc::new(inode);
        inode.opens.fetch_add(1, Ordering::SeqCst);
        inode.orphaned.store(true, Ordering::SeqCst);
        self.cache.insert(Arc::clone(&inode));
        Ok((inode, record))
    }
}

fn is_device(kind: FileKind) -> bool {
    matches!(kind, FileKind::CharacterDevice | FileKind::BlockDevice)
}

/// Whether this is a whiteout.
pub(crate) fn is_whiteout(kind: FileKind, device: u64) -> bool {
    kind == FileKind::CharacterDevice && device == 0
}

/// Checks that names can be made in a directory, and with these credentials.
pub(super) fn check_can_make(credentials: &Credentials, parent: &State) -> Result<(), Halt> {
    if parent.is_unlinked() {
        return Err(Error::NotFound.into());
    }
    parent.check(credentials, WRITE | EXECUTE)
}

/// The record of a new inode in a directory, without its number.
fn new_record(
    attempt: &Attempt<'_>,
    credentials: &Credentials,
    parent: &State,
    list: &[u8],
    kind: FileKind,
    mode: NewMode,
) -> InodeRecord {
    let (gid, mode) = inherited(credentials, parent, list, kind, mode);
    let mode = mode | kind.mode_bits();
    let record = InodeRecord::new(InodeNumber::NONE, mode, credentials.uid, gid, attempt.now);
    InodeRecord { tree: parent.record.tree, ..record }
}

/// Charges a new inode to its owner. The maker is the owner.
fn charge_inode(
    attempt: &mut Attempt<'_>,
    credentials: &Credentials,
    record: &InodeRecord,
) -> Result<(), Halt> {
    if !attempt.is_charged() {
        return Ok(());
    }
    let payers = Payers::of(record, credentials.may(Capability::PassQuotas));
    attempt.charge(payers, Amounts { blocks: 0, inodes: 1 })
}

/// The default list for a new inode of this kind. Symbolic links have none.
fn list_for(parent: &State, kind: FileKind) -> Result<&[u8], Halt> {
    if kind == FileKind::Symlink { Ok(b"") } else { parent.default_list() }
}

/// The name to make, if it is free.
pub(super) fn new_name(found: &Resolved, directory: bool) -> Result<&Name, Error> {
    match (&found.last, &found.inode) {
        (LastName::Name(name), None) if directory || !found.slash => Ok(name),
        (LastName::Name(_), None) => Err(Error::NotFound),
        (LastName::TooLong, _) => Err(Error::NameTooLong),
        _ => Err(Error::Exists),
    }
}
