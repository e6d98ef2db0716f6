//! The body of operations on names.

use super::rules::{OperationError, is_entry_name};
use crate::{InodeNumber, SYMLINK_BYTES_MAX};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct NamesLayout {
    mode: U32,
    uid: U32,
    gid: U32,
    unused: U32,
    device: U64,
    new_parent: U64,
    replaced: U64,
    name_bytes: U16,
    second_bytes: U16,
    zero: U32,
}

/// Bytes before the names.
pub(super) const NAMES_BYTES: usize = size_of::<NamesLayout>();
const _: () = assert!(NAMES_BYTES == 48);

/// One or two names and what belongs to them; what an operation does not have is 0.
pub(super) struct Names<'a> {
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) device: u64,
    pub(super) new_parent: InodeNumber,
    pub(super) replaced: InodeNumber,
    pub(super) name: &'a [u8],
    pub(super) second: &'a [u8],
}

impl<'a> Names<'a> {
    /// None of it.
    pub(super) const NONE: Names<'static> = Names {
        mode: 0,
        uid: 0,
        gid: 0,
        device: 0,
        new_parent: InodeNumber::NONE,
        replaced: InodeNumber::NONE,
        name: b"",
        second: b"",
    };

    pub(super) fn encode(&self, out: &mut [u8]) {
        debug_assert!(is_entry_name(self.name));
        debug_assert!(self.second.len() <= SYMLINK_BYTES_MAX);
        let layout = NamesLayout {
            mode: self.mode.into(),
            uid: self.uid.into(),
            gid: self.gid.into(),
            unused: U32::ZERO,
            device: self.device.into(),
            new_parent: self.new_parent.0.into(),
            replaced: self.replaced.0.into(),
            name_bytes: (self.name.len() as u16).into(),
            second_bytes: (self.second.len() as u16).into(),
            zero: U32::ZERO,
        };
        let (head, rest) = out.split_at_mut(NAMES_BYTES);
        head.copy_from_slice(layout.as_bytes());
        let (name, second) = rest.split_at_mut(self.name.len());
        name.copy_from_slice(self.name);
        second.copy_from_slice(self.second);
    }

    pub(super) fn decode(body: &'a [u8]) -> Result<Names<'a>, OperationError> {
        let (layout, rest) = NamesLayout::ref_from_prefix(body).map_err(|_| OperationError::Length)?;
        let name_bytes = usize::from(layout.name_bytes.get());
        let second_bytes = usize::from(layout.second_bytes.get());
        if rest.len() != name_bytes + second_bytes || second_bytes > SYMLINK_BYTES_MAX {
            return Err(OperationError::Length);
        }
        let (name, second) = rest.split_at(name_bytes);
        if !is_entry_name(name) {
            return Err(OperationError::Name);
        }
        Ok(Names {
            mode: layout.mode.get(),
            uid: layout.uid.get(),
            gid: layout.gid.get(),
            device: layout.device.get(),
            new_parent: InodeNumber(layout.new_parent.get()),
            replaced: InodeNumber(layout.replaced.get()),
            name,
            second,
        })
    }
}
