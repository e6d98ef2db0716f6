//! The kernel's end: the messages between the kernel and a FUSE server.
//!
//! | file | idea |
//! |---|---|
//! | `abi.rs` | structures and numbers, byte for byte |
//! | `answer.rs` | an answer while it is put together |
//! | `device.rs` | the device: reads requests, writes answers and notices |
//! | `request.rs` | a request: its header, and a reader of the rest |
//!
//! The room does not know what requests mean.

pub mod abi;
pub(crate) mod answer;
pub(crate) mod device;
pub(crate) mod request;
