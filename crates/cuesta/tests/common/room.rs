//! The room that files have of their disk.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Bytes that a file, or the files in a folder, have of their disk.
pub fn room_of(path: &Path) -> u64 {
    let bytes = |path: PathBuf| std::fs::metadata(path).unwrap().blocks() * 512;
    match std::fs::read_dir(path) {
        Ok(files) => files.map(|file| bytes(file.unwrap().path())).sum(),
        Err(_) => bytes(path.to_owned()),
    }
}

/// Waits until at most so many bytes of their disk are taken.
#[track_caller]
pub fn wait_for_room(path: &Path, most: u64) {
    let began = Instant::now();
    while room_of(path) > most {
        assert!(began.elapsed() < Duration::from_secs(60), "{} bytes", room_of(path));
    }
}
