//! The protocol: the requests of a process, and how a message travels over the socket.
//!
//! | file | idea |
//! |---|---|
//! | `call.rs` | a request, and the number it is sent with |
//! | `frames.rs` | messages over the socket, with one descriptor beside each |
//! | `messages.rs` | requests and responses |
//! | `once.rs` | the number by which a call is executed exactly once |
//!
//! The room does not know how a request is performed.

pub(crate) mod call;
pub(crate) mod frames;
pub(crate) mod messages;
pub(crate) mod once;
