//! The bytes of a store's files at one instant, with a hash that follows every change, so that
//! equal states are recognised without comparing them.

use cuesta_media::recorder::{BaseFile, RegionKey};
use std::collections::BTreeMap;
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
            image.appear(file.region, relative(&file.path, root), file.contents.clone());
        }
        image
    }

    pub(super) fn files(&self) -> impl Iterator<Item = &ImageFile> {
        self.files.values()
    }

    pub(super) fn hash(&self) -> ImageHash {
        ImageHash(self.hash)
    }

    /// Adds a file, or replaces what was known under its region or its path.
    pub(super) fn appear(&mut self, region: RegionKey, path: PathBuf, bytes: Vec<u8>) {
        self.files.retain(|other, file| *other != region && file.path != path);
        self.files.insert(region, ImageFile { path, bytes });
        self.hash = 0;
        for (region, file) in &self.files {
            self.hash = self.hash.wrapping_add(file_hash(*region, file));
        }
    }

    /// Stores bytes; what lies outside the file is ignored, as stores behind a truncation are.
    pub(super) fn store(&mut self, region: RegionKey, offset: u64, bytes: &[u8]) -> Option<Undo> {
        let file = self.files.get_mut(&region)?;
        let end = (file.bytes.len() as u64).min(offset + bytes.len() as u64);
        let length = end.checked_sub(offset).filter(|length| *length > 0)? as usize;
        let first = offset / LINE;
        let past = end.div_ceil(LINE);
        let before = lines_hash(region, file, first, past);
        let place = &mut file.bytes[offset as usize..end as usize];
        let undo = Undo { region, offset, bytes: place.to_vec() };
        place.copy_from_slice(&bytes[..length]);
        let after = lines_hash(region, file, first, past);
        self.hash = self.hash.wrapping_sub(before).wrapping_add(after);
        Some(undo)
    }

    /// Takes stores back, the last first.
    pub(super) fn revert(&mut self, undo: Vec<Undo>) {
        for Undo { region, offset, bytes } in undo.into_iter().rev() {
            self.store(region, offset, &bytes);
        }
    }

    pub(super) fn set_len(&mut self, region: RegionKey, len: u64) {
        if let Some(file) = self.files.get_mut(&region) {
            let before = file_hash(region, file);
            file.bytes.resize(len as usize, 0);
            let after = file_hash(region, file);
            self.hash = self.hash.wrapping_sub(before).wrapping_add(after);
        }
    }
}

/// `path` below `root`; a path elsewhere stays as it is.
pub(super) fn relative(path: &Path, root: &Path) -> PathBuf {
    path.strip_prefix(root).unwrap_or(path).to_path_buf()
}

fn file_hash(region: RegionKey, file: &ImageFile) -> u128 {
    let len = file.bytes.len() as u64;
    mix(region.inode ^ !len, region.device).wrapping_add(lines_hash(region, file, 0, len.div_ceil(LINE)))
}

/// The sum of the hashes of the lines `first..past`; a line of zeros counts nothing.
fn lines_hash(region: RegionKey, file: &ImageFile, first: u64, past: u64) -> u128 {
    let end = (past * LINE).min(file.bytes.len() as u64);
    let lines = file.bytes[(first * LINE) as usize..end as usize].chunks(LINE as usize);
    let mut sum = 0u128;
    for (line, number) in lines.zip(first..) {
        if line.iter().any(|byte| *byte != 0) {
            let mut hash = mix(region.inode, number);
            for word in line.chunks(8) {
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
