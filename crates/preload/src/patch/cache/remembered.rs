//! Where the cache of this process is.

use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::patch::cache::sites::Cache;

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
