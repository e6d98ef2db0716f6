//! Extended attributes: their calls by path, by link, and by descriptor.

use std::sync::Arc;

use cuesta_format::{EXTENDED_VALUE_BYTES_MAX, NAME_BYTES_MAX};
use cuesta_libfs::{Client, Credentials, Error, ExtendedFlags, Target};

use super::{Answer, Call, Failure, descriptor_names, path};
use crate::{credentials, process, user_memory};

/// Bytes of an access control list that says what mode bits can: a version, and an entry for each of their classes.
const PLAIN_LIST_BYTES: usize = 4 + 3 * 8;

/// Whose attributes a call is about.
#[derive(Clone, Copy, Debug)]
pub enum Subject {
    /// What the path at the first argument names.
    Path {
        /// Whether a symbolic link at its end is followed.
        follow: bool,
    },
    /// The descriptor at the first argument.
    Descriptor,
}

impl Subject {
    /// What is wrong with the other arguments of a call, if the call is ours.
    #[cold]
    fn refuse<T>(self, call: &Call, failure: Failure) -> Result<T, Failure> {
        match self {
            Subject::Descriptor => call.pin(0).map(drop),
            Subject::Path { follow } => match path::locate(call, None, 0) {
                Err(Failure::NotOurs) if follow => descriptor_names::itself(call, 0).map(drop),
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
        let Subject::Path { follow } = self else {
            let pin = call.pin(0)?;
            return answer(serve(process::client()?, &credentials::effective(), Target::File(pin.file()?))?);
        };
        let served = path::at(
            call,
            (None, 0),
            |client, credentials, base, place| {
                serve(client, credentials, Target::Path { base, path: &place.path, follow })
            },
            &answer,
        );
        match served {
            Err(Failure::NotOurs) if follow => {
                let pin = descriptor_names::itself(call, 0)?;
                let client = process::client()?;
                let is_path = pin.file()?.flags() & libc::O_PATH != 0;
                let file = if is_path {
                    descriptor_names::reopen(&pin, libc::O_RDONLY)?
                } else {
                    Arc::clone(pin.file()?)
                };
                let served = serve(client, &credentials::effective(), Target::File(&file));
                client.close(file)?;
                answer(served?)
            }
            served => served,
        }
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

/// Fills the buffer at argument `index`, whose length follows; of length 0 it asks how many bytes there are.
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

/// What is to be set: the attribute's name, its value, and under which conditions.
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
    match subject.serve(call, set, |()| Ok(0)) {
        // An access control list that cannot be set is something a program misses, unless the mode bits say as much
        // (and cp sets those then); that a file has none is the truth.
        Err(Failure::Errno(libc::EOPNOTSUPP))
            if name.starts_with(b"system.posix_acl_") && value.len() > PLAIN_LIST_BYTES =>
        {
            call.unserved(libc::EOPNOTSUPP)
        }
        answer => answer,
    }
}

pub fn remove(call: &Call, subject: Subject) -> Answer {
    let name = name(call, 1).or_else(|failure| subject.refuse(call, failure))?;
    let remove =
        |client: &Client, who: &Credentials, target: Target<'_>| client.remove_extended(who, target, &name);
    subject.serve(call, remove, |()| Ok(0))
}
