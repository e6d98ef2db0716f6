//! The bytes of a store's files at one instant, with a hash that follows every change, so that
//! equal states are recognised without comparing them.

use cuesta_media::recorder::{BaseFile, LinesRead, RegionKey};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// A cache line: the unit in which memory becomes durable.
pub(in crate::explorer) const LINE: u64 = 64;

/// Names the bytes of a whole image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::explorer) struct ImageHash(pub(in crate::explorer) u128);

/// A file of the image.
#[derive(Clone)]
pub(in crate::explorer) struct ImageFile {
    pub(in crate::explorer) path: PathBuf,
    /// What stands for the path in the hash.
    name: u64,
    pub(in crate::explorer) len: u64,
    /// Its first bytes; the rest are zeros.
    pub(in crate::explorer) bytes: Vec<u8>,
    /// The hash of each line of them, and their sum.
    lines: Vec<u128>,
    sum: u128,
}

/// All files of a store.
#[derive(Clone)]
pub(in crate::explorer) struct Image {
    files: BTreeMap<RegionKey, ImageFile>,
    hash: u128,
}

/// The bytes that a store into an image replaced.
pub(in crate::explorer) struct Undo {
    region: RegionKey,
    offset: u64,
    bytes: Vec<u8>,
}

impl Image {
    /// The image before the first event; paths are taken relative to `root`.
    pub(in crate::explorer) fn new(base: &[BaseFile], root: &Path) -> Image {
        let mut image = Image { files: BTreeMap::new(), hash: 0 };
        for file in base {
            image.appear(file.region, relative(&file.path, root), file.len, &file.contents);
        }
        image
    }

    pub(in crate::explorer) fn files(&self) -> impl Iterator<Item = &ImageFile> {
        self.files.values()
    }

    /// The path of a file, if it is there.
    pub(in crate::explorer) fn path(&self, region: RegionKey) -> Option<&Path> {
        self.files.get(&region).map(|file| file.path.as_path())
    }

    pub(in crate::explorer) fn hash(&self) -> ImageHash {
        ImageHash(self.hash)
    }

    /// The hash of the names and lengths of all files.
    pub(in crate::explorer) fn hash_of_heads(&self) -> u128 {
        self.files.values().fold(0, |sum, file| sum.wrapping_add(file.head()))
    }

    /// The hash of some lines.
    pub(in crate::explorer) fn hash_of_lines(&self, read: &LinesRead) -> u128 {
        let Some(file) = self.files.values().find(|file| file.path == read.path) else { return 0 };
        let hashes = read.lines.iter().filter_map(|line| file.lines.get(*line as usize));
        hashes.fold(0, |sum, hash| sum.wrapping_add(*hash))
    }

    /// Adds a file that ends in zeros behind `bytes`, or replaces what was known under its region or its path.
    pub(in crate::explorer) fn appear(&mut self, region: RegionKey, path: PathBuf, len: u64, bytes: &[u8]) {
        self.take(|other, _| other == region);
        self.take(|_, other| other.path == path);
        let (name, bytes) = (name_of(&path), bytes.to_vec());
        let mut file = ImageFile { name, path, len, bytes, lines: Vec::new(), sum: 0 };
        file.hash_lines_from(0);
        self.hash = self.hash.wrapping_add(file.hash());
        self.files.insert(region, file);
    }

    /// What of `bytes` at `offset` lies within the file: what programs store behind its end is no content.
    pub(in crate::explorer) fn within<'b>(
        &self,
        region: RegionKey,
        offset: u64,
        bytes: &'b [u8],
    ) -> &'b [u8] {
        let len = self.files.get(&region).map_or(0, |file| file.len);
        &bytes[..len.saturating_sub(offset).min(bytes.len() as u64) as usize]
    }

    /// Stores bytes; those outside the file are ignored, as stores behind a truncation are.
    pub(in crate::explorer) fn store(
        &mut self,
        region: RegionKey,
        offset: u64,
        bytes: &[u8],
    ) -> Option<Undo> {
        let file = self.files.get_mut(&region)?;
        let end = file.len.min(offset + bytes.len() as u64);
        let length = end.checked_sub(offset).filter(|length| *length > 0)? as usize;
        if file.bytes.len() < end as usize {
            file.bytes.resize(end as usize, 0);
        }
        let before = file.sum;
        let place = &mut file.bytes[offset as usize..end as usize];
        let undo = Undo { region, offset, bytes: place.to_vec() };
        place.copy_from_slice(&bytes[..length]);
        file.hash_lines(offset / LINE, end.div_ceil(LINE));
        self.hash = self.hash.wrapping_sub(before).wrapping_add(file.sum);
        Some(undo)
    }

    /// Writes bytes as the kernel does: behind its end the file grows.
    pub(in crate::explorer) fn write(&mut self, region: RegionKey, offset: u64, bytes: &[u8]) {
        self.extend(region, offset + bytes.len() as u64);
        self.store(region, offset, bytes);
    }

    /// Has a file reach to `end`, at least.
    pub(in crate::explorer) fn extend(&mut self, region: RegionKey, end: u64) {
        if self.files.get(&region).is_some_and(|file| file.len < end) {
            self.set_len(region, end);
        }
    }

    /// Takes stores back, the last first.
    pub(in crate::explorer) fn revert(&mut self, undo: Vec<Undo>) {
        for Undo { region, offset, bytes } in undo.into_iter().rev() {
            self.store(region, offset, &bytes);
        }
    }

    /// Gives a file another name, which another may have had.
    pub(in crate::explorer) fn rename(&mut self, region: RegionKey, path: PathBuf) {
        let Some(mut file) = self.take(|other, _| other == region) else { return };
        self.take(|_, other| other.path == path);
        file.1.name = name_of(&path);
        file.1.path = path;
        file.1.hash_lines_from(0);
        self.hash = self.hash.wrapping_add(file.1.hash());
        self.files.insert(region, file.1);
    }

    /// Removes a file, and says which it was.
    pub(in crate::explorer) fn remove(&mut self, path: &Path) -> Option<RegionKey> {
        self.take(|_, file| file.path == path).map(|(region, _)| region)
    }

    fn take(&mut self, which: impl Fn(RegionKey, &ImageFile) -> bool) -> Option<(RegionKey, ImageFile)> {
        let region =
            self.files.iter().find(|(region, file)| which(**region, file)).map(|(region, _)| *region)?;
        let file = self.files.remove(&region)?;
        self.hash = self.hash.wrapping_sub(file.hash());
        Some((region, file))
    }

    pub(in crate::explorer) fn set_len(&mut self, region: RegionKey, len: u64) {
        if let Some(file) = self.files.get_mut(&region) {
            let before = file.hash();
            file.len = len;
            file.bytes.truncate(len as usize);
            file.hash_lines_from(len / LINE);
            self.hash = self.hash.wrapping_sub(before).wrapping_add(file.hash());
        }
    }
}

/// `path` below `root`; a path elsewhere stays as it is.
pub(in crate::explorer) fn relative(path: &Path, root: &Path) -> PathBuf {
    path.strip_prefix(root).unwrap_or(path).to_path_buf()
}

fn name_of(path: &Path) -> u64 {
    let mut name = DefaultHasher::new();
    path.hash(&mut name);
    name.finish()
}

impl ImageFile {
    fn head(&self) -> u128 {
        mix(!self.len, self.name)
    }

    fn hash(&self) -> u128 {
        self.head().wrapping_add(self.sum)
    }

    /// Hashes the lines from `first` on anew, however many there are now.
    fn hash_lines_from(&mut self, first: u64) {
        let past = (self.bytes.len() as u64).div_ceil(LINE);
        let gone = self.lines.drain((past as usize).min(self.lines.len())..);
        self.sum = gone.fold(self.sum, u128::wrapping_sub);
        self.hash_lines(first, past);
    }

    /// Hashes the lines `first..past` anew.
    fn hash_lines(&mut self, first: u64, past: u64) {
        let count = self.bytes.len().div_ceil(LINE as usize);
        if self.lines.len() < count {
            self.lines.resize(count, 0);
        }
        let end = (past * LINE).min(self.bytes.len() as u64) as usize;
        let lines = self.bytes.get((first * LINE) as usize..end).unwrap_or_default();
        for (line, number) in lines.chunks(LINE as usize).zip(first..) {
            let before =
                std::mem::replace(&mut self.lines[number as usize], line_hash(self.name, number, line));
            self.sum = self.sum.wrapping_sub(before).wrapping_add(self.lines[number as usize]);
        }
    }
}

/// Zeros at the end of a line, or a line of them, count nothing.
fn line_hash(name: u64, number: u64, line: &[u8]) -> u128 {
    let Some(last) = line.iter().rposition(|byte| *byte != 0) else { return 0 };
    let mut hash = mix(name, number);
    for word in line[..=last].chunks(8) {
        let mut bytes = [0; 8];
        bytes[..word.len()].copy_from_slice(word);
        hash = mix((hash >> 64) as u64 ^ u64::from_le_bytes(bytes), hash as u64);
    }
    hash
}

/// Two words stirred into 128 bits.
fn mix(left: u64, right: u64) -> u128 {
    const ODD: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;
    let word = ((u128::from(left) << 64) | u128::from(right)).wrapping_add(ODD >> 1);
    let word = (word ^ (word >> 67)).wrapping_mul(ODD);
    word ^ (word >> 61)
}
