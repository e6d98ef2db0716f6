//! Sessions: who is attached, which segments their logs lie in, what they were granted.
//!
//! | file | idea |
//! |---|---|
//! | `table` | the durable table of logs |
//! | `segments` | the pool of segments, and reading a log |
//! | `control` | the pages shared with the session |
//! | `incarnation` | which daemon a session belongs to |
//! | `openers` | which inodes are open |
//! | `session` | one session as the daemon knows it |

mod control;
mod incarnation;
mod openers;
mod segments;
mod session;
mod table;

pub use control::Control;
pub(crate) use incarnation::Incarnation;
pub(crate) use openers::{Openers, References};
pub use segments::{LogFiles, Segment, SegmentPool, make_segment, open_segment};
pub use session::{BatchReport, Presence, Session};
pub use table::{OccupiedSlot, SessionTable};
