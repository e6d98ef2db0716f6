//! Calls whose path enters the store, and may leave it by `..` or a symbolic link.
//!
//! LibFS then answers where the path goes on, and the call is made again there: by LibFS if that is ours once more, else by the
//! kernel.

use crate::call::{Answer, Call, Failure};
use crate::calls::paths::prefix::below;
use crate::calls::paths::store_path::{
    CROSSINGS, Named, StorePath, below_descriptor, led_back, locate, outside,
};
use crate::calls::paths::{descriptor_paths, links};
use crate::process::{self, first_calls};
use crate::store::{Base, Client};
use crate::users::credentials;
use cuesta_libfs::{Credentials, Error};
use std::ffi::CString;

/// Runs `serve` at the place that `named` of `call` leads to, following it out of the store and back.
pub fn at<T>(
    call: &Call,
    named: Named,
    serve: impl FnMut(&Client, &Credentials, Base<'_>, &StorePath) -> Result<T, Error>,
    answer: impl FnOnce(T) -> Answer,
) -> Answer {
    at_place(call, named, (process::client, locate(call, named.0, named.1)?), serve, answer)
}

/// As [`at`], for a call that opens nothing.
pub fn at_name<T>(
    call: &Call,
    named: Named,
    serve: impl FnMut(&Client, &Credentials, Base<'_>, &StorePath) -> Result<T, Error>,
    answer: impl FnOnce(T) -> Answer,
) -> Answer {
    at_place(call, named, (first_calls::client, locate(call, named.0, named.1)?), serve, answer)
}

/// As [`at`], where that place and the call's server are known.
pub fn at_place<T>(
    call: &Call,
    named: Named,
    (client, mut place): (fn() -> Result<&'static Client, Failure>, StorePath),
    mut serve: impl FnMut(&Client, &Credentials, Base<'_>, &StorePath) -> Result<T, Error>,
    answer: impl FnOnce(T) -> Answer,
) -> Answer {
    let client = client()?;
    let credentials = credentials::effective();
    for _ in 0..CROSSINGS {
        let (base, _) = place.located_by(client)?;
        match serve(client, &credentials, base, &place) {
            Ok(value) => return answer(value),
            Err(Error::Leaves { path, .. }) => {
                let outside = outside(&path)?;
                let prefix = &process::configuration()?.prefix;
                let inside = match below(prefix, &outside) {
                    Some(rest) => Some(StorePath::below_root(rest)),
                    // A change of directory is settled by the call that began it.
                    None if call.number as i64 == libc::SYS_chdir => None,
                    // A link may lead to itself by the working directory: here crossings are counted.
                    None => below_descriptor(&outside).ok(),
                };
                place = match inside {
                    Some(inside) => inside,
                    None => match continue_outside(call, named, outside) {
                        Outside::Answered(answer) => return Ok(answer),
                        Outside::LedBack(inside) => led_back(prefix, inside.as_bytes())?,
                    },
                };
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(Failure::Errno(libc::ELOOP))
}

/// What became of a call whose path a link of the store's leads out of it.
enum Outside {
    Answered(isize),
    /// A link of the kernel's leads back into the store, to this path.
    LedBack(CString),
}

fn continue_outside(call: &Call, named: Named, mut path: Vec<u8>) -> Outside {
    // A change of directory is settled by the call that began it.
    let is_served = call.number as i64 != libc::SYS_chdir && descriptor_paths::passed(&path).is_some();
    path.push(0);
    let mut arguments = call.arguments;
    arguments[named.1] = path.as_ptr() as usize;
    if let Some(directory) = named.0 {
        arguments[directory] = libc::AT_FDCWD as usize;
    }
    match is_served.then(|| crate::calls::serve(call.number, arguments)) {
        Some(Ok(answer)) => return Outside::Answered(answer),
        Some(Err(Failure::Errno(errno) | Failure::Unserved(errno))) => {
            return Outside::Answered(-(errno as isize));
        }
        Some(Err(Failure::OverLimit)) => return Outside::Answered(-(libc::EFBIG as isize)),
        Some(Err(Failure::NotOurs)) | None => {}
    }
    let there = Call { number: call.number, arguments };
    let first = links::must_look_first().then(|| links::behind_link(&there, named)).flatten();
    if let Some(inside) = first {
        return Outside::LedBack(inside);
    }
    let answer = there.kernel(arguments);
    links::into_store_behind(&there, named, Ok(answer)).map_or(Outside::Answered(answer), Outside::LedBack)
}
