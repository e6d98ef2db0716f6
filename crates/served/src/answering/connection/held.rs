//! The subject of a request, held for the request's length: an open file stays open, a session stays the same.

use crate::answering::files::File;
use cuesta_format::InodeNumber;
use cuesta_libfs::{Base, Client, Error, Target};
use std::sync::Arc;

/// A place, held for the length of a request.
pub(crate) enum HeldPlace {
    Root(Arc<Client>),
    Directory(Arc<File>),
    Inode(Arc<Client>, InodeNumber),
}

impl HeldPlace {
    pub(crate) fn client(&self) -> &Arc<Client> {
        match self {
            HeldPlace::Root(client) | HeldPlace::Inode(client, _) => client,
            HeldPlace::Directory(file) => &file.client,
        }
    }

    pub(crate) fn base(&self) -> Result<Base<'_>, Error> {
        match self {
            HeldPlace::Root(_) => Ok(Base::Root),
            HeldPlace::Directory(file) => Ok(Base::Directory(file.open()?)),
            HeldPlace::Inode(_, inode) => Ok(Base::Inode(*inode)),
        }
    }
}

/// The subject of a request, held for the request's length.
pub(crate) enum HeldSubject<'a> {
    Path(HeldPlace, &'a [u8], bool),
    File(Arc<File>),
}

impl HeldSubject<'_> {
    pub(crate) fn client(&self) -> &Arc<Client> {
        match self {
            HeldSubject::Path(place, ..) => place.client(),
            HeldSubject::File(file) => &file.client,
        }
    }

    pub(crate) fn target(&self) -> Result<Target<'_>, Error> {
        Ok(match self {
            HeldSubject::Path(place, path, follow) => {
                Target::Path { base: place.base()?, path, follow: *follow }
            }
            HeldSubject::File(file) => Target::File(file.open()?),
        })
    }
}

/// Both paths must lead through one session.
pub(super) fn is_same(one: &Arc<Client>, other: &Arc<Client>) -> Result<(), Error> {
    if Arc::ptr_eq(one, other) { Ok(()) } else { Err(Error::Disconnected) }
}
