//! What several processes share of an open file, its offset and status flags: a sealed memory file, mapped by a process and
//! by everything it forks and executes. A file that is sent over a socket moves to a cell of another memory file. SharedFS hands that to
//! each receiver. The old cell keeps the number that the file was sent under.
//!
//! The offset has a lock. It is held for one call and names its process, so that a
//! process that dies inside leaves a lock others can take over. Each process that has the description
//! counts; a cell that no process counts is free. A killed process leaves its cells taken: a process tree that
//! runs out of them goes on with private offsets.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use std::mem::offset_of;

use cuesta_format::control::{
    CELL_HOLDER, CELL_MOVED, CELL_OFFSET, CELL_PROCESSES, PASSED_BYTES, PASSED_CELL_BYTES, PASSED_CELLS,
};
use rustix::fd::{AsFd as _, IntoRawFd as _, OwnedFd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap};

use crate::descriptors::kernel;

const CELLS: usize = 16_384;
const AREA_BYTES: usize = size_of::<Area>();
/// Attempts on a held lock before its holder is looked at.
const SPINS: u32 = 1000;

/// One description's.
#[derive(Debug)]
#[repr(C)]
pub struct Cell {
    holder: AtomicU32,
    processes: AtomicU32,
    offset: AtomicU64,
    flags: AtomicU32,
    _padding: u32,
    /// Not zero: offset and flags are now in the cell of the description sent under this number.
    moved: AtomicU64,
}

const _: () = assert!(size_of::<Cell>() == PASSED_CELL_BYTES);
const _: () = assert!(
    offset_of!(Cell, holder) == CELL_HOLDER
        && offset_of!(Cell, processes) == CELL_PROCESSES
        && offset_of!(Cell, offset) == CELL_OFFSET
        && offset_of!(Cell, moved) == CELL_MOVED
);

#[repr(C)]
struct Area {
    /// Where the search for a free cell starts.
    next: AtomicU32,
    _padding: [u32; 3],
    cells: [Cell; CELLS],
}

static AREA: AtomicPtr<Area> = AtomicPtr::new(std::ptr::null_mut());
static FILE: AtomicI32 = AtomicI32::new(-1);
static MAKING: Mutex<()> = Mutex::new(());

/// A cell taken for one call.
#[derive(Debug)]
pub struct CellGuard<'a>(&'a Cell);

impl Cell {
    /// One more process has the description.
    pub fn count_process(&self) {
        self.processes.fetch_add(1, Ordering::Relaxed);
    }

    /// This process has it no more.
    pub fn discount_process(&self) {
        self.processes.fetch_sub(1, Ordering::Release);
    }

    /// The number under which what was here was sent; 0 if it is still here.
    #[inline]
    pub fn moved(&self) -> u64 {
        self.moved.load(Ordering::Acquire)
    }

    /// Waits for the cell.
    pub fn hold(&self) -> CellGuard<'_> {
        let me = rustix::process::getpid().as_raw_nonzero().get() as u32;
        let mut spins = 0;
        while let Err(holder) = self.holder.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed) {
            spins += 1;
            if spins % SPINS == 0 {
                self.take_over_from_dead(holder);
                rustix::thread::sched_yield();
            }
            std::hint::spin_loop();
        }
        CellGuard(self)
    }

    /// The shared status flags, as `F_GETFL` shows them.
    #[inline]
    pub fn flags(&self) -> u32 {
        self.flags.load(Ordering::Relaxed)
    }

    /// Changes them, for every process that has the description.
    pub fn set_flags(&self, flags: u32) {
        self.flags.store(flags, Ordering::Relaxed);
    }

    /// Makes it the cell of a description that only this process has.
    pub fn fill(&self, offset: u64, flags: u32) {
        self.holder.store(0, Ordering::Relaxed);
        self.processes.store(1, Ordering::Relaxed);
        self.offset.store(offset, Ordering::Relaxed);
        self.flags.store(flags, Ordering::Relaxed);
        self.moved.store(0, Ordering::Release);
    }

    fn take_over_from_dead(&self, holder: u32) {
        let dead = rustix::process::Pid::from_raw(holder as i32)
            .is_some_and(|pid| rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH));
        if dead {
            let _ = self.holder.compare_exchange(holder, 0, Ordering::Release, Ordering::Relaxed);
        }
    }
}

impl CellGuard<'_> {
    /// The shared offset.
    pub fn offset(&self) -> u64 {
        self.0.offset.load(Ordering::Relaxed)
    }

    /// Moves it.
    pub fn set_offset(&self, offset: u64) {
        self.0.offset.store(offset, Ordering::Relaxed);
    }

    /// Moves offset and flags to `cell`, which no process has seen yet; they are found under `moved`.
    pub fn move_to(self, cell: &Cell, moved: u64) {
        cell.fill(self.offset(), self.0.flags());
        self.0.moved.store(moved, Ordering::Release);
    }
}

impl Drop for CellGuard<'_> {
    fn drop(&mut self) {
        self.0.holder.store(0, Ordering::Release);
    }
}

/// A fresh cell, counted once.
pub fn take() -> Option<&'static Cell> {
    let area = area()?;
    let start = area.next.load(Ordering::Relaxed) as usize;
    (0..CELLS).map(|step| (start + step) % CELLS).find_map(|index| {
        let cell = &area.cells[index];
        cell.processes.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).ok()?;
        cell.moved.store(0, Ordering::Relaxed);
        area.next.store(index as u32 + 1, Ordering::Relaxed);
        Some(cell)
    })
}

/// The cell at a place named by another process.
pub fn at(index: u32) -> Option<&'static Cell> {
    area()?.cells.get(index as usize)
}

/// The place of a cell.
pub fn index_of(cell: &Cell) -> u32 {
    let base = AREA.load(Ordering::Acquire) as usize;
    let first = base + std::mem::offset_of!(Area, cells);
    ((std::ptr::from_ref(cell) as usize - first) / size_of::<Cell>()) as u32
}

/// Where a cell is in the memory file, if it is in this process's own.
pub fn place_of(cell: &Cell) -> Option<u64> {
    let base = AREA.load(Ordering::Acquire) as usize;
    let place = (std::ptr::from_ref(cell) as usize).checked_sub(base).filter(|_| base != 0)?;
    (place < AREA_BYTES).then_some(place as u64)
}

/// The memory file, to hand over at exec.
pub fn file() -> Option<i32> {
    Some(FILE.load(Ordering::Acquire)).filter(|fd| *fd >= 0)
}

/// The memory file has another number now.
pub fn move_file(fd: i32) {
    FILE.store(fd, Ordering::Release);
}

/// Uses the cells handed over by the program before exec.
pub fn adopt(file: OwnedFd) -> Option<()> {
    let size = rustix::fs::fstat(&file).ok()?.st_size;
    if size != AREA_BYTES as i64 {
        return None;
    }
    map(file).map(|_| ())
}

/// Makes the memory, while it can still be shared.
pub fn prepare() {
    if area().is_none() {
        make();
    }
}

/// Lets go of all cells, for good: this process is another user's from now on. A pointer that is left finds memory of
/// its own.
pub fn withdraw() {
    let area = AREA.swap(std::ptr::null_mut(), Ordering::AcqRel);
    let file = FILE.swap(-1, Ordering::AcqRel);
    if file >= 0 {
        crate::descriptors::hide(file, false);
        // SAFETY: this library's own, and no part of it knows the number any more.
        unsafe { crate::arch::syscall(libc::SYS_close as usize, [file as usize, 0, 0, 0, 0, 0]) };
    }
    forget_memory(area as usize, AREA_BYTES);
    if let Ok(mut mapped) = PASSED.lock() {
        mapped.drain(..).for_each(|(_, area)| forget_memory(area, PASSED_BYTES));
    }
}

fn forget_memory(address: usize, bytes: usize) {
    if address == 0 {
        return;
    }
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::PRIVATE | MapFlags::FIXED;
    // SAFETY: takes the place of a mapping of ours; zero is a valid state of all that is in it.
    let _ = unsafe { rustix::mm::mmap_anonymous(address as *mut _, bytes, protection, flags) };
}

fn area() -> Option<&'static Area> {
    // SAFETY: null, or the mapping made by `map`, which stays for good.
    unsafe { AREA.load(Ordering::Acquire).as_ref() }
}

fn make() -> Option<&'static Area> {
    let _making = MAKING.lock();
    if let Some(area) = area() {
        return Some(area);
    }
    let file = memfd_create("cuesta-offsets", MemfdFlags::CLOEXEC).ok()?;
    ftruncate(&file, AREA_BYTES as u64).ok()?;
    map(file)
}

fn map(file: OwnedFd) -> Option<&'static Area> {
    let file = kernel::set_aside(file.as_fd()).ok()?;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new shared mapping of a file of exactly this size; zero is a valid state of all fields.
    let area =
        unsafe { mmap(std::ptr::null_mut(), AREA_BYTES, protection, MapFlags::SHARED, &file, 0) }.ok()?;
    let fd = file.into_raw_fd();
    crate::descriptors::hide(fd, true);
    FILE.store(fd, Ordering::Release);
    AREA.store(area.cast(), Ordering::Release);
    self::area()
}

/// Memory files of sent descriptions' cells that are mapped: their inodes, and where. One for each daemon there was.
static PASSED: Mutex<Vec<(u64, usize)>> = Mutex::new(Vec::new());

/// A cell of a sent description, in SharedFS's memory file of them.
pub fn passed(file: OwnedFd, index: u32) -> Option<&'static Cell> {
    let memory = rustix::fs::fstat(&file).ok().filter(|stat| stat.st_size == PASSED_BYTES as i64)?.st_ino;
    if index >= PASSED_CELLS {
        return None;
    }
    let mut mapped = PASSED.lock().ok()?;
    let area = match mapped.iter().find(|(known, _)| *known == memory) {
        Some((_, area)) => *area,
        None => {
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: a new shared mapping of a file of exactly this size, which stays for good.
            let area =
                unsafe { mmap(std::ptr::null_mut(), PASSED_BYTES, protection, MapFlags::SHARED, &file, 0) }
                    .ok()?;
            mapped.push((memory, area as usize));
            area as usize
        }
    };
    // SAFETY: within the mapping, as aligned as it is, and made of atomics for which any bytes are valid.
    Some(unsafe { &*(area as *const Cell).add(index as usize) })
}
