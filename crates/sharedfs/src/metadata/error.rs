//! Errors of the metadata store.

use crate::metadata::journal::JournalFlaw;
use cuesta_format::InodeNumber;
use cuesta_format::stamp::Misplaced;
use cuesta_media::MediaError;
use std::path::PathBuf;

/// The metadata store could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    /// A store is to be made where one is.
    #[error("{} already exists", .0.display())]
    Exists(PathBuf),
    /// A store is to be opened where none is.
    #[error("{} does not exist", .0.display())]
    Missing(PathBuf),
    /// The file is something else.
    #[error("{} is no metadata store", .0.display())]
    Foreign(PathBuf),
    /// Neither copy is the one that belongs there.
    #[error(
        "{}: {why}. Put the right one back; or cuesta fsck --repair goes on with this one, and loses everything it lacks",
        path.display()
    )]
    Misplaced {
        /// The file.
        path: PathBuf,
        /// How it differs.
        why: Misplaced,
    },
    /// It was written by another version.
    #[error("the metadata store has format version {found}; this cuesta reads version {expected}")]
    Version {
        /// The version found.
        found: u64,
        /// The version this build reads.
        expected: u64,
    },
    /// Its content makes no sense.
    #[error("the metadata store is damaged: {0} (cuesta fsck --repair goes on with what can be read of it)")]
    Damaged(String),
    /// The last commits cannot be read.
    #[error(
        "the journal of the metadata store is damaged: {0} (cuesta fsck --repair drops it from there on)"
    )]
    Journal(JournalFlaw),
    /// An inode that must exist does not.
    #[error("inode {0} is not in the metadata store")]
    NoInode(InodeNumber),
    /// A name that was to be new is there already. Nothing of the transaction was committed.
    #[error("a name that was to be new exists")]
    NameTaken,
    /// The medium is full. Nothing of the transaction was committed, and the next one finds the store as it was before.
    #[error("no room for the metadata store to grow")]
    NoSpace,
    /// An earlier write failed. Every commit is safe, and the store must be opened again.
    #[error("the metadata store refuses to go on after a failed write")]
    Failed,
    /// The daemon has left the store: it is the next one's. Nothing was changed.
    #[error("the store was left: another daemon may have it")]
    Left,
    /// The file could not be mapped or grown.
    #[error(transparent)]
    Media(#[from] MediaError),
    /// The tree could not be read or written.
    #[error("metadata store: {0}")]
    Tree(Box<redb::Error>),
}

impl MetadataError {
    fn from_tree(error: redb::Error) -> MetadataError {
        match error {
            redb::Error::Corrupted(what) => MetadataError::Damaged(what),
            redb::Error::Io(error) if error.kind() == std::io::ErrorKind::StorageFull => {
                MetadataError::NoSpace
            }
            redb::Error::Io(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                MetadataError::Damaged("it points behind its end".into())
            }
            redb::Error::PreviousIo => MetadataError::Failed,
            redb::Error::TableDoesNotExist(table) => {
                MetadataError::Damaged(format!("table {table} is missing"))
            }
            other => MetadataError::Tree(Box::new(other)),
        }
    }
}

macro_rules! from_tree {
    ($($error:ty),*) => {
        $(impl From<$error> for MetadataError {
            fn from(error: $error) -> MetadataError {
                MetadataError::from_tree(error.into())
            }
        })*
    };
}

from_tree!(
    redb::DatabaseError,
    redb::TransactionError,
    redb::TableError,
    redb::StorageError,
    redb::CommitError,
    redb::CursorError
);
