//! Data that the threads of a program share inside the preload door, as far as it takes no ordinary lock: kept apart from
//! system calls, signals and files, so that a model checker can run it.
//!
//! | file | idea |
//! |---|---|
//! | `pool` | counted references to values whose memory is only ever reused for such values |
//! | `table` | which value is behind a number: looked up without a lock, changed in turns |
//! | `gate` | keeping everybody out for a moment, at no cost for those who pass |
//! | `generation_lock` | a lock that a fork breaks |
//! | `sync` | where all of these have atomics, locks and barriers from |
//! | `models` | what is checked of them |

mod gate;
mod generation_lock;
#[cfg(all(test, feature = "model"))]
mod models;
mod pool;
mod sync;
mod table;

pub use gate::{Closed, Gate, Inside};
pub use generation_lock::{GenerationGuard, GenerationLock, after_fork};
pub use pool::{Pin, Pool};
pub use table::{EntryChange, Table};
