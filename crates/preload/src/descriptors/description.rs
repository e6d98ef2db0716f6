//! An open file description of the store as this process sees it: LibFS's open file, and what is needed
//! to open it again in a child that has a session of its own.
//!
//! After a fork or an exec several processes share the description, and with it the offset and the status flags. Each
//! has its own LibFS open file, so both then live in a *cell*: memory all of them map, taken for the length of one
//! call that uses the offset. Processes that are sent it over a socket share another cell with all who had it before
//! (see `passing`).

use crate::descriptors::cells::{self, Cell};
use crate::store::{Client, OpenFile};
use cuesta_threads::Pool;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// One open file description.
#[derive(Debug)]
pub struct Description {
    pub(crate) file: UnsafeCell<Option<OpenFile>>,
    /// The session `file` belongs to; another one in the child of a fork.
    pub(crate) client: AtomicPtr<Client>,
    pub(crate) inode: u64,
    /// Where it was opened, below the prefix, for getcwd; empty if unknown.
    pub(crate) path: Vec<u8>,
    pub(crate) flags: AtomicU32,
    pub(crate) offset: AtomicU64,
    pub(crate) cell: AtomicPtr<Cell>,
    /// The number it was sent under to other processes; 0 if it was not. Without a cell, that is still to be asked for.
    pub(crate) passed: AtomicU64,
    /// Its descriptors are known to be references (see `references`).
    pub(crate) is_reference: AtomicBool,
    /// The descriptor by which SharedFS knows it, until it is opened by that; negative: there is none.
    pub(crate) token: AtomicI32,
}

// SAFETY: `file` changes only under REOPENING, in a process in which no thread has read it since the fork
// (readers check the session first), and everything else is atomic or constant.
unsafe impl Send for Description {}

// SAFETY: as above.
unsafe impl Sync for Description {}

/// Another process needs this to have the same description.
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

    /// Where they were when this process last looked.
    pub(crate) fn own_cell(&self) -> Option<&'static Cell> {
        // SAFETY: null, or a cell; cells are never unmapped.
        unsafe { self.cell.load(Ordering::Acquire).as_ref() }
    }

    /// The number it was sent under to other processes; 0 if it was not.
    pub fn passed(&self) -> u64 {
        self.passed.load(Ordering::Acquire)
    }

    /// The flags as this process last saw them.
    pub(crate) fn last_flags(&self, file: &Option<OpenFile>) -> u32 {
        file.as_ref().map_or(self.flags.load(Ordering::Relaxed), |file| file.flags() as u32)
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

static POOL: Pool<Description> = Pool::new();

/// A counted reference to a description.
pub type Pin = cuesta_threads::Pin<Description>;

/// The first reference to a new description.
pub fn describe(description: Description) -> Pin {
    POOL.pin(description)
}
