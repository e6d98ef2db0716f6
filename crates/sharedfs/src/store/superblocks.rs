//! The superblock, twice: each copy in a file of its own, in full. A copy that is damaged, missing or old is written anew from the other.
//!
//! The second copy is written first, so that a crash leaves at least one that is whole; where both are, the one of the later opening counts.

use crate::Error;
use cuesta_format::geometry::{SUPERBLOCK_COPY_FILE, SUPERBLOCK_FILE};
use cuesta_format::superblock::{Opening, SUPERBLOCK_BYTES, Superblock, SuperblockError};
use cuesta_media::{Mapping, Protection, recorder, remove};
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::Path;

use crate::tiers::medium_of_files;

/// In the order in which they are written.
const FILES: [&str; 2] = [SUPERBLOCK_COPY_FILE, SUPERBLOCK_FILE];

/// A copy that is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Flaw {
    /// A store of before has one copy.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// It was damaged.
    #[error("{0}: {1}")]
    Refused(&'static str, SuperblockError),
    /// Its bytes cannot be read.
    #[error("{0} cannot be read: {1}")]
    Unread(&'static str, String),
    /// The other is of a later opening.
    #[error("{0} is of opening {1} of the store, and the other copy of opening {2}")]
    Old(&'static str, u64, u64),
    /// The two speak of different stores, or of one with other sizes.
    #[error("{0} is another store's")]
    Other(&'static str),
}

impl Flaw {
    /// The file.
    pub(crate) fn file(&self) -> &'static str {
        match *self {
            Flaw::Missing(file)
            | Flaw::Refused(file, _)
            | Flaw::Unread(file, _)
            | Flaw::Old(file, ..)
            | Flaw::Other(file) => file,
        }
    }
}

/// The superblock, and what is wrong with the copies.
#[derive(Debug)]
pub(crate) struct Superblocks {
    pub(crate) superblock: Superblock,
    pub(crate) opening: Opening,
    pub(crate) flaws: Vec<Flaw>,
}

/// Reads and checks a store's superblock.
pub fn read_superblock(tier: &Path) -> Result<Superblock, Error> {
    Ok(Superblocks::read(tier)?.superblock)
}

/// Whether there is one, be it damaged.
pub(crate) fn exists(tier: &Path) -> bool {
    FILES.iter().any(|file| tier.join(file).exists())
}

fn read_copy(tier: &Path, name: &'static str) -> Result<(Superblock, Opening), Flaw> {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(tier.join(name))?;
        let mut bytes = Vec::new();
        file.by_ref().take(SUPERBLOCK_BYTES as u64).read_to_end(&mut bytes)?;
        recorder::record_file_read(&file, 0, bytes.len());
        Ok(bytes)
    };
    match read() {
        Ok(bytes) => Superblock::decode_at(&bytes).map_err(|error| Flaw::Refused(name, error)),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(Flaw::Missing(name)),
        Err(error) => Err(Flaw::Unread(name, error.to_string())),
    }
}

impl Superblocks {
    /// Reads and checks both copies; fails if neither is sound.
    pub(crate) fn read(tier: &Path) -> Result<Superblocks, Error> {
        let [second, first] = FILES.map(|file| (file, read_copy(tier, file)));
        let (mut sound, mut flaws) = (Vec::new(), Vec::new());
        for (file, copy) in [first, second] {
            match copy {
                Ok(found) => sound.push((file, found)),
                Err(flaw) => flaws.push(flaw),
            }
        }
        // Of two that are sound and of one opening the first counts.
        sound.sort_by_key(|(_, (_, opening))| std::cmp::Reverse(opening.generation));
        let mut sound = sound.into_iter();
        let Some((_, (superblock, opening))) = sound.next() else {
            return Err(unusable(tier, &flaws));
        };
        for (file, (other, other_opening)) in sound {
            if other.store != superblock.store || other.geometry != superblock.geometry {
                flaws.push(Flaw::Other(file));
            } else if other_opening != opening {
                flaws.push(Flaw::Old(file, other_opening.generation, opening.generation));
            }
        }
        Ok(Superblocks { superblock, opening, flaws })
    }

    /// Flaws that neither a crash explains nor a store of an earlier version, which has one copy.
    pub(crate) fn damage(&self) -> impl Iterator<Item = &Flaw> {
        self.flaws.iter().filter(|flaw| match flaw {
            Flaw::Missing(SUPERBLOCK_COPY_FILE) => self.opening != Opening::default(),
            Flaw::Old(SUPERBLOCK_FILE, found, now) => now - found > 1,
            _ => true,
        })
    }

    /// Says so in the log.
    pub(crate) fn tell(&self) {
        for flaw in self.damage() {
            tracing::error!(%flaw, "a copy of the superblock is damaged or old, and is written anew");
        }
    }

    /// Writes the copies anew that are not what they should be, and says so in the log.
    pub(crate) fn heal(&mut self, tier: &Path) -> Result<(), Error> {
        self.tell();
        for flaw in std::mem::take(&mut self.flaws) {
            write_copy(tier, flaw.file(), &self.superblock, self.opening)?;
        }
        Ok(())
    }

    /// Durably says which opening this is.
    pub(crate) fn say(&mut self, tier: &Path, opening: Opening) -> Result<(), Error> {
        self.opening = opening;
        write(tier, &self.superblock, opening)
    }
}

/// Why neither copy is of use.
fn unusable(tier: &Path, flaws: &[Flaw]) -> Error {
    if flaws.iter().all(|flaw| matches!(flaw, Flaw::Missing(_))) {
        return Error::NoStore(tier.display().to_string());
    }
    let refused = flaws.iter().filter_map(|flaw| match flaw {
        Flaw::Refused(_, error) => Some(error.clone()),
        _ => None,
    });
    let is_version = |error: &SuperblockError| {
        matches!(error, SuperblockError::Version { .. } | SuperblockError::Minor { .. })
    };
    let mut refused: Vec<SuperblockError> = refused.collect();
    refused.sort_by_key(|error| !is_version(error));
    match refused.into_iter().next() {
        Some(error) => error.into(),
        None => Error::Damaged(flaws.iter().map(Flaw::to_string).collect::<Vec<_>>().join("; ")),
    }
}

/// Writes both copies, durably.
pub(crate) fn write(tier: &Path, superblock: &Superblock, opening: Opening) -> Result<(), Error> {
    FILES.iter().try_for_each(|file| write_copy(tier, file, superblock, opening))
}

fn write_copy(tier: &Path, name: &str, superblock: &Superblock, opening: Opening) -> Result<(), Error> {
    let (path, medium) = (tier.join(name), medium_of_files(tier, superblock.medium));
    let bytes = SUPERBLOCK_BYTES as u64;
    if path.metadata().is_ok_and(|found| found.len() != bytes) {
        remove(&path).map_err(Error::io("replace the superblock"))?;
    }
    let mapping = match path.exists() {
        true => Mapping::open(&path, Protection::ReadWrite, medium)?,
        false => Mapping::create(&path, bytes, medium, false)?,
    };
    mapping.write_through(0, &superblock.encode_at(opening)[..])?;
    mapping.fence()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuesta_format::{Geometry, Medium, StoreId};

    fn opening(generation: u64) -> Opening {
        Opening { generation, is_closed: true }
    }

    fn made(tier: &Path) -> Superblock {
        let superblock =
            Superblock { store: StoreId([3; 16]), medium: Medium::Memory, geometry: Geometry::default() };
        write(tier, &superblock, opening(4)).unwrap();
        superblock
    }

    #[test]
    fn a_copy_that_is_damaged_cut_or_gone_is_written_anew_from_the_other() {
        let folder = tempfile::tempdir().unwrap();
        let tier = folder.path();
        let superblock = made(tier);
        type Harm = fn(&Path);
        let harms: [Harm; 5] = [
            |path| std::fs::write(path, [0; SUPERBLOCK_BYTES]).unwrap(),
            |path| std::fs::write(path, b"short").unwrap(),
            |path| std::fs::remove_file(path).unwrap(),
            |path| {
                let mut bytes = std::fs::read(path).unwrap();
                bytes[12] ^= 1;
                std::fs::write(path, bytes).unwrap();
            },
            |path| {
                let mut bytes = std::fs::read(path).unwrap();
                bytes[3000] ^= 1;
                std::fs::write(path, bytes).unwrap();
            },
        ];
        for (number, harm) in harms.into_iter().enumerate() {
            for file in FILES {
                harm(&tier.join(file));
                let mut found = Superblocks::read(tier).unwrap();
                assert_eq!((found.superblock, found.opening), (superblock, opening(4)), "{number} {file}");
                assert_eq!(found.flaws.iter().map(Flaw::file).collect::<Vec<_>>(), [file], "{number}");
                found.heal(tier).unwrap();
                assert_eq!(Superblocks::read(tier).unwrap().flaws, [], "{number} {file}");
            }
        }
        for file in FILES {
            std::fs::write(tier.join(file), [7; SUPERBLOCK_BYTES]).unwrap();
        }
        assert!(matches!(Superblocks::read(tier), Err(Error::Superblock(SuperblockError::Magic))));
    }

    #[test]
    fn of_two_sound_copies_the_later_opening_counts_and_the_other_is_old() {
        let folder = tempfile::tempdir().unwrap();
        let tier = folder.path();
        let superblock = made(tier);
        for file in FILES {
            let old = std::fs::read(tier.join(file)).unwrap();
            write(tier, &superblock, opening(9)).unwrap();
            std::fs::write(tier.join(file), old).unwrap();
            let mut found = Superblocks::read(tier).unwrap();
            assert_eq!((found.opening, &found.flaws[..]), (opening(9), &[Flaw::Old(file, 4, 9)][..]));
            found.heal(tier).unwrap();
            assert_eq!(Superblocks::read(tier).unwrap().flaws, []);
            write(tier, &superblock, opening(4)).unwrap();
        }
    }
}
