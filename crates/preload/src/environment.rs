//! The variables the program was started with, found without the standard library: looking them up
//! there takes locks, makes copies, and touches pages in every program that is ever started.

use std::ffi::{CStr, c_char};

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// What Cuesta looks at; a variable that is not set, or empty, is `None`.
///
/// The strings are the process's own, which it may overwrite: what is needed later is copied.
#[derive(Clone, Copy, Debug, Default)]
pub struct Environment {
    /// `CUESTA_SOCKET`.
    pub socket: Option<&'static CStr>,
    /// `CUESTA_AT`.
    pub at: Option<&'static CStr>,
    /// `CUESTA_PATCH`.
    pub patch: Option<&'static CStr>,
    /// `CUESTA_TABLE`.
    pub table: Option<&'static CStr>,
    /// `LD_PRELOAD`.
    pub preload: Option<&'static CStr>,
    /// `XDG_RUNTIME_DIR`.
    pub runtime: Option<&'static CStr>,
}

impl Environment {
    /// Looks now.
    ///
    /// # Safety
    /// No other thread changes the environment, as in a constructor; and until the strings are last
    /// used the program does not overwrite them.
    pub unsafe fn look() -> Self {
        let mut found = Self::default();
        // SAFETY: the environment is an array of strings that ends with a null pointer, or null itself.
        unsafe {
            let mut next = environ;
            while !next.is_null() && !(*next).is_null() {
                found.note(*next);
                next = next.add(1);
            }
        }
        found
    }

    /// # Safety
    /// `entry` is a zero-terminated string that stays as it is while this structure is used.
    unsafe fn note(&mut self, entry: *const c_char) {
        let wanted: [(&[u8], &mut Option<&'static CStr>); 6] = [
            (b"CUESTA_SOCKET=", &mut self.socket),
            (b"CUESTA_AT=", &mut self.at),
            (b"CUESTA_PATCH=", &mut self.patch),
            (b"CUESTA_TABLE=", &mut self.table),
            (b"LD_PRELOAD=", &mut self.preload),
            (b"XDG_RUNTIME_DIR=", &mut self.runtime),
        ];
        for (name, place) in wanted {
            // SAFETY: comparing stops at the first difference, the terminator at the latest.
            unsafe {
                let is_named = name.iter().enumerate().all(|(at, byte)| *entry.add(at) as u8 == *byte);
                if is_named && *entry.add(name.len()) != 0 {
                    *place = Some(CStr::from_ptr(entry.add(name.len())));
                }
            }
        }
    }
}
