//! How much users, groups and directories may own: who has limits, and which sessions were given how much of what is left.
//!
//! What each of them owns is counted in the metadata store, in the transaction of each digest, so exactly; but a write is
//! acknowledged before that. So a session asks for *room* of whom it charges before it does something they will own more
//! by, and goes on without asking while that lasts. The room it has is what it was given last: with the next question
//! everything it did is digested, and so counted, and what it had before is void. A fence voids it, too, on both sides.
//!
//! | | of whoever has limits |
//! |---|---|
//! | limit | at least what is counted, with what sessions have room for |
//! | a session asks | gets what it needs, and a part of what is left then, the less there is the less |
//! | there is not enough | what all sessions did is digested; then the others lose the room they have; then the answer is no |

use crate::metadata::{MetadataError, Snapshot};
use cuesta_format::SessionId;
use cuesta_format::quota::{Amounts, Payer};
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
    limits: BTreeMap<Payer, Amounts>,
    given: HashMap<(SessionId, Payer), Amounts>,
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
    pub(crate) fn limits(&self) -> &BTreeMap<Payer, Amounts> {
        &self.limits
    }

    /// What the metadata store has by now: directories go, and their limits with them.
    pub(crate) fn reread(&mut self, snapshot: &Snapshot) -> Result<(), MetadataError> {
        self.limits = snapshot.limits()?;
        Ok(())
    }

    /// Sets somebody's limits; 0 of something: none.
    pub(crate) fn set(&mut self, payer: Payer, limits: Amounts) {
        if limits == Amounts::NONE {
            self.limits.remove(&payer);
        } else {
            self.limits.insert(payer, limits);
        }
        self.changes += 1;
    }

    /// Gives a session, of which everything is counted in `used`, room for what it needs and some more.
    pub(crate) fn give(
        &mut self,
        session: SessionId,
        payer: Payer,
        used: Amounts,
        needed: Amounts,
    ) -> Option<Amounts> {
        self.given.remove(&(session, payer));
        let Some(limits) = self.limits.get(&payer) else { return Some(Amounts::ENDLESS) };
        let endless = |limit| if limit == 0 { u64::MAX } else { limit };
        let most = Amounts { blocks: endless(limits.blocks), inodes: endless(limits.inodes) };
        let others = self.given.iter().filter(|((_, of), _)| *of == payer);
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
        self.given.insert((session, payer), room);
        Some(room)
    }

    /// Other sessions that have room of theirs.
    pub(crate) fn others(&self, session: SessionId, payer: Payer) -> Vec<SessionId> {
        let others = self.given.keys().filter(|(other, of)| *of == payer && *other != session);
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
    const ANNA: Payer = Payer::User(7);

    fn blocks(blocks: u64) -> Amounts {
        Amounts { blocks, inodes: 0 }
    }

    fn limited(limit: Amounts) -> Quotas {
        let mut quotas = Quotas::default();
        quotas.set(ANNA, limit);
        quotas
    }

    #[test]
    fn no_room_is_given_twice() {
        let mut quotas = limited(Amounts { blocks: 100, inodes: 10 });
        let first = quotas.give(ONE, ANNA, blocks(20), blocks(16)).unwrap();
        assert_eq!(first, Amounts { blocks: 16 + 8, inodes: 1 });
        let second = quotas.give(TWO, ANNA, blocks(20), blocks(40)).unwrap();
        assert!(20 + first.blocks + second.blocks <= 100 && second.blocks >= 40);
        assert_eq!(quotas.give(TWO, ANNA, blocks(20), blocks(57)), None, "the first has some of it");
        assert_eq!(quotas.others(TWO, ANNA), [ONE]);
        quotas.forget(ONE);
        assert_eq!(quotas.give(TWO, ANNA, blocks(20), blocks(80)).map(|room| room.blocks), Some(80));
        assert_eq!(quotas.give(TWO, ANNA, blocks(90), blocks(10)).map(|room| room.blocks), Some(10), "anew");
        assert_eq!(quotas.give(TWO, ANNA, blocks(120), blocks(1)), None, "over the limit already");
    }

    #[test]
    fn what_has_no_limit_is_endless() {
        let mut quotas = limited(blocks(10));
        assert_eq!(quotas.give(ONE, Payer::User(8), blocks(9), blocks(9)), Some(Amounts::ENDLESS));
        let room = quotas.give(ONE, ANNA, Amounts { blocks: 0, inodes: 99 }, blocks(10)).unwrap();
        assert_eq!(room, Amounts { blocks: 10, inodes: u64::MAX });
        assert_eq!(
            quotas.give(TWO, ANNA, blocks(0), Amounts { blocks: 0, inodes: 5 }),
            Some(Amounts { blocks: 0, inodes: u64::MAX })
        );
        let shown = quotas.shown();
        quotas.set(ANNA, Amounts::NONE);
        assert_eq!((shown > 0, quotas.shown()), (true, 0));
        quotas.set(ANNA, blocks(1));
        assert!(quotas.shown() > shown);
    }
}
