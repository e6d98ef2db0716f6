//! The dynamic loader's notes of a library that it got a whole file of ours for (`whole`): its path, for programs that
//! ask where it is, and its device and number, by which the loader knows a library that it has from its file. Here both
//! become the library's own.
//!
//! The numbers are in a part of the loader's notes that has no description: they are found by what they are. Whether
//! that can be is seen before a whole file is ever used ([`notes_number`]).

use core::ffi::{CStr, c_char};

use crate::patch::binaries::mark::{FileNumber, IDENTITY_BYTES, Identity};

/// How far into a note the numbers may be; no version's note is shorter.
const NOTE_BYTES: usize = 1024;
const DT_DEBUG: u64 = 21;

/// The part of a note that has a description (`struct link_map`).
#[repr(C)]
struct Note {
    base: usize,
    path: *mut c_char,
    dynamic: usize,
    next: *mut Note,
}

/// The loader's list of notes (`struct r_debug`).
#[repr(C)]
struct Notes {
    version: i32,
    first: *mut Note,
}

/// The note of the library at `base`; `dynamic` is the address of the program's own dynamic section.
///
/// # Safety
/// `dynamic` is that, or zero, and no thread loads a library meanwhile.
unsafe fn note_of(dynamic: usize, base: usize) -> Option<*mut Note> {
    let mut entry = dynamic as *const [u64; 2];
    if entry.is_null() {
        return None;
    }
    // SAFETY: the section ends with an entry of kind 0; the loader has put the address of its list into the program's.
    unsafe {
        while (*entry)[0] != DT_DEBUG {
            if (*entry)[0] == 0 {
                return None;
            }
            entry = entry.add(1);
        }
        let notes = (*entry)[1] as *const Notes;
        let mut note = notes.as_ref()?.first;
        while let Some(found) = note.as_ref() {
            if found.base == base {
                return Some(note);
            }
            note = found.next;
        }
    }
    None
}

/// Where in a note a file's number stands.
///
/// # Safety
/// `note` is one of the loader's.
unsafe fn place_of(note: *mut Note, number: FileNumber) -> Option<*mut u64> {
    let words = note.cast::<u64>();
    // SAFETY: notes are longer than this.
    let place = unsafe {
        (0..NOTE_BYTES / 8 - 1).find(|at| (words.add(*at).read(), words.add(at + 1).read()) == number)
    };
    // SAFETY: as above.
    place.map(|at| unsafe { words.add(at) })
}

/// Whether the loader's note of the library at `base` has the number of its file where it can be found.
pub fn notes_number(dynamic: usize, base: usize, number: FileNumber) -> bool {
    // SAFETY: the program's section, as the loader told; the notes of libraries that are there from the start stay.
    unsafe { note_of(dynamic, base).is_some_and(|note| place_of(note, number).is_some()) }
}

/// Gives the library at `base` the path and number of the one it stands for, as its file says at `identity`.
///
/// # Safety
/// As for [`note_of`]; a whole file is mapped at `base`, and `identity` is the address its mark says.
pub unsafe fn become_original(dynamic: usize, base: usize, identity: usize) -> Option<()> {
    // SAFETY: by the caller's word the identity is there, with the path behind it; the note's path is a string of
    // the loader's making that is at least as long as the library's (`Original::in_its_place`).
    unsafe {
        let told = Identity::decode(&*(identity as *const [u8; IDENTITY_BYTES]));
        let path = CStr::from_ptr((identity + IDENTITY_BYTES) as *const c_char).to_bytes_with_nul();
        let note = note_of(dynamic, base)?;
        let place = place_of(note, told.own)?;
        place.write(told.original.0);
        place.add(1).write(told.original.1);
        let noted = (*note).path;
        if CStr::from_ptr(noted).to_bytes_with_nul().len() >= path.len() {
            core::ptr::copy_nonoverlapping(path.as_ptr(), noted.cast(), path.len());
        }
    }
    Some(())
}
