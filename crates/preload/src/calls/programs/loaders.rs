//! The dynamic loader that programs of the store are started with, once a process starts many of them: a copy that
//! need not ask the processor (see [`crate::patch::binaries::loader`]), and finds a C library that is patched
//! (see [`crate::patch::provision`]).
//!
//! It is used only as long as what it was made of and what it leads to are the files they were, and until an exec fails
//! with it; and not for ever, since what it leads to lies in a cache that is tidied (`patch::tidying`).

use std::ffi::CString;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use rustix::fs::{CWD, Mode, OFlags, Stat, openat};

use crate::calls::programs::kept_file::KeptFile;
use crate::calls::programs::memory_file::sealed;
use crate::descriptors::kernel;
use crate::patch;
use crate::patch::binaries::loader;
use crate::patch::provision::{self, Provision};

/// Making one costs as much as some fifteen starts gain.
const STARTS_MIN: u32 = 16;
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Programs started from kept copies.
static STARTS: AtomicU32 = AtomicU32::new(0);
static FAILED: AtomicBool = AtomicBool::new(false);
static LOADER: Mutex<Option<Loader>> = Mutex::new(None);

struct Loader {
    path: CString,
    copy: KeptFile,
    /// Files that it relies on, as they were: a path would be followed for each program, and a file that lost its place changes.
    relied_on: Vec<(KeptFile, FileStamp)>,
    /// When that was noted to be in use.
    noted_s: i64,
}

impl Loader {
    /// Whether everything is as it was, for the calling process too.
    fn is_good(&self) -> bool {
        let is_what_it_was = |(file, stamp): &(KeptFile, FileStamp)| {
            file.stat().is_some_and(|stat| FileStamp::of(&stat) == *stamp)
        };
        let is_noted = (0..patch::NOTED_S).contains(&(patch::now() - self.noted_s));
        self.copy.is_here() && is_noted && self.relied_on.iter().all(is_what_it_was)
    }

    fn close(self) {
        self.copy.close();
        self.relied_on.into_iter().for_each(|(file, _)| file.close());
    }
}

/// Tells a file from what it was.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileStamp([i64; 7]);

impl FileStamp {
    fn of(stat: &Stat) -> Self {
        let times = [stat.st_mtime, stat.st_mtime_nsec as i64, stat.st_ctime, stat.st_ctime_nsec as i64];
        let [modified, modified_ns, changed, changed_ns] = times;
        let (device, number) = (stat.st_dev as i64, stat.st_ino as i64);
        Self([device, number, stat.st_size, modified, modified_ns, changed, changed_ns])
    }
}

/// Counts a start from a kept copy; whether copies are worth a loader now.
pub fn count_start() -> bool {
    STARTS.fetch_add(1, Ordering::Relaxed);
    is_worth_it()
}

/// Whether copies are worth a loader.
pub fn is_worth_it() -> bool {
    STARTS.load(Ordering::Relaxed) >= STARTS_MIN && is_usable()
}

/// Whether copies may name the loader.
pub fn is_usable() -> bool {
    !FAILED.load(Ordering::Relaxed)
}

/// An exec failed with it.
pub fn give_up() {
    FAILED.store(true, Ordering::Relaxed);
}

/// The loader's number, if it stands as it was made, for the calling process (or vfork child) too.
pub fn current() -> Option<u64> {
    let held = LOADER.try_lock().ok()?;
    // Another in a file's place takes the name from it, which changes it.
    held.as_ref().filter(|held| held.is_good()).map(|held| held.copy.number)
}

/// Lets a program whose file begins with `head` name the loader, which is made if there is none yet; the loader's
/// number. Only in the process itself: its children have its descriptors.
pub fn redirect(head: &mut [u8]) -> Option<u64> {
    let path = CString::new(loader::named_by(head)?).ok()?;
    if current().is_none() && make(path.clone()).is_none() {
        give_up();
        return None;
    }
    let held = LOADER.lock().ok()?;
    let held = held.as_ref().filter(|held| held.path == path)?;
    // The kernel looks for it as the process that executes.
    loader::redirect(head, format!("/proc/self/fd/{}", held.copy.fd).as_bytes())?;
    Some(held.copy.number)
}

/// A loader in the place of the one there is.
fn make(path: CString) -> Option<()> {
    let file = openat(CWD, &*path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let found = rustix::fs::fstat(&file).ok()?;
    if found.st_size as u64 > FILE_BYTES_MAX {
        return None;
    }
    let mut bytes = vec![0; found.st_size as usize];
    let mut read = 0;
    while read < bytes.len() {
        read += rustix::io::pread(&file, &mut bytes[read..], read as u64).ok().filter(|count| *count > 0)?;
    }
    let noted_s = patch::now();
    let provided = Provision::make().and_then(|provision| Some((reliance(&provision)?, provision.list)));
    let listed = provided.as_ref().and_then(|(_, list)| loader::with_answers(&bytes, Some(list)));
    let listed = listed.map(|answering| provision::whole_loader(&answering, &bytes).unwrap_or(answering));
    let (bytes, provided) = match listed {
        Some(listed) => (listed, provided.map(|(files, _)| files)),
        None => (loader::with_answers(&bytes, None)?, None),
    };
    let copy = KeptFile::new(sealed("cuesta-loader", &bytes).ok()?).ok()?;
    let mut relied_on =
        vec![(KeptFile::new(kernel::set_aside(file.as_fd()).ok()?).ok()?, FileStamp::of(&found))];
    for file in provided.unwrap_or_default() {
        let stamp = FileStamp::of(&rustix::fs::fstat(&file).ok()?);
        relied_on.push((KeptFile::new(file).ok()?, stamp));
    }
    if let Some(before) = LOADER.lock().ok()?.replace(Loader { path, copy, relied_on, noted_s }) {
        before.close();
    }
    Some(())
}

/// Files that a list relies on, out of the way of the program's descriptors.
fn reliance(provision: &Provision) -> Option<Vec<OwnedFd>> {
    let open = |path: &CString| {
        let file = openat(CWD, &**path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
        kernel::set_aside(file.as_fd()).ok()
    };
    provision.relied_on.iter().chain([&provision.list]).map(open).collect()
}

/// The file kept behind `from` has another descriptor now; `false` if there is none.
pub fn move_file(from: i32, to: i32) -> bool {
    let mut held = LOADER.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    held.as_mut().is_some_and(|held| {
        let relied_on = held.relied_on.iter_mut().map(|(file, _)| file);
        std::iter::once(&mut held.copy).chain(relied_on).any(|file| file.move_from(from, to))
    })
}

/// This is the child of a fork: the parent's is not for it.
pub fn after_fork() {
    match LOADER.lock() {
        Ok(mut held) => *held = None,
        Err(poisoned) => *poisoned.into_inner() = None,
    }
}
