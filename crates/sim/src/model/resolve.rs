//! Path resolution as Linux does it: component by component, symlinks followed up to forty times,
//! and a last component that each call treats in its own way.

use super::{Body, InodeNumber, Model};
use crate::operations::operation::PathText;
use rustix::io::Errno;

const NAME_BYTES_MAX: usize = 255;
const PATH_BYTES_MAX: usize = 4096;
const SYMLINKS_MAX: u32 = 40;

/// The last component of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Last {
    /// A name, not looked up yet.
    Name(Vec<u8>),
    /// `.`
    Dot,
    /// `..`
    DotDot,
    /// Nothing: the path is `/`.
    Root,
}

/// A path resolved up to its last component.
#[derive(Clone, Debug)]
pub(super) struct Parent {
    pub(super) directory: InodeNumber,
    pub(super) last: Last,
    pub(super) trailing_slash: bool,
}

impl Model {
    /// Resolves all of `path` but its last component.
    pub(super) fn parent(&self, path: &PathText) -> Result<Parent, Errno> {
        check_length(path.as_bytes())?;
        self.parent_from(self.root, path.as_bytes(), &mut 0)
    }

    /// Resolves all of `path`; a last symlink is followed if `follow` says so or a slash comes
    /// behind it.
    pub(super) fn lookup(&self, path: &PathText, follow: bool) -> Result<InodeNumber, Errno> {
        check_length(path.as_bytes())?;
        self.lookup_from(self.root, path.as_bytes(), follow, &mut 0)
    }

    /// The inode that the last component of `parent` names: `None` if there is none yet. No symlink is followed.
    pub(super) fn child(&self, parent: &Parent) -> Result<Option<InodeNumber>, Errno> {
        let here = parent.directory;
        match &parent.last {
            Last::Dot | Last::Root => Ok(Some(here)),
            Last::DotDot => Ok(Some(self.directory(here)?.parent)),
            Last::Name(name) if name.len() > NAME_BYTES_MAX => Err(Errno::NAMETOOLONG),
            Last::Name(name) => Ok(self.directory(here)?.entries.get(name).copied()),
        }
    }

    /// Like `parent`, as O_CREAT does it: no name may end in a slash, and a last component that is
    /// a symlink is followed if `follow` says so.
    pub(super) fn parent_to_create(&self, path: &PathText, follow: bool) -> Result<Parent, Errno> {
        check_length(path.as_bytes())?;
        let mut links = 0;
        let mut parent = self.parent_from(self.root, path.as_bytes(), &mut links)?;
        loop {
            if parent.trailing_slash && matches!(parent.last, Last::Name(_)) {
                return Err(Errno::ISDIR);
            }
            let target = self.child(&parent)?.filter(|_| follow).and_then(|child| self.target(child));
            let Some(target) = target else {
                return Ok(parent);
            };
            count_link(&mut links)?;
            parent = self.parent_from(parent.directory, &target, &mut links)?;
        }
    }

    fn parent_from(&self, start: InodeNumber, path: &[u8], links: &mut u32) -> Result<Parent, Errno> {
        let mut directory = if path.starts_with(b"/") { self.root } else { start };
        let mut components = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).peekable();
        let trailing_slash = path.ends_with(b"/");
        while let Some(name) = components.next() {
            let last = match name {
                b"." => Last::Dot,
                b".." => Last::DotDot,
                name => Last::Name(name.to_vec()),
            };
            let here = Parent { directory, last, trailing_slash };
            if components.peek().is_none() {
                return Ok(here);
            }
            let child = self.child(&here)?.ok_or(Errno::NOENT)?;
            directory = self.followed(directory, child, links)?;
            self.directory(directory)?;
        }
        Ok(Parent { directory, last: Last::Root, trailing_slash })
    }

    fn lookup_from(
        &self,
        start: InodeNumber,
        path: &[u8],
        follow: bool,
        links: &mut u32,
    ) -> Result<InodeNumber, Errno> {
        let parent = self.parent_from(start, path, links)?;
        let mut found = self.child(&parent)?.ok_or(Errno::NOENT)?;
        if follow || parent.trailing_slash {
            found = self.followed(parent.directory, found, links)?;
        }
        if parent.trailing_slash {
            self.directory(found)?;
        }
        Ok(found)
    }

    /// `inode` itself, or what it leads to if it is a symlink lying in `directory`.
    fn followed(
        &self,
        directory: InodeNumber,
        inode: InodeNumber,
        links: &mut u32,
    ) -> Result<InodeNumber, Errno> {
        match self.target(inode) {
            None => Ok(inode),
            Some(target) => {
                count_link(links)?;
                self.lookup_from(directory, &target, true, links)
            }
        }
    }

    fn target(&self, inode: InodeNumber) -> Option<Vec<u8>> {
        match &self.inodes[&inode].body {
            Body::Symlink(target) => Some(target.as_bytes().to_vec()),
            _ => None,
        }
    }
}

/// The kernel's checks of a path before it looks at the file system.
pub(super) fn check_length(path: &[u8]) -> Result<(), Errno> {
    match path.len() {
        0 => Err(Errno::NOENT),
        length if length >= PATH_BYTES_MAX => Err(Errno::NAMETOOLONG),
        _ => Ok(()),
    }
}

fn count_link(links: &mut u32) -> Result<(), Errno> {
    *links += 1;
    if *links > SYMLINKS_MAX { Err(Errno::LOOP) } else { Ok(()) }
}
