//! The subject of a request, held for the request's length: an open file stays open, a session stays the same.

use crate::answering::files::File;
use cuesta_format::InodeNumber;
use cuesta_libfs::{Base, Client, Error, Target};
use std::sync::Arc;

/// A place, held for the length of a request.
pub(crate) enum Held {
    Root(Arc<Client>),
    Directory(Arc<File>),
    Inode(Arc<Client>, InodeNumber),
}

impl Held {
    pub(crate) fn client(&self) -> &Arc<Client> {
        match self {
            Held::Root(client) | Held::Inode(client, _) => client,
            Held::Directory(file) => &file.client,
        }
    }

    pub(crate) fn base(&self) -> Result<Base<'_>, Error> {
        match self {
            Held::Root(_) => Ok(Base::Root),
            Held::Directory(file) => Ok(Base::Directory(file.open()?)),
            Held::Inode(_, inode) => Ok(Base::Inode(*inode)),
        }
    }
}

/// The subject of a request, held for the request's length.
pub(crate) enum HeldSubject<'a> {
    Path(Held, &'a [u8], bool),
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
