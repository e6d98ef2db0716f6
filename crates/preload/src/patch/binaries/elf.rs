//! An ELF file as it is read while it is being mapped, or as it lies in memory: its segments, its build-id, and
//! which function an address belongs to.

use crate::patch::binaries::mark::Mark;

/// Reads bytes at an offset of the file, or at an address of the image.
pub type Read<'a> = &'a dyn Fn(u64, &mut [u8]) -> Option<()>;

const PT_GNU_EH_FRAME: u32 = 0x6474_e550;
const NT_GNU_BUILD_ID: u32 = 3;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_STRSZ: u64 = 10;
const DT_RPATH: u64 = 15;
const DT_RUNPATH: u64 = 29;
const DYNAMIC_BYTES_MAX: usize = 1 << 16;
const STRINGS_BYTES_MAX: usize = 16 << 20;
const PAGE_BYTES: u64 = 4096;
const HEADER_BYTES: usize = 64;
const SEGMENT_HEADER_BYTES: usize = 56;
const SEGMENTS_MAX: usize = 64;
const NOTES_BYTES_MAX: usize = 4096;
const FUNCTIONS_MAX: usize = 1 << 20;
/// How the tables of functions are encoded everywhere: see the specification of `.eh_frame_hdr`.
const TABLE_ENCODING: [u8; 4] = [1, 0x1b, 0x03, 0x3b];

/// One segment.
#[derive(Clone, Copy, Debug)]
struct Segment {
    kind: u32,
    in_file: u64,
    address: u64,
    in_memory: u64,
    bytes_in_file: u64,
    is_code: bool,
}

impl Segment {
    fn file_end(&self) -> u64 {
        self.in_file.saturating_add(self.bytes_in_file)
    }

    /// Whether a mapping of the segment holds what stands at `offset`.
    fn covers(&self, offset: u64) -> bool {
        self.kind == libc::PT_LOAD
            && (self.in_file / PAGE_BYTES * PAGE_BYTES..self.file_end()).contains(&offset)
            && self.address >= self.in_file % PAGE_BYTES
    }
}

/// A segment of code.
#[derive(Clone, Copy, Debug)]
pub struct CodeSegment {
    /// Where it stands in the file.
    pub in_file: u64,
    /// Where it is mapped, in the file's terms.
    pub address: u64,
    /// Its length.
    pub length: u64,
}

/// The headers of the file; addresses are the file's.
#[derive(Debug)]
pub struct Elf {
    segments: Vec<Segment>,
    /// It is a whole file of ours.
    pub mark: Option<Mark>,
}

/// A library that a file needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needed {
    /// Its name; one with a slash in it is a path.
    pub name: Vec<u8>,
    /// Where the file says where among its strings the name stands, and what it says there.
    pub entry: (u64, u64),
}

impl Needed {
    /// The word that would make the file need the library named by the path's last part, and where it stands.
    pub fn without_folder(&self) -> (u64, u64) {
        let folder = self.name.len() - self.file_name().len();
        (self.entry.0, self.entry.1 + folder as u64)
    }

    /// The last part of the path.
    pub fn file_name(&self) -> &[u8] {
        self.name.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
    }
}

/// The part of a file's dynamic section that is about other files.
#[derive(Debug, Default)]
pub struct Dynamic {
    /// The libraries it needs.
    pub needed: Vec<Needed>,
    /// Where they and what they need are looked for first, unless there is a `runpath`.
    pub rpath: Option<Vec<u8>>,
    /// Where they are looked for last.
    pub runpath: Option<Vec<u8>>,
}

/// The functions of an image: addresses where they start, sorted, each with its description's.
#[derive(Debug, Default)]
pub struct Functions(Vec<(u64, u64)>);

impl Elf {
    /// Reads the headers of a 64-bit file.
    pub fn of_file(read: Read<'_>) -> Option<Self> {
        let mut header = [0; HEADER_BYTES];
        read(0, &mut header)?;
        let size = u16::from_le_bytes([header[54], header[55]]);
        let count = usize::from(u16::from_le_bytes([header[56], header[57]]));
        let is_ours = header.starts_with(b"\x7fELF\x02\x01") && usize::from(size) == SEGMENT_HEADER_BYTES;
        if !is_ours || count > SEGMENTS_MAX {
            return None;
        }
        let mut headers = vec![0; count * SEGMENT_HEADER_BYTES];
        read(word(&header, 32), &mut headers)?;
        let mark = headers.chunks_exact(SEGMENT_HEADER_BYTES).last().and_then(Mark::decode);
        let segments = headers.chunks_exact(SEGMENT_HEADER_BYTES).map(|header| Segment {
            kind: u32::from_le_bytes([header[0], header[1], header[2], header[3]]),
            in_file: word(header, 8),
            address: word(header, 16),
            in_memory: word(header, 40),
            bytes_in_file: word(header, 32),
            is_code: header[4] & libc::PF_X as u8 != 0,
        });
        Some(Self { segments: segments.collect(), mark })
    }

    /// The address, in the file's terms, of the code that stands at `offset` of the file, and how much there is.
    pub fn code_at(&self, offset: u64) -> Option<(u64, u64)> {
        let segment = self.segments.iter().find(|segment| segment.is_code && segment.covers(offset))?;
        let start = segment.in_file / PAGE_BYTES * PAGE_BYTES;
        Some((segment.address - (segment.in_file - start) + (offset - start), segment.file_end() - offset))
    }

    /// The segment of code, if there is just one.
    pub fn only_code(&self) -> Option<CodeSegment> {
        let mut all = self.segments.iter().filter(|segment| segment.kind == libc::PT_LOAD && segment.is_code);
        let only = all.next().filter(|only| only.in_memory == only.bytes_in_file)?;
        let code = CodeSegment { in_file: only.in_file, address: only.address, length: only.bytes_in_file };
        all.next().is_none().then_some(code)
    }

    /// Whether a segment has bytes between two offsets of the file.
    pub fn is_mapped_besides(&self, start: u64, end: u64) -> bool {
        let loaded = self.segments.iter().filter(|segment| segment.kind == libc::PT_LOAD);
        loaded.into_iter().any(|segment| segment.in_file < end && segment.file_end() > start)
    }

    /// The address, in the file's terms, of what stands at `offset` of the file.
    pub fn address_of(&self, offset: u64) -> Option<u64> {
        let holds = |segment: &&Segment| {
            segment.kind == libc::PT_LOAD && (segment.in_file..segment.file_end()).contains(&offset)
        };
        self.segments.iter().find(holds).map(|segment| segment.address + (offset - segment.in_file))
    }

    fn offset_of(&self, address: u64) -> Option<u64> {
        let holds = |segment: &&Segment| {
            segment.kind == libc::PT_LOAD
                && (segment.address..segment.address + segment.in_memory).contains(&address)
        };
        self.segments.iter().find(holds).map(|segment| segment.in_file + (address - segment.address))
    }

    /// The GNU build-id.
    pub fn build_id(&self, read: Read<'_>) -> Option<Vec<u8>> {
        self.segments.iter().filter(|segment| segment.kind == libc::PT_NOTE).find_map(|segment| {
            let mut notes = vec![0; usize::try_from(segment.in_memory).ok()?.min(NOTES_BYTES_MAX)];
            read(segment.in_file, &mut notes)?;
            build_id(&notes).map(<[u8]>::to_vec)
        })
    }

    /// What its dynamic section says; `None` if it has none.
    pub fn dynamic(&self, read: Read<'_>) -> Option<Dynamic> {
        let section = self.segments.iter().find(|segment| segment.kind == libc::PT_DYNAMIC)?;
        let mut entries =
            vec![0; usize::try_from(section.bytes_in_file).ok()?.min(DYNAMIC_BYTES_MAX) / 16 * 16];
        read(section.in_file, &mut entries)?;
        let entries = entries.as_chunks::<16>().0.iter().map(|entry| (word(entry, 0), word(entry, 8)));
        let entries: Vec<(u64, u64)> = entries.take_while(|(tag, _)| *tag != 0).collect();
        let value_at = |place: usize| section.in_file + 16 * place as u64 + 8;
        let value = |wanted: u64| entries.iter().find(|(tag, _)| *tag == wanted).map(|(_, value)| *value);
        let mut strings = vec![0; usize::try_from(value(DT_STRSZ)?).ok()?.min(STRINGS_BYTES_MAX)];
        read(self.offset_of(value(DT_STRTAB)?)?, &mut strings)?;
        let text = |at: u64| {
            let string = strings.get(usize::try_from(at).ok()?..)?;
            Some(string.split(|byte| *byte == 0).next()?.to_vec())
        };
        Some(Dynamic {
            needed: (0..)
                .zip(&entries)
                .filter(|(_, (tag, _))| *tag == DT_NEEDED)
                .filter_map(|(place, (_, at))| {
                    Some(Needed { name: text(*at)?, entry: (value_at(place), *at) })
                })
                .collect(),
            rpath: value(DT_RPATH).and_then(text),
            runpath: value(DT_RUNPATH).and_then(text),
        })
    }

    /// The table of functions.
    pub fn functions(&self, read: Read<'_>) -> Option<Functions> {
        let header = self.segments.iter().find(|segment| segment.kind == PT_GNU_EH_FRAME)?;
        Functions::read(header.address, &|address, bytes| read(self.offset_of(address)?, bytes))
    }

    /// Where the function at `address` ends; `None` if none is described there.
    pub fn function(&self, functions: &Functions, address: u64, read: Read<'_>) -> Option<(u64, u64)> {
        functions.find(address, &|address, bytes| read(self.offset_of(address)?, bytes))
    }
}

impl Functions {
    /// Reads the table whose header is at `header`, by addresses.
    pub fn read(header: u64, read: Read<'_>) -> Option<Self> {
        let mut head = [0; 12];
        read(header, &mut head)?;
        let count = u32::from_le_bytes([head[8], head[9], head[10], head[11]]) as usize;
        if head[..4] != TABLE_ENCODING || count > FUNCTIONS_MAX {
            return None;
        }
        let mut table = vec![0; count * 8];
        read(header + 12, &mut table)?;
        let pairs =
            table.as_chunks::<8>().0.iter().map(|pair| (near(header, pair, 0), near(header, pair, 4)));
        let mut functions: Vec<_> = pairs.collect();
        functions.sort_unstable();
        Some(Self(functions))
    }

    /// Where they start.
    pub fn starts(&self) -> Vec<u64> {
        self.0.iter().map(|(start, _)| *start).collect()
    }

    /// Where the function that `address` belongs to starts and ends.
    pub fn find(&self, address: u64, read: Read<'_>) -> Option<(u64, u64)> {
        let index = self.0.partition_point(|(start, _)| *start <= address).checked_sub(1)?;
        let (start, description) = self.0[index];
        // Length, distance to the common part, start relative to this field, length of the function.
        let mut fields = [0; 16];
        read(description, &mut fields)?;
        let length = u64::from(u32::from_le_bytes([fields[12], fields[13], fields[14], fields[15]]));
        let is_relative = near(description + 8, &fields, 8) == start;
        (is_relative && (start..start + length).contains(&address)).then_some((start, start + length))
    }
}

fn near(base: u64, bytes: &[u8], at: usize) -> u64 {
    let distance = i32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    base.wrapping_add_signed(i64::from(distance))
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].try_into().map_or(0, u64::from_le_bytes)
}

/// The GNU build-id in a segment of notes.
pub fn build_id(mut notes: &[u8]) -> Option<&[u8]> {
    while notes.len() >= 12 {
        let word = |at: usize| u32::from_ne_bytes([notes[at], notes[at + 1], notes[at + 2], notes[at + 3]]);
        let (name, description, kind) = (word(0) as usize, word(4) as usize, word(8));
        let body = 12 + name.next_multiple_of(4);
        if kind == NT_GNU_BUILD_ID && notes.get(12..12 + name)? == b"GNU\0" {
            return notes.get(body..body + description);
        }
        notes = notes.get(body + description.next_multiple_of(4)..)?;
    }
    None
}
