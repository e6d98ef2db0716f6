//! Everything a file system shows, in one canonical value, by which the model, the kernel and a
//! recovered store are compared.

use crate::model::{Body, InodeNumber, Model};
use crate::operations::operation::{Attributes, Extended, Kind, PathText, Slot, Timestamp};
use crate::operations::sparse::Sparse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

/// All that can be reached from the root, by path.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Tree {
    entries: BTreeMap<PathText, Entry>,
}

/// One name.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Entry {
    attributes: Attributes,
    content: Content,
    extended: Extended,
    /// The first path, in order, that leads to the same inode: hard links must stay links.
    first_path: PathText,
}

/// The inode behind a name.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Content {
    /// A directory; its names are entries of the tree.
    Directory,
    /// A file's bytes.
    File(Sparse),
    /// A symlink's target.
    Symlink(PathText),
    /// Nothing; a pipe, a socket, or the number of a device.
    Node {
        /// The number.
        device: u64,
    },
}

/// Collects a tree from whatever is being walked.
#[derive(Default)]
pub struct TreeBuilder {
    found: BTreeMap<PathText, (u64, Attributes, Content, Extended)>,
}

impl TreeBuilder {
    /// Adds the inode `identity`, found at `path` (the root is `/`).
    pub fn add(
        &mut self,
        path: PathText,
        identity: u64,
        attributes: Attributes,
        content: Content,
        extended: Extended,
    ) {
        self.found.insert(path, (identity, attributes, content, extended));
    }

    /// The tree of everything added.
    pub fn finish(self) -> Tree {
        let mut first: BTreeMap<u64, PathText> = BTreeMap::new();
        for (path, (identity, ..)) in &self.found {
            first.entry(*identity).or_insert_with(|| path.clone());
        }
        let entries = self
            .found
            .into_iter()
            .map(|(path, (identity, attributes, content, extended))| {
                (path, Entry { attributes, content, extended, first_path: first[&identity].clone() })
            })
            .collect();
        Tree { entries }
    }
}

/// `directory` with `name` behind it.
pub fn join(directory: &PathText, name: &[u8]) -> PathText {
    let mut path = directory.0.clone();
    if path.last() != Some(&b'/') {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    PathText(path)
}

/// Where a tree shows what a handle holds: no file has such a path.
pub fn open_path(slot: Slot) -> PathText {
    PathText(format!("open file {slot}").into_bytes())
}

impl Tree {
    /// The tree and what is open.
    pub fn with_open_files(model: &Model) -> Tree {
        let mut builder = TreeBuilder::default();
        model.walk(PathText::from("/"), model.root, &mut builder);
        for (slot, inode) in model.open_files() {
            model.walk(open_path(slot), inode, &mut builder);
        }
        builder.finish()
    }
}

impl From<&Model> for Tree {
    fn from(model: &Model) -> Tree {
        let mut builder = TreeBuilder::default();
        model.walk(PathText::from("/"), model.root, &mut builder);
        builder.finish()
    }
}

impl Model {
    fn walk(&self, path: PathText, number: InodeNumber, builder: &mut TreeBuilder) {
        let inode = &self.inodes[&number];
        let content = match &inode.body {
            Body::File(content) => Content::File(content.clone()),
            Body::Symlink(target) => Content::Symlink(target.clone()),
            Body::Node { device, .. } => Content::Node { device: *device },
            Body::Directory(directory) => {
                for (name, child) in &directory.entries {
                    self.walk(join(&path, name), *child, builder);
                }
                Content::Directory
            }
        };
        builder.add(path, number, inode.attributes(), content, inode.all_extended());
    }
}

impl Tree {
    /// The same, where no modification time from then on is known.
    #[must_use]
    pub fn forget_times_since(mut self, since: Timestamp) -> Tree {
        for entry in self.entries.values_mut() {
            entry.attributes.modified = entry.attributes.modified.filter(|time| *time < since);
        }
        self
    }

    /// How `self`, as observed, differs from `expected`, one line a difference; empty if it does
    /// not. A modification time is compared only where `expected` knows one.
    pub fn differences(&self, expected: &Tree) -> Vec<String> {
        let paths: BTreeSet<&PathText> = self.entries.keys().chain(expected.entries.keys()).collect();
        let mut lines = Vec::new();
        for path in paths {
            match (self.entries.get(path), expected.entries.get(path)) {
                (Some(_), None) => lines.push(format!("{path}: should not exist")),
                (None, Some(_)) => lines.push(format!("{path}: is missing")),
                (Some(found), Some(wanted)) => found.differences(path, wanted, &mut lines),
                (None, None) => {}
            }
        }
        lines
    }

    /// The same with no modification time known.
    #[must_use]
    pub fn without_times(mut self) -> Tree {
        self.entries.values_mut().for_each(|entry| entry.attributes.modified = None);
        self
    }

    /// The same with everything owned by the same user and group.
    #[must_use]
    pub fn without_owners(mut self) -> Tree {
        for entry in self.entries.values_mut() {
            (entry.attributes.uid, entry.attributes.gid) = (0, 0);
        }
        self
    }

    /// Takes the bytes at `offset` of a file from `found`, if they are one of these.
    pub fn take_word(&mut self, path: &PathText, offset: u64, versions: &[[u8; 8]], found: &Tree) {
        let (
            Some(Entry { content: Content::File(own), .. }),
            Some(Entry { content: Content::File(found), .. }),
        ) = (self.entries.get_mut(path), found.entries.get(path))
        else {
            return;
        };
        let length = own.size().saturating_sub(offset).min(8);
        let bytes = found.read(offset, length);
        if versions.iter().any(|version| version[..length as usize] == bytes[..]) {
            own.write(offset, &bytes);
        }
    }

    /// Whether `self`, as observed, is what `expected` allows.
    pub fn agrees_with(&self, expected: &Tree) -> bool {
        self.differences(expected).is_empty()
    }
}

impl Entry {
    fn differences(&self, path: &PathText, wanted: &Entry, lines: &mut Vec<String>) {
        if !self.attributes.agrees_with(&wanted.attributes) {
            lines.push(format!("{path}: {:?}, expected {:?}", self.attributes, wanted.attributes));
        }
        if self.first_path != wanted.first_path {
            lines.push(format!("{path}: linked to {}, expected to {}", self.first_path, wanted.first_path));
        }
        if self.extended != wanted.extended {
            lines.push(format!("{path}: with {:?}, expected {:?}", self.extended, wanted.extended));
        }
        match (&self.content, &wanted.content) {
            (Content::File(found), Content::File(wanted)) => {
                if let Some(offset) = found.first_difference(wanted) {
                    let (found, wanted) = (found.read(offset, 8), wanted.read(offset, 8));
                    lines.push(format!("{path}: at byte {offset} {found:02x?}, expected {wanted:02x?}"));
                }
            }
            (found, wanted) if found != wanted => {
                lines.push(format!("{path}: {found:?}, expected {wanted:?}"))
            }
            _ => {}
        }
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Content::Directory => write!(formatter, "directory"),
            Content::File(content) => {
                let mut checksum = DefaultHasher::new();
                content.hash(&mut checksum);
                write!(formatter, "file of {} bytes, {:016x}", content.size(), checksum.finish())
            }
            Content::Symlink(target) => write!(formatter, "symlink to {target}"),
            Content::Node { device } => write!(formatter, "node of device {device}"),
        }
    }
}

impl fmt::Debug for Tree {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (path, entry) in &self.entries {
            let Attributes { kind, mode, links, uid, gid, size, .. } = entry.attributes;
            let kind = match kind {
                Kind::File => '-',
                Kind::Directory => 'd',
                Kind::Symlink => 'l',
                Kind::Pipe => 'p',
                Kind::Socket => 's',
                Kind::CharacterDevice => 'c',
                Kind::BlockDevice => 'b',
            };
            writeln!(
                formatter,
                "{kind}{mode:04o} {links} {uid}:{gid} {size:>8} {path} ({}): {:?}",
                entry.first_path, entry.content
            )?;
        }
        Ok(())
    }
}
