//! An interval map: ranges of a file, each with a value that knows its own byte positions.
//!
//! | file | idea |
//! |---|---|
//! | `map` | the map: none, one or many pieces |
//! | `chunks` | many pieces, in chunks of bounded length |
//! | `piece` | one piece, and the memory of emptied chunks |
//!
//! The room knows nothing of files or logs.

mod chunks;
mod map;
mod piece;

pub(crate) use map::IntervalMap;
pub(crate) use piece::{Sliding, Spares};
