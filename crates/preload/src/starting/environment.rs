//! The variables the program was started with, found without the standard library: looking them up
//! there takes locks, makes copies, and touches pages in every program that is ever started.

use std::ffi::{CStr, c_char};

unsafe extern "C" {
    static mut environ: *mut *const c_char;
}

/// What Cuesta looks at; a variable that is not set, or empty, is `None`.
///
/// The strings are the process's own, which it may overwrite: a string that is needed later is copied.
#[derive(Clone, Copy, Debug, Default)]
pub struct Environment {
    /// `CUESTA_SOCKET`.
    pub socket: Option<&'static CStr>,
    /// `CUESTA_AT`.
    pub at: Option<&'static CStr>,
    /// `CUESTA_MOUNTED`.
    pub mounted: Option<&'static CStr>,
    /// `CUESTA_DEVICE`.
    pub device: Option<&'static CStr>,
    /// `CUESTA_DOCTOR`.
    pub doctor: Option<&'static CStr>,
    /// `CUESTA_DURABILITY`.
    pub durability: Option<&'static CStr>,
    /// `CUESTA_PATCH`.
    pub patch: Option<&'static CStr>,
    /// `CUESTA_TABLE`.
    pub table: Option<&'static CStr>,
    /// `LD_LIBRARY_PATH`.
    pub library_path: Option<&'static CStr>,
    /// `LD_PRELOAD`.
    pub preload: Option<&'static CStr>,
    /// `XDG_RUNTIME_DIR`.
    pub runtime: Option<&'static CStr>,
}

/// The first `count` folders of `LD_LIBRARY_PATH` were meant for the dynamic loader alone: the program does not see them,
/// nor the variable if there is nothing else in it.
///
/// # Safety
/// As for [`Environment::look`].
pub unsafe fn forget_folders(count: usize) {
    const NAME: &[u8] = b"LD_LIBRARY_PATH=";
    // SAFETY: the environment is an array of strings in memory of the program's, or null.
    unsafe {
        let mut place = environ;
        while !place.is_null() && !(*place).is_null() {
            let entry = CStr::from_ptr(*place).to_bytes_with_nul();
            if entry.starts_with(NAME) {
                let colons = entry.iter().enumerate().filter(|(_, byte)| **byte == b':');
                match colons.map(|(at, _)| at).nth(count - 1) {
                    Some(last) => {
                        let value = (*place).add(NAME.len()).cast_mut();
                        core::ptr::copy((*place).add(last + 1), value, entry.len() - last - 1);
                    }
                    None => {
                        while !(*place).is_null() {
                            *place = *place.add(1);
                            place = place.add(1);
                        }
                    }
                }
                return;
            }
            place = place.add(1);
        }
    }
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
        let wanted: [(&[u8], &mut Option<&'static CStr>, bool); 11] = [
            (b"CUESTA_SOCKET=", &mut self.socket, false),
            (b"CUESTA_AT=", &mut self.at, false),
            (b"CUESTA_MOUNTED=", &mut self.mounted, false),
            (b"CUESTA_DEVICE=", &mut self.device, false),
            (b"CUESTA_DURABILITY=", &mut self.durability, false),
            (b"CUESTA_DOCTOR=", &mut self.doctor, true),
            (b"CUESTA_PATCH=", &mut self.patch, false),
            (b"CUESTA_TABLE=", &mut self.table, true),
            (b"LD_LIBRARY_PATH=", &mut self.library_path, false),
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
