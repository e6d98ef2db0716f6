//! Single-row commits of the system's SQLite (linked dynamically, untouched), synchronous=FULL.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

use crate::error::BenchError;
use crate::measure::{Budget, Outcome, timed};

const WARM_UP: u64 = 32;

/// How SQLite treats its rollback journal at commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalMode {
    /// Unlinks it.
    Delete,
    /// Zeroes its header.
    Persist,
}

/// A database in one journal mode.
#[derive(Clone, Copy, Debug)]
pub struct Sqlite {
    /// The mode.
    pub journal: JournalMode,
}

impl Sqlite {
    /// Measures in `dir`.
    pub fn run(&self, dir: &Path, time: Duration) -> Result<Outcome, BenchError> {
        let path = dir.join("rows.db");
        let connection = Connection::open(&path)?;
        let mode = match self.journal {
            JournalMode::Delete => "delete",
            JournalMode::Persist => "persist",
        };
        let answered: String =
            connection.query_row(&format!("PRAGMA journal_mode={mode}"), [], |row| row.get(0))?;
        if answered != mode {
            return Err(BenchError::Unusable(format!(
                "SQLite chose the journal mode {answered}, not {mode}"
            )));
        }
        connection.execute_batch(
            "PRAGMA synchronous=FULL; CREATE TABLE rows(id INTEGER PRIMARY KEY, value TEXT NOT NULL)",
        )?;
        let mut insert = connection.prepare("INSERT INTO rows(id, value) VALUES (?1, ?2)")?;
        let value =
            "a row of some hundred bytes, as a program that keeps its state in SQLite would write them";
        let mut next = 1_i64;
        let mut commit = |_| {
            insert.execute((next, value))?;
            next += 1;
            Ok(())
        };
        timed(Budget { time: Duration::MAX, operations: WARM_UP }, &mut commit)?;
        let sustained = timed(Budget { time, operations: u64::MAX }, &mut commit)?;

        drop(insert);
        drop(connection);
        verify(&path, next - 1)?;
        Ok(Outcome::default().with_timed(&sustained))
    }
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
    use crate::measure::Figure;

    #[test]
    fn both_modes_commit_every_row() {
        for journal in [JournalMode::Delete, JournalMode::Persist] {
            let dir = tempfile::tempdir().unwrap();
            let outcome = Sqlite { journal }.run(dir.path(), Duration::from_millis(20)).unwrap();
            assert!(outcome.figures[&Figure::Rate] > 0.0);
            let kept = dir.path().join("rows.db-journal").exists();
            assert_eq!(kept, journal == JournalMode::Persist);
        }
    }

    #[test]
    fn a_missing_row_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        Sqlite { journal: JournalMode::Delete }.run(dir.path(), Duration::from_millis(5)).unwrap();
        let path = dir.path().join("rows.db");
        let rows: i64 = Connection::open(&path)
            .unwrap()
            .query_row("SELECT count(*) FROM rows", [], |row| row.get(0))
            .unwrap();
        verify(&path, rows).unwrap();
        assert!(matches!(verify(&path, rows + 1), Err(BenchError::Corrupt(_))));
    }
}
