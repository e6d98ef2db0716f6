//! The programs of other works, by several processes at once: in one directory, or each in its own.

use std::path::Path;
use std::time::Duration;

use crate::error::{BenchError, Context};
use crate::figures::measure::{Figure, Outcome};
use crate::workload::pieces::members;
use crate::workload::pieces::pauses::{CROWDS, SETTLE};
use crate::workload::writes::create::{Create, Saver};

const WARM_UP: u64 = 16;

/// Processes that save files as [`Create`] does, all in one directory, sustained.
#[derive(Clone, Copy, Debug)]
pub struct OneDirectory {
    /// What each of them does.
    pub create: Create,
    /// How many.
    pub processes: u32,
}

impl OneDirectory {
    /// Measures in `dir`.
    pub fn run(&self, dir: &Path, time: Duration) -> Result<Outcome, BenchError> {
        let outcomes = members::timed_in_each(self.processes, WARM_UP, time, |number| {
            let mut saver = Saver::new(self.create, dir, &prefix(number));
            Ok(move |_| saver.save())
        })?;
        for number in 0..self.processes {
            let operations: u64 = outcomes[number as usize].latency.iter().map(|&(_, times)| times).sum();
            Saver::verify(self.create, dir, &prefix(number), WARM_UP + operations)?;
        }
        Ok(members::together(&outcomes))
    }
}

fn prefix(number: u32) -> String {
    format!("process-{number}-")
}

/// One process that saves files in a directory of its own, then two, four and eight, each in its own.
#[derive(Clone, Copy, Debug)]
pub struct OwnDirectories {
    /// What each of them does.
    pub create: Create,
}

impl OwnDirectories {
    /// Measures in `dir`.
    pub fn run(&self, dir: &Path, time: Duration) -> Result<Outcome, BenchError> {
        let mut outcome = Outcome::default();
        let mut of_one = 0.0;
        for (processes, figure) in CROWDS {
            let own = |number: u32| dir.join(format!("{processes}-{number}"));
            for number in 0..processes {
                std::fs::create_dir(own(number)).context("making a directory")?;
            }
            std::thread::sleep(SETTLE);
            let outcomes = members::timed_in_each(processes, WARM_UP, time, |number| {
                let mut saver = Saver::new(self.create, &own(number), "");
                Ok(move |_| saver.save())
            })?;
            let rate = members::together(&outcomes).figures[&Figure::Rate];
            for number in 0..processes {
                let operations: u64 = outcomes[number as usize].latency.iter().map(|&(_, times)| times).sum();
                Saver::verify(self.create, &own(number), "", WARM_UP + operations)?;
                std::fs::remove_dir_all(own(number)).context("removing a directory")?;
            }
            match figure {
                None => {
                    of_one = rate;
                    outcome = outcome.with(Figure::Rate, rate);
                }
                Some(figure) => outcome = outcome.with(figure, rate / of_one),
            }
        }
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREATE: Create = Create { size: 64, live_files: 10 };

    #[test]
    fn all_save_in_one_directory_and_what_is_missing_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let together = OneDirectory { create: CREATE, processes: 3 };
        let outcome = together.run(dir.path(), Duration::from_millis(30)).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 30);
        assert!(outcome.figures[&Figure::Rate] > 0.0 && outcome.figures[&Figure::Percentile99] > 0.0);
        std::fs::remove_file(dir.path().join("process-1-message-0000000")).unwrap();
        assert!(matches!(Saver::verify(CREATE, dir.path(), &prefix(1), 10), Err(BenchError::Corrupt(_))));
    }

    #[test]
    fn each_number_of_processes_is_compared_with_one() {
        let dir = tempfile::tempdir().unwrap();
        let outcome = OwnDirectories { create: CREATE }.run(dir.path(), Duration::from_millis(10)).unwrap();
        let figures: Vec<Figure> = outcome.figures.into_keys().collect();
        assert_eq!(figures, [Figure::Rate, Figure::Two, Figure::Four, Figure::Eight]);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
