//! The file an exec names: where it lies, how the kernel would execute it, and whether the library could be
//! loaded into it.

use crate::call::Failure;
use crate::calls::paths::store_path::{self, CROSSINGS, StorePath};
use crate::calls::paths::{descriptor_files, descriptor_paths, links};
use crate::calls::programs::running;
use crate::descriptors::kernel::borrow;
use crate::descriptors::{self, Pin};
use crate::process;
use crate::store::{Base, OpenFile};
use crate::users::credentials;
use cuesta_format::FileKind;
use cuesta_format::account::Barrier;
use cuesta_libfs::Error;
use rustix::fs::{Mode, OFlags, fstat, openat};
use rustix::io::Errno;

/// How much of a program is looked at: its script line, or the headers of its segments.
const HEAD_BYTES: usize = 2048;
/// How much of a script's first line the kernel looks at.
const SCRIPT_LINE_BYTES: usize = 256;
const SET_USER: u32 = libc::S_ISUID;
const SET_GROUP: u32 = libc::S_ISGID | libc::S_IXGRP;

/// Where a program lies.
#[derive(Debug)]
pub enum Location {
    /// Where the kernel finds it, by this path.
    Kernel(Vec<u8>),
    /// In the store, open, and its absolute name.
    Store(OpenFile, Vec<u8>),
}

/// A program, or a script.
#[derive(Debug)]
pub struct ProgramFile {
    /// Where it lies.
    pub location: Location,
    head: Vec<u8>,
    mode: u32,
    owner: (u32, u32),
}

/// The first line of a script.
#[derive(Debug, PartialEq, Eq)]
pub struct ScriptLine {
    /// The path of the interpreter.
    pub interpreter: Vec<u8>,
    /// What stands behind it, as one argument.
    pub argument: Option<Vec<u8>>,
}

impl ProgramFile {
    /// Finds what the kernel would execute, following symbolic links into the store and out of it.
    pub fn find(directory: i32, path: &[u8], flags: i32) -> Result<Self, Failure> {
        let follow = flags & libc::AT_SYMLINK_NOFOLLOW == 0;
        // The kernel has a copy there, and its loader may be this process's alone.
        if let Some(program) = process::program()
            && follow
            && descriptor_paths::names_program(path)
            && let Some(found) = Self::own(program)
        {
            return Ok(found);
        }
        let (mut directory, mut path) = (directory, path.to_vec());
        for _ in 0..CROSSINGS {
            let place = match store_path::locate_bytes(directory, &path) {
                Ok(place) => place,
                Err(Failure::NotOurs) => {
                    if !follow && links::is_link(directory, &path) {
                        return Err(Failure::Errno(libc::ELOOP));
                    }
                    if let Some((pin, b"")) = descriptor_paths::passed(&path).filter(|_| follow) {
                        return Self::behind(&pin);
                    }
                    let in_kernel = match links::must_look_first() {
                        true => Err(Failure::Errno(libc::ENOENT)),
                        false => Self::in_kernel(directory, path.clone()),
                    };
                    if !matches!(in_kernel, Err(Failure::Errno(libc::ENOENT))) {
                        return in_kernel;
                    }
                    let Some(found) = links::into_store(directory, &path, follow) else {
                        return Self::in_kernel(directory, path);
                    };
                    (directory, path) = (libc::AT_FDCWD, found);
                    continue;
                }
                Err(Failure::Errno(libc::ENOENT)) if path.is_empty() && flags & libc::AT_EMPTY_PATH != 0 => {
                    return Self::behind(&descriptors::pin(directory).ok_or(Failure::Errno(libc::EACCES))?);
                }
                Err(failure) => return Err(failure),
            };
            let (client, credentials) = (process::client()?, credentials::effective());
            let (base, below) = place.located()?;
            let open_flags = libc::O_PATH | if follow { 0 } else { libc::O_NOFOLLOW };
            let found = client.open(&credentials, base, below, open_flags, 0).and_then(|file| {
                client.access(&credentials, base, below, libc::X_OK as u32, follow)?;
                client.check_may_execute(&credentials, base, below, follow).map(|()| file)
            });
            match found {
                Ok(file) => {
                    let mut name = process::configuration()?.prefix.clone();
                    name.extend_from_slice(&place.name());
                    let program = Self::in_store(&file, name);
                    client.close(file)?;
                    return program;
                }
                Err(Error::Leaves { path: outside, .. }) => {
                    (directory, path) = (libc::AT_FDCWD, store_path::outside(&outside)?);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(Failure::Errno(libc::ELOOP))
    }

    /// The file of the store this process is a copy of, wherever it is now; `None` once it is gone.
    fn own(program: &[u8]) -> Option<Self> {
        let client = process::client().ok()?;
        let inode = running::own_inode(client)?;
        let file = client.reopen_number(&credentials::effective(), inode, libc::O_PATH, 0);
        let file = match file {
            // Another user's process cannot ask for it by its number.
            Err(Error::Denied) => return Self::find(libc::AT_FDCWD, program, 0).ok(),
            file => file.ok()?,
        };
        let found = Self::in_store(&file, program.to_vec());
        client.close(file).ok()?;
        found.ok()
    }

    /// The file behind a descriptor of ours.
    fn behind(pin: &Pin) -> Result<Self, Failure> {
        let credentials = credentials::effective();
        descriptor_files::check(pin, &credentials, libc::X_OK as u32)?;
        let place = StorePath::below_root(pin.path().strip_prefix(b"/").unwrap_or(pin.path()));
        process::client()?.check_may_execute(&credentials, Base::Root, &place.path, true)?;
        let mut name = process::configuration()?.prefix.clone();
        name.extend_from_slice(pin.path());
        Self::in_store(pin.file()?, name)
    }

    /// `file`, which may be open for paths only, may be executed.
    fn in_store(file: &OpenFile, name: Vec<u8>) -> Result<Self, Failure> {
        match file.kind() {
            FileKind::File => {}
            FileKind::Symlink => return Err(Failure::Errno(libc::ELOOP)),
            _ => return Err(Failure::Errno(libc::EACCES)),
        }
        let client = process::client()?;
        let file = client.reopen(&credentials::effective(), file, libc::O_RDONLY)?;
        let record = client.stat_open(&file)?.record;
        if let Err(busy) = client.check_not_written(&file) {
            client.close(file)?;
            return Err(busy.into());
        }
        let mut head = vec![0; HEAD_BYTES];
        let length = client.pread(&file, &mut [head.as_mut_slice().into()], 0)?;
        head.truncate(length);
        let location = Location::Store(file, name);
        Ok(Self { location, head, mode: record.mode, owner: (record.uid, record.gid) })
    }

    fn in_kernel(directory: i32, path: Vec<u8>) -> Result<Self, Failure> {
        let mut program =
            Self { location: Location::Kernel(path.clone()), head: Vec::new(), mode: 0, owner: (0, 0) };
        let is_named = !path.is_empty();
        let name = if is_named { path } else { format!("/proc/self/fd/{directory}").into_bytes() };
        let open_flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = match openat(borrow(directory), &name[..], open_flags, Mode::empty()) {
            Ok(file) => file,
            Err(errno @ (Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NAMETOOLONG)) if is_named => {
                return Err(errno.into());
            }
            // It may be executed without being read; then it is run as it is. A descriptor that is none the kernel refuses itself.
            Err(_) => return Ok(program),
        };
        let stat = fstat(&file)?;
        if stat.st_mode & libc::S_IFMT == libc::S_IFREG {
            program.mode = stat.st_mode;
            program.owner = (stat.st_uid, stat.st_gid);
            program.head = vec![0; HEAD_BYTES];
            let length = rustix::io::pread(&file, program.head.as_mut_slice(), 0).unwrap_or(0);
            program.head.truncate(length);
        }
        Ok(program)
    }

    /// Its path, as it was named or, in the store, as it is.
    pub fn path(&self) -> &[u8] {
        match &self.location {
            Location::Kernel(path) | Location::Store(_, path) => path,
        }
    }

    /// The script's first line; `None` if it is no script.
    pub fn script(&self) -> Result<Option<ScriptLine>, Failure> {
        script_line(&self.head).map_err(|()| Failure::Errno(libc::ENOEXEC))
    }

    /// What keeps the library out of this program, if something does.
    pub fn excludes_library(&self) -> Option<Barrier> {
        if self.changes_user() {
            return Some(Barrier::SetId);
        }
        let base = self.path().rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        match kind(&self.head) {
            // The dynamic linker itself names none.
            Kind::Static if !base.starts_with(b"ld-") && !base.starts_with(b"ld.so") => Some(Barrier::Static),
            Kind::Foreign => Some(Barrier::Foreign),
            _ => None,
        }
    }

    /// Whether it would run with other ids than this process has.
    pub fn changes_user(&self) -> bool {
        let user = rustix::process::getuid().as_raw();
        let group = rustix::process::getgid().as_raw();
        // To the kernel any program is one that this process executes with borrowed ids.
        if rustix::process::geteuid().as_raw() != user || rustix::process::getegid().as_raw() != group {
            return true;
        }
        self.mode & SET_USER != 0 && self.owner.0 != user
            || self.mode & SET_GROUP == SET_GROUP && self.owner.1 != group
    }
}

impl Drop for ProgramFile {
    fn drop(&mut self) {
        let nowhere = Location::Kernel(Vec::new());
        if let (Location::Store(file, _), Some(client)) =
            (std::mem::replace(&mut self.location, nowhere), process::attached())
        {
            // A session that has ended has released its files.
            let _ = client.close(file);
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    /// Has a dynamic linker, or is nothing the kernel would run.
    Other,
    Static,
    Foreign,
}

/// What an ELF file's headers say.
fn kind(head: &[u8]) -> Kind {
    const PROGRAM_INTERPRETER: [u8; 4] = libc::PT_INTERP.to_le_bytes();
    let half = |at: usize| {
        head.get(at..at + 2).map_or(0, |field| usize::from(u16::from_le_bytes([field[0], field[1]])))
    };
    if !head.starts_with(b"\x7fELF") {
        return Kind::Other;
    }
    if head.get(4) != Some(&2) || half(18) != usize::from(crate::arch::ELF_MACHINE) {
        return Kind::Foreign;
    }
    let Some(start) = head.get(32..40).and_then(|field| field.try_into().ok()).map(u64::from_le_bytes) else {
        return Kind::Other;
    };
    let (size, count) = (half(54).max(1), half(56));
    let Some(headers) = usize::try_from(start).ok().and_then(|start| head.get(start..)) else {
        return Kind::Other;
    };
    match headers.chunks(size).take(count).any(|header| header.starts_with(&PROGRAM_INTERPRETER)) {
        true => Kind::Other,
        // Headers that reach beyond what was looked at may name one.
        false if headers.len() < size * count => Kind::Other,
        false => Kind::Static,
    }
}

/// As the kernel reads a script's first line.
fn script_line(head: &[u8]) -> Result<Option<ScriptLine>, ()> {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let Some(rest) = head.strip_prefix(b"#!") else { return Ok(None) };
    let seen = &rest[..rest.len().min(SCRIPT_LINE_BYTES - 2)];
    let end = seen.iter().position(|byte| *byte == b'\n');
    let line = seen[..end.unwrap_or(seen.len())].trim_ascii();
    let name = line.iter().position(|byte| is_blank(byte) || *byte == 0).unwrap_or(line.len());
    // A name cut off would be another program.
    let is_cut = end.is_none() && name == line.len() && rest.len() > seen.len();
    if name == 0 || is_cut {
        return Err(());
    }
    let argument = line[name..].split(|byte| *byte == 0).next().unwrap_or_default().trim_ascii();
    Ok(Some(ScriptLine {
        interpreter: line[..name].to_vec(),
        argument: (!argument.is_empty()).then(|| argument.to_vec()),
    }))
}

#[cfg(test)]
mod tests {
    use super::{Kind, ScriptLine, kind, script_line};

    fn line(interpreter: &str, argument: Option<&str>) -> Result<Option<ScriptLine>, ()> {
        Ok(Some(ScriptLine {
            interpreter: interpreter.into(),
            argument: argument.map(|argument| argument.as_bytes().to_vec()),
        }))
    }

    #[test]
    fn a_scripts_line_is_read_as_the_kernel_reads_it() {
        assert_eq!(script_line(b"#!/bin/sh\necho"), line("/bin/sh", None));
        assert_eq!(script_line(b"#! \t/usr/bin/env  -S a  b \nx"), line("/usr/bin/env", Some("-S a  b")));
        assert_eq!(script_line(b"#!/bin/sh"), line("/bin/sh", None));
        assert_eq!(script_line(b"#!\nx"), Err(()));
        assert_eq!(script_line(b"\x7fELF"), Ok(None));
        let long = [b"#!/".as_slice(), &[b'a'; 300], b"\n"].concat();
        assert_eq!(script_line(&long), Err(()));
        let argument_cut = [b"#!/bin/sh ".as_slice(), &[b'a'; 300], b"\n"].concat();
        assert_eq!(script_line(&argument_cut), line("/bin/sh", Some(&"a".repeat(246))));
    }

    #[test]
    fn a_program_without_a_dynamic_linker_is_static() {
        let mut elf = vec![0; 64 + 2 * 56];
        elf[..5].copy_from_slice(b"\x7fELF\x02");
        elf[18..20].copy_from_slice(&crate::arch::ELF_MACHINE.to_le_bytes());
        (elf[32], elf[54], elf[56], elf[64]) = (64, 56, 2, 1);
        assert_eq!(kind(&elf), Kind::Static);
        elf[64 + 56] = 3;
        assert_eq!(kind(&elf), Kind::Other);
        assert_eq!(kind(&elf[..100]), Kind::Other);
        elf[4] = 1;
        assert_eq!(kind(&elf), Kind::Foreign);
        assert_eq!(kind(b"#!/bin/sh"), Kind::Other);
    }
}
