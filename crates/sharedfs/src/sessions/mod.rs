//! Sessions: the attached processes, the segments their logs lie in, and their grants.
//!
//! | file | idea |
//! |---|---|
//! | `table` | the durable table of logs |
//! | `segments` | the pool of segments, and reading a log |
//! | `commit_file` | entries a session waited for on a disk, which its log's own pages may lack |
//! | `marks` | how far each log was acknowledged, as its session says |
//! | `control` | the pages shared with the session |
//! | `epochs` | in optimistic mode, all logs reach the disk as one consistent cut |
//! | `incarnation` | which daemon a session belongs to |
//! | `openers` | which inodes are open |
//! | `session` | one session as the daemon knows it |
//! | `ending` | how a session ends |
//! | `first_calls` | counts of calls of processes without a session |
//! | `lifecycle` | sessions begin, are fenced, end, and are recovered |
//!
//! But for `lifecycle` and `epochs`, no file here knows the open store. None knows what entries mean.

mod commit_file;
mod control;
mod ending;
mod epochs;
mod first_calls;
mod incarnation;
pub(crate) mod lifecycle;
mod marks;
mod openers;
mod segments;
mod session;
mod table;

pub use commit_file::CommitFile;
pub use control::Control;
pub use ending::Ending;
pub(crate) use epochs::{Epochs, Recorded};
pub(crate) use first_calls::FirstCalls;
pub(crate) use incarnation::{Incarnation, PageState};
pub use lifecycle::Recovered;
pub use marks::{MarksFile, MarksRead};
pub(crate) use openers::{Openers, References};
pub use segments::{
    LogFiles, Segment, SegmentPool, copies, make_segment, offsets, open_segment_padded, remove_segment,
};
pub use session::{BatchReport, Presence, Session};
pub use table::{OccupiedSlot, SessionTable, TableRead};
