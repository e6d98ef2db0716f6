//! Serving processes of other users than the store's (DESIGN §9).
//!
//! A process of the daemon's own user, or of root, has a session: it maps the store's memory, and its log is taken at its
//! word. A process of any other user has none. It asks, by a socket of its own, and the daemon does what it asks with
//! the rights the kernel says it has: nothing of the store is ever in its memory but the bytes it was answered.
//!
//! | file | idea |
//! |---|---|
//! | `protocol` | what may be asked: calls, on paths and on open files |
//! | `frames` | messages over the socket, one descriptor beside them |
//! | `ring` | calls by shared memory, beside the socket |
//! | `asking` | how a call gets its answer, from one daemon or the next |
//! | `content` | bytes between the application's memory and messages |
//! | `client`, `open_file` | the asking end, in the process of the other user |
//! | `server` | the answering end: sockets, threads, limits |
//! | `serving` | the thread of a connection |
//! | `connection` | one process: who it is, what it has open, and what each request does |
//! | `call`, `callers` | calls that are executed exactly once, whichever daemons they are asked of |
//! | `files` | open files, which live as long as any process has their token |
//! | `shipped` | operations that sessions send, on files that several of them change: both ends |
//! | `sending` | descriptors that are on their way to processes |
//! | `limits`, `accounts`, `complaints` | how much of the daemon and of its log each user may have, and has |
//! | `kept` | what is known of them, where the next daemon finds it |
//!
//! An open file is named by a *token*, the reading end of a pipe that is made for it. It is a descriptor like any other: it
//! is inherited by fork and exec, and the kernel counts who has it. Whoever holds it may use the file; when nobody
//! does any more, the daemon sees its own end of the pipe break, and closes the file.
//!
//! When the daemon dies, tokens stay what they are. The next one has the files open again that somebody holds tokens of; a
//! process connects anew, shows its tokens, and asks again what it was not answered. A call that may change something has a number,
//! which lies in the log beside what it did: the daemon that finds it there only answers. On a file that is not there any more calls answer
//! EIO.
//!
//! What must hold of names, rights and contents is LibFS's to see to, which does the work here as it does in any
//! process. Nothing here decides about permissions, but who asks.

mod accounts;
mod asking;
mod call;
mod callers;
mod client;
mod complaints;
mod connection;
mod content;
mod files;
mod frames;
mod kept;
mod limits;
mod open_file;
mod peer;
mod protocol;
mod ring;
mod sending;
mod server;
mod serving;
mod shipped;

pub use call::{Once, OwnSession};
pub use client::{Client, Holder};
pub use limits::Limits;
pub use open_file::OpenFile;
pub use protocol::{Offset, Place, READ_BYTES_MAX, Request, Response, Subject, VERSION};
pub use server::{Listener, Server, StartError};
