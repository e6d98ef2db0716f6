//! The variables the program was started with, found without the standard library: looking them up
//! there takes locks, makes copies, and touches pages in every program that is ever started.

use std::ffi::{CStr, c_char};

unsafe extern "C" {
    static mut environ: *mut *const c_char;
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
    /// `CUESTA_DOCTOR`.
    pub doctor: Option<&'static CStr>,
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
    /// Looks now. `CUESTA_TABLE` and `CUESTA_DOCTOR` are meant for this library alone: the program does not see them.
    ///
    /// # Safety
    /// No other thread changes the environment, as in a constructor; and until the strings are last
    /// used the program does not overwrite them.
    pub unsafe fn look() -> Self {
        let mut found = Self::default();
        // SAFETY: the environment is an array of strings that ends with a null pointer, or null itself.
        unsafe {
            let mut next = environ;
            let mut kept = next;
            while !next.is_null() && !(*next).is_null() {
                if !found.note(*next) {
                    if kept != next {
                        *kept = *next;
                    }
                    kept = kept.add(1);
                }
                next = next.add(1);
            }
            if kept != next {
                *kept = core::ptr::null();
            }
        }
        found
    }

    /// Whether `entry` was meant for this library alone.
    ///
    /// # Safety
    /// `entry` is a zero-terminated string that stays as it is while this structure is used.
    unsafe fn note(&mut self, entry: *const c_char) -> bool {
        let wanted: [(&[u8], &mut Option<&'static CStr>, bool); 7] = [
            (b"CUESTA_SOCKET=", &mut self.socket, false),
            (b"CUESTA_AT=", &mut self.at, false),
            (b"CUESTA_DOCTOR=", &mut self.doctor, true),
            (b"CUESTA_PATCH=", &mut self.patch, false),
            (b"CUESTA_TABLE=", &mut self.table, true),
            (b"LD_PRELOAD=", &mut self.preload, false),
            (b"XDG_RUNTIME_DIR=", &mut self.runtime, false),
        ];
        for (name, place, is_ours_alone) in wanted {
            // SAFETY: comparing stops at the first difference, the terminator at the latest.
            unsafe {
                let is_named = name.iter().enumerate().all(|(at, byte)| *entry.add(at) as u8 == *byte);
                if is_named {
                    if *entry.add(name.len()) != 0 {
                        *place = Some(CStr::from_ptr(entry.add(name.len())));
                    }
                    return is_ours_alone;
                }
            }
        }
        false
    }
}
