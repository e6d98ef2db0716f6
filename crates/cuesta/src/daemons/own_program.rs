//! The program of this process, for starting it once more.
//!
//! Not by its path: an upgrade puts another program there, and it may lie on, or below, a mount that waits for what is to be
//! started. A daemon, or the process of a mount, would wait for itself if its own program came by way of that mount, whenever a
//! page of it is not in memory. So a program on a file system that a program serves is copied into memory first.
//!
//! Most such file systems do not wait for this process, and copies may be forbidden: without one everything goes on, with a warning.

use rustix::fs::{MemfdFlags, memfd_create, statfs};
use rustix::io::Errno;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// By whatever path it can be had.
const OWN_PROGRAM: &str = "/proc/self/exe";
/// The kernel's number for file systems that FUSE serves.
const FUSE_KIND: i64 = 0x6573_5546;
/// How the copy is called, and every process that runs it.
const NAME: &str = "cuesta";

/// A program that can be executed, by this process or a child of it, for as long as this is there.
#[derive(Debug)]
pub struct OwnProgram {
    path: PathBuf,
    /// The file that the path leads to, if that is a copy.
    copy: Option<File>,
}

impl OwnProgram {
    /// Finds it, and copies it if that is called for and possible.
    pub fn find() -> OwnProgram {
        let copy = is_served_by_a_program().then(copy).and_then(|copy| copy.inspect_err(warn).ok());
        let path = copy.as_ref().map(|copy| format!("/proc/self/fd/{}", copy.as_raw_fd()).into());
        OwnProgram { path: path.unwrap_or_else(|| OWN_PROGRAM.into()), copy }
    }

    /// Where.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The same without a copy, if this is one, which could not be executed.
    pub fn without_copy(&self, error: &io::Error) -> Option<OwnProgram> {
        self.copy.as_ref()?;
        warn(error);
        Some(OwnProgram { path: OWN_PROGRAM.into(), copy: None })
    }
}

/// For a process that is to serve a store: goes on as a copy of this program, if it lies where it could come to wait for
/// itself. Returns where it need not or cannot, with its name as it is to be. Whatever it was given to inherit must still be as it
/// was.
pub fn settle() {
    let program = OwnProgram::find();
    if program.copy.is_some() {
        program.without_copy(&execute(&program.path));
    }
    // It was executed by a path that says nothing. Only people miss the name if it cannot be set.
    let _ = rustix::thread::set_name(c"cuesta");
}

/// Whether it may lie where it waits for itself. Without /proc this is unknown.
fn is_served_by_a_program() -> bool {
    statfs(OWN_PROGRAM).is_ok_and(|found| found.f_type == FUSE_KIND)
}

fn copy() -> io::Result<File> {
    let mut copy = File::from(executable_memory()?);
    io::copy(&mut File::open(OWN_PROGRAM)?, &mut copy)?;
    Ok(copy)
}

/// An administrator may want it said that it is to be executed; kernels before 6.3 do not know how that is said.
fn executable_memory() -> Result<OwnedFd, Errno> {
    match memfd_create(NAME, MemfdFlags::CLOEXEC | MemfdFlags::EXEC) {
        Err(Errno::INVAL) => memfd_create(NAME, MemfdFlags::CLOEXEC),
        made => made,
    }
}

/// Becomes that program, with the same arguments. If that fails nothing has changed, as it would have by `Command::exec`.
fn execute(program: &Path) -> io::Error {
    let word = |word: std::ffi::OsString| CString::new(word.into_vec()).map_err(io::Error::from);
    let program = word(program.as_os_str().to_owned());
    let words = std::env::args_os().map(word).collect::<io::Result<Vec<CString>>>();
    let (program, words) = match (program, words) {
        (Ok(program), Ok(words)) => (program, words),
        (Err(error), _) | (_, Err(error)) => return error,
    };
    let pointers: Vec<_> = words.iter().map(|word| word.as_ptr()).chain([std::ptr::null()]).collect();
    // SAFETY: strings and a list of them that end as they must, and are there until it returns.
    unsafe { libc::execv(program.as_ptr(), pointers.as_ptr()) };
    io::Error::last_os_error()
}

fn warn(error: &io::Error) {
    tracing::warn!(
        %error,
        "the program lies on a FUSE file system and cannot be copied into memory: should it lie on its own mount, it may wait for itself"
    );
}
