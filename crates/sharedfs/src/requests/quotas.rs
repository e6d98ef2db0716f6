//! Questions about quotas.

use super::Trouble;
use crate::metadata::MetadataError;
use crate::{Error, SharedFs};
use cuesta_format::SessionId;
use cuesta_format::quota::{Amounts, UserQuota};
use cuesta_format::wire::{Refusal, Response};

impl SharedFs {
    /// Room for a user to own more, for this session to use up.
    pub(super) fn room_of(&self, session: SessionId, uid: u32, needed: Amounts) -> Result<Response, Trouble> {
        self.digest_completed(session)?;
        if let Some(room) = self.give_room(session, uid, needed)? {
            return Ok(Response::Room(room));
        }
        self.digest_everything()?;
        self.look_for_closed()?;
        if let Some(room) = self.give_room(session, uid, needed)? {
            return Ok(Response::Room(room));
        }
        let others = self.quotas.lock().others(session, uid);
        for &other in &others {
            self.take_back_space(other)?;
        }
        match self.give_room(session, uid, needed)? {
            Some(room) => Ok(Response::Room(room)),
            None => Err(Trouble::Refused(Refusal::OverQuota)),
        }
    }

    fn give_room(
        &self,
        session: SessionId,
        uid: u32,
        needed: Amounts,
    ) -> Result<Option<Amounts>, MetadataError> {
        // Held over both: what another session is given must not come between.
        let mut quotas = self.quotas.lock();
        let used = self.metadata.read()?.usage(uid)?;
        Ok(quotas.give(session, uid, used, needed))
    }

    /// What users own, and may own.
    pub(super) fn list_quotas(&self) -> Result<Response, Error> {
        self.digest_everything()?;
        let quotas = self.quotas.lock();
        let mut used = self.metadata.read()?.usages()?;
        for &uid in quotas.limits().keys() {
            used.entry(uid).or_default();
        }
        let of = |uid| quotas.limits().get(&uid).copied().unwrap_or_default();
        let users = used.into_iter().map(|(uid, used)| UserQuota { uid, used, limits: of(uid) });
        Ok(Response::Quotas(users.collect()))
    }

    /// Sets what a user may own at most. From then on every session asks before it goes on.
    pub(super) fn set_quota(&self, uid: u32, limits: Amounts) -> Result<Response, Error> {
        let mut transaction = self.metadata.begin()?;
        transaction.put_limits(uid, limits);
        transaction.commit()?;
        self.quotas.lock().set(uid, limits);
        let core = self.core.lock();
        let shown = self.quotas.lock().shown();
        for session in core.sessions.values() {
            session.control.publish_quotas(shown);
        }
        drop(core);
        // What logs hold was charged to nobody: it is counted now.
        self.digest_everything()?;
        Ok(Response::Done)
    }
}
