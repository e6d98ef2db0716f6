//! What can go wrong in a benchmark, said in one line each.

use std::io;
use std::time::Duration;

/// A failure of the benchmark, or of one work in it.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A call of ours failed.
    #[error("{what}: {source}")]
    Io {
        /// The action that failed.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// SQLite answered an error.
    #[error("sqlite: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// A child ended badly; its last words are kept.
    #[error("{what} ended with {status}: {words}")]
    Child {
        /// Which child.
        what: String,
        /// How it ended.
        status: String,
        /// The last line it said.
        words: String,
    },
    /// A child did not come to an end.
    #[error("{what} was still busy after {after:?} and was killed")]
    TimedOut {
        /// Which child.
        what: String,
        /// How long it was given.
        after: Duration,
    },
    /// The bytes read back are not the ones written.
    #[error("read back wrong data: {0}")]
    Corrupt(String),
    /// Something the user asked for cannot be had.
    #[error("{0}")]
    Unusable(String),
    /// Ctrl-C, or a polite kill.
    #[error("interrupted")]
    Interrupted,
}

/// Names the step an I/O error came from.
pub trait Context<T> {
    /// Adds `what` to the error.
    fn context(self, what: impl Into<String>) -> Result<T, BenchError>;
}

impl<T, E: Into<io::Error>> Context<T> for Result<T, E> {
    fn context(self, what: impl Into<String>) -> Result<T, BenchError> {
        self.map_err(|source| BenchError::Io { what: what.into(), source: source.into() })
    }
}
