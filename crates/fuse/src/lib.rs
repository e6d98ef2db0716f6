//! The FUSE door: a store as a mount that any program sees (DESIGN §2).
//!
//! | file | idea |
//! |---|---|
//! | `abi`, `request`, `answer` | what the kernel and a server write to each other; no I/O |
//! | `device`, `mount`, `life` | the kernel's end; making a mount and taking it away; whether anybody serves one |
//! | `options`, `options_watch` | how a mount is, and that it has become otherwise |
//! | `server` | threads that take requests, as many as are needed |
//! | `root` | what the kernel knows before it has asked for anything |
//! | `serves` | what they have answered them by: the door, or what it is measured beside |
//! | `keeping` | how long the kernel may believe what it was told |
//! | `door` | one request, one call of LibFS |
//!
//! The door is one session of LibFS, like that of any program. There is no file system logic in it: permissions are the
//! kernel's to check (`default_permissions`), and everything else is LibFS's.

pub mod abi;
mod answer;
mod device;
mod door;
mod keeping;
mod life;
mod mount;
mod options;
mod options_watch;
mod request;
mod root;
mod server;
mod serves;

pub use answer::Answer;
pub use device::Device;
pub use keeping::Keeping;
pub use life::{Life, Remains, life};
pub use mount::{KIND, MountError, Mounted, mount, mounts, prepare, remount, unmount};
pub use options::Options;
pub use request::{Arguments, Malformed, Request};
pub use server::{Agreed, ServeError, Server};
pub use serves::{Outcome, Serves};
