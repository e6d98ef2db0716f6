//! Calls with two names, `rename`, `link` and their like, wherever each of the names is.
//!
//! | first | second | done by |
//! |---|---|---|
//! | in the store | in the store | LibFS |
//! | outside | outside | the kernel |
//! | one of each | | neither: both are looked at in the kernel's order, and if nothing else is wrong the answer is EXDEV |
//!
//! A name may turn out to be elsewhere than it begins, as a symbolic link or `..` leads out of the store or into it.

use std::ffi::CString;

use cuesta_libfs::{Credentials, Error};
use rustix::fs::{AtFlags, Mode, OFlags, StatVfsMountFlags};
use rustix::io::Errno;

use crate::call::{Answer, Call, Failure};
use crate::calls::paths::links;
use crate::calls::paths::store_path::{self, CROSSINGS, Located, Named, StorePath};
use crate::descriptors::{Pin, kernel};
use crate::memory::user_memory::UserPath;
use crate::process::{self, first_calls};
use crate::store::{Client, OpenFile};
use crate::users::credentials;

/// Where a name is.
enum NameLocation {
    /// In the store.
    Store(StorePath),
    /// No name: the open file itself.
    File(Pin),
    /// Outside the store.
    Kernel { directory: i32, path: Vec<u8> },
}

/// A call's first name, in the store.
pub enum Source<'a> {
    /// A place.
    Path(Located<'a>),
    /// An open file.
    File(&'a OpenFile),
}

/// How a call looks at one of its names before it acts.
#[derive(Clone, Copy, Debug)]
enum Look {
    /// It finds the directory.
    Directory,
    /// It finds the file, behind a link at the end if `follow`.
    File { follow: bool },
    /// It finds the directory, and no such name there.
    New,
}

/// How a call with two names looks at them.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `rename`: both directories.
    Rename,
    /// `link`: the file, and a new name.
    Link {
        /// Whether the file is behind a link at the first name's end.
        follow: bool,
        /// Whether an empty first name is the descriptor's file.
        may_be_empty: bool,
    },
}

impl Kind {
    fn looks(self) -> [Look; 2] {
        match self {
            Kind::Rename => [Look::Directory, Look::Directory],
            Kind::Link { follow, .. } => [Look::File { follow }, Look::New],
        }
    }

    fn may_be_empty(self) -> bool {
        matches!(self, Kind::Link { may_be_empty: true, .. })
    }
}

/// Does what the call asks for; `file` is the one its first name means, if that is no place.
pub fn serve(
    call: &Call,
    (from, to): (Named, Named),
    kind: Kind,
    file: Option<Pin>,
    mut serve: impl FnMut(&Client, &Credentials, Source<'_>, Located<'_>) -> Result<(), Error>,
) -> Answer {
    let [look_from, look_to] = kind.looks();
    let located = (store_path::locate(call, from.0, from.1), store_path::locate(call, to.0, to.1));
    if let (Err(Failure::NotOurs), Err(Failure::NotOurs), None) = (&located.0, &located.1, &file) {
        return Err(Failure::NotOurs);
    }
    let client = if file.is_some() { process::client } else { first_calls::client };
    let mut first = match file {
        Some(pin) => NameLocation::File(pin),
        None => spot(call, from, located.0, kind.may_be_empty())?,
    };
    let mut second = match spot(call, to, located.1, false) {
        Ok(spot) => spot,
        Err(failure) => {
            look(&first, look_from)?;
            return Err(failure);
        }
    };
    let client = client()?;
    let credentials = credentials::effective();
    for _ in 0..CROSSINGS {
        let served = match (&first, &second) {
            (NameLocation::Store(place), NameLocation::Store(to)) => {
                serve(client, &credentials, Source::Path(place.located_by(client)?), to.located_by(client)?)
            }
            (NameLocation::File(pin), NameLocation::Store(to)) => {
                serve(client, &credentials, Source::File(pin.file()?), to.located()?)
            }
            (NameLocation::Kernel { .. }, NameLocation::Kernel { .. }) => {
                return kernel(call, [(from, &first), (to, &second)]);
            }
            _ => {
                match look(&first, look_from)? {
                    Some(moved) => first = moved,
                    None => match look(&second, look_to)? {
                        Some(moved) => second = moved,
                        None => return Err(Failure::Errno(libc::EXDEV)),
                    },
                }
                continue;
            }
        };
        match served {
            Ok(()) => return Ok(0),
            Err(Error::Leaves { path, second: is_second }) => {
                let is_second = is_second || matches!(first, NameLocation::File(_));
                *(if is_second { &mut second } else { &mut first }) = moved(&path)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(Failure::Errno(libc::ELOOP))
}

fn spot(
    call: &Call,
    named: Named,
    located: Result<StorePath, Failure>,
    may_be_empty: bool,
) -> Result<NameLocation, Failure> {
    match located {
        Ok(place) => return Ok(NameLocation::Store(place)),
        Err(Failure::NotOurs) => {}
        Err(failure) => return Err(failure),
    }
    if let Some(found) = links::behind_link(call, named) {
        return Ok(NameLocation::Store(store_path::locate_bytes(libc::AT_FDCWD, found.as_bytes())?));
    }
    let path = UserPath::read(call.word(named.1))?.as_bytes().to_vec();
    if path.is_empty() && !may_be_empty {
        return Err(Failure::Errno(libc::ENOENT));
    }
    Ok(NameLocation::Kernel { directory: named.0.map_or(libc::AT_FDCWD, |index| call.int(index)), path })
}

/// Where a path of the store goes on that leads out of it.
fn moved(path: &[u8]) -> Result<NameLocation, Failure> {
    let outside = store_path::outside(path)?;
    match store_path::locate_bytes(libc::AT_FDCWD, &outside) {
        Err(Failure::NotOurs) => {}
        place => return place.map(NameLocation::Store),
    }
    let prefix = &process::configuration()?.prefix;
    match links::into_store(libc::AT_FDCWD, &outside, false) {
        Some(inside) => Ok(NameLocation::Store(store_path::led_back(prefix, &inside)?)),
        None => Ok(NameLocation::Kernel { directory: libc::AT_FDCWD, path: outside }),
    }
}

/// Looks at a name as the call does before it compares the file systems; answers where the name is, if that is elsewhere.
fn look(spot: &NameLocation, how: Look) -> Result<Option<NameLocation>, Failure> {
    match spot {
        NameLocation::File(_) => Ok(None),
        NameLocation::Store(place) => match look_in_store(place, how) {
            Ok(()) => Ok(None),
            Err(Leaving::To(path)) => moved(&path).map(Some),
            Err(Leaving::Failed(failure)) => Err(failure),
        },
        NameLocation::Kernel { directory, path } => look_outside(*directory, path, how).map(|()| None),
    }
}

/// Why a look in the store ends.
enum Leaving {
    /// The name is outside, at this path.
    To(Vec<u8>),
    /// There is none.
    Failed(Failure),
}

impl<F: Into<Failure>> From<F> for Leaving {
    fn from(failure: F) -> Self {
        Leaving::Failed(failure.into())
    }
}

fn look_in_store(place: &StorePath, how: Look) -> Result<(), Leaving> {
    let (client, credentials) = (first_calls::client()?, credentials::effective());
    let (base, path) = place.located_by(client)?;
    let (folder, last) = split(path);
    let is_file = matches!(how, Look::File { .. });
    let asked = if is_file { path } else { folder };
    let follow = !matches!(how, Look::File { follow: false });
    match client.stat(&credentials, base, asked, follow) {
        Ok(_) => {}
        Err(Error::Leaves { path, .. }) if is_file => return Err(Leaving::To(path)),
        Err(Error::Leaves { mut path, .. }) => {
            path.push(b'/');
            path.extend_from_slice(last);
            return Err(Leaving::To(path));
        }
        Err(error) => return Err(error.into()),
    }
    if !matches!(how, Look::New) {
        return Ok(());
    }
    if is_no_name(last) {
        return check_new(true, last);
    }
    match client.stat(&credentials, base, trimmed(path), false) {
        Ok(_) => check_new(true, last),
        Err(error) if error.errno() == libc::ENOENT => check_new(false, last),
        Err(error) => Err(error.into()),
    }
}

fn look_outside(directory: i32, path: &[u8], how: Look) -> Result<(), Failure> {
    let directory = kernel::borrow(directory);
    let (folder, last) = split(path);
    if let Look::File { follow } = how {
        let end = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        rustix::fs::statat(directory, path, end | AtFlags::EMPTY_PATH)?;
        return Ok(());
    }
    // Without a folder in the path it is the directory itself that must be one.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::openat(directory, folder, flags, Mode::empty())?;
    if !matches!(how, Look::New) {
        return Ok(());
    }
    match rustix::fs::statat(directory, trimmed(path), AtFlags::SYMLINK_NOFOLLOW) {
        _ if is_no_name(last) => check_new(true, last),
        Ok(_) => check_new(true, last),
        Err(Errno::NOENT) => check_new(false, last),
        Err(errno) => Err(Failure::from(errno)),
    }?;
    match rustix::fs::fstatvfs(&folder)?.f_flag.contains(StatVfsMountFlags::RDONLY) {
        true => Err(Failure::Errno(libc::EROFS)),
        false => Ok(()),
    }
}

/// Whether a new name can be made, of which the last component is given with the slashes behind it.
fn check_new<F: From<Failure>>(exists: bool, last: &[u8]) -> Result<(), F> {
    match (exists, last.ends_with(b"/")) {
        (true, _) => Err(Failure::Errno(libc::EEXIST).into()),
        // Only a directory may have a slash behind it.
        (false, true) => Err(Failure::Errno(libc::ENOENT).into()),
        (false, false) => Ok(()),
    }
}

/// Whether the last component of a path is none that can be made.
fn is_no_name(last: &[u8]) -> bool {
    matches!(trimmed(last), b"" | b"." | b"..")
}

/// A path without the slashes behind it.
fn trimmed(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    &path[..end]
}

/// The directory that a path's last name is in, and that name with the slashes behind it.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match trimmed(path).iter().rposition(|byte| *byte == b'/') {
        Some(slash) => path.split_at(slash + 1),
        None if path.starts_with(b"/") => (b"/", path),
        None => (b".", path),
    }
}

/// The call as the kernel gets it.
fn kernel(call: &Call, spots: [(Named, &NameLocation); 2]) -> Answer {
    let mut arguments = call.arguments;
    // The kernel reads them in the call.
    let mut paths: [Option<CString>; 2] = [None, None];
    for ((named, spot), kept) in spots.into_iter().zip(&mut paths) {
        let NameLocation::Kernel { directory, path } = spot else { return Err(Failure::NotOurs) };
        let path = CString::new(&path[..]).map_err(|_| Failure::Errno(libc::ENOENT))?;
        arguments[named.1] = kept.insert(path).as_ptr() as usize;
        if let Some(index) = named.0 {
            arguments[index] = *directory as usize;
        }
    }
    Ok(call.kernel(arguments))
}

#[cfg(test)]
mod tests {
    use super::{split, trimmed};

    #[test]
    fn a_path_is_a_directory_and_a_name() {
        assert_eq!(split(b"a"), (&b"."[..], &b"a"[..]));
        assert_eq!(split(b"a//"), (&b"."[..], &b"a//"[..]));
        assert_eq!(split(b"a/b/"), (&b"a/"[..], &b"b/"[..]));
        assert_eq!(split(b"/a"), (&b"/"[..], &b"a"[..]));
        assert_eq!(split(b"/"), (&b"/"[..], &b"/"[..]));
        assert_eq!(trimmed(b"//"), b"");
    }
}
