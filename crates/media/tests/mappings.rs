//! Mapped files: their content, their growth, and refused calls.

use crate::medium::medium;

use cuesta_media::wait::{Waited, drain, eventfd, raise, sealed_memfd, wait, wake_all};
use cuesta_media::{
    AccessError, Fault, GrowableMapping, Mapping, MediaError, Medium, Protection, SharedMemory, Window,
    create_allocated, create_sparse, create_written,
};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const PAGE: u64 = 4096;

#[test]
fn what_one_mapping_stores_another_reads_and_the_file_keeps() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("arena");
    let writer = Mapping::create(&path, 4 * PAGE, medium(), true).unwrap();
    let reader = Mapping::open(&path, Protection::ReadOnly, medium()).unwrap();
    writer.write(10, b"cached").unwrap();
    writer.write_through(5000, b"through").unwrap();
    writer.fence().unwrap();
    let mut bytes = [0; 7];
    reader.read(5000, &mut bytes).unwrap();
    assert_eq!(&bytes, b"through");
    drop((writer, reader));
    assert_eq!(&std::fs::read(&path).unwrap()[10..16], b"cached");
    let again = Mapping::create(&path, PAGE, medium(), false);
    assert!(matches!(again, Err(MediaError::System { action: "create file", .. })));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "what was not made is left");
}

#[test]
fn accesses_outside_are_refused_however_large() {
    let directory = tempfile::tempdir().unwrap();
    let mapping = Mapping::create(&directory.path().join("file"), PAGE, medium(), false).unwrap();
    let mut bytes = [0; 8];
    mapping.read(PAGE - 8, &mut bytes).unwrap();
    for offset in [PAGE - 7, PAGE, PAGE + 1, u64::MAX - 3, u64::MAX] {
        assert!(matches!(mapping.read(offset, &mut bytes), Err(AccessError::OutOfBounds { .. })));
        assert!(matches!(mapping.write(offset, &bytes), Err(AccessError::OutOfBounds { .. })));
        assert!(matches!(mapping.write_through(offset, &bytes), Err(AccessError::OutOfBounds { .. })));
        assert!(matches!(mapping.flush(offset, 8), Err(AccessError::OutOfBounds { .. })));
        assert!(mapping.atomic_u64(offset).is_err());
    }
    assert!(mapping.flush(8, u64::MAX - 7).is_err());
    assert!(mapping.atomic_u64(4).is_err());
    assert_eq!(mapping.atomic_u64(8).unwrap().load(Ordering::Relaxed), 0);
}

#[test]
fn what_calls_write_is_seen_through_mappings_and_what_the_file_refuses_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("arena");
    let mapping = Mapping::create(&path, 2 * PAGE, Medium::Block, false).unwrap();
    let reader = Mapping::open(&path, Protection::ReadOnly, Medium::Block).unwrap();
    let open = |write| std::fs::File::options().read(true).write(write).open(&path).unwrap();
    mapping.write_by_calls(open(true), 0, PAGE - 3, b"called").unwrap();
    mapping.fence().unwrap();
    let mut bytes = [0; 6];
    reader.read(PAGE - 3, &mut bytes).unwrap();
    assert_eq!(&bytes, b"called");
    let beyond = mapping.write_by_calls(open(true), 0, 2 * PAGE - 3, b"called");
    assert!(matches!(beyond, Err(AccessError::OutOfBounds { .. })));
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 2 * PAGE);
    let refused = mapping.write_by_calls(open(false), 0, 0, b"called");
    assert!(matches!(refused, Err(AccessError::Unwritten(_))), "{refused:?}");
    assert_eq!(
        reader.write_by_calls(open(true), 0, 0, b"called"),
        Err(AccessError::Fault(Fault { copied: 0 }))
    );
}

#[test]
fn a_full_medium_is_an_error_of_create() {
    let path = std::path::Path::new("/dev/shm").join(format!("cuesta-media-test-{}", std::process::id()));
    let refused = Mapping::create(&path, 1 << 46, medium(), false);
    let refused = refused.unwrap_err();
    assert!(refused.is_full(), "{refused}");
    assert!(!path.exists());
}

#[test]
fn a_store_on_ordinary_files_is_not_taken_for_persistent_memory() {
    // Not the folder for temporary files, which may be on persistent memory. One of these may be written.
    let directory =
        ["/tmp", "/run"].into_iter().find_map(|folder| tempfile::tempdir_in(folder).ok()).unwrap();
    let refused = Mapping::create(&directory.path().join("file"), PAGE, Medium::Pmem, false);
    assert!(matches!(refused, Err(MediaError::System { action: "map file", .. })));
}

#[test]
fn what_a_fence_had_written_to_a_disk_is_in_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let one = Mapping::create(&path, 3 * PAGE, Medium::Block, false).unwrap();
    let other = Mapping::create(&directory.path().join("other"), PAGE, Medium::Block, false).unwrap();
    one.write_through(2 * PAGE, b"through").unwrap();
    one.write(5, b"flushed").unwrap();
    one.flush(5, 7).unwrap();
    other.write_through(0, b"other").unwrap();
    SharedMemory::fence_all([&*one, &*other]).unwrap();
    let written = std::fs::read(&path).unwrap();
    assert_eq!((&written[5..12], &written[2 * PAGE as usize..][..7]), (&b"flushed"[..], &b"through"[..]));
    one.fence().unwrap();
}

#[test]
fn a_ring_mapped_twice_is_contiguous_across_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let window = Window::reserve(4 * PAGE, medium()).unwrap();
    for slot in 0..3 {
        let path = directory.path().join(format!("segment-{slot}"));
        drop(Mapping::create(&path, PAGE, medium(), false).unwrap());
        let file = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        window.map(&file, 0, PAGE, slot * PAGE, Protection::ReadWrite, true).unwrap();
        if slot == 0 {
            window.map(&file, 0, PAGE, 3 * PAGE, Protection::ReadWrite, true).unwrap();
        }
    }
    let entry = [7u8; 100];
    window.write_through(3 * PAGE - 50, &entry).unwrap();
    let mut start = [0u8; 50];
    window.read(0, &mut start).unwrap();
    assert_eq!(start, [7; 50]);
}

#[test]
fn a_window_refuses_places_it_does_not_have() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("segment");
    drop(Mapping::create(&path, PAGE, medium(), false).unwrap());
    let file = std::fs::File::open(&path).unwrap();
    let window = Window::reserve(2 * PAGE, medium()).unwrap();
    for (offset, len, at) in [(0, PAGE, 2 * PAGE), (0, PAGE, 5), (0, 5, 0), (0, PAGE, u64::MAX - 4095)] {
        let refused = window.map(&file, offset, len, at, Protection::ReadOnly, false);
        assert!(matches!(refused, Err(MediaError::Placement { .. })));
    }
    let refused = window.map(&file, PAGE, PAGE, 0, Protection::ReadOnly, false);
    assert!(matches!(refused, Err(MediaError::Short { .. })));
}

#[test]
fn a_growable_file_keeps_what_it_holds_and_its_length() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("meta");
    let file = GrowableMapping::open(&path, medium()).unwrap();
    assert!(file.is_empty());
    for step in 0..20u64 {
        file.set_len((step + 1) * 1_000_003).unwrap();
        file.write_through(step * 1_000_003, &step.to_le_bytes()).unwrap();
    }
    assert!(file.write_through(20 * 1_000_003 - 4, &[1; 8]).is_err());
    file.set_len(5 * 1_000_003 + 4).unwrap();
    assert!(file.read(5 * 1_000_003, &mut [0; 8]).is_err());
    file.set_len(20_000_000).unwrap();
    let mut bytes = [1; 8];
    file.read(5 * 1_000_003 + 4, &mut bytes).unwrap();
    assert_eq!(bytes, [0; 8], "bytes cut off come back as zeros");
    file.set_len(5 * 1_000_003).unwrap();
    drop(file);
    let file = GrowableMapping::open(&path, medium()).unwrap();
    assert_eq!(file.len(), 5 * 1_000_003);
    for step in 0..5u64 {
        file.read(step * 1_000_003, &mut bytes).unwrap();
        assert_eq!(u64::from_le_bytes(bytes), step);
    }
    assert_eq!(file.set_len(1 << 41).unwrap_err().errno(), rustix::io::Errno::FBIG);
}

#[test]
fn a_futex_wakes_times_out_and_sees_changes() {
    let word = AtomicU32::new(1);
    assert_eq!(wait(&word, 2, None), Waited::Changed);
    assert_eq!(wait(&word, 1, Some(Duration::from_millis(1))), Waited::TimedOut);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while word.load(Ordering::Acquire) == 1 {
                wait(&word, 1, None);
            }
        });
        word.store(2, Ordering::Release);
        wake_all(&word);
    });
}

#[test]
fn an_eventfd_counts_and_never_blocks() {
    let event = eventfd().unwrap();
    assert_eq!(drain(&event).unwrap(), 0);
    raise(&event).unwrap();
    raise(&event).unwrap();
    assert_eq!(drain(&event).unwrap(), 2);
}

#[test]
fn a_sealed_page_cannot_be_resized_and_is_shared() {
    let page = sealed_memfd("control", PAGE).unwrap();
    assert!(rustix::fs::ftruncate(&page, 0).is_err());
    assert!(rustix::fs::ftruncate(&page, 2 * PAGE).is_err());
    let one = Mapping::of_file(&page, 0, PAGE, Protection::ReadWrite, Medium::Memory, true).unwrap();
    let two = Mapping::of_file(&page, 0, PAGE, Protection::ReadOnly, Medium::Memory, true).unwrap();
    one.atomic_u64(64).unwrap().store(9, Ordering::Release);
    assert_eq!(two.atomic_u64(64).unwrap().load(Ordering::Acquire), 9);
}

/// A daemon that was killed between the two calls left an arena of no bytes, and never started again.
#[test]
fn a_maker_killed_in_the_middle_leaves_no_part_of_a_file() {
    const MAKES: &str = "CUESTA_TEST_MAKES";
    type Maker = fn(&Path, u64) -> Result<OwnedFd, MediaError>;
    let makers: [Maker; 3] = [create_allocated, create_sparse, create_written];
    if let Ok(order) = std::env::var(MAKES) {
        let (maker, path) = order.split_once(' ').unwrap();
        // More than a file may hold here: the kernel ends this process in the call that would make it that long.
        drop(makers[maker.parse::<usize>().unwrap()](Path::new(path), 1 << 20));
        unreachable!("the limit did not hold");
    }
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    for (number, maker) in makers.iter().enumerate() {
        let path = directory.path().join(format!("file-{number}"));
        let mut killed = Command::new("sh");
        killed.args(["-c", "ulimit -f 8; exec \"$0\" --exact \"$1\""]).arg(std::env::current_exe().unwrap());
        killed.arg("mappings::a_maker_killed_in_the_middle_leaves_no_part_of_a_file");
        killed.env(MAKES, format!("{number} {}", path.display()));
        let ended = killed.output().unwrap();
        assert_eq!(ended.status.signal(), Some(libc::SIGXFSZ), "{ended:?}");
        assert!(!path.exists());
        drop(maker(&path, 1 << 20).unwrap());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), number + 1);
    }
}
