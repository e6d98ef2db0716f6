//! The walk from a path to an inode, one name after the other.
//!
//! Each step looks a name up ([`crate::paths::lookup`]) in a directory that the caller may search. Symbolic
//! links are followed here.

use crate::cache::inode::{Content, Inode, State};
use crate::client::client::Client;
use crate::client::halt::Halt;
use crate::errno::Error;
use crate::paths::credentials::{Credentials, EXECUTE};
use crate::paths::path::{Base, Follow, LastName, Name, Resolve, Resolved, Target, split};
use crate::sync::Arc;
use cuesta_format::{FileKind, InodeNumber, NAME_BYTES_MAX};

/// Symbolic links that one path may follow.
const LINKS_FOLLOWED_MAX: u32 = 40;

impl Client {
    /// The inode where a path starts.
    pub(crate) fn start(&self, base: Base<'_>) -> Result<Arc<Inode>, Error> {
        self.note_path();
        match base {
            Base::Root => Ok(self.cache.get_or_insert(InodeNumber::ROOT)),
            Base::Directory(file) if file.kind() == FileKind::Directory => Ok(Arc::clone(file.inode_ref())),
            Base::Directory(_) => Err(Error::NotDirectory),
            Base::Inode(number) => Ok(self.cache.get_or_insert(number)),
        }
    }

    /// The result of a walk along the empty path from an inode's number.
    fn found_by_number(&self, number: InodeNumber) -> Result<Resolved, Halt> {
        let inode = self.cache.get_or_insert(number);
        let kind = self.reading(&inode)?.kind();
        Ok(Resolved {
            parent: Arc::clone(&inode),
            last: LastName::Dot,
            inode: Some((inode, kind)),
            slash: false,
        })
    }

    /// Follows `path` to its last name. Call within an attempt. The caller has checked the length of the
    /// path; following links may make it longer.
    pub(crate) fn walk(
        &self,
        credentials: &Credentials,
        base: Base<'_>,
        path: &[u8],
        follow: Follow,
    ) -> Result<Resolved, Halt> {
        // A call that only looks is counted, too (`operations`).
        self.session.count(0, 0);
        self.walk_within(credentials, base, path, follow, Resolve::default())
    }

    /// Like [`Client::walk`], within the restrictions of `resolve`.
    pub(crate) fn walk_within(
        &self,
        credentials: &Credentials,
        base: Base<'_>,
        path: &[u8],
        follow: Follow,
        resolve: Resolve,
    ) -> Result<Resolved, Halt> {
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
                        return Ok(Resolved { parent: directory, last: LastName::Dot, inode, slash: true });
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
                        return Ok(Resolved {
                            parent: directory,
                            last: LastName::DotDot,
                            inode,
                            slash: true,
                        });
                    }
                    directory = above;
                }
                _ if is_last && slash && matches!(follow, Follow::ToMake { .. }) => {
                    self.check_search(credentials, &directory)?;
                    return Err(Error::IsDirectory.into());
                }
                name if is_last && follow == Follow::Never && name.len() > NAME_BYTES_MAX => {
                    self.check_search(credentials, &directory)?;
                    return Ok(Resolved { parent: directory, last: LastName::TooLong, inode: None, slash });
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
                        let last = LastName::Name(Name::new(name)?);
                        return Ok(Resolved { parent: directory, last, inode, slash });
                    }
                    Some((inode, FileKind::Directory)) => directory = inode,
                    Some(_) => return Err(Error::NotDirectory.into()),
                    None => return Err(Error::NotFound.into()),
                },
            }
            rest = behind;
        }
    }

    /// The directory above. Above the store's root, the path leaves the store.
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
        Ok(self.directory_above(&state)?)
    }

    /// The parent of the directory whose state is locked. As long as a directory has a name, its parent
    /// exists. The parent of a removed directory may be gone. While SharedFS may not know that yet, it is not
    /// asked.
    pub(crate) fn directory_above(&self, state: &State) -> Result<Arc<Inode>, Error> {
        match state.record.parent {
            InodeNumber::NONE => Err(Error::NotFound),
            parent if state.is_unlinked() && !self.cache.removals_are_known(self.session.retired()) => {
                self.cache.get(parent).ok_or(Error::NotFound)
            }
            parent => Ok(self.cache.get_or_insert(parent)),
        }
    }

    /// Like [`Client::walk`], for the second path of a call.
    pub(crate) fn walk_second(
        &self,
        credentials: &Credentials,
        base: Base<'_>,
        path: &[u8],
    ) -> Result<Resolved, Halt> {
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

    /// Checks that the caller may look names up in the inode where a path led.
    fn check_search(&self, credentials: &Credentials, directory: &Inode) -> Result<(), Halt> {
        let state = self.reading(directory)?;
        if state.directory().is_none() {
            return Err(if state.released { Error::NotFound } else { Error::NotDirectory }.into());
        }
        state.check(credentials, EXECUTE)
    }

    /// The inode that a path names. Call within an attempt.
    pub(crate) fn find(
        &self,
        credentials: &Credentials,
        base: Base<'_>,
        path: &[u8],
        follow: bool,
    ) -> Result<(Arc<Inode>, FileKind), Halt> {
        let follow = if follow { Follow::Always } else { Follow::BeforeSlash };
        Ok(self.walk(credentials, base, path, follow)?.existing()?)
    }

    /// The inode that a call is about. Call within an attempt.
    pub(crate) fn target(&self, credentials: &Credentials, target: Target<'_>) -> Result<Arc<Inode>, Halt> {
        match target {
            Target::File(file) => {
                file.check_not_path()?;
                Ok(Arc::clone(file.inode_ref()))
            }
            Target::Path { base, path, follow } => Ok(self.find(credentials, base, path, follow)?.0),
        }
    }
}
