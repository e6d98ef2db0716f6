//! The logical operations an entry can hold, and how their bodies are laid out.
//!
//! Operations name inodes, offsets and names; nothing in them depends on where the store lies, so that they
//! can be replayed elsewhere as they are (Assise §3.2, Strata's operation log).

mod attributes;
mod names;
mod rules;
mod staged;

use crate::call_tag::{Caller, CallerId, TAG_BYTES};
use crate::dependency::{self, LogDependency};
use crate::entry::{EntryKind, Header};
use crate::{EXTENDED_VALUE_BYTES_MAX, FileKind, InodeNumber};
use attributes::{ATTRIBUTES_BYTES, AttributesLayout};
use names::{NAMES_BYTES, Names};
use rules::{access_list, decode_length, extended_name};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub use attributes::Attributes;
pub use rules::{OperationError, is_entry_name, is_extended_name};
pub use staged::{BlockRun, StagedWrite, staged_body_bytes};

/// Header flag of [`Operation::Unlink`] and [`Operation::Rename`]: the inode that lost its last name
/// is open in this session and must stay until it is released.
pub const FLAG_ORPHAN: u8 = 1;
/// Header flag of [`Operation::Rename`]: the two names change places.
pub const FLAG_EXCHANGE: u8 = 2;
/// Header flag of [`Operation::Clear`]: the file grows to hold the range.
pub const FLAG_GROW: u8 = 4;
/// Header flag of [`Operation::Shift`]: room is made; else the range is taken out.
pub const FLAG_INSERT: u8 = 8;
/// Header flag of [`Operation::CreateUnnamed`]: the file cannot be given a name.
pub const FLAG_EXCLUSIVE: u8 = 16;

/// One logged operation. Every one sets the change times POSIX asks for to the entry's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    /// Nothing: a reservation that was voided.
    Void,
    /// Stores `data` at `offset`; the file grows to hold it.
    Write {
        /// The file.
        inode: InodeNumber,
        /// Where, in bytes.
        offset: u64,
        /// What.
        data: &'a [u8],
    },
    /// Stores bytes at `offset`, whole blocks of which lie in an arena already; the file grows to hold them.
    WriteStaged {
        /// The file.
        inode: InodeNumber,
        /// Where, in bytes.
        offset: u64,
        /// The bytes at its edges, and the places of its blocks.
        staged: StagedWrite<'a>,
    },
    /// Sets the size. Bytes behind the new end are gone, and new bytes read as zeros.
    Truncate {
        /// The file.
        inode: InodeNumber,
        /// New size in bytes.
        size: u64,
    },
    /// A range of the file reads as zeros, and has no blocks any more.
    Clear {
        /// The file.
        inode: InodeNumber,
        /// Where, in bytes.
        offset: u64,
        /// How many.
        length: u64,
        /// The file grows to hold the range.
        grow: bool,
    },
    /// Moves everything from an offset on: what lay behind a range follows what lies before it, or the range is room
    /// made before it. The range is of whole blocks, and starts before the file's end.
    Shift {
        /// The file.
        inode: InodeNumber,
        /// Start of the range, in bytes.
        offset: u64,
        /// Length of the range, in bytes.
        length: u64,
        /// Room is made, of zeros; else the range is taken out.
        insert: bool,
    },
    /// Makes an inode and its first name.
    Create {
        /// Directory of the name.
        parent: InodeNumber,
        /// The new inode, from the session's granted numbers.
        inode: InodeNumber,
        /// Kind and permissions, as `st_mode`.
        mode: u32,
        /// Owner.
        uid: u32,
        /// Group.
        gid: u32,
        /// Device number, for device nodes.
        device: u64,
        /// The name.
        name: &'a [u8],
        /// The target, for symbolic links; else empty.
        target: &'a [u8],
        /// Its access list from its directory's default list, unless it is a symbolic link; empty: none.
        list: &'a [u8],
    },
    /// Makes a file that has no name and is open in this session.
    CreateUnnamed {
        /// The directory it was made in.
        parent: InodeNumber,
        /// It cannot be given a name.
        exclusive: bool,
        /// The new inode, from the session's granted numbers.
        inode: InodeNumber,
        /// Kind and permissions, as `st_mode`.
        mode: u32,
        /// Owner.
        uid: u32,
        /// Group.
        gid: u32,
        /// Its access list from the default list of the directory it is made in; empty: none.
        list: &'a [u8],
    },
    /// Gives an inode one more name, or an unnamed one its first.
    Link {
        /// Directory of the name.
        parent: InodeNumber,
        /// The inode.
        inode: InodeNumber,
        /// The name.
        name: &'a [u8],
    },
    /// Takes a name away (`unlink` and `rmdir`: the inode's kind tells).
    Unlink {
        /// Directory of the name.
        parent: InodeNumber,
        /// The inode it names.
        inode: InodeNumber,
        /// The name.
        name: &'a [u8],
        /// The inode is open here and must outlive its last name.
        orphan: bool,
    },
    /// Moves a name, atomically replacing what `new_name` named.
    Rename {
        /// Directory of the old name.
        parent: InodeNumber,
        /// The old name.
        name: &'a [u8],
        /// Directory of the new name.
        new_parent: InodeNumber,
        /// The new name.
        new_name: &'a [u8],
        /// The inode that moves.
        inode: InodeNumber,
        /// What `new_name` named before ([`InodeNumber::NONE`]: nothing).
        replaced: InodeNumber,
        /// The replaced inode is open here and must outlive its last name.
        orphan: bool,
        /// The two names change places; `replaced` lives on under the old name.
        exchange: bool,
    },
    /// Sets attributes.
    SetAttributes {
        /// The inode.
        inode: InodeNumber,
        /// What to set.
        attributes: Attributes,
    },
    /// The last descriptor of an inode without names was closed.
    Release {
        /// The inode.
        inode: InodeNumber,
    },
    /// Gives an inode an extended attribute, or an attribute it has another value.
    SetExtended {
        /// The inode.
        inode: InodeNumber,
        /// The attribute's name, with its namespace.
        name: &'a [u8],
        /// Its value, which may be empty.
        value: &'a [u8],
    },
    /// Gives an inode an access list, or none if `list` is empty, and the mode bits that go with it.
    SetAccessList {
        /// The inode.
        inode: InodeNumber,
        /// New permission bits (the kind of the inode stays).
        mode: u32,
        /// The list.
        list: &'a [u8],
    },
    /// Takes an extended attribute from an inode.
    RemoveExtended {
        /// The inode.
        inode: InodeNumber,
        /// The attribute's name, with its namespace.
        name: &'a [u8],
    },
    /// The records of a caller's calls go: it asks for none of them again ([`crate::call_tag`]).
    ForgetCaller {
        /// The caller.
        caller: Caller,
    },
    /// What follows must not survive without a part of another log ([`crate::dependency`]).
    DependOn {
        /// That part.
        dependency: LogDependency,
    },
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct UnnamedLayout {
    mode: U32,
    uid: U32,
    gid: U32,
    zero: U32,
}

const UNNAMED_BYTES: usize = size_of::<UnnamedLayout>();
const _: () = assert!(UNNAMED_BYTES == 16);

/// The body of an operation on a range: its length.
const RANGE_BYTES: usize = size_of::<U64>();

impl<'a> Operation<'a> {
    /// The entry kind.
    #[must_use]
    pub fn kind(&self) -> EntryKind {
        match self {
            Operation::Void => EntryKind::Void,
            Operation::Write { .. } => EntryKind::Write,
            Operation::WriteStaged { .. } => EntryKind::WriteStaged,
            Operation::Truncate { .. } => EntryKind::Truncate,
            Operation::Clear { .. } => EntryKind::Clear,
            Operation::Shift { .. } => EntryKind::Shift,
            Operation::Create { .. } => EntryKind::Create,
            Operation::CreateUnnamed { .. } => EntryKind::CreateUnnamed,
            Operation::Link { .. } => EntryKind::Link,
            Operation::Unlink { .. } => EntryKind::Unlink,
            Operation::Rename { .. } => EntryKind::Rename,
            Operation::SetAttributes { .. } => EntryKind::SetAttributes,
            Operation::Release { .. } => EntryKind::Release,
            Operation::SetExtended { .. } => EntryKind::SetExtended,
            Operation::SetAccessList { .. } => EntryKind::SetAccessList,
            Operation::RemoveExtended { .. } => EntryKind::RemoveExtended,
            Operation::ForgetCaller { .. } => EntryKind::ForgetCaller,
            Operation::DependOn { .. } => EntryKind::DependOn,
        }
    }

    /// The header's inode field.
    #[must_use]
    pub fn inode(&self) -> InodeNumber {
        match *self {
            Operation::Void | Operation::ForgetCaller { .. } | Operation::DependOn { .. } => {
                InodeNumber::NONE
            }
            Operation::Write { inode, .. }
            | Operation::WriteStaged { inode, .. }
            | Operation::Truncate { inode, .. }
            | Operation::Clear { inode, .. }
            | Operation::Shift { inode, .. }
            | Operation::Create { inode, .. }
            | Operation::CreateUnnamed { inode, .. }
            | Operation::Link { inode, .. }
            | Operation::Unlink { inode, .. }
            | Operation::Rename { inode, .. }
            | Operation::SetAttributes { inode, .. }
            | Operation::Release { inode }
            | Operation::SetExtended { inode, .. }
            | Operation::SetAccessList { inode, .. }
            | Operation::RemoveExtended { inode, .. } => inode,
        }
    }

    /// The header's argument field.
    #[must_use]
    pub fn argument(&self) -> u64 {
        match *self {
            Operation::Write { offset, .. }
            | Operation::WriteStaged { offset, .. }
            | Operation::Clear { offset, .. }
            | Operation::Shift { offset, .. } => offset,
            Operation::Truncate { size, .. } => size,
            Operation::Create { parent, .. }
            | Operation::CreateUnnamed { parent, .. }
            | Operation::Link { parent, .. }
            | Operation::Unlink { parent, .. }
            | Operation::Rename { parent, .. } => parent.0,
            Operation::SetExtended { name, .. } => name.len() as u64,
            Operation::SetAccessList { mode, .. } => mode.into(),
            Operation::ForgetCaller { caller } => caller.user.into(),
            Operation::DependOn { dependency } => dependency.session.0,
            Operation::Void
            | Operation::SetAttributes { .. }
            | Operation::Release { .. }
            | Operation::RemoveExtended { .. } => 0,
        }
    }

    /// The header's flags.
    #[must_use]
    pub fn flags(&self) -> u8 {
        let flag = |on: bool, bit: u8| if on { bit } else { 0 };
        match *self {
            Operation::Unlink { orphan, .. } => flag(orphan, FLAG_ORPHAN),
            Operation::Clear { grow, .. } => flag(grow, FLAG_GROW),
            Operation::Shift { insert, .. } => flag(insert, FLAG_INSERT),
            Operation::CreateUnnamed { exclusive, .. } => flag(exclusive, FLAG_EXCLUSIVE),
            Operation::Rename { orphan, exchange, .. } => {
                flag(orphan, FLAG_ORPHAN) | flag(exchange, FLAG_EXCHANGE)
            }
            _ => 0,
        }
    }

    /// Bytes [`Operation::encode_body`] writes.
    #[must_use]
    pub fn body_bytes(&self) -> usize {
        match self {
            Operation::Void | Operation::Truncate { .. } | Operation::Release { .. } => 0,
            Operation::Write { data, .. } => data.len(),
            Operation::WriteStaged { staged, .. } => staged.body().len(),
            Operation::SetAttributes { .. } => ATTRIBUTES_BYTES,
            Operation::Clear { .. } | Operation::Shift { .. } => RANGE_BYTES,
            Operation::CreateUnnamed { list, .. } => UNNAMED_BYTES + list.len(),
            Operation::Create { name, target, list, .. } => {
                NAMES_BYTES + name.len() + target.len() + list.len()
            }
            Operation::Link { name, .. } | Operation::Unlink { name, .. } => NAMES_BYTES + name.len(),
            Operation::Rename { name, new_name, .. } => NAMES_BYTES + name.len() + new_name.len(),
            Operation::SetExtended { name, value, .. } => name.len() + value.len(),
            Operation::SetAccessList { list, .. } => list.len(),
            Operation::RemoveExtended { name, .. } => name.len(),
            Operation::ForgetCaller { caller } => caller.id.0.len(),
            Operation::DependOn { .. } => dependency::BODY_BYTES,
        }
    }

    /// The inodes it changes or makes; [`InodeNumber::NONE`] for none.
    #[must_use]
    pub fn changes(&self) -> [InodeNumber; 4] {
        const NONE: InodeNumber = InodeNumber::NONE;
        match *self {
            Operation::Void | Operation::ForgetCaller { .. } | Operation::DependOn { .. } => [NONE; 4],
            Operation::Write { inode, .. }
            | Operation::WriteStaged { inode, .. }
            | Operation::Truncate { inode, .. }
            | Operation::Clear { inode, .. }
            | Operation::Shift { inode, .. }
            | Operation::CreateUnnamed { inode, .. }
            | Operation::SetAttributes { inode, .. }
            | Operation::Release { inode }
            | Operation::SetExtended { inode, .. }
            | Operation::SetAccessList { inode, .. }
            | Operation::RemoveExtended { inode, .. } => [inode, NONE, NONE, NONE],
            Operation::Create { parent, inode, .. }
            | Operation::Link { parent, inode, .. }
            | Operation::Unlink { parent, inode, .. } => [parent, inode, NONE, NONE],
            Operation::Rename { parent, new_parent, inode, replaced, .. } => {
                [parent, new_parent, inode, replaced]
            }
        }
    }

    /// The names it makes, changes or takes away, and the directories they are in.
    #[must_use]
    pub fn names(&self) -> [Option<(InodeNumber, &'a [u8])>; 2] {
        match *self {
            Operation::Create { parent, name, .. }
            | Operation::Link { parent, name, .. }
            | Operation::Unlink { parent, name, .. } => [Some((parent, name)), None],
            Operation::Rename { parent, name, new_parent, new_name, .. } => {
                [Some((parent, name)), Some((new_parent, new_name))]
            }
            _ => [None, None],
        }
    }

    /// Writes the body into `out`, which has a length of [`Operation::body_bytes`]. Names must be
    /// [`is_entry_name`]s (of extended attributes [`is_extended_name`]s) and targets at most [`crate::SYMLINK_BYTES_MAX`] long.
    pub fn encode_body(&self, out: &mut [u8]) {
        let names = match *self {
            Operation::Void | Operation::Truncate { .. } | Operation::Release { .. } => return,
            Operation::Write { data, .. } => return out.copy_from_slice(data),
            Operation::WriteStaged { staged, .. } => return out.copy_from_slice(staged.body()),
            Operation::SetAccessList { list, .. } => return out.copy_from_slice(list),
            Operation::ForgetCaller { caller } => return out.copy_from_slice(&caller.id.0),
            Operation::DependOn { dependency } => return out.copy_from_slice(&dependency.body()),
            Operation::SetAttributes { attributes, .. } => {
                return out.copy_from_slice(attributes.layout().as_bytes());
            }
            Operation::SetExtended { name, value, .. } => {
                debug_assert!(is_extended_name(name));
                let (head, rest) = out.split_at_mut(name.len());
                head.copy_from_slice(name);
                return rest.copy_from_slice(value);
            }
            Operation::RemoveExtended { name, .. } => {
                debug_assert!(is_extended_name(name));
                return out.copy_from_slice(name);
            }
            Operation::Clear { length, .. } | Operation::Shift { length, .. } => {
                return out.copy_from_slice(U64::new(length).as_bytes());
            }
            Operation::CreateUnnamed { mode, uid, gid, list, .. } => {
                let layout =
                    UnnamedLayout { mode: mode.into(), uid: uid.into(), gid: gid.into(), zero: U32::ZERO };
                let (head, rest) = out.split_at_mut(UNNAMED_BYTES);
                head.copy_from_slice(layout.as_bytes());
                return rest.copy_from_slice(list);
            }
            Operation::Create { mode, uid, gid, device, name, target, list, .. } => {
                debug_assert!(target.is_empty() || list.is_empty());
                let second = if target.is_empty() { list } else { target };
                Names { mode, uid, gid, device, name, second, ..Names::NONE }
            }
            Operation::Link { name, .. } | Operation::Unlink { name, .. } => Names { name, ..Names::NONE },
            Operation::Rename { name, new_parent, new_name, replaced, .. } => {
                Names { new_parent, replaced, name, second: new_name, ..Names::NONE }
            }
        };
        names.encode(out);
    }

    /// Reads an entry back. The body's checksum is right; its content is still not trusted.
    pub fn decode(header: &Header, body: &'a [u8]) -> Result<Operation<'a>, OperationError> {
        let inode = header.inode;
        let parent = InodeNumber(header.argument);
        let orphan = header.flags & FLAG_ORPHAN != 0;
        if body.len() != header.body_bytes as usize && header.kind != EntryKind::Void {
            return Err(OperationError::Length);
        }
        let body = match header.is_tagged() && header.kind != EntryKind::Void {
            true => body.split_last_chunk::<TAG_BYTES>().ok_or(OperationError::Length)?.0,
            false => body,
        };
        let empty = |operation| {
            if body.is_empty() { Ok(operation) } else { Err(OperationError::Length) }
        };
        match header.kind {
            EntryKind::Void => Ok(Operation::Void),
            EntryKind::Write => Ok(Operation::Write { inode, offset: header.argument, data: body }),
            EntryKind::WriteStaged => {
                let staged = StagedWrite::decode(header.argument, body).ok_or(OperationError::Length)?;
                Ok(Operation::WriteStaged { inode, offset: header.argument, staged })
            }
            EntryKind::Truncate => empty(Operation::Truncate { inode, size: header.argument }),
            EntryKind::Release => empty(Operation::Release { inode }),
            EntryKind::SetAttributes => {
                let layout = AttributesLayout::ref_from_bytes(body).map_err(|_| OperationError::Length)?;
                Ok(Operation::SetAttributes { inode, attributes: Attributes::from_layout(layout) })
            }
            EntryKind::SetExtended => {
                let name_bytes = usize::try_from(header.argument).ok();
                let (name, value) = name_bytes
                    .and_then(|bytes| body.split_at_checked(bytes))
                    .filter(|(_, value)| value.len() <= EXTENDED_VALUE_BYTES_MAX)
                    .ok_or(OperationError::Length)?;
                Ok(Operation::SetExtended { inode, name: extended_name(name)?, value })
            }
            EntryKind::SetAccessList => {
                let mode = u32::try_from(header.argument).map_err(|_| OperationError::Length)?;
                Ok(Operation::SetAccessList { inode, mode, list: access_list(body)? })
            }
            EntryKind::RemoveExtended => Ok(Operation::RemoveExtended { inode, name: extended_name(body)? }),
            EntryKind::ForgetCaller => {
                let id = CallerId(body.try_into().map_err(|_| OperationError::Length)?);
                let user = u32::try_from(header.argument).map_err(|_| OperationError::Length)?;
                Ok(Operation::ForgetCaller { caller: Caller { user, id } })
            }
            EntryKind::DependOn => {
                let dependency = LogDependency::decode(header.argument, body);
                Ok(Operation::DependOn { dependency: dependency.ok_or(OperationError::Length)? })
            }
            EntryKind::Clear => {
                let (offset, length) = (header.argument, decode_length(body)?);
                Ok(Operation::Clear { inode, offset, length, grow: header.flags & FLAG_GROW != 0 })
            }
            EntryKind::Shift => {
                let (offset, length) = (header.argument, decode_length(body)?);
                Ok(Operation::Shift { inode, offset, length, insert: header.flags & FLAG_INSERT != 0 })
            }
            EntryKind::CreateUnnamed => {
                let (layout, list) =
                    UnnamedLayout::ref_from_prefix(body).map_err(|_| OperationError::Length)?;
                let (mode, uid, gid) = (layout.mode.get(), layout.uid.get(), layout.gid.get());
                let (list, exclusive) = (access_list(list)?, header.flags & FLAG_EXCLUSIVE != 0);
                Ok(Operation::CreateUnnamed { parent, exclusive, inode, mode, uid, gid, list })
            }
            EntryKind::Create => {
                let Names { mode, uid, gid, device, name, second, .. } = Names::decode(body)?;
                let (target, list) = match FileKind::from_mode(mode) {
                    Some(FileKind::Symlink) => (second, &b""[..]),
                    _ => (&b""[..], second),
                };
                Ok(Operation::Create { parent, inode, mode, uid, gid, device, name, target, list })
            }
            EntryKind::Link => Ok(Operation::Link { parent, inode, name: Names::decode(body)?.name }),
            EntryKind::Unlink => {
                Ok(Operation::Unlink { parent, inode, name: Names::decode(body)?.name, orphan })
            }
            EntryKind::Rename => {
                let Names { new_parent, replaced, name, second, .. } = Names::decode(body)?;
                if !is_entry_name(second) {
                    return Err(OperationError::Name);
                }
                let exchange = header.flags & FLAG_EXCHANGE != 0;
                Ok(Operation::Rename {
                    parent,
                    name,
                    new_parent,
                    new_name: second,
                    inode,
                    replaced,
                    orphan,
                    exchange,
                })
            }
        }
    }
}

#[cfg(test)]
mod tests;
