//! POSIX access control lists, as bytes: those of the kernel's extended attributes, which is how programs hand them over.
//!
//! | bytes | what |
//! |---|---|
//! | 4 | version: 2 |
//! | 8 each | tag u16, permissions u16, id u32 |
//!
//! A file's access list speaks of the same owner, mask and others as its mode bits. The mode is what counts: of a list that
//! is kept these entries are never read, and [`with_mode`] fills them in for a program that asks. So a new mode needs no new list,
//! and a list that says no more than a mode ([`is_plain`]) is none.

use crate::SYMLINK_BYTES_MAX;

/// The extended attribute that is a file's access list.
pub const ACCESS_LIST: &[u8] = b"system.posix_acl_access";
/// The extended attribute that is a directory's default list: new inodes in the directory start with it.
pub const DEFAULT_LIST: &[u8] = b"system.posix_acl_default";
/// Longest list, in bytes: some 500 entries, as ext4 has room for.
pub const LIST_BYTES_MAX: usize = SYMLINK_BYTES_MAX;

const VERSION: u32 = 2;
const HEAD_BYTES: usize = 4;
const ENTRY_BYTES: usize = 8;
/// The id of entries that name no user and no group.
const NO_ID: u32 = u32::MAX;

/// The users that an entry is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Whom {
    /// The owner.
    Owner,
    /// A user.
    User(u32),
    /// The file's group.
    OwningGroup,
    /// A group.
    Group(u32),
    /// The most that users get who are neither the owner nor among the others.
    Mask,
    /// Everybody else.
    Others,
}

/// An entry of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Entry {
    /// The users it is about.
    pub whom: Whom,
    /// Their permissions: bits as `R_OK`, `W_OK` and `X_OK`.
    pub permissions: u32,
}

impl Whom {
    fn of(tag: u16, id: u32) -> Option<Whom> {
        Some(match tag {
            0x01 => Whom::Owner,
            0x02 if id != NO_ID => Whom::User(id),
            0x04 => Whom::OwningGroup,
            0x08 if id != NO_ID => Whom::Group(id),
            0x10 => Whom::Mask,
            0x20 => Whom::Others,
            _ => return None,
        })
    }

    fn tag_and_id(self) -> (u16, u32) {
        match self {
            Whom::Owner => (0x01, NO_ID),
            Whom::User(id) => (0x02, id),
            Whom::OwningGroup => (0x04, NO_ID),
            Whom::Group(id) => (0x08, id),
            Whom::Mask => (0x10, NO_ID),
            Whom::Others => (0x20, NO_ID),
        }
    }
}

/// Why bytes are no list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// They are of another version.
    #[error("an access control list of version {0}")]
    Version(u32),
    /// They cannot be read.
    #[error("no access control list")]
    Unreadable,
    /// The entries are not those a list must have, in their order.
    #[error("an access control list with entries that do not fit together")]
    Entries,
}

/// The entries of a list that was [`read`] once.
pub fn entries(list: &[u8]) -> impl Iterator<Item = Entry> + '_ {
    list.get(HEAD_BYTES..).unwrap_or_default().chunks_exact(ENTRY_BYTES).filter_map(entry)
}

fn entry(bytes: &[u8]) -> Option<Entry> {
    let (tag, permissions) = (u16::from_le_bytes([bytes[0], bytes[1]]), [bytes[2], bytes[3]]);
    let id = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
    Some(Entry { whom: Whom::of(tag, id)?, permissions: u16::from_le_bytes(permissions).into() })
}

/// Whether bytes can be read as entries; not whether those fit together. Nothing: they are of no entries.
pub fn read(bytes: &[u8]) -> Result<Option<Vec<Entry>>, ListError> {
    let (version, rest) = bytes.split_first_chunk::<HEAD_BYTES>().ok_or(ListError::Unreadable)?;
    let version = u32::from_le_bytes(*version);
    if version != VERSION {
        return Err(ListError::Version(version));
    }
    if !rest.len().is_multiple_of(ENTRY_BYTES) {
        return Err(ListError::Unreadable);
    }
    let entries: Option<Vec<Entry>> = rest.chunks_exact(ENTRY_BYTES).map(entry).collect();
    let entries = entries.ok_or(ListError::Unreadable)?;
    Ok(if entries.is_empty() { None } else { Some(entries) })
}

/// Whether entries make a list: an owner, users, a group, groups, a mask (there must be one if a user or group is named) and others,
/// in this order.
pub fn check(entries: &[Entry]) -> Result<(), ListError> {
    let mut named = false;
    let mut before = None;
    for entry in entries {
        let may_follow = match entry.whom {
            Whom::Owner => before.is_none(),
            Whom::User(_) => matches!(before, Some(Whom::Owner | Whom::User(_))),
            Whom::OwningGroup => matches!(before, Some(Whom::Owner | Whom::User(_))),
            Whom::Group(_) | Whom::Mask => matches!(before, Some(Whom::OwningGroup | Whom::Group(_))),
            Whom::Others if named => before == Some(Whom::Mask),
            Whom::Others => matches!(before, Some(Whom::OwningGroup | Whom::Mask)),
        };
        if !may_follow || entry.permissions & !7 != 0 {
            return Err(ListError::Entries);
        }
        named |= matches!(entry.whom, Whom::User(_) | Whom::Group(_));
        before = Some(entry.whom);
    }
    if before == Some(Whom::Others) { Ok(()) } else { Err(ListError::Entries) }
}

/// Whether bytes from a log are a list.
#[must_use]
pub fn is_list(bytes: &[u8]) -> bool {
    let entries = read(bytes).ok().flatten();
    bytes.len() <= LIST_BYTES_MAX && entries.is_some_and(|entries| check(&entries).is_ok())
}

/// The bytes of a list.
#[must_use]
pub fn encode(entries: &[Entry]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD_BYTES + ENTRY_BYTES * entries.len());
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    for entry in entries {
        let (tag, id) = entry.whom.tag_and_id();
        bytes.extend_from_slice(&tag.to_le_bytes());
        bytes.extend_from_slice(&(entry.permissions as u16).to_le_bytes());
        bytes.extend_from_slice(&id.to_le_bytes());
    }
    bytes
}

/// Whether a list says no more than mode bits can.
#[must_use]
pub fn is_plain(list: &[u8]) -> bool {
    entries(list).all(|entry| matches!(entry.whom, Whom::Owner | Whom::OwningGroup | Whom::Others))
}

/// The mode bits of a list: of owner, mask (without one: group) and others.
#[must_use]
pub fn mode_of(list: &[u8]) -> u32 {
    let class = class_of_group(list);
    entries(list).fold(0, |mode, entry| match entry.whom {
        Whom::Owner => mode | entry.permissions << 6,
        Whom::Others => mode | entry.permissions,
        whom if whom == class => mode | entry.permissions << 3,
        _ => mode,
    })
}

/// The list of a file with these mode bits.
#[must_use]
pub fn with_mode(list: &[u8], mode: u32) -> Vec<u8> {
    let class = class_of_group(list);
    let filled: Vec<Entry> = entries(list)
        .map(|entry| {
            let permissions = match entry.whom {
                Whom::Owner => mode >> 6 & 7,
                Whom::Others => mode & 7,
                whom if whom == class => mode >> 3 & 7,
                _ => entry.permissions,
            };
            Entry { permissions, ..entry }
        })
        .collect();
    encode(&filled)
}

/// The entry that a mode's bits for the group belong to.
fn class_of_group(list: &[u8]) -> Whom {
    if entries(list).any(|entry| entry.whom == Whom::Mask) { Whom::Mask } else { Whom::OwningGroup }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[(Whom, u32)]) -> Vec<Entry> {
        entries.iter().map(|&(whom, permissions)| Entry { whom, permissions }).collect()
    }

    fn full() -> Vec<Entry> {
        use Whom::*;
        list(&[(Owner, 6), (User(7), 7), (OwningGroup, 4), (Group(8), 1), (Mask, 5), (Others, 0)])
    }

    #[test]
    fn lists_survive_their_bytes() {
        let bytes = encode(&full());
        assert_eq!(bytes.len(), 4 + 6 * 8);
        assert_eq!(read(&bytes), Ok(Some(full())));
        assert_eq!(entries(&bytes).collect::<Vec<_>>(), full());
        assert_eq!(bytes[12..20], [2, 0, 7, 0, 7, 0, 0, 0]);
        assert_eq!(read(&encode(&[])), Ok(None));
        assert!(is_list(&bytes) && !is_list(b"") && !is_list(&encode(&[])));
    }

    #[test]
    fn what_is_no_list_is_refused() {
        let bytes = encode(&full());
        assert_eq!(read(b"\x02\0"), Err(ListError::Unreadable));
        assert_eq!(read(&bytes[..bytes.len() - 1]), Err(ListError::Unreadable));
        assert_eq!(read(&[&[1, 0, 0, 0], &bytes[4..]].concat()), Err(ListError::Version(1)));
        assert_eq!(read(b"\x02\0\0\0\x03\0\x07\0\0\0\0\0"), Err(ListError::Unreadable), "an unknown tag");
        assert_eq!(read(b"\x02\0\0\0\x02\0\x07\0\xff\xff\xff\xff"), Err(ListError::Unreadable), "nobody");
        assert_eq!(check(&full()), Ok(()));
        for missing in 0..full().len() {
            let mut entries = full();
            let is_needed = !matches!(entries.remove(missing).whom, Whom::User(_) | Whom::Group(_));
            assert_eq!(check(&entries).is_err(), is_needed, "without entry {missing}");
        }
        for at in 1..full().len() {
            let mut entries = full();
            entries.swap(at - 1, at);
            assert_eq!(check(&entries), Err(ListError::Entries), "out of order at {at}");
        }
        let too_much = Entry { permissions: 8, ..full()[1] };
        assert!(check(&[&full()[..1], &[too_much], &full()[2..]].concat()).is_err());
        assert!(check(&[&full()[..], &full()[5..]].concat()).is_err());
    }

    #[test]
    fn the_mode_fills_in_owner_mask_and_others() {
        let bytes = encode(&full());
        assert_eq!(mode_of(&bytes), 0o650);
        let filled = with_mode(&bytes, 0o100_723);
        assert_eq!(mode_of(&filled), 0o723);
        assert_eq!(entries(&filled).nth(2), Some(full()[2]), "the group keeps what it has");
        let plain = encode(&list(&[(Whom::Owner, 6), (Whom::OwningGroup, 4), (Whom::Others, 0)]));
        assert_eq!((is_plain(&plain), is_plain(&bytes), mode_of(&plain)), (true, false, 0o640));
        assert_eq!(mode_of(&with_mode(&plain, 0o777)), 0o777);
    }
}
