//! The calls on paths that programs make most: served by their symbol where the path leads into the store for certain, by
//! its first bytes. All others go through libc's functions, and their sites look at each path.
//!
//! A site has to save the vector registers, as the kernel does not touch them: a tenth of a microsecond, of the two or three
//! that such a call takes. A function of C may.

use core::ffi::{c_char, c_int, c_void};

use libc::mode_t;

use crate::call::filter;
use crate::descriptors::is_of_interest;
use crate::interpose::real::{Real, kernel, libc_answer, pthread_testcancel, real_functions, serve};
use crate::memory::user_memory;
use crate::thread;
use std::ffi::CStr;
use std::sync::atomic::Ordering;

/// Whether a path leads into the store for certain, or at least begins there.
#[inline]
fn begins_in_store(directory: c_int, path: *const c_char) -> bool {
    if path.is_null() || !filter::compares_paths() {
        return false;
    }
    // What cannot be read libc's function answers for.
    match user_memory::read::<u8>(path as usize) {
        Ok(b'/') => filter::is_below_prefix(path as usize),
        Ok(_) if directory == libc::AT_FDCWD => filter::CWD_VIRTUAL.load(Ordering::Relaxed) != 0,
        Ok(_) => is_of_interest(directory),
        Err(_) => false,
    }
}

/// The mode of a call that makes a file; other calls give none.
fn mode_of(flags: c_int, mode: mode_t) -> usize {
    if flags & (libc::O_CREAT | libc::O_TMPFILE) != 0 { mode as usize } else { 0 }
}

/// Defines `name` in libc's place: if `path`, seen from `directory`, begins in the store, and the thread is outside, the
/// system call `number`, else libc's own.
macro_rules! interpose_paths {
    // SAFETY: may unwind, as functions of C that are defined here may.
    (@cancellation_point) => { unsafe { pthread_testcancel() } };
    ($($(#[$cancels:ident])? fn $name:ident($($argument:ident: $type:ty),* $(; $optional:ident: $optional_type:ty)?)
        = $number:ident($($value:expr),*) if $directory:expr, $path:ident;)*) => {
    $(
        /// Stands in for libc's function of this name. An argument that may be left out is where it would be.
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($argument: $type,)* $($optional: $optional_type)?) -> c_int {
            let arguments = || {
                let mut arguments = [0usize; 6];
                let values = [$($value),*];
                arguments[..values.len()].copy_from_slice(&values);
                arguments
            };
            if thread::is_inside() {
                return kernel(libc::$number, arguments()) as c_int;
            }
            if begins_in_store($directory, $path) {
                $(interpose_paths!(@$cancels);)?
                if let Some(answer) = serve(libc::$number, arguments()) {
                    return libc_answer(answer) as c_int;
                }
            }
            // SAFETY: libc's function of this name has this signature.
            unsafe {
                let real: unsafe extern "C-unwind" fn($($type),* $(, $optional_type)?) -> c_int =
                    core::mem::transmute(real::$name.get());
                real($($argument),* $(, $optional)?)
            }
        }
    )*

        real_functions!(pub(super) $($name)*);
    };
}

const HERE: usize = libc::AT_FDCWD as usize;
const NO_FOLLOW: usize = libc::AT_SYMLINK_NOFOLLOW as usize;

interpose_paths! {
    #[cancellation_point] fn open(path: *const c_char, flags: c_int; mode: mode_t)
        = SYS_openat(HERE, path as usize, flags as usize, mode_of(flags, mode)) if libc::AT_FDCWD, path;
    #[cancellation_point] fn open64(path: *const c_char, flags: c_int; mode: mode_t)
        = SYS_openat(HERE, path as usize, flags as usize, mode_of(flags, mode)) if libc::AT_FDCWD, path;
    #[cancellation_point] fn openat(directory: c_int, path: *const c_char, flags: c_int; mode: mode_t)
        = SYS_openat(directory as usize, path as usize, flags as usize, mode_of(flags, mode)) if directory, path;
    #[cancellation_point] fn openat64(directory: c_int, path: *const c_char, flags: c_int; mode: mode_t)
        = SYS_openat(directory as usize, path as usize, flags as usize, mode_of(flags, mode)) if directory, path;
    fn stat(path: *const c_char, stat: *mut c_void) = SYS_newfstatat(HERE, path as usize, stat as usize, 0) if libc::AT_FDCWD, path;
    fn stat64(path: *const c_char, stat: *mut c_void) = SYS_newfstatat(HERE, path as usize, stat as usize, 0) if libc::AT_FDCWD, path;
    fn lstat(path: *const c_char, stat: *mut c_void)
        = SYS_newfstatat(HERE, path as usize, stat as usize, NO_FOLLOW) if libc::AT_FDCWD, path;
    fn lstat64(path: *const c_char, stat: *mut c_void)
        = SYS_newfstatat(HERE, path as usize, stat as usize, NO_FOLLOW) if libc::AT_FDCWD, path;
    fn fstatat(directory: c_int, path: *const c_char, stat: *mut c_void, flags: c_int)
        = SYS_newfstatat(directory as usize, path as usize, stat as usize, flags as usize) if directory, path;
    fn fstatat64(directory: c_int, path: *const c_char, stat: *mut c_void, flags: c_int)
        = SYS_newfstatat(directory as usize, path as usize, stat as usize, flags as usize) if directory, path;
    fn access(path: *const c_char, mode: c_int) = SYS_access(path as usize, mode as usize) if libc::AT_FDCWD, path;
    fn rename(from: *const c_char, to: *const c_char)
        = SYS_rename(from as usize, to as usize) if libc::AT_FDCWD, from;
    fn unlink(path: *const c_char) = SYS_unlink(path as usize) if libc::AT_FDCWD, path;
    fn unlinkat(directory: c_int, path: *const c_char, flags: c_int)
        = SYS_unlinkat(directory as usize, path as usize, flags as usize) if directory, path;
}
