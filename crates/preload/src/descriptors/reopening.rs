//! The LibFS file of a description, opened again in a process that has a session of its own.

use crate::call::Failure;
use crate::descriptors::cells::{self, Cell};
use crate::descriptors::description::Description;
use crate::descriptors::{kernel, passed_cell};
use crate::process;
use crate::store::{Client, OpenFile, Token};
use crate::users::credentials;
use cuesta_threads::GenerationLock;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};

fn address(client: &Client) -> *mut Client {
    std::ptr::from_ref(client).cast_mut()
}

static REOPENING: GenerationLock = GenerationLock::new();

impl Drop for Description {
    fn drop(&mut self) {
        if let Some(cell) = self.own_cell() {
            cell.discount_process();
        }
        if let token @ 0.. = *self.token.get_mut() {
            drop(Token::of_number(token));
        }
        if let Some(file) = self.file.get_mut().take() {
            match process::attached() {
                Some(client) if *self.client.get_mut() == address(client) => {
                    // A session that has ended has released its files.
                    let _ = client.close(file);
                }
                _ if file.token().is_some() => drop(file),
                _ => std::mem::forget(file),
            }
        }
    }
}

impl Description {
    /// A description just opened.
    pub fn opened(file: OpenFile, path: Vec<u8>) -> Self {
        Self {
            inode: file.inode().0,
            flags: AtomicU32::new(file.flags() as u32),
            offset: AtomicU64::new(0),
            file: UnsafeCell::new(Some(file)),
            client: AtomicPtr::new(process::attached().map_or(std::ptr::null_mut(), address)),
            path,
            cell: AtomicPtr::new(std::ptr::null_mut()),
            passed: AtomicU64::new(0),
            is_reference: AtomicBool::new(false),
            token: AtomicI32::new(-1),
        }
    }

    /// The LibFS file, opened again first if this process has not used it since it was forked.
    #[inline]
    pub fn file(&self) -> Result<&OpenFile, Failure> {
        let client = process::client()?;
        if self.client.load(Ordering::Acquire) != address(client) {
            self.reopen(client)?;
        }
        // SAFETY: as long as this is the session the file is not changed.
        let file = unsafe { (*self.file.get()).as_ref() }.ok_or(Failure::Errno(libc::EIO))?;
        if let Some(cell) = self.cell() {
            let flags = cell.flags() as i32;
            if flags != file.flags() {
                file.set_flags(flags);
            }
        }
        Ok(file)
    }

    /// `fcntl(F_SETFL)`.
    pub fn set_flags(&self, flags: i32) -> Result<(), Failure> {
        let file = self.file()?;
        file.set_flags(flags);
        if let Some(cell) = self.cell() {
            cell.set_flags(file.flags() as u32);
        }
        Ok(())
    }

    #[cold]
    fn reopen(&self, client: &Client) -> Result<(), Failure> {
        let _reopening = REOPENING.hold();
        if self.client.load(Ordering::Acquire) == address(client) {
            return Ok(());
        }
        // SAFETY: under REOPENING, and readers wait for the session to be named.
        let file = unsafe { &mut *self.file.get() };
        let (flags, offset) = match file {
            Some(parent) => (parent.flags(), parent.offset_before_fork()),
            None => (self.flags.load(Ordering::Relaxed) as i32, self.offset.load(Ordering::Relaxed)),
        };
        let passed = self.passed.load(Ordering::Acquire);
        if passed != 0 && self.own_cell().is_none() {
            self.follow(passed);
        }
        let reopened = match (client.is_served(), self.token.load(Ordering::Acquire), &*file) {
            (false, ..) => {
                let inode = cuesta_format::InodeNumber(self.inode);
                client.reopen_number(&credentials::effective(), inode, flags, offset)?
            }
            (true, token @ 0.., _) => {
                let token = Token::of_number(token);
                let redeemed = client.redeem(&token);
                match &redeemed {
                    Ok(_) => self.token.store(-1, Ordering::Release),
                    Err(_) => drop(token.into_number()),
                }
                redeemed?
            }
            (true, _, Some(OpenFile::Served(served))) => client.redeem(served.token())?,
            (true, ..) => self.adopted(client, flags, offset)?,
        };
        match file.replace(reopened) {
            Some(OpenFile::Served(old)) => drop(old),
            // The parent's file belongs to the parent's session: it is left alone, not closed.
            old => std::mem::forget(old),
        }
        self.client.store(address(client), Ordering::Release);
        Ok(())
    }

    /// The file as SharedFS opens it for a process of the store's own user without a session.
    fn adopted(&self, client: &Client, flags: i32, offset: u64) -> Result<OpenFile, Failure> {
        let Client::Served(served) = client else { return Err(Failure::Errno(libc::EACCES)) };
        // Others may go on with the offset in memory that they share: so does SharedFS.
        let shared =
            self.own_cell().and_then(|cell| Some((kernel::borrow(cells::file()?), cells::place_of(cell)?)));
        let inode = cuesta_format::InodeNumber(self.inode);
        let token = match served.adopt(inode, flags, offset, shared, None) {
            Err(cuesta_libfs::Error::NotPermitted) => return Err(Failure::Errno(libc::EACCES)),
            token => Token::new(token?),
        };
        if shared.is_some() {
            self.cell.store(std::ptr::null_mut(), Ordering::Release);
        }
        Ok(client.redeem(&token)?)
    }

    /// Where offset and flags are now, if they are shared.
    pub(crate) fn cell(&self) -> Option<&'static Cell> {
        let cell = self.own_cell()?;
        match cell.moved() {
            0 => Some(cell),
            number => self.follow(number),
        }
    }

    /// It was sent to other processes, by another one that has it: offset and flags are with the number from then on.
    /// If it cannot be had this process goes on with its own.
    #[cold]
    fn follow(&self, number: u64) -> Option<&'static Cell> {
        let before = self.cell.load(Ordering::Acquire);
        let found = passed_cell::cell_of(number);
        let now = found.map_or(std::ptr::null_mut(), |cell| std::ptr::from_ref(cell).cast_mut());
        self.passed.store(if found.is_some() { number } else { 0 }, Ordering::Release);
        if self.cell.compare_exchange(before, now, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            // SAFETY: null, or a cell; cells are never unmapped.
            && let Some(before) = unsafe { before.as_ref() }
        {
            before.discount_process();
        }
        self.own_cell()
    }

    /// The offset as this process last saw it.
    pub(crate) fn last_offset(&self) -> u64 {
        let is_ours =
            process::attached().is_some_and(|client| self.client.load(Ordering::Acquire) == address(client));
        // SAFETY: as in `file`; a file of an older generation is only read.
        match unsafe { &*self.file.get() } {
            Some(file) if is_ours => file.offset(),
            Some(parents) => parents.offset_before_fork(),
            None => self.offset.load(Ordering::Relaxed),
        }
    }
}
