//! Serving processes of other users than the store's (docs/design/other-users.md).
//!
//! A process of the daemon's own user, or of root, has a session: it maps the store's memory, and its log is taken at its
//! word. A process of any other user has none. It asks, by a socket of its own, and the daemon does what it asks with
//! the rights the kernel says it has: nothing of the store is ever in its memory but the bytes it was answered.
//!
//! | room | idea |
//! |---|---|
//! | `protocol` | requests and responses, and how they travel over a socket |
//! | `asking` | the asking end, in the process of the other user |
//! | `answering` | the answering end, in the daemon |
//! | `ring` | calls by shared memory, beside the socket |
//! | `shares` | how much of the daemon and of its log each user may have, and has |
//!
//! An open file is named by a *token*, the reading end of a pipe that is made for it. It is a descriptor like any other: it
//! is inherited by fork and exec, and the kernel counts its holders. A holder may use the file; when there is no
//! holder any more, the daemon sees its own end of the pipe break, and closes the file.
//!
//! When the daemon dies, tokens stay as they are. The next daemon opens the files again whose tokens have holders. A
//! process connects anew, shows its tokens, and repeats its unanswered calls. A call that may change something has a number,
//! which lies in the log beside its change: the daemon that finds it there only answers. On a file that is not there any more calls answer
//! EIO.
//!
//! LibFS keeps the rules of names, rights and contents; it does the work here as it does in any
//! process. This crate decides nothing about permissions; it only says which process asks.

mod answering;
mod asking;
mod protocol;
mod ring;
mod shares;

pub use answering::first_calls::FirstCallCounter;
pub use answering::server::{Listener, Server, StartError};
pub use asking::beside::ship_beside;
pub use asking::client::{Client, Holder};
pub use asking::open_file::OpenFile;
pub use asking::shipper::{ByChannel, Channel};
pub use protocol::call::OwnSession;
pub use protocol::messages::{Offset, PathBase, READ_BYTES_MAX, Request, Response, Subject, VERSION};
pub use protocol::once::Once;
pub use shares::limits::Limits;
