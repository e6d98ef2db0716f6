//! What this process runs, for whoever starts it once more.
//!
//! Not by its path: an upgrade puts another program there, and it may lie on, or below, a mount that waits for what is to be
//! started. A daemon, or the process of a mount, whose own program came by way of that mount would wait for itself whenever a
//! page of it is not in memory. So what lies on a file system that a program serves is copied into memory first.

use rustix::fs::{MemfdFlags, memfd_create, statfs};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// By whatever path it can be had.
const OWN_PROGRAM: &str = "/proc/self/exe";
/// What the kernel calls what FUSE serves.
const FUSE_KIND: i64 = 0x6573_5546;
/// How the copy is called, and every process that runs it.
const NAME: &str = "cuesta";

/// A program that can be executed, by this process or a child of it, for as long as this is there.
#[derive(Debug)]
pub struct OwnProgram {
    path: PathBuf,
    /// What the path leads to, if that is a copy.
    _copy: Option<File>,
}

impl OwnProgram {
    /// Finds it.
    pub fn find() -> io::Result<OwnProgram> {
        if !is_served_by_a_program()? {
            return Ok(OwnProgram { path: OWN_PROGRAM.into(), _copy: None });
        }
        let mut copy = File::from(memfd_create(NAME, MemfdFlags::CLOEXEC)?);
        io::copy(&mut File::open(OWN_PROGRAM)?, &mut copy)?;
        Ok(OwnProgram { path: format!("/proc/self/fd/{}", copy.as_raw_fd()).into(), _copy: Some(copy) })
    }

    /// Where.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// For a process that is to serve a store: goes on as a copy of this program, if it lies where it could come to wait for
/// itself. Returns where it need not, with its name as it is to be.
pub fn settle() -> io::Result<()> {
    if is_served_by_a_program()? {
        let program = OwnProgram::find()?;
        let mut words = std::env::args_os();
        let mut again = Command::new(program.path());
        again.arg0(words.next().unwrap_or_else(|| NAME.into())).args(words);
        return Err(again.exec());
    }
    // It was executed by a path that says nothing.
    rustix::thread::set_name(c"cuesta")?;
    Ok(())
}

fn is_served_by_a_program() -> io::Result<bool> {
    Ok(statfs(OWN_PROGRAM)?.f_type == FUSE_KIND)
}
