//! Reading and writing the application's structures, where a bad pointer is EFAULT and not a crash.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};

use cuesta_media::user_copy;
use cuesta_media::{UserSlice, UserSliceMut};

use crate::arch;
use crate::call::Failure;

/// Longest path the kernel takes, with its terminating zero.
const PATH_BYTES: usize = 4096;
/// Bytes in a page: of two in one page both can be read, or neither.
pub const PAGE_BYTES: usize = 4096;

/// Where to go on if `address` is one of the recovering copies.
pub fn fixup(address: usize) -> Option<usize> {
    user_copy::recover(address)
}

/// Types any bytes are a value of.
///
/// # Safety
/// Every bit pattern must be valid, and there must be no padding.
pub unsafe trait Plain: Copy {}

// SAFETY: integers, and structures of integers without padding.
unsafe impl Plain for u8 {}
// SAFETY: as above.
unsafe impl Plain for i32 {}
// SAFETY: as above.
unsafe impl Plain for u32 {}
// SAFETY: as above.
unsafe impl Plain for i64 {}
// SAFETY: as above.
unsafe impl Plain for u64 {}
// SAFETY: as above.
unsafe impl Plain for usize {}
// SAFETY: as above.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}
// SAFETY: two integers of eight bytes.
unsafe impl Plain for libc::timespec {}
// SAFETY: two integers of eight bytes.
unsafe impl Plain for libc::timeval {}
// SAFETY: integers and fields declared as padding.
unsafe impl Plain for libc::stat {}
// SAFETY: integers and fields declared as padding.
unsafe impl Plain for libc::statx {}
// SAFETY: integers and fields declared as padding.
unsafe impl Plain for libc::statfs {}

/// Reads a value at `address`.
pub fn read<T: Plain>(address: usize) -> Result<T, Failure> {
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: the zeroed value is initialised memory of its size, and plain data.
    let bytes = unsafe { std::slice::from_raw_parts_mut(value.as_mut_ptr().cast::<u8>(), size_of::<T>()) };
    read_bytes(address, bytes)?;
    // SAFETY: any bytes are a value of a plain type.
    Ok(unsafe { value.assume_init() })
}

/// Writes `value` at `address`.
pub fn write<T: Plain>(address: usize, value: &T) -> Result<(), Failure> {
    if size_of::<T>() <= WORD_BYTES && address % PAGE_BYTES > PAGE_BYTES - size_of::<T>() {
        // A word is stored in one go: if the page of its end is not there, nothing of it is.
        read_bytes(address.wrapping_add(size_of::<T>() - 1), &mut [0])?;
    }
    // SAFETY: a plain value is its bytes.
    let bytes =
        unsafe { std::slice::from_raw_parts(core::ptr::from_ref(value).cast::<u8>(), size_of::<T>()) };
    write_bytes(address, bytes)
}

/// The kernel stores so many bytes at once.
const WORD_BYTES: usize = 8;

/// Fills `bytes` from `address`.
pub fn read_bytes(address: usize, bytes: &mut [u8]) -> Result<(), Failure> {
    slice(address, bytes.len()).copy_in(bytes).map_err(|_| Failure::Errno(libc::EFAULT))
}

/// Writes `bytes` at `address`.
pub fn write_bytes(address: usize, bytes: &[u8]) -> Result<(), Failure> {
    slice_mut(address, bytes.len()).copy_out(bytes).map_err(|_| Failure::Errno(libc::EFAULT))
}

/// Writes as many of `bytes` at `address` as can be, from the first on, and says how many.
pub fn write_as_far_as_possible(address: usize, bytes: &[u8]) -> usize {
    slice_mut(address, bytes.len()).copy_out(bytes).map_or_else(|fault| fault.copied, |()| bytes.len())
}

/// The program may serve faults in its memory itself, by threads that make calls of ours (`userfaultfd`).
static SERVES_FAULTS: AtomicBool = AtomicBool::new(false);

/// From now on buffers are made present before anything is locked: the thread that serves the fault may need the same lock.
pub fn expect_served_faults() {
    SERVES_FAULTS.store(true, Ordering::Relaxed);
}

#[inline]
fn make_present(address: usize, length: usize, advice: i32) {
    if SERVES_FAULTS.load(Ordering::Relaxed) && length > 0 {
        fault_in(address, length, advice);
    }
}

/// What does not exist stays away: the copy answers for it.
#[cold]
fn fault_in(address: usize, length: usize, advice: i32) {
    let start = address / PAGE_BYTES * PAGE_BYTES;
    let bytes = address.wrapping_add(length).wrapping_sub(start);
    // SAFETY: changes nothing that the program could see but which of its pages are there.
    let answer =
        unsafe { arch::syscall(libc::SYS_madvise as usize, [start, bytes, advice as usize, 0, 0, 0]) };
    if answer == -(libc::EINVAL as isize) {
        // A kernel before 5.14.
        let mut pages =
            (start..start.saturating_add(bytes)).step_by(PAGE_BYTES).map(|page| page.max(address));
        while pages.next().is_some_and(|page| read::<u8>(page).is_ok()) {}
    }
}

/// The application's buffer at `address`, to be read.
pub fn slice(address: usize, length: usize) -> UserSlice<'static> {
    make_present(address, length, libc::MADV_POPULATE_READ);
    // SAFETY: the application named the buffer in a system call; a fault in it is recovered from.
    unsafe { UserSlice::new(address as *const u8, length) }
}

/// The application's buffer at `address`, to be written.
pub fn slice_mut(address: usize, length: usize) -> UserSliceMut<'static> {
    make_present(address, length, libc::MADV_POPULATE_WRITE);
    // SAFETY: as above.
    unsafe { UserSliceMut::new(address as *mut u8, length) }
}

/// The first address that no program can have.
const END_OF_MEMORY: usize = 0x7fff_ffff_f000;

/// Whether a program can have memory of this length at `address`: where it cannot, the kernel refuses a buffer before it moves
/// any byte. Memory inside need not be mapped.
#[inline]
pub fn is_in_reach(address: usize, length: usize) -> bool {
    address.checked_add(length).is_some_and(|end| end <= END_OF_MEMORY)
}

/// The zero-terminated string at `address`, without its terminator; `None` if that does not come within `limit` bytes.
pub fn read_string(address: usize, limit: usize) -> Result<Option<Vec<u8>>, Failure> {
    let mut string = Vec::new();
    // Up to a page boundary at a time: memory behind the terminator need not be mapped.
    while string.len() < limit {
        let at = address.wrapping_add(string.len());
        let step = (PAGE_BYTES - at % PAGE_BYTES).min(limit - string.len()).min(STRING_STEP);
        let mut bytes = [0; STRING_STEP];
        read_bytes(at, &mut bytes[..step])?;
        if let Some(end) = bytes[..step].iter().position(|byte| *byte == 0) {
            string.extend_from_slice(&bytes[..end]);
            return Ok(Some(string));
        }
        string.extend_from_slice(&bytes[..step]);
    }
    Ok(None)
}

/// A zero-terminated path of the application.
#[derive(Debug)]
pub struct UserPath(Vec<u8>);

/// Most strings are read in one step of this size.
const STRING_STEP: usize = 128;

impl UserPath {
    /// Reads the path at `address`: EFAULT if it cannot be read, ENAMETOOLONG if it does not end.
    pub fn read(address: usize) -> Result<Self, Failure> {
        read_string(address, PATH_BYTES)?.map(Self).ok_or(Failure::Errno(libc::ENAMETOOLONG))
    }

    /// The path, without its terminator.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}
