//! What happens before the program's own code runs.
//!
//! | file | what it has |
//! |---|---|
//! | `start` | the constructor |
//! | `environment` | the variables that the program was started with |
//! | `link_maps` | what the dynamic loader remembers, put right |
//! | `handed_over` | a library that the loader got under another name |
//! | `libc_jumps` | functions of libc that are looked up when they are called |
//!
//! This room attaches nothing.

pub(crate) mod environment;
pub(crate) mod handed_over;
pub(crate) mod libc_jumps;
pub(crate) mod link_maps;
pub(crate) mod start;
