//! Single-row commits of the system's SQLite (linked dynamically, untouched), synchronous=FULL.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

use crate::environment::disk::Asked;
use crate::error::BenchError;
use crate::figures::measure::{Budget, Outcome, timed};
use crate::workload::pieces::members;

const WARM_UP: u64 = 32;

/// How long one that finds the database locked tries again.
const BUSY_LIMIT: Duration = Duration::from_secs(60);

/// How SQLite makes a commit last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalMode {
    /// A rollback journal, unlinked at commit.
    Delete,
    /// A rollback journal with a header that is zeroed at commit.
    Persist,
    /// A write-ahead log with an index that the processes share by a mapping.
    Wal,
}

/// A database in one journal mode.
#[derive(Clone, Copy, Debug)]
pub struct Sqlite {
    /// The mode.
    pub journal: JournalMode,
    /// How many processes commit to it at once.
    pub processes: u32,
}

impl Sqlite {
    /// Measures in `dir`; also the requests to a disk, if one process has it to itself.
    pub fn run(&self, dir: &Path, time: Duration, disk: Option<&Path>) -> Result<Outcome, BenchError> {
        let path = dir.join("rows.db");
        let connection = self.open(&path)?;
        connection.execute_batch("CREATE TABLE rows(id INTEGER PRIMARY KEY, value TEXT NOT NULL)")?;
        if self.processes > 1 {
            drop(connection);
            let outcomes =
                members::timed_in_each(self.processes, WARM_UP, time, |_| committer(self.open(&path)?))?;
            let commits: u64 =
                outcomes.iter().flat_map(|outcome| &outcome.latency).map(|&(_, times)| times).sum();
            verify(&path, (commits + u64::from(self.processes) * WARM_UP) as i64)?;
            return Ok(members::together(&outcomes));
        }
        let mut commits = 0;
        let mut commit_one = committer(connection)?;
        let mut commit = |n| {
            commits += 1;
            commit_one(n)
        };
        timed(Budget { time: Duration::MAX, operations: WARM_UP }, &mut commit)?;
        let before = disk.map(Asked::so_far).transpose()?;
        let sustained = timed(Budget { time, operations: u64::MAX }, &mut commit)?;
        let asked = disk.map(Asked::so_far).transpose()?;
        drop(commit_one);
        verify(&path, commits)?;
        let outcome = Outcome::default().with_timed(&sustained);
        Ok(match before.zip(asked) {
            Some((before, asked)) => asked.told_in(outcome, before, sustained.operations),
            None => outcome,
        })
    }

    fn open(&self, path: &Path) -> Result<Connection, BenchError> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(BUSY_LIMIT)?;
        let mode = match self.journal {
            JournalMode::Delete => "delete",
            JournalMode::Persist => "persist",
            JournalMode::Wal => "wal",
        };
        let answered: String =
            connection.query_row(&format!("PRAGMA journal_mode={mode}"), [], |row| row.get(0))?;
        if answered != mode {
            return Err(BenchError::Unusable(format!(
                "SQLite chose the journal mode {answered}, not {mode}"
            )));
        }
        connection.execute_batch("PRAGMA synchronous=FULL")?;
        Ok(connection)
    }
}

/// Commits one row at each call.
fn committer(connection: Connection) -> Result<impl FnMut(u64) -> Result<(), BenchError>, BenchError> {
    let value = "a row of some hundred bytes, as a program that keeps its state in SQLite would write them";
    Ok(move |_| {
        let mut insert = connection.prepare_cached("INSERT INTO rows(value) VALUES (?1)")?;
        insert.execute((value,))?;
        Ok(())
    })
}

/// Checks, over a new connection, that exactly the rows 1..=`rows` are there.
fn verify(path: &Path, rows: i64) -> Result<(), BenchError> {
    let connection = Connection::open(path)?;
    let integrity: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    if integrity != "ok" {
        return Err(BenchError::Corrupt(format!("integrity_check: {integrity}")));
    }
    let found: (i64, i64, i64) =
        connection.query_row("SELECT count(*), min(id), max(id) FROM rows", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?;
    if found != (rows, 1, rows) {
        return Err(BenchError::Corrupt(format!("rows {found:?} (count, min, max) instead of 1..={rows}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::measure::Figure;

    #[test]
    fn both_modes_commit_every_row() {
        for journal in [JournalMode::Delete, JournalMode::Persist] {
            let dir = tempfile::tempdir().unwrap();
            let outcome =
                Sqlite { journal, processes: 1 }.run(dir.path(), Duration::from_millis(20), None).unwrap();
            assert!(outcome.figures[&Figure::Rate] > 0.0);
            let kept = dir.path().join("rows.db-journal").exists();
            assert_eq!(kept, journal == JournalMode::Persist);
        }
    }

    #[test]
    fn several_commit_to_one_write_ahead_log() {
        let dir = tempfile::tempdir().unwrap();
        let sqlite = Sqlite { journal: JournalMode::Wal, processes: 2 };
        let outcome = sqlite.run(dir.path(), Duration::from_millis(20), None).unwrap();
        assert!(outcome.figures[&Figure::Rate] > 0.0 && outcome.figures[&Figure::Percentile99] > 0.0);
    }

    #[test]
    fn a_missing_row_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        Sqlite { journal: JournalMode::Delete, processes: 1 }
            .run(dir.path(), Duration::from_millis(5), None)
            .unwrap();
        let path = dir.path().join("rows.db");
        let rows: i64 = Connection::open(&path)
            .unwrap()
            .query_row("SELECT count(*) FROM rows", [], |row| row.get(0))
            .unwrap();
        verify(&path, rows).unwrap();
        assert!(matches!(verify(&path, rows + 1), Err(BenchError::Corrupt(_))));
    }
}
