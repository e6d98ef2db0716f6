//! The FUSE door: a store as a mount that any program sees (docs/design/mount.md).
//!
//! | room | idea |
//! |---|---|
//! | `kernel` | what the kernel and a server write to each other |
//! | `mounting` | making a mount, finding it, changing it, taking it away |
//! | `serving` | threads that take requests, and the rules they go by |
//! | `door` | one request, one call of LibFS |
//!
//! The door is one session of LibFS, like that of any program. There is no file system logic in it: permissions are the
//! kernel's to check (`default_permissions`), and everything else is LibFS's.

mod door;
mod kernel;
mod mounting;
mod serving;

pub use kernel::abi;
pub use kernel::answer::Answer;
pub use kernel::device::Device;
pub use kernel::request::{Arguments, Malformed, Request};
pub use mounting::error::MountError;
pub use mounting::life::{Life, Remains, life};
pub use mounting::list::{KIND, Mounted, mounts};
pub use mounting::mount::{mount, prepare, remount, unmount};
pub use mounting::options::Options;
pub use serving::agreed::Agreed;
pub use serving::keeping::Keeping;
pub use serving::server::{ServeError, Server};
pub use serving::serves::{Outcome, Serves};
