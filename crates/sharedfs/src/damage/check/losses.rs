//! Losses of a repair. A repair is one whole, however often it is broken off: before it loses something it writes
//! that down beside the store, and no daemon opens the store until it was told. The next repair goes on where the
//! last one ended and tells of everything. It also knows whether programs may remember lost state.
//!
//! The file holds one line for each finding, and is replaced as a whole. A line that begins with [`CONFINED`] is of something
//! that no program knows, or only the program whose log it was: sessions of others go on.

use super::problem::Problem;
use crate::Error;
use crate::store::sync_folder;
use cuesta_format::geometry::REPAIR_FILE;
use std::fs::File;
use std::io::{self, ErrorKind, Write as _};
use std::path::Path;

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}

/// The beginning of a line that is nothing to the programs that still run.
const CONFINED: &str = "- ";

/// Losses of a repair that were not told: as the file has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Losses(Vec<String>);

impl Losses {
    /// Those of a repair that was broken off, if one was.
    pub(crate) fn of_earlier(tier: &Path) -> Result<Option<Losses>, Error> {
        match std::fs::read(tier.join(REPAIR_FILE)) {
            Ok(bytes) => {
                Ok(Some(Losses(String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect())))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("read what an earlier repair lost")(error)),
        }
    }

    /// The lines to be told.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|line| line.strip_prefix(CONFINED).unwrap_or(line))
    }

    /// Whether what any program remembers may be lost.
    pub(crate) fn concern_all(&self) -> bool {
        self.0.iter().any(|line| !line.starts_with(CONFINED))
    }

    /// Adds what is about to be lost, unless it is there already. Durable when this returns.
    pub(crate) fn note<'a>(
        &mut self,
        tier: &Path,
        lost: impl Iterator<Item = &'a Problem>,
    ) -> Result<(), Error> {
        for problem in lost {
            let start = if problem.is_loss() { "" } else { CONFINED };
            let line = format!("{start}{problem}").replace('\n', " ");
            if !self.0.contains(&line) {
                self.0.push(line);
            }
        }
        let text: String = self.0.iter().flat_map(|line| [line, "\n"]).collect();
        let unfinished = tier.join(format!("{REPAIR_FILE}.new"));
        let written = File::create(&unfinished).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&unfinished, tier.join(REPAIR_FILE))
        });
        match written {
            Err(error) if is_full(&error) => Err(Error::NoSpace),
            written => written.map_err(Error::io("write down what a repair loses")),
        }?;
        sync_folder(tier)
    }
}
