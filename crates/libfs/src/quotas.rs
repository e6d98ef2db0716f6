//! Room of those who have limits: what they may own more by what this session does, before SharedFS knows of it.
//!
//! Nobody looks here while nobody in the store has a limit. Somebody's room is what SharedFS gave last
//! (`sharedfs::quotas`), less what was charged since. It is charged within an operation, which gives it back if it
//! appends nothing, and asked for with the gate closed: then all that was charged is in the log.

use crate::client::{Client, Halt, Turn};
use crate::credentials::Writer;
use crate::errno::Error;
use crate::session::{Session, unexpected};
use crate::sync::Mutex;
use cuesta_format::quota::{Amounts, Payer};
use cuesta_format::wire::{Request, Response};
use cuesta_format::{InodeNumber, InodeRecord};
use hashbrown::HashMap;

/// By who is charged.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    rooms: Mutex<HashMap<Payer, Room>>,
}

#[derive(Clone, Copy, Debug)]
struct Room {
    /// Under which limits it was given.
    shown: u64,
    left: Amounts,
}

/// Those who are charged for one thing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Payers([Option<Payer>; 3]);

impl Payers {
    /// For what belongs to an inode. Quotas of users and groups do not hold who `passes` them; those of directories hold
    /// everybody.
    pub(crate) fn of(record: &InodeRecord, passes: bool) -> Payers {
        let InodeRecord { uid, gid, tree, .. } = *record;
        let tree = (tree != InodeNumber::NONE).then_some(Payer::Tree(tree));
        Payers([(!passes).then_some(Payer::User(uid)), (!passes).then_some(Payer::Group(gid)), tree])
    }

    /// For what an inode's new owner and new group get with it.
    pub(crate) fn new_owners(uid: Option<u32>, gid: Option<u32>) -> Payers {
        Payers([uid.map(Payer::User), gid.map(Payer::Group), None])
    }

    /// Whether nobody is charged.
    pub(crate) fn is_empty(self) -> bool {
        self.iter().next().is_none()
    }

    fn iter(self) -> impl Iterator<Item = Payer> {
        self.0.into_iter().flatten()
    }
}

impl Quotas {
    /// All room is void.
    pub(crate) fn forget(&self) {
        self.rooms.lock().clear();
    }

    /// Whose room is too little.
    fn lacking(rooms: &HashMap<Payer, Room>, shown: u64, payers: Payers, needed: Amounts) -> Option<Payer> {
        let has_room = |payer: &Payer| {
            rooms.get(payer).is_some_and(|room| room.shown == shown && room.left.covers(needed))
        };
        payers.iter().find(|payer| !has_room(payer))
    }

    /// Takes it of everybody's room, or says whose is too little.
    fn take(&self, shown: u64, payers: Payers, needed: Amounts) -> Result<(), Payer> {
        let mut rooms = self.rooms.lock();
        if let Some(lacking) = Quotas::lacking(&rooms, shown, payers, needed) {
            return Err(lacking);
        }
        for payer in payers.iter() {
            if let Some(room) = rooms.get_mut(&payer) {
                room.left = room.left.minus(needed);
            }
        }
        Ok(())
    }

    /// Whether it is known that none of them has a limit.
    fn are_endless(&self, shown: u64, payers: Payers) -> bool {
        let rooms = self.rooms.lock();
        let is_endless = |payer| {
            let room: Option<&Room> = rooms.get(&payer);
            room.is_some_and(|room| room.shown == shown && room.left == Amounts::ENDLESS)
        };
        payers.iter().all(is_endless)
    }

    fn give_back(&self, payers: Payers, charged: Amounts) {
        let mut rooms = self.rooms.lock();
        for payer in payers.iter() {
            if let Some(room) = rooms.get_mut(&payer) {
                room.left = room.left.plus(charged);
            }
        }
    }
}

impl Session {
    /// Takes back what was charged for an entry that was not appended.
    #[inline]
    pub(crate) fn give_back_charge(&self, charged: Option<(Payers, Amounts)>) {
        if let Some((payers, amounts)) = charged {
            self.quotas.give_back(payers, amounts);
        }
    }
}

impl Client {
    /// Whether somebody is charged for what `writer` adds to a file who may have a limit.
    pub(crate) fn may_be_limited(&self, record: &InodeRecord, writer: Writer) -> bool {
        let shown = self.session.limits_shown();
        let payers = Payers::of(record, writer.passes_quotas);
        shown != 0 && !self.session.quotas.are_endless(shown, payers)
    }
}

impl Turn<'_> {
    /// Whether anybody has limits, so that what they own more has to be charged to them.
    #[inline]
    pub(crate) fn is_charged(&self) -> bool {
        self.session().limits_shown() != 0
    }

    /// Those whom it is charged to what `writer` adds to a file.
    #[inline]
    pub(crate) fn payers(&self, record: &InodeRecord, writer: Writer) -> Payers {
        if self.is_charged() { Payers::of(record, writer.passes_quotas) } else { Payers::default() }
    }

    /// The entry makes them own so much more at worst. Once in a turn, before it is appended.
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

    /// They could own so many blocks more: for who makes sure of that and keeps nothing. It is known then whether they have
    /// limits.
    pub(crate) fn check_room(&self, payers: Payers, blocks: u64) -> Result<(), Halt> {
        let session = self.session();
        let (shown, needed) = (session.limits_shown(), Amounts { blocks, inodes: 0 });
        if shown == 0 {
            return Ok(());
        }
        let lacking = Quotas::lacking(&session.quotas.rooms.lock(), shown, payers, needed);
        lacking.map_or(Ok(()), |payer| Err(Halt::Room { payer, needed }))
    }

    /// What was charged is there, though nothing was appended: it is not given back.
    pub(crate) fn keep_charge(&mut self) {
        self.charged = None;
    }
}

impl Client {
    /// Asks for room of somebody.
    pub(crate) fn make_room_of(&self, payer: Payer, needed: Amounts) -> Result<(), Error> {
        let _closed = self.gate.write();
        let shown = self.session.limits_shown();
        // With the question the room given before is void, whatever the answer.
        self.session.quotas.rooms.lock().remove(&payer);
        match self.session.ask(&Request::Room { payer, needed })? {
            Response::Room(left) => {
                self.session.quotas.rooms.lock().insert(payer, Room { shown, left });
                Ok(())
            }
            other => Err(unexpected(&other)),
        }
    }
}
