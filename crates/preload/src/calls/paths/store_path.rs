//! Where in the store a path leads.
//!
//! | path | ours if |
//! |---|---|
//! | absolute | its first components, taken literally, are the prefix |
//! | relative to a directory of ours, or while the working directory is ours | always |
//! | relative to anything else | the directory's name with the path is ours |
//! | through a descriptor of ours (`/dev/fd/N/…`) | always; see `descriptor_files` for the descriptor itself |

use crate::call::{Call, Failure};
use crate::calls::paths::descriptor_paths::{self, Passed};
use crate::calls::paths::prefix::{below, normal};
use crate::descriptors::{self, Pin, working_directory};
use crate::memory::user_memory::UserPath;
use crate::process::{self, first_calls};
use crate::store::{Base, Client};
use cuesta_format::InodeNumber;

/// Times a path may leave the store and come back.
pub const CROSSINGS: usize = 40;

/// A place as LibFS takes it.
pub type Located<'a> = (Base<'a>, &'a [u8]);

/// A place in the store.
#[derive(Debug)]
pub struct StorePath {
    /// The directory the path starts in; `None` for the root.
    pub base: Option<Pin>,
    /// The path from there, not empty.
    pub path: Vec<u8>,
}

impl StorePath {
    /// The place of a path below the prefix.
    #[inline]
    pub fn below_root(path: &[u8]) -> Self {
        let path = if path.is_empty() { b"." } else { path };
        Self { base: None, path: path.to_vec() }
    }

    /// As LibFS takes it, for the length of a call.
    #[inline]
    pub fn located(&self) -> Result<Located<'_>, Failure> {
        let base = match &self.base {
            Some(base) => Base::Directory(base.file()?),
            None => Base::Root,
        };
        Ok((base, &self.path))
    }

    /// As `client` takes it. One that does the process's first calls has nothing open.
    #[inline]
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
#[inline]
pub fn locate(call: &Call, directory: Option<usize>, path: usize) -> Result<StorePath, Failure> {
    let path = UserPath::read(call.word(path))?;
    let directory = directory.map_or(libc::AT_FDCWD, |index| call.int(index));
    locate_bytes(directory, path.as_bytes())
}

/// As [`locate`], for a path already read.
#[inline]
pub fn locate_bytes(directory: i32, path: &[u8]) -> Result<StorePath, Failure> {
    let prefix = &process::configuration()?.prefix;
    if path.first() == Some(&b'/') {
        return match below(prefix, path) {
            Some(rest) => Ok(StorePath::below_root(rest)),
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
        return Ok(StorePath { base: Some(base), path: path.to_vec() });
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
    below(prefix, &absolute).map(StorePath::below_root).ok_or(Failure::NotOurs)
}

/// A place below a directory that `path` names by its descriptor. The descriptor itself is no place.
pub(crate) fn below_descriptor(path: &[u8]) -> Result<StorePath, Failure> {
    match descriptor_paths::first_passed(path) {
        Some(Passed::Ours(pin, rest)) if !rest.is_empty() => {
            Ok(StorePath { base: Some(pin), path: rest.to_vec() })
        }
        Some(Passed::Hidden) => Err(Failure::Errno(libc::ENOENT)),
        _ => Err(Failure::NotOurs),
    }
}

/// The directory descriptor and path arguments of a call.
pub type Named = (Option<usize>, usize);

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
pub fn led_back(prefix: &[u8], inside: &[u8]) -> Result<StorePath, Failure> {
    below(prefix, inside).map(StorePath::below_root).ok_or(Failure::Errno(libc::ENOENT))
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
