//! Traces of programs, from files of several formats.
//!
//! | file | idea |
//! |---|---|
//! | `trace` | what a trace is |
//! | `format` | finds out the format of a file, and reads it |
//! | `cuesta`, `fio`, `blkparse`, `msr` | one format each |

mod blkparse;
mod cuesta;
mod fio;
pub mod format;
mod msr;
pub mod trace;
