//! Mistakes that can be made in code under a model: one at a time, chosen by the environment.
//!
//! Nobody lists them. While a model runs, each ordering stronger than relaxed and each named check it comes by is
//! noted; each is a mistake that could have been made there.

use loom::sync::atomic::Ordering;
use std::collections::BTreeSet;
use std::panic::Location;
use std::sync::{Mutex, MutexGuard, OnceLock};

/// Names the mistake a process makes.
pub(crate) const VARIABLE: &str = "CUESTA_MODEL_MISTAKE";

static NOTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

fn noted() -> MutexGuard<'static, BTreeSet<String>> {
    NOTED.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// All mistakes that the models run so far could have had.
pub(crate) fn all() -> BTreeSet<String> {
    noted().clone()
}

fn made() -> Option<&'static str> {
    static MADE: OnceLock<Option<String>> = OnceLock::new();
    MADE.get_or_init(|| std::env::var(VARIABLE).ok()).as_deref()
}

/// Whether this process makes the mistake, which is noted if it makes none.
fn is_made(mistake: impl Fn() -> String) -> bool {
    match made() {
        Some(made) => made == mistake(),
        None => {
            noted().insert(mistake());
            false
        }
    }
}

/// Whether the check called `name` is to be left out.
pub fn mistake(name: &str) -> bool {
    is_made(|| format!("left out: {name}"))
}

/// The ordering to use where the code says `order`.
pub(crate) fn weakened(order: Ordering, at: &Location<'_>, what: &str) -> Ordering {
    let weaker: &[Ordering] = match order {
        Ordering::Acquire | Ordering::Release => &[Ordering::Relaxed],
        Ordering::AcqRel => &[Ordering::Acquire, Ordering::Release],
        Ordering::SeqCst => &[Ordering::AcqRel],
        _ => &[],
    };
    let place = || format!("{}:{}:{} {what}", at.file(), at.line(), at.column());
    weaker
        .iter()
        .copied()
        .find(|weaker| is_made(|| format!("{}: {weaker:?} for {order:?}", place())))
        .unwrap_or(order)
}
