//! One attempt of an operation: it reserves log space and credit before any lock, and appends the entry under
//! the locks.
//!
//! An attempt knows the log's appender and the client. It does not know inodes: the call changes the cached
//! state itself, behind [`Attempt::append`].

use crate::client::client::Client;
use crate::client::halt::Halt;
use crate::errno::Error;
use crate::session::quotas::Payers;
use crate::session::session::Session;
use crate::sharing::call_tags::{EntryRole, is_withdrawn};
use cuesta_format::call_tag::TAG_BYTES;
use cuesta_format::operation::StagedWrite;
use cuesta_format::quota::Amounts;
use cuesta_format::{CallTag, InodeNumber, LeaseGeneration, LogPosition, Operation, Timestamp};
use cuesta_media::{Fault, UserSlice};
use cuesta_oplog::{Admission, Appended, Stamp};

/// The state of one attempt. The operation loop starts and ends it.
pub(crate) struct Attempt<'c> {
    pub(crate) client: &'c Client,
    pub(super) generation: u64,
    pub(super) admission: Option<Admission<'c>>,
    pub(super) debited: u64,
    /// The payers that this attempt charged, and how much.
    pub(crate) charged: Option<(Payers, Amounts)>,
    pub(super) appended: Option<LogPosition>,
    /// The tag that the prepared entry carries, if a caller's call takes effect by it.
    pub(crate) tag: Option<CallTag>,
    /// The entry declares a dependency on another log, so it needs no dependency logged before it.
    pub(crate) is_dependency: bool,
    /// The time that the operation stamps on what it changes.
    pub(crate) now: Timestamp,
}

impl<'c> Attempt<'c> {
    /// Reserves log space for an entry with a body of `body_bytes`, and debits credit for `blocks`. Call
    /// before any lock.
    #[inline]
    pub(crate) fn prepare(&mut self, body_bytes: usize, blocks: u64) -> Result<(), Halt> {
        let session = &self.client.session;
        if session.holds_too_many_entries() {
            return Err(Halt::Entries);
        }
        if session.is_overdue() {
            return Err(Halt::Unwritten);
        }
        let admission = session.appender.admit(body_bytes).map_err(|full| Halt::LogFull(full.needed))?;
        if !session.debit(blocks) {
            return Err(Halt::Credit(blocks));
        }
        self.debited = blocks;
        self.admission = Some(admission);
        Ok(())
    }

    /// Adjusts the debit to what the entry costs at most, once its offset in the file is known. It never
    /// waits: missing credit is a [`Halt`].
    #[inline]
    pub(crate) fn adjust_debit(&mut self, blocks: u64) -> Result<(), Halt> {
        let session = &self.client.session;
        if blocks > self.debited && !session.debit(blocks - self.debited) {
            return Err(Halt::Credit(blocks));
        }
        session.give_back_debit(self.debited.saturating_sub(blocks));
        self.debited = blocks;
        Ok(())
    }

    /// Takes a fresh inode number. Call before any lock.
    #[inline]
    pub(crate) fn number(&mut self) -> Result<InodeNumber, Halt> {
        self.client.session.take_number().ok_or(Halt::Numbers)
    }

    pub(crate) fn session(&self) -> &'c Session {
        &self.client.session
    }

    fn stamp(&self) -> Stamp<'_> {
        Stamp {
            lease_generation: LeaseGeneration(self.generation),
            debit_blocks: self.debited.min(u64::from(u32::MAX)) as u32,
            time: self.now,
            tag: self.tag.as_ref(),
            is_synchronous: false,
        }
    }

    /// Takes the log space of the prepared entry. Fails if the entry is the effect of a call whose process is
    /// gone. Call with the inodes' locks held.
    #[inline]
    fn admitted(&mut self) -> Result<Admission<'c>, Halt> {
        if self.tag.is_some() && is_withdrawn() {
            return Err(Error::Withdrawn.into());
        }
        if self.client.lacks_dependencies() && !self.is_dependency {
            return Err(Halt::Dependencies);
        }
        self.admission.take().ok_or_else(|| Error::Daemon("an entry was not prepared".into()).into())
    }

    /// Appends the prepared entry. Call with the inodes' locks held, before the cached state changes.
    pub(crate) fn append(&mut self, operation: &Operation<'_>) -> Result<Appended, Halt> {
        let admission = self.admitted()?;
        let _instant = self.client.at_one_instant(operation)?;
        let appender = &self.client.session.appender;
        let appended = appender.append(appender.reserve(admission), operation, self.stamp());
        self.appended = Some(appended.end);
        if appender.is_lost(appended.end) { Err(Error::LogLost.into()) } else { Ok(appended) }
    }

    /// Appends a prepared staged write; `body` names blocks that hold its payload.
    pub(crate) fn append_staged(
        &mut self,
        inode: InodeNumber,
        offset: u64,
        body: &[u8],
    ) -> Result<Appended, Halt> {
        let staged = StagedWrite::decode(offset, body)
            .ok_or_else(|| Error::Daemon("the blocks of a write are not where they must be".into()))?;
        self.append(&Operation::WriteStaged { inode, offset, staged })
    }

    /// Appends a prepared write of application memory.
    #[inline]
    pub(crate) fn append_write(
        &mut self,
        inode: InodeNumber,
        offset: u64,
        data: &[UserSlice<'_>],
        is_synchronous: bool,
    ) -> Result<Result<Appended, Fault>, Halt> {
        let admission = self.admitted()?;
        let appender = &self.client.session.appender;
        let reservation = appender.reserve(admission);
        let (void, behind) = (reservation.position(), reservation.body());
        let stamp = Stamp { is_synchronous, ..self.stamp() };
        let outcome = appender.append_write(reservation, inode, offset, data, stamp);
        self.appended = Some(outcome.map_or(void, |appended| appended.end));
        if appender.is_lost(outcome.map_or(behind, |appended| appended.end)) {
            Err(Error::LogLost.into())
        } else {
            Ok(outcome)
        }
    }
}

impl Attempt<'_> {
    /// Like [`Attempt::prepare`], for the entry by which the call takes effect: it carries the caller's tag.
    #[inline]
    pub(crate) fn prepare_effect(&mut self, body_bytes: usize, blocks: u64) -> Result<(), Halt> {
        self.tag = self.client.tag();
        let tag_bytes = if self.tag.is_some() { TAG_BYTES } else { 0 };
        self.prepare(body_bytes + tag_bytes, blocks)
    }

    /// Prepares an entry in either role.
    #[inline]
    pub(crate) fn prepare_as(&mut self, role: EntryRole, body_bytes: usize) -> Result<(), Halt> {
        match role {
            EntryRole::Effect => self.prepare_effect(body_bytes, 0),
            EntryRole::Idempotent => self.prepare(body_bytes, 0),
        }
    }
}
