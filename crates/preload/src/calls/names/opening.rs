//! Opening names.

use crate::call::{Answer, Call, Failure};
use crate::calls::kinds::{by_mount, mounts, stand_ins};
use crate::calls::names::mode::new_mode;
use crate::calls::names::opened::Opened;
use crate::calls::paths::store_path::{self, Named, StorePath};
use crate::calls::paths::{crossing, descriptor_files};
use crate::descriptors::description::Description;
use crate::descriptors::{self, references};
use crate::memory::user_memory;
use crate::{process, thread};
use cuesta_format::{FileKind, InodeNumber};
use cuesta_libfs::{Error, NewMode, OPEN_FLAGS, Resolve, UNNAMED};

pub fn open(call: &Call, directory: Option<usize>, path: usize, flags: i32, mode: usize) -> Answer {
    // Flags that do not exist are passed over.
    let flags = sound_flags(flags & OPEN_FLAGS);
    if contradicts_itself(flags) {
        return Err(Failure::NotOurs);
    }
    match store_path::locate(call, directory, path) {
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
    place: StorePath,
    flags: i32,
    mode: usize,
    through: Through,
) -> Answer {
    crossing::at_place(
        call,
        named,
        (process::client, place),
        |client, credentials, base, place| {
            // The umask is looked up where it matters: an open that makes nothing never asks.
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
        // That may wait, and a thread that waits may be cancelled, which is libc's doing.
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
        return give(call, descriptor_files::open(&call.pin(0)?, open_flags)?, open_flags);
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
    let pin = descriptor_files::itself(call, path)?;
    give(call, descriptor_files::open(&pin, flags)?, flags)
}
