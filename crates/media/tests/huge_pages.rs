//! Huge pages: memory provided as such is mapped by one entry per 2 MiB, here and in other processes that map the file.

use cuesta_media::{HUGE_PAGE_BYTES, Mapping, Medium, Protection, Window, create_sparse};
use std::os::unix::fs::MetadataExt;

/// Bytes of `address`'s mapping that huge pages map, as the kernel tells it.
fn huge_bytes(address: usize) -> u64 {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let start = format!("{address:x}-");
    let own = maps.lines().skip_while(|line| !line.starts_with(&start));
    let counts = own.take_while(|line| !line.starts_with("VmFlags"));
    let huge =
        counts.filter(|line| line.starts_with("ShmemPmdMapped:") || line.starts_with("FilePmdMapped:"));
    huge.map(|line| line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10).sum()
}

#[test]
fn provided_memory_is_huge_wherever_it_is_mapped() {
    let Ok(directory) = tempfile::tempdir_in("/dev/shm") else {
        println!("skipped: no tmpfs at /dev/shm");
        return;
    };
    let path = directory.path().join("arena");
    let file = create_sparse(&path, 3 * HUGE_PAGE_BYTES).unwrap();
    let daemon =
        Mapping::of_file(&file, 0, 3 * HUGE_PAGE_BYTES, Protection::ReadWrite, Medium::Memory, false);
    let daemon = daemon.unwrap();
    daemon.provide(&file, 0, 2 * HUGE_PAGE_BYTES, true).unwrap();
    let blocks = std::fs::metadata(&path).unwrap().blocks() * 512;
    assert_eq!(blocks, 2 * HUGE_PAGE_BYTES, "what was asked for, no less and no more");
    let mut bytes = [7; 16];
    daemon.read(HUGE_PAGE_BYTES - 8, &mut bytes).unwrap();
    assert_eq!(bytes, [0; 16]);

    // The part behind was provided as small pages.
    daemon.provide(&file, 2 * HUGE_PAGE_BYTES, HUGE_PAGE_BYTES, false).unwrap();
    daemon.write_through(0, b"first").unwrap();
    daemon.write_through(3 * HUGE_PAGE_BYTES - 4, b"last").unwrap();
    let kept = std::fs::read(&path).unwrap();
    assert!(kept.starts_with(b"first") && kept.ends_with(b"last"));

    let program = Window::reserve(4 * HUGE_PAGE_BYTES, Medium::Memory).unwrap();
    let at = HUGE_PAGE_BYTES;
    program.map(&file, 0, 2 * HUGE_PAGE_BYTES, at, Protection::ReadWrite, true).unwrap();
    program.read(at, &mut bytes[..5]).unwrap();
    assert_eq!(&bytes[..5], b"first");
    assert!((program.as_ptr() as u64).is_multiple_of(HUGE_PAGE_BYTES));
    if huge_bytes(daemon.as_ptr() as usize) == 0 {
        println!("skipped: this kernel (before 6.1, or without huge pages) maps small ones");
        return;
    }
    assert_eq!(huge_bytes(daemon.as_ptr() as usize), 2 * HUGE_PAGE_BYTES);
    assert_eq!(huge_bytes(program.as_ptr() as usize + at as usize), 2 * HUGE_PAGE_BYTES);
}

#[test]
fn short_and_odd_files_are_provided_as_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("segment");
    let file = create_sparse(&path, 16 << 10).unwrap();
    let mapping = Mapping::of_file(&file, 0, 16 << 10, Protection::ReadWrite, Medium::Memory, false).unwrap();
    mapping.provide(&file, 4 << 10, 8 << 10, true).unwrap();
    assert!(mapping.provide(&file, 8 << 10, 12 << 10, true).is_err(), "longer than the mapping");
    assert!(mapping.provide(&file, u64::MAX - 4095, 8 << 10, true).is_err());
}
