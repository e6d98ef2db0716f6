//! The FUSE door: a store as a mount that any program sees (DESIGN §2).
//!
//! | file | idea |
//! |---|---|
//! | `abi`, `request`, `answer` | what the kernel and a server write to each other; no I/O |
//! | `device`, `ring`, `mount` | the kernel's end, by which requests come; making a mount and taking it away |
//! | `handshake`, `server` | what is agreed on with the kernel; a mount that is served |
//! | `workers`, `wakes`, `processors` | threads that take requests, as many as are needed; where they run |
//! | `serves` | what does what is asked |
//! | `keeping` | how long the kernel may believe what it was told |
//! | `door` | one request, one call of LibFS |
//!
//! The door is one session of LibFS, like that of any program. There is no file system logic in it: permissions are the
//! kernel's to check (`default_permissions`), and everything else is LibFS's.

pub mod abi;
mod answer;
mod device;
mod door;
mod handshake;
mod keeping;
mod mount;
mod processors;
mod request;
mod ring;
mod server;
mod serves;
mod wakes;
mod workers;

pub use answer::Answer;
pub use device::Device;
pub use mount::{KIND, MountError, Mounted, Options, mount, mounts, prepare, unmount};
pub use request::{Arguments, Malformed, Request};
pub use server::{ServeError, Server, Transport};
pub use serves::Serves;

/// Content of one read or write at most.
const CONTENT_BYTES_MAX: usize = 1 << 20;
/// Room in front of content.
const HEAD_BYTES_MAX: usize = 8 << 10;
