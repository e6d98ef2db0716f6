//! The preload door: an unmodified program's file system calls, served in its own process.
//!
//! Loaded by `LD_PRELOAD`; `cuesta run` sets
//!
//! | variable | meaning |
//! |---|---|
//! | `CUESTA_SOCKET` | the daemon's socket; without it the library does nothing |
//! | `CUESTA_AT` | the prefix that is the store, default `/cuesta` |
//! | `CUESTA_MOUNTED` | the device number of the mount at that prefix, if there is one |
//! | `CUESTA_DURABILITY` | when calls that ask for durability return, default as the store is configured |
//! | `CUESTA_DEVICE` | what `stat` shows as the store's device: of its mount, wherever that is, or its own |
//! | `CUESTA_TABLE` | what the program before exec left (see `inheritance`) |
//! | `CUESTA_DOCTOR` | where calls are counted by what became of them (see `counting`) |
//! | `CUESTA_PATCH` | `all` patches every site, for tests of the patcher; `report` says what was done |
//!
//! ```text
//!   patched site ─┐
//!   libc symbol ──┴─► door ──► calls (by family) ──► store ──► LibFS, or SharedFS by a socket
//! ```
//!
//! | room | what it has |
//! |---|---|
//! | `arch` | the processor: entry code, system calls, finding and rewriting sites |
//! | `patch` | patching the C library family as the process starts |
//! | `interpose` | symbols in the place of libc's hottest functions |
//! | `starting` | the constructor |
//! | `call` | one intercepted call, and the filter's tables |
//! | `door` | from an intercepted call to its answer |
//! | `calls` | the system call table, and what each call means to LibFS |
//! | `descriptors` | which descriptors are ours, and what is behind them |
//! | `process` | the session, attaching, forks, exec, the end |
//! | `thread` | the application's threads: state, signals, stacks, the gate of forks |
//! | `users` | credentials, confinement, other users |
//! | `memory` | this library's memory, and reads of the application's |
//! | `store` | the session or SharedFS, with the same calls |
//!
//! No file system logic lives here: `libfs` has it.

pub mod arch;
mod call;
pub mod calls;
pub mod descriptors;
pub mod door;
pub mod interpose;
mod memory;
pub mod patch;
pub mod process;
mod starting;
mod store;
pub mod thread;
mod users;
