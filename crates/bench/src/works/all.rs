//! All works, by subject and by name.

use super::work::Work;
use super::{calls, daemon, limits, migration, programs, sharing, tiers, writes};
use crate::curves::table;
use clap::ValueEnum;

/// What works are about, in the order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Subject {
    /// Small synchronous writes, databases, files put in place, large writes.
    Writes,
    /// Single calls.
    Calls,
    /// Programs that are started, and jobs of many.
    Programs,
    /// The daemon after a crash and at rest.
    Daemon,
    /// The hardware alone, and a program beside the digest.
    Limits,
    /// Several processes that share files and directories.
    Sharing,
    /// Stores of several tiers, optimistic mode, and what large writes cost.
    Tiers,
    /// Stores whose fast tier holds a small part of the data.
    Migration,
}

impl Subject {
    /// Its works, in the order of the table.
    pub fn works(self) -> &'static [Work] {
        match self {
            Subject::Writes => writes::WORKS,
            Subject::Calls => calls::WORKS,
            Subject::Programs => programs::WORKS,
            Subject::Daemon => daemon::WORKS,
            Subject::Limits => limits::WORKS,
            Subject::Sharing => sharing::WORKS,
            Subject::Tiers => tiers::WORKS,
            Subject::Migration => migration::WORKS,
        }
    }
}

/// Every work, in the order of the table.
pub fn all() -> impl Iterator<Item = &'static Work> {
    Subject::value_variants().iter().flat_map(|subject| subject.works())
}

/// The work of that name, here or of a curve.
pub fn find(name: &str) -> Option<&'static Work> {
    all().find(|work| work.name == name).or_else(|| table::find(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::name::PeerName;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_found() {
        let names: BTreeSet<_> = all().map(|work| work.name).collect();
        assert_eq!(names.len(), all().count());
        assert!(all().all(|work| find(work.name).is_some()));
        assert!(find("nothing").is_none());
    }

    #[test]
    fn mounts_do_what_has_goals_on_them_or_is_asked_for() {
        let concerned = |name: &str, peer, is_named| find(name).unwrap().concerns(peer, is_named);
        assert!(concerned("calls", PeerName::Null, false) && concerned("untar", PeerName::Bindfs, false));
        assert!(
            !concerned("stream-1m", PeerName::Mount, false) && concerned("stream-1m", PeerName::Mount, true)
        );
        assert!(!concerned("untar", PeerName::Null, true), "it keeps no contents");
        assert!(
            !concerned("mail-4", PeerName::Ext4Ram, false) && concerned("mail-4", PeerName::Ext4Ram, true)
        );
    }

    #[test]
    fn every_work_has_rounds_and_rows() {
        assert!(all().all(|work| work.rounds > 0 && !work.rows.is_empty()));
    }
}
