//! The target of a call: a path and where it starts, or an open file.

use cuesta_format::InodeNumber;
use cuesta_libfs::{Credentials, Error};
use cuesta_served::{PathBase, Subject};

use crate::store::OpenFile;

/// Where a relative path starts.
#[derive(Clone, Copy, Debug)]
pub enum Base<'a> {
    /// The store's root.
    Root,
    /// An open directory.
    Directory(&'a OpenFile),
    /// The directory of that number, which the process may name so, and which is not open here.
    Number(InodeNumber),
}

/// The target of a call.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// The file that a path names.
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
pub type LinkSource<'a> = Target<'a>;

impl<'a> Base<'a> {
    #[inline]
    pub(super) fn own(self) -> Result<cuesta_libfs::Base<'a>, Error> {
        Ok(match self {
            Base::Root => cuesta_libfs::Base::Root,
            Base::Directory(file) => cuesta_libfs::Base::Directory(file.own()?),
            Base::Number(inode) => cuesta_libfs::Base::Inode(inode),
        })
    }

    pub(super) fn place(self) -> Result<PathBase, Error> {
        Ok(match self {
            Base::Root => PathBase::Root,
            Base::Directory(OpenFile::Own(file)) => PathBase::Inode(file.inode()),
            Base::Directory(file) => PathBase::Directory(file.with_shared_fs()?.number()),
            Base::Number(inode) => PathBase::Inode(inode),
        })
    }
}

impl<'a> Target<'a> {
    pub(super) fn own(self) -> Result<cuesta_libfs::Target<'a>, Error> {
        Ok(match self {
            Target::Path { base, path, follow } => {
                cuesta_libfs::Target::Path { base: base.own()?, path, follow }
            }
            Target::File(file) => cuesta_libfs::Target::File(file.own()?),
        })
    }

    pub(super) fn own_source(self) -> Result<cuesta_libfs::LinkSource<'a>, Error> {
        Ok(match self {
            Target::Path { base, path, follow } => {
                cuesta_libfs::LinkSource::Path { base: base.own()?, path, follow }
            }
            Target::File(file) => cuesta_libfs::LinkSource::File(file.own()?),
        })
    }

    pub(super) fn subject(self) -> Result<Subject<'a>, Error> {
        Ok(match self {
            Target::Path { base, path, follow } => Subject::Path { place: base.place()?, path, follow },
            Target::File(file) => Subject::File(file.with_shared_fs()?.number()),
        })
    }
}

/// The file that a path below `base` names.
pub(super) fn at<'a>(base: Base<'a>, path: &'a [u8], follow: bool) -> Result<Subject<'a>, Error> {
    Target::Path { base, path, follow }.subject()
}

/// SharedFS does the calls of other users' processes, and does not know their Landlock rules: a process that has forbidden itself
/// anything opens, makes and removes nothing there any more.
pub(super) fn unconfined(credentials: &Credentials) -> Result<(), Error> {
    if credentials.confinement.is_some() { Err(Error::Denied) } else { Ok(()) }
}
