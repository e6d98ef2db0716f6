//! Rule: how far each log may be recovered.
//!
//! Each log ends where the crash broke it off. An entry that depends on a longer part of another log than there is
//! must not survive, nor may the entries behind it, nor those that depend on them. The rest is the longest prefix
//! of each log such that no entry depends on a lost one.
//! No acknowledged entry is lost by that: an fsync returns once all that its log depends on is on the disk.

use cuesta_format::{LogDependency, LogGeneration, LogPosition, SessionId};

/// A log as recovery finds it.
#[derive(Clone, Debug)]
pub(crate) struct FoundLog {
    pub(crate) session: SessionId,
    pub(crate) generation: LogGeneration,
    /// Where its valid entries end.
    pub(crate) end: LogPosition,
    /// It lost entries that were acknowledged: what depends on them stays, and the loss is told.
    pub(crate) is_damaged: bool,
    /// Where each entry with a dependency starts.
    pub(crate) dependencies: Vec<(LogPosition, LogDependency)>,
}

/// Where each log ends for recovery.
pub(crate) fn consistent_cut(logs: &[FoundLog]) -> Vec<LogPosition> {
    let mut cuts: Vec<LogPosition> = logs.iter().map(|log| log.end).collect();
    loop {
        let mut moved = false;
        for (index, log) in logs.iter().enumerate() {
            let lacks = |dependency: &LogDependency| !survives(dependency, logs, &cuts);
            let first = log.dependencies.iter().find(|(_, dependency)| lacks(dependency));
            if let Some(&(start, _)) = first
                && start < cuts[index]
                && !log.is_damaged
            {
                cuts[index] = start;
                moved = true;
            }
        }
        if !moved {
            return cuts;
        }
    }
}

/// Whether a part of a log survives, if the logs end at `cuts`.
fn survives(part: &LogDependency, logs: &[FoundLog], cuts: &[LogPosition]) -> bool {
    // A session that is over, and a generation that is, are in the shared area with all they had.
    let log = logs.iter().zip(cuts).find(|(log, _)| log.session == part.session);
    log.is_none_or(|(log, cut)| log.generation != part.generation || log.is_damaged || *cut >= part.position)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(session: u64, position: u64) -> LogDependency {
        let generation = LogGeneration(1);
        LogDependency { session: SessionId(session), generation, position: LogPosition(position) }
    }

    fn log(session: u64, end: u64, dependencies: &[(u64, LogDependency)]) -> FoundLog {
        FoundLog {
            session: SessionId(session),
            generation: LogGeneration(1),
            end: LogPosition(end),
            is_damaged: false,
            dependencies: dependencies.iter().map(|&(at, part)| (LogPosition(at), part)).collect(),
        }
    }

    fn cuts(logs: &[FoundLog]) -> Vec<u64> {
        consistent_cut(logs).into_iter().map(|cut| cut.0).collect()
    }

    #[test]
    fn logs_whose_dependencies_are_there_stay_whole() {
        assert_eq!(cuts(&[]), []);
        assert_eq!(cuts(&[log(1, 640, &[(64, on(2, 128))]), log(2, 128, &[])]), [640, 128]);
        let over = [log(1, 640, &[(64, on(9, 1 << 40))])];
        assert_eq!(cuts(&over), [640], "a session that is over has lost nothing");
        let mut renewed = [log(1, 640, &[(64, on(2, 512))]), log(2, 128, &[])];
        renewed[1].generation = LogGeneration(2);
        assert_eq!(cuts(&renewed), [640, 128], "nor has a generation that is over");
    }

    #[test]
    fn an_entry_goes_with_its_dependency_and_so_do_those_behind_it() {
        let logs = [log(1, 640, &[(64, on(2, 128)), (256, on(2, 512))]), log(2, 384, &[])];
        assert_eq!(cuts(&logs), [256, 384]);
    }

    /// SharedFS's log (1) has an operation of session 2 behind what that lost, and session 3 saw its effect.
    #[test]
    fn a_loss_goes_on_through_other_logs() {
        let logs = [
            log(1, 1024, &[(128, on(2, 256)), (512, on(2, 320))]),
            log(2, 256, &[(192, on(1, 128))]),
            log(3, 640, &[(64, on(1, 512)), (320, on(1, 640))]),
        ];
        assert_eq!(cuts(&logs), [512, 256, 320]);
    }

    #[test]
    fn two_logs_that_go_back_and_forth_stay_up_to_the_last_step_that_is_there() {
        let there = |at: u64| (at, on(2, at));
        let back = |at: u64| (at, on(1, at));
        let first: Vec<_> = (1..10).map(|turn| there(turn * 128)).collect();
        let second: Vec<_> = (1..10).map(|turn| back(turn * 128 - 64)).collect();
        assert_eq!(cuts(&[log(1, 1280, &first), log(2, 600, &second)]), [640, 600]);
    }

    #[test]
    fn an_entry_that_depends_on_a_damaged_log_is_kept() {
        let mut logs = [log(1, 640, &[(64, on(2, 512))]), log(2, 128, &[(64, on(3, 64))]), log(3, 0, &[])];
        logs[1].is_damaged = true;
        assert_eq!(cuts(&logs), [640, 128, 0]);
    }
}
