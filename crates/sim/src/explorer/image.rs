//! The bytes of a store's files at one instant, with a hash that follows every change, so that
//! equal states are recognised without comparing them.

use cuesta_media::recorder::{BaseFile, RegionKey};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// A cache line: the unit in which memory becomes durable.
pub(super) const LINE: u64 = 64;

/// Names the bytes of a whole image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ImageHash(u128);

/// A file of the image.
#[derive(Clone)]
pub(super) struct ImageFile {
    pub(super) path: PathBuf,
    /// What stands for the path in the hash.
    name: u64,
    pub(super) len: u64,
    /// Its first bytes; the rest are zeros.
    pub(super) bytes: Vec<u8>,
}

/// All files of a store.
#[derive(Clone)]
pub(super) struct Image {
    files: BTreeMap<RegionKey, ImageFile>,
    hash: u128,
}

/// What a store into an image replaced.
pub(super) struct Undo {
    region: RegionKey,
    offset: u64,
    bytes: Vec<u8>,
}

impl Image {
    /// The image before the first event; paths are taken relative to `root`.
    pub(super) fn new(base: &[BaseFile], root: &Path) -> Image {
        let mut image = Image { files: BTreeMap::new(), hash: 0 };
        for file in base {
            image.appear(file.region, relative(&file.path, root), file.len, &file.contents);
        }
        image
    }

    pub(super) fn files(&self) -> impl Iterator<Item = &ImageFile> {
        self.files.values()
    }

    pub(super) fn hash(&self) -> ImageHash {
        ImageHash(self.hash)
    }

    /// Adds a file that ends in zeros behind `bytes`, or replaces what was known under its region or its path.
    pub(super) fn appear(&mut self, region: RegionKey, path: PathBuf, len: u64, bytes: &[u8]) {
        self.take(|other, _| other == region);
        self.take(|_, other| other.path == path);
        let file = ImageFile { name: name_of(&path), path, len, bytes: bytes.to_vec() };
        self.hash = self.hash.wrapping_add(file_hash(&file));
        self.files.insert(region, file);
    }

    /// Stores bytes; what lies outside the file is ignored, as stores behind a truncation are.
    pub(super) fn store(&mut self, region: RegionKey, offset: u64, bytes: &[u8]) -> Option<Undo> {
        let file = self.files.get_mut(&region)?;
        let end = file.len.min(offset + bytes.len() as u64);
        let length = end.checked_sub(offset).filter(|length| *length > 0)? as usize;
        if file.bytes.len() < end as usize {
            file.bytes.resize(end as usize, 0);
        }
        let first = offset / LINE;
        let past = end.div_ceil(LINE);
        let before = lines_hash(file, first, past);
        let place = &mut file.bytes[offset as usize..end as usize];
        let undo = Undo { region, offset, bytes: place.to_vec() };
        place.copy_from_slice(&bytes[..length]);
        let after = lines_hash(file, first, past);
        self.hash = self.hash.wrapping_sub(before).wrapping_add(after);
        Some(undo)
    }

    /// Takes stores back, the last first.
    pub(super) fn revert(&mut self, undo: Vec<Undo>) {
        for Undo { region, offset, bytes } in undo.into_iter().rev() {
            self.store(region, offset, &bytes);
        }
    }

    /// Gives a file another name, which another may have had.
    pub(super) fn rename(&mut self, region: RegionKey, path: PathBuf) {
        let Some(mut file) = self.take(|other, _| other == region) else { return };
        self.take(|_, other| other.path == path);
        file.1.name = name_of(&path);
        file.1.path = path;
        self.hash = self.hash.wrapping_add(file_hash(&file.1));
        self.files.insert(region, file.1);
    }

    /// Removes a file, and says which it was.
    pub(super) fn remove(&mut self, path: &Path) -> Option<RegionKey> {
        self.take(|_, file| file.path == path).map(|(region, _)| region)
    }

    fn take(&mut self, which: impl Fn(RegionKey, &ImageFile) -> bool) -> Option<(RegionKey, ImageFile)> {
        let region =
            self.files.iter().find(|(region, file)| which(**region, file)).map(|(region, _)| *region)?;
        let file = self.files.remove(&region)?;
        self.hash = self.hash.wrapping_sub(file_hash(&file));
        Some((region, file))
    }

    pub(super) fn set_len(&mut self, region: RegionKey, len: u64) {
        if let Some(file) = self.files.get_mut(&region) {
            let before = file_hash(file);
            file.len = len;
            file.bytes.truncate(len as usize);
            let after = file_hash(file);
            self.hash = self.hash.wrapping_sub(before).wrapping_add(after);
        }
    }
}

/// `path` below `root`; a path elsewhere stays as it is.
pub(super) fn relative(path: &Path, root: &Path) -> PathBuf {
    path.strip_prefix(root).unwrap_or(path).to_path_buf()
}

fn name_of(path: &Path) -> u64 {
    let mut name = DefaultHasher::new();
    path.hash(&mut name);
    name.finish()
}

fn file_hash(file: &ImageFile) -> u128 {
    let past = (file.bytes.len() as u64).div_ceil(LINE);
    mix(!file.len, file.name).wrapping_add(lines_hash(file, 0, past))
}

/// The sum of the hashes of the lines `first..past`; zeros at
/// the end of a line, or a line of them, count nothing.
fn lines_hash(file: &ImageFile, first: u64, past: u64) -> u128 {
    let end = (past * LINE).min(file.bytes.len() as u64);
    let lines = file.bytes[(first * LINE) as usize..end as usize].chunks(LINE as usize);
    let mut sum = 0u128;
    for (line, number) in lines.zip(first..) {
        if let Some(last) = line.iter().rposition(|byte| *byte != 0) {
            let mut hash = mix(file.name, number);
            for word in line[..=last].chunks(8) {
                let mut bytes = [0; 8];
                bytes[..word.len()].copy_from_slice(word);
                hash = mix((hash >> 64) as u64 ^ u64::from_le_bytes(bytes), hash as u64);
            }
            sum = sum.wrapping_add(hash);
        }
    }
    sum
}

/// Two words stirred into 128 bits.
fn mix(left: u64, right: u64) -> u128 {
    const ODD: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;
    let word = ((u128::from(left) << 64) | u128::from(right)).wrapping_add(ODD >> 1);
    let word = (word ^ (word >> 67)).wrapping_mul(ODD);
    word ^ (word >> 61)
}
