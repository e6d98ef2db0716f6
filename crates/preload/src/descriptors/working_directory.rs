//! The working directory, when it lies in the store.
//!
//! The kernel cannot be in the store. While the program is, the kernel's working directory is one that
//! has been removed: a relative path that escapes us finds nothing there, rather than something else.

use crate::call::Failure;
use crate::call::filter::{ACTIVE, CWD_VIRTUAL};
use crate::descriptors::Pin;
use crate::descriptors::current_directory::Current;
use crate::thread;
use rustix::fs::{Mode, mkdir};
use std::sync::RwLock;
use std::sync::atomic::Ordering;

static CURRENT: RwLock<Option<Current>> = RwLock::new(None);

/// Whether the program is in the store.
pub fn is_in_store() -> bool {
    read(|_| ()).is_some()
}

/// The directory, if the program is in the store.
pub fn pin() -> Option<Pin> {
    read(|current| current.directory.clone())
}

/// Its name below the prefix.
pub fn name() -> Option<Vec<u8>> {
    read(|current| current.name.clone())
}

/// The directory, and its name below the prefix as it was entered.
pub fn current() -> Option<(Pin, Vec<u8>)> {
    read(|current| (current.directory.clone(), current.name.clone()))
}

fn read<T>(what: impl FnOnce(&Current) -> T) -> Option<T> {
    if CWD_VIRTUAL.load(Ordering::Acquire) == 0 {
        return None;
    }
    if thread::is_vforked()
        // SAFETY: the reference ends within this expression.
        && let Some(childs) = unsafe { thread::delta() }.as_ref().and_then(|delta| delta.directory.as_ref())
    {
        return childs.as_ref().map(what);
    }
    CURRENT.read().ok()?.as_ref().map(what)
}

/// Moves into the store.
pub fn enter(directory: Pin, name: Vec<u8>) {
    if !is_in_store() {
        leave_kernel_nowhere();
    }
    write(Some(Current { directory, name }));
}

/// As the program before exec, which has moved the kernel's.
pub fn inherit(directory: Pin, name: Vec<u8>) {
    write(Some(Current { directory, name }));
}

/// The program has moved out of the store.
pub fn left() {
    if CWD_VIRTUAL.load(Ordering::Acquire) != 0 {
        write(None);
    }
}

/// A vfork child has a working directory of its own: its parent has the same memory, and stays where it was. The
/// filter then errs towards "ours" until the parent itself moves.
fn write(current: Option<Current>) {
    let is_virtual = current.is_some();
    if thread::is_vforked() {
        // SAFETY: the reference ends with this statement.
        unsafe { thread::delta() }.get_or_insert_default().directory = Some(current);
        CWD_VIRTUAL.fetch_or(u32::from(is_virtual), Ordering::AcqRel);
    } else if let Ok(mut held) = CURRENT.write() {
        *held = current;
        CWD_VIRTUAL.store(u32::from(is_virtual), Ordering::Release);
    }
    if is_virtual {
        ACTIVE.store(1, Ordering::Release);
    }
}

fn leave_kernel_nowhere() {
    // What this process was started with may be such a place: that of the program before exec.
    if rustix::process::getcwd(Vec::new()) == Err(rustix::io::Errno::NOENT) {
        return;
    }
    let name = format!("/tmp/.cuesta-nowhere-{}", rustix::process::getpid().as_raw_nonzero());
    let made = mkdir(&name, Mode::RWXU);
    let moved = made.is_ok() && rustix::process::chdir(&name).is_ok();
    if made.is_ok() {
        let _ = rustix::fs::rmdir(&name);
    }
    if !moved {
        let _ = rustix::process::chdir("/proc/self/fdinfo");
    }
}

/// The kernel's name of a directory that is not ours (or of its working directory).
pub fn kernel_path(directory: i32) -> Result<Vec<u8>, Failure> {
    if directory == libc::AT_FDCWD {
        return Ok(rustix::process::getcwd(Vec::new())?.into_bytes());
    }
    let link = format!("/proc/self/fd/{directory}");
    rustix::fs::readlink(link, Vec::new()).map(|path| path.into_bytes()).map_err(|_| Failure::NotOurs)
}
