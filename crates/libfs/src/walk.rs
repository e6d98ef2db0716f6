//! From a path to an inode, one name after the other.

use crate::client::{Client, Halt};
use crate::credentials::{Credentials, EXECUTE};
use crate::directory::{Known, Named};
use crate::errno::Error;
use crate::inode::{Content, Inode, State};
use crate::open_file::OpenFile;
use crate::session::unexpected;
use crate::sync::Arc;
use cuesta_format::wire::{Request, Response};
use cuesta_format::{FileKind, InodeNumber, NAME_BYTES_MAX};
use std::ops::Deref;

/// Symbolic links followed on one path.
const LINKS_FOLLOWED_MAX: u32 = 40;

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
    fn new(name: &[u8]) -> Result<Name, Error> {
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
pub(crate) enum Last {
    Name(Name),
    /// No directory can hold it. An error of its own only once the rest of the call was looked at.
    TooLong,
    Dot,
    DotDot,
}

/// What a path leads to.
pub(crate) struct Found {
    /// The directory the last name is looked up in.
    pub(crate) parent: Arc<Inode>,
    pub(crate) last: Last,
    /// What it names, if that exists.
    pub(crate) inode: Option<(Arc<Inode>, FileKind)>,
    /// A slash stands behind the last name.
    pub(crate) slash: bool,
}

impl Found {
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

impl Client {
    /// Where a path starts.
    pub(crate) fn start(&self, base: Base<'_>) -> Result<Arc<Inode>, Error> {
        self.note_path();
        match base {
            Base::Root => Ok(self.cache.get_or_insert(InodeNumber::ROOT)),
            Base::Directory(file) if file.kind() == FileKind::Directory => Ok(Arc::clone(file.inode_ref())),
            Base::Directory(_) => Err(Error::NotDirectory),
            Base::Inode(number) => Ok(self.cache.get_or_insert(number)),
        }
    }

    /// What an inode's number leads to.
    fn found_by_number(&self, number: InodeNumber) -> Result<Found, Halt> {
        let inode = self.cache.get_or_insert(number);
        let kind = self.reading(&inode)?.kind();
        Ok(Found { parent: Arc::clone(&inode), last: Last::Dot, inode: Some((inode, kind)), slash: false })
    }

    /// Follows `path` to its last name. Within an attempt. How long a path may be its giver knows: what links make of it
    /// may be longer.
    pub(crate) fn walk(
        &self,
        credentials: &Credentials,
        base: Base<'_>,
        path: &[u8],
        follow: Follow,
    ) -> Result<Found, Halt> {
        // Who only looks shows here that it does something (`operations`).
        self.session.count(0, 0);
        self.walk_within(credentials, base, path, follow, Resolve::default())
    }

    /// [`Client::walk`] through what `resolve` leaves.
    pub(crate) fn walk_within(
        &self,
        credentials: &Credentials,
        base: Base<'_>,
        path: &[u8],
        follow: Follow,
        resolve: Resolve,
    ) -> Result<Found, Halt> {
        if path.is_empty() {
            return match base {
                Base::Inode(number) => self.found_by_number(number),
                Base::Root | Base::Directory(_) => Err(Error::NotFound.into()),
            };
        }
        let mut directory = self.start(base)?;
        let start = Arc::clone(&directory);
        let mut expanded: Vec<u8>;
        let mut rest = path;
        let mut followed = 0;
        loop {
            let (name, behind) = split(rest);
            let is_last = behind.iter().all(|&byte| byte == b'/');
            let slash = !behind.is_empty();
            match name {
                b"" | b"." => {
                    if is_last {
                        if !name.is_empty() {
                            self.reading(&directory)?.check(credentials, EXECUTE)?;
                        }
                        let inode = Some((Arc::clone(&directory), FileKind::Directory));
                        return Ok(Found { parent: directory, last: Last::Dot, inode, slash: true });
                    }
                }
                b".." => {
                    let is_start = directory.number == start.number;
                    let above = match resolve {
                        Resolve { beneath: true, .. } if is_start => return Err(Error::CrossDevice.into()),
                        Resolve { in_root: true, .. } if is_start => Arc::clone(&directory),
                        _ => self.parent_of(credentials, &directory, behind)?,
                    };
                    if is_last {
                        let inode = Some((above, FileKind::Directory));
                        return Ok(Found { parent: directory, last: Last::DotDot, inode, slash: true });
                    }
                    directory = above;
                }
                _ if is_last && slash && matches!(follow, Follow::ToMake { .. }) => {
                    self.check_search(credentials, &directory)?;
                    return Err(Error::IsDirectory.into());
                }
                name if is_last && follow == Follow::Never && name.len() > NAME_BYTES_MAX => {
                    self.check_search(credentials, &directory)?;
                    return Ok(Found { parent: directory, last: Last::TooLong, inode: None, slash });
                }
                name => match self.look_up(credentials, &directory, name)? {
                    Some((inode, FileKind::Symlink)) if !is_last || follow.follows(slash) => {
                        followed += 1;
                        if followed > LINKS_FOLLOWED_MAX || resolve.no_symlinks {
                            return Err(Error::SymlinkLoop.into());
                        }
                        let mut path = self.target_of(&inode)?;
                        path.extend_from_slice(behind);
                        match path.first() {
                            Some(b'/') if resolve.in_root => directory = Arc::clone(&start),
                            Some(b'/') if resolve.beneath => return Err(Error::CrossDevice.into()),
                            Some(b'/') => return Err(Error::Leaves { path, second: false }.into()),
                            _ => {}
                        }
                        expanded = path;
                        rest = expanded.as_slice();
                        continue;
                    }
                    inode if is_last => {
                        let last = Last::Name(Name::new(name)?);
                        return Ok(Found { parent: directory, last, inode, slash });
                    }
                    Some((inode, FileKind::Directory)) => directory = inode,
                    Some(_) => return Err(Error::NotDirectory.into()),
                    None => return Err(Error::NotFound.into()),
                },
            }
            rest = behind;
        }
    }

    /// The directory above; above the store's root lies what is not ours.
    fn parent_of(
        &self,
        credentials: &Credentials,
        directory: &Arc<Inode>,
        behind: &[u8],
    ) -> Result<Arc<Inode>, Halt> {
        let state = self.reading(directory)?;
        state.check(credentials, EXECUTE)?;
        if directory.number == InodeNumber::ROOT {
            let path = [b"..", behind].concat();
            return Err(Error::Leaves { path, second: false }.into());
        }
        Ok(self.above(&state)?)
    }

    /// The directory above the one whose state is held. While a directory has a name the one above exists; above a
    /// removed one there may be nothing, and SharedFS is not asked while it may not know that yet.
    pub(crate) fn above(&self, state: &State) -> Result<Arc<Inode>, Error> {
        match state.record.parent {
            InodeNumber::NONE => Err(Error::NotFound),
            parent if state.is_unlinked() && !self.cache.gone_are_known(self.session.retired()) => {
                self.cache.get(parent).ok_or(Error::NotFound)
            }
            parent => Ok(self.cache.get_or_insert(parent)),
        }
    }

    /// [`Client::walk`] along the second path of a call.
    pub(crate) fn walk_second(
        &self,
        credentials: &Credentials,
        base: Base<'_>,
        path: &[u8],
    ) -> Result<Found, Halt> {
        self.walk(credentials, base, path, Follow::Never).map_err(|halt| match halt {
            Halt::Failed(Error::Leaves { path, .. }) => Error::Leaves { path, second: true }.into(),
            other => other,
        })
    }

    fn target_of(&self, inode: &Inode) -> Result<Vec<u8>, Halt> {
        let state = self.reading(inode)?;
        match &state.content {
            Content::Symlink(target) if !target.is_empty() => Ok(target.to_vec()),
            Content::Symlink(_) => Err(Error::NotFound.into()),
            _ => Err(Halt::Again),
        }
    }

    /// Whether names may be looked up in what a path led to.
    fn check_search(&self, credentials: &Credentials, directory: &Inode) -> Result<(), Halt> {
        let state = self.reading(directory)?;
        if state.directory().is_none() {
            return Err(if state.released { Error::NotFound } else { Error::NotDirectory }.into());
        }
        state.check(credentials, EXECUTE)
    }

    /// What a name in a directory stands for. Within an attempt.
    #[inline]
    pub(crate) fn look_up(
        &self,
        credentials: &Credentials,
        directory: &Inode,
        name: &[u8],
    ) -> Result<Option<(Arc<Inode>, FileKind)>, Halt> {
        let state = self.reading(directory)?;
        let Some(content) = state.directory() else {
            return Err(if state.released { Error::NotFound } else { Error::NotDirectory }.into());
        };
        state.check(credentials, EXECUTE)?;
        if name.len() > NAME_BYTES_MAX {
            return Err(Error::NameTooLong.into());
        }
        match content.find(name, self.session.retired()) {
            Known::Present(Named { inode, kind }) => {
                let below = if kind == FileKind::Directory { directory.number } else { InodeNumber::NONE };
                Ok(Some((self.cache.get_or_insert_below(inode, below), kind)))
            }
            Known::Absent => Ok(None),
            Known::Unknown => {
                drop(state);
                self.ask_for(directory, name)
            }
        }
    }

    /// Asks SharedFS for a name. The directory's lock is held over the question, so that the answer cannot be
    /// overtaken by a change of our own; the inode is entered in the cache under it, too, so that whoever takes
    /// the name away meanwhile meets the same inode.
    fn ask_for(&self, directory: &Inode, name: &[u8]) -> Result<Option<(Arc<Inode>, FileKind)>, Halt> {
        let mut state = directory.state.write();
        let retired = self.session.retired();
        let size = state.record.size;
        let Some(content) = state.directory_mut() else {
            return Err(Halt::Again);
        };
        if content.find(name, retired) != Known::Unknown {
            return Err(Halt::Again);
        }
        if content.fetches_all(size) {
            drop(state);
            self.complete(directory)?;
            return Err(Halt::Again);
        }
        let request = Request::Lookup { parent: directory.number, name: name.to_vec() };
        let grant = match self.session.ask(&request) {
            Ok(Response::Granted { grant, .. }) => *grant,
            Ok(other) => return Err(unexpected(&other).into()),
            Err(Error::NotFound) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let named = Named { inode: grant.record.inode, kind: grant.record.kind() };
        content.put(name, named);
        let inode = self.cache.get_or_insert(named.inode);
        drop(state);
        self.take_grant(&inode, grant);
        Ok(Some((inode, named.kind)))
    }
}

impl Follow {
    fn follows(self, slash: bool) -> bool {
        match self {
            Follow::Always => true,
            Follow::BeforeSlash => slash,
            Follow::Never => false,
            Follow::ToMake { links } => links,
        }
    }
}

/// The first name of a path, and what stands behind it from the slash on.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
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
