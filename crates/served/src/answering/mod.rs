//! The answering end, in the daemon.
//!
//! | file | idea |
//! |---|---|
//! | `accepting.rs` | threads that accept connections and serve them |
//! | `allowed.rs` | the part of a request that a caller may ask for |
//! | `callers.rs` | the connected callers |
//! | `connection.rs` | one process: its identity, its open files, and each of its requests |
//! | `files.rs` | open files, which live as long as a process has their token |
//! | `file_table.rs` | the table of open files, for the next daemon |
//! | `first_calls.rs` | calls of processes that have no session yet |
//! | `peer.rs` | the process at the other end of a socket |
//! | `sending.rs` | descriptors that are on their way to processes |
//! | `server.rs` | the listening socket, and the service's life |
//! | `serving.rs` | the loop of a connection's thread |
//! | `shared.rs` | the session, files and counts that all connections share |
//! | `shipped.rs` | operations that sessions send |
//!
//! LibFS decides about names, rights and contents. The room only says which credentials count.

mod accepting;
pub(crate) mod allowed;
pub(crate) mod callers;
pub(crate) mod connection;
pub(crate) mod file_table;
pub(crate) mod files;
pub(crate) mod first_calls;
pub(crate) mod peer;
pub(crate) mod sending;
pub(crate) mod server;
pub(crate) mod serving;
pub(crate) mod shared;
pub(crate) mod shipped;
