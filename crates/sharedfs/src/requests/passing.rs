//! Open file descriptions that doors send to other processes, and receive.

use super::trouble::{Trouble, invalid};
use crate::SharedFs;
use cuesta_format::InodeNumber;
use cuesta_format::control::PASSED_DESCRIPTION_MAX;
use cuesta_format::wire::{Refusal, Response};
use std::os::fd::OwnedFd;

impl SharedFs {
    pub(super) fn pass(
        &self,
        number: u64,
        inode: InodeNumber,
        description: &[u8],
        descriptors: &mut Vec<OwnedFd>,
    ) -> Result<Response, Trouble> {
        if description.len() > PASSED_DESCRIPTION_MAX {
            return Err(invalid("a long description"));
        }
        let mut passed = self.passed.lock();
        let kept = passed.keep(number, inode, description, &self.references);
        let cell = kept.ok_or(Trouble::Refused(Refusal::NoSpace))?;
        descriptors.push(passed.cells()?);
        Ok(Response::Passed { cell, description: Vec::new() })
    }

    pub(super) fn passed(&self, number: u64, descriptors: &mut Vec<OwnedFd>) -> Result<Response, Trouble> {
        let mut passed = self.passed.lock();
        let found = passed.get(number).cloned().ok_or(Trouble::Refused(Refusal::NotFound))?;
        descriptors.push(passed.cells()?);
        Ok(Response::Passed { cell: found.cell, description: found.description })
    }
}
