//! Open file descriptions that a process sends to another: what SharedFS keeps for the receivers, and the
//! memory that all holders share.

use crate::client::client::Client;
use crate::errno::{Error, unexpected};
use crate::sync::Ordering;
use cuesta_format::InodeNumber;
use cuesta_format::wire::{Request, Response};
use rustix::fd::OwnedFd;

/// How many sent descriptions of one session have numbers of their own.
const NUMBERS: u64 = 1 << 28;

/// A sent description, as SharedFS knows it.
#[derive(Debug)]
pub struct PassedFile {
    /// The memory file of the cells.
    pub cells: OwnedFd,
    /// The description's cell in that file.
    pub cell: u32,
    /// The sender's text for receivers; empty for the sender.
    pub description: Vec<u8>,
}

impl Client {
    /// A number for a description that is about to be sent. No other description of this store has or had it.
    pub fn number_to_pass(&self) -> Result<u64, Error> {
        let number = self.next_passed.fetch_add(1, Ordering::Relaxed);
        let first = self.session.welcome.session.0.checked_mul(NUMBERS).filter(|_| number < NUMBERS);
        first.map(|first| first + number).ok_or(Error::NoSpace)
    }

    /// Has SharedFS keep a description of the inode for as long as its number is locked.
    pub fn pass(&self, number: u64, inode: InodeNumber, description: Vec<u8>) -> Result<PassedFile, Error> {
        self.ask_for_passed(&Request::Pass { number, inode, description })
    }

    /// What SharedFS keeps of a received description.
    pub fn passed(&self, number: u64) -> Result<PassedFile, Error> {
        self.ask_for_passed(&Request::Passed { number })
    }

    fn ask_for_passed(&self, request: &Request) -> Result<PassedFile, Error> {
        self.check_alive()?;
        let mut descriptors = Vec::new();
        match self.with_daemon(|| self.session.call(request, &mut descriptors))? {
            Response::Passed { cell, description } => {
                let cells =
                    descriptors.pop().ok_or_else(|| Error::Daemon("a descriptor is missing".into()))?;
                Ok(PassedFile { cells, cell, description })
            }
            other => Err(unexpected(&other)),
        }
    }
}
