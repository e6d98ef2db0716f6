//! The operation log: a session's private, ordered record of everything it changed (Strata §3, docs/design/data-path.md).
//!
//! | file | idea |
//! |---|---|
//! | `append` | reserve, copy, seal, fence, complete in order: what LibFS does for each operation |
//! | `order` | whose place is where, and when an entry counts |
//! | `handed_in` | entries that are whole before those in front of them, which another thread may complete |
//! | `commit_file` | where in the file that is written past the kernel's pages a part of the log goes |
//! | `durable` | how far it is on the disk, where that takes a wait, and which thread writes for the others |
//! | `space` | how far the log may be written: admission before any lock |
//! | `acknowledged` | marks that tell damage from a crash: where a session stores them, and where a recovery finds them |
//! | `scan` | reading a log that is not trusted, up to its first break: digest, recovery and fences |
//!
//! Absent are segments, files and sessions (SharedFS grants them), the meaning of operations, and when to
//! digest. A log is a ring of segments; positions only grow, so a position names one byte for ever.
//!
//! What each kind of break means to a scan: *checksum*, *kind*, *length* and *body*: the entry was never
//! acknowledged (a torn or unwritten end), or the medium is damaged, and the prefix ends before it; *position*: an
//! earlier lap shows through, the prefix ends. A break is never an error of the log; whether it is damage the marks say
//! (docs/decisions/0045).

mod acknowledged;
mod append;
mod commit_file;
mod durable;
mod handed_in;
#[cfg(all(test, feature = "model"))]
mod models;
mod order;
mod scan;
mod space;
mod sync;

pub use acknowledged::{Behind, MarkSource, Marks, look_behind};
pub use append::{Appended, Appender, Reservation, Ring, Stamp};
pub use commit_file::commit_file_offset;
pub use durable::LogUnwritten;
pub use scan::{LogSource, ScanStep, Scanner, read_batch};
pub use space::{Admission, LogFull};
