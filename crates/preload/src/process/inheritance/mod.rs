//! The inheritance that a program leaves to the one it executes.
//!
//! | file | what it has |
//! |---|---|
//! | `table` | the table: its text, written and read |
//! | `written` | a table that was written, and waits for the exec |
//!
//! This room does not know how a program is executed.

pub(crate) mod table;
pub(crate) mod written;
