//! Puts an image into real files, for the real recovery to open.
//!
//! One directory serves all states: only what differs from what the last recovery left is written.

use crate::explorer::states::image::Image;
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const PIECE: usize = 16 << 10;

/// A directory that shows one image after the other.
pub(in crate::explorer) struct Stage {
    directory: tempfile::TempDir,
}

impl Stage {
    /// An empty stage with the directories found below `root`, in memory where there is such a place.
    pub(in crate::explorer) fn like(root: &Path) -> io::Result<Stage> {
        let builder = |parent: &Path| tempfile::Builder::new().prefix("cuesta-explorer-").tempdir_in(parent);
        let directory = builder(Path::new("/dev/shm")).or_else(|_| builder(&std::env::temp_dir()))?;
        copy_directories(root, directory.path())?;
        Ok(Stage { directory })
    }

    pub(in crate::explorer) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Makes the files those of `image`, and removes others.
    pub(in crate::explorer) fn show(&self, image: &Image) -> io::Result<()> {
        let mut wanted = BTreeSet::new();
        for file in image.files() {
            let path = self.path().join(&file.path);
            update(&path, &file.bytes, file.len)?;
            wanted.insert(path);
        }
        remove_others(self.path(), &wanted)
    }

    /// Leaves the files where they are, for people to look at.
    pub(in crate::explorer) fn keep(self) -> PathBuf {
        self.directory.keep()
    }
}

fn copy_directories(from: &Path, to: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            let to = to.join(entry.file_name());
            std::fs::create_dir(&to)?;
            copy_directories(&entry.path(), &to)?;
        }
    }
    Ok(())
}

/// Makes the file `bytes` and zeros up to `len`.
fn update(path: &Path, bytes: &[u8], len: u64) -> io::Result<()> {
    let file = match OpenOptions::new().read(true).write(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            OpenOptions::new().read(true).write(true).create_new(true).open(path)?
        }
        other => other?,
    };
    file.set_len(bytes.len() as u64)?;
    file.set_len(len)?;
    let mut found = [0; PIECE];
    for (number, piece) in bytes.chunks(PIECE).enumerate() {
        write_if_different(&file, (number * PIECE) as u64, piece, &mut found[..piece.len()])?;
    }
    Ok(())
}

fn write_if_different(file: &File, offset: u64, piece: &[u8], found: &mut [u8]) -> io::Result<()> {
    file.read_exact_at(found, offset)?;
    if found == piece { Ok(()) } else { file.write_all_at(piece, offset) }
}

fn remove_others(directory: &Path, wanted: &BTreeSet<PathBuf>) -> io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            remove_others(&path, wanted)?;
        } else if !wanted.contains(&path) {
            std::fs::remove_file(&path)?;
        }
    }
    Ok(())
}
