//! The recorder of a build with the feature `record`.

use super::places::{RegionKey, add_mapping, each_place, lock, path_of, region_of, remove_mappings};
use crate::copying::persist::LINE;
use cuesta_format::Medium;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use std::cell::RefCell;
use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A file came into being, or was seen for the first time: `contents`, then zeros up to `len`.
    Appear {
        /// The file.
        region: RegionKey,
        /// Its name then.
        path: PathBuf,
        /// Its length.
        len: u64,
        /// Its bytes, without the zeros at the end.
        contents: Vec<u8>,
    },
    /// Bytes were stored.
    Store {
        /// In which file.
        region: RegionKey,
        /// Where.
        offset: u64,
        /// What.
        bytes: Box<[u8]>,
    },
    /// The lines of a range were written back; rounded out to lines, as the instruction works.
    Flush {
        /// Of which file.
        region: RegionKey,
        /// From here.
        offset: u64,
        /// This many bytes (`u64::MAX`: the whole file).
        len: u64,
    },
    /// What this thread flushed is durable.
    Fence,
    /// A call of the kernel's wrote bytes, which count as durable with everything stored before on their lines.
    Written {
        /// To which file.
        region: RegionKey,
        /// Where.
        offset: u64,
        /// What.
        bytes: Box<[u8]>,
        /// On a disk they are in the kernel's pages, and may be lost until the file is synced. A hole is one change of the
        /// file's description, which the file system below keeps whole.
        in_pages: bool,
    },
    /// A file has a new length; bytes it gained are zeros.
    SetLen {
        /// Which file.
        region: RegionKey,
        /// Its length.
        len: u64,
    },
    /// A file has another name.
    Rename {
        /// Which file.
        region: RegionKey,
        /// Its name from now on.
        path: PathBuf,
    },
    /// A file has no name any more.
    Remove {
        /// The name it had.
        path: PathBuf,
    },
    /// A step of the test itself.
    Mark(u64),
}

/// An event and the thread it happened on; fences count for the flushes of their own thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// A small number of the thread, the same throughout the process.
    pub thread: u64,
    /// What happened.
    pub event: Event,
}

/// A file as it was when the recorder was installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseFile {
    /// The file.
    pub region: RegionKey,
    /// Its name.
    pub path: PathBuf,
    /// Its length.
    pub len: u64,
    /// Its bytes, without the zeros at the end.
    pub contents: Vec<u8>,
}

/// The recording of a recorder.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The files before the first event, in order of their names.
    pub base: Vec<BaseFile>,
    /// The events, in the order they happened.
    pub events: Vec<Recorded>,
}

struct State {
    roots: Vec<PathBuf>,
    known: HashSet<RegionKey>,
    recording: Recording,
}

/// Bytes that the kernel writes as one.
const PAGE: u64 = 4096;
static SESSION: Mutex<()> = Mutex::new(());
static INSTALLED: AtomicBool = AtomicBool::new(false);
static STATE: Mutex<Option<State>> = Mutex::new(None);

/// The one recorder of the process. Recording ends when it is taken or dropped.
pub struct Recorder {
    _session: MutexGuard<'static, ()>,
}

impl Recorder {
    /// Starts recording what happens to the files in `roots` (files, or directories and all below them).
    /// Waits for another recorder of this process to be done.
    pub fn install(roots: &[&Path]) -> io::Result<Recorder> {
        let session = lock(&SESSION);
        let mut canonical = Vec::new();
        let mut base = Vec::new();
        for root in roots {
            let root = root.canonicalize()?;
            read_below(&root, &mut base)?;
            canonical.push(root);
        }
        base.sort_by(|a, b| a.path.cmp(&b.path));
        let known = base.iter().map(|file| file.region).collect();
        *lock(&STATE) =
            Some(State { roots: canonical, known, recording: Recording { base, events: Vec::new() } });
        INSTALLED.store(true, Ordering::SeqCst);
        Ok(Recorder { _session: session })
    }

    /// How many events there are so far.
    pub fn events_recorded(&self) -> usize {
        lock(&STATE).as_ref().map_or(0, |state| state.recording.events.len())
    }

    /// Stops, and hands over what was seen.
    pub fn take(self) -> Recording {
        stop().unwrap_or_else(|| Recording { base: Vec::new(), events: Vec::new() })
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        stop();
    }
}

fn stop() -> Option<Recording> {
    INSTALLED.store(false, Ordering::SeqCst);
    lock(&STATE).take().map(|state| state.recording)
}

fn read_below(path: &Path, base: &mut Vec<BaseFile>) -> io::Result<()> {
    let kind = std::fs::symlink_metadata(path)?;
    if kind.is_dir() {
        for entry in std::fs::read_dir(path)? {
            read_below(&entry?.path(), base)?;
        }
    } else if kind.is_file() {
        let file = File::open(path)?;
        let (len, contents) = read_contents(&file)?;
        base.push(BaseFile { region: region_of(file.as_fd()), path: path.to_path_buf(), len, contents });
    }
    Ok(())
}

/// A file's length, and its bytes without the zeros at the end. Most of a store's files are holes, which are not read.
pub fn read_contents(file: &File) -> io::Result<(u64, Vec<u8>)> {
    let len = file.metadata()?.len();
    let mut bytes = Vec::new();
    let mut at = 0;
    while at < len {
        let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        at = rustix::fs::seek(file, SeekFrom::Hole(start))?.min(len);
        if start >= at {
            break;
        }
        bytes.resize(at as usize, 0);
        file.read_exact_at(&mut bytes[start as usize..], start)?;
    }
    bytes.truncate(used(&bytes));
    bytes.shrink_to_fit();
    Ok((len, bytes))
}

/// How many bytes there are before nothing but zeros follows.
fn used(bytes: &[u8]) -> usize {
    const PIECE: usize = 4096;
    let last = bytes.chunks(PIECE).rposition(|piece| piece != &[0; PIECE][..piece.len()]);
    last.map_or(0, |last| {
        let end = bytes.len().min((last + 1) * PIECE);
        bytes[..end].iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1)
    })
}

fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local!(static NUMBER: u64 = NEXT.fetch_add(1, Ordering::Relaxed));
    NUMBER.with(|number| *number)
}

fn installed() -> bool {
    INSTALLED.load(Ordering::Relaxed)
}

impl State {
    fn push(&mut self, event: Event) {
        self.recording.events.push(Recorded { thread: thread_number(), event });
    }

    fn follows(&self, path: &Path) -> bool {
        self.roots.iter().any(|root| path.starts_with(root))
    }

    /// Notes a file not seen before (or seen, if it was made anew and may have an old number).
    fn appear(&mut self, file: BorrowedFd<'_>, anew: bool) {
        let (region, path) = (region_of(file), path_of(file));
        if !self.follows(&path) || (!self.known.insert(region) && !anew) {
            return;
        }
        let read = File::open(&path).and_then(|file| read_contents(&file));
        let (len, contents) = read.unwrap_or_default();
        self.push(Event::Appear { region, path, len, contents });
    }
}

fn with_state(note: impl FnOnce(&mut State)) {
    if !installed() {
        return;
    }
    if let Some(state) = lock(&STATE).as_mut() {
        note(state);
    }
    FOLLOWER.with(|follower| {
        // A store the follower makes itself is not followed.
        if let Ok(mut follower) = follower.try_borrow_mut()
            && let Some(follow) = follower.as_mut()
        {
            follow();
        }
    });
}

thread_local!(static FOLLOWER: RefCell<Option<Box<dyn FnMut()>>> = const { RefCell::new(None) });

/// Has `follow` called on this thread behind everything it records, so that a test can hold it back there.
pub fn follow_each_event(follow: Option<Box<dyn FnMut()>>) {
    FOLLOWER.with(|follower| *follower.borrow_mut() = follow);
}

/// The same with (region, file offset, address, length) of the files that are followed.
fn with_places(ptr: *const u8, len: usize, mut note: impl FnMut(&mut State, RegionKey, u64, usize, usize)) {
    if len == 0 {
        return;
    }
    with_state(|state| {
        each_place(ptr, len, |place, offset, address, len| {
            if state.follows(&place.path) {
                note(state, place.region, offset, address, len);
            }
        });
    });
}

pub(crate) fn on_store(dst: *const u8, len: usize) {
    super::reads::note_store(dst, len);
    if !installed() {
        return;
    }
    with_places(dst, len, |state, region, offset, address, len| {
        // SAFETY: the range was just stored to, so it is mapped.
        let bytes = unsafe { bytes_at(address as *const u8, len) };
        state.push(Event::Store { region, offset, bytes });
    });
}

/// # Safety
/// The range is mapped. A store meanwhile tears the copy like any other.
unsafe fn bytes_at(memory: *const u8, len: usize) -> Box<[u8]> {
    let mut bytes = vec![0; len].into_boxed_slice();
    // SAFETY: the caller's promise.
    let left = unsafe { crate::copying::arch::copy(bytes.as_mut_ptr(), memory, len) };
    debug_assert_eq!(left, 0);
    bytes
}

pub(crate) fn on_flush(ptr: *const u8, len: usize) {
    if !installed() || len == 0 {
        return;
    }
    let head = ptr as usize % LINE;
    let rounded = (head + len).next_multiple_of(LINE);
    with_places(ptr.wrapping_sub(head), rounded, |state, region, offset, _, len| {
        state.push(Event::Flush { region, offset, len: len as u64 });
    });
}

pub(crate) fn on_fence() {
    with_state(|state| state.push(Event::Fence));
}

/// The stores in the range are on the disk.
pub(crate) fn on_sync(ptr: *const u8, len: usize) {
    if len > 0 {
        on_flush(ptr, len);
        on_fence();
    }
}

pub(crate) fn on_map(base: *const u8, len: usize, file: BorrowedFd<'_>, offset: u64) {
    add_mapping(base, len, file, offset);
    on_open(file);
}

pub(crate) fn on_unmap(base: *const u8, len: usize) {
    remove_mappings(base, len);
}

pub(crate) fn on_create(file: BorrowedFd<'_>) {
    with_state(|state| state.appear(file, true));
}

pub(crate) fn on_open(file: BorrowedFd<'_>) {
    with_state(|state| state.appear(file, false));
}

pub(crate) fn on_set_len(file: BorrowedFd<'_>, len: u64) {
    with_state(|state| {
        if state.follows(&path_of(file)) {
            let region = region_of(file);
            state.push(Event::SetLen { region, len });
        }
    });
}

pub(crate) fn on_rename(file: BorrowedFd<'_>) {
    with_state(|state| {
        let path = path_of(file);
        if state.follows(&path) {
            state.push(Event::Rename { region: region_of(file), path });
        }
    });
}

pub(crate) fn on_remove_in(folder: BorrowedFd<'_>, name: &str) {
    if installed() {
        on_remove(&path_of(folder).join(name));
    }
}

pub(crate) fn on_remove(path: &Path) {
    with_state(|state| {
        let (Some(Ok(folder)), Some(name)) = (path.parent().map(Path::canonicalize), path.file_name()) else {
            return;
        };
        let path = folder.join(name);
        if state.follows(&path) {
            state.push(Event::Remove { path });
        }
    });
}

/// Notes what a call of the kernel's wrote to a file it keeps in its pages. It may stop between two pages.
pub(crate) fn on_write_pages(file: BorrowedFd<'_>, offset: u64, bytes: &[u8]) {
    let first = ((PAGE - offset % PAGE) as usize).min(bytes.len());
    let mut at = offset;
    for piece in std::iter::once(&bytes[..first]).chain(bytes[first..].chunks(PAGE as usize)) {
        note_written(file, at, piece, true);
        at += piece.len() as u64;
    }
}

/// Notes what is about to be written to a file from memory that is mapped there, past the kernel's pages.
pub(crate) fn on_direct_write(file: BorrowedFd<'_>, offset: u64, memory: *const u8, len: usize) {
    with_state(|state| {
        if state.follows(&path_of(file)) {
            // SAFETY: the mapping the memory is of lives over the call this stands before.
            let bytes = unsafe { bytes_at(memory, len) };
            state.push(Event::Store { region: region_of(file), offset, bytes });
        }
    });
}

/// Notes what a call wrote to a file of the store from memory of the application. On a disk it is pending until the file
/// is synced; elsewhere it is done, page by page.
pub(crate) fn on_gathered(file: BorrowedFd<'_>, offset: u64, len: usize, medium: Medium) {
    if !installed() || len == 0 {
        return;
    }
    let mut bytes = vec![0; len];
    // The file was opened to be read as well.
    let read = rustix::io::pread(file, &mut bytes[..], offset);
    debug_assert_eq!(read, Ok(len));
    match medium {
        Medium::Block => record_file_write(file, offset, &bytes),
        Medium::Memory | Medium::Pmem => on_write_pages(file, offset, &bytes),
    }
}

/// Notes that a range of such a file holds nothing any more, which is done in one go.
pub(crate) fn on_punch(file: BorrowedFd<'_>, offset: u64, len: u64) {
    if !installed() {
        return;
    }
    let end = rustix::fs::fstat(file).map_or(0, |found| found.st_size.unsigned_abs());
    let len = end.min(offset.saturating_add(len)).saturating_sub(offset);
    note_written(file, offset, &vec![0; len as usize], false);
}

fn note_written(file: BorrowedFd<'_>, offset: u64, bytes: &[u8], in_pages: bool) {
    with_state(|state| {
        if !bytes.is_empty() && state.follows(&path_of(file)) {
            let (region, bytes) = (region_of(file), bytes.into());
            state.push(Event::Written { region, offset, bytes, in_pages });
        }
    });
}

/// Notes a new length of a file (`ftruncate`, a write behind its end).
pub fn record_file_length(file: BorrowedFd<'_>, len: u64) {
    on_set_len(file, len);
}

/// Notes a write made with `pwrite` and its like, within the file.
pub fn record_file_write(file: BorrowedFd<'_>, offset: u64, bytes: &[u8]) {
    with_state(|state| {
        if state.follows(&path_of(file)) {
            state.push(Event::Store { region: region_of(file), offset, bytes: bytes.into() });
        }
    });
}

/// Notes that everything written to the file so far is durable (`fsync`, `fdatasync`).
pub fn record_file_sync(file: BorrowedFd<'_>) {
    with_state(|state| {
        if state.follows(&path_of(file)) {
            let region = region_of(file);
            state.push(Event::Flush { region, offset: 0, len: u64::MAX });
            state.push(Event::Fence);
        }
    });
}

/// Notes a step of the test itself, such as "operation N was acknowledged".
pub fn mark(number: u64) {
    with_state(|state| state.push(Event::Mark(number)));
}
