//! Which attributes an entry sets, and how they are laid out.

use crate::Timestamp;
use zerocopy::little_endian::{I64, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Which attributes a [`Operation::SetAttributes`] sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// New permission bits (the kind of the inode stays).
    pub mode: Option<u32>,
    /// New owner.
    pub uid: Option<u32>,
    /// New group.
    pub gid: Option<u32>,
    /// New time of last read.
    pub accessed: Option<Timestamp>,
    /// New time of last change of content.
    pub modified: Option<Timestamp>,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct AttributesLayout {
    which: U32,
    mode: U32,
    uid: U32,
    gid: U32,
    accessed: I64,
    modified: I64,
}

pub(super) const ATTRIBUTES_BYTES: usize = size_of::<AttributesLayout>();
const _: () = assert!(ATTRIBUTES_BYTES == 32);

impl Attributes {
    pub(super) fn layout(&self) -> AttributesLayout {
        let set = [
            self.mode.is_some(),
            self.uid.is_some(),
            self.gid.is_some(),
            self.accessed.is_some(),
            self.modified.is_some(),
        ];
        let which: u32 = set.iter().enumerate().map(|(bit, &on)| u32::from(on) << bit).sum();
        AttributesLayout {
            which: which.into(),
            mode: self.mode.unwrap_or(0).into(),
            uid: self.uid.unwrap_or(0).into(),
            gid: self.gid.unwrap_or(0).into(),
            accessed: self.accessed.unwrap_or_default().0.into(),
            modified: self.modified.unwrap_or_default().0.into(),
        }
    }

    pub(super) fn from_layout(layout: &AttributesLayout) -> Attributes {
        let which = layout.which.get();
        Attributes {
            mode: (which & 1 != 0).then(|| layout.mode.get()),
            uid: (which & 2 != 0).then(|| layout.uid.get()),
            gid: (which & 4 != 0).then(|| layout.gid.get()),
            accessed: (which & 8 != 0).then(|| Timestamp(layout.accessed.get())),
            modified: (which & 16 != 0).then(|| Timestamp(layout.modified.get())),
        }
    }
}
