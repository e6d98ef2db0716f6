//! How much users, groups and directories (*payers*) may own: their limits, and how much of the rest sessions were
//! given.
//!
//! The metadata store counts what each payer owns, in the transaction of each digest, so exactly. But a write is
//! acknowledged before that. So a session asks for *room* of a payer before it does something by which the payer
//! will own more. It goes on without asking while the room lasts. Its room is what it was given last: with the next
//! question everything it did is digested, and so counted, and its earlier room is void. A fence voids it, too, on
//! both sides.
//!
//! | | of a payer with limits |
//! |---|---|
//! | limit | at least the counted amounts and the sessions' room together |
//! | a session asks | gets as much as it needs, and a part of the rest, the less there is the less |
//! | the payer is over a soft limit | a session gets as much as it needs and no more, as long as the grace lasts: the next question is judged anew |
//! | there is not enough | what all sessions did is digested; then the others lose the room they have; then the answer is no |

use crate::metadata::{MetadataError, Snapshot};
use cuesta_format::quota::{Allowance, Amounts, Limits, OverSince, Payer};
use cuesta_format::{SessionId, Timestamp};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A session is given this part of the rest, beyond its needs,
const LEFT_PART: u64 = 8;
/// and no more than so many blocks
const BLOCKS_MOST: u64 = 16 << 10;
/// and inodes.
const INODES_MOST: u64 = 4096;

/// The limits, and the room that sessions have.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    limits: BTreeMap<Payer, Allowance>,
    given: HashMap<(SessionId, Payer), Amounts>,
    /// Since when they are over a soft limit, or no more, is not in the metadata store yet.
    unkept: BTreeSet<Payer>,
    changes: u64,
}

/// Whether a payer within a soft limit may exceed it now: not while other sessions may have room they do not need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beyond {
    NotYet,
    From(Timestamp),
}

/// One thing that a payer owns, and may own; 0: no limit.
#[derive(Clone, Copy, Debug)]
struct Measure {
    taken: u64,
    hard: u64,
    soft: u64,
    grace_seconds: u64,
    since: Option<Timestamp>,
}

fn left(most: u64, taken: u64) -> u64 {
    if most == 0 { u64::MAX } else { most.saturating_sub(taken) }
}

impl Measure {
    /// Since when it is more than the soft limit, if it still is: by a clock that ran ahead then, since `now`.
    fn still_over(&self, now: Timestamp) -> Option<Timestamp> {
        let since = self.since.filter(|_| self.soft > 0 && self.taken > self.soft)?;
        Some(if since.0 > now.0 { now } else { since })
    }

    /// How much of it a session that needs so much may have at once, and since when the soft limit is exceeded
    /// then.
    fn room(
        &self,
        needed: u64,
        most: u64,
        now: Timestamp,
        beyond: Beyond,
    ) -> Option<(u64, Option<Timestamp>)> {
        let (hard, soft) = (left(self.hard, self.taken), left(self.soft, self.taken));
        if hard < needed {
            return None;
        }
        if soft >= needed {
            let room = match hard.min(soft) {
                u64::MAX => u64::MAX,
                left => needed + ((left - needed) / LEFT_PART).min(most),
            };
            return Some((room, self.still_over(now)));
        }
        let since = match (self.still_over(now), beyond) {
            (Some(since), _) | (None, Beyond::From(since)) => since,
            (None, Beyond::NotYet) => return None,
        };
        let elapsed = now.0.saturating_sub(since.0);
        let grace = i64::try_from(self.grace_seconds).unwrap_or(i64::MAX).saturating_mul(NANOSECONDS);
        (elapsed < grace).then_some((needed, Some(since)))
    }
}

const NANOSECONDS: i64 = 1_000_000_000;

/// Blocks and inodes.
fn measures(allowance: &Allowance, taken: Amounts) -> [Measure; 2] {
    let Allowance { limits: Limits { hard, soft, grace_seconds }, over_since } = *allowance;
    let measure = |taken, hard, soft, since| Measure { taken, hard, soft, grace_seconds, since };
    [
        measure(taken.blocks, hard.blocks, soft.blocks, over_since.blocks),
        measure(taken.inodes, hard.inodes, soft.inodes, over_since.inodes),
    ]
}

impl Quotas {
    /// As the metadata store has them.
    pub(crate) fn open(snapshot: &Snapshot) -> Result<Quotas, MetadataError> {
        let limits = snapshot.limits()?;
        Ok(Quotas { limits, changes: 1, ..Quotas::default() })
    }

    /// What sessions are shown: a number for these limits, or 0 if there are none.
    pub(crate) fn shown(&self) -> u64 {
        if self.limits.is_empty() { 0 } else { self.changes }
    }

    /// The limits of all payers.
    pub(crate) fn limits(&self) -> &BTreeMap<Payer, Allowance> {
        &self.limits
    }

    /// Takes the metadata store's limits: directories go, and their limits with them. Since when a payer is
    /// over a soft limit is known here first.
    pub(crate) fn reread(&mut self, snapshot: &Snapshot) -> Result<(), MetadataError> {
        let known = std::mem::replace(&mut self.limits, snapshot.limits()?);
        let limits = &mut self.limits;
        self.unkept.retain(|payer| match (limits.get_mut(payer), known.get(payer)) {
            (Some(allowance), Some(known)) => {
                allowance.over_since = known.over_since;
                true
            }
            _ => false,
        });
        Ok(())
    }

    /// Whether the metadata store has to keep something of a payer's limits, which were as `before`. Until it
    /// does, they are not taken from there.
    pub(crate) fn is_to_keep(&mut self, payer: Payer, before: Option<Allowance>) -> bool {
        let allowance = self.limits.get(&payer).copied();
        if allowance.is_some() && allowance != before {
            self.unkept.insert(payer);
        }
        self.unkept.contains(&payer)
    }

    /// The metadata store has this of a payer now. It may have changed again meanwhile.
    pub(crate) fn note_kept(&mut self, payer: Payer, kept: OverSince) {
        if self.limits.get(&payer).is_none_or(|allowance| allowance.over_since == kept) {
            self.unkept.remove(&payer);
        }
    }

    /// Since when a payer is over soft limits, if the metadata store does not know it.
    pub(crate) fn unkept_since(&self, payer: Payer) -> Option<OverSince> {
        let known = self.limits.get(&payer).filter(|_| self.unkept.contains(&payer));
        known.map(|allowance| allowance.over_since)
    }

    /// Sets a payer's limits. A payer that was over a soft limit before stays so since then.
    pub(crate) fn set(&mut self, payer: Payer, allowance: Option<Allowance>) {
        let unkept = self.unkept_since(payer);
        match allowance {
            Some(allowance) => {
                let over_since = unkept.unwrap_or(allowance.over_since);
                self.limits.insert(payer, Allowance { over_since, ..allowance });
            }
            None => {
                self.limits.remove(&payer);
                self.unkept.remove(&payer);
            }
        }
        self.changes += 1;
    }

    /// Gives a session, of which everything is counted in `used`, room for what it needs and some more.
    pub(crate) fn give(
        &mut self,
        session: SessionId,
        payer: Payer,
        (used, needed): (Amounts, Amounts),
        now: Timestamp,
        beyond: Beyond,
    ) -> Option<Amounts> {
        self.given.remove(&(session, payer));
        let others = self.given.iter().filter(|((_, of), _)| *of == payer);
        let taken = others.fold(used, |taken, (_, &given)| taken.plus(given));
        let Some(allowance) = self.limits.get_mut(&payer) else { return Some(Amounts::ENDLESS) };
        let [blocks, inodes] = measures(allowance, taken);
        allowance.over_since = OverSince { blocks: blocks.still_over(now), inodes: inodes.still_over(now) };
        let (blocks, blocks_since) = blocks.room(needed.blocks, BLOCKS_MOST, now, beyond)?;
        let (inodes, inodes_since) = inodes.room(needed.inodes, INODES_MOST, now, beyond)?;
        allowance.over_since = OverSince { blocks: blocks_since, inodes: inodes_since };
        let room = Amounts { blocks, inodes };
        self.given.insert((session, payer), room);
        Some(room)
    }

    /// Everything is digested, and the payer owns so much. It passes limits without a question of a session, or
    /// owned it before they were set. Room that was given beyond a soft limit puts the payer over it, but that
    /// alone does not begin the grace; nor does room that was given back.
    pub(crate) fn see(&mut self, payer: Payer, used: Amounts, now: Timestamp) {
        let given = self.given.iter().filter(|((_, of), _)| *of == payer);
        let taken = given.fold(used, |taken, (_, &given)| taken.plus(given));
        if let Some(allowance) = self.limits.get_mut(&payer) {
            let since = |[used, taken]: [Measure; 2]| {
                let is_over = used.soft > 0 && used.taken > used.soft;
                taken.still_over(now).or(is_over.then_some(now))
            };
            let [blocks, inodes] = measures(allowance, used);
            let [blocks_taken, inodes_taken] = measures(allowance, taken);
            let over_since =
                OverSince { blocks: since([blocks, blocks_taken]), inodes: since([inodes, inodes_taken]) };
            allowance.over_since = over_since;
        }
    }

    /// Other sessions that have room of theirs.
    pub(crate) fn others(&self, session: SessionId, payer: Payer) -> Vec<SessionId> {
        let others = self.given.keys().filter(|(other, of)| *of == payer && *other != session);
        others.map(|(other, _)| *other).collect()
    }

    /// The session was fenced, or has ended: its operations are counted, and it has no room any more.
    pub(crate) fn forget(&mut self, session: SessionId) {
        self.given.retain(|(of, _), _| *of != session);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::MetadataStore;
    use cuesta_format::Medium;

    const ONE: SessionId = SessionId(1);
    const TWO: SessionId = SessionId(2);
    const ANNA: Payer = Payer::User(7);

    fn blocks(blocks: u64) -> Amounts {
        Amounts { blocks, inodes: 0 }
    }

    const NOW: Timestamp = Timestamp(1_700_000_000 * NANOSECONDS);
    const DAY: i64 = 24 * 60 * 60;

    fn limited(hard: Amounts) -> Quotas {
        with_limits(Limits::hard(hard))
    }

    fn with_limits(limits: Limits) -> Quotas {
        let mut quotas = Quotas::default();
        quotas.set(ANNA, Some(Allowance { limits, ..Allowance::default() }));
        quotas
    }

    fn give(
        quotas: &mut Quotas,
        session: SessionId,
        payer: Payer,
        used: Amounts,
        needed: Amounts,
    ) -> Option<Amounts> {
        quotas.give(session, payer, (used, needed), NOW, Beyond::From(NOW))
    }

    fn since(quotas: &Quotas) -> OverSince {
        quotas.limits()[&ANNA].over_since
    }

    #[test]
    fn a_clock_that_was_ahead_gives_no_longer_grace() {
        let soft = Amounts { blocks: 50, inodes: 0 };
        let mut quotas = with_limits(Limits { soft, ..Limits::hard(blocks(100)) });
        let at = |day: i64| Timestamp(NOW.0 + day * DAY * NANOSECONDS);
        quotas.see(ANNA, blocks(60), at(4000));
        let mut give =
            |day| quotas.give(ONE, ANNA, (blocks(60), blocks(1)), at(day), Beyond::NotYet).is_some();
        assert_eq!([give(0), give(6), give(7)], [true, true, false]);
    }

    #[test]
    fn a_soft_limit_holds_once_the_grace_has_run_out_and_until_less_is_owned() {
        let soft = Amounts { blocks: 50, inodes: 5 };
        let mut quotas = with_limits(Limits { soft, ..Limits::hard(blocks(100)) });
        let at = |day: i64| Timestamp(NOW.0 + day * DAY * NANOSECONDS);
        let mut give = |used, needed, day, beyond| {
            let room = quotas.give(ONE, ANNA, (blocks(used), blocks(needed)), at(day), beyond);
            (room.map(|room| room.blocks), since(&quotas).blocks)
        };
        assert_eq!(give(10, 8, 0, Beyond::NotYet), (Some(8 + 4), None), "room ends at the soft limit");
        assert_eq!(give(45, 10, 0, Beyond::NotYet), (None, None), "others may not need theirs");
        assert_eq!(give(45, 10, 0, Beyond::From(at(0))), (Some(10), Some(at(0))), "no more than is needed");
        assert_eq!(give(55, 10, 3, Beyond::NotYet), (Some(10), Some(at(0))));
        assert_eq!(give(65, 36, 6, Beyond::From(at(6))), (None, Some(at(0))), "the hard limit is one");
        assert_eq!(give(65, 1, 7, Beyond::From(at(7))), (None, Some(at(0))));
        assert_eq!(give(51, 1, 9, Beyond::From(at(9))), (None, Some(at(0))), "still over it");
        assert_eq!(give(51, 0, 9, Beyond::NotYet), (Some(0), Some(at(0))), "what takes nothing goes on");
        assert_eq!(give(50, 0, 9, Beyond::NotYet), (Some(0), None), "no more");
        assert_eq!(give(50, 1, 20, Beyond::From(at(20))), (Some(1), Some(at(20))), "a grace of its own");
    }

    #[test]
    fn a_grace_of_nothing_makes_a_soft_limit_hard_and_each_thing_has_its_own() {
        let soft = Amounts { blocks: 50, inodes: 5 };
        let mut quotas = with_limits(Limits { soft, grace_seconds: 0, ..Limits::NONE });
        let six = Amounts { blocks: 0, inodes: 6 };
        assert_eq!(give(&mut quotas, ONE, ANNA, blocks(10), six), None);
        assert_eq!(give(&mut quotas, ONE, ANNA, blocks(10), blocks(41)), None);
        assert_eq!(since(&quotas), OverSince::default(), "nothing began");
        assert_eq!(give(&mut quotas, ONE, ANNA, six, blocks(40)).map(|room| room.blocks), Some(41));
        quotas.see(ANNA, Amounts { blocks: 50, inodes: 6 }, NOW);
        assert_eq!(since(&quotas), OverSince { blocks: None, inodes: Some(NOW) });
        quotas.see(ANNA, Amounts { blocks: 51, inodes: 6 }, Timestamp(NOW.0 + 5));
        assert_eq!(since(&quotas), OverSince { blocks: Some(Timestamp(NOW.0 + 5)), inodes: Some(NOW) });
        quotas.see(ANNA, Amounts::NONE, NOW);
        assert_eq!(since(&quotas), OverSince::default());
    }

    #[test]
    fn a_change_that_found_no_room_is_kept_later() {
        let soft = Amounts { blocks: 50, inodes: 0 };
        let mut quotas = with_limits(Limits { soft, ..Limits::NONE });
        let of_anna = |quotas: &Quotas| quotas.limits().get(&ANNA).copied();
        let before = of_anna(&quotas);
        assert!(!quotas.is_to_keep(ANNA, before), "nothing changed");
        quotas.see(ANNA, blocks(60), NOW);
        let over = of_anna(&quotas);
        assert!(quotas.is_to_keep(ANNA, before));
        assert!(quotas.is_to_keep(ANNA, over), "it is to be tried again");
        assert_eq!(quotas.unkept_since(ANNA), over.map(|allowance| allowance.over_since));
        quotas.note_kept(ANNA, OverSince::default());
        assert!(quotas.is_to_keep(ANNA, over), "the kept amounts differ");
        quotas.note_kept(ANNA, since(&quotas));
        assert_eq!((quotas.is_to_keep(ANNA, over), quotas.unkept_since(ANNA)), (false, None));
    }

    /// A third session had the limits read again between a change and its commit: the grace was forgotten, and
    /// began anew.
    #[test]
    fn a_grace_that_is_not_committed_yet_outlives_a_look_at_the_limits() {
        let folder = tempfile::tempdir().unwrap();
        let metadata = MetadataStore::create(&folder.path().join("meta"), Medium::Memory).unwrap();
        let put = |limits| {
            let mut transaction = metadata.begin().unwrap();
            transaction.put_limits(ANNA, Some(Allowance { limits, ..Allowance::default() }));
            transaction.commit().unwrap();
        };
        let limits = Limits { soft: Amounts { blocks: 50, inodes: 0 }, ..Limits::NONE };
        put(limits);
        let mut quotas = Quotas::open(&metadata.read().unwrap()).unwrap();
        let before = quotas.limits().get(&ANNA).copied();
        assert!(give(&mut quotas, ONE, ANNA, blocks(50), blocks(10)).is_some());
        let over = OverSince { blocks: Some(NOW), inodes: None };
        assert_eq!((quotas.is_to_keep(ANNA, before), since(&quotas)), (true, over));
        quotas.reread(&metadata.read().unwrap()).unwrap();
        assert_eq!(since(&quotas), over);
        // Others are set, and read before the sessions are told.
        let others = Limits { soft: Amounts { blocks: 40, inodes: 0 }, ..Limits::NONE };
        put(others);
        quotas.reread(&metadata.read().unwrap()).unwrap();
        assert_eq!((since(&quotas), quotas.limits()[&ANNA].limits), (over, others));
        quotas.set(ANNA, Some(Allowance { limits: others, ..Allowance::default() }));
        assert_eq!((since(&quotas), quotas.unkept_since(ANNA)), (over, Some(over)));
    }

    /// A look at what is owned came between the room and its use: the grace began anew with the use.
    #[test]
    fn a_grace_ends_when_its_room_is_given_back_and_not_before() {
        let soft = Amounts { blocks: 50, inodes: 0 };
        let mut quotas = with_limits(Limits { soft, ..Limits::NONE });
        assert!(give(&mut quotas, ONE, ANNA, blocks(50), blocks(10)).is_some());
        let later = Timestamp(NOW.0 + 5);
        quotas.see(ANNA, blocks(50), later);
        assert_eq!(since(&quotas).blocks, Some(NOW), "it may be used at any moment");
        quotas.forget(ONE);
        quotas.see(ANNA, blocks(50), later);
        assert_eq!(since(&quotas).blocks, None);
    }

    #[test]
    fn no_room_is_given_twice() {
        let mut quotas = limited(Amounts { blocks: 100, inodes: 10 });
        let first = give(&mut quotas, ONE, ANNA, blocks(20), blocks(16)).unwrap();
        assert_eq!(first, Amounts { blocks: 16 + 8, inodes: 1 });
        let second = give(&mut quotas, TWO, ANNA, blocks(20), blocks(40)).unwrap();
        assert!(20 + first.blocks + second.blocks <= 100 && second.blocks >= 40);
        assert_eq!(give(&mut quotas, TWO, ANNA, blocks(20), blocks(57)), None, "the first has some of it");
        assert_eq!(quotas.others(TWO, ANNA), [ONE]);
        quotas.forget(ONE);
        assert_eq!(give(&mut quotas, TWO, ANNA, blocks(20), blocks(80)).map(|room| room.blocks), Some(80));
        assert_eq!(
            give(&mut quotas, TWO, ANNA, blocks(90), blocks(10)).map(|room| room.blocks),
            Some(10),
            "anew"
        );
        assert_eq!(give(&mut quotas, TWO, ANNA, blocks(120), blocks(1)), None, "over the limit already");
    }

    #[test]
    fn room_without_a_limit_is_endless() {
        let mut quotas = limited(blocks(10));
        assert_eq!(give(&mut quotas, ONE, Payer::User(8), blocks(9), blocks(9)), Some(Amounts::ENDLESS));
        let room = give(&mut quotas, ONE, ANNA, Amounts { blocks: 0, inodes: 99 }, blocks(10)).unwrap();
        assert_eq!(room, Amounts { blocks: 10, inodes: u64::MAX });
        assert_eq!(
            give(&mut quotas, TWO, ANNA, blocks(0), Amounts { blocks: 0, inodes: 5 }),
            Some(Amounts { blocks: 0, inodes: u64::MAX })
        );
        let shown = quotas.shown();
        quotas.set(ANNA, None);
        assert_eq!((shown > 0, quotas.shown()), (true, 0));
        quotas.set(ANNA, Some(Allowance { limits: Limits::hard(blocks(1)), ..Allowance::default() }));
        assert!(quotas.shown() > shown);
    }
}
