//! The kernel's copy of a file is never older than a call that was answered, whichever calls change the file: by threads and
//! processes of one mount, in every way the kernel has past its cache or through it.

use crate::common::{Child, Mounted, can_mount, map_shared};
use cuesta_libfs::{Base, Credentials};
use rustix::fs::{FallocateFlags, SeekFrom};
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const PAGE_BYTES: usize = 4096;
/// How long each of the hammers goes on.
const HAMMERED: Duration = Duration::from_millis(2500);

fn open(path: &Path) -> File {
    File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap()
}

/// So many bytes at once lie far enough apart for a reader to come between.
const DIRECT_BYTES: usize = 160 * PAGE_BYTES;

/// Memory that direct reads and writes take.
#[repr(align(4096))]
struct Aligned([u8; DIRECT_BYTES]);

/// Writers whose parts of a file meet inside pages: each reads back what it wrote, as soon as it did.
#[test]
fn writers_of_neighbouring_bytes_read_back_what_they_wrote() {
    if !can_mount() {
        return;
    }
    const WRITERS: usize = 4;
    // Neither begins nor ends with a page.
    const PART_BYTES: usize = 3000;
    let mounted = Mounted::new();
    let path = mounted.path("file");
    std::fs::write(&path, vec![0; WRITERS * PART_BYTES]).unwrap();
    let writes = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (path, writes) = (&path, &writes);
            scope.spawn(move || {
                let file = open(path);
                let at = (writer * PART_BYTES) as u64;
                let end = Instant::now() + HAMMERED;
                for number in 1u64.. {
                    let written = [number as u8; PART_BYTES];
                    file.write_all_at(&written, at).unwrap();
                    let mut read = [0; PART_BYTES];
                    file.read_exact_at(&mut read, at).unwrap();
                    let wrong = read.iter().position(|&byte| byte != number as u8);
                    assert_eq!(
                        wrong,
                        None,
                        "writer {writer} in round {number} reads {}",
                        read[wrong.unwrap()]
                    );
                    writes.fetch_add(1, Ordering::Relaxed);
                    if Instant::now() > end {
                        return;
                    }
                }
            });
        }
    });
    println!("{} writes", writes.into_inner());
}

/// One asynchronous write at a time, as the kernel's own interface has it.
pub struct AsyncWrites(libc::c_ulong);

impl AsyncWrites {
    pub fn new() -> AsyncWrites {
        let mut context: libc::c_ulong = 0;
        // SAFETY: the call stores one number, at the address of a variable of its type.
        assert_eq!(unsafe { libc::syscall(libc::SYS_io_setup, 1, &raw mut context) }, 0);
        AsyncWrites(context)
    }

    /// Writes all of `bytes` to `file` at `offset`, and waits until it is done.
    pub fn write_at(&self, file: &File, bytes: &[u8], offset: i64) {
        const PWRITE: u16 = 1;
        #[repr(C)]
        #[derive(Default)]
        struct ControlBlock {
            data: u64,
            key: u32,
            rw_flags: i32,
            opcode: u16,
            priority: i16,
            file: u32,
            buffer: u64,
            bytes: u64,
            offset: i64,
            reserved: u64,
            flags: u32,
            event_file: u32,
        }
        let block = ControlBlock {
            opcode: PWRITE,
            file: file.as_raw_fd().unsigned_abs(),
            buffer: bytes.as_ptr() as u64,
            bytes: bytes.len() as u64,
            offset,
            ..ControlBlock::default()
        };
        let mut event = [0u64; 4];
        let blocks = [&raw const block];
        // SAFETY: the block is laid out as the kernel's `struct iocb`, and it and the bytes it names outlive the write: the
        // second call, which stores one event of 32 bytes, waits for its end.
        unsafe {
            assert_eq!(libc::syscall(libc::SYS_io_submit, self.0, 1, blocks.as_ptr()), 1);
            let none = std::ptr::null::<libc::timespec>();
            while libc::syscall(libc::SYS_io_getevents, self.0, 1, 1, event.as_mut_ptr(), none) != 1 {}
        }
        assert_eq!(event[2] as i64, bytes.len() as i64);
    }
}

impl Drop for AsyncWrites {
    fn drop(&mut self) {
        // SAFETY: the call takes one number, and nothing is under way.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.0) };
    }
}

/// Others read by the cache all the time, so that pages come back while a write is under way.
fn direct_writes_are_read_by_the_cache(write: impl Fn(&File, &[u8])) {
    const READERS: usize = 2;
    let mounted = Mounted::new();
    let path = mounted.path("file");
    let bytes = DIRECT_BYTES;
    std::fs::write(&path, vec![0; bytes]).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                let (file, mut read) = (File::open(&path).unwrap(), vec![0; bytes]);
                while !is_over.load(Ordering::Relaxed) {
                    file.read_exact_at(&mut read, 0).unwrap();
                }
            });
        }
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let direct =
                OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT).open(&path).unwrap();
            let (cached, mut read) = (File::open(&path).unwrap(), vec![0; bytes]);
            let mut written = Box::new(Aligned([0; DIRECT_BYTES]));
            let end = Instant::now() + HAMMERED;
            let mut number = 0u64;
            while Instant::now() < end {
                number += 1;
                written.0.fill(number as u8);
                write(&direct, &written.0);
                cached.read_exact_at(&mut read, 0).unwrap();
                let wrong = read.iter().position(|&byte| byte != number as u8);
                assert_eq!(wrong, None, "in round {number}: {} is read", read[wrong.unwrap()]);
            }
            println!("{number} writes");
        }));
        is_over.store(true, Ordering::Relaxed);
        result.unwrap();
    });
}

#[test]
fn what_was_written_asynchronously_past_the_cache_is_read_by_it() {
    if can_mount() {
        let writes = AsyncWrites::new();
        direct_writes_are_read_by_the_cache(|file, bytes| writes.write_at(file, bytes, 0));
    }
}

#[test]
fn what_was_written_past_the_cache_is_read_by_it() {
    if can_mount() {
        direct_writes_are_read_by_the_cache(|file, bytes| file.write_all_at(bytes, 0).unwrap());
    }
}

/// What programs that skip holes find of a file: its data, and whether it counts blocks.
fn data_found(file: &File) -> Vec<std::ops::Range<u64>> {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Ok(start) = rustix::fs::seek(file, SeekFrom::Data(at)) {
        at = rustix::fs::seek(file, SeekFrom::Hole(start)).unwrap();
        found.push(start..at);
    }
    found
}

/// Another process stores through a shared mapping and syncs nothing.
#[test]
fn what_is_stored_through_a_mapping_is_no_hole_to_others() {
    if !can_mount() {
        return;
    }
    const PAGES: usize = 32;
    const STORED: [usize; 3] = [0, 5, 31];
    let mounted = Mounted::new();
    let path = mounted.path("file");
    open(&path).set_len((PAGES * PAGE_BYTES) as u64).unwrap();
    let looking = File::open(&path).unwrap();
    // The kernel keeps what it is told here.
    assert_eq!((looking.metadata().unwrap().blocks(), data_found(&looking).len()), (0, 0));
    let mut child = Child::new(|told| {
        let file = open(&path);
        let mapped = map_shared(&file, PAGES * PAGE_BYTES);
        for page in STORED {
            told.wait();
            // SAFETY: the mapping reaches that far, and this process alone knows of it.
            unsafe { *mapped.add(page * PAGE_BYTES + 17) = 1 };
            told.tell();
        }
        told.wait();
    });
    for (number, _) in STORED.iter().enumerate() {
        child.tell();
        child.wait();
        let page = PAGE_BYTES as u64;
        let pages = STORED[..=number].iter().map(|&stored| stored as u64 * page..(stored as u64 + 1) * page);
        let seen = looking.metadata().unwrap().blocks();
        assert_eq!(seen, 8 * (number as u64 + 1), "{number}");
        assert_eq!(data_found(&looking), pages.collect::<Vec<_>>());
        assert_eq!(std::fs::metadata(&path).unwrap().blocks(), seen);
    }
    let copy = mounted.path("copy");
    let done = std::process::Command::new("cp").arg("--sparse=auto").arg(&path).arg(&copy).status().unwrap();
    assert!(done.success());
    assert_eq!(std::fs::read(&copy).unwrap(), std::fs::read(&path).unwrap());
    assert_eq!(std::fs::read(&copy).unwrap()[31 * PAGE_BYTES + 17], 1);
    child.tell();
    child.end();
    // Of what was punched out again nothing is found.
    let file = open(&path);
    let punched = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, punched, 0, (PAGES * PAGE_BYTES) as u64).unwrap();
    assert_eq!((looking.metadata().unwrap().blocks(), data_found(&looking).len()), (0, 0));
}

/// The kernel is made to write back what it has of holes before it is told of attributes, and ignores an answer that such a request
/// overtakes. So it went on with the size it knew, and a page behind that is SIGBUS.
#[test]
fn a_size_that_another_door_changed_arrives_although_pages_of_holes_are_written_back() {
    if !can_mount() {
        return;
    }
    const PAGES: [usize; 4] = [32, 64, 48, 96];
    let mounted = Mounted::new();
    let (path, session) = (mounted.path("file"), mounted.session());
    let mut child = Child::new(|ends| {
        let file = open(&path);
        file.set_len(8 * PAGE_BYTES as u64).unwrap();
        let stored = map_shared(&file, 8 * PAGE_BYTES);
        for (round, pages) in PAGES.into_iter().enumerate() {
            // SAFETY: a page of the mapping, which the file reaches to.
            unsafe { stored.add((round + 1) * PAGE_BYTES).write_volatile(1) };
            ends.tell();
            ends.wait();
            let bytes = pages * PAGE_BYTES;
            assert_eq!(file.metadata().unwrap().len(), bytes as u64);
            let mapped = map_shared(&file, bytes);
            // SAFETY: the last page of the mapping, which the file reaches to.
            assert_eq!(unsafe { mapped.add(bytes - PAGE_BYTES).read_volatile() }, 0);
            assert_eq!(rustix::fs::seek(&file, SeekFrom::End(0)).unwrap(), bytes as u64, "round {round}");
        }
    });
    for pages in PAGES {
        child.wait();
        let bytes = (pages * PAGE_BYTES) as i64;
        session.truncate(&Credentials::default(), Base::Root, b"file", bytes).unwrap();
        child.tell();
    }
    child.end();
}
