//! SharedFS: the daemon's core, as a library without sockets or threads of its own.
//!
//! The server drives it from threads; the simulator drives it in-process and single-threaded, and finds it
//! deterministic. LibFS asks through [`SharedFs::handle`]; everything else is the daemon's own work.
//!
//! An operation goes through the rooms in this order. A session has a lease and logs the operation. The digest
//! applies it to the namespace, places its content in the tiers, and commits it to the metadata.
//!
//! | room | idea | must not know |
//! |---|---|---|
//! | `server` | socket and threads of the daemon | what a request means |
//! | `requests` | answers to LibFS and to the command | sockets |
//! | `sessions` | attached processes, where their logs lie, how they begin, are fenced and end | what entries mean |
//! | `leases` | which session may cache or change what: a state machine | time, sockets, storage |
//! | `digest` | log prefix → new blocks and one metadata transaction | requests; the open store, but for its driver |
//! | `namespace` | what one batch of a log does to inodes and names | where blocks lie, transactions |
//! | `tiers` | arenas, free blocks, quarantine, credits | files |
//! | `metadata` | the transactional tree | operations |
//! | `quotas` | how much users, groups and directories may own | paths, but for setting one |
//! | `kernel` | what the kernel keeps: caches of mounts, mapped files, pipes, passed descriptors | what logs mean |
//! | `damage` | what was lost, how it is told, and the offline checker | leases, sockets |
//! | `background` | work that no request waits for | when it runs |
//! | `store` | an open store's state; how it is made, opened and closed; configuration and trust | |
//!
//! Locks, in the order they are taken: the digester, then the core, then the quotas, then the space. A batch holds the digester
//! from its start to its end. So does all that must see no digest run: a fence, the end of a session. The others
//! are held for moments, never across a log read or a commit. Nothing here waits for a session.

mod background;
mod damage;
mod digest;
mod error;
mod kernel;
mod leases;
pub mod metadata;
mod namespace;
mod quotas;
mod requests;
pub mod server;
mod sessions;
mod store;
mod tiers;

pub use damage::check;
pub use digest::driver::Progress;
pub use digest::policy;
pub use error::Error;
pub use sessions::{Control, Ending, Recovered};
pub use store::{Options, SessionHandle, SharedFs, Ship, configuration, read_superblock, trust};
pub use tiers::{
    LowerTier, LowerTierError, Region, create_lower_tier, is_empty_disk, namespace_of_device, release_device,
    remove_lower_tier, room_on_device, room_on_disk, superblock_on_device,
};
