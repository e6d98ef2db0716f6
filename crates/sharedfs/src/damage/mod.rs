//! Damage: losses of a medium or a repair, how people are told of them, and the offline checker.
//!
//! | file | idea |
//! |---|---|
//! | `log_losses` | whether a log that breaks off was damaged, and its losses |
//! | `lost` | losses of damaged logs, kept beside the store until `cuesta fsck --repair` told them |
//! | `untold` | a repair lost something and has not told it: the store stays closed |
//! | `telling` | the daemon's log tells of damaged files and logs |
//! | `told` | which files the daemon's log told of already |
//! | `scrub` | a running daemon reads content against its checksums |
//! | `check` | the offline checker and its repairs |
//!
//! No file here knows leases or sockets.

pub mod check;
mod log_losses;
mod lost;
mod scrub;
mod telling;
mod told;
mod untold;

pub(crate) use log_losses::{BrokenLog, LogLoss};
pub(crate) use lost::{Lines, Lost, forget_all, unreadable};
pub(crate) use told::ToldDamage;
pub(crate) use untold::is_untold;
