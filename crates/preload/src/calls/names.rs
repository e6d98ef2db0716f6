//! Opening, making, moving and removing names.

use crate::store::{LinkSource, OpenFile};
use cuesta_format::{FileKind, InodeNumber};
use cuesta_libfs::{Error, NewMode, OPEN_FLAGS, RenameFlags, Resolve, UNNAMED};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::path::{self, Named, Place};
use super::{Answer, Call, Failure, by_mount, descriptor_names, links, stand_ins};
use crate::descriptors;
use crate::open_file::Description;
use crate::{credentials, process, references, thread, user_memory};

const MODE_BITS: u32 = 0o7777;

/// What a path leads to.
pub enum Opened {
    /// A file of the store, and its name.
    File(OpenFile, Vec<u8>),
    /// A named pipe, which the kernel opens, and its name.
    Pipe(InodeNumber, Vec<u8>),
    /// A device, which the kernel opens if the store is mounted, and its name.
    Device(InodeNumber, Vec<u8>),
}

/// The mode, and the process's umask.
fn new_mode(mode: usize) -> NewMode {
    NewMode { bits: mode as u32 & MODE_BITS, umask: process::umask() }
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
            let mode =
                if flags & (libc::O_CREAT | UNNAMED) != 0 { new_mode(mode) } else { NewMode::default() };
            match client.open_within(credentials, base, &place.path, flags, mode, through.resolve) {
                Ok(file) if flags & UNNAMED != 0 => {
                    let name = format!("/#{}", file.inode().0);
                    Ok(Opened::File(file, [place.name(), name.into_bytes()].concat()))
                }
                Ok(file) => Ok(Opened::File(file, place.name())),
                Err(Error::Pipe(inode)) => Ok(Opened::Pipe(inode, place.name())),
                Err(Error::Unsupported) => {
                    let record = client.stat(credentials, base, &place.path, true)?.record;
                    let is_device =
                        matches!(record.kind(), FileKind::CharacterDevice | FileKind::BlockDevice);
                    let opened = Opened::Device(record.inode, place.name());
                    if is_device { Ok(opened) } else { Err(Error::Unsupported) }
                }
                Err(Error::Leaves { .. }) if through.stay => Err(Error::CrossDevice),
                Err(error) => Err(error),
            }
        },
        |opened| give(call, opened, flags),
    )
}

/// A descriptor for what was just opened.
fn give(call: &Call, opened: Opened, flags: i32) -> Answer {
    let (file, name) = match opened {
        Opened::File(file, name) => (file, name),
        // That may wait, and who waits may be cancelled, which is libc's doing.
        Opened::Pipe(..) | Opened::Device(..) if thread::came_by_symbol() => return Err(Failure::NotOurs),
        Opened::Pipe(inode, name) => return stand_ins::open_pipe(inode, &name, flags),
        Opened::Device(inode, name) => return open_device(call, inode, &name, flags),
    };
    let pin = descriptors::describe(Description::opened(file, name));
    let fd = references::descriptor(&pin, flags & libc::O_CLOEXEC != 0)?;
    descriptors::install(fd, pin);
    Ok(fd as isize)
}

fn open_device(call: &Call, inode: InodeNumber, name: &[u8], flags: i32) -> Answer {
    match by_mount::is_mounted() {
        true => by_mount::open(inode, name, flags),
        false => call.unserved(libc::EOPNOTSUPP),
    }
}

/// `open_tree` that makes no mount of its own is an open for paths only.
pub fn open_tree(call: &Call) -> Answer {
    const CLONE: i32 = 1;
    const RECURSIVE: i32 = 0x8000;
    const LOOKS: i32 = libc::AT_SYMLINK_NOFOLLOW | libc::AT_NO_AUTOMOUNT | libc::AT_EMPTY_PATH;
    let flags = call.int(2);
    if flags & !(LOOKS | libc::O_CLOEXEC | CLONE | RECURSIVE) != 0 || flags & (CLONE | RECURSIVE) == RECURSIVE
    {
        return Err(Failure::NotOurs);
    }
    if flags & CLONE != 0 {
        return path::refuse(call);
    }
    let mut open_flags = libc::O_PATH | flags & libc::O_CLOEXEC;
    if flags & libc::AT_EMPTY_PATH != 0 && user_memory::UserPath::read(call.word(1))?.as_bytes().is_empty() {
        return give(call, descriptor_names::open(&call.pin(0)?, open_flags)?, open_flags);
    }
    if flags & libc::AT_SYMLINK_NOFOLLOW != 0 {
        open_flags |= libc::O_NOFOLLOW;
    }
    open(call, Some(0), 1, open_flags, 0)
}

/// Opens once more what is behind a descriptor, if that is what the path names.
#[cold]
pub fn open_named(call: &Call, path: usize, flags: i32) -> Answer {
    const EXCLUSIVE: i32 = libc::O_CREAT | libc::O_EXCL;
    if flags & libc::O_NOFOLLOW != 0 || flags & EXCLUSIVE == EXCLUSIVE {
        return Err(Failure::NotOurs);
    }
    let pin = descriptor_names::itself(call, path)?;
    give(call, descriptor_names::open(&pin, flags)?, flags)
}

pub fn make_directory(call: &Call, directory: Option<usize>, path: usize, mode: usize) -> Answer {
    path::at(
        call,
        (directory, path),
        |client, credentials, base, place| {
            client.make_directory(credentials, base, &place.path, new_mode(mode))
        },
        |()| Ok(0),
    )
}

pub fn make_node(call: &Call, directory: Option<usize>, path: usize, mode: usize, device: usize) -> Answer {
    let kind = mode as u32 & libc::S_IFMT;
    let mode = new_mode(mode);
    let mode = NewMode { bits: mode.bits | kind, ..mode };
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

/// Both places of a call with two names. One in the store and one outside are on two file systems, which the kernel says
/// once it has found the folders of both. `look` is how far the call looks at the first before it reads the second.
fn both(
    call: &Call,
    from: Named,
    to: Named,
    look: impl Fn(&[u8]) -> Option<&[u8]>,
) -> Result<(Place, Place), Failure> {
    match (path::locate(call, from.0, from.1), path::locate(call, to.0, to.1)) {
        (Ok(from), Ok(to)) => Ok((from, to)),
        (Err(Failure::NotOurs), Err(Failure::NotOurs)) => Err(Failure::NotOurs),
        (Err(Failure::NotOurs), Ok(place)) => match links::behind_link(call, from) {
            Some(found) => Ok((path::locate_bytes(libc::AT_FDCWD, found.as_bytes())?, place)),
            None => {
                outside(call, from, true)?;
                let (base, path) = place.located()?;
                let (client, credentials) = (process::client()?, credentials::effective());
                if let Some(folder) = directory_of(path) {
                    client.stat(&credentials, base, folder, true)?;
                }
                if is_link(call) && client.stat(&credentials, base, path, false).is_ok() {
                    return Err(Failure::Errno(libc::EEXIST));
                }
                Err(Failure::Errno(libc::EXDEV))
            }
        },
        (Ok(place), Err(failure)) => {
            let (base, path) = place.located()?;
            if let Some(path) = look(path) {
                process::client()?.stat(&credentials::effective(), base, path, false)?;
            }
            if failure != Failure::NotOurs {
                return Err(failure);
            }
            match links::behind_link(call, to) {
                Some(found) => Ok((place, path::locate_bytes(libc::AT_FDCWD, found.as_bytes())?)),
                None => Err(apart(call, to)),
            }
        }
        (Err(failure), _) => Err(failure),
    }
}

fn is_link(call: &Call) -> bool {
    matches!(call.number as i64, libc::SYS_link | libc::SYS_linkat)
}

/// Why a call fails whose first path is in the store, and this one is not.
fn apart(call: &Call, named: Named) -> Failure {
    outside(call, named, false).err().unwrap_or(Failure::Errno(libc::EXDEV))
}

/// What the kernel says of one of a call's two paths, which is outside the store, before it says that they are on two
/// file systems.
fn outside(call: &Call, (directory, path): Named, is_source: bool) -> Result<(), Failure> {
    let path = user_memory::UserPath::read(call.word(path))?;
    if path.as_bytes().is_empty() {
        return Err(Failure::Errno(libc::ENOENT));
    }
    let directory = directory.map_or(libc::AT_FDCWD, |index| call.int(index));
    let follow =
        is_source && call.number as i64 == libc::SYS_linkat && call.int(4) & libc::AT_SYMLINK_FOLLOW != 0;
    outside_at(directory, path.as_bytes(), is_link(call), is_source, follow)
}

/// As [`outside`], for a path already read.
fn outside_at(
    directory: i32,
    path: &[u8],
    is_link: bool,
    is_source: bool,
    follow: bool,
) -> Result<(), Failure> {
    let directory = process::borrow(directory);
    // Without a folder in the path it is the directory itself that must be one.
    let folder = directory_of(path).unwrap_or(b".");
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(directory, folder, flags, Mode::empty())?;
    if !is_link {
        return Ok(());
    }
    let end = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
    match (rustix::fs::statat(directory, path, end), is_source) {
        (Ok(_), true) | (Err(Errno::NOENT), false) => Ok(()),
        (Ok(_), false) => Err(Failure::Errno(libc::EEXIST)),
        (Err(errno), _) => Err(errno.into()),
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
