//! The client library: POSIX semantics inside the application's process (docs/design/data-path.md).
//!
//! | room | idea |
//! |---|---|
//! | `calls` | the calls, one file or folder for each family: **start here** |
//! | `paths` | from a path to an inode, and whether the caller may |
//! | `open_files` | open file descriptions |
//! | `client` | one session of a process; how an operation runs until it stands |
//! | `leases` | getting leases, losing them, giving them back |
//! | `log` | the log's space and its durability |
//! | `cache` | what is known under leases |
//! | `session` | one attachment to SharedFS: questions, control pages, credit, arenas |
//! | `mapped` | files whose content is a file of the kernel's |
//! | `sharing` | operations that SharedFS performs, calls executed for others |
//! | `mount` | what only a mount needs |
//! | `errno` | every error, and the one table of error numbers |
//!
//! A write goes down this list: `calls::data::write`, then an entry of the log by `client::attempt`, then the
//! overlay in `cache::file_content`. SharedFS digests the log later, and `log::retire` lets go of it.
//!
//! Cached state is the present truth under leases. The log is written for SharedFS and recovery. The library
//! never panics on what SharedFS, a log or an application hands it, and starts no thread. It knows nothing of
//! descriptors, `struct stat` or paths outside the store: those belong to a door.

mod cache;
mod calls;
mod client;
mod errno;
mod leases;
mod log;
mod mapped;
mod mount;
mod open_files;
mod paths;
mod session;
mod sharing;
mod steering;
mod sync;

pub use cache::access_times::{AccessTimes, When};
pub use cache::version::{Tenure, Version};
pub use calls::attributes::values::{SetAttributes, SetTime, Stat};
pub use calls::data::allocation::Allocation;
pub use calls::data::seek::Whence;
pub use calls::extended::attributes::ExtendedFlags;
pub use calls::names::rename_flags::RenameFlags;
pub use client::client::Client;
pub use errno::Error;
pub use mapped::kept_descriptors::Keeper;
pub use mount::calls::Answer;
pub use mount::state::Moment;
pub use open_files::listing::DirectoryItem;
pub use open_files::open_file::OpenFile;
pub use open_files::open_flags::{LARGE_FILE, OPEN_FLAGS, OPENING_FLAGS, UNNAMED};
pub use open_files::passing::PassedFile;
pub use open_files::shared_offset::{HeldOffset, SharedOffset};
pub use paths::access_list::NewMode;
pub use paths::capabilities::{Capabilities, Capability};
pub use paths::confinement::{Confinement, Layer, Rights};
pub use paths::credentials::{Credentials, Writer};
pub use paths::path::LinkSource;
pub use paths::path::Target;
pub use paths::path::{Base, Resolve};
pub use session::link::{Link, LinkError, SocketLink};
pub use session::patience::{RESUME_WAIT, patiently};
pub use sharing::by_number::{Asker, CallByNumber};
pub use sharing::call_tags::{CallingProcess, tagged, while_wanted};
pub use sharing::log_dependencies::behind;
pub use sharing::made_elsewhere::Awaited;
pub use sharing::observed::Observed;
pub use sharing::shipped::{ShippedChange, ShippedFile, Shipper};
