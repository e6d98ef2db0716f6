//! The report of a run.
//!
//! | file | idea |
//! |---|---|
//! | `json.rs` | writing a report as JSON |
//! | `lines.rs` | from outcomes to lines |
//! | `table.rs` | the report as text |
//!
//! The room measures nothing.

pub mod json;
pub mod lines;
pub mod table;
