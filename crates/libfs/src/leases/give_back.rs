//! Forgetting closed inodes, and giving their leases back to SharedFS.
//!
//! The gate is closed meanwhile. Otherwise SharedFS could take back a lease that another thread has just
//! asked for anew.

use crate::client::client::Client;
use crate::errno::Error;
use crate::sync::Ordering;
use cuesta_format::wire::Request;

impl Client {
    /// Sets how many closed inodes the client caches. It gives the leases on others back as soon as the log
    /// holds nothing of them.
    pub fn limit_cache(&self, inodes_max: usize) {
        self.cache.limit(inodes_max);
    }

    pub(crate) fn forget_some(&self) -> Result<(), Error> {
        let _closed = self.gate.write();
        let inodes =
            self.cache.forget_some(self.session.retired(), |number| self.names_left(number).is_some());
        if inodes.is_empty() {
            return Ok(());
        }
        self.session.given_back.fetch_add(1, Ordering::SeqCst);
        self.session.ask(&Request::GiveBack { inodes }).map(|_| ())
    }
}
