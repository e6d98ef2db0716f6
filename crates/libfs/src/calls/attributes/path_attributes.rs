//! The attributes of what a path names, from a parcel if they lie there.
//!
//! A program that walks a tree looks at most of it once and opens little of it. If an inode came in a parcel
//! and no operation has changed it, the parcel answers. No inode is made of it, and the parcel keeps it for a
//! later operation.

use crate::cache::directory_content::{NameState, NameTarget};
use crate::cache::inode::Inode;
use crate::client::client::Client;
use crate::client::halt::Halt;
use crate::errno::Error;
use crate::paths::credentials::{Credentials, EXECUTE};
use crate::paths::path::{Base, Follow};
use crate::sync::Arc;
use cuesta_format::parcel::Item;
use cuesta_format::{FileKind, InodeNumber, InodeRecord, NAME_BYTES_MAX};

/// The end of a path.
#[allow(clippy::large_enum_variant, reason = "it lives on the stack of one call")]
enum PathEnd {
    Record(InodeRecord),
    Inode(Arc<Inode>),
    /// The path needs a full walk.
    More,
}

impl Client {
    /// The attributes of what a path names. Call within an attempt.
    pub(crate) fn record_at_path(
        &self,
        credentials: &Credentials,
        base: Base<'_>,
        path: &[u8],
        follow: bool,
    ) -> Result<InodeRecord, Halt> {
        match self.path_end(credentials, base, path, follow)? {
            PathEnd::Record(record) => Ok(record),
            PathEnd::Inode(inode) => self.attributes_of(&inode),
            PathEnd::More => self.attributes_of(&self.find(credentials, base, path, follow)?.0),
        }
    }

    fn path_end(
        &self,
        credentials: &Credentials,
        base: Base<'_>,
        path: &[u8],
        follow: bool,
    ) -> Result<PathEnd, Halt> {
        if let (Base::Inode(number), b"") = (base, path)
            && let Some(record) = self.session.parcel_store.look(number, attributes)
        {
            self.note_ahead_used(number);
            return Ok(PathEnd::Record(record));
        }
        let Some((above, name)) = plain_end(path) else { return Ok(PathEnd::More) };
        let directory = if above.is_empty() {
            self.start(base)?
        } else {
            let found = self.walk(credentials, base, above, Follow::Always);
            match found.and_then(|found| Ok(found.existing()?)) {
                Ok((directory, _)) => directory,
                // The full walk finds the right error for the whole path.
                Err(Halt::Failed(_)) => return Ok(PathEnd::More),
                Err(halt) => return Err(halt),
            }
        };
        let state = self.reading(&directory)?;
        let Some(content) = state.directory() else { return Ok(PathEnd::More) };
        state.check(credentials, EXECUTE)?;
        // The directory stays locked until the name's target was looked at, too.
        match content.find(name, self.session.retired()) {
            NameState::Present(NameTarget { kind: FileKind::Symlink, .. }) if follow => Ok(PathEnd::More),
            NameState::Present(NameTarget { inode, kind }) => {
                Ok(match self.session.parcel_store.look(inode, attributes) {
                    Some(record) => {
                        self.note_ahead_used(inode);
                        PathEnd::Record(record)
                    }
                    None => {
                        let below =
                            if kind == FileKind::Directory { directory.number } else { InodeNumber::NONE };
                        PathEnd::Inode(self.cache.get_or_insert_below(inode, below))
                    }
                })
            }
            NameState::Absent => Err(Error::NotFound.into()),
            NameState::Unknown => Ok(PathEnd::More),
        }
    }
}

/// What `stat` answers for an item of a parcel.
fn attributes(item: Item<'_>) -> InodeRecord {
    let record = item.record();
    let blocks = match record.kind() {
        FileKind::File => item.blocks(),
        _ => record.blocks,
    };
    InodeRecord { blocks, ..record }
}

/// Splits a path into all but its last name, and that name. `None` if the last name is `.` or `..`, or a
/// slash follows it.
fn plain_end(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let start = path.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    let (above, name) = path.split_at(start);
    let is_plain = (1..=NAME_BYTES_MAX).contains(&name.len()) && !matches!(name, b"." | b"..");
    is_plain.then_some((above, name))
}

#[cfg(test)]
mod tests {
    use super::plain_end;

    #[test]
    fn only_a_name_at_the_end_is_plain() {
        assert_eq!(plain_end(b"a/b//c"), Some((b"a/b//".as_slice(), b"c".as_slice())));
        assert_eq!(plain_end(b"c"), Some((b"".as_slice(), b"c".as_slice())));
        for path in [b"".as_slice(), b"/", b"a/", b"a/.", b"..", &[b'x'; 256]] {
            assert_eq!(plain_end(path), None, "{path:?}");
        }
    }
}
