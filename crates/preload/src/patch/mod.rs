//! Patching the system call instructions of the C library family, once, as the process starts.
//!
//! | file | what it has |
//! |---|---|
//! | `install` | the whole of it, in order |
//! | `site` | one system call instruction |
//! | `binaries` | libraries and programs, as bytes and in memory |
//! | `cache` | sites of library builds, kept between processes |
//! | `copy` | a patched copy of a library, mapped over its text |
//! | `whole` | the patched C library and loader as files of their own |
//! | `provision` | what a loader of ours gives the programs it starts |
//! | `writing` | stubs and jumps written into this process |
//! | `foreign` | programs and libraries outside the C library's family |
//! | `page_map` | pages of a library's text that were written |
//! | `report` | what was done |
//!
//! Programs of the store are given a `whole` file in the place of a library. Other libraries, and the program, seldom make system
//! calls themselves; `foreign` finds those that do. This room knows no call of the store.

pub(crate) mod binaries;
mod cache;
mod copy;
mod foreign;
mod install;
mod page_map;
pub mod provision;
pub(crate) mod report;
pub(crate) mod site;
mod whole;
pub(crate) mod writing;

pub use cache::remembered::{remember_cache, remembered_cache};
pub use cache::sites::{Cache, CacheOnDemand};
pub use cache::tidying::{NOTED_S, now};
pub use foreign::{is_known_without_sites, patch_mapped};
pub use install::install;
pub use report::{Program, Report};
pub use site::{Site, UNKNOWN_NUMBER};
