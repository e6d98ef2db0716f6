//! Dependencies between logs, on medium `block` ([`cuesta_format::dependency`]).
//!
//! | file | what |
//! |---|---|
//! | `parts` | of each log the longest part that others depend on |
//! | `durable` | before a digest commits, the disk takes the parts of other logs that the batch depends on |
//! | `log_reader` | the entries of one log at rest, of its own pages and its commit file together |
//! | `cut` | rule: how far each log may be recovered, so that nothing survives without what it depends on |
//! | `recovered` | recovery reads all logs and applies that rule |
//!
//! No file here knows what entries do, but for those that name a dependency.

mod cut;
mod durable;
mod log_reader;
mod parts;
mod recovered;

pub(crate) use log_reader::LogReader;
pub(crate) use parts::Dependencies;
