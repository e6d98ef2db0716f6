//! Calls by shared memory, beside the socket of a connection (decision 56).
//!
//! A ring is a memory file that the daemon makes and both ends map. It has some *lanes*: in each a request of one thread
//! of the client can be in flight, and a thread of the daemon runs it. A request with a descriptor beside it, or longer
//! than a lane, goes by the socket as before.
//!
//! | file | idea |
//! |---|---|
//! | `layout` | where things lie in the memory |
//! | `lane` | the protocol of one lane: which end has the turn, and which end sleeps |
//! | `free` | which lanes the threads of the client have taken |
//! | `policy` | when a ring is made, and how long its ends look and sleep |
//! | `placement` | on which processor the daemon's thread of a lane runs |
//! | `client`, `daemon` | the two ends |
//! | `sync` | where `lane` and `free` have their atomics from |
//! | `models` | what is checked of `lane` and `free` |
//!
//! The socket stays open. The daemon sees the client's death there, and the client the daemon's.

pub(crate) mod client;
pub(crate) mod daemon;
pub(crate) mod free;
mod lane;
mod layout;
#[cfg(all(test, feature = "model"))]
mod models;
mod placement;
mod policy;
mod sync;

pub(crate) use layout::RING_BYTES;
pub(crate) use policy::CALLS_BEFORE_RING;
