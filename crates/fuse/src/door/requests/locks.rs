//! `flock` and record locks: the kernel's, on the inode's lock file, where the other door's programs have theirs.
//!
//! Each holder of a lock here has an open file description of the lock file for it: of `flock` each open file, of record locks
//! each owner in each inode. So the locks of this mount's programs meet each other and those of all others. The graph of
//! waiting owners is in `state/records.rs`.

use crate::door::call::Call;
use crate::door::dispatch::Door;
use crate::door::refusal::Refusal;
use crate::door::state::lock_file::{END_OF_ALL, LockFile, Wanted, last_error};
use crate::door::state::locks::{end_wait, hear_wakes};
use crate::door::state::records::Owner;
use crate::door::state::shares;
use crate::kernel::abi::{InterruptIn, LOCK_FLOCK, LockIn, LockOut};
use cuesta_format::InodeNumber;
use cuesta_format::control::USER_LOCK_LAST;
use cuesta_media::lock_files::{self, Access};
use rustix::fd::AsRawFd as _;
use rustix::io::Errno;
use std::sync::Arc;
use std::thread::Builder;

impl Door {
    /// The lock file for the lock; `None`: there is none, and none is to be made. The caller makes an `Asking` of it.
    fn lock_file(&self, call: &Call<'_>, asked: &LockIn) -> Result<Option<Arc<LockFile>>, Refusal> {
        let (inode, user) = (call.inode(), call.header.uid);
        let is_given_up = asked.kind as i32 == libc::F_UNLCK;
        if asked.flags & LOCK_FLOCK != 0 {
            let file = self.files.get(asked.handle)?;
            let access = if file.check_writable().is_ok() { Access::Locks } else { Access::Read };
            let mut of_files = self.locks.of_files.lock();
            if let Some(found) = of_files.get(&asked.handle) {
                return Ok(Some(Arc::clone(found)));
            }
            if is_given_up {
                return Ok(None);
            }
            let file = self.take_lock_file(inode, access, user)?;
            of_files.insert(asked.handle, Arc::clone(&file));
            return Ok(Some(file));
        }
        let owner = Owner { inode, owner: asked.owner };
        self.locks.use_records(owner, asked, || self.take_lock_file(inode, Access::Locks, user))
    }

    fn take_lock_file(
        &self,
        inode: InodeNumber,
        access: Access,
        user: u32,
    ) -> Result<Arc<LockFile>, Refusal> {
        let share = self.locks.shares.take(user, shares::Kind::LockFile).ok_or(Refusal(libc::ENOLCK))?;
        self.client.note_lock_file();
        let file =
            lock_files::take(&*self.client.references(), inode, access).map_err(|errno| match errno {
                Errno::MFILE | Errno::NFILE => Refusal(libc::ENOLCK),
                errno => errno.into(),
            })?;
        Ok(Arc::new(LockFile::counted(file, share)))
    }

    pub(in crate::door) fn set_lock(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let asked: LockIn = call.arguments.structure()?;
        if let Some(file) = self.lock_file(call, &asked)? {
            self.locks.asking((&call.header, call.inode()), &asked, &file).set()?;
        }
        Ok(())
    }

    /// Sets it at once, or in a thread of its own, which answers.
    pub(in crate::door) fn wait_for_lock(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let asked: LockIn = call.arguments.structure()?;
        let (unique, device) = (call.header.unique, Arc::clone(call.device));
        let Some(file) = self.lock_file(call, &asked)? else {
            device.answer(unique, b"");
            return Ok(());
        };
        let asking = self.locks.asking((&call.header, call.inode()), &asked, &file);
        match asking.set() {
            Err(Errno::AGAIN | Errno::ACCESS) => {}
            done => {
                done?;
                device.answer(unique, b"");
                return Ok(());
            }
        }
        let share =
            self.locks.shares.take(call.header.uid, shares::Kind::Wait).ok_or(Refusal(libc::ENOLCK))?;
        hear_wakes();
        let waiting = move || {
            let _share = share;
            match asking.wait() {
                Ok(()) => device.answer(unique, b""),
                Err(errno) => device.refuse(unique, errno.raw_os_error()),
            }
        };
        let started = Builder::new().name("fuse-lock".into()).spawn(waiting);
        started.map(drop).map_err(|_| Refusal(libc::ENOLCK))
    }

    pub(in crate::door) fn interrupt(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let InterruptIn { unique } = call.arguments.structure()?;
        end_wait(&self.locks.waits, unique);
        Ok(())
    }

    pub(in crate::door) fn get_lock(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let asked: LockIn = call.arguments.structure()?;
        let inode = call.inode();
        let records = self.locks.records.lock();
        let own = records.owners.get(&Owner { inode, owner: asked.owner }).map(|held| Arc::clone(&held.file));
        drop(records);
        let file = match own {
            Some(file) => file,
            None => self.take_lock_file(inode, Access::Locks, call.header.uid)?,
        };
        let Wanted::Range(mut found) = Wanted::of(&asked) else { return Err(Refusal(libc::EINVAL)) };
        // SAFETY: the descriptor is open; the kernel reads and writes the one structure, which outlives the call.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut found) } != 0 {
            return Err(last_error().into());
        }
        let last = (found.l_start + found.l_len - 1) as u64;
        let out = match i32::from(found.l_type) {
            libc::F_UNLCK => LockOut { kind: libc::F_UNLCK as u32, ..LockOut::default() },
            kind => LockOut {
                start: found.l_start as u64,
                end: if found.l_len == 0 || last >= USER_LOCK_LAST { END_OF_ALL } else { last },
                kind: kind as u32,
                pid: u32::try_from(found.l_pid).unwrap_or_else(|_| {
                    let asking = Owner { inode, owner: asked.owner };
                    let last = if found.l_len == 0 { USER_LOCK_LAST } else { last };
                    self.locks.records.lock().holder(asking, found.l_start as u64, last, kind)
                }),
            },
        };
        call.answer.put(&out);
        Ok(())
    }
}
