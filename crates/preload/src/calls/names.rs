//! Opening, making, moving and removing names.

use crate::store::{LinkSource, OpenFile};
use cuesta_format::{FileKind, InodeNumber};
use cuesta_libfs::{Error, NewMode, OPEN_FLAGS, RenameFlags, Resolve, UNNAMED};

use super::path::{self, Named, Place};
use super::two_names::{self, Kind, Source};
use super::{Answer, Call, Failure, by_mount, descriptor_names, mounts, stand_ins};
use crate::descriptors;
use crate::open_file::Description;
use crate::{process, references, thread, user_memory, working_directory};

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
    NewMode { bits: mode as u32 & MODE_BITS, umask: crate::umask::current() }
}

pub fn open(call: &Call, directory: Option<usize>, path: usize, flags: i32, mode: usize) -> Answer {
    // Flags that do not exist are passed over.
    let flags = sound_flags(flags & OPEN_FLAGS);
    if contradicts_itself(flags) {
        return Err(Failure::NotOurs);
    }
    match path::locate(call, directory, path) {
        Ok(place) => open_place(call, (directory, path), place, flags, mode, Through::default()),
        Err(Failure::NotOurs) => open_named(call, path, flags),
        // Newer kernels refuse the flags before they look at the path, which is wrong itself.
        Err(Failure::Errno(_)) if makes_directory(flags) => Err(Failure::NotOurs),
        Err(failure) => Err(failure),
    }
}

/// Whether an open asks for a directory and for a new file.
pub fn makes_directory(flags: i32) -> bool {
    const BOTH: i32 = libc::O_CREAT | libc::O_DIRECTORY;
    flags & libc::O_PATH == 0 && flags & BOTH == BOTH
}

/// The flags that mean something together with `O_PATH`.
pub const PATH_FLAGS: i32 = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;

/// Flags as the kernel takes them: beside `O_PATH` most mean nothing, and the greater kind of durability has the lesser.
fn sound_flags(flags: i32) -> i32 {
    const GREATER: i32 = libc::O_SYNC & !libc::O_DSYNC;
    match flags {
        flags if flags & libc::O_PATH != 0 => flags & PATH_FLAGS,
        flags if flags & GREATER != 0 => flags | libc::O_DSYNC,
        flags => flags,
    }
}

/// Whether an open asks for a file without a name in a way that the kernel refuses before it looks at the path: not to be written, to
/// be made by a name as well, or in what need be no directory.
pub fn contradicts_itself(flags: i32) -> bool {
    let is_sound = flags & (libc::O_TMPFILE | libc::O_CREAT) == libc::O_TMPFILE
        && flags & libc::O_ACCMODE != libc::O_RDONLY;
    flags & libc::O_PATH == 0 && flags & UNNAMED != 0 && !is_sound
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
        (process::client, place),
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
        return mounts::clone_tree(call);
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
    if makes_directory(flags) {
        return Err(Failure::Errno(libc::EINVAL));
    }
    if flags & libc::O_NOFOLLOW != 0 || flags & EXCLUSIVE == EXCLUSIVE {
        return Err(Failure::NotOurs);
    }
    let pin = descriptor_names::itself(call, path)?;
    give(call, descriptor_names::open(&pin, flags)?, flags)
}

pub fn make_directory(call: &Call, directory: Option<usize>, path: usize, mode: usize) -> Answer {
    path::at_name(
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
    if !matches!(kind, 0 | libc::S_IFREG | libc::S_IFIFO | libc::S_IFSOCK | libc::S_IFCHR | libc::S_IFBLK) {
        // The kernel refuses that before it looks at the path.
        return Err(Failure::NotOurs);
    }
    let mode = new_mode(mode);
    let mode = NewMode { bits: mode.bits | kind, ..mode };
    path::at_name(
        call,
        (directory, path),
        |client, credentials, base, place| {
            client.make_node(credentials, base, &place.path, mode, device as u64)
        },
        |_| Ok(0),
    )
}

pub fn remove(call: &Call, directory: Option<usize>, path: usize, is_directory: bool) -> Answer {
    path::at_name(
        call,
        (directory, path),
        |client, credentials, base, place| match is_directory {
            true => client.remove_directory(credentials, base, &place.path),
            false => client.unlink(credentials, base, &place.path),
        },
        |()| Ok(0),
    )
}

pub fn rename(call: &Call, from: Named, to: Named, flags: u32) -> Answer {
    const BOTH: u32 = libc::RENAME_NOREPLACE | libc::RENAME_EXCHANGE;
    if flags & !(BOTH | libc::RENAME_WHITEOUT) != 0 || flags & BOTH == BOTH {
        // The kernel refuses that before it looks at the paths.
        return Err(Failure::NotOurs);
    }
    if flags & !BOTH != 0 {
        return two_names::serve(call, (from, to), Kind::Rename, None, |_, _, _, _| Err(Error::Unsupported))
            .or_else(|failure| match failure {
                Failure::Errno(libc::EOPNOTSUPP) => call.unserved(libc::EINVAL),
                failure => Err(failure),
            });
    }
    let flags = RenameFlags {
        no_replace: flags & libc::RENAME_NOREPLACE != 0,
        exchange: flags & libc::RENAME_EXCHANGE != 0,
    };
    two_names::serve(call, (from, to), Kind::Rename, None, |client, credentials, source, to| match source {
        Source::Path(from) => client.rename(credentials, from, to, flags),
        Source::File(_) => Err(Error::NotFound),
    })
}

pub fn link(call: &Call, from: Named, to: Named, flags: i32) -> Answer {
    if flags & !(libc::AT_EMPTY_PATH | libc::AT_SYMLINK_FOLLOW) != 0 {
        return Err(Failure::NotOurs);
    }
    let (follow, may_be_empty) = (flags & libc::AT_SYMLINK_FOLLOW != 0, flags & libc::AT_EMPTY_PATH != 0);
    let is_empty = may_be_empty && user_memory::UserPath::read(call.word(from.1))?.as_bytes().is_empty();
    let file = match is_empty {
        true if call.int(0) == libc::AT_FDCWD => working_directory::pin(),
        true => match call.pin(0) {
            Err(Failure::NotOurs) => None,
            pin => Some(pin?),
        },
        false if follow => descriptor_names::itself(call, from.1).ok(),
        false => None,
    };
    let kind = Kind::Link { follow, may_be_empty };
    two_names::serve(call, (from, to), kind, file, |client, credentials, source, to| {
        let source = match source {
            Source::Path((base, path)) => LinkSource::Path { base, path, follow },
            Source::File(file) => LinkSource::File(file),
        };
        client.link(credentials, source, to.0, to.1)
    })
}

pub fn symlink(call: &Call, directory: Option<usize>, path: usize) -> Answer {
    // The kernel looks at the target before the path: one it refuses it refuses wherever the name was to be.
    let target = user_memory::UserPath::read(call.word(0)).map_err(|_| Failure::NotOurs)?;
    if target.as_bytes().is_empty() {
        return Err(Failure::NotOurs);
    }
    path::at_name(
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
    let answer = path::at_name(
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
