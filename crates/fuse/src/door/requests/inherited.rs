//! What programs behind the preload door hand on to some that it cannot be in (statically linked, set-id): files by their
//! numbers, and open files whose offset they go on sharing (see `cuesta_format::mount_calls`).
//!
//! The kernel has an offset of its own for each open file, and says with every request where it stands. A request that begins
//! where the last one by the same open file ended goes on at the shared offset, wherever others have moved that; any other
//! was positioned, and moves it.

use crate::door::call::Call;
use crate::door::dispatch::Door;
use crate::door::refusal::Refusal;
use crate::door::state::shared_offsets::Sharing;
use crate::door::who;
use crate::kernel::abi::{IoControlIn, IoControlOut};
use cuesta_format::control::PASSED_CELL_BYTES;
use cuesta_format::mount_calls::{self, DSYNC_REQUEST, SHARE_OFFSET, ShareOffset};
use cuesta_format::{FileKind, InodeNumber};
use cuesta_libfs::{Base, Client, Error, OpenFile, SharedOffset, Whence};
use parking_lot::Mutex;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};

/// Attempts at an offset that is in use, of two seconds each.
const TRIES_MAX: u32 = 20;

impl Door {
    /// Runs a read or a write of `file`, which the kernel takes to be at `offset`, where it is. Answers the bytes it came to.
    pub(in crate::door) fn at_its_offset(
        &self,
        handle: u64,
        file: &OpenFile,
        offset: i64,
        is_call: bool,
        operation: impl FnOnce(i64) -> Result<usize, Refusal>,
    ) -> Result<usize, Refusal> {
        let sharing = if is_call { self.shared_offsets.of(handle) } else { None };
        let Some(sharing) = sharing else { return operation(offset) };
        let mut kernels = sharing.kernels.lock();
        let mut tries = 1;
        let held = loop {
            match sharing.shared.hold(file) {
                Ok(held) => break held,
                // Whoever is at it may be waiting for a daemon.
                Err(Error::Busy) if tries < TRIES_MAX => tries += 1,
                Err(Error::Unsupported) => {
                    // It was sent to other processes since, which have another offset.
                    self.shared_offsets.end(handle);
                    return operation(offset);
                }
                Err(error) => return Err(error.into()),
            }
        };
        let at = if offset == *kernels { file.offset() as i64 } else { offset };
        let done = operation(at)?;
        *kernels = offset + done as i64;
        if file.appends() {
            self.client.seek(file, 0, Whence::End)?;
        } else {
            file.set_offset(at as u64 + done as u64);
        }
        drop(held);
        Ok(done)
    }

    pub(in crate::door) fn control(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let IoControlIn { handle, request, .. } = call.arguments.structure()?;
        if request == DSYNC_REQUEST {
            self.files.get(handle)?;
            self.client.dsync()?;
            call.answer.put(&IoControlOut::default());
            return Ok(());
        }
        if request != SHARE_OFFSET || !is_listened_to(call) {
            return Err(Refusal(libc::ENOTTY));
        }
        let asked: ShareOffset = call.arguments.structure()?;
        self.files.get(handle)?;
        let sharing = sharing(&self.client, call.header.pid, &asked)?;
        self.shared_offsets.begin(handle, sharing);
        call.answer.put(&IoControlOut::default());
        Ok(())
    }

    /// The inode that a name asks for by its number.
    pub(in crate::door) fn asked_by_number(&self, call: &Call<'_>, name: &[u8]) -> Option<InodeNumber> {
        let inode = if call.inode() == InodeNumber::ROOT { mount_calls::inode_of(name) } else { None };
        inode.filter(|_| is_listened_to(call))
    }

    /// Of a directory the kernel would believe that it has moved here.
    pub(in crate::door) fn look_up_number(
        &self,
        call: &mut Call<'_>,
        inode: InodeNumber,
    ) -> Result<(), Refusal> {
        let record = self.client.stat(&who::asks(&call.header), Base::Inode(inode), b"", false)?.record;
        if record.kind() == FileKind::Directory {
            return Err(Refusal(libc::EISDIR));
        }
        let entry = self.entry(&record, None);
        call.answer.put(&entry);
        Ok(())
    }
}

/// The mount's own user, and root: they may do anything in the store anyway.
fn is_listened_to(call: &Call<'_>) -> bool {
    call.header.uid == 0 || call.header.uid == rustix::process::geteuid().as_raw()
}

fn sharing(client: &Client, process: u32, asked: &ShareOffset) -> Result<Sharing, Error> {
    let kernels = i64::try_from(asked.offset).map_err(|_| Error::Invalid)?;
    let (memory, place) = if asked.memory < 0 {
        let passed = client.passed(asked.place)?;
        (passed.cells, u64::from(passed.cell) * PASSED_CELL_BYTES as u64)
    } else {
        (descriptor_of(process, asked.memory)?, asked.place)
    };
    Ok(Sharing { shared: SharedOffset::new(&memory, place)?, kernels: Mutex::new(kernels) })
}

/// A copy of another process's descriptor of a memory file.
fn descriptor_of(process: u32, descriptor: i32) -> Result<OwnedFd, Error> {
    let path = format!("/proc/{process}/fd/{descriptor}");
    rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty())
        .map_err(|_| Error::Invalid)
}
