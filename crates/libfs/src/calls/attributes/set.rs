//! `chmod`, `chown` and `utimensat`, as one entry of the log.

use crate::cache::inode::{Content, Inode, State};
use crate::calls::attributes::values::{SetAttributes, SetTime};
use crate::client::attempt::Attempt;
use crate::client::client::Client;
use crate::client::halt::Halt;
use crate::errno::Error;
use crate::paths::capabilities::Capability;
use crate::paths::credentials::{Credentials, WRITE};
use crate::paths::path::Target;
use crate::session::quotas::Payers;
use crate::sync::Arc;
use cuesta_format::operation::Attributes;
use cuesta_format::quota::Amounts;
use cuesta_format::{FileKind, Operation, Timestamp};

impl Client {
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
            let loses_capability = self.operate(|attempt| {
                let inode = match target {
                    Target::File(file) => Arc::clone(file.inode_ref()),
                    Target::Path { base, path, follow } => self.find(credentials, base, path, follow)?.0,
                };
                Ok(self.set_attributes_of(attempt, credentials, &inode, set)?.then_some(inode))
            })?;
            match loses_capability {
                Some(inode) => self.take_capability(&inode)?,
                None => return Ok(()),
            }
        }
    }

    /// Sets attributes. `true`: capabilities must go first, because the file gets a new owner, and
    /// capabilities are not that owner's to give.
    fn set_attributes_of(
        &self,
        attempt: &mut Attempt<'_>,
        credentials: &Credentials,
        inode: &Arc<Inode>,
        set: SetAttributes,
    ) -> Result<bool, Halt> {
        let empty = Operation::SetAttributes { inode: inode.number, attributes: Attributes::default() };
        attempt.prepare_effect(empty.body_bytes(), 0)?;
        let mut state = self.changing(inode)?;
        if state.released {
            return Err(Halt::Again);
        }
        let Some(attributes) = decide(credentials, &state, set, attempt.now)? else {
            return Ok(false);
        };
        if set.changes_owner() && state.kind() != FileKind::Directory && state.may_hold_capability() {
            return Ok(true);
        }
        if let (Some(mapped), Some(modified)) = (state.mapped(), attributes.modified) {
            self.set_mapped_time(mapped, modified)?;
        }
        let passes = credentials.may(Capability::PassQuotas);
        let owners = if attempt.is_charged() && !passes {
            let owner = attributes.uid.filter(|&uid| uid != state.record.uid);
            Payers::new_owners(owner, attributes.gid.filter(|&gid| gid != state.record.gid))
        } else {
            Payers::default()
        };
        if !owners.is_empty() {
            if state.file().is_some_and(|content| content.unknown_from().is_some()) {
                drop(state);
                self.fetch_extents(inode)?;
                return Err(Halt::Again);
            }
            self.charge_new_owners(attempt, &state, owners)?;
        }
        let appended = attempt.append(&Operation::SetAttributes { inode: inode.number, attributes })?;
        let record = &mut state.record;
        if let Some(mode) = attributes.mode {
            record.mode = record.mode & libc::S_IFMT | mode;
        }
        record.uid = attributes.uid.unwrap_or(record.uid);
        record.gid = attributes.gid.unwrap_or(record.gid);
        record.modified = attributes.modified.unwrap_or(record.modified);
        record.changed = attempt.now;
        state.logged = appended.end;
        if let Some(accessed) = attributes.accessed {
            inode.set_accessed(accessed);
        }
        Ok(false)
    }

    /// Charges the new owner and group for everything that the inode has.
    fn charge_new_owners(
        &self,
        attempt: &mut Attempt<'_>,
        state: &State,
        owners: Payers,
    ) -> Result<(), Halt> {
        let blocks = match &state.content {
            Content::File(content) => content.blocks(state.record.size, state.record.blocks),
            Content::Mapped(mapped) => self.mapped_blocks(mapped, &state.record)?,
            _ => 0,
        };
        attempt.charge(owners, Amounts { blocks, inodes: 1 })
    }
}

/// Decides what to set, if the credentials allow it. `None`: the call asks for nothing.
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
        // Without the group's execute bit, the set-gid bit asks for mandatory locks: a caller that may set it
        // keeps it.
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
