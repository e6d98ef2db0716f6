//! Making, moving, linking and removing names.

use crate::call::{Answer, Call, Failure};
use crate::calls::names::mode::new_mode;
use crate::calls::names::two_names::{self, Kind, Source};
use crate::calls::paths::store_path::Named;
use crate::calls::paths::{crossing, descriptor_files};
use crate::descriptors::{self, working_directory};
use crate::memory::user_memory;
use crate::process;
use crate::store::LinkSource;
use cuesta_libfs::{Error, NewMode, RenameFlags};

pub fn make_directory(call: &Call, directory: Option<usize>, path: usize, mode: usize) -> Answer {
    crossing::at_name(
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
    crossing::at_name(
        call,
        (directory, path),
        |client, credentials, base, place| {
            client.make_node(credentials, base, &place.path, mode, device as u64)
        },
        |_| Ok(0),
    )
}

pub fn remove(call: &Call, directory: Option<usize>, path: usize, is_directory: bool) -> Answer {
    crossing::at_name(
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
        false if follow => descriptor_files::itself(call, from.1).ok(),
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
    crossing::at_name(
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
    let answer = crossing::at_name(
        call,
        (directory, path),
        |client, credentials, base, place| client.read_link(credentials, base, &place.path),
        write,
    );
    match answer {
        Err(Failure::NotOurs) => write(descriptor_files::target(call, path)?),
        answer => answer,
    }
}
