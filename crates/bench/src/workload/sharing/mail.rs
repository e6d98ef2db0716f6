//! Processes that deliver mail into one Maildir: a message is made in `tmp`, written, fsynced and renamed into `new`.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::clock::{CallClock, timed_in_each};
use super::warm_up::operations;
use crate::error::{BenchError, Context};
use crate::figures::measure::Outcome;
use crate::workload::pieces::stamp::{Stamped, verify_blocks};

/// One message in so many is read back.
const VERIFIED_EVERY: usize = 97;

/// Deliveries.
#[derive(Clone, Copy, Debug)]
pub struct Mail {
    /// How many processes deliver.
    pub processes: u32,
    /// Bytes of a message.
    pub size: u64,
}

impl Mail {
    /// Measures in `dir`.
    pub fn run(&self, dir: &Path, time: Duration) -> Result<Vec<Outcome>, BenchError> {
        for folder in ["tmp", "new"] {
            std::fs::create_dir(dir.join(folder)).context("making the folders of a Maildir")?;
        }
        let outcomes = timed_in_each(self.processes, time, |number| {
            let mut content = Stamped::new(self.size);
            Ok(move |n, clock: &mut CallClock| deliver(dir, number, n, &mut content, clock))
        })?;
        self.verify(dir, &outcomes.iter().map(operations).collect::<Vec<_>>())?;
        Ok(outcomes)
    }

    /// Checks that every message is in `new`, and nothing in `tmp`; `delivered` has how many came from each process.
    fn verify(&self, dir: &Path, delivered: &[u64]) -> Result<(), BenchError> {
        let count = |folder: &str| std::fs::read_dir(dir.join(folder)).map(Iterator::count);
        let found = (count("tmp").context("listing tmp")?, count("new").context("listing new")?);
        let wanted = (0, delivered.iter().sum::<u64>() as usize);
        if found != wanted {
            return Err(BenchError::Corrupt(format!("{found:?} messages in tmp and new, not {wanted:?}")));
        }
        for (number, &count) in (0..).zip(delivered) {
            for n in (0..count).step_by(VERIFIED_EVERY) {
                let message = File::open(names(dir, number, n).1).context("opening to read back")?;
                verify_blocks(&message, self.size, 1, |_| n)?;
            }
        }
        Ok(())
    }
}

fn deliver(
    dir: &Path,
    number: u32,
    n: u64,
    content: &mut Stamped,
    clock: &mut CallClock,
) -> Result<(), BenchError> {
    let (temporary, message) = names(dir, number, n);
    let mut file = clock.returned(File::create_new(&temporary)).context("create")?;
    clock.returned(file.write_all(content.with(n))).context("write")?;
    clock.returned(file.sync_all()).context("fsync")?;
    drop(file);
    clock.returned(());
    clock.returned(std::fs::rename(&temporary, &message)).context("rename")
}

/// Where message `n` of a process is made, and where it comes to lie.
fn names(dir: &Path, number: u32, n: u64) -> (PathBuf, PathBuf) {
    let name = format!("{number}.{n}");
    (dir.join("tmp").join(&name), dir.join("new").join(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_arrives_and_one_that_does_not_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let mail = Mail { processes: 3, size: 512 };
        let outcomes = mail.run(dir.path(), Duration::from_millis(20)).unwrap();
        let delivered: Vec<u64> = outcomes.iter().map(operations).collect();
        std::fs::remove_file(names(dir.path(), 1, 5).1).unwrap();
        assert!(matches!(mail.verify(dir.path(), &delivered), Err(BenchError::Corrupt(_))));
    }
}
