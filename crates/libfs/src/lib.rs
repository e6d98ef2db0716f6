//! The client library: POSIX semantics inside the application's process (DESIGN §§3–6).
//!
//! | file | idea |
//! |---|---|
//! | `client` | how an operation runs until it stands: gate, attempt, generation |
//! | `session`, `asking`, `link`, `credit`, `quotas`, `control`, `arenas` | one attachment: log, requests, credits, room of users, numbers, mapped memory |
//! | `cache`, `inode`, `locked` | what is known under leases, and the order of locks |
//! | `acquiring`, `ahead`, `parcels` | coming by leases, those asked for ahead, and what they brought |
//! | `content`, `interval`, `directory`, `split_table`, `extended_set` | content of a file and of a directory, extended attributes |
//! | `retire`, `resync`, `resume` | letting go of digested log space; going on after a fence, and with another daemon |
//! | `walk`, `credentials`, `capabilities`, `rights`, `confinement`, `whereabouts` | from a path to an inode, and who may; from a directory to its path |
//! | `open_file`, `open_flags`, `opened`, `data`, `allocate`, `namespace`, `rename`, `attributes`, `glance`, `extended`, `access_lists`, `listing` | the calls |
//! | `durability`, `commit_file` | waiting until what was done is durable, and the way there on a disk |
//! | `mapped`, `mapped_descriptors` | files whose content is a file of the kernel's, while programs share mappings of them |
//! | `call_tags` | calls that are executed for others, each exactly once |
//! | `dependencies` | what the log must not survive without, of other logs |
//! | `kernel` | what the kernel may keep of a mount |
//! | `shipping` | operations that SharedFS performs, on files that several sessions change |
//! | `shared_offset` | offsets that other processes share with those a session does calls for |
//! | `programs` | what is executed is not written, and the other way round |
//! | `errno` | every error, and the one table of error numbers |
//!
//! What is cached is the present truth under leases; the log is written for SharedFS and recovery. The library never
//! panics on what SharedFS, a log or an application hands it, starts no thread, and knows nothing of descriptors,
//! `struct stat` or paths outside the store: that is a door's business.

mod access_lists;
mod access_times;
mod accesses;
mod acquiring;
mod ahead;
mod allocate;
mod arenas;
mod asking;
mod attempts;
mod attributes;
mod cache;
mod call_tags;
mod capabilities;
mod client;
mod commit_file;
mod confinement;
mod content;
mod control;
mod credentials;
mod credit;
mod data;
mod debit;
mod dependencies;
mod digests;
mod directory;
mod durability;
mod errno;
mod extended;
mod extended_set;
mod glance;
mod inode;
mod instant;
mod interval;
mod kernel;
mod link;
mod listing;
mod locked;
mod made_elsewhere;
mod mapped;
mod mapped_descriptors;
mod mapped_room;
mod namespace;
mod offset;
mod open_file;
mod open_flags;
mod opened;
mod parcels;
mod passing;
mod programs;
mod quotas;
mod rename;
mod resume;
mod resync;
mod retire;
mod rights;
mod session;
mod shared_offset;
mod shipping;
mod split_table;
mod sync;
mod taken_names;
mod taken_rights;
mod walk;
mod whereabouts;
mod whiteouts;

pub use access_lists::NewMode;
pub use access_times::{AccessTimes, When};
pub use allocate::Allocation;
pub use attributes::{SetAttributes, SetTime, Stat, Target, Tenure, Version};
pub use call_tags::{CallingProcess, tagged, while_wanted};
pub use capabilities::{Capabilities, Capability};
pub use client::Client;
pub use confinement::{Confinement, Layer, Rights};
pub use credentials::{Credentials, Writer};
pub use data::Whence;
pub use dependencies::{Observed, behind};
pub use errno::Error;
pub use extended::ExtendedFlags;
pub use kernel::Moment;
pub use link::{Link, LinkError, SocketLink};
pub use listing::DirectoryItem;
pub use made_elsewhere::Awaited;
pub use mapped_descriptors::Keeper;
pub use namespace::LinkSource;
pub use open_file::OpenFile;
pub use open_flags::{LARGE_FILE, OPEN_FLAGS, OPENING_FLAGS, UNNAMED};
pub use passing::PassedFile;
pub use rename::RenameFlags;
pub use resume::{RESUME_WAIT, patiently};
pub use shared_offset::{HeldOffset, SharedOffset};
pub use shipping::{ShippedChange, ShippedFile, Shipper};
pub use walk::{Base, Resolve};
