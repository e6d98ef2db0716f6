//! `openat2`: an open that says which ways it may take.
//!
//! Some requests are wrong before their path is looked at. The kernel finds that as well, and answers then.

use std::ffi::CString;

use cuesta_libfs::Resolve;

use cuesta_libfs::{OPEN_FLAGS, UNNAMED};

use crate::call::{Answer, Call, Failure};
use crate::calls::names::opening::{self, PATH_FLAGS, Through};
use crate::calls::paths::store_path::{self, Named, StorePath};
use crate::calls::paths::{descriptor_paths, links, prefix};
use crate::descriptors::{self, working_directory};
use crate::memory::user_memory::{self, UserPath};
use crate::process;

/// `struct open_how`: flags, mode, resolve.
type How = [u64; 3];
/// A longer structure is refused.
const HOW_BYTES_MAX: usize = 4096;

const NO_CROSSING: u64 = libc::RESOLVE_NO_XDEV;
const NO_MAGIC: u64 = libc::RESOLVE_NO_MAGICLINKS;
const NO_SYMLINKS: u64 = libc::RESOLVE_NO_SYMLINKS;
const BENEATH: u64 = libc::RESOLVE_BENEATH;
const IN_ROOT: u64 = libc::RESOLVE_IN_ROOT;
/// Fail rather than wait for a disk.
const CACHED: u64 = 0x20;

const MODE_BITS: u64 = 0o7777;

/// The request; `None` if the kernel will refuse it.
fn request(call: &Call) -> Option<(i32, u64, u64)> {
    let bytes = call.word(3);
    if !(size_of::<How>()..=HOW_BYTES_MAX).contains(&bytes) {
        return None;
    }
    let mut rest = vec![0; bytes - size_of::<How>()];
    user_memory::read_bytes(call.word(2).wrapping_add(size_of::<How>()), &mut rest).ok()?;
    let [flags, mode, resolve]: How = user_memory::read(call.word(2)).ok()?;
    let flags = i32::try_from(flags).ok()?;
    let makes = flags & (libc::O_CREAT | UNNAMED) != 0;
    let changes = makes || flags & libc::O_TRUNC != 0;
    let is_sound = rest.iter().all(|byte| *byte == 0)
        && flags & !OPEN_FLAGS == 0
        && (flags & libc::O_PATH == 0 || flags & !PATH_FLAGS == 0)
        && mode & !(if makes { MODE_BITS } else { 0 }) == 0
        && resolve & !(NO_CROSSING | NO_MAGIC | NO_SYMLINKS | BENEATH | IN_ROOT | CACHED) == 0
        && resolve & (BENEATH | IN_ROOT) != BENEATH | IN_ROOT
        && !opening::contradicts_itself(flags)
        && !opening::makes_directory(flags)
        && (resolve & CACHED == 0 || !changes);
    is_sound.then_some((flags, mode, resolve))
}

/// Opens what the kernel finds, or what a link there leads to in the store.
fn open_outside(call: &Call) -> Answer {
    const NAMED: Named = (Some(0), 1);
    let in_store = |path: CString| {
        let mut arguments = call.arguments;
        (arguments[0], arguments[1]) = (libc::AT_FDCWD as usize, path.as_ptr() as usize);
        open(&Call { number: call.number, arguments })
    };
    if let Some(path) = links::must_look_first().then(|| links::behind_link(call, NAMED)).flatten() {
        return in_store(path);
    }
    let answer = Ok(call.kernel(call.arguments));
    links::into_store_behind(call, NAMED, answer).map_or(answer, in_store)
}

pub fn open(call: &Call) -> Answer {
    let (flags, mode, resolve) = request(call).ok_or(Failure::NotOurs)?;
    let has = |flag: u64| resolve & flag != 0;
    let path = UserPath::read(call.word(1))?;
    let place = match has(BENEATH | IN_ROOT) {
        true => locate_scoped(call.int(0), path.as_bytes(), resolve),
        false => store_path::locate_bytes(call.int(0), path.as_bytes()),
    };
    let is_absolute = path.as_bytes().first() == Some(&b'/');
    let names_descriptor =
        is_absolute && !has(IN_ROOT) && descriptor_paths::passed(path.as_bytes()).is_some();
    if names_descriptor && has(NO_CROSSING | BENEATH) {
        return Err(Failure::Errno(libc::EXDEV));
    }
    if names_descriptor && has(NO_MAGIC | NO_SYMLINKS) {
        return Err(Failure::Errno(libc::ELOOP));
    }
    let place = match place {
        // The path begins at a directory of the kernel's.
        Err(Failure::NotOurs) if has(IN_ROOT) => return Err(Failure::NotOurs),
        Err(Failure::NotOurs) => {
            let answer = opening::open_named(call, 1, flags);
            let follows = resolve & !(NO_MAGIC | CACHED) == 0;
            return if follows && answer == Err(Failure::NotOurs) { open_outside(call) } else { answer };
        }
        place => place?,
    };
    let comes_from_outside = place.base.is_none() || names_descriptor;
    if has(NO_CROSSING) && comes_from_outside {
        return Err(Failure::Errno(libc::EXDEV));
    }
    let resolve = Resolve { no_symlinks: has(NO_SYMLINKS), beneath: has(BENEATH), in_root: has(IN_ROOT) };
    let through = Through { resolve, stay: has(NO_CROSSING | BENEATH | IN_ROOT) };
    opening::open_place(call, (Some(0), 1), place, flags, mode as usize, through)
}

/// The place of a path that must not lead out of the directory it starts in.
fn locate_scoped(directory: i32, path: &[u8], resolve: u64) -> Result<StorePath, Failure> {
    if path.is_empty() {
        return Err(Failure::NotOurs);
    }
    let start = path.iter().position(|byte| *byte != b'/').unwrap_or(path.len());
    let inside = if start == path.len() { b"." } else { &path[start..] };
    let base = match directory {
        libc::AT_FDCWD => working_directory::pin(),
        directory => descriptors::pin(directory),
    };
    if base.is_some() {
        return match start > 0 && resolve & BENEATH != 0 {
            true => Err(Failure::Errno(libc::EXDEV)),
            false => Ok(StorePath { base, path: inside.to_vec() }),
        };
    }
    if start > 0 && resolve & BENEATH != 0 {
        return Err(Failure::NotOurs);
    }
    let mut absolute = working_directory::kernel_path(directory)?;
    absolute.push(b'/');
    absolute.extend_from_slice(inside);
    let rest = prefix::below(&process::configuration()?.prefix, &absolute).ok_or(Failure::NotOurs)?;
    Ok(StorePath::below_root(rest))
}
