//! How much users may own: who has limits, and which sessions were given how much of what is left.
//!
//! What a user owns is counted in the metadata store, in the transaction of each digest, so exactly; but a write is
//! acknowledged before that. So a session asks for *room* of a user before it does something that user will own more
//! by, and goes on without asking while that lasts. The room it has is what it was given last: with the next question
//! everything it did is digested, and so counted, and what it had before is void. A fence voids it, too, on both sides.
//!
//! | | of a user with limits |
//! |---|---|
//! | limit | at least what is counted, with what sessions have room for |
//! | a session asks | gets what it needs, and a part of what is left then, the less there is the less |
//! | there is not enough | what all sessions did is digested; then the others lose the room they have; then the answer is no |

use crate::metadata::{MetadataError, Snapshot};
use cuesta_format::SessionId;
use cuesta_format::quota::Amounts;
use std::collections::{BTreeMap, HashMap};

/// A session is given this part of what is left beyond what it needs,
const LEFT_PART: u64 = 8;
/// and no more than so many blocks
const BLOCKS_MOST: u64 = 16 << 10;
/// and inodes.
const INODES_MOST: u64 = 4096;

/// The limits, and the room that sessions have.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    limits: BTreeMap<u32, Amounts>,
    given: HashMap<(SessionId, u32), Amounts>,
    changes: u64,
}

impl Quotas {
    /// As the metadata store has them.
    pub(crate) fn open(snapshot: &Snapshot) -> Result<Quotas, MetadataError> {
        let limits = snapshot.limits()?;
        Ok(Quotas { limits, given: HashMap::new(), changes: 1 })
    }

    /// What sessions are shown: a number for these limits, or 0 if there are none.
    pub(crate) fn shown(&self) -> u64 {
        if self.limits.is_empty() { 0 } else { self.changes }
    }

    /// Everybody's limits.
    pub(crate) fn limits(&self) -> &BTreeMap<u32, Amounts> {
        &self.limits
    }

    /// Sets a user's limits; 0 of something: none.
    pub(crate) fn set(&mut self, uid: u32, limits: Amounts) {
        if limits == Amounts::NONE {
            self.limits.remove(&uid);
        } else {
            self.limits.insert(uid, limits);
        }
        self.changes += 1;
    }

    /// Gives a session, of which everything is counted in `used`, room for what it needs and some more.
    pub(crate) fn give(
        &mut self,
        session: SessionId,
        uid: u32,
        used: Amounts,
        needed: Amounts,
    ) -> Option<Amounts> {
        self.given.remove(&(session, uid));
        let Some(limits) = self.limits.get(&uid) else { return Some(Amounts::ENDLESS) };
        let endless = |limit| if limit == 0 { u64::MAX } else { limit };
        let most = Amounts { blocks: endless(limits.blocks), inodes: endless(limits.inodes) };
        let others = self.given.iter().filter(|((_, of), _)| *of == uid);
        let taken = others.fold(used, |taken, (_, &given)| taken.plus(given));
        let left = most.minus(taken);
        if !left.covers(needed) {
            return None;
        }
        let some = |left: u64, needed: u64, most: u64| match left {
            u64::MAX => u64::MAX,
            left => needed + ((left - needed) / LEFT_PART).min(most),
        };
        let room = Amounts {
            blocks: some(left.blocks, needed.blocks, BLOCKS_MOST),
            inodes: some(left.inodes, needed.inodes, INODES_MOST),
        };
        self.given.insert((session, uid), room);
        Some(room)
    }

    /// Other sessions that have room of the user.
    pub(crate) fn others(&self, session: SessionId, uid: u32) -> Vec<SessionId> {
        let others = self.given.keys().filter(|(other, of)| *of == uid && *other != session);
        others.map(|(other, _)| *other).collect()
    }

    /// The session was fenced, or has ended: what it did is counted, and it has no room any more.
    pub(crate) fn forget(&mut self, session: SessionId) {
        self.given.retain(|(of, _), _| *of != session);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: SessionId = SessionId(1);
    const TWO: SessionId = SessionId(2);

    fn blocks(blocks: u64) -> Amounts {
        Amounts { blocks, inodes: 0 }
    }

    fn limited(limit: Amounts) -> Quotas {
        let mut quotas = Quotas::default();
        quotas.set(7, limit);
        quotas
    }

    #[test]
    fn no_room_is_given_twice() {
        let mut quotas = limited(Amounts { blocks: 100, inodes: 10 });
        let first = quotas.give(ONE, 7, blocks(20), blocks(16)).unwrap();
        assert_eq!(first, Amounts { blocks: 16 + 8, inodes: 1 });
        let second = quotas.give(TWO, 7, blocks(20), blocks(40)).unwrap();
        assert!(20 + first.blocks + second.blocks <= 100 && second.blocks >= 40);
        assert_eq!(quotas.give(TWO, 7, blocks(20), blocks(57)), None, "the first has some of it");
        assert_eq!(quotas.others(TWO, 7), [ONE]);
        quotas.forget(ONE);
        assert_eq!(quotas.give(TWO, 7, blocks(20), blocks(80)).map(|room| room.blocks), Some(80));
        assert_eq!(quotas.give(TWO, 7, blocks(90), blocks(10)).map(|room| room.blocks), Some(10), "anew");
        assert_eq!(quotas.give(TWO, 7, blocks(120), blocks(1)), None, "over the limit already");
    }

    #[test]
    fn what_has_no_limit_is_endless() {
        let mut quotas = limited(blocks(10));
        assert_eq!(quotas.give(ONE, 8, blocks(9), blocks(9)), Some(Amounts::ENDLESS));
        let room = quotas.give(ONE, 7, Amounts { blocks: 0, inodes: 99 }, blocks(10)).unwrap();
        assert_eq!(room, Amounts { blocks: 10, inodes: u64::MAX });
        assert_eq!(
            quotas.give(TWO, 7, blocks(0), Amounts { blocks: 0, inodes: 5 }),
            Some(Amounts { blocks: 0, inodes: u64::MAX })
        );
        let shown = quotas.shown();
        quotas.set(7, Amounts::NONE);
        assert_eq!((shown > 0, quotas.shown()), (true, 0));
        quotas.set(7, blocks(1));
        assert!(quotas.shown() > shown);
    }
}
