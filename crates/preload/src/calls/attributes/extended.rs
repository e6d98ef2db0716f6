//! Extended attributes: their calls by path, by link, and by descriptor.

use crate::call::{Answer, Call, Failure};
use crate::calls::paths::{crossing, descriptor_files, store_path};
use crate::descriptors::{Pin, working_directory};
use crate::memory::user_memory::{self, UserPath};
use crate::process;
use crate::store::{Base, Client, Target};
use crate::users::credentials;
use cuesta_format::{EXTENDED_VALUE_BYTES_MAX, NAME_BYTES_MAX};
use cuesta_libfs::{Credentials, Error, ExtendedFlags};

/// The file whose attributes a call is about.
#[derive(Clone, Copy, Debug)]
pub enum Subject {
    /// The file that the path at the first argument names.
    Path {
        /// Where the descriptor is of the directory it starts in, if there is one.
        directory: Option<usize>,
        /// Whether a symbolic link at its end is followed.
        follow: bool,
    },
    /// The descriptor at the first argument.
    Descriptor,
}

impl Subject {
    /// The error in the other arguments of a call, if the call is ours.
    #[cold]
    fn refuse<T>(self, call: &Call, failure: Failure) -> Result<T, Failure> {
        match self {
            Subject::Descriptor => opened(call).map(drop),
            Subject::Path { directory, follow } => match store_path::locate(call, directory, 0) {
                Err(Failure::NotOurs) if follow => descriptor_files::itself(call, 0).map(drop),
                // It has not looked at the path yet.
                Err(Failure::Errno(libc::ENAMETOOLONG | libc::EFAULT | libc::ENOENT)) => {
                    Err(Failure::NotOurs)
                }
                located => located.map(drop),
            },
        }?;
        Err(failure)
    }

    fn serve<T>(
        self,
        call: &Call,
        serve: impl Fn(&Client, &Credentials, Target<'_>) -> Result<T, Error>,
        answer: impl Fn(T) -> Answer,
    ) -> Answer {
        let Subject::Path { directory, follow } = self else {
            let pin = opened(call)?;
            let file = pin.file()?;
            let target = match call.int(0) {
                libc::AT_FDCWD => Target::Path { base: Base::Directory(file), path: b".", follow: true },
                _ => Target::File(file),
            };
            return answer(serve(process::client()?, &credentials::effective(), target)?);
        };
        let served = crossing::at_name(
            call,
            (directory, 0),
            |client, credentials, base, place| {
                serve(client, credentials, Target::Path { base, path: &place.path, follow })
            },
            &answer,
        );
        match served {
            Err(Failure::NotOurs) if follow => {
                let pin = descriptor_files::itself(call, 0)?;
                let client = process::client()?;
                let is_path = pin.file()?.flags() & libc::O_PATH != 0;
                let file = if is_path {
                    descriptor_files::reopen(&pin, libc::O_RDONLY)?
                } else {
                    pin.file()?.clone()
                };
                let served = serve(client, &credentials::effective(), Target::File(&file));
                client.close(file)?;
                answer(served?)
            }
            served => served,
        }
    }
}

/// The file that the first argument is a descriptor of. Newer kernels that get or set take the working directory's number as well.
fn opened(call: &Call) -> Result<Pin, Failure> {
    let takes_directory = matches!(
        call.number as i64,
        libc::SYS_getxattr | libc::SYS_fgetxattr | libc::SYS_setxattr | libc::SYS_fsetxattr
    );
    match call.int(0) {
        libc::AT_FDCWD if takes_directory => working_directory::pin().ok_or(Failure::NotOurs),
        _ => call.pin(0),
    }
}

/// The attribute's name at argument `index`.
fn name(call: &Call, index: usize) -> Result<Vec<u8>, Failure> {
    let name = user_memory::read_string(call.word(index), NAME_BYTES_MAX + 1)?;
    match name {
        Some(name) if !name.is_empty() => Ok(name),
        _ => Err(Failure::Errno(libc::ERANGE)),
    }
}

/// Fills the buffer at argument `index`; its length follows. With length 0 the call asks how many bytes there are.
fn fill(call: &Call, index: usize, bytes: &[u8]) -> Answer {
    let room = call.word(index + 1);
    if room > 0 {
        if bytes.len() > room {
            return Err(Failure::Errno(libc::ERANGE));
        }
        user_memory::write_bytes(call.word(index), bytes)?;
    }
    Ok(bytes.len() as isize)
}

/// Where the calls below a directory are handed its descriptor.
const DIRECTORY_AT: usize = 5;

/// `getxattrat` and its like, as the call of the older kind that it extends: the file, and that call.
fn below_directory(call: &Call, number: i64) -> Result<(Subject, Call), Failure> {
    const FLAGS: i32 = libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH;
    // struct xattr_args: where the value is, its length, and flags. A list is handed as itself.
    let (value, length, flags) = match number {
        libc::SYS_listxattr => (call.word(3), call.word(4), 0),
        libc::SYS_removexattr => (0, 0, 0),
        _ if !is_structure(call.word(4), call.word(5), size_of::<[u64; 2]>())? => {
            return Err(Failure::NotOurs);
        }
        _ => {
            let [value, rest]: [u64; 2] = user_memory::read(call.word(4))?;
            (value as usize, rest as u32 as usize, (rest >> 32) as usize)
        }
    };
    let at = call.int(2);
    if at & !FLAGS != 0 || number == libc::SYS_getxattr && flags != 0 {
        return Err(Failure::NotOurs);
    }
    if number != libc::SYS_listxattr {
        // The name is read before the path.
        name(call, 3)?;
    }
    let is_empty = at & libc::AT_EMPTY_PATH != 0
        && (call.word(1) == 0
            // The kernel reports an error in the value before one in the path.
            || UserPath::read(call.word(1)).is_ok_and(|path| path.as_bytes().is_empty()));
    let (subject, first) = match is_empty {
        true => (Subject::Descriptor, call.word(0)),
        false => {
            let follow = at & libc::AT_SYMLINK_NOFOLLOW == 0;
            (Subject::Path { directory: Some(DIRECTORY_AT), follow }, call.word(1))
        }
    };
    let arguments = match number {
        libc::SYS_listxattr => [first, value, length, 0, 0, call.word(0)],
        _ => [first, call.word(3), value, length, flags, call.word(0)],
    };
    Ok((subject, Call { number: number as usize, arguments }))
}

/// Whether a structure of `length` bytes is one of `known` bytes. Bytes beyond, which a later kernel may know, must be zero.
fn is_structure(address: usize, length: usize, known: usize) -> Result<bool, Failure> {
    const STRUCTURE_BYTES_MAX: usize = 4096;
    if !(known..=STRUCTURE_BYTES_MAX).contains(&length) {
        return Ok(false);
    }
    let mut rest = vec![0; length - known];
    user_memory::read_bytes(address.wrapping_add(known), &mut rest)?;
    Ok(rest.iter().all(|&byte| byte == 0))
}

pub fn get_below(call: &Call) -> Answer {
    let (subject, call) = below_directory(call, libc::SYS_getxattr)?;
    get(&call, subject)
}

pub fn list_below(call: &Call) -> Answer {
    let (subject, call) = below_directory(call, libc::SYS_listxattr)?;
    list(&call, subject)
}

pub fn set_below(call: &Call) -> Answer {
    let (subject, call) = below_directory(call, libc::SYS_setxattr)?;
    set(&call, subject)
}

pub fn remove_below(call: &Call) -> Answer {
    let (subject, call) = below_directory(call, libc::SYS_removexattr)?;
    remove(&call, subject)
}

pub fn get(call: &Call, subject: Subject) -> Answer {
    let name = name(call, 1).or_else(|failure| subject.refuse(call, failure))?;
    let get =
        |client: &Client, who: &Credentials, target: Target<'_>| client.get_extended(who, target, &name);
    subject.serve(call, get, |value| fill(call, 2, &value))
}

pub fn list(call: &Call, subject: Subject) -> Answer {
    let list = |client: &Client, who: &Credentials, target: Target<'_>| client.list_extended(who, target);
    subject.serve(call, list, |names| fill(call, 1, &names))
}

/// The setting that a call asks for: the attribute's name, its value, and under which conditions.
fn setting(call: &Call) -> Result<(Vec<u8>, Vec<u8>, ExtendedFlags), Failure> {
    let (value, length, flags) = (call.word(2), call.word(3), call.int(4));
    if flags & !(libc::XATTR_CREATE | libc::XATTR_REPLACE) != 0 {
        return Err(Failure::Errno(libc::EINVAL));
    }
    let flags =
        ExtendedFlags { create: flags & libc::XATTR_CREATE != 0, replace: flags & libc::XATTR_REPLACE != 0 };
    let name = name(call, 1)?;
    if length > EXTENDED_VALUE_BYTES_MAX {
        return Err(Failure::Errno(libc::E2BIG));
    }
    let mut bytes = vec![0; length];
    user_memory::read_bytes(value, &mut bytes)?;
    Ok((name, bytes, flags))
}

pub fn set(call: &Call, subject: Subject) -> Answer {
    let (name, value, flags) = setting(call).or_else(|failure| subject.refuse(call, failure))?;
    let set = |client: &Client, who: &Credentials, target: Target<'_>| {
        client.set_extended(who, target, &name, &value, flags)
    };
    subject.serve(call, set, |()| Ok(0))
}

pub fn remove(call: &Call, subject: Subject) -> Answer {
    let name = name(call, 1).or_else(|failure| subject.refuse(call, failure))?;
    let remove =
        |client: &Client, who: &Credentials, target: Target<'_>| client.remove_extended(who, target, &name);
    subject.serve(call, remove, |()| Ok(0))
}
