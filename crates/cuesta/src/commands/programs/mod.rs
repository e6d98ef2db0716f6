//! Subcommands that bring programs to a store.
//!
//! | file | idea |
//! |---|---|
//! | `doctor.rs` | runs a program, and reports which of its calls were served |
//! | `durability.rs` | the options that say when fsync returns |
//! | `mount.rs` | mounts a store, for every program |
//! | `program.rs` | whether the preload library can be in a program |
//! | `run.rs` | runs a program with the preload library in it |
//! | `unmount.rs` | takes a mount away |
//!
//! The doors themselves are in the crates `preload` and `fuse`.

pub mod doctor;
pub mod durability;
pub mod mount;
pub mod program;
pub mod run;
pub mod unmount;
