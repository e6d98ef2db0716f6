//! The machine that a run happens on.
//!
//! | file | idea |
//! |---|---|
//! | `disk.rs` | what a file system asks of the disk |
//! | `machine.rs` | a description of the machine |
//! | `scratch.rs` | a place for peers that leaves nothing behind |
//!
//! The room does not know peers.

pub mod disk;
pub mod machine;
pub mod scratch;
