//! SharedFS: the daemon's core, as a library without sockets or threads of its own.
//!
//! The server drives it from threads; the simulator drives it in-process and single-threaded, and finds it
//! deterministic. What LibFS may ask is [`SharedFs::handle`]; everything else is the daemon's own work.
//!
//! | folder | idea | must not know |
//! |---|---|---|
//! | `sessions` | who is attached, where their logs lie | what logs mean |
//! | `leases` | who may cache or change what: a state machine | time, sockets, storage |
//! | `namespace` | what one batch of a log does to inodes and names | where blocks lie |
//! | `digest` | log prefix → new blocks and one metadata transaction | requests, leases |
//! | `tiers` | arenas, free blocks, quarantine, credits | files |
//! | `metadata` | the transactional tree | operations |
//! | `dependencies` | which parts of other logs a log must not survive without | what entries do |
//! | `catching_up` | what changed in directories that sessions change in turns | leases |
//! | `observe` | events and totals | |
//! | `log_losses` | whether a log that breaks off was damaged, and what it lost | what is done about it |
//! | `lost` | what damaged logs lost, until that was told | logs |
//! | `mapped` | files whose content is a file of the kernel's, while programs share mappings of them | |
//! | `quotas`, `quota_trees` | who may own how much, and which sessions were given how much of what is left | paths, but for setting one |
//! | `boot` | whether the machine was started anew since the store was open | |
//! | `callers` | processes without a session: what came of their last calls, and which of them are gone | who executes the calls |
//! | `emulation` | a medium that is played on the store's own | how |
//! | `placement` | on which memory node segments and the arenas' memory are made and taken | how the kernel is asked |
//! | `pace` | what anybody may cause, done a part of the time at most | |
//! | `opening` | which opening of the store this is | what files hold |
//! | `superblocks` | the superblock, twice | what else there is |
//! | `trust` | what is checked of a store's folders before anything in them is believed | what they hold |
//! | `stand_ins` | what the kernel has in the place of pipes and sockets | |
//!
//! Locks, in the order they are taken: the digester, then the core, then the quotas, then the space. The digester is held through
//! a whole batch, and by whoever must see no digest run (a fence, the end of a session). The others
//! are held for moments, never across a log read or a commit. Nothing here waits for a session.

mod attending;
mod boot;
mod callers;
mod catching_up;
pub mod check;
pub mod configuration;
mod creation;
mod damage;
mod dependencies;
mod digest;
mod digesting;
mod emulation;
mod ending;
mod error;
mod idle_memory;
mod kernel_caches;
mod leases;
mod log_losses;
mod lost;
mod mapped;
pub mod metadata;
mod namespace;
mod observe;
mod opening;
mod orphans;
mod pace;
mod passed;
mod paths;
mod placement;
mod quota_trees;
mod quotas;
mod recovery;
mod requests;
pub mod server;
mod sessions;
mod stand_ins;
mod store;
mod superblocks;
mod tiers;
mod tree;
pub mod trust;

pub use configuration::{Options, Ship};
pub use creation::read_superblock;
pub use digest::policy;
pub use ending::Ending;
pub use error::Error;
pub use recovery::Recovered;
pub use sessions::Control;
pub use store::{Progress, SessionHandle, SharedFs};
pub use tiers::{Region, namespace_of_device, release_device, room_on_device, superblock_on_device};
