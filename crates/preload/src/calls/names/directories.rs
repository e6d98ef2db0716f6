//! Listing directories, and the working directory.

use cuesta_format::FileKind;
use cuesta_libfs::{DirectoryItem, Whence};

use crate::call::{Answer, Call, Failure};
use crate::calls::paths::{crossing, descriptor_files, links, own_listing};
use crate::descriptors::description::Description;
use crate::descriptors::{self, Pin, working_directory};
use crate::memory::user_memory;
use crate::process;
use crate::users::credentials;

/// Bytes of `struct linux_dirent64` before the name.
const ENTRY_HEADER: usize = 19;
/// Bytes of the older `struct linux_dirent`, which has the kind in its last byte.
const OLD_HEADER: usize = 18;
const ENTRY_ALIGNMENT: usize = 8;
/// Most bytes put together before they are copied out.
const BATCH_LIMIT: usize = 64 * 1024;
/// Longest path the kernel answers, with the zero byte that ends it.
const PATH_MAX: usize = libc::PATH_MAX as usize;

pub fn read_entries(call: &Call) -> Answer {
    let pin = match call.pin(0) {
        Err(Failure::NotOurs) => return own_listing::read_entries(call),
        pin => pin?,
    };
    let file = pin.file()?;
    file.check_not_path()?;
    if file.kind() != FileKind::Directory {
        return Err(Failure::Errno(libc::ENOTDIR));
    }
    // The kernel counts with an int.
    let room = usize::try_from(call.int(2)).unwrap_or(0).min(BATCH_LIMIT);
    let client = process::client()?;
    let mut bytes = Vec::with_capacity(room.min(4096));
    let mut was_too_small = false;
    let is_old = call.number as i64 == libc::SYS_getdents;
    let mut told = 0;
    pin.with_offset(|file| {
        let began = file.offset();
        client.read_directory(file, &mut |item: DirectoryItem<'_>| {
            let behind_name = if is_old { OLD_HEADER + 1 } else { ENTRY_HEADER };
            let length = (behind_name + item.name.len() + 1).next_multiple_of(ENTRY_ALIGNMENT);
            if bytes.len() + length > room {
                was_too_small = bytes.is_empty();
                return false;
            }
            let end = bytes.len() + length;
            bytes.extend_from_slice(&item.inode.0.to_ne_bytes());
            bytes.extend_from_slice(&item.next_cookie.to_ne_bytes());
            bytes.extend_from_slice(&(length as u16).to_ne_bytes());
            if !is_old {
                bytes.push(kind_byte(item.kind));
            }
            bytes.extend_from_slice(item.name);
            bytes.resize(end, 0);
            if is_old {
                bytes[end - 1] = kind_byte(item.kind);
            }
            true
        })?;
        told = user_memory::write_as_far_as_possible(call.word(1), &bytes);
        if told < bytes.len() {
            let next;
            (told, next) = last_whole(&bytes[..told]).unwrap_or((0, began));
            client.seek(file, next as i64, Whence::Set)?;
        }
        Ok(())
    })?;
    match told {
        _ if was_too_small => Err(Failure::Errno(libc::EINVAL)),
        0 if !bytes.is_empty() => Err(Failure::Errno(libc::EFAULT)),
        told => Ok(told as isize),
    }
}

/// Where the last of the entries ends that `bytes` has whole, and the position behind it.
fn last_whole(bytes: &[u8]) -> Option<(usize, u64)> {
    let mut last = None;
    let mut at = 0;
    while let Some((header, _)) = bytes.get(at..).and_then(|rest| rest.split_first_chunk::<OLD_HEADER>()) {
        at += usize::from(u16::from_ne_bytes([header[16], header[17]]));
        if at > bytes.len() {
            break;
        }
        let position = header[8..].first_chunk().map_or(0, |position| u64::from_ne_bytes(*position));
        last = Some((at, position));
    }
    last
}

fn kind_byte(kind: FileKind) -> u8 {
    match kind {
        FileKind::File => libc::DT_REG,
        FileKind::Directory => libc::DT_DIR,
        FileKind::Symlink => libc::DT_LNK,
        FileKind::Fifo => libc::DT_FIFO,
        FileKind::Socket => libc::DT_SOCK,
        FileKind::CharacterDevice => libc::DT_CHR,
        FileKind::BlockDevice => libc::DT_BLK,
    }
}

/// Only what may be searched can be the working directory.
const SEARCH: i32 = libc::X_OK;

pub fn change(call: &Call) -> Answer {
    let flags = libc::O_PATH | libc::O_DIRECTORY;
    let mut is_ours = false;
    let answer = crossing::at(
        call,
        (None, 0),
        |client, credentials, base, place| {
            let file = client.open(credentials, base, &place.path, flags, 0)?;
            let entered = client
                .access(credentials, base, &place.path, SEARCH as u32, true)
                .and_then(|()| client.directory_path(&file, &place.name()));
            match entered {
                Ok(name) => Ok((file, name)),
                Err(error) => {
                    client.close(file)?;
                    Err(error)
                }
            }
        },
        |(file, name)| {
            let pin = descriptors::describe(Description::opened(file, name.clone()));
            working_directory::enter(pin, name);
            is_ours = true;
            Ok(0)
        },
    );
    if answer == Ok(0) && !is_ours {
        // The path led through the store and out of it again.
        working_directory::left();
    }
    if answer == Err(Failure::NotOurs)
        && let Ok(pin) = descriptor_files::itself(call, 0)
    {
        return enter(pin);
    }
    let is_kernels = answer == Err(Failure::NotOurs);
    let answer = leave_if_kernels(call, answer);
    match is_kernels.then(|| links::into_store_behind(call, (None, 0), answer)).flatten() {
        Some(path) => {
            change(&Call { number: call.number, arguments: [path.as_ptr() as usize, 0, 0, 0, 0, 0] })
        }
        None => answer,
    }
}

pub fn change_to_open(call: &Call) -> Answer {
    let change = |pin: Pin| {
        if pin.file()?.kind() == FileKind::Directory {
            descriptor_files::check(&pin, &credentials::effective(), SEARCH as u32)?;
        }
        enter(pin)
    };
    leave_if_kernels(call, call.pin(0).and_then(change))
}

fn enter(pin: Pin) -> Answer {
    if pin.file()?.kind() != FileKind::Directory {
        return Err(Failure::Errno(libc::ENOTDIR));
    }
    descriptor_files::check(&pin, &credentials::effective(), SEARCH as u32)?;
    let name = pin.path().to_vec();
    working_directory::enter(pin, name);
    Ok(0)
}

/// A change of directory that is the kernel's ends our own, if it succeeds.
fn leave_if_kernels(call: &Call, answer: Answer) -> Answer {
    if answer != Err(Failure::NotOurs) {
        return answer;
    }
    let answer = call.kernel(call.arguments);
    if answer == 0 {
        working_directory::left();
    }
    Ok(answer)
}

pub fn current(call: &Call) -> Answer {
    let (pin, name) = working_directory::current().ok_or(Failure::NotOurs)?;
    let mut path = process::configuration()?.prefix.clone();
    path.extend_from_slice(&process::client()?.directory_path(pin.file()?, &name)?);
    path.push(0);
    if path.len() > PATH_MAX {
        return Err(Failure::Errno(libc::ENAMETOOLONG));
    }
    if path.len() > call.word(1) {
        return Err(Failure::Errno(libc::ERANGE));
    }
    user_memory::write_bytes(call.word(0), &path)?;
    Ok(path.len() as isize)
}
