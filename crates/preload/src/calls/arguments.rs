//! The files of the store that a call's arguments name.

use crate::call::{Answer, Call, Failure};
use crate::descriptors::{self, Pin};
use crate::process;

impl Call {
    /// The description behind the descriptor at argument `index`.
    #[inline]
    pub fn pin(&self, index: usize) -> Result<Pin, Failure> {
        let fd = self.int(index);
        match descriptors::pin(fd) {
            Some(pin) => Ok(pin),
            // To the application a descriptor of our own does not exist.
            None if descriptors::is_hidden(fd) => Err(Failure::Errno(libc::EBADF)),
            None => Err(Failure::NotOurs),
        }
    }

    /// Counts the call as one of ours that is not served.
    pub fn unserved(&self, errno: i32) -> Answer {
        if let Some(client) = process::attached() {
            client.count_unserved(self.number);
        }
        Err(Failure::Unserved(errno))
    }
}
