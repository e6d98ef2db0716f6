//! A repair that drops something is one whole, however often it is broken off: what it loses is written down before it is
//! lost, beside the store, which no daemon opens until it was told. The next repair goes on where the last one ended, knows
//! whether what programs remember may be lost, too, and tells of everything.
//!
//! The file holds one line for each finding, and is replaced as a whole. A line that begins with [`CONFINED`] is of something
//! no program knows, or only the one whose log it was: sessions of others go on.

use super::Problem;
use crate::Error;
use crate::creation::sync_folder;
use cuesta_format::geometry::REPAIR_FILE;
use std::fs::File;
use std::io::{self, ErrorKind, Write as _};
use std::path::Path;

/// Whether there is something that was not told yet.
pub(crate) fn is_untold(tier: &Path) -> bool {
    tier.join(REPAIR_FILE).exists()
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}

/// What a line begins with that is nothing to the programs that still run.
const CONFINED: &str = "- ";

/// What a repair has lost and nobody was told: as the file has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Losses(Vec<String>);

impl Losses {
    /// Those of a repair that was broken off, if one was.
    pub(super) fn of_earlier(tier: &Path) -> Result<Option<Losses>, Error> {
        match std::fs::read(tier.join(REPAIR_FILE)) {
            Ok(bytes) => {
                Ok(Some(Losses(String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect())))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("read what an earlier repair lost")(error)),
        }
    }

    /// What is to be told.
    pub(super) fn lines(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|line| line.strip_prefix(CONFINED).unwrap_or(line))
    }

    /// Whether what any program remembers may be lost.
    pub(super) fn concern_all(&self) -> bool {
        self.0.iter().any(|line| !line.starts_with(CONFINED))
    }

    /// Adds what is about to be lost, unless it is there already. Durable when this returns.
    pub(super) fn note<'a>(
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

/// The report of a check was told to somebody: what was lost is no news any more, and the store may be opened.
pub fn told(tier: &Path) -> Result<(), Error> {
    match std::fs::remove_file(tier.join(REPAIR_FILE)) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => {
            removed.map_err(Error::io("end a repair"))?;
            sync_folder(tier)
        }
    }
}
