//! Which paths lead to the store, and what to do with one that leads out again.
//!
//! | path | ours if |
//! |---|---|
//! | absolute | its first components, taken literally, are the prefix |
//! | relative to a directory of ours, or while the working directory is ours | always |
//! | relative to anything else | the directory's name with the path is ours |
//! | through a descriptor of ours (`/dev/fd/N/…`) | always; see `descriptor_names` for the descriptor itself |
//!
//! A path that enters the store may leave it by `..` or a symbolic link. LibFS then answers where it
//! goes on, and the call is made again there: by LibFS if that is ours once more, else by the kernel.

use std::ffi::CString;

use cuesta_format::InodeNumber;
use cuesta_libfs::{Credentials, Error};

use super::descriptor_names::{self, Passed};
use super::{Answer, Call, Failure, links};
use crate::descriptors::{self, Pin};
use crate::filter::{self, class_of};
use crate::store::{Base, Client};
use crate::user_memory::UserPath;
use crate::{credentials, first_calls, process, user_memory, working_directory};

/// Times a path may leave the store and come back.
pub const CROSSINGS: usize = 40;

/// `path` without `.`, `..` and doubled or trailing slashes; `None` if it is not absolute or is the root.
pub fn normal(path: &[u8]) -> Option<Vec<u8>> {
    let mut walk = Walk::new(path)?;
    while walk.step() {}
    (!walk.passed.is_empty()).then_some(walk.passed)
}

/// A literal walk along an absolute path.
pub struct Walk<'a> {
    /// Where it is, normal.
    pub passed: Vec<u8>,
    /// What is left.
    pub rest: &'a [u8],
}

impl<'a> Walk<'a> {
    /// Starts at the root; `None` if the path does not.
    pub fn new(path: &'a [u8]) -> Option<Self> {
        Some(Self { passed: Vec::new(), rest: path.strip_prefix(b"/")? })
    }

    /// Takes one component; `false` at the end.
    pub fn step(&mut self) -> bool {
        if self.rest.is_empty() {
            return false;
        }
        let end = self.rest.iter().position(|byte| *byte == b'/').unwrap_or(self.rest.len());
        let (component, rest) = self.rest.split_at(end);
        self.rest = rest.strip_prefix(b"/").unwrap_or(rest);
        match component {
            b"" | b"." => {}
            b".." => {
                let parent = self.passed.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
                self.passed.truncate(parent);
            }
            name => {
                self.passed.push(b'/');
                self.passed.extend_from_slice(name);
            }
        }
        true
    }
}

/// What remains of an absolute path below `prefix`; `None` if it does not lead there.
pub fn below<'a>(prefix: &[u8], path: &'a [u8]) -> Option<&'a [u8]> {
    // As most are written.
    if let Some([b'/', rest @ ..]) = path.strip_prefix(prefix) {
        return Some(rest);
    }
    let mut walk = Walk::new(path)?;
    while walk.passed != prefix {
        if !walk.step() {
            return None;
        }
    }
    Some(walk.rest)
}

/// A place as LibFS takes it.
pub type Located<'a> = (Base<'a>, &'a [u8]);

/// A place in the store.
#[derive(Debug)]
pub struct Place {
    /// The directory the path starts in; `None` for the root.
    pub base: Option<Pin>,
    /// The path from there, not empty.
    pub path: Vec<u8>,
}

impl Place {
    /// The place of a path below the prefix.
    pub fn below_root(path: &[u8]) -> Self {
        let path = if path.is_empty() { b"." } else { path };
        Self { base: None, path: path.to_vec() }
    }

    /// As LibFS takes it, for the length of a call.
    pub fn located(&self) -> Result<Located<'_>, Failure> {
        let base = match &self.base {
            Some(base) => Base::Directory(base.file()?),
            None => Base::Root,
        };
        Ok((base, &self.path))
    }

    /// As `client` takes it. One that does the process's first calls has nothing open.
    pub fn located_by(&self, client: &Client) -> Result<Located<'_>, Failure> {
        match &self.base {
            Some(base) if first_calls::is_done_by(client) => {
                Ok((Base::Number(InodeNumber(base.inode())), &self.path))
            }
            _ => self.located(),
        }
    }

    /// The place's name below the prefix, for getcwd.
    pub fn name(&self) -> Vec<u8> {
        let mut name = self.base.as_ref().map(|base| base.path().to_vec()).unwrap_or_default();
        name.push(b'/');
        name.extend_from_slice(&self.path);
        let mut full = vec![b'/'];
        full.extend_from_slice(&name);
        normal(&full).unwrap_or_default()
    }
}

/// Where the path at argument `path` of `call`, relative to the descriptor at argument `directory`,
/// lies in the store. An empty path is refused as the kernel does.
pub fn locate(call: &Call, directory: Option<usize>, path: usize) -> Result<Place, Failure> {
    let path = UserPath::read(call.word(path))?;
    let directory = directory.map_or(libc::AT_FDCWD, |index| call.int(index));
    locate_bytes(directory, path.as_bytes())
}

/// As [`locate`], for a path already read.
pub fn locate_bytes(directory: i32, path: &[u8]) -> Result<Place, Failure> {
    let prefix = &process::configuration()?.prefix;
    if path.first() == Some(&b'/') {
        return match below(prefix, path) {
            Some(rest) => Ok(Place::below_root(rest)),
            None => below_descriptor(path),
        };
    }
    let base = match directory {
        libc::AT_FDCWD => working_directory::pin(),
        directory => descriptors::pin(directory),
    };
    if let Some(base) = base {
        if path.is_empty() {
            return Err(Failure::Errno(libc::ENOENT));
        }
        return Ok(Place { base: Some(base), path: path.to_vec() });
    }
    if directory != libc::AT_FDCWD && descriptors::is_hidden(directory) {
        return Err(Failure::Errno(libc::EBADF));
    }
    if path.is_empty() {
        return Err(Failure::NotOurs);
    }
    let mut absolute = working_directory::kernel_path(directory)?;
    absolute.push(b'/');
    absolute.extend_from_slice(path);
    below(prefix, &absolute).map(Place::below_root).ok_or(Failure::NotOurs)
}

/// A place below a directory that `path` names by its descriptor. The descriptor itself is no place.
fn below_descriptor(path: &[u8]) -> Result<Place, Failure> {
    match descriptor_names::first_passed(path) {
        Some(Passed::Ours(pin, rest)) if !rest.is_empty() => {
            Ok(Place { base: Some(pin), path: rest.to_vec() })
        }
        Some(Passed::Hidden) => Err(Failure::Errno(libc::ENOENT)),
        _ => Err(Failure::NotOurs),
    }
}

/// The directory descriptor and path arguments of a call.
pub type Named = (Option<usize>, usize);

/// Runs `serve` at the place that `named` of `call` leads to, following it out of the store and back.
pub fn at<T>(
    call: &Call,
    named: Named,
    serve: impl FnMut(&Client, &Credentials, Base<'_>, &Place) -> Result<T, Error>,
    answer: impl FnOnce(T) -> Answer,
) -> Answer {
    at_place(call, named, (process::client, locate(call, named.0, named.1)?), serve, answer)
}

/// As [`at`], for a call that opens nothing.
pub fn at_name<T>(
    call: &Call,
    named: Named,
    serve: impl FnMut(&Client, &Credentials, Base<'_>, &Place) -> Result<T, Error>,
    answer: impl FnOnce(T) -> Answer,
) -> Answer {
    at_place(call, named, (first_calls::client, locate(call, named.0, named.1)?), serve, answer)
}

/// As [`at`], where that place is known, and who serves the call.
pub fn at_place<T>(
    call: &Call,
    named: Named,
    (client, mut place): (fn() -> Result<&'static Client, Failure>, Place),
    mut serve: impl FnMut(&Client, &Credentials, Base<'_>, &Place) -> Result<T, Error>,
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
                    Some(rest) => Some(Place::below_root(rest)),
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

/// The absolute path LibFS's answer means.
pub fn outside(path: &[u8]) -> Result<Vec<u8>, Failure> {
    if path.first() == Some(&b'/') {
        return Ok(path.to_vec());
    }
    let mut absolute = process::configuration()?.prefix.clone();
    absolute.push(b'/');
    absolute.extend_from_slice(path);
    // The prefix has no symbolic links of ours, so `..` may be taken literally up to where it ends.
    Ok(normal(&absolute).unwrap_or_else(|| b"/".to_vec()))
}

/// The place of a path of the store that a link of the kernel's led to.
pub fn led_back(prefix: &[u8], inside: &[u8]) -> Result<Place, Failure> {
    below(prefix, inside).map(Place::below_root).ok_or(Failure::Errno(libc::ENOENT))
}

/// What became of a call whose path a link of the store's leads out of it.
enum Outside {
    Answered(isize),
    /// A link of the kernel's leads back into the store, to this path.
    LedBack(CString),
}

fn continue_outside(call: &Call, named: Named, mut path: Vec<u8>) -> Outside {
    // A change of directory is settled by who began it.
    let is_served = call.number as i64 != libc::SYS_chdir && descriptor_names::passed(&path).is_some();
    path.push(0);
    let mut arguments = call.arguments;
    arguments[named.1] = path.as_ptr() as usize;
    if let Some(directory) = named.0 {
        arguments[directory] = libc::AT_FDCWD as usize;
    }
    match is_served.then(|| super::serve(call.number, arguments)) {
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

/// Answers a call of ours that is not served: by descriptor or path, whichever its class looks at.
pub fn refuse(call: &Call) -> Answer {
    if call.number as i64 == libc::SYS_inotify_add_watch
        && let Some(errno) = refusal_of_watcher(call)?
    {
        return Err(Failure::Errno(errno));
    }
    if call.number as i64 == libc::SYS_name_to_handle_at && has_unknown_flags(call) {
        return Err(Failure::Errno(libc::EINVAL));
    }
    let ours = match class_of(call.number as i64) {
        _ if call.number as i64 == libc::SYS_inotify_add_watch => {
            locate(call, None, 1).map(|_| ()).or_else(|failure| followed(call, 1, failure))
        }
        _ if call.number as i64 == libc::SYS_name_to_handle_at => {
            match itself(call, Some(0), 1, call.int(4)) {
                Ok(None) => {
                    locate(call, Some(0), 1).map(|_| ()).or_else(|failure| followed(call, 1, failure))
                }
                file => file.map(|_| ()),
            }
        }
        filter::CLASS_FD => call.pin(0).map(|_| ()),
        filter::CLASS_FD_FD => call.pin(0).or_else(|_| call.pin(1)).map(|_| ()),
        filter::CLASS_FD_THIRD => call.pin(0).or_else(|_| call.pin(2)).map(|_| ()),
        filter::CLASS_PATH => locate(call, None, 0).map(|_| ()).or_else(|failure| followed(call, 0, failure)),
        filter::CLASS_PATH_PATH => locate(call, None, 0).or_else(|_| locate(call, None, 1)).map(|_| ()),
        filter::CLASS_PATH_SECOND => {
            locate(call, None, 1).map(|_| ()).or_else(|failure| followed(call, 1, failure))
        }
        filter::CLASS_AT => {
            locate(call, Some(0), 1).map(|_| ()).or_else(|failure| followed(call, 1, failure))
        }
        filter::CLASS_AT_AT => locate(call, Some(0), 1).or_else(|_| locate(call, Some(2), 3)).map(|_| ()),
        _ if call.number as i64 == libc::SYS_fanotify_mark => {
            locate(call, Some(3), 4).map(|_| ()).or_else(|_| call.pin(3).map(|_| ()))
        }
        _ if call.number as i64 == libc::SYS_fsconfig => parameter(call),
        _ if call.number as i64 == libc::SYS_bpf => pinned(call),
        _ => Err(Failure::NotOurs),
    };
    ours?;
    check_others(call)?;
    let errno = match call.number as i64 {
        libc::SYS_name_to_handle_at | libc::SYS_open_by_handle_at => libc::EOPNOTSUPP,
        // As on every file system but its own.
        libc::SYS_bpf if call.int(0) == BPF_OBJ_GET => libc::EACCES,
        libc::SYS_bpf => libc::EPERM,
        _ => libc::ENOSYS,
    };
    process::client()?;
    call.unserved(errno)
}

/// The open file a call with an empty path means: the descriptor, or the working directory.
pub fn itself(
    call: &Call,
    directory: Option<usize>,
    path: usize,
    flags: i32,
) -> Result<Option<Pin>, Failure> {
    let Some(directory) = directory else { return Ok(None) };
    if flags & libc::AT_EMPTY_PATH == 0 {
        return Ok(None);
    }
    // Newer kernels take no path for an empty one where they only look.
    let is_null =
        call.word(path) == 0 && matches!(call.number as i64, libc::SYS_newfstatat | libc::SYS_statx);
    if !is_null && !UserPath::read(call.word(path))?.as_bytes().is_empty() {
        return Ok(None);
    }
    match call.int(directory) {
        libc::AT_FDCWD => working_directory::pin().map(Some).ok_or(Failure::NotOurs),
        fd => descriptors::pin(fd).map(Some).ok_or(Failure::NotOurs),
    }
}

/// What is wrong with the other arguments of a call that is not served, where programs try whether it is.
fn check_others(call: &Call) -> Result<(), Failure> {
    const HANDLE_BYTES_MAX: u32 = 128;
    let (named, follow) = match call.number as i64 {
        // The kernel has looked at the rest.
        libc::SYS_inotify_add_watch => ((None, 1), call.word(2) as u32 & libc::IN_DONT_FOLLOW == 0),
        libc::SYS_name_to_handle_at => {
            // It looks at the path last, and cannot read the one the kernel gets.
            let mut arguments = call.arguments;
            (arguments[0], arguments[1]) = (libc::AT_FDCWD as usize, 0);
            let answer = call.kernel(arguments);
            if answer != -(libc::EFAULT as isize) {
                return Err(Failure::Errno(-answer as i32));
            }
            ((Some(0), 1), call.int(4) & libc::AT_SYMLINK_FOLLOW != 0)
        }
        libc::SYS_open_by_handle_at => {
            let bytes: u32 = user_memory::read(call.word(1))?;
            return match bytes {
                1..=HANDLE_BYTES_MAX => Ok(()),
                _ => Err(Failure::Errno(libc::EINVAL)),
            };
        }
        _ => return Ok(()),
    };
    let path = UserPath::read(call.word(named.1))?;
    if path.as_bytes().is_empty() {
        return Ok(());
    }
    let place = locate(call, named.0, named.1)?;
    let (base, path) = place.located()?;
    match process::client()?.stat(&credentials::effective(), base, path, follow) {
        Ok(_) | Err(Error::Leaves { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Whether the kernel does not know a flag of `name_to_handle_at`. It looks at them first, and cannot read the path that it gets here.
fn has_unknown_flags(call: &Call) -> bool {
    const NOWHERE: usize = 1;
    let mut arguments = call.arguments;
    (arguments[0], arguments[1]) = (libc::AT_FDCWD as usize, NOWHERE);
    call.kernel(arguments) == -(libc::EINVAL as isize)
}

/// The error number for `inotify_add_watch` with a wrong mask, or a descriptor that is not inotify's. The kernel checks both before
/// it reads the path.
fn refusal_of_watcher(call: &Call) -> Result<Option<i32>, Failure> {
    match call.pin(0) {
        _ if !is_watch_mask(call.word(2) as u32) => Ok(Some(libc::EINVAL)),
        Ok(pin) if pin.is_path() => Ok(Some(libc::EBADF)),
        Ok(_) => Ok(Some(libc::EINVAL)),
        // The kernel checks its own descriptor. This call adds no watch: it fails with EFAULT at a path that the kernel cannot read.
        Err(Failure::NotOurs) => {
            let mut arguments = call.arguments;
            arguments[1] = 0;
            let answer = call.kernel(arguments);
            Ok((answer != -(libc::EFAULT as isize)).then_some(-answer as i32))
        }
        Err(failure) => Err(failure),
    }
}

/// Whether a watch may be for this.
fn is_watch_mask(mask: u32) -> bool {
    const OPTIONS: u32 = libc::IN_ONLYDIR
        | libc::IN_DONT_FOLLOW
        | libc::IN_EXCL_UNLINK
        | libc::IN_MASK_CREATE
        | libc::IN_MASK_ADD;
    const TOLD: u32 =
        libc::IN_UNMOUNT | libc::IN_Q_OVERFLOW | libc::IN_IGNORED | libc::IN_ISDIR | libc::IN_ONESHOT;
    mask != 0 && mask & !(libc::IN_ALL_EVENTS | OPTIONS | TOLD) == 0
}

/// What makes a name for an object of BPF's, and what finds it by that.
const BPF_OBJ_PIN: i32 = 6;
const BPF_OBJ_GET: i32 = 7;

/// The place of an object's name.
fn pinned(call: &Call) -> Result<(), Failure> {
    // Whether it starts in a directory that is named, too.
    const PATH_FD: u32 = 1 << 14;
    if !matches!(call.int(0), BPF_OBJ_PIN | BPF_OBJ_GET) {
        return Err(Failure::NotOurs);
    }
    // The path's address, the object's descriptor and flags, the directory's descriptor.
    let [path, object]: [u64; 2] = user_memory::read(call.word(1)).map_err(|_| Failure::NotOurs)?;
    let directory = match (object >> 32) as u32 & PATH_FD {
        0 => libc::AT_FDCWD,
        _ => user_memory::read(call.word(1).wrapping_add(16)).map_err(|_| Failure::NotOurs)?,
    };
    locate_bytes(directory, UserPath::read(path as usize)?.as_bytes()).map(|_| ())
}

/// The path or descriptor among a file system's parameters.
fn parameter(call: &Call) -> Result<(), Failure> {
    const SET_PATH: i32 = 3;
    const SET_PATH_EMPTY: i32 = 4;
    const SET_FD: i32 = 5;
    match call.int(1) {
        SET_PATH => locate(call, Some(4), 3).map(|_| ()),
        SET_PATH_EMPTY | SET_FD => call.pin(4).map(|_| ()),
        _ => Err(Failure::NotOurs),
    }
}

/// Whether a call whose path is no place of ours names a descriptor of ours, and would follow it.
fn followed(call: &Call, path: usize, failure: Failure) -> Result<(), Failure> {
    let is_about_link = matches!(call.number as i64, libc::SYS_open_tree | libc::SYS_name_to_handle_at);
    match failure {
        Failure::NotOurs if !is_about_link => descriptor_names::itself(call, path).map(|_| ()),
        failure => Err(failure),
    }
}

#[cfg(test)]
mod tests {
    use super::{below, normal};

    #[test]
    fn only_whole_components_of_the_prefix_count() {
        assert_eq!(below(b"/a/b", b"/a/b"), Some(&b""[..]));
        assert_eq!(below(b"/a/b", b"/a/b/"), Some(&b""[..]));
        assert_eq!(below(b"/a/b", b"//a/./b//c/../d"), Some(&b"/c/../d"[..]));
        assert_eq!(below(b"/a/b", b"/x/../a/b/c"), Some(&b"c"[..]));
        assert_eq!(below(b"/a/b", b"/a/bc"), None);
        assert_eq!(below(b"/a/b", b"/a"), None);
        assert_eq!(below(b"/a/b", b"a/b"), None);
    }

    #[test]
    fn a_prefix_is_made_normal_and_must_not_be_the_root() {
        assert_eq!(normal(b"/a//b/./c/..").as_deref(), Some(&b"/a/b"[..]));
        assert_eq!(normal(b"/a/.."), None);
        assert_eq!(normal(b"a"), None);
    }
}
