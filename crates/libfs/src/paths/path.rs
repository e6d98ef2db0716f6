//! The parts of a path, the ways in which a call names a file, and the result of a walk. These are types
//! alone; [`crate::paths::walk`] walks.

use crate::cache::inode::Inode;
use crate::errno::Error;
use crate::open_files::open_file::OpenFile;
use crate::sync::Arc;
use cuesta_format::{FileKind, InodeNumber, NAME_BYTES_MAX};
use std::ops::Deref;

/// Where a relative path starts.
#[derive(Clone, Copy, Debug)]
pub enum Base<'a> {
    /// The store's root.
    Root,
    /// An open directory.
    Directory(&'a OpenFile),
    /// An inode that the door knows by its number and has seen to exist. The empty path names the inode
    /// itself, whatever its kind.
    Inode(InodeNumber),
}

/// The file that a call is about.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// The file at a path.
    Path {
        /// Where it starts.
        base: Base<'a>,
        /// The path.
        path: &'a [u8],
        /// Whether a symbolic link at its end is followed.
        follow: bool,
    },
    /// An open file.
    File(&'a OpenFile),
}

/// The file that gets one more name.
#[derive(Clone, Copy, Debug)]
pub enum LinkSource<'a> {
    /// The file at a path.
    Path {
        /// Where it starts.
        base: Base<'a>,
        /// The path.
        path: &'a [u8],
        /// Whether a symbolic link at its end is followed.
        follow: bool,
    },
    /// An open file.
    File(&'a OpenFile),
}

/// Whether a walk follows a symbolic link that is the last name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follow {
    Always,
    /// Only if a slash follows it.
    BeforeSlash,
    Never,
    /// The call makes the name if it does not exist, and not as a directory. So a slash behind the name is
    /// refused before the lookup, here and at the end of every followed link.
    ToMake {
        links: bool,
    },
}

impl Follow {
    pub(super) fn follows(self, slash: bool) -> bool {
        match self {
            Follow::Always => true,
            Follow::BeforeSlash => slash,
            Follow::Never => false,
            Follow::ToMake { links } => links,
        }
    }
}

/// The restrictions that `openat2` puts on a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Resolve {
    /// The walk follows no symbolic link.
    pub no_symlinks: bool,
    /// The walk does not leave the directory in which the path starts.
    pub beneath: bool,
    /// The directory in which the path starts is the root.
    pub in_root: bool,
}

/// A name that a directory can hold.
#[derive(Clone)]
pub(crate) struct Name {
    length: u8,
    bytes: [u8; NAME_BYTES_MAX],
}

impl Name {
    pub(super) fn new(name: &[u8]) -> Result<Name, Error> {
        let mut bytes = [0; NAME_BYTES_MAX];
        let length = u8::try_from(name.len()).map_err(|_| Error::NameTooLong)?;
        bytes[..name.len()].copy_from_slice(name);
        Ok(Name { length, bytes })
    }
}

impl Deref for Name {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// The last name of a path.
#[allow(clippy::large_enum_variant, reason = "it lives on the stack of one call")]
pub(crate) enum LastName {
    Name(Name),
    /// The name is too long for any directory. This becomes an error only after the other checks of the call.
    TooLong,
    Dot,
    DotDot,
}

/// The result of a walk.
pub(crate) struct Resolved {
    /// The directory in which the last name is looked up.
    pub(crate) parent: Arc<Inode>,
    pub(crate) last: LastName,
    /// The inode that it names, if the name exists.
    pub(crate) inode: Option<(Arc<Inode>, FileKind)>,
    /// A slash follows the last name.
    pub(crate) slash: bool,
}

impl Resolved {
    /// The inode that exists there. A slash behind the name asks for a directory.
    pub(crate) fn existing(self) -> Result<(Arc<Inode>, FileKind), Error> {
        let slash = self.slash;
        let (inode, kind) = self.inode.ok_or(Error::NotFound)?;
        if slash && kind != FileKind::Directory {
            return Err(Error::NotDirectory);
        }
        Ok((inode, kind))
    }
}

/// The first name of a path, and the rest from the slash on.
pub(super) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    let start = path.iter().position(|&byte| byte != b'/').unwrap_or(path.len());
    let path = &path[start..];
    let end = path.iter().position(|&byte| byte == b'/').unwrap_or(path.len());
    path.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_split_at_their_first_name() {
        assert_eq!(split(b"a/b"), (b"a".as_slice(), b"/b".as_slice()));
        assert_eq!(split(b"//a//"), (b"a".as_slice(), b"//".as_slice()));
        assert_eq!(split(b"///"), (b"".as_slice(), b"".as_slice()));
    }

    #[test]
    fn names_have_a_limit() {
        assert!(Name::new(&[b'x'; 255]).is_ok());
        assert_eq!(Name::new(&[b'x'; 256]).err(), Some(Error::NameTooLong));
    }
}
