//! The calls on descriptors that programs make most.

use std::ffi::{CStr, c_char, c_int, c_void};

use libc::{off_t, size_t, ssize_t};

use crate::descriptors::is_of_interest;
use crate::door::fsync_shortcut;
use crate::interpose::real::{Real, kernel, libc_answer, pthread_testcancel, real_functions, serve};
use crate::thread;

/// Defines `name` in libc's place: if descriptor `fd` is of interest and the thread is outside, the
/// system call `number`, else libc's own.
///
/// `shortcut`: an answer that is known without the client.
///
/// A cancellation point is one also where the call is ours: a cancellation that comes inside the client waits for the
/// next (see `signals`).
macro_rules! interpose {
    // SAFETY: may unwind, as functions of C that are defined here may.
    (@cancellation_point) => { unsafe { pthread_testcancel() } };
    ($($(#[$cancels:ident])? fn $name:ident($fd:ident: c_int $(, $argument:ident: $type:ty)*) -> $answer:ty
        = $number:ident($($value:expr),*) $(if $condition:expr)? $(, shortcut if $is_known:expr => $known:expr)?;)*) => {$(
        /// Stands in for libc's function of this name.
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($fd: c_int $(, $argument: $type)*) -> $answer {
            let arguments = || {
                let mut arguments = [0usize; 6];
                let values = [$fd as usize $(, $value)*];
                arguments[..values.len()].copy_from_slice(&values);
                arguments
            };
            if thread::is_inside() {
                return kernel(libc::$number, arguments()) as $answer;
            }
            if is_of_interest($fd) $(&& $condition)? {
                $(interpose!(@$cancels);)?
                $(if $is_known {
                    return $known;
                })?
                if let Some(answer) = serve(libc::$number, arguments()) {
                    return libc_answer(answer) as $answer;
                }
            }
            // SAFETY: libc's function of this name has this signature.
            unsafe {
                let real: unsafe extern "C-unwind" fn(c_int $(, $type)*) -> $answer = core::mem::transmute(real::$name.get());
                real($fd $(, $argument)*)
            }
        }
    )*

        real_functions!(pub(super) $($name)* __fxstat);
    };
}

interpose! {
    #[cancellation_point] fn read(fd: c_int, buffer: *mut c_void, count: size_t) -> ssize_t = SYS_read(buffer as usize, count);
    #[cancellation_point] fn write(fd: c_int, buffer: *const c_void, count: size_t) -> ssize_t = SYS_write(buffer as usize, count);
    #[cancellation_point] fn pread(fd: c_int, buffer: *mut c_void, count: size_t, offset: off_t) -> ssize_t
        = SYS_pread64(buffer as usize, count, offset as usize);
    #[cancellation_point] fn pread64(fd: c_int, buffer: *mut c_void, count: size_t, offset: off_t) -> ssize_t
        = SYS_pread64(buffer as usize, count, offset as usize);
    #[cancellation_point] fn pwrite(fd: c_int, buffer: *const c_void, count: size_t, offset: off_t) -> ssize_t
        = SYS_pwrite64(buffer as usize, count, offset as usize);
    #[cancellation_point] fn pwrite64(fd: c_int, buffer: *const c_void, count: size_t, offset: off_t) -> ssize_t
        = SYS_pwrite64(buffer as usize, count, offset as usize);
    #[cancellation_point] fn __read_chk(fd: c_int, buffer: *mut c_void, count: size_t, room: size_t) -> ssize_t
        = SYS_read(buffer as usize, count) if count <= room;
    #[cancellation_point] fn __pread_chk(fd: c_int, buffer: *mut c_void, count: size_t, offset: off_t, room: size_t) -> ssize_t
        = SYS_pread64(buffer as usize, count, offset as usize) if count <= room;
    #[cancellation_point] fn __pread64_chk(fd: c_int, buffer: *mut c_void, count: size_t, offset: off_t, room: size_t) -> ssize_t
        = SYS_pread64(buffer as usize, count, offset as usize) if count <= room;
    fn lseek(fd: c_int, offset: off_t, whence: c_int) -> off_t = SYS_lseek(offset as usize, whence as usize);
    fn lseek64(fd: c_int, offset: off_t, whence: c_int) -> off_t = SYS_lseek(offset as usize, whence as usize);
    #[cancellation_point] fn fsync(fd: c_int) -> c_int = SYS_fsync(), shortcut if fsync_shortcut::is_synced(fd) => 0;
    #[cancellation_point] fn fdatasync(fd: c_int) -> c_int = SYS_fdatasync(), shortcut if fsync_shortcut::is_synced(fd) => 0;
    fn ftruncate(fd: c_int, length: off_t) -> c_int = SYS_ftruncate(length as usize);
    fn ftruncate64(fd: c_int, length: off_t) -> c_int = SYS_ftruncate(length as usize);
    fn fstat(fd: c_int, stat: *mut c_void) -> c_int = SYS_fstat(stat as usize);
    fn fstat64(fd: c_int, stat: *mut c_void) -> c_int = SYS_fstat(stat as usize);
    #[cancellation_point] fn close(fd: c_int) -> c_int = SYS_close();
    fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int = SYS_fcntl(command as usize, argument) if is_on_locks(command);
    fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int = SYS_fcntl(command as usize, argument) if is_on_locks(command);
}

/// Databases set and lift locks for every transaction. A call that waits for one is a cancellation point, and so libc's.
///
/// That `fcntl` takes any number of arguments makes no difference to where its third one is, or would be.
#[inline(always)]
fn is_on_locks(command: c_int) -> bool {
    matches!(command, libc::F_GETLK | libc::F_SETLK | libc::F_OFD_GETLK | libc::F_OFD_SETLK)
}

/// Stands in for libc's function of this name.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __fxstat(version: c_int, fd: c_int, stat: *mut c_char) -> c_int {
    if is_of_interest(fd)
        && !thread::is_inside()
        && let Some(answer) = serve(libc::SYS_fstat, [fd as usize, stat as usize, 0, 0, 0, 0])
    {
        return libc_answer(answer) as c_int;
    }
    // SAFETY: libc's function of this name has this signature.
    unsafe {
        let real: unsafe extern "C" fn(c_int, c_int, *mut c_char) -> c_int =
            core::mem::transmute(real::__fxstat.get());
        real(version, fd, stat)
    }
}
