//! Entries of the operation log: a self-validating header, then a body.
//!
//! | bytes | what |
//! |---|---|
//! | 0..4 | checksum of bytes 4..64, salted with store, session and log generation |
//! | 4..8 | checksum of the body |
//! | 8..12 | body length in bytes |
//! | 12..16 | blocks debited from the session's credit for this entry, at worst |
//! | 16..24 | the entry's own log position |
//! | 24..32 | lease generation it was made under |
//! | 32..40 | inode |
//! | 40..48 | argument: file offset, new size, parent directory, length of a name, mode or session |
//! | 48..56 | time of the operation |
//! | 56 | kind |
//! | 57 | flags; the highest says that the body ends with a call tag ([`crate::call_tag`]) |
//! | 58..60 | zero |
//! | 60..64 | how far before the entry everything was acknowledged when it was sealed, in units of 64 bytes, plus one; 0: it does not say |
//!
//! An entry takes a multiple of 64 bytes, starts on one, and is never changed once written. The salt
//! makes whatever an earlier owner or generation left in a recycled segment invalid; the position
//! does the same for an earlier lap (docs/design/data-path.md).

use crate::call_tag::TAG_BYTES;
pub use crate::checksums::checksum::{Crc32c, crc32c};
use crate::{InodeNumber, LeaseGeneration, LogGeneration, LogPosition, SessionId, StoreId, Timestamp};
use zerocopy::little_endian::{I64, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes of a header.
pub const HEADER_BYTES: usize = 64;

/// Header flag of any kind: the body ends with a [`crate::CallTag`].
pub const FLAG_TAGGED: u8 = 128;
/// Flag of a write: its program is expected to wait for it soon (docs/design/tiers.md).
pub const FLAG_SYNCHRONOUS: u8 = 64;

/// What entries are aligned to, in bytes.
pub const ENTRY_ALIGNMENT: usize = 64;

/// What an entry does; the meaning of each field is at [`crate::Operation`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum EntryKind {
    /// A reservation that came to nothing: its body is not read.
    Void = 1,
    Write = 2,
    Truncate = 3,
    Create = 4,
    Link = 5,
    Unlink = 6,
    Rename = 7,
    SetAttributes = 8,
    Release = 9,
    SetExtended = 10,
    RemoveExtended = 11,
    Clear = 12,
    Shift = 13,
    CreateUnnamed = 14,
    SetAccessList = 15,
    ForgetCaller = 16,
    DependOn = 17,
    WriteStaged = 18,
}

impl EntryKind {
    /// The kind whose number it is.
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<EntryKind> {
        Some(match byte {
            1 => EntryKind::Void,
            2 => EntryKind::Write,
            3 => EntryKind::Truncate,
            4 => EntryKind::Create,
            5 => EntryKind::Link,
            6 => EntryKind::Unlink,
            7 => EntryKind::Rename,
            8 => EntryKind::SetAttributes,
            9 => EntryKind::Release,
            10 => EntryKind::SetExtended,
            11 => EntryKind::RemoveExtended,
            12 => EntryKind::Clear,
            13 => EntryKind::Shift,
            14 => EntryKind::CreateUnnamed,
            15 => EntryKind::SetAccessList,
            16 => EntryKind::ForgetCaller,
            17 => EntryKind::DependOn,
            18 => EntryKind::WriteStaged,
            _ => return None,
        })
    }
}

/// The salt of a log's checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Salt(u32);

impl Salt {
    /// The salt of one generation of one session's log.
    #[must_use]
    pub fn new(store: StoreId, session: SessionId, generation: LogGeneration) -> Salt {
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(&store.0);
        bytes[16..24].copy_from_slice(&session.0.to_le_bytes());
        bytes[24..].copy_from_slice(&generation.0.to_le_bytes());
        Salt(crc32c(&bytes))
    }

    /// The salt as a number, to keep it in an atomic.
    #[must_use]
    pub fn to_bits(self) -> u32 {
        self.0
    }

    /// The salt kept as a number.
    #[must_use]
    pub fn from_bits(bits: u32) -> Salt {
        Salt(bits)
    }
}

/// The fields of a header, before it is sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The kind of operation.
    pub kind: EntryKind,
    /// Flags of the kind (see [`crate::operation`]).
    pub flags: u8,
    /// Length of the body, in bytes.
    pub body_bytes: u32,
    /// Blocks debited at worst.
    pub debit_blocks: u32,
    /// Where the entry starts.
    pub position: LogPosition,
    /// The lease generation it was made under.
    pub lease_generation: LeaseGeneration,
    /// The inode it is about.
    pub inode: InodeNumber,
    /// File offset, new size, parent directory or length of a name.
    pub argument: u64,
    /// When it was made.
    pub time: Timestamp,
    /// Everything below was acknowledged when the entry was sealed: a log that breaks off before that, and has the entry, was
    /// damaged (docs/decisions/0045). Position 0: the entry does not say.
    pub acknowledged: LogPosition,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Layout {
    checksum: U32,
    body_checksum: U32,
    body_bytes: U32,
    debit_blocks: U32,
    position: U64,
    lease_generation: U64,
    inode: U64,
    argument: U64,
    time: I64,
    kind: u8,
    flags: u8,
    unused: [u8; 2],
    unacknowledged: U32,
}

const _: () = assert!(size_of::<Layout>() == HEADER_BYTES);
const _: () = assert!(std::mem::offset_of!(Layout, unacknowledged) == 60);

/// The distance from the acknowledged mark to its entry, as the header has it.
#[inline]
fn unacknowledged(position: LogPosition, acknowledged: LogPosition) -> u32 {
    if acknowledged.0 == 0 {
        return 0;
    }
    let units = position.0.saturating_sub(acknowledged.0) / ENTRY_ALIGNMENT as u64;
    // No ring is that long; an entry that could not say so says nothing.
    u32::try_from(units + 1).unwrap_or(0)
}

impl Layout {
    #[inline]
    fn fields(&self, position: LogPosition) -> Result<Header, EntryBreak> {
        if self.position.get() != position.0 {
            return Err(EntryBreak::Position);
        }
        Ok(Header {
            kind: EntryKind::from_byte(self.kind).ok_or(EntryBreak::Kind)?,
            flags: self.flags,
            body_bytes: self.body_bytes.get(),
            debit_blocks: self.debit_blocks.get(),
            position,
            lease_generation: LeaseGeneration(self.lease_generation.get()),
            inode: InodeNumber(self.inode.get()),
            argument: self.argument.get(),
            time: Timestamp(self.time.get()),
            acknowledged: self.acknowledged(position),
        })
    }

    fn acknowledged(&self, position: LogPosition) -> LogPosition {
        let said = u64::from(self.unacknowledged.get());
        let back = said.saturating_sub(1) * ENTRY_ALIGNMENT as u64;
        LogPosition(if said == 0 { 0 } else { position.0.saturating_sub(back) })
    }
}

/// Bytes an entry with a body of `body_bytes` takes in the log.
#[must_use]
pub const fn entry_bytes(body_bytes: usize) -> usize {
    (HEADER_BYTES + body_bytes).next_multiple_of(ENTRY_ALIGNMENT)
}

impl Header {
    /// Bytes the entry takes in the log.
    #[must_use]
    pub fn entry_bytes(&self) -> u64 {
        entry_bytes(self.body_bytes as usize) as u64
    }

    /// Whether the program that wrote is expected to wait for it soon.
    #[must_use]
    pub fn is_synchronous(&self) -> bool {
        self.flags & FLAG_SYNCHRONOUS != 0
    }

    /// Whether the body ends with a tag.
    #[must_use]
    pub fn is_tagged(&self) -> bool {
        self.flags & FLAG_TAGGED != 0
    }

    /// Bytes of the body without its tag.
    #[must_use]
    pub fn content_bytes(&self) -> u32 {
        self.body_bytes.saturating_sub(if self.is_tagged() { TAG_BYTES as u32 } else { 0 })
    }

    /// The position behind the entry.
    #[must_use]
    pub fn end(&self) -> LogPosition {
        self.position.plus(self.entry_bytes())
    }

    /// The fields of a header this program sealed itself for `position`: its checksum is not computed again.
    #[inline]
    pub fn of_own(bytes: &[u8; HEADER_BYTES], position: LogPosition) -> Result<Header, EntryBreak> {
        let layout: Layout = zerocopy::transmute!(*bytes);
        layout.fields(position)
    }

    /// The header's bytes, checksummed; `body_checksum` is [`crc32c`] of the body (not read for
    /// [`EntryKind::Void`]).
    #[must_use]
    pub fn seal(&self, salt: Salt, body_checksum: u32) -> [u8; HEADER_BYTES] {
        let mut layout = Layout {
            checksum: U32::ZERO,
            body_checksum: body_checksum.into(),
            body_bytes: self.body_bytes.into(),
            debit_blocks: self.debit_blocks.into(),
            position: self.position.0.into(),
            lease_generation: self.lease_generation.0.into(),
            inode: self.inode.0.into(),
            argument: self.argument.into(),
            time: self.time.0.into(),
            kind: self.kind as u8,
            flags: self.flags,
            unused: [0; 2],
            unacknowledged: unacknowledged(self.position, self.acknowledged).into(),
        };
        layout.checksum = (crc32c(&layout.as_bytes()[4..]) ^ salt.0).into();
        zerocopy::transmute!(layout)
    }
}

/// Where and why a scan of a log ends. Each is an ordinary end of a log, not an error: what was
/// never acknowledged may be torn in any way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryBreak {
    /// The checksum does not fit: never written, torn, of another generation, or damaged.
    #[error("no entry of this log generation starts here")]
    Checksum,
    /// A valid header of another place (an earlier lap).
    #[error("the entry here is an earlier lap's")]
    Position,
    /// The kind is unknown to this version.
    #[error("the entry is of a kind this version does not know")]
    Kind,
    /// The length is impossible.
    #[error("the entry's length is impossible")]
    Length,
    /// The body does not fit its checksum: the copy was torn.
    #[error("the entry's body is torn")]
    Body,
}

/// A header that was checked; its body was not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifiedHeader {
    fields: Header,
    body_checksum: u32,
}

impl VerifiedHeader {
    /// Checks a copy of 64 bytes found at `position`. `entry_bytes_max` bounds the whole entry.
    pub fn verify(
        bytes: &[u8; HEADER_BYTES],
        salt: Salt,
        position: LogPosition,
        entry_bytes_max: u64,
    ) -> Result<VerifiedHeader, EntryBreak> {
        let layout: Layout = zerocopy::transmute!(*bytes);
        if crc32c(&bytes[4..]) ^ salt.0 != layout.checksum.get() {
            return Err(EntryBreak::Checksum);
        }
        let fields = layout.fields(position)?;
        if fields.entry_bytes() > entry_bytes_max {
            return Err(EntryBreak::Length);
        }
        Ok(VerifiedHeader { fields, body_checksum: layout.body_checksum.get() })
    }

    /// The header's fields.
    #[must_use]
    pub fn fields(&self) -> &Header {
        &self.fields
    }

    /// The checksum the body must have; meaningless for [`EntryKind::Void`].
    #[must_use]
    pub fn body_checksum(&self) -> u32 {
        self.body_checksum
    }

    /// Checks the body, where the kind has one that is read.
    pub fn verify_body(&self, body: &[u8]) -> Result<(), EntryBreak> {
        if self.fields.kind == EntryKind::Void {
            return Ok(());
        }
        if body.len() != self.fields.body_bytes as usize || crc32c(body) != self.body_checksum {
            return Err(EntryBreak::Body);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn salt(generation: u64) -> Salt {
        Salt::new(StoreId([1; 16]), SessionId(5), LogGeneration(generation))
    }

    fn header() -> Header {
        Header {
            kind: EntryKind::Write,
            flags: 0,
            body_bytes: 5,
            debit_blocks: 2,
            position: LogPosition(128),
            lease_generation: LeaseGeneration(3),
            inode: InodeNumber(9),
            argument: 4096,
            time: Timestamp(-1),
            acknowledged: LogPosition(64),
        }
    }

    #[test]
    fn a_sealed_header_verifies_where_it_was_written_only() {
        let bytes = header().seal(salt(1), crc32c(b"hello"));
        let verified = VerifiedHeader::verify(&bytes, salt(1), LogPosition(128), 1 << 20).unwrap();
        assert_eq!(*verified.fields(), header());
        assert_eq!(verified.verify_body(b"hello"), Ok(()));
        assert_eq!(verified.verify_body(b"hellO"), Err(EntryBreak::Body));
        assert_eq!(verified.fields().end(), LogPosition(256));
        let verify = |salt, at, max| VerifiedHeader::verify(&bytes, salt, LogPosition(at), max).err();
        assert_eq!(verify(salt(2), 128, 1 << 20), Some(EntryBreak::Checksum));
        assert_eq!(verify(salt(1), 192, 1 << 20), Some(EntryBreak::Position));
        assert_eq!(verify(salt(1), 128, 64), Some(EntryBreak::Length));
    }

    /// An entry says nothing if it was sealed by a version that did not know marks, or before anything was acknowledged.
    #[test]
    fn an_entry_says_how_far_its_log_was_acknowledged() {
        for (position, acknowledged) in [(128, 64), (128, 128), (128, 0), (1 << 36, 64), (64, 64)] {
            let header = Header {
                position: LogPosition(position),
                acknowledged: LogPosition(acknowledged),
                ..header()
            };
            let bytes = header.seal(salt(1), 0);
            let verified = VerifiedHeader::verify(&bytes, salt(1), LogPosition(position), 1 << 20).unwrap();
            assert_eq!(verified.fields().acknowledged, LogPosition(acknowledged));
        }
        let far = Header { position: LogPosition(1 << 50), ..header() }.seal(salt(1), 0);
        let far = VerifiedHeader::verify(&far, salt(1), LogPosition(1 << 50), 1 << 20).unwrap();
        assert_eq!(
            far.fields().acknowledged,
            LogPosition(0),
            "an entry too far behind its mark says nothing"
        );
    }

    #[test]
    fn each_flipped_bit_is_noticed() {
        let good = header().seal(salt(1), 0);
        for bit in 0..HEADER_BYTES * 8 {
            let mut bytes = good;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(VerifiedHeader::verify(&bytes, salt(1), LogPosition(128), 1 << 20).is_err());
        }
    }
}
