//! Charging quotas within an attempt, and asking SharedFS for more room.
//!
//! An attempt charges the payers before it appends. If it appends nothing, the operation loop gives the
//! charge back. The session asks for room with the gate closed, because then everything that was charged is
//! in the log. The state is in [`crate::session::quotas`].

use crate::client::attempt::Attempt;
use crate::client::client::Client;
use crate::client::halt::Halt;
use crate::errno::{Error, unexpected};
use crate::paths::credentials::Writer;
use crate::session::quotas::Payers;
use cuesta_format::InodeRecord;
use cuesta_format::quota::{Amounts, Payer};
use cuesta_format::wire::{Request, Response};

impl Client {
    /// Whether a payer of what `writer` adds to the file may have a limit.
    pub(crate) fn may_be_limited(&self, record: &InodeRecord, writer: Writer) -> bool {
        let shown = self.session.limits_shown();
        let payers = Payers::of(record, writer.passes_quotas);
        shown != 0 && !self.session.quotas.are_endless(shown, payers)
    }

    /// Asks SharedFS for room of one payer.
    pub(crate) fn make_room_of(&self, payer: Payer, needed: Amounts) -> Result<(), Error> {
        let _closed = self.gate.write();
        let shown = self.session.limits_shown();
        // The question voids the room that SharedFS gave before, whatever the answer is.
        self.session.quotas.forget_payer(payer);
        match self.session.ask(&Request::Room { payer, needed })? {
            Response::Room(left) => {
                self.session.quotas.set_room(payer, shown, left);
                Ok(())
            }
            other => Err(unexpected(&other)),
        }
    }
}

impl Attempt<'_> {
    /// Whether the store has any limit. If not, nothing is charged.
    #[inline]
    pub(crate) fn is_charged(&self) -> bool {
        self.session().limits_shown() != 0
    }

    /// The payers of what `writer` adds to a file; none if the store has no limit.
    #[inline]
    pub(crate) fn payers(&self, record: &InodeRecord, writer: Writer) -> Payers {
        if self.is_charged() { Payers::of(record, writer.passes_quotas) } else { Payers::default() }
    }

    /// Charges `payers` the most that the entry can make them own. Call once in an attempt, before the
    /// append.
    pub(crate) fn charge(&mut self, payers: Payers, amounts: Amounts) -> Result<(), Halt> {
        let session = self.session();
        let shown = session.limits_shown();
        if shown == 0 || amounts == Amounts::NONE || payers.is_empty() {
            return Ok(());
        }
        session.quotas.take(shown, payers, amounts).map_err(|payer| Halt::Room { payer, needed: amounts })?;
        self.charged = Some((payers, amounts));
        Ok(())
    }

    /// Checks that the payers have room for `blocks`, without charging them. Afterwards the client knows
    /// whether they have limits.
    pub(crate) fn check_room(&self, payers: Payers, blocks: u64) -> Result<(), Halt> {
        let session = self.session();
        let (shown, needed) = (session.limits_shown(), Amounts { blocks, inodes: 0 });
        if shown == 0 {
            return Ok(());
        }
        let lacking = session.quotas.find_lacking(shown, payers, needed);
        lacking.map_or(Ok(()), |payer| Err(Halt::Room { payer, needed }))
    }

    /// Keeps the charge although the attempt appends nothing: the blocks exist already.
    pub(crate) fn keep_charge(&mut self) {
        self.charged = None;
    }
}
