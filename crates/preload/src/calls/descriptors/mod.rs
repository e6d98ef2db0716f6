//! Descriptors of the store, and those that wait for them or carry them.
//!
//! | file | what it has |
//! |---|---|
//! | `control` | `close`, `dup`, `fcntl`, `umask`, limits |
//! | `ioctl` | `ioctl` |
//! | `locks` | `flock` and record locks |
//! | `ready` | `poll`, `select`, `epoll` |
//! | `sockets` | descriptors sent and received by sockets |
//!
//! This room does not know which descriptors are ours: [`crate::descriptors`] does.

pub(crate) mod control;
pub(crate) mod ioctl;
pub(crate) mod locks;
pub(crate) mod ready;
pub(crate) mod sockets;
