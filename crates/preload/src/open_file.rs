//! An open file description of the store as this process sees it: LibFS's open file, and what is needed
//! to open it again in a child that has a session of its own.
//!
//! After a fork or an exec several processes share the description, and with it the offset and the status flags. Each
//! has its own LibFS open file, so both then live in a *cell*: memory all of them map, taken for the length of one
//! call that uses the offset. Processes that are sent it over a socket share another cell with all who had it before
//! (see `passing`).

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::store::{Client, OpenFile, Token};
use cuesta_threads::GenerationLock;
use rustix::fd::BorrowedFd;

use crate::calls::Failure;
use crate::cells::Cell;
use crate::{cells, credentials, passing, process};

/// One open file description.
#[derive(Debug)]
pub struct Description {
    file: UnsafeCell<Option<OpenFile>>,
    /// The session `file` belongs to; another one in the child of a fork.
    client: AtomicPtr<Client>,
    inode: u64,
    /// Where it was opened, below the prefix, for getcwd; empty if unknown.
    path: Vec<u8>,
    flags: AtomicU32,
    offset: AtomicU64,
    cell: AtomicPtr<Cell>,
    /// The number it was sent under to other processes; 0 if it was not. Without a cell, that is still to be asked for.
    passed: AtomicU64,
    /// Its descriptors are known to be references (see `references`).
    is_reference: AtomicBool,
    /// The descriptor by which SharedFS knows it, until it is opened by that; negative: there is none.
    token: AtomicI32,
}

// SAFETY: `file` changes only under REOPENING, in a process in which nobody has read it since the fork
// (readers check the session first), and everything else is atomic or constant.
unsafe impl Send for Description {}
// SAFETY: as above.
unsafe impl Sync for Description {}

fn address(client: &Client) -> *mut Client {
    std::ptr::from_ref(client).cast_mut()
}

static REOPENING: GenerationLock = GenerationLock::new();

/// What another process needs to have the same description.
#[derive(Clone, Debug)]
pub struct Inherited {
    /// The inode.
    pub inode: u64,
    /// Status flags and access mode.
    pub flags: u32,
    /// The offset, if there is no cell.
    pub offset: u64,
    /// Where the shared offset is, if there is one.
    pub shared: Option<Shared>,
    /// Where it was opened.
    pub path: Vec<u8>,
}

/// Where an offset that is shared can be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shared {
    /// In the cells that are handed over, at this place.
    Cell(u32),
    /// With a description that was sent under this number.
    Passed(u64),
    /// With SharedFS, which knows the description by this descriptor.
    Served(i32),
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

    /// A description handed over by the program before exec; the file is opened when it is first used.
    pub fn inherited(from: &Inherited) -> Self {
        let (cell, passed, token) = match from.shared {
            Some(Shared::Cell(place)) => (cells::at(place), 0, -1),
            Some(Shared::Passed(number)) => (None, number, -1),
            Some(Shared::Served(token)) => (None, 0, token),
            None => (None, 0, -1),
        };
        let cell = cell.map_or(std::ptr::null_mut(), |cell| std::ptr::from_ref(cell).cast_mut());
        Self {
            file: UnsafeCell::new(None),
            client: AtomicPtr::new(std::ptr::null_mut()),
            inode: from.inode,
            path: from.path.clone(),
            flags: AtomicU32::new(from.flags),
            offset: AtomicU64::new(from.offset),
            cell: AtomicPtr::new(cell),
            passed: AtomicU64::new(passed),
            is_reference: AtomicBool::new(false),
            token: AtomicI32::new(token),
        }
    }

    /// A description that was received from another process.
    pub fn received(from: &Inherited, number: u64, cell: &'static Cell) -> Self {
        let received = Self::inherited(from);
        received.cell.store(std::ptr::from_ref(cell).cast_mut(), Ordering::Relaxed);
        received.passed.store(number, Ordering::Relaxed);
        received
    }

    /// The descriptor by which SharedFS knows it, if it serves it.
    pub fn token(&self) -> Option<i32> {
        match self.token.load(Ordering::Acquire) {
            // SAFETY: the file is only read.
            ..0 => unsafe { &*self.file.get() }.as_ref().and_then(OpenFile::token),
            token => Some(token),
        }
    }

    /// SharedFS knows it by the descriptor `to` from now on, if it was `from` before. Call when no other thread is inside.
    pub fn move_token(&self, from: i32, to: i32) -> bool {
        let moved = self.token.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        // SAFETY: the file is only read.
        moved || unsafe { &*self.file.get() }.as_ref().is_some_and(|file| file.move_token(from, to))
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

    /// The file as SharedFS opens it for the store's own user, who has no session.
    fn adopted(&self, client: &Client, flags: i32, offset: u64) -> Result<OpenFile, Failure> {
        let Client::Served(served) = client else { return Err(Failure::Errno(libc::EACCES)) };
        // Others may go on with the offset in memory that they share: so does SharedFS.
        let shared =
            self.own_cell().and_then(|cell| Some((process::borrow(cells::file()?), cells::place_of(cell)?)));
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

    /// Where it was opened, below the prefix.
    pub fn path(&self) -> &[u8] {
        &self.path
    }

    /// Its inode.
    pub fn inode(&self) -> u64 {
        self.inode
    }

    /// The flags it was opened with; those that change may be others now.
    fn opened_flags(&self) -> i32 {
        self.flags.load(Ordering::Relaxed) as i32
    }

    /// Whether it was opened to be named and no more.
    pub fn is_path(&self) -> bool {
        self.opened_flags() & libc::O_PATH != 0
    }

    /// Whether it was opened for reading.
    pub fn reads(&self) -> bool {
        !self.is_path() && matches!(self.opened_flags() & libc::O_ACCMODE, libc::O_RDONLY | libc::O_RDWR)
    }

    /// Whether it was opened for writing.
    pub fn writes(&self) -> bool {
        !self.is_path() && matches!(self.opened_flags() & libc::O_ACCMODE, libc::O_WRONLY | libc::O_RDWR)
    }

    /// Whether all its descriptors are known to be references.
    #[inline]
    pub fn is_reference(&self) -> bool {
        self.is_reference.load(Ordering::Relaxed)
    }

    /// All its descriptors are references now, and so will be what is copied from them.
    pub fn note_reference(&self) {
        self.is_reference.store(true, Ordering::Relaxed);
    }

    /// Runs a call that uses or moves the offset.
    #[inline]
    pub fn with_offset<T>(&self, call: impl FnOnce(&OpenFile) -> Result<T, Failure>) -> Result<T, Failure> {
        let file = self.file()?;
        loop {
            let Some(cell) = self.cell() else { return call(file) };
            let held = cell.hold();
            if cell.moved() != 0 {
                continue;
            }
            file.set_offset(held.offset());
            let answer = call(file);
            held.set_offset(file.offset());
            return answer;
        }
    }

    /// Moves the offset and the flags to where another process, which is about to come, can share them. Without room
    /// for them each process goes on with its own.
    pub fn share(&self) {
        self.move_to_cell();
        if let Some(cell) = self.cell() {
            cell.count_process();
        }
    }

    /// Where offset and flags are now, if they are shared.
    fn cell(&self) -> Option<&'static Cell> {
        let cell = self.own_cell()?;
        match cell.moved() {
            0 => Some(cell),
            number => self.follow(number),
        }
    }

    /// Where they were when this process last looked.
    fn own_cell(&self) -> Option<&'static Cell> {
        // SAFETY: null, or a cell; cells are never unmapped.
        unsafe { self.cell.load(Ordering::Acquire).as_ref() }
    }

    /// It was sent to other processes, by another one that has it: offset and flags are with the number from then on.
    /// If it cannot be had this process goes on with its own.
    #[cold]
    fn follow(&self, number: u64) -> Option<&'static Cell> {
        let before = self.cell.load(Ordering::Acquire);
        let found = passing::cell_of(number);
        let now = found.map_or(std::ptr::null_mut(), |cell| std::ptr::from_ref(cell).cast_mut());
        self.passed.store(if found.is_some() { number } else { 0 }, Ordering::Release);
        if self.cell.compare_exchange(before, now, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            // SAFETY: as in `own_cell`.
            && let Some(before) = unsafe { before.as_ref() }
        {
            before.discount_process();
        }
        self.own_cell()
    }

    /// The number it was sent under to other processes; 0 if it was not.
    pub fn passed(&self) -> u64 {
        self.passed.load(Ordering::Acquire)
    }

    /// It is sent to other processes, under `number`, unless it was before; `keep` has it kept and answers its cell. Call
    /// when no other thread is inside. Answers the number it has now.
    pub fn pass(
        &self,
        number: u64,
        keep: impl FnOnce(&Inherited) -> Result<&'static Cell, Failure>,
    ) -> Result<u64, Failure> {
        let before = self.cell();
        if self.passed() != 0 {
            return Ok(self.passed());
        }
        let held = before.map(Cell::hold);
        if before.is_some_and(|cell| cell.moved() != 0) {
            drop(held);
            self.cell();
            return Ok(self.passed());
        }
        let cell = keep(&self.without_offset())?;
        match held {
            Some(held) => held.move_to(cell, number),
            // SAFETY: the file is only read.
            None => cell.fill(self.last_offset(), self.last_flags(unsafe { &*self.file.get() })),
        }
        self.cell.store(std::ptr::from_ref(cell).cast_mut(), Ordering::Release);
        self.passed.store(number, Ordering::Release);
        if let Some(before) = before {
            before.discount_process();
        }
        Ok(number)
    }

    /// The flags as this process last saw them.
    fn last_flags(&self, file: &Option<OpenFile>) -> u32 {
        file.as_ref().map_or(self.flags.load(Ordering::Relaxed), |file| file.flags() as u32)
    }

    /// The offset as this process last saw it.
    fn last_offset(&self) -> u64 {
        let is_ours =
            process::attached().is_some_and(|client| self.client.load(Ordering::Acquire) == address(client));
        // SAFETY: as in `file`; a file of an older generation is only read.
        match unsafe { &*self.file.get() } {
            Some(file) if is_ours => file.offset(),
            Some(parents) => parents.offset_before_fork(),
            None => self.offset.load(Ordering::Relaxed),
        }
    }

    fn move_to_cell(&self) {
        if self.own_cell().is_some() || self.passed() != 0 || self.token().is_some() {
            return;
        }
        let Some(cell) = cells::take() else { return };
        cell.hold().set_offset(self.last_offset());
        // SAFETY: as in `file`; a file of an older generation is only read.
        cell.set_flags(self.last_flags(unsafe { &*self.file.get() }));
        let shared = std::ptr::from_ref(cell).cast_mut();
        let first =
            self.cell.compare_exchange(std::ptr::null_mut(), shared, Ordering::AcqRel, Ordering::Relaxed);
        if first.is_err() {
            cell.discount_process();
        }
    }

    /// This process is about to become another user's: SharedFS keeps the file for it, as `bridge`, which was made
    /// before, asks, with the `locks` on this descriptor. Answers the descriptor that stands for it from then on, if it does not
    /// have one already. Call when no other thread is inside.
    pub fn hand_over(&self, bridge: &cuesta_served::Client, locks: Option<BorrowedFd<'_>>) -> Option<i32> {
        // One that was sent is with SharedFS under its number, and not for other users.
        if self.token().is_some() || self.passed() != 0 {
            return None;
        }
        // SAFETY: the file is only read.
        let flags = self.last_flags(unsafe { &*self.file.get() }) as i32;
        let cell = self.cell();
        // Others may go on with the offset there: then SharedFS does, too.
        let shared = match cell {
            Some(cell) => Some((cells::file()?, cells::place_of(cell)?)),
            None => None,
        };
        let inode = cuesta_format::InodeNumber(self.inode);
        let shared = shared.map(|(file, place)| (process::borrow(file), place));
        let token = bridge.adopt(inode, flags, self.last_offset(), shared, locks).ok()?;
        if let Some(cell) = cell {
            cell.discount_process();
        }
        self.cell.store(std::ptr::null_mut(), Ordering::Release);
        self.passed.store(0, Ordering::Release);
        let token = Token::new(token).into_number();
        self.token.store(token, Ordering::Release);
        Some(token)
    }

    /// What to hand over at exec. The next program counts for this process, unless this is a vfork child,
    /// whose parent goes on.
    pub fn to_inherit(&self) -> Inherited {
        if crate::thread::is_vforked() {
            self.share();
        } else {
            self.move_to_cell();
        }
        // SAFETY: the file is only read.
        let offset = match unsafe { &*self.file.get() } {
            // A thread of a process this one was forked from may have been moving it; there is a cell then.
            Some(file) => file.offset_before_fork(),
            None => self.offset.load(Ordering::Relaxed),
        };
        let shared = match self.passed() {
            _ if self.token().is_some() => self.token().map(Shared::Served),
            0 => self.own_cell().map(|cell| Shared::Cell(cells::index_of(cell))),
            number => Some(Shared::Passed(number)),
        };
        Inherited { offset, shared, ..self.without_offset() }
    }

    /// Where a process that has no part in this memory finds the offset, if it is shared, and the offset. The parent of a
    /// vfork child shares it from now on. Call when no other thread is inside.
    pub fn to_share(&self) -> (Option<Shared>, u64) {
        if crate::thread::is_vforked() {
            self.move_to_cell();
        }
        let cell = self.cell();
        let shared = match self.passed() {
            0 => cell.map(|cell| Shared::Cell(cells::index_of(cell))),
            number => Some(Shared::Passed(number)),
        };
        (shared, cell.map_or_else(|| self.last_offset(), |cell| cell.hold().offset()))
    }

    /// This process has it no more, or has it again: others may have its cell.
    pub fn count_out(&self) {
        if let Some(cell) = self.own_cell() {
            cell.discount_process();
        }
    }

    /// See [`Self::count_out`].
    pub fn count_in(&self) {
        if let Some(cell) = self.own_cell() {
            cell.count_process();
        }
    }

    /// What to hand over of a directory that is only stood in, or beside a cell.
    pub fn without_offset(&self) -> Inherited {
        // SAFETY: the file is only read.
        let file = unsafe { &*self.file.get() };
        Inherited {
            inode: self.inode,
            flags: self.last_flags(file),
            offset: 0,
            shared: self.token().map(Shared::Served),
            path: self.path.clone(),
        }
    }
}

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
