//! Which content lies in which tier: policy alone, fed events, without I/O and without a clock.
//!
//! | file | idea |
//! |---|---|
//! | `piece` | what moves, and when things happen |
//! | `policy` | the interface that all policies have |
//! | `kind` | the policies that there are |
//! | `ziggurat` | the content that was written longest ago goes down |
//! | `frequency` | the content that was used only once goes down |
//! | `benefit` | the content whose place saves the least time goes down |
//! | `levels` | when content moves |
//! | `budget` | how much of the time |
//!
//! The daemon and the replay of traces run this code. A policy stands between two tiers: it knows the pieces of the upper one, and those
//! of the lower one that were read lately.

mod benefit;
mod budget;
mod frequency;
mod kind;
mod levels;
mod piece;
mod policy;
mod ziggurat;

pub use budget::{Budget, LONG_WAIT};
pub use kind::Kind;
pub use levels::{Level, low_mark};
pub use piece::{Moment, Piece, Side};
pub use policy::{Choice, Limits, Policy, Standing};
