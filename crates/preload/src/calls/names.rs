//! Opening, making, moving and removing names.

use std::sync::Arc;

use cuesta_format::InodeNumber;
use cuesta_libfs::{Error, LinkSource, OpenFile, RenameFlags, Resolve};

use super::path::{self, Named, Place};
use super::{Answer, Call, Failure, descriptor_names, stand_ins};
use crate::descriptors;
use crate::open_file::Description;
use crate::{credentials, process, user_memory};

const MODE_BITS: u32 = 0o7777;
/// Every flag of `open` there is.
pub const OPEN_FLAGS: i32 = libc::O_ACCMODE
    | libc::O_CREAT
    | libc::O_EXCL
    | libc::O_NOCTTY
    | libc::O_TRUNC
    | libc::O_APPEND
    | libc::O_NONBLOCK
    | libc::O_SYNC
    | libc::O_ASYNC
    | libc::O_DIRECT
    | LARGE_FILE
    | libc::O_DIRECTORY
    | libc::O_NOFOLLOW
    | libc::O_NOATIME
    | libc::O_CLOEXEC
    | libc::O_PATH
    | libc::O_TMPFILE;
const LARGE_FILE: i32 = 0o100_000;
/// What tells `O_TMPFILE` from `O_DIRECTORY`.
pub const UNNAMED: i32 = libc::O_TMPFILE & !libc::O_DIRECTORY;

/// What a path leads to.
pub enum Opened {
    /// A file of the store, and its name.
    File(Arc<OpenFile>, Vec<u8>),
    /// A named pipe, which the kernel opens.
    Pipe(InodeNumber),
}

/// The mode with the process's umask applied.
fn masked(mode: usize) -> u32 {
    mode as u32 & MODE_BITS & !process::umask()
}

pub fn open(call: &Call, directory: Option<usize>, path: usize, flags: i32, mode: usize) -> Answer {
    // Flags that do not exist are passed over.
    let flags = flags & OPEN_FLAGS;
    match path::locate(call, directory, path) {
        Ok(place) => open_place(call, (directory, path), place, flags, mode, Through::default()),
        Err(Failure::NotOurs) => open_named(call, path, flags),
        Err(failure) => Err(failure),
    }
}

/// Which ways an open may take.
#[derive(Clone, Copy, Debug, Default)]
pub struct Through {
    /// Inside the store.
    pub resolve: Resolve,
    /// Not out of the store.
    pub stay: bool,
}

/// Opens what a place of the store holds.
pub fn open_place(
    call: &Call,
    named: Named,
    place: Place,
    flags: i32,
    mode: usize,
    through: Through,
) -> Answer {
    path::at_place(
        call,
        named,
        place,
        |client, credentials, base, place| {
            // The umask is looked up where it matters: who only reads never asks.
            let mode = if flags & (libc::O_CREAT | UNNAMED) != 0 { masked(mode) } else { 0 };
            match client.open_within(credentials, base, &place.path, flags, mode, through.resolve) {
                Ok(file) if flags & UNNAMED != 0 => {
                    let name = format!("/#{}", file.inode().0);
                    Ok(Opened::File(file, [place.name(), name.into_bytes()].concat()))
                }
                Ok(file) => Ok(Opened::File(file, place.name())),
                Err(Error::Pipe(inode)) => Ok(Opened::Pipe(inode)),
                Err(Error::Leaves { .. }) if through.stay => Err(Error::CrossDevice),
                Err(error) => Err(error),
            }
        },
        |opened| give(opened, flags),
    )
}

/// A descriptor for what was just opened.
fn give(opened: Opened, flags: i32) -> Answer {
    let (file, name) = match opened {
        Opened::File(file, name) => (file, name),
        Opened::Pipe(inode) => return stand_ins::open_pipe(inode, flags),
    };
    let pin = descriptors::describe(Description::opened(file, name));
    let fd = process::placeholder(0, flags & libc::O_CLOEXEC != 0)?;
    descriptors::install(fd, pin);
    Ok(fd as isize)
}

/// Opens once more what is behind a descriptor, if that is what the path names.
#[cold]
pub fn open_named(call: &Call, path: usize, flags: i32) -> Answer {
    const EXCLUSIVE: i32 = libc::O_CREAT | libc::O_EXCL;
    if flags & libc::O_NOFOLLOW != 0 || flags & EXCLUSIVE == EXCLUSIVE {
        return Err(Failure::NotOurs);
    }
    let pin = descriptor_names::itself(call, path)?;
    give(descriptor_names::open(&pin, flags)?, flags)
}

pub fn make_directory(call: &Call, directory: Option<usize>, path: usize, mode: usize) -> Answer {
    path::at(
        call,
        (directory, path),
        |client, credentials, base, place| {
            client.make_directory(credentials, base, &place.path, masked(mode))
        },
        |()| Ok(0),
    )
}

pub fn make_node(call: &Call, directory: Option<usize>, path: usize, mode: usize, device: usize) -> Answer {
    let mode = mode as u32 & libc::S_IFMT | masked(mode);
    path::at(
        call,
        (directory, path),
        |client, credentials, base, place| {
            client.make_node(credentials, base, &place.path, mode, device as u64)
        },
        |_| Ok(0),
    )
}

pub fn remove(call: &Call, directory: Option<usize>, path: usize, is_directory: bool) -> Answer {
    path::at(
        call,
        (directory, path),
        |client, credentials, base, place| match is_directory {
            true => client.remove_directory(credentials, base, &place.path),
            false => client.unlink(credentials, base, &place.path),
        },
        |()| Ok(0),
    )
}

/// Both places of a call with two names; one in the store and one outside are on two file systems. `look` is how far
/// the call looks at the first before it reads the second.
fn both(
    call: &Call,
    from: Named,
    to: Named,
    look: impl Fn(&[u8]) -> Option<&[u8]>,
) -> Result<(Place, Place), Failure> {
    match (path::locate(call, from.0, from.1), path::locate(call, to.0, to.1)) {
        (Ok(from), Ok(to)) => Ok((from, to)),
        (Err(Failure::NotOurs), Err(Failure::NotOurs)) => Err(Failure::NotOurs),
        (Err(Failure::NotOurs), Ok(_)) => Err(apart(call, from)),
        (Ok(from), Err(failure)) => {
            let (base, path) = from.located()?;
            if let Some(path) = look(path) {
                process::client()?.stat(&credentials::effective(), base, path, false)?;
            }
            Err(if failure == Failure::NotOurs { apart(call, to) } else { failure })
        }
        (Err(failure), _) => Err(failure),
    }
}

/// Why a call fails whose other path is in the store, and this one is not.
fn apart(call: &Call, (_, path): Named) -> Failure {
    match user_memory::UserPath::read(call.word(path)) {
        Ok(path) if path.as_bytes().is_empty() => Failure::Errno(libc::ENOENT),
        Ok(_) => Failure::Errno(libc::EXDEV),
        Err(failure) => failure,
    }
}

/// The directory a path's last name is in, with the slash; none if it is where the path begins.
fn directory_of(path: &[u8]) -> Option<&[u8]> {
    let end = path.len() - path.iter().rev().take_while(|byte| **byte == b'/').count();
    path[..end].iter().rposition(|byte| *byte == b'/').map(|slash| &path[..=slash])
}

pub fn rename(call: &Call, from: Named, to: Named, flags: u32) -> Answer {
    const BOTH: u32 = libc::RENAME_NOREPLACE | libc::RENAME_EXCHANGE;
    if flags & !(BOTH | libc::RENAME_WHITEOUT) != 0 || flags & BOTH == BOTH {
        // The kernel refuses that before it looks at the paths.
        return Err(Failure::NotOurs);
    }
    let places = both(call, from, to, directory_of)?;
    if flags & !BOTH != 0 {
        return call.unserved(libc::EINVAL);
    }
    let flags = RenameFlags {
        no_replace: flags & libc::RENAME_NOREPLACE != 0,
        exchange: flags & libc::RENAME_EXCHANGE != 0,
    };
    path::at_both(places, |client, credentials, from, to| client.rename(credentials, from, to, flags))
}

pub fn link(call: &Call, from: Named, to: Named, flags: i32) -> Answer {
    if flags & !(libc::AT_EMPTY_PATH | libc::AT_SYMLINK_FOLLOW) != 0 {
        return Err(Failure::NotOurs);
    }
    let is_empty = flags & libc::AT_EMPTY_PATH != 0
        && user_memory::UserPath::read(call.word(from.1))?.as_bytes().is_empty();
    let file = match is_empty {
        true => Some(call.pin(0)?),
        false if flags & libc::AT_SYMLINK_FOLLOW != 0 => descriptor_names::itself(call, from.1).ok(),
        false => None,
    };
    if let Some(file) = file {
        let to = match path::locate(call, to.0, to.1) {
            Err(Failure::NotOurs) => return Err(apart(call, to)),
            to => to?,
        };
        let source = LinkSource::File(file.file()?);
        let (base, path) = to.located()?;
        process::client()?.link(&credentials::effective(), source, base, path)?;
        return Ok(0);
    }
    let places = both(call, from, to, |path| Some(path))?;
    let follow = flags & libc::AT_SYMLINK_FOLLOW != 0;
    path::at_both(places, |client, credentials, (base, path), to| {
        client.link(credentials, LinkSource::Path { base, path, follow }, to.0, to.1)
    })
}

pub fn symlink(call: &Call, directory: Option<usize>, path: usize) -> Answer {
    // The kernel looks at the target before the path: one it refuses it refuses wherever the name was to be.
    let target = user_memory::UserPath::read(call.word(0)).map_err(|_| Failure::NotOurs)?;
    if target.as_bytes().is_empty() {
        return Err(Failure::NotOurs);
    }
    path::at(
        call,
        (directory, path),
        |client, credentials, base, place| client.symlink(credentials, target.as_bytes(), base, &place.path),
        |()| Ok(0),
    )
}

pub fn read_link(call: &Call, directory: Option<usize>, path: usize, buffer: usize, room: usize) -> Answer {
    if room as i32 <= 0 {
        // The kernel refuses that before it looks at the path.
        return Err(Failure::NotOurs);
    }
    let write = |target: Vec<u8>| {
        let length = target.len().min(room);
        user_memory::write_bytes(buffer, &target[..length])?;
        Ok(length as isize)
    };
    if let Some(directory) = directory
        && user_memory::UserPath::read(call.word(path))?.as_bytes().is_empty()
        && let Some(pin) = descriptors::pin(call.int(directory))
    {
        return write(process::client()?.read_link_open(pin.file()?)?);
    }
    let answer = path::at(
        call,
        (directory, path),
        |client, credentials, base, place| client.read_link(credentials, base, &place.path),
        write,
    );
    match answer {
        Err(Failure::NotOurs) => write(descriptor_names::target(call, path)?),
        answer => answer,
    }
}
