//! `stat` of an inode by its number, with the [`Tenure`] under which the answer holds.

use crate::cache::inode::next_fill;
use crate::cache::version::Tenure;
use crate::calls::attributes::values::Stat;
use crate::client::client::Client;
use crate::errno::Error;
use crate::paths::credentials::Credentials;
use crate::paths::path::Base;
use cuesta_format::InodeNumber;

impl Client {
    /// `stat` of an inode by its number, and the tenure under which the answer holds.
    pub fn stat_inode(&self, number: InodeNumber) -> Result<(Stat, Tenure), Error> {
        self.operate(|_attempt| {
            let record = self.record_at_path(&Credentials::default(), Base::Inode(number), b"", false)?;
            let tenure = match self.cache.get(number) {
                Some(inode) => {
                    let state = inode.state.read();
                    // Stores through mappings change a file without notice.
                    let is_held = state.lease.is_some() && state.mapped().is_none();
                    if is_held { state.filled } else { next_fill() }
                }
                None => next_fill(),
            };
            Ok((Stat { record }, Tenure(tenure)))
        })
    }
}
