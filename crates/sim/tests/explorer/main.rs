//! The crash explorer, on a toy log and on the real store.
//!
//! This is a slice that takes a minute or two; `make explore` runs all of it. `CUESTA_SIM_SEED` chooses another slice
//! and other states, `CUESTA_SIM_KEEP=1` leaves the files of a failure behind.

mod complete;
mod crashes;
mod linearizability;
mod planted;
mod toy_log;

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Bugs are planted in the whole process: a test that does so runs alone.
static PLANTING: RwLock<()> = RwLock::new(());

fn without_bugs() -> RwLockReadGuard<'static, ()> {
    PLANTING.read().unwrap_or_else(PoisonError::into_inner)
}

fn planting() -> RwLockWriteGuard<'static, ()> {
    PLANTING.write().unwrap_or_else(PoisonError::into_inner)
}

fn seed() -> u64 {
    std::env::var("CUESTA_SIM_SEED").map_or(1, |seed| seed.parse().expect("CUESTA_SIM_SEED is a number"))
}
