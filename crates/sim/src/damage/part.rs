//! The files of a store, by what they are for.

use clap::ValueEnum;

/// The purpose of a file of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
pub enum Part {
    /// The superblock and its copies
    Superblock,
    /// The metadata store and its copies
    Metadata,
    /// The session table
    Sessions,
    /// Log segments and commit files
    Logs,
    /// Arenas: what files hold
    Arenas,
    /// The small files: boot, incarnation, what other users have open, references
    State,
}

impl Part {
    /// All there are.
    pub const ALL: [Part; 6] =
        [Part::Superblock, Part::Metadata, Part::Sessions, Part::Logs, Part::Arenas, Part::State];

    /// The purpose of a file of the tier; `None`: it is not part of the store.
    #[must_use]
    pub fn of(path: &str) -> Option<Part> {
        let (first, rest) = path.split_once('/').unwrap_or((path, ""));
        match first {
            "logs" if !rest.is_empty() => Some(Part::Logs),
            "arenas" if !rest.is_empty() => Some(Part::Arenas),
            _ if first.starts_with("superblock") => Some(Part::Superblock),
            _ if first.starts_with("meta.") => Some(Part::Metadata),
            _ if first.starts_with("sessions") => Some(Part::Sessions),
            _ => Some(Part::State),
        }
    }
}
