//! The mark of a whole file: where its slots and its identity lie.

/// The kind of our header; among those the specification leaves to systems.
pub const KIND: u32 = 0x6375_6573;

pub(crate) const HEADER_BYTES: usize = 56;

/// What our header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Where the slots are, from the library's base.
    pub slots: usize,
    /// Where the [`Identity`] is, if it stands for another file.
    pub identity: Option<usize>,
    /// Which build of ours wrote the stubs.
    pub writer: u64,
    /// Sites patched.
    pub patched: u32,
    /// Sites of no interest.
    pub left: u32,
}

/// A file by its device and number.
pub type FileNumber = (u64, u64);

/// Which file of the system's this stands for, as it is written in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The library's.
    pub original: FileNumber,
    /// Its own.
    pub own: FileNumber,
    /// How long the library's path is, which follows.
    pub path_bytes: usize,
}

/// Bytes of an [`Identity`], without the path.
pub const IDENTITY_BYTES: usize = 40;

impl Mark {
    /// From a header of this kind: where it says that it lies in the file and in memory, and how long that is.
    pub fn of_header(header: &libc::Elf64_Phdr) -> Option<Self> {
        (header.p_type == KIND).then_some(Self {
            slots: header.p_vaddr as usize,
            identity: identity(header.p_offset),
            writer: header.p_paddr,
            patched: header.p_filesz as u32,
            left: header.p_memsz as u32,
        })
    }

    /// From the bytes of a header.
    pub fn decode(header: &[u8]) -> Option<Self> {
        let field = |index: usize| word(header, 8 + index * 8);
        (kind(header) == KIND).then_some(())?;
        Some(Self {
            identity: identity(field(0)?),
            slots: field(1)? as usize,
            writer: field(2)?,
            patched: field(3)? as u32,
            left: field(4)? as u32,
        })
    }

    pub(crate) fn encode(self) -> [u8; HEADER_BYTES] {
        let identity = self.identity.unwrap_or(0) as u64;
        let words = [identity, self.slots as u64, self.writer, self.patched.into(), self.left.into(), 8];
        header(KIND, libc::PF_R, words)
    }
}

/// Where a mark says that the identity is: never at the file's start.
fn identity(place: u64) -> Option<usize> {
    (place != 0).then_some(place as usize)
}

impl Identity {
    pub(crate) fn encode(self) -> [u8; IDENTITY_BYTES] {
        let mut bytes = [0; IDENTITY_BYTES];
        let words = [self.original.0, self.original.1, self.own.0, self.own.1, self.path_bytes as u64]
            .map(u64::to_le_bytes);
        bytes.copy_from_slice(words.as_flattened());
        bytes
    }

    /// As it was written.
    pub fn decode(bytes: &[u8; IDENTITY_BYTES]) -> Self {
        let word = |index: usize| word(bytes, index * 8).unwrap_or_default();
        Self { original: (word(0), word(1)), own: (word(2), word(3)), path_bytes: word(4) as usize }
    }
}

pub(crate) fn header(kind: u32, flags: u32, words: [u64; 6]) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..4].copy_from_slice(&kind.to_le_bytes());
    header[4..8].copy_from_slice(&flags.to_le_bytes());
    header[8..].copy_from_slice(words.map(u64::to_le_bytes).as_flattened());
    header
}

pub(crate) fn kind(header: &[u8]) -> u32 {
    word(header, 0).unwrap_or_default() as u32
}

pub(crate) fn flags(header: &[u8]) -> u32 {
    (word(header, 0).unwrap_or_default() >> 32) as u32
}

pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at.checked_add(8)?)?.try_into().ok().map(u64::from_le_bytes)
}

pub(crate) fn set_word(bytes: &mut [u8], at: usize, word: u64) {
    bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
}
