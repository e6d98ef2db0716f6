//! Parcels: leases on many inodes with their records, in one run of bytes, from which LibFS takes a record when it needs it.
//!
//! A program that comes into a tree is given thousands of inodes at a time. As messages of their own they would cost both
//! sides more than all the rest of a stat; so SharedFS copies their records as the metadata store holds them, and LibFS
//! reads those it is asked for. Extended attributes are not among it: the record says whether there are any. An item is
//!
//! | bytes | what |
//! |---|---|
//! | 16 | bytes of the item, extents (both u32), inode number (u64) |
//! | 8 | bit 0: the lease is for writing, too; zeros |
//! | 96 | [`InodeLayout`] |
//! | 20 each | [`ExtentLayout`], all of a file, in order |
//! | rest | target of a symbolic link, or all names of a directory: inode u64, kind u8, length u8, the name |

use crate::inode_layout::{ExtentLayout, InodeLayout};
use crate::wire::LeaseMode;
use crate::{BLOCK_BYTES, Extent, FileKind, InodeNumber, InodeRecord, NAME_BYTES_MAX};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ItemLayout {
    bytes: U32,
    extents: U32,
    inode: U64,
    flags: U64,
    record: InodeLayout,
}

const ITEM_BYTES: usize = size_of::<ItemLayout>();
const _: () = assert!(ITEM_BYTES == 24 + 96);

const FLAG_WRITE: u64 = 1;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct NameLayout {
    inode: U64,
    kind: u8,
    length: u8,
}

/// Puts a parcel together.
#[derive(Debug, Default)]
pub struct Packer {
    bytes: Vec<u8>,
    item: usize,
}

impl Packer {
    /// Begins an item. Extents that are pushed belong to it until the next item begins.
    pub fn begin(&mut self, inode: InodeNumber, mode: LeaseMode, record: InodeLayout) {
        self.item = self.bytes.len();
        let bytes = (ITEM_BYTES as u32).into();
        let head =
            ItemLayout { bytes, extents: 0.into(), inode: inode.0.into(), flags: flags(mode).into(), record };
        self.bytes.extend_from_slice(head.as_bytes());
    }

    /// An extent of a file: all of them, in order.
    pub fn extent(&mut self, extent: &Extent) {
        self.bytes.extend_from_slice(ExtentLayout::from(extent).as_bytes());
        self.amend(1);
    }

    /// The target of a symbolic link.
    pub fn target(&mut self, target: &[u8]) {
        self.bytes.extend_from_slice(target);
        self.amend(0);
    }

    /// A name of a directory: all of them, in any order.
    pub fn name(&mut self, name: &[u8], inode: InodeNumber, kind: FileKind) {
        debug_assert!(name.len() <= NAME_BYTES_MAX);
        let head = NameLayout { inode: inode.0.into(), kind: kind as u8, length: name.len() as u8 };
        self.bytes.extend_from_slice(head.as_bytes());
        self.bytes.extend_from_slice(name);
        self.amend(0);
    }

    /// An item as another packer made it, under a lease in `mode`. Answers whether it is one.
    pub fn push(&mut self, item: &[u8], mode: LeaseMode) -> bool {
        self.item = self.bytes.len();
        self.bytes.extend_from_slice(item);
        match ItemLayout::mut_from_prefix(&mut self.bytes[self.item..]) {
            Ok((head, _)) => head.flags = flags(mode).into(),
            Err(_) => self.abandon(),
        }
        self.bytes.len() > self.item
    }

    fn amend(&mut self, extents: u32) {
        let bytes = (self.bytes.len() - self.item) as u32;
        if let Ok((head, _)) = ItemLayout::mut_from_prefix(&mut self.bytes[self.item..]) {
            head.bytes = bytes.into();
            head.extents += extents;
        }
    }

    /// Takes the last item back.
    pub fn abandon(&mut self) {
        self.bytes.truncate(self.item);
    }

    /// Bytes so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing was packed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The parcel, to send.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

fn flags(mode: LeaseMode) -> u64 {
    if mode == LeaseMode::Write { FLAG_WRITE } else { 0 }
}

/// A parcel cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a parcel makes no sense at byte {0}")]
pub struct ParcelError(usize);

/// A parcel that was checked.
#[derive(Debug)]
pub struct Parcel(Box<[u8]>);

/// Where an item of a parcel begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemAt(pub u32);

impl Parcel {
    /// Checks bytes that came by a message; each inode is shown to `visit`.
    pub fn open(bytes: Vec<u8>, mut visit: impl FnMut(InodeNumber, ItemAt)) -> Result<Parcel, ParcelError> {
        let mut at = 0;
        while at < bytes.len() {
            let item = item_at(&bytes, at).filter(Item::is_sound).ok_or(ParcelError(at))?;
            visit(
                InodeNumber(item.head.inode.get()),
                ItemAt(u32::try_from(at).map_err(|_| ParcelError(at))?),
            );
            at += item.head.bytes.get() as usize;
        }
        Ok(Parcel(bytes.into()))
    }

    /// The item that begins there. Nothing if it is another parcel's place.
    #[must_use]
    pub fn item(&self, at: ItemAt) -> Option<Item<'_>> {
        item_at(&self.0, at.0 as usize)
    }

    /// How many bytes it has.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.len()
    }
}

fn item_at(bytes: &[u8], at: usize) -> Option<Item<'_>> {
    let bytes = bytes.get(at..)?;
    let (head, _) = ItemLayout::ref_from_prefix(bytes).ok()?;
    let rest = bytes.get(ITEM_BYTES..head.bytes.get() as usize)?;
    let (extents, rest) =
        <[ExtentLayout]>::ref_from_prefix_with_elems(rest, head.extents.get() as usize).ok()?;
    Some(Item { head, extents, rest })
}

/// The lease on one inode, with its record.
#[derive(Clone, Copy)]
pub struct Item<'a> {
    head: &'a ItemLayout,
    extents: &'a [ExtentLayout],
    rest: &'a [u8],
}

impl<'a> Item<'a> {
    fn is_sound(&self) -> bool {
        match FileKind::from_mode(self.head.record.mode()) {
            Some(FileKind::Directory) => {
                let names: usize = self.names().map(|(name, ..)| size_of::<NameLayout>() + name.len()).sum();
                names == self.rest.len()
            }
            Some(_) => true,
            None => false,
        }
    }

    /// The inode.
    #[must_use]
    pub fn record(&self) -> InodeRecord {
        self.head.record.record(InodeNumber(self.head.inode.get()))
    }

    /// What may be done under the lease.
    #[must_use]
    pub fn mode(&self) -> LeaseMode {
        if self.head.flags.get() & FLAG_WRITE != 0 { LeaseMode::Write } else { LeaseMode::Read }
    }

    /// All extents of a file, in order.
    pub fn extents(&self) -> impl Iterator<Item = Extent> + use<'a> {
        self.extents.iter().map(Extent::from)
    }

    /// Blocks a file has below its end.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        let end = self.record().size.div_ceil(BLOCK_BYTES);
        let below = |extent: Extent| u64::from(extent.blocks).min(end.saturating_sub(extent.file_block));
        self.extents().map(below).fold(0, u64::saturating_add)
    }

    /// The target of a symbolic link.
    #[must_use]
    pub fn target(&self) -> &'a [u8] {
        self.rest
    }

    /// All names of a directory.
    pub fn names(&self) -> impl Iterator<Item = (&'a [u8], InodeNumber, FileKind)> + Clone + use<'a> {
        let mut rest = self.rest;
        std::iter::from_fn(move || {
            let (head, behind) = NameLayout::ref_from_prefix(rest).ok()?;
            let (name, behind) = behind.split_at_checked(usize::from(head.length))?;
            rest = behind;
            Some((name, InodeNumber(head.inode.get()), FileKind::from_byte(head.kind)?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BlockAddress, Timestamp};

    fn layout(mode: u32) -> InodeLayout {
        InodeLayout::from(&InodeRecord::new(InodeNumber(0), mode, 7, 8, Timestamp(-9)))
    }

    fn extent(file_block: u64) -> Extent {
        Extent { file_block, blocks: 3, address: BlockAddress(file_block << 20) }
    }

    fn packed() -> Vec<u8> {
        let mut packer = Packer::default();
        packer.begin(InodeNumber(5), LeaseMode::Write, layout(0o100_644));
        packer.extent(&extent(0));
        packer.extent(&extent(10));
        packer.begin(InodeNumber(6), LeaseMode::Read, layout(0o100_600));
        packer.begin(InodeNumber(7), LeaseMode::Write, layout(0o120_777));
        packer.target(b"else/where");
        packer.begin(InodeNumber(8), LeaseMode::Write, layout(0o040_755));
        packer.name(b"caf\xe9", InodeNumber(5), FileKind::File);
        packer.name(&[b'x'; 255], InodeNumber(7), FileKind::Symlink);
        packer.begin(InodeNumber(9), LeaseMode::Write, layout(0o100_644));
        packer.abandon();
        packer.finish()
    }

    #[test]
    fn what_is_packed_is_found() {
        let mut places = Vec::new();
        let parcel = Parcel::open(packed(), |inode, at| places.push((inode.0, at))).unwrap();
        assert_eq!(places.iter().map(|place| place.0).collect::<Vec<_>>(), [5, 6, 7, 8]);
        let items: Vec<_> = places.iter().map(|&(_, at)| parcel.item(at).unwrap()).collect();
        assert_eq!(items[0].record(), InodeRecord::new(InodeNumber(5), 0o100_644, 7, 8, Timestamp(-9)));
        assert_eq!(items[0].extents().collect::<Vec<_>>(), [extent(0), extent(10)]);
        assert_eq!(items[0].blocks(), 0, "nothing of an empty file lies below its end");
        assert_eq!((items[0].mode(), items[1].mode()), (LeaseMode::Write, LeaseMode::Read));
        assert_eq!(items[1].extents().count(), 0);
        assert_eq!(items[2].target(), b"else/where");
        let names: Vec<_> = items[3].names().collect();
        assert_eq!(names[0], (b"caf\xe9".as_slice(), InodeNumber(5), FileKind::File));
        assert_eq!((names[1].0.len(), names.len()), (255, 2));
    }

    #[test]
    fn items_are_packed_again_under_another_lease() {
        let bytes = packed();
        let mut items = Vec::new();
        Parcel::open(bytes.clone(), |inode, at| items.push((inode, at.0 as usize))).unwrap();
        let (first, second) = (items[0], items[1]);
        let mut packer = Packer::default();
        assert!(packer.push(&bytes[second.1..items[2].1], LeaseMode::Write));
        assert!(!packer.push(&bytes[..7], LeaseMode::Write), "no item is as short");
        assert!(packer.push(&bytes[first.1..second.1], LeaseMode::Read));
        let mut found = Vec::new();
        let parcel = Parcel::open(packer.finish(), |inode, at| found.push((inode, at))).unwrap();
        let modes: Vec<_> =
            found.iter().map(|&(inode, at)| (inode, parcel.item(at).unwrap().mode())).collect();
        assert_eq!(modes, [(second.0, LeaseMode::Write), (first.0, LeaseMode::Read)]);
        assert_eq!(parcel.item(found[1].1).unwrap().extents().count(), 2);
    }

    #[test]
    fn damaged_parcels_are_errors_or_other_numbers() {
        let bytes = packed();
        let ends = {
            let mut ends = vec![0];
            Parcel::open(bytes.clone(), |_, at| ends.push(at.0 as usize)).unwrap();
            ends
        };
        for len in (1..bytes.len()).filter(|len| !ends.contains(len)) {
            assert!(Parcel::open(bytes[..len].to_vec(), |_, _| ()).is_err(), "{len} bytes");
        }
        for place in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[place] ^= 0xff;
            let mut places = Vec::new();
            if let Ok(parcel) = Parcel::open(flipped, |_, at| places.push(at)) {
                for at in places {
                    let item = parcel.item(at).unwrap();
                    let _ = (item.record(), item.extents().count(), item.names().count());
                }
            }
        }
    }
}
