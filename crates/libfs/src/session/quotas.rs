//! How much more the users, groups and directories with limits may own, before SharedFS knows of it: the state.
//!
//! The client does not look here while no limit exists in the store. The room of a payer is what SharedFS
//! gave last (`sharedfs::quotas`), less what was charged since. [`crate::client::charges`] charges it.

use crate::sync::Mutex;
use cuesta_format::quota::{Amounts, Payer};
use cuesta_format::{InodeNumber, InodeRecord};
use hashbrown::HashMap;

/// The rooms of this session, by payer.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    rooms: Mutex<HashMap<Payer, Room>>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Stands for the limits under which SharedFS gave the room.
    shown: u64,
    left: Amounts,
}

/// The user, group and directory that pay for one thing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Payers([Option<Payer>; 3]);

impl Payers {
    /// The payers of what belongs to an inode. A process that `passes` quotas does not charge users and
    /// groups; a directory's quota holds for all.
    pub(crate) fn of(record: &InodeRecord, passes: bool) -> Payers {
        let InodeRecord { uid, gid, tree, .. } = *record;
        let tree = (tree != InodeNumber::NONE).then_some(Payer::Tree(tree));
        Payers([(!passes).then_some(Payer::User(uid)), (!passes).then_some(Payer::Group(gid)), tree])
    }

    /// The payers of an inode that gets a new owner or group.
    pub(crate) fn new_owners(uid: Option<u32>, gid: Option<u32>) -> Payers {
        Payers([uid.map(Payer::User), gid.map(Payer::Group), None])
    }

    /// Whether there is no payer.
    pub(crate) fn is_empty(self) -> bool {
        self.iter().next().is_none()
    }

    fn iter(self) -> impl Iterator<Item = Payer> {
        self.0.into_iter().flatten()
    }
}

impl Quotas {
    /// Voids all rooms.
    pub(crate) fn forget(&self) {
        self.rooms.lock().clear();
    }

    /// Voids the room of one payer.
    pub(crate) fn forget_payer(&self, payer: Payer) {
        self.rooms.lock().remove(&payer);
    }

    /// SharedFS gave this payer room under the limits that `shown` stands for.
    pub(crate) fn set_room(&self, payer: Payer, shown: u64, left: Amounts) {
        self.rooms.lock().insert(payer, Room { shown, left });
    }

    /// A payer that has too little room.
    pub(crate) fn find_lacking(&self, shown: u64, payers: Payers, needed: Amounts) -> Option<Payer> {
        Quotas::lacking(&self.rooms.lock(), shown, payers, needed)
    }

    /// A payer that has too little room, in locked rooms.
    fn lacking(rooms: &HashMap<Payer, Room>, shown: u64, payers: Payers, needed: Amounts) -> Option<Payer> {
        let has_room = |payer: &Payer| {
            rooms.get(payer).is_some_and(|room| room.shown == shown && room.left.covers(needed))
        };
        payers.iter().find(|payer| !has_room(payer))
    }

    /// Takes the amounts from the room of each payer, or answers the payer that has too little.
    pub(crate) fn take(&self, shown: u64, payers: Payers, needed: Amounts) -> Result<(), Payer> {
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

    /// Whether the session knows that none of the payers has a limit.
    pub(crate) fn are_endless(&self, shown: u64, payers: Payers) -> bool {
        let rooms = self.rooms.lock();
        let is_endless = |payer| {
            let room: Option<&Room> = rooms.get(&payer);
            room.is_some_and(|room| room.shown == shown && room.left == Amounts::ENDLESS)
        };
        payers.iter().all(is_endless)
    }

    pub(super) fn give_back(&self, payers: Payers, charged: Amounts) {
        let mut rooms = self.rooms.lock();
        for payer in payers.iter() {
            if let Some(room) = rooms.get_mut(&payer) {
                room.left = room.left.plus(charged);
            }
        }
    }
}
