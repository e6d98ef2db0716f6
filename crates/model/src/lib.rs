//! Running lock-free code under a model checker, and showing that the model would notice a mistake in it.
//!
//! A crate with such code takes atomics, locks and waiting from one `sync` module of its own; with its feature `model`
//! that module hands on the types here instead of the machine's. They are loom's: a model is run once for every way its
//! threads can interleave and for every value a load may see under the memory model of C11, not only under that of
//! the processor at hand.
//!
//! Why: decision 8.
//!
//! | file | idea |
//! |---|---|
//! | `atomics`, `lock`, `waiting`, `cell` | what stands in for the machine's |
//! | `mistake` | the mistakes that can be made: every ordering a step weaker, every check that is named dropped |
//! | `check` | running a model; making each mistake in turn and telling which ones no model notices |
#![cfg(feature = "loom")]

mod atomics;
mod cell;
mod check;
mod lock;
mod mistake;
mod waiting;

pub use atomics::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
pub use cell::Racy;
pub use check::{explore, unnoticed_mistakes};
pub use lock::{Mutex, MutexGuard};
pub use loom::sync::Arc;
pub use loom::thread;
pub use mistake::mistake;
pub use waiting::{Futex, yield_now};
