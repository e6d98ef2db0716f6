//! The soak: real programs of two users at work on one store for as long as is wished, and anything killed.
//!
//! Ordinary programs (`sqlite3`, `git`, `tar`, `gcc`, LMDB, …) work in *lanes*, each in a place of its own on
//! the store, step by step. The lane's script defines a step (`jobs/`); when it is done, for all the script can know, it says so
//! on a pipe, with a checksum. So the [`manifest`] comes to lie outside the store. Lanes are of the store's user, of
//! another, or of both at once; some only try what they may not.
//!
//! In a round some lanes are at work while programs, process groups and the daemon are killed, stopped and
//! replaced at random moments. At its end everything ends, and all lanes, those of earlier rounds, too, are read again by new
//! processes from a new daemon, and compared with the manifest: acknowledged files are there, removed ones
//! are not, and nothing is there that no job can have made. Programs check themselves as they do (`PRAGMA
//! integrity_check`, `git fsck`, `diff`), and `cuesta fsck` checks the store.
//!
//! | file | idea |
//! |---|---|
//! | [`lanes`] | which programs of which users work where |
//! | `jobs/` | what they do, as scripts |
//! | `job` | one of them at work: a process group, and what it says |
//! | `place` | the store, the installed command, the daemon |
//! | [`manifest`] | what was acknowledged, and what that means for what is found |
//! | [`campaign`] | rounds, faults, re-reading |
//! | `interrupted` | being told to end |
//!
//! The faults follow from the seed; their moments, from the machine. No verdict depends on that.

pub mod campaign;
mod interrupted;
mod job;
pub mod lanes;
pub mod manifest;
mod place;

pub use campaign::{Failure, Soak};
pub use interrupted::Interruption;
pub use place::Installed;
