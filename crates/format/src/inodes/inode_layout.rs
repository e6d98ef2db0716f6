//! Inodes and extents as bytes: in the metadata store, and in parcels. Little-endian, fixed width.

use crate::{BlockAddress, Extent, InodeNumber, InodeRecord, Timestamp};
use zerocopy::little_endian::{I64, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// What an inode's record holds, but for its number.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
pub struct InodeLayout {
    mode: U32,
    uid: U32,
    gid: U32,
    links: U32,
    device: U64,
    size: U64,
    blocks: U64,
    accessed: I64,
    modified: I64,
    changed: I64,
    born: I64,
    parent: U64,
    extended: U32,
    flags: U32,
    tree: U64,
}

const _: () = assert!(size_of::<InodeLayout>() == 96);

/// The file is in mapped mode.
const FLAG_MAPPED: u32 = 1;
/// It has an access list.
const FLAG_ACCESS_LIST: u32 = 2;
/// It has a default list.
const FLAG_DEFAULT_LIST: u32 = 4;

/// An extent.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
pub struct ExtentLayout {
    file_block: U64,
    address: U64,
    blocks: U32,
}

const _: () = assert!(size_of::<ExtentLayout>() == 20);

impl InodeLayout {
    /// The record of the inode with this number.
    #[must_use]
    pub fn record(&self, inode: InodeNumber) -> InodeRecord {
        InodeRecord {
            inode,
            mode: self.mode.get(),
            uid: self.uid.get(),
            gid: self.gid.get(),
            links: self.links.get(),
            device: self.device.get(),
            size: self.size.get(),
            blocks: self.blocks.get(),
            extended: self.extended.get(),
            access_list: self.has(FLAG_ACCESS_LIST),
            default_list: self.has(FLAG_DEFAULT_LIST),
            mapped: self.is_mapped(),
            accessed: Timestamp(self.accessed.get()),
            modified: Timestamp(self.modified.get()),
            changed: Timestamp(self.changed.get()),
            born: Timestamp(self.born.get()),
            parent: InodeNumber(self.parent.get()),
            tree: InodeNumber(self.tree.get()),
        }
    }

    /// Whether it is a file in mapped mode.
    #[must_use]
    pub fn is_mapped(&self) -> bool {
        self.has(FLAG_MAPPED)
    }

    fn has(&self, flag: u32) -> bool {
        self.flags.get() & flag != 0
    }

    /// Names that point to it.
    #[must_use]
    pub fn links(&self) -> u32 {
        self.links.get()
    }

    /// Kind and permissions, as `st_mode`.
    #[must_use]
    pub fn mode(&self) -> u32 {
        self.mode.get()
    }
}

impl From<&InodeRecord> for InodeLayout {
    fn from(record: &InodeRecord) -> InodeLayout {
        let flags = [
            (record.mapped, FLAG_MAPPED),
            (record.access_list, FLAG_ACCESS_LIST),
            (record.default_list, FLAG_DEFAULT_LIST),
        ];
        let flags: u32 = flags.iter().filter(|(on, _)| *on).map(|(_, flag)| flag).sum();
        InodeLayout {
            mode: record.mode.into(),
            uid: record.uid.into(),
            gid: record.gid.into(),
            links: record.links.into(),
            device: record.device.into(),
            size: record.size.into(),
            blocks: record.blocks.into(),
            accessed: record.accessed.0.into(),
            modified: record.modified.0.into(),
            changed: record.changed.0.into(),
            born: record.born.0.into(),
            parent: record.parent.0.into(),
            extended: record.extended.into(),
            flags: flags.into(),
            tree: record.tree.0.into(),
        }
    }
}

impl From<&Extent> for ExtentLayout {
    fn from(extent: &Extent) -> ExtentLayout {
        ExtentLayout {
            file_block: extent.file_block.into(),
            address: extent.address.0.into(),
            blocks: extent.blocks.into(),
        }
    }
}

impl From<&ExtentLayout> for Extent {
    fn from(layout: &ExtentLayout) -> Extent {
        Extent {
            file_block: layout.file_block.get(),
            blocks: layout.blocks.get(),
            address: BlockAddress(layout.address.get()),
        }
    }
}
