//! The threads that look after lower tiers: one flushes them to their disks below a store in memory, one moves content down,
//! one brings content where it is pinned to.
//!
//! The core says which tiers, and when. A store that has nothing for a thread to do has no such thread.

use super::service::Service;
use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

/// The threads, where the store needs them.
#[derive(Debug)]
pub(super) struct TierThreads {
    writer: Option<JoinHandle<()>>,
    mover: Option<JoinHandle<()>>,
    bringer: Option<JoinHandle<()>>,
}

impl TierThreads {
    /// Starts the threads.
    pub(super) fn start<S: Service>(service: &Arc<S>) -> io::Result<TierThreads> {
        let start = |name: &str, is_needed: bool, work: fn(&S) -> bool| {
            let service = Arc::clone(service);
            let start = || {
                let name = name.to_owned();
                Builder::new().name(name).spawn(move || while work(service.as_ref()) {})
            };
            is_needed.then(start).transpose()
        };
        Ok(TierThreads {
            writer: start("write-back", service.has_tiers_below_memory(), S::write_back_tiers)?,
            mover: start("migrate", service.migrates(), S::migrate_some)?,
            bringer: start("pins", service.has_lower_tiers(), S::bring_pinned)?,
        })
    }

    /// Ends each thread behind the flush or the move that it is at.
    pub(super) fn stop<S: Service>(self, service: &S) {
        service.stop_bringing();
        service.stop_migrating();
        service.stop_writing_back();
        for thread in [self.bringer, self.mover, self.writer].into_iter().flatten() {
            let name = thread.thread().name().unwrap_or_default().to_owned();
            if thread.join().is_err() {
                tracing::error!(thread = name, "a thread had panicked");
            }
        }
    }
}
