//! Room of users who have limits: what they may own more by what this session does, before SharedFS knows of it.
//!
//! Nobody looks here while nobody in the store has a limit. The room of a user is what SharedFS gave last
//! (`sharedfs::quotas`), less what was charged since. It is charged under the lock of the inode whose owner it is, and
//! asked for with the gate closed: then all that was charged is in the log.

use crate::client::{Client, Halt, Turn};
use crate::errno::Error;
use crate::session::{Session, unexpected};
use crate::sync::Mutex;
use cuesta_format::quota::Amounts;
use cuesta_format::wire::{Request, Response};
use hashbrown::HashMap;

/// By user.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    rooms: Mutex<HashMap<u32, Room>>,
}

#[derive(Clone, Copy, Debug)]
struct Room {
    /// Under which limits it was given.
    shown: u64,
    left: Amounts,
}

impl Quotas {
    /// All room is void.
    pub(crate) fn forget(&self) {
        self.rooms.lock().clear();
    }

    fn take(&self, shown: u64, uid: u32, needed: Amounts) -> bool {
        let mut rooms = self.rooms.lock();
        match rooms.get_mut(&uid) {
            Some(room) if room.shown == shown && room.left.covers(needed) => {
                room.left = room.left.minus(needed);
                true
            }
            _ => false,
        }
    }

    fn give_back(&self, uid: u32, charged: Amounts) {
        if let Some(room) = self.rooms.lock().get_mut(&uid) {
            room.left = room.left.plus(charged);
        }
    }
}

impl Session {
    /// Takes back what was charged for an entry that was not appended.
    #[inline]
    pub(crate) fn give_back_charge(&self, charged: Option<(u32, Amounts)>) {
        if let Some((uid, amounts)) = charged {
            self.quotas.give_back(uid, amounts);
        }
    }
}

impl Turn<'_> {
    /// Whether what somebody owns has to be charged to them, whom quotas hold (`passes`: they do not).
    #[inline]
    pub(crate) fn is_charged(&self, passes: bool) -> bool {
        !passes && self.session().limits_shown() != 0
    }

    /// The entry makes a user own so much more at worst. Once in a turn, before it is appended.
    pub(crate) fn charge(&mut self, uid: u32, amounts: Amounts) -> Result<(), Halt> {
        let session = self.session();
        let shown = session.limits_shown();
        if shown == 0 || amounts == Amounts::NONE {
            return Ok(());
        }
        if !session.quotas.take(shown, uid, amounts) {
            return Err(Halt::Room { uid, needed: amounts });
        }
        self.charged = Some((uid, amounts));
        Ok(())
    }
}

impl Client {
    /// Asks for room of a user.
    pub(crate) fn make_room_of(&self, uid: u32, needed: Amounts) -> Result<(), Error> {
        let _closed = self.gate.write();
        let shown = self.session.limits_shown();
        // With the question the room given before is void, whatever the answer.
        self.session.quotas.rooms.lock().remove(&uid);
        match self.session.ask(&Request::Room { uid, needed })? {
            Response::Room(left) => {
                self.session.quotas.rooms.lock().insert(uid, Room { shown, left });
                Ok(())
            }
            other => Err(unexpected(&other)),
        }
    }
}
