//! Attributes: reading them, checking rights, changing them.

use crate::capabilities::Capability;
use crate::client::{Client, Halt, Turn};
use crate::confinement::Rights;
use crate::credentials::{Credentials, WRITE};
use crate::data::checked_size;
use crate::debit;
use crate::errno::Error;
use crate::inode::{Content, Inode, State, next_fill};
use crate::open_file::OpenFile;
use crate::quotas::Payers;
use crate::session::unexpected;
use crate::sync::Arc;
use crate::walk::{Base, Follow};
use cuesta_format::operation::Attributes;
use cuesta_format::quota::Amounts;
use cuesta_format::wire::{Request, Response, StoreTotals};
use cuesta_format::{FileKind, InodeNumber, InodeRecord, LogPosition, Operation, Timestamp};

/// What `stat` tells. `record.blocks` counts blocks of [`cuesta_format::BLOCK_BYTES`], also those that are in the
/// log only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The attributes.
    pub record: InodeRecord,
}

/// Of an inode: equal, within one session, as long as nothing about it has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    inode: InodeNumber,
    filled: u64,
    logged: LogPosition,
}

impl Version {
    /// Whose it is.
    #[must_use]
    pub fn inode(&self) -> InodeNumber {
        self.inode
    }
}

/// Of an inode: equal, within one session, as long as nobody else can have changed it. What the session itself changes, or
/// lets others change through it, leaves it alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tenure(u64);

/// Whose attributes change.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// What a path names.
    Path {
        /// Where it starts.
        base: Base<'a>,
        /// The path.
        path: &'a [u8],
        /// Whether a symbolic link at its end is followed.
        follow: bool,
    },
    /// An open file.
    File(&'a OpenFile),
}

/// What becomes of a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum SetTime {
    /// It stays (`UTIME_OMIT`).
    #[default]
    Omit,
    /// It becomes the present (`UTIME_NOW`).
    Now,
    /// It becomes this.
    To(Timestamp),
}

/// Which attributes change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SetAttributes {
    /// New permission bits.
    pub mode: Option<u32>,
    /// New owner.
    pub uid: Option<u32>,
    /// New group.
    pub gid: Option<u32>,
    /// The owner and the group are set, be it to what they are: a `chown` that names neither takes set-id bits away
    /// like any other.
    pub chown: bool,
    /// New time of last read.
    pub accessed: SetTime,
    /// New time of last change of content.
    pub modified: SetTime,
}

impl SetAttributes {
    fn changes_owner(&self) -> bool {
        self.chown || self.uid.is_some() || self.gid.is_some()
    }
}

impl Client {
    /// `stat`, or `lstat` without `follow`.
    pub fn stat(
        &self,
        credentials: &Credentials,
        base: Base<'_>,
        path: &[u8],
        follow: bool,
    ) -> Result<Stat, Error> {
        self.operate(|_turn| Ok(Stat { record: self.glance(credentials, base, path, follow)? }))
    }

    /// `fstat`.
    pub fn stat_open(&self, file: &OpenFile) -> Result<Stat, Error> {
        if let Some(shipped) = self.ship_stat(file) {
            return Ok(Stat { record: shipped? });
        }
        self.operate(|_turn| Ok(Stat { record: self.attributes_of(file.inode_ref())? }))
    }

    /// `stat` of an inode by its number, and the tenure under which that holds.
    pub fn stat_inode(&self, number: InodeNumber) -> Result<(Stat, Tenure), Error> {
        self.operate(|_turn| {
            let record = self.glance(&Credentials::default(), Base::Inode(number), b"", false)?;
            let tenure = match self.cache.get(number) {
                Some(inode) => {
                    let state = inode.state.read();
                    // Stores through mappings change a file, and nobody is told.
                    let is_held = state.lease.is_some() && state.mapped().is_none();
                    if is_held { state.filled } else { next_fill() }
                }
                None => next_fill(),
            };
            Ok((Stat { record }, Tenure(tenure)))
        })
    }

    /// What `stat` tells of an inode. Within an attempt.
    pub(crate) fn attributes_of(&self, inode: &Inode) -> Result<InodeRecord, Halt> {
        let state = self.reading(inode)?;
        let mut record = state.record;
        record.accessed = inode.accessed();
        if let Content::File(content) = &state.content {
            record.blocks = content.blocks(record.size, record.blocks);
        } else if let Some(mapped) = state.mapped() {
            record = self.mapped_record(mapped, &record)?;
        }
        Ok(record)
    }

    /// The present version of an open file's inode.
    pub fn version(&self, file: &OpenFile) -> Result<Version, Error> {
        self.operate(|_turn| {
            let state = self.reading(file.inode_ref())?;
            // Stores through mappings change a file, and nobody is told.
            let filled = if state.mapped().is_some() { next_fill() } else { state.filled };
            Ok(Version { inode: file.inode(), filled, logged: state.logged })
        })
    }

    /// `access`: whether `rights` (bits of `R_OK`, `W_OK`, `X_OK`) are given.
    pub fn access(
        &self,
        credentials: &Credentials,
        base: Base<'_>,
        path: &[u8],
        rights: u32,
        follow: bool,
    ) -> Result<(), Error> {
        if rights & !7 != 0 {
            return Err(Error::Invalid);
        }
        self.operate(|_turn| {
            let record = self.glance(credentials, base, path, follow)?;
            if record.access_list {
                let (inode, _) = self.find(credentials, base, path, follow)?;
                return self.reading(&inode)?.check(credentials, rights);
            }
            Ok(credentials.check_mode(&record, rights)?)
        })
    }

    /// Totals of the store.
    pub fn statfs(&self) -> Result<StoreTotals, Error> {
        self.statfs_in(InodeNumber::NONE)
    }

    /// Totals for `statfs` of an inode: of the store, as far as the directory with a quota that it counts for
    /// ([`cuesta_format::InodeRecord::tree`]) has a part in them.
    pub fn statfs_in(&self, tree: InodeNumber) -> Result<StoreTotals, Error> {
        self.check_alive()?;
        match self.asking(|| {
            self.count_what_was_done()?;
            self.session.ask(&Request::Statfs { tree })
        })? {
            Response::Statfs(totals) => Ok(totals),
            other => Err(unexpected(&other)),
        }
    }

    /// What this session freed is free once it has let go of it. A medium that is full, or is written no more, shows what it
    /// shows.
    fn count_what_was_done(&self) -> Result<(), Error> {
        if self.session.retired() == self.session.appender.completed() {
            return Ok(());
        }
        match self.digest_own_log() {
            Err(Error::NoSpace | Error::Daemon(_)) => Ok(()),
            digested => digested.and_then(|()| self.retire_all()),
        }
    }

    /// `readlink`.
    pub fn read_link(
        &self,
        credentials: &Credentials,
        base: Base<'_>,
        path: &[u8],
    ) -> Result<Vec<u8>, Error> {
        self.operate(|_turn| {
            let (inode, _) = self.find(credentials, base, path, false)?;
            self.read_target(&inode, Error::Invalid)
        })
    }

    /// Target of an open symbolic link (`readlinkat` with an empty path).
    pub fn read_link_open(&self, file: &OpenFile) -> Result<Vec<u8>, Error> {
        self.operate(|_turn| self.read_target(file.inode_ref(), Error::NotFound))
    }

    fn read_target(&self, inode: &Inode, none: Error) -> Result<Vec<u8>, Halt> {
        let state = self.reading(inode)?;
        let Content::Symlink(target) = &state.content else { return Err(none.into()) };
        self.note_access(0, inode, &state);
        Ok(target.to_vec())
    }

    /// What a path names. Within an attempt.
    pub(crate) fn find(
        &self,
        credentials: &Credentials,
        base: Base<'_>,
        path: &[u8],
        follow: bool,
    ) -> Result<(Arc<Inode>, FileKind), Halt> {
        let follow = if follow { Follow::Always } else { Follow::BeforeSlash };
        Ok(self.walk(credentials, base, path, follow)?.existing()?)
    }

    /// `truncate`.
    pub fn truncate(
        &self,
        credentials: &Credentials,
        base: Base<'_>,
        path: &[u8],
        size: i64,
    ) -> Result<(), Error> {
        let size = checked_size(size)?;
        loop {
            let loses_rights = self.operate(|turn| {
                let found = self.walk(credentials, base, path, Follow::Always)?;
                let is_confined = self.check_confined(credentials, &found, Rights::TRUNCATE);
                let (inode, kind) = found.existing()?;
                match kind {
                    FileKind::File => {}
                    FileKind::Directory => return Err(Error::IsDirectory.into()),
                    _ => return Err(Error::Invalid.into()),
                }
                turn.prepare_effect(0, debit::of_truncation(size))?;
                let mut state = self.changing(&inode)?;
                if state.released {
                    return Err(Halt::Again);
                }
                state.check(credentials, WRITE)?;
                self.check_not_running(&state.record)?;
                is_confined?;
                let writer = credentials.writer(&state.record);
                if state.loses_rights(writer) {
                    drop(state);
                    return Ok(Some((inode, writer)));
                }
                self.truncate_locked(turn, &inode, &mut state, size)?;
                Ok(None)
            })?;
            match loses_rights {
                Some((inode, writer)) => self.take_rights(&inode, writer)?,
                None => return Ok(()),
            }
        }
    }

    /// `chmod`, `chown` and `utimensat` in one.
    pub fn set_attributes(
        &self,
        credentials: &Credentials,
        target: Target<'_>,
        set: SetAttributes,
    ) -> Result<(), Error> {
        if let Target::File(file) = target {
            file.check_not_path()?;
            if let Some(shipped) = self.ship_attributes(credentials, file, set) {
                return shipped;
            }
        }
        loop {
            let loses_capability = self.operate(|turn| {
                let inode = match target {
                    Target::File(file) => Arc::clone(file.inode_ref()),
                    Target::Path { base, path, follow } => self.find(credentials, base, path, follow)?.0,
                };
                Ok(self.set_attributes_of(turn, credentials, &inode, set)?.then_some(inode))
            })?;
            match loses_capability {
                Some(inode) => self.take_capability(&inode)?,
                None => return Ok(()),
            }
        }
    }

    /// Sets attributes, unless (`true`) capabilities must go first, which a file's new owner does not give.
    fn set_attributes_of(
        &self,
        turn: &mut Turn<'_>,
        credentials: &Credentials,
        inode: &Arc<Inode>,
        set: SetAttributes,
    ) -> Result<bool, Halt> {
        let empty = Operation::SetAttributes { inode: inode.number, attributes: Attributes::default() };
        turn.prepare_effect(empty.body_bytes(), 0)?;
        let mut state = self.changing(inode)?;
        if state.released {
            return Err(Halt::Again);
        }
        let Some(attributes) = decide(credentials, &state, set, turn.now)? else {
            return Ok(false);
        };
        if set.changes_owner() && state.kind() != FileKind::Directory && state.may_hold_capability() {
            return Ok(true);
        }
        if let (Some(mapped), Some(modified)) = (state.mapped(), attributes.modified) {
            self.set_mapped_time(mapped, modified)?;
        }
        let passes = credentials.may(Capability::PassQuotas);
        let owners = if turn.is_charged() && !passes {
            let owner = attributes.uid.filter(|&uid| uid != state.record.uid);
            Payers::new_owners(owner, attributes.gid.filter(|&gid| gid != state.record.gid))
        } else {
            Payers::default()
        };
        if !owners.is_empty() {
            if state.file().is_some_and(|content| content.unknown_from().is_some()) {
                drop(state);
                self.learn_extents(inode)?;
                return Err(Halt::Again);
            }
            self.charge_new_owners(turn, &state, owners)?;
        }
        let appended = turn.append(&Operation::SetAttributes { inode: inode.number, attributes })?;
        let record = &mut state.record;
        if let Some(mode) = attributes.mode {
            record.mode = record.mode & libc::S_IFMT | mode;
        }
        record.uid = attributes.uid.unwrap_or(record.uid);
        record.gid = attributes.gid.unwrap_or(record.gid);
        record.modified = attributes.modified.unwrap_or(record.modified);
        record.changed = turn.now;
        state.logged = appended.end;
        if let Some(accessed) = attributes.accessed {
            inode.set_accessed(accessed);
        }
        Ok(false)
    }

    /// What an inode has goes with it to its new owner and group.
    fn charge_new_owners(&self, turn: &mut Turn<'_>, state: &State, owners: Payers) -> Result<(), Halt> {
        let blocks = match &state.content {
            Content::File(content) => content.blocks(state.record.size, state.record.blocks),
            Content::Mapped(mapped) => self.mapped_blocks(mapped, &state.record)?,
            _ => 0,
        };
        turn.charge(owners, Amounts { blocks, inodes: 1 })
    }
}

/// What to set, if the credentials allow it; `None` if nothing is asked for.
fn decide(
    credentials: &Credentials,
    state: &State,
    set: SetAttributes,
    now: Timestamp,
) -> Result<Option<Attributes>, Halt> {
    let record = &state.record;
    let mut attributes = Attributes::default();
    if set == SetAttributes::default() {
        return Ok(None);
    }
    if let Some(mode) = set.mode {
        if !credentials.owns(record) {
            return Err(Error::NotPermitted.into());
        }
        if state.kind() == FileKind::Symlink {
            return Err(Error::Unsupported.into());
        }
        let mut mode = mode & 0o7777;
        if !credentials.keeps_set_gid(record.gid) {
            mode &= !libc::S_ISGID;
        }
        attributes.mode = Some(mode);
    }
    let names_ids = set.uid.is_some() || set.gid.is_some();
    if names_ids {
        let keeps_owner = set.uid.is_none_or(|uid| uid == record.uid);
        let may_give = set.gid.is_none_or(|gid| gid == record.gid || credentials.is_in_group(gid));
        let own = credentials.uid == record.uid && keeps_owner && may_give;
        if !own && !credentials.may(Capability::ChangeOwner) {
            return Err(Error::NotPermitted.into());
        }
        attributes.uid = set.uid;
        attributes.gid = set.gid;
    }
    if (names_ids || set.chown) && state.kind() != FileKind::Directory {
        let mode = attributes.mode.unwrap_or(record.mode & 0o7777);
        // Without the group's execute bit the set-gid bit asks for mandatory locks: whoever might set it keeps it.
        let keeps_group = mode & libc::S_IXGRP == 0 && credentials.keeps_set_gid(record.gid);
        let cleared = if keeps_group { libc::S_ISUID } else { libc::S_ISUID | libc::S_ISGID };
        if mode & cleared != 0 {
            if !credentials.owns(record) {
                return Err(Error::NotPermitted.into());
            }
            attributes.mode = Some(mode & !cleared);
        }
    }
    let times = [set.accessed, set.modified];
    if times.iter().any(|&time| time != SetTime::Omit) {
        let only_now = times.iter().all(|&time| time == SetTime::Now);
        if !credentials.owns(record) {
            if !only_now {
                return Err(Error::NotPermitted.into());
            }
            state.check(credentials, WRITE)?;
        }
        let time = |set| match set {
            SetTime::Omit => None,
            SetTime::Now => Some(now),
            SetTime::To(time) => Some(time),
        };
        attributes.accessed = time(set.accessed);
        attributes.modified = time(set.modified);
    }
    Ok(Some(attributes))
}
