//! libc's own functions behind the symbols of this library, and what each of these symbols does with a call.

use std::ffi::{CStr, c_int, c_long, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::arch::{self, Frame};
use crate::call::errno;
use crate::door;

/// libc's function of a name. Looked up when it is first needed only by what runs before this library is ready.
pub struct Real {
    address: AtomicPtr<c_void>,
    name: &'static CStr,
}

impl Real {
    /// The function `name`, not looked up yet.
    pub const fn new(name: &'static CStr) -> Self {
        Self { address: AtomicPtr::new(core::ptr::null_mut()), name }
    }

    /// Its address.
    #[inline(always)]
    pub fn get(&self) -> *mut c_void {
        let address = self.address.load(Ordering::Relaxed);
        if address.is_null() { self.resolve() } else { address }
    }

    #[cold]
    fn resolve(&self) -> *mut c_void {
        let address = self.look_up();
        if address.is_null() {
            arch::abort();
        }
        address
    }

    /// Looks it up now; null where this libc has none. No program calls it then.
    pub fn look_up(&self) -> *mut c_void {
        // SAFETY: a valid name; dlsym calls none of the functions this module defines.
        let address = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.address.store(address, Ordering::Relaxed);
        address
    }
}

/// Serves a call that came by its symbol; `None` if it is not ours.
#[inline(never)]
pub fn serve(number: c_long, arguments: [usize; 6]) -> Option<isize> {
    door::call(&mut Frame::new(number as usize, arguments))
}

/// A call of this library's own.
#[cold]
pub fn kernel(number: c_long, arguments: [usize; 6]) -> isize {
    // SAFETY: the caller asked libc's function for it, which would do just this.
    libc_answer(unsafe { arch::syscall(number as usize, arguments) })
}

/// What libc's function would answer.
pub fn libc_answer(answer: isize) -> isize {
    if (-4095..0).contains(&answer) {
        errno::set(-answer as c_int);
        return -1;
    }
    answer
}

unsafe extern "C-unwind" {
    /// libc's cancellation point.
    pub fn pthread_testcancel();
}

/// Defines libc's own functions of these names, each under its name, and all of them.
macro_rules! real_functions {
    ($visible:vis $($name:ident)*) => {
        #[allow(non_upper_case_globals)]
        $visible mod real {
            use super::{CStr, Real};
            $(pub static $name: Real = Real::new(
                // SAFETY: the literal ends in its only zero byte.
                unsafe { CStr::from_bytes_with_nul_unchecked(concat!(stringify!($name), "\0").as_bytes()) }
            );)*
            pub const ALL: &[&Real] = &[$(&$name),*];
        }
    };
}

pub(super) use real_functions;
