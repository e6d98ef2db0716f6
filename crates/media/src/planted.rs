//! Bugs that tests plant, to show that the instruments catch them.
//!
//! Without the `record` feature [`active`] is the constant `false` and the places that ask it compile to nothing.

/// A mistake other file systems shipped, which ours can be told to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Bug {
    /// The operation log acknowledges an entry without its fence.
    MissingFence = 1,
    /// The unaligned end of a copy is stored through the cache and never written back.
    UnflushedTail = 2,
    /// Recovery goes on with the log generation it found, so that stale entries validate again.
    ReusedSalt = 3,
    /// A rename over an existing name removes it in one step and moves in a second one.
    RenameInTwoSteps = 4,
    /// A digest commits "digested up to" and its changes in two transactions.
    DigestNotAtomic = 5,
    /// The operation log acknowledges an entry although one reserved before it is not there yet: a hole ends the log.
    EarlyCompletion = 6,
    /// The digest writes over committed blocks what was not acknowledged.
    OverwriteUnacknowledged = 7,
    /// A read answers from what is cached although the lease was lost meanwhile.
    StaleRead = 8,
    /// A fence voids what the log of the fenced session holds instead of digesting it.
    LostUpdate = 9,
    /// A file's mapped mode ends in two steps. With the bug the kernel's file goes before the transaction that does without it.
    MappedEndsEarly = 10,
    /// Content that comes back from a mapped file is stored in the arenas and not written back.
    MappedUnflushed = 11,
    /// A digest commits first, and writes to mapped files then what it has committed.
    MappedAfterCommit = 12,
    /// msync returns and has done nothing; nor has fsync, where the log lies on a disk.
    SyncForgotten = 13,
    /// A daemon voids what the log of a session holds that will come back to it, instead of digesting it.
    LostAtRestart = 14,
    /// The metadata store's journal says that a record counts before the record is there.
    JournalCountsFirst = 15,
    /// A session gives back what its log still speaks of, and that is free at once.
    GivenBackAtOnce = 16,
    /// A session ends, and what its log holds is not digested.
    EndedUndigested = 17,
    /// A digest writes over committed blocks while the log it would be done again from is not on the disk.
    OverwriteUnwritten = 18,
    /// A commit file runs over what it alone holds.
    CommitFileLapped = 19,
    /// Recovery does not look into commit files.
    CommitFileForgotten = 20,
    /// A digest that leaves nothing of a file forgets the calls that made and removed it.
    CallFoldedAway = 21,
    /// Recovery takes each log to its end, whatever it depends on.
    DependenciesForgotten = 22,
    /// fsync does not wait for what the session saw of another log.
    ObservedUnsynced = 23,
    /// A digest commits blocks that a session wrote while the disk may lack them.
    AdoptedUnflushed = 24,
    /// Recovery takes a staged write without a look at its blocks.
    StagedNotCompared = 25,
    /// SharedFS records an epoch before the disk has the logs.
    EpochRecordedEarly = 26,
    /// A session does not log the epoch that it works in.
    EpochUnlogged = 27,
    /// A digest commits while the disks of lower tiers may lack the blocks that it wrote there.
    LowerTierUnwritten = 28,
    /// Recovery takes a staged write without a look at those of its blocks that lie in a lower tier.
    StagedBelowNotCompared = 29,
    /// fsync does not have the disk of the lower tier take the blocks that the session staged there.
    StagedBelowUnsynced = 30,
    /// A migration commits while the disk may lack the copies.
    MigratedUnflushed = 31,
}

impl Bug {
    /// Every bug there is a switch for.
    pub const ALL: [Bug; 31] = [
        Bug::MissingFence,
        Bug::UnflushedTail,
        Bug::ReusedSalt,
        Bug::RenameInTwoSteps,
        Bug::DigestNotAtomic,
        Bug::EarlyCompletion,
        Bug::OverwriteUnacknowledged,
        Bug::StaleRead,
        Bug::LostUpdate,
        Bug::MappedEndsEarly,
        Bug::MappedUnflushed,
        Bug::MappedAfterCommit,
        Bug::SyncForgotten,
        Bug::LostAtRestart,
        Bug::JournalCountsFirst,
        Bug::GivenBackAtOnce,
        Bug::EndedUndigested,
        Bug::OverwriteUnwritten,
        Bug::CommitFileLapped,
        Bug::CommitFileForgotten,
        Bug::CallFoldedAway,
        Bug::DependenciesForgotten,
        Bug::ObservedUnsynced,
        Bug::AdoptedUnflushed,
        Bug::StagedNotCompared,
        Bug::EpochRecordedEarly,
        Bug::EpochUnlogged,
        Bug::LowerTierUnwritten,
        Bug::StagedBelowNotCompared,
        Bug::StagedBelowUnsynced,
        Bug::MigratedUnflushed,
    ];
}

#[cfg(feature = "record")]
static PLANTED: core::sync::atomic::AtomicU8 = core::sync::atomic::AtomicU8::new(0);

/// A moment at which a daemon dies if the test that started it says so: a variable of its environment, as `executed:3` for the
/// third time it comes there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// It was asked for a call that is executed once, and has not begun.
    Unexecuted,
    /// It has executed it, and not answered.
    Executed,
    /// It has digested it as well, and not answered.
    Digested,
}

impl Death {
    /// Where tests say it.
    pub const VARIABLE: &str = "CUESTA_PLANTED_DEATH";
    /// All of them.
    pub const ALL: [Death; 3] = [Death::Unexecuted, Death::Executed, Death::Digested];

    /// Its name there.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Death::Unexecuted => "unexecuted",
            Death::Executed => "executed",
            Death::Digested => "digested",
        }
    }
}

/// Whether this build has the places where bugs and deaths are planted.
pub const CAN_PLANT: bool = cfg!(feature = "record");

/// Whether the process is to die now, at `death`; counts how often it was asked.
#[cfg(feature = "record")]
pub fn is_time_for(death: Death) -> bool {
    use core::sync::atomic::{AtomicU64, Ordering};
    use std::sync::OnceLock;
    static WANTED: OnceLock<Option<(Death, u64)>> = OnceLock::new();
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let wanted = WANTED.get_or_init(|| {
        let said = std::env::var(Death::VARIABLE).ok()?;
        let (name, count) = said.split_once(':')?;
        let death = Death::ALL.into_iter().find(|death| death.name() == name)?;
        Some((death, count.parse().ok()?))
    });
    let is_wanted = wanted.is_some_and(|(wanted, _)| wanted == death);
    is_wanted && wanted.is_some_and(|(_, count)| COUNT.fetch_add(1, Ordering::SeqCst) + 1 == count)
}

/// Never.
#[cfg(not(feature = "record"))]
pub fn is_time_for(_: Death) -> bool {
    false
}

/// Makes the whole process behave with `bug`, or without any.
#[cfg(feature = "record")]
pub fn plant(bug: Option<Bug>) {
    let number = bug.map_or(0, |bug| bug as u8);
    PLANTED.store(number, core::sync::atomic::Ordering::SeqCst);
}

/// Whether `bug` is planted.
#[inline(always)]
pub fn active(bug: Bug) -> bool {
    #[cfg(feature = "record")]
    {
        PLANTED.load(core::sync::atomic::Ordering::Relaxed) == bug as u8
    }
    #[cfg(not(feature = "record"))]
    {
        let _ = bug;
        false
    }
}
