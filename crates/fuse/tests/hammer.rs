//! Everything at once on one file: processes that change parts of it in every way there is, and others that read it in every way
//! there is. Each part has one writer. Its changes are numbered, and so is the content that each of them leaves in the part. A read that
//! began when change *n* had been answered sees none before *n*, and none that had not begun when it ended.
//!
//! | run | writers | readers |
//! |---|---|---|
//! | `one mount` | processes: by the cache, past it, asynchronously, from a pipe, from another file, by stores through a mapping; every fifth change makes a hole | processes: by the cache, past it; the size by `stat` and by its end |
//! | `mapped` | the same past the cache, from another file, by stores | also loads through a mapping, and `sendfile` |
//! | `two doors` | processes as above but by stores, and a session | processes as above, and a session |
//!
//! The cases that are not strict are not tested here; see [decision 49](../../../docs/decisions/0049-what-the-kernel-keeps-of-content.md).

use crate::coherence::AsyncWrites;
use crate::common::{Child, Mounted, ROOT, can_mount, map_shared};
use cuesta_libfs::{Base, Client, OpenFile};
use cuesta_media::{UserSlice, UserSliceMut};
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::File;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const PAGE_BYTES: usize = 4096;
/// Of a part that shares its pages with others.
const SMALL_BYTES: usize = 3000;
const HAMMERED: Duration = Duration::from_millis(2500);
/// A change whose number this divides leaves zeros.
const HOLE_EVERY: u64 = 5;
const SEED: u64 = 20_261_127;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Cached,
    Direct,
    Async,
    Spliced,
    Copied,
    Stored,
    Session,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Cached,
    Direct,
    Loaded,
    Sent,
    Session,
}

/// A part of the file, and its one writer.
#[derive(Clone, Copy, Debug)]
struct Part {
    way: Way,
    at: usize,
    bytes: usize,
}

/// What all processes see of it: the number of the last change that began, and of the last that was answered.
#[derive(Default)]
struct Progress {
    begun: AtomicU64,
    done: AtomicU64,
}

const PARTS_MAX: usize = 16;

#[derive(Default)]
struct Shared {
    progress: [Progress; PARTS_MAX],
    is_over: AtomicBool,
    failed: AtomicBool,
}

impl Shared {
    /// Memory that children of this process share with it.
    fn new() -> &'static Shared {
        use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the memory is new, large enough, full of zeros, which are such numbers, and never unmapped.
        unsafe {
            let at = mmap_anonymous(std::ptr::null_mut(), size_of::<Shared>(), rights, MapFlags::SHARED);
            &*at.unwrap().cast::<Shared>()
        }
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst) || self.failed.load(Ordering::SeqCst)
    }
}

/// What change `number` leaves in each word.
fn left_by(number: u64) -> u64 {
    if number.is_multiple_of(HOLE_EVERY) { 0 } else { number }
}

/// Parts whose writers need whole pages lie alone in theirs.
fn laid_out(ways: &[Way]) -> Vec<Part> {
    let mut at = 0;
    let mut parts = Vec::new();
    let is_small = |way: Way| matches!(way, Way::Cached | Way::Spliced | Way::Session);
    for small in [true, false] {
        for &way in ways.iter().filter(|&&way| is_small(way) == small) {
            let bytes = if small { SMALL_BYTES } else { 4 * PAGE_BYTES };
            parts.push(Part { way, at, bytes });
            at += bytes;
        }
        at = at.next_multiple_of(PAGE_BYTES);
    }
    parts
}

/// Memory aligned as direct writes want it.
#[repr(align(4096))]
struct Pages([u8; 4 * PAGE_BYTES]);

fn open(path: &Path, flags: i32) -> File {
    File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .custom_flags(flags)
        .open(path)
        .unwrap()
}

/// Changes a part in its way again and again.
fn change(path: &Path, part: Part, progress: &Progress, shared: &Shared) {
    let direct = if matches!(part.way, Way::Direct | Way::Async) { libc::O_DIRECT } else { 0 };
    let file = open(path, direct);
    let source = open(&path.with_extension(format!("source-{}", part.at)), 0);
    let asynchronous = (part.way == Way::Async).then(AsyncWrites::new);
    let pipe = rustix::pipe::pipe().unwrap();
    let mapped = (part.way == Way::Stored).then(|| map_shared(&file, part.at + part.bytes));
    let mut pages = Box::new(Pages([0; 4 * PAGE_BYTES]));
    let mut number = 0;
    while !shared.is_over() {
        number += 1;
        let word = left_by(number).to_ne_bytes();
        let bytes = &mut pages.0[..part.bytes];
        bytes.chunks_exact_mut(8).for_each(|chunk| chunk.copy_from_slice(&word));
        let at = part.at as u64;
        if matches!(part.way, Way::Copied) {
            source.write_all_at(bytes, 0).unwrap();
        }
        progress.begun.store(number, Ordering::SeqCst);
        match part.way {
            Way::Stored => {
                let Some(mapped) = mapped else { unreachable!() };
                for word_at in (0..part.bytes).step_by(8) {
                    // SAFETY: the mapping reaches that far, and words in it are aligned; others look at it as well.
                    let word = unsafe { AtomicU64::from_ptr(mapped.add(part.at + word_at).cast()) };
                    word.store(left_by(number), Ordering::Relaxed);
                }
            }
            _ if number.is_multiple_of(HOLE_EVERY) => {
                let modes =
                    [FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, FallocateFlags::ZERO_RANGE];
                let mode = modes[(number / HOLE_EVERY % 2) as usize];
                fallocate(&file, mode, at, part.bytes as u64).unwrap();
            }
            Way::Cached | Way::Direct => file.write_all_at(bytes, at).unwrap(),
            Way::Async => asynchronous.as_ref().unwrap().write_at(&file, bytes, part.at as i64),
            Way::Copied => {
                let (mut from, mut to) = (0, at);
                while to < at + part.bytes as u64 {
                    let left = part.bytes - from as usize;
                    rustix::fs::copy_file_range(&source, Some(&mut from), &file, Some(&mut to), left)
                        .unwrap();
                }
            }
            Way::Spliced => {
                use rustix::pipe::{SpliceFlags, splice};
                assert_eq!(rustix::io::write(&pipe.1, bytes), Ok(part.bytes));
                let mut to = at;
                while to < at + part.bytes as u64 {
                    let left = (at + part.bytes as u64 - to) as usize;
                    splice(&pipe.0, None, &file, Some(&mut to), left, SpliceFlags::empty()).unwrap();
                }
            }
            Way::Session => unreachable!("sessions are not by the mount"),
        }
        progress.done.store(number, Ordering::SeqCst);
    }
}

/// Checks what a read of `part` came to.
fn check(look: Look, part: &Part, bytes: &[u8], least: u64, most: u64) {
    for (place, word) in bytes[..part.bytes].chunks_exact(8).enumerate() {
        let word = u64::from_ne_bytes(word.try_into().unwrap());
        let holds = if word == 0 {
            // The last hole that had begun, unless something was written over it before, or the file as it was made.
            let hole = most / HOLE_EVERY * HOLE_EVERY;
            hole >= least
        } else {
            (least..=most).contains(&word)
        };
        assert!(
            holds,
            "{look:?} sees {word} in word {place} of {part:?}, where {least} to {most} are to be seen"
        );
    }
}

/// Reads everything in one way again and again.
fn look(path: &Path, look: Look, parts: &[Part], shared: &Shared) {
    let file = open(path, if look == Look::Direct { libc::O_DIRECT } else { 0 });
    let length = parts.iter().map(|part| part.at + part.bytes).max().unwrap().next_multiple_of(PAGE_BYTES);
    let mapped = (look == Look::Loaded).then(|| map_shared(&file, length));
    let pipe = rustix::pipe::pipe().unwrap();
    let mut pages = Box::new(Pages([0; 4 * PAGE_BYTES]));
    let mut rounds = 0u64;
    while !shared.is_over() {
        rounds += 1;
        for (part, progress) in parts.iter().zip(&shared.progress) {
            let least = progress.done.load(Ordering::SeqCst);
            let start = if look == Look::Direct { part.at / PAGE_BYTES * PAGE_BYTES } else { part.at };
            let bytes = match look {
                Look::Direct => (part.at - start + part.bytes).next_multiple_of(PAGE_BYTES),
                _ => part.bytes,
            };
            let out = &mut pages.0[..bytes];
            match look {
                Look::Cached | Look::Direct => file.read_exact_at(out, start as u64).unwrap(),
                Look::Loaded => {
                    for (word_at, word) in out.chunks_exact_mut(8).enumerate() {
                        // SAFETY: the mapping reaches that far, and words in it are aligned; others store to it as well.
                        let place =
                            unsafe { AtomicU64::from_ptr(mapped.unwrap().add(start + 8 * word_at).cast()) };
                        word.copy_from_slice(&place.load(Ordering::Relaxed).to_ne_bytes());
                    }
                }
                Look::Sent => {
                    let mut from = start as u64;
                    let mut got = 0;
                    while got < bytes {
                        let sent =
                            rustix::fs::sendfile(&pipe.1, &file, Some(&mut from), bytes - got).unwrap();
                        let mut taken = 0;
                        while taken < sent {
                            taken += rustix::io::read(&pipe.0, &mut out[got + taken..got + sent]).unwrap();
                        }
                        got += sent;
                    }
                }
                Look::Session => unreachable!("sessions are not by the mount"),
            }
            let most = progress.begun.load(Ordering::SeqCst);
            check(look, part, &pages.0[part.at - start..], least, most);
        }
        assert_eq!(file.metadata().unwrap().size(), length as u64);
    }
    assert!(rounds > 0);
}

fn session_changes(client: &Client, part: Part, progress: &Progress, shared: &Shared) {
    let file = opened(client);
    let mut number = 0;
    while !shared.is_over() {
        number += 1;
        let mut bytes = vec![0; part.bytes];
        bytes.chunks_exact_mut(8).for_each(|chunk| chunk.copy_from_slice(&left_by(number).to_ne_bytes()));
        progress.begun.store(number, Ordering::SeqCst);
        assert_eq!(client.pwrite(&file, &[UserSlice::from(&bytes[..])], part.at as i64), Ok(part.bytes));
        progress.done.store(number, Ordering::SeqCst);
    }
    client.close(file).unwrap();
}

fn session_looks(client: &Client, parts: &[Part], shared: &Shared) {
    let file = opened(client);
    while !shared.is_over() {
        for (part, progress) in parts.iter().zip(&shared.progress) {
            let least = progress.done.load(Ordering::SeqCst);
            let mut bytes = vec![0; part.bytes];
            let read = client.pread(&file, &mut [UserSliceMut::from(&mut bytes[..])], part.at as i64);
            assert_eq!(read, Ok(part.bytes));
            check(Look::Session, part, &bytes, least, progress.begun.load(Ordering::SeqCst));
        }
    }
    client.close(file).unwrap();
}

fn opened(client: &Client) -> Arc<OpenFile> {
    client.open(&ROOT, Base::Root, b"file", libc::O_RDWR, 0).unwrap()
}

/// Takes note of a check that failed before its process ends.
fn noting(shared: &Shared, work: impl FnOnce()) {
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    if let Err(failure) = done {
        shared.failed.store(true, Ordering::SeqCst);
        std::panic::resume_unwind(failure);
    }
}

fn hammer(ways: &[Way], looks: &[Look]) {
    if !can_mount() {
        return;
    }
    let mounted = Mounted::new();
    let path: PathBuf = mounted.path("file");
    let mut parts = laid_out(ways);
    // The first runner differs, and the parts that meet in a page.
    let turned = SEED as usize % parts.len();
    parts.rotate_left(turned);
    println!("seed {SEED}: {parts:?}");
    let length = parts.iter().map(|part| part.at + part.bytes).max().unwrap().next_multiple_of(PAGE_BYTES);
    open(&path, 0).set_len(length as u64).unwrap();
    let shared = Shared::new();
    let is_session = |part: &&(usize, Part)| part.1.way == Way::Session;
    let numbered: Vec<(usize, Part)> = parts.iter().copied().enumerate().collect();
    let mut children: Vec<Child> = Vec::new();
    for &(number, part) in numbered.iter().filter(|part| !is_session(part)) {
        let progress = &shared.progress[number];
        children.push(Child::new(|_| noting(shared, || change(&path, part, progress, shared))));
    }
    for &kind in looks.iter().filter(|&&kind| kind != Look::Session) {
        children.push(Child::new(|_| noting(shared, || look(&path, kind, &parts, shared))));
    }
    std::thread::scope(|scope| {
        for &(number, part) in numbered.iter().filter(is_session) {
            let (client, progress) = (mounted.session(), &shared.progress[number]);
            scope.spawn(move || noting(shared, || session_changes(&client, part, progress, shared)));
        }
        if looks.contains(&Look::Session) {
            let (client, parts) = (mounted.session(), &parts);
            scope.spawn(move || noting(shared, || session_looks(&client, parts, shared)));
        }
        let end = Instant::now() + HAMMERED;
        while Instant::now() < end && !shared.is_over() {
            std::thread::park_timeout(Duration::from_millis(20));
        }
        shared.is_over.store(true, Ordering::SeqCst);
    });
    children.into_iter().for_each(Child::end);
    for (part, progress) in parts.iter().zip(&shared.progress) {
        println!("{:?}: {} changes", part.way, progress.done.load(Ordering::SeqCst));
        assert!(progress.done.load(Ordering::SeqCst) > 0, "{part:?} was never changed");
    }
}

#[test]
fn by_one_mount_nothing_is_older_than_what_was_answered() {
    let ways = [
        Way::Cached,
        Way::Cached,
        Way::Cached,
        Way::Spliced,
        Way::Direct,
        Way::Async,
        Way::Copied,
        Way::Stored,
    ];
    hammer(&ways, &[Look::Cached, Look::Cached, Look::Direct]);
}

#[test]
fn through_mappings_nothing_is_older_than_what_was_answered() {
    hammer(&[Way::Direct, Way::Async, Way::Copied, Way::Stored], &[Look::Loaded, Look::Sent, Look::Cached]);
}

#[test]
fn by_two_doors_nothing_is_older_than_what_was_answered() {
    let ways = [
        Way::Cached,
        Way::Session,
        Way::Cached,
        Way::Session,
        Way::Spliced,
        Way::Direct,
        Way::Async,
        Way::Copied,
    ];
    hammer(&ways, &[Look::Cached, Look::Direct, Look::Session]);
}
