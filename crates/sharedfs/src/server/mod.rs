//! The daemon's ears: the store's lock and socket, one thread a connection, one digest thread.
//!
//! Nothing here knows what a request means. The core stands behind [`Service`], so the tests of
//! this module run without a store, and the simulator runs the core without a socket.
//!
//! | thread | blocks on | does |
//! |---|---|---|
//! | connection | the socket, then its client | hands requests to the service; a hang-up ends the session |
//! | digest | the kicks of all sessions and its clock | digests logs that are due |
//! | prepare | a call, after something ready was taken | makes segments and arenas ready |
//! | write | the kicks of all sessions and its clock | in optimistic mode, has the disk take all logs |
//! | write-back | content of lower tiers below a store in memory | flushes it to their disks |
//! | the caller's | [`Server::wait`] | stops everything in order |
//!
//! | file | idea |
//! |---|---|
//! | `lifetime` | the daemon starts to answer, and stops in order |
//! | `listener`, `accept` | the socket, and the threads that accept connections |
//! | `connection`, `frames` | one client: its messages and their answers |
//! | `nearness` | which processors clients and their connections share |
//! | `digester`, `preparer`, `writer`, `tier_threads` | the threads that digest, prepare, write and migrate |
//! | `service` | the core's part |
//! | `lock` | one daemon for each store |
//! | `stopping` | why the daemon stops |

mod accept;
mod connection;
mod digester;
pub mod frames;
mod lifetime;
mod listener;
mod lock;
mod nearness;
mod preparer;
mod service;
mod stopping;
#[cfg(test)]
mod tests;
mod tier_threads;
mod writer;

pub use lifetime::Server;
pub use listener::{ListenError, Listener};
pub use lock::{LockError, StoreLock, holder_of};
pub use service::{Answer, Attached, Service};
pub use stopping::{Farewell, StopReason, StopSender};
