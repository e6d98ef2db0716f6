//! All extended attributes of an inode, as they are known under its lease.
//!
//! A session fetches them all before it changes any. So this set is always current, and needs no overlay of
//! undigested changes.

use cuesta_format::access_list::{ACCESS_LIST, DEFAULT_LIST};
use cuesta_format::wire::ExtendedAttribute;

#[derive(Debug)]
struct Attribute {
    name: Box<[u8]>,
    value: Box<[u8]>,
}

/// The set of an inode without attributes.
pub(crate) static NONE: ExtendedSet = ExtendedSet { attributes: Vec::new() };

/// Attributes by name, in name order: most inodes have none, few have more than two.
#[derive(Debug, Default)]
pub(crate) struct ExtendedSet {
    attributes: Vec<Attribute>,
}

impl ExtendedSet {
    /// The set as SharedFS has it.
    pub(crate) fn granted(attributes: Vec<ExtendedAttribute>) -> ExtendedSet {
        let mut set = ExtendedSet::default();
        attributes.into_iter().for_each(|it| set.put(&it.name, &it.value));
        set
    }

    fn find(&self, name: &[u8]) -> Result<usize, usize> {
        self.attributes.binary_search_by(|known| (*known.name).cmp(name))
    }

    /// The value of an attribute.
    pub(crate) fn get(&self, name: &[u8]) -> Option<&[u8]> {
        Some(&self.attributes.get(self.find(name).ok()?)?.value)
    }

    pub(crate) fn put(&mut self, name: &[u8], value: &[u8]) {
        match self.find(name) {
            Ok(at) => self.attributes[at].value = value.into(),
            Err(at) => self.attributes.insert(at, Attribute { name: name.into(), value: value.into() }),
        }
    }

    pub(crate) fn remove(&mut self, name: &[u8]) {
        if let Ok(at) = self.find(name) {
            self.attributes.remove(at);
        }
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.attributes.iter().map(|attribute| &*attribute.name)
    }

    /// Bytes of a list of the names, each followed by a zero byte.
    pub(crate) fn list_bytes(&self) -> usize {
        self.names().map(|name| name.len() + 1).sum()
    }
}

/// One of the two access control lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessListKind {
    Access,
    Default,
}

impl AccessListKind {
    /// The list that is stored under this name.
    pub(crate) fn of(name: &[u8]) -> Option<AccessListKind> {
        match name {
            ACCESS_LIST => Some(AccessListKind::Access),
            DEFAULT_LIST => Some(AccessListKind::Default),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> &'static [u8] {
        match self {
            AccessListKind::Access => ACCESS_LIST,
            AccessListKind::Default => DEFAULT_LIST,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_kept_by_name() {
        let attribute =
            |name: &str, value: &str| ExtendedAttribute { name: name.into(), value: value.into() };
        let mut set = ExtendedSet::granted(vec![attribute("user.b", "1"), attribute("user.a", "")]);
        set.put(b"user.b", b"22");
        set.put(b"user.ab", b"3");
        set.remove(b"user.c");
        assert_eq!(set.names().collect::<Vec<_>>(), [&b"user.a"[..], b"user.ab", b"user.b"]);
        assert_eq!((set.get(b"user.a"), set.get(b"user.b")), (Some(&b""[..]), Some(&b"22"[..])));
        set.remove(b"user.b");
        assert_eq!((set.get(b"user.b"), set.list_bytes()), (None, 15));
    }
}
