//! What a path is made of, how a call names a file, and what a walk answers. These are types alone; [`crate::paths::walk`] walks.

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
    /// An inode that the door knows by its number, of which it has seen that it exists: what the empty path names is it
    /// itself, whatever its kind.
    Inode(InodeNumber),
}

/// Whose attributes change.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// What a path names.
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

/// What gets one more name.
#[derive(Clone, Copy, Debug)]
pub enum LinkSource<'a> {
    /// What a path names.
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

/// Whether a symbolic link that is the last name is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follow {
    Always,
    /// Only if a slash stands behind it.
    BeforeSlash,
    Never,
    /// The name is to be made if it does not exist, and what is made is no directory: a slash behind it is refused
    /// before it is looked up, here and at the end of every link that is followed.
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

/// What a path may lead through, as `openat2` restricts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Resolve {
    /// No symbolic link is followed.
    pub no_symlinks: bool,
    /// Nothing above the directory the path starts in.
    pub beneath: bool,
    /// The directory the path starts in is the root of everything.
    pub in_root: bool,
}

/// A name a directory can hold.
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
    /// No directory can hold it. An error of its own only once the rest of the call was looked at.
    TooLong,
    Dot,
    DotDot,
}

/// What a path leads to.
pub(crate) struct Resolved {
    /// The directory the last name is looked up in.
    pub(crate) parent: Arc<Inode>,
    pub(crate) last: LastName,
    /// What it names, if that exists.
    pub(crate) inode: Option<(Arc<Inode>, FileKind)>,
    /// A slash stands behind the last name.
    pub(crate) slash: bool,
}

impl Resolved {
    /// What exists there; a slash behind it asks for a directory.
    pub(crate) fn existing(self) -> Result<(Arc<Inode>, FileKind), Error> {
        let slash = self.slash;
        let (inode, kind) = self.inode.ok_or(Error::NotFound)?;
        if slash && kind != FileKind::Directory {
            return Err(Error::NotDirectory);
        }
        Ok((inode, kind))
    }
}

/// The first name of a path, and what stands behind it from the slash on.
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
