//! The records that programs told of before the power went, those that are there afterwards, and the rules for these. No I/O.
//!
//! | rule | why |
//! |---|---|
//! | Of each stream of records a prefix is there. | each log is a prefix |
//! | A record brings along every record, of any program, that had returned before it began. | optimistic mode goes by time |
//! | All records are there that had returned before a dsync began which returned; so are those that a pessimistic session acknowledged. | both wait for the disk |
//! | A record is there that had returned longer before another of its session began than the bound, and a flush, are long. | the session would have waited |
//! | A record is there that had returned before the cut by more than that, and some time for the machine. | the store cuts epochs by itself |

use std::collections::BTreeMap;
use std::fmt;

const NS_PER_MS: u64 = 1_000_000;
/// Clocks of the bound tick in milliseconds, at both of its ends.
const GRAIN_NS: u64 = 2 * NS_PER_MS;
/// For how long a busy machine may keep SharedFS from a processor when the session itself does nothing.
const MACHINE_NS: u64 = 2_000 * NS_PER_MS;

/// One record, or one dsync, as its writer says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The stream, as `turns`.
    pub stream: String,
    /// The session of the store that wrote it.
    pub session: String,
    /// Its number in the stream.
    pub number: u64,
    /// When its first call began, on the monotonic clock,
    pub began_ns: u64,
    /// and when its last one had returned.
    pub returned_ns: u64,
}

impl Record {
    /// Reads `STREAM SESSION NUMBER BEGAN RETURNED`.
    #[must_use]
    pub fn read(line: &str) -> Option<Record> {
        let mut words = line.split(' ');
        let (stream, session) = (words.next()?.to_owned(), words.next()?.to_owned());
        let mut number = || words.next()?.parse().ok();
        Some(Record { stream, session, number: number()?, began_ns: number()?, returned_ns: number()? })
    }
}

/// Calls that wait for the disk.
pub const DSYNC: &str = "dsync";
/// The stream of a session in pessimistic mode.
pub const PESSIMISTIC: &str = "pessimistic";

/// How many records each stream has.
pub type Counts = BTreeMap<String, u64>;

/// A round up to its cut.
#[derive(Clone, Debug, Default)]
pub struct Round {
    /// Records that were there before it.
    pub before: Counts,
    /// The records that programs told of, in any order.
    pub said: Vec<Record>,
    /// When the power went.
    pub cut_ns: u64,
    /// The store's bound.
    pub bound_ns: u64,
    /// How long the disk takes for a cut of the store, at most.
    pub disk_ns: u64,
}

/// The loss of a round, which was allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Survived {
    /// Records that had returned before the power went.
    pub acknowledged: u64,
    /// How many of them are not there.
    pub lost: u64,
    /// How long before the cut the oldest of these had returned.
    pub oldest_lost_ns: u64,
}

/// A record is lost that must be there, or there is one that no program wrote.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// More records than were written.
    #[error("{stream}: {found} records, and at most {written} were written")]
    Invented {
        /// The stream.
        stream: String,
        /// Those there.
        found: u64,
        /// Those written.
        written: u64,
    },
    /// A record of an earlier round.
    #[error("{stream}: {found} records, and {before} had survived an earlier cut")]
    Before {
        /// The stream.
        stream: String,
        /// Those there.
        found: u64,
        /// Those of before.
        before: u64,
    },
    /// A record that had returned.
    #[error("{} {} is lost, which had returned {} before the cut: {why}", .lost.stream, .lost.number, Milliseconds(*.age_ns))]
    Lost {
        /// The record.
        lost: Box<Record>,
        /// For how long it had returned.
        age_ns: u64,
        /// The rule that is broken.
        why: String,
    },
}

struct Milliseconds(u64);

impl fmt::Display for Milliseconds {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:.3} ms", self.0 as f64 / NS_PER_MS as f64)
    }
}

impl Round {
    /// Whether `found` may be what the cut left.
    pub fn verify(&self, found: &Counts) -> Result<Survived, Violation> {
        self.verify_counts(found)?;
        let count = |stream: &str| found.get(stream).copied().unwrap_or(0);
        let records = || self.said.iter().filter(|record| record.stream != DSYNC);
        // A record that returned behind the cut shows nothing: its program ran on a machine without power.
        let returned = |record: &&Record| record.returned_ns < self.cut_ns;
        let (there, lost): (Vec<&Record>, Vec<&Record>) =
            records().filter(returned).partition(|record| record.number < count(&record.stream));
        let must = |is_due: &dyn Fn(&Record) -> bool, why: &dyn Fn(&Record) -> String| match lost
            .iter()
            .find(|record| is_due(record))
        {
            None => Ok(()),
            Some(&record) => Err(Violation::Lost {
                lost: Box::new(record.clone()),
                age_ns: self.cut_ns - record.returned_ns,
                why: why(record),
            }),
        };
        let survivors = records().filter(|record| record.number < count(&record.stream));
        if let Some(last) = survivors.max_by_key(|record| record.began_ns) {
            must(&|record| record.returned_ns < last.began_ns, &|_| {
                format!("{} {} is there, which began later", last.stream, last.number)
            })?;
        }
        let waited = self.said.iter().filter(|record| record.stream == DSYNC).filter(returned);
        if let Some(last) = waited.max_by_key(|dsync| dsync.began_ns) {
            must(&|record| record.returned_ns < last.began_ns, &|_| {
                format!("dsync {} began later and returned", last.number)
            })?;
        }
        must(&|record| record.stream == PESSIMISTIC, &|_| "its fsync waited for the disk".to_owned())?;
        let bound_ns = self.bound_ns + self.disk_ns + GRAIN_NS;
        let mut last_of_session: BTreeMap<&str, u64> = BTreeMap::new();
        for record in there.iter().chain(&lost) {
            let last = last_of_session.entry(&record.session).or_default();
            *last = (*last).max(record.began_ns);
        }
        let last = |record: &Record| last_of_session[record.session.as_str()];
        must(&|record| record.returned_ns + bound_ns < last(record), &|record| {
            let later_ns = last(record) - record.returned_ns;
            format!(
                "its session went on {} later, with a bound of {}",
                Milliseconds(later_ns),
                Milliseconds(bound_ns)
            )
        })?;
        must(&|record| record.returned_ns + bound_ns + MACHINE_NS < self.cut_ns, &|_| {
            format!("with a bound of {}", Milliseconds(bound_ns))
        })?;
        let oldest_lost_ns = lost.iter().map(|record| self.cut_ns - record.returned_ns).max().unwrap_or(0);
        Ok(Survived {
            acknowledged: (there.len() + lost.len()) as u64,
            lost: lost.len() as u64,
            oldest_lost_ns,
        })
    }

    fn verify_counts(&self, found: &Counts) -> Result<(), Violation> {
        for (stream, &before) in &self.before {
            let found = found.get(stream).copied().unwrap_or(0);
            if found < before {
                return Err(Violation::Before { stream: stream.clone(), found, before });
            }
        }
        for (stream, &found) in found {
            let said = self.said.iter().filter(|record| record.stream == *stream);
            let before = self.before.get(stream).copied().unwrap_or(0);
            // The last one may not have been told any more.
            let written = said.map(|record| record.number + 1).max().unwrap_or(before) + 1;
            if found > written {
                return Err(Violation::Invented { stream: stream.clone(), found, written });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = NS_PER_MS;

    /// Records of two sessions of one stream in turns, one a millisecond, up to a cut at 1000 ms.
    fn round() -> Round {
        let record = |number: u64| Record {
            stream: "turns".to_owned(),
            session: format!("turns-{}", number % 2),
            number,
            began_ns: number * MS,
            returned_ns: number * MS + MS / 2,
        };
        let said = (0..1000).map(record).collect();
        Round { before: Counts::new(), said, cut_ns: 1000 * MS, bound_ns: 50 * MS, disk_ns: MS }
    }

    fn said(stream: &str, number: u64, began_ms: u64, returned_ms: u64) -> Record {
        let session = stream.to_owned();
        Record {
            stream: stream.to_owned(),
            session,
            number,
            began_ns: began_ms * MS,
            returned_ns: returned_ms * MS,
        }
    }

    fn found(counts: &[(&str, u64)]) -> Counts {
        counts.iter().map(|&(stream, count)| (stream.to_owned(), count)).collect()
    }

    #[test]
    fn a_prefix_within_the_bound_may_be_left() {
        let survived = round().verify(&found(&[("turns", 960)])).unwrap();
        assert_eq!((survived.acknowledged, survived.lost), (1000, 40));
        assert_eq!(survived.oldest_lost_ns, 40 * MS - MS / 2);
        assert!(round().verify(&found(&[("turns", 1001)])).is_ok());
    }

    #[test]
    fn each_rule_is_told_from_the_others() {
        let why =
            |round: &Round, counts: &[(&str, u64)]| round.verify(&found(counts)).unwrap_err().to_string();
        assert!(why(&round(), &[("turns", 900)]).contains("its session went on 97.500 ms later"));
        assert!(why(&round(), &[("turns", 1002)]).contains("at most 1001 were written"));
        let kept = Round { before: found(&[("db", 7)]), ..round() };
        assert!(why(&kept, &[("turns", 1000), ("db", 6)]).contains("had survived an earlier cut"));
        let mut other = round();
        other.said.push(said("db", 0, 990, 995));
        assert!(why(&other, &[("turns", 970), ("db", 1)]).contains("db 0 is there, which began later"));
        let mut waited = round();
        waited.said.push(said(DSYNC, 0, 990, 995));
        assert!(why(&waited, &[("turns", 970)]).contains("dsync 0 began later and returned"));
        waited.said[1000].returned_ns = waited.cut_ns;
        assert!(waited.verify(&found(&[("turns", 970)])).is_ok());
        let pessimistic = Round { said: vec![said(PESSIMISTIC, 0, 990, 995)], ..round() };
        assert!(why(&pessimistic, &[]).contains("waited for the disk"));
        let idle = Round { said: vec![said("db", 0, 1, 2)], cut_ns: 3000 * MS, ..round() };
        assert!(why(&idle, &[]).contains("which had returned 2998.000 ms before the cut: with a bound"));
    }

    #[test]
    fn records_are_read_from_lines() {
        assert_eq!(Record::read("db db 7 10 20").map(|record| record.number), Some(7));
        assert_eq!(Record::read("db db 7 10"), None);
    }
}
