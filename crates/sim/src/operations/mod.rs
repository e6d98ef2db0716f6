//! Operations: what tests do to a file system, and what it shows afterwards.
//!
//! | file | idea |
//! |---|---|
//! | `generate.rs` | random operations |
//! | `lists.rs` | access control lists |
//! | `operation.rs` | the operations, one call each |
//! | `path_text.rs` | names and paths as tests write them down |
//! | `posix.rs` | operations by plain libc calls |
//! | `random.rs` | the source of chance |
//! | `sparse.rs` | a sparse file in memory |
//! | `tree.rs` | everything a file system shows |
//! | `visitor.rs` | a thread with a root of its own |
//!
//! The room knows nothing of Cuesta.

pub mod generate;
pub mod lists;
pub mod operation;
mod path_text;
pub mod posix;
pub mod random;
pub mod sparse;
pub mod tree;
pub mod visitor;
