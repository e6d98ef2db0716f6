//! Having a store alone, for commands that people start: a daemon that is just ending is waited for, and that is said.

use crate::messages::output;
use crate::stores::holder;
use crate::stores::store::Store;
use cuesta_sharedfs::server::{LockError, StoreLock};
use cuesta_sharedfs::trust::TrustedStore;
use std::time::{Duration, Instant};

/// A process that has the store for a moment only, or was killed this moment, is waited for without a word.
const GRACE: Duration = Duration::from_millis(500);
/// How long a daemon that is ending may take.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);

/// Takes the store's locks.
pub fn take(store: &Store, trusted: &TrustedStore) -> Result<StoreLock, LockError> {
    let began = Instant::now();
    let mut said = false;
    loop {
        let error = match StoreLock::take(trusted) {
            Err(error @ LockError::Held { .. }) => error,
            outcome => return outcome,
        };
        let LockError::Held { holder } = &error else { return Err(error) };
        let is_ending = holder.parse().is_ok_and(|pid| holder::is_ending(pid, store));
        let limit = if is_ending { PATIENCE } else { GRACE };
        if began.elapsed() >= limit {
            return Err(error);
        }
        if is_ending && !said && began.elapsed() >= GRACE {
            said = true;
            output::complain(&format!(
                "cuesta: {}: process {holder}, which has the store, is ending: waiting up to {} s for it\n",
                store.folder().display(),
                PATIENCE.as_secs()
            ));
        }
        std::thread::sleep(PAUSE);
    }
}
