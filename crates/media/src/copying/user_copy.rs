//! Application memory: buffers that may be unmapped, read-only or taken away while we copy.
//!
//! A bad buffer must answer EFAULT, not kill the program, and must not leave a log reservation half made. So
//! every access goes through assembly routines of known addresses; the SIGSEGV/SIGBUS handler of the door
//! asks [`recover`] where to go on, and the routine returns how much it left undone.

use crate::copying::{arch, persist};
use core::marker::PhantomData;
use cuesta_format::entry::Crc32c;

/// The application's memory could not be read or written; this many bytes had been copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bad address after {copied} bytes")]
pub struct Fault {
    /// Bytes copied before the one that faulted.
    pub copied: usize,
}

impl Fault {
    #[inline(always)]
    pub(crate) fn check(len: usize, left: usize) -> Result<(), Fault> {
        if left == 0 { Ok(()) } else { Err(Fault { copied: len - left }) }
    }
}

/// Memory of the application to copy from.
#[derive(Clone, Copy, Debug)]
pub struct UserSlice<'a> {
    ptr: *const u8,
    len: usize,
    lifetime: PhantomData<&'a [u8]>,
}

// SAFETY: reading through it is what any thread of the process may do; nothing is dereferenced by the compiler.
unsafe impl Send for UserSlice<'_> {}

impl<'a> From<&'a [u8]> for UserSlice<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        UserSlice { ptr: bytes.as_ptr(), len: bytes.len(), lifetime: PhantomData }
    }
}

impl<'a> UserSlice<'a> {
    /// # Safety
    /// The application named this range as a buffer to be read by us: reading it must be allowed as far as
    /// it is mapped. It need not be mapped, nor stay unchanged, provided a handler calls [`recover`].
    pub const unsafe fn new(ptr: *const u8, len: usize) -> Self {
        UserSlice { ptr, len, lifetime: PhantomData }
    }

    /// Its length in bytes.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where it starts.
    pub const fn as_ptr(&self) -> *const u8 {
        self.ptr
    }

    /// The part before `at` and the part from it on; `at` past the end leaves the second part empty.
    pub fn split_at(self, at: usize) -> (UserSlice<'a>, UserSlice<'a>) {
        let at = at.min(self.len);
        let first = UserSlice { len: at, ..self };
        let second = UserSlice { ptr: self.ptr.wrapping_add(at), len: self.len - at, ..self };
        (first, second)
    }

    /// As [`UserSlice::copy_in`]. Adds the copied bytes to `sum`. The bytes stay in the cache, to be used again.
    #[inline]
    pub fn copy_in_summed(&self, dst: &mut [u8], sum: &mut Crc32c) -> Result<(), Fault> {
        let len = dst.len().min(self.len);
        debug_assert_eq!(len, dst.len());
        // SAFETY: as in `copy_in`; `dst` is ours alone.
        Fault::check(len, unsafe { persist::copy_summed(dst.as_mut_ptr(), self.ptr, len, sum) })
    }

    /// Copies the first `dst.len()` bytes into `dst`, which must not be longer than this slice.
    #[inline]
    pub fn copy_in(&self, dst: &mut [u8]) -> Result<(), Fault> {
        let len = dst.len().min(self.len);
        debug_assert_eq!(len, dst.len());
        // SAFETY: `dst` is ours, and `new` promised that the source may be read or faults.
        Fault::check(len, unsafe { arch::copy(dst.as_mut_ptr(), self.ptr, len) })
    }
}

/// Memory of the application to copy to.
#[derive(Debug)]
pub struct UserSliceMut<'a> {
    ptr: *mut u8,
    len: usize,
    lifetime: PhantomData<&'a mut [u8]>,
}

// SAFETY: writing through it is what any thread of the process may do; nothing is dereferenced by the compiler.
unsafe impl Send for UserSliceMut<'_> {}

impl<'a> From<&'a mut [u8]> for UserSliceMut<'a> {
    fn from(bytes: &'a mut [u8]) -> Self {
        UserSliceMut { ptr: bytes.as_mut_ptr(), len: bytes.len(), lifetime: PhantomData }
    }
}

impl<'a> UserSliceMut<'a> {
    /// # Safety
    /// The application named this range as a buffer to be written by us: nothing else may rely on its
    /// contents. It need not be mapped, provided a handler calls [`recover`].
    pub const unsafe fn new(ptr: *mut u8, len: usize) -> Self {
        UserSliceMut { ptr, len, lifetime: PhantomData }
    }

    /// Its length in bytes.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where it starts.
    pub const fn as_mut_ptr(&mut self) -> *mut u8 {
        self.ptr
    }

    /// The part before `at` and the part from it on; `at` past the end leaves the second part empty.
    pub fn split_at(self, at: usize) -> (UserSliceMut<'a>, UserSliceMut<'a>) {
        let at = at.min(self.len);
        let second =
            UserSliceMut { ptr: self.ptr.wrapping_add(at), len: self.len - at, lifetime: PhantomData };
        let first = UserSliceMut { len: at, ..self };
        (first, second)
    }

    /// A shorter-lived handle on `at..at+len`, cut to this slice.
    pub fn part(&mut self, at: usize, len: usize) -> UserSliceMut<'_> {
        let at = at.min(self.len);
        UserSliceMut { ptr: self.ptr.wrapping_add(at), len: len.min(self.len - at), lifetime: PhantomData }
    }

    /// Copies `src` to the start of this slice, which must not be shorter.
    #[inline]
    pub fn copy_out(&mut self, src: &[u8]) -> Result<(), Fault> {
        let len = src.len().min(self.len);
        debug_assert_eq!(len, src.len());
        // SAFETY: `src` is ours, and `new` promised that the destination may be written or faults.
        Fault::check(len, unsafe { arch::copy(self.ptr, src.as_ptr(), len) })
    }

    /// Sets every byte to zero: a hole read by the application.
    pub fn clear(&mut self) -> Result<(), Fault> {
        // SAFETY: `new` promised that the range may be written or faults.
        Fault::check(self.len, unsafe { arch::clear(self.ptr, self.len) })
    }
}

/// Copies a string that ends in a zero byte; returns its length without it, or `None` if `buffer` cannot hold
/// both. Reads no page behind the one the string ends in.
///
/// # Safety
/// As for [`UserSlice::new`], for as far as the string goes.
pub unsafe fn read_c_string(ptr: *const u8, buffer: &mut [u8]) -> Result<Option<usize>, Fault> {
    /// Divides every page size, and most paths are shorter.
    const STEP: usize = 128;
    let mut copied = 0;
    while copied < buffer.len() {
        let src = ptr.wrapping_add(copied);
        let len = (STEP - src as usize % STEP).min(buffer.len() - copied);
        let part = &mut buffer[copied..copied + len];
        // SAFETY: the step crosses no page and starts inside the string (caller) or faults.
        let left = unsafe { arch::copy(part.as_mut_ptr(), src, len) };
        if left > 0 {
            return Err(Fault { copied: copied + len - left });
        }
        if let Some(end) = part.iter().position(|byte| *byte == 0) {
            return Ok(Some(copied + end));
        }
        copied += len;
    }
    Ok(None)
}

/// Where execution goes on after a fault at `instruction_pointer`: `None` if the fault is not ours.
///
/// Callable from a signal handler: compares addresses, nothing else.
pub fn recover(instruction_pointer: usize) -> Option<usize> {
    arch::recover(instruction_pointer)
}
