//! Patching the system call instructions of the C library family, once, as the process starts.
//!
//! `image` finds the loaded libraries, `cache` remembers the sites of each build, `layout` says what is
//! written where, `copy` maps a library patched before, `install` patches this process's own. Programs of the store are
//! given a `whole` file in its place, which `library_list` leads the loader to and `namesake` gives the library's name.
//! `tidying` takes away what of all this nobody uses any more.
//! Other libraries, and the program, seldom make system calls themselves; `foreign` finds those that do.

mod cache;
mod copy;
mod descriptor;
pub mod elf;
mod foreign;
mod image;
mod install;
mod layout;
mod library_list;
pub mod loader;
mod namesake;
mod page_map;
pub mod provision;
mod tidying;
mod whole;

use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicPtr, Ordering};

pub use cache::{Cache, CacheOnDemand};
pub use foreign::{is_known_without_sites, patch_mapped};
pub use install::{Program, Report, install};
pub use tidying::{NOTED_S, now};

/// A number the sweep could not tell.
pub const UNKNOWN_NUMBER: u16 = u16::MAX;

/// One system call instruction and the bytes around it that a jump replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// First replaced byte, from the start of the image.
    pub start: u32,
    /// Replaced bytes, the `syscall` included.
    pub length: u8,
    /// Where in them the `syscall` stands.
    pub syscall: u8,
    /// The number, if straight-line code sets it to a constant, else [`UNKNOWN_NUMBER`].
    pub number: u16,
    /// Where in them displacements relative to the instruction pointer stand; 0 for none.
    pub relative: [u8; 2],
}

/// Where the cache's folder is to be made, if the program's environment says so, else null.
static RUNTIME: AtomicPtr<c_char> = AtomicPtr::new(core::ptr::null_mut());

/// Notes where the cache is. Call once.
pub fn remember_cache(runtime: Option<&CStr>) {
    if let Some(runtime) = runtime {
        RUNTIME.store(runtime.to_owned().into_raw(), Ordering::Release);
    }
}

/// The cache this process uses.
pub fn remembered_cache() -> Option<Cache> {
    let runtime = RUNTIME.load(Ordering::Acquire);
    // SAFETY: null, or a string that was given away for good.
    let runtime = (!runtime.is_null()).then(|| unsafe { CStr::from_ptr(runtime) });
    Cache::open(runtime)
}
