//! The write-back thread: below a store in memory it flushes lower tiers to their disks.
//!
//! The core says which tiers, and when. A store without such tiers has no such thread.

use super::service::Service;
use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

/// The thread, where the store needs one.
#[derive(Debug)]
pub(super) struct TierWriter(Option<JoinHandle<()>>);

impl TierWriter {
    /// Starts the thread.
    pub(super) fn start<S: Service>(service: &Arc<S>) -> io::Result<TierWriter> {
        if !service.has_tiers_below_memory() {
            return Ok(TierWriter(None));
        }
        let service = Arc::clone(service);
        let thread =
            Builder::new().name("write-back".into()).spawn(move || while service.write_back_tiers() {})?;
        Ok(TierWriter(Some(thread)))
    }

    /// Ends the thread after its current flush.
    pub(super) fn stop<S: Service>(self, service: &S) {
        let Some(thread) = self.0 else { return };
        service.stop_writing_back();
        if thread.join().is_err() {
            tracing::error!("the write-back thread had panicked");
        }
    }
}
