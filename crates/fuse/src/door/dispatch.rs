//! The door of one mount: the state it has, and which method answers which request.

use super::call::Call;
use super::refusal::Refusal;
use super::state::handles::Handles;
use super::state::known::KnownInodes;
use super::state::locks::Locks;
use super::state::overtaken::Overtaken;
use super::state::shared_offsets::SharedOffsets;
use super::state::synchrony::Synchrony;
use crate::kernel::abi::{Opcode, init};
use crate::kernel::answer::Answer;
use crate::kernel::device::Device;
use crate::kernel::request::Request;
use crate::serving::agreed::Agreed;
use crate::serving::keeping::Keeping;
use crate::serving::serves::{Outcome, Serves};
use cuesta_libfs::Client;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// The door of one mount.
pub struct Door {
    pub(super) client: Arc<Client>,
    pub(super) device: Arc<Device>,
    pub(super) known: KnownInodes,
    pub(super) files: Handles,
    pub(super) shared_offsets: SharedOffsets,
    pub(super) locks: Locks,
    pub(super) keeping: Keeping,
    pub(super) overtaken: Overtaken,
    pub(super) kernel: KernelAbilities,
    pub(super) synchrony: Arc<Synchrony>,
    /// A thread is about to tell SharedFS of times of last access.
    pub(super) is_telling: AtomicBool,
}

/// What depends on the kernel's version.
#[derive(Clone, Copy, Debug)]
pub(super) struct KernelAbilities {
    /// Files that are read and written past the kernel's cache can be mapped, too (Linux 6.6).
    pub(super) maps_direct: bool,
    /// It says with each write whether its sender may keep the file's set-id bits (Linux 5.12).
    pub(super) tells_of_set_id: bool,
}

impl KernelAbilities {
    fn of(agreed: Agreed) -> KernelAbilities {
        let has = |flag| agreed.flags & flag != 0;
        KernelAbilities {
            maps_direct: has(init::DIRECT_IO_ALLOW_MMAP),
            tells_of_set_id: has(init::HANDLE_KILLPRIV_V2),
        }
    }
}

impl Door {
    /// One on a session.
    pub fn new(
        client: Arc<Client>,
        device: Arc<Device>,
        keeping: Keeping,
        agreed: Agreed,
        synchrony: Arc<Synchrony>,
    ) -> Door {
        Door {
            client,
            device,
            known: KnownInodes::default(),
            files: Handles::default(),
            shared_offsets: SharedOffsets::default(),
            locks: Locks::default(),
            keeping,
            overtaken: Overtaken::default(),
            kernel: KernelAbilities::of(agreed),
            synchrony,
            is_telling: AtomicBool::new(false),
        }
    }
}

impl Serves for Door {
    fn serve(&self, request: Request<'_>, answer: &mut Answer, device: &Arc<Device>) -> Outcome {
        let Request { header, opcode, arguments } = request;
        let (began, moment) = (Instant::now(), self.client.moment());
        let mut call =
            Call { header, arguments, answer, device, began, moment, older_pages: None, entry: None };
        let done = match opcode {
            Some(Opcode::Forget | Opcode::BatchForget | Opcode::Interrupt | Opcode::SetLockWait) => {
                return self.serve_apart(opcode, &mut call);
            }
            Some(opcode) => self.serve_plainly(opcode, &mut call),
            None => Err(Refusal(libc::ENOSYS)),
        };
        match done.and_then(|()| self.make_durable(opcode)) {
            Ok(()) => {
                self.keep_name(&mut call);
                let older_pages = call.older_pages.take();
                // A link is closed by no request behind this one.
                let tells = match opcode {
                    Some(Opcode::ReadLink) => self.client.has_accesses(),
                    _ => self.client.has_old_accesses(),
                };
                if older_pages.is_none() && !tells {
                    return Outcome::Answered;
                }
                device.answer(call.header.unique, call.answer.bytes());
                // The kernel may have held on to one of them until it had the answer.
                if let Some(bytes) = older_pages {
                    device.forget_content_part(call.inode(), bytes);
                }
                if tells {
                    self.client.tell_accesses();
                }
                Outcome::Silent
            }
            Err(Refusal(errno)) => {
                if errno == libc::ESTALE {
                    self.overtaken.note_gone(call.header.pid, call.began);
                }
                Outcome::Refused(errno)
            }
        }
    }

    /// Everything is closed and the session ends.
    fn end(&self) {
        self.locks.end();
        for file in self.files.take_all().into_iter().chain(self.known.take_all()) {
            self.close(file);
        }
        // A daemon that is gone knows nothing of it, and waits for the kernel's term.
        let _ = self.client.keep_nothing_in_kernel();
        self.client.detach();
    }
}

impl Door {
    /// Requests that have no answer, or not at once.
    fn serve_apart(&self, opcode: Option<Opcode>, call: &mut Call<'_>) -> Outcome {
        let done = match opcode {
            Some(Opcode::Forget) => self.forget(call),
            Some(Opcode::BatchForget) => self.forget_many(call),
            Some(Opcode::Interrupt) => self.interrupt(call),
            _ => self.wait_for_lock(call),
        };
        match done {
            Err(Refusal(errno)) if opcode == Some(Opcode::SetLockWait) => Outcome::Refused(errno),
            _ => Outcome::Silent,
        }
    }

    fn serve_plainly(&self, opcode: Opcode, call: &mut Call<'_>) -> Result<(), Refusal> {
        if let Some(moved) = self.overtaken.take_moved(call.header.pid) {
            self.known.end_move(moved);
        }
        if opcode != Opcode::Lookup
            && let Some(found) = self.overtaken.note_use(call.header.pid, call.node())
        {
            self.known.place(found);
        }
        match opcode {
            Opcode::Lookup => self.look_up(call),
            Opcode::GetAttributes => self.get_attributes(call),
            Opcode::Statx => self.statx(call),
            Opcode::SetAttributes => self.set_attributes(call),
            Opcode::ReadLink => self.read_link(call),
            Opcode::SymbolicLink => self.make_symbolic_link(call),
            Opcode::MakeNode => self.make_node(call),
            Opcode::MakeDirectory => self.make_directory(call),
            Opcode::Unlink => self.unlink(call),
            Opcode::RemoveDirectory => self.remove_directory(call),
            Opcode::Rename => self.rename(call),
            Opcode::RenameFlagged => self.rename_flagged(call),
            Opcode::Link => self.link(call),
            Opcode::Open => self.open(call),
            Opcode::Create => self.create(call),
            Opcode::Temporary => self.create_unnamed(call),
            Opcode::Read => self.read(call),
            Opcode::Write => self.write(call),
            Opcode::Flush => self.flush(call),
            Opcode::Release => self.release(call),
            Opcode::FSync | Opcode::FSyncDirectory => self.fsync(call),
            Opcode::SyncFs => Ok(self.client.sync_everything()?),
            Opcode::Allocate => self.allocate(call),
            Opcode::Seek => self.seek(call),
            Opcode::CopyRange => self.copy_range(call),
            Opcode::OpenDirectory => self.open_directory(call),
            Opcode::ReadDirectory => self.read_directory(call),
            Opcode::ReleaseDirectory => self.release(call),
            Opcode::StatFs => self.totals(call),
            Opcode::SetExtended => self.set_extended(call),
            Opcode::GetExtended => self.get_extended(call),
            Opcode::ListExtended => self.list_extended(call),
            Opcode::RemoveExtended => self.remove_extended(call),
            Opcode::GetLock => self.get_lock(call),
            Opcode::SetLock => self.set_lock(call),
            Opcode::IoControl => self.control(call),
            Opcode::Destroy => Ok(()),
            Opcode::Init | Opcode::Forget | Opcode::BatchForget | Opcode::Interrupt | Opcode::SetLockWait => {
                Err(Refusal(libc::EIO))
            }
        }
    }

    /// Makes the request's changes durable, if the mount's options ask for it.
    fn make_durable(&self, opcode: Option<Opcode>) -> Result<(), Refusal> {
        let Some(opcode) = opcode.filter(|_| self.synchrony.any()) else { return Ok(()) };
        if self.synchrony.asks(opcode) { Ok(self.client.sync_everything()?) } else { Ok(()) }
    }

    pub(super) fn close(&self, file: Arc<cuesta_libfs::OpenFile>) {
        if let Err(error) = self.client.close(file) {
            tracing::debug!(%error, "a file is not closed in order");
        }
    }
}
