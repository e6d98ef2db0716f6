//! Copies of programs that lie in the store, in sealed memory files: the kernel cannot read them there.
//!
//! A shell starts the same programs again and again, each from a child that has its memory but not its
//! descriptors (vfork). So a child that had to make a copy says so, and when this happens again the process makes
//! one for those to come, before its next child. A copy is of one version of the file, and used for no other. Who
//! starts many programs has them start faster (see `loaders`).

use crate::call::Failure;
use crate::calls::programs::kept_file::KeptFile;
use crate::calls::programs::memory_file::{memory_file, seal, write};
use crate::calls::programs::program_copy::{ProgramCopy, Redirection};
use crate::calls::programs::{library_search, loaders, running};
use crate::store::{OpenFile, Version};
use crate::users::credentials;
use crate::{patch, process, thread};
use cuesta_format::InodeNumber;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Copies kept, and the largest of them: the memory that a process holds stays below their product.
const KEPT_MAX: usize = 4;

const KEPT_BYTES_MAX: u64 = 8 << 20;

const BUFFER_BYTES: usize = 1 << 20;

/// No inode has this number.
const NONE: u64 = 0;

/// The last one used stands last.
static KEPT: Mutex<Vec<KeptCopy>> = Mutex::new(Vec::new());

/// The program vfork children had to copy again.
static WANTED: AtomicU64 = AtomicU64::new(NONE);

/// Programs they had to copy, each where its number says.
static MISSED: [AtomicU64; 16] = [const { AtomicU64::new(NONE) }; 16];

#[derive(Clone, Copy)]
struct KeptCopy {
    version: Version,
    copy: KeptFile,
    /// What says that it runs.
    mark: Option<KeptFile>,
    redirection: Redirection,
    is_without_sites: bool,
}

impl ProgramCopy {
    /// Of the open `file`.
    pub fn of(file: &OpenFile) -> Result<Self, Failure> {
        let client = process::client()?;
        let version = client.version(file)?;
        let kept = find(version);
        let is_marked = |kept: &KeptCopy| kept.mark?.stat().map(|mark| mark.st_nlink > 0);
        if kept.as_ref().and_then(is_marked) != Some(true) {
            running::mark(client, file.inode());
        }
        if let Some(KeptCopy { copy, redirection, is_without_sites, .. }) = kept {
            return Ok(Self { fd: copy.fd, _own: None, redirection, is_without_sites });
        }
        if thread::is_vforked() && client.stat_open(file)?.record.size <= KEPT_BYTES_MAX {
            want(version.inode().0);
        }
        let own = make(file, false)?.file;
        let redirection = Redirection::Untried;
        Ok(Self { fd: own.as_raw_fd(), _own: Some(own), redirection, is_without_sites: false })
    }

    /// Its descriptor.
    pub fn descriptor(&self) -> i32 {
        self.fd
    }

    /// Whether the program is known to make no system calls itself.
    pub fn is_without_sites(&self) -> bool {
        self.is_without_sites
    }

    /// Whether an exec that fails may be done again with another copy.
    pub fn is_redirected(&self) -> bool {
        matches!(self.redirection, Redirection::Done(_))
    }
}

fn find(version: Version) -> Option<KeptCopy> {
    let mut kept = KEPT.try_lock().ok()?;
    let place = kept.iter().position(|copy| copy.version == version)?;
    let found = kept[place];
    kept[place..].rotate_left(1);
    let is_as_good_as_can_be = match found.redirection {
        Redirection::Done(loader) => loaders::is_usable() && loaders::current() == Some(loader),
        Redirection::Impossible => true,
        Redirection::Untried => !loaders::count_start(),
    };
    (is_as_good_as_can_be && found.copy.is_here()).then_some(found)
}

fn want(inode: u64) {
    if MISSED[(inode % MISSED.len() as u64) as usize].swap(inode, Ordering::Relaxed) == inode {
        WANTED.store(inode, Ordering::Relaxed);
    }
}

/// A process is about to make a child: a copy that the last child missed is there for this one.
pub fn before_child() {
    let inode = WANTED.swap(NONE, Ordering::Relaxed);
    if inode != NONE {
        // Without it the child makes a copy of its own, and says what is wrong.
        let _ = keep(InodeNumber(inode));
    }
}

/// This is the child of a fork: its session, when it has one, counts versions anew.
pub fn after_fork() {
    match KEPT.lock() {
        Ok(mut kept) => kept.clear(),
        Err(poisoned) => poisoned.into_inner().clear(),
    }
    loaders::after_fork();
}

#[cold]
fn keep(inode: InodeNumber) -> Result<(), Failure> {
    let client = process::client()?;
    let file = client.reopen_number(&credentials::effective(), inode, libc::O_RDONLY, 0)?;
    let kept = keep_open(&file);
    client.close(file)?;
    kept
}

fn keep_open(file: &OpenFile) -> Result<(), Failure> {
    let client = process::client()?;
    let version = client.version(file)?;
    let NewCopy { file: copy, bytes, redirection } = make(file, true)?;
    let is_without_sites =
        library_search::build_id(file).is_some_and(|id| patch::is_known_without_sites(&id));
    if client.version(file)? != version || bytes > KEPT_BYTES_MAX {
        return Ok(());
    }
    let Ok(mut kept) = KEPT.lock() else { return Ok(()) };
    let is_other = |copy: &KeptCopy| copy.version.inode() != version.inode();
    let is_full = |kept: &[KeptCopy]| kept.len() >= KEPT_MAX;
    while let Some(old) = kept.iter().position(|copy| !is_other(copy)).or(is_full(&kept).then_some(0)) {
        let KeptCopy { copy, mark, .. } = kept.remove(old);
        copy.close();
        mark.into_iter().for_each(KeptFile::close);
    }
    running::mark(client, version.inode());
    let mark = running::open_mark(client, version.inode()).and_then(|mark| KeptFile::new(mark).ok());
    let copy = KeptFile::new(copy)?;
    kept.push(KeptCopy { version, copy, mark, redirection, is_without_sites });
    Ok(())
}

/// The file kept behind `from` has another descriptor now; `false` if there is none.
pub fn move_copy(from: i32, to: i32) -> bool {
    let mut kept = KEPT.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut files = kept.iter_mut().flat_map(|kept| std::iter::once(&mut kept.copy).chain(&mut kept.mark));
    files.any(|file| file.move_from(from, to)) || loaders::move_file(from, to)
}

/// A copy that was made.
struct NewCopy {
    file: OwnedFd,
    bytes: u64,
    redirection: Redirection,
}

/// A copy of a library, which the next program gets.
pub fn of_library(file: &OpenFile) -> Result<OwnedFd, Failure> {
    let copy = make(file, false)?.file;
    rustix::io::fcntl_setfd(&copy, rustix::io::FdFlags::empty())?;
    Ok(copy)
}

/// A new copy, out of the way of the program's descriptors.
fn make(file: &OpenFile, may_redirect: bool) -> Result<NewCopy, Failure> {
    let client = process::client()?;
    let memory = memory_file(running::name(client, file.inode()))?;
    let mut buffer = vec![0u8; BUFFER_BYTES];
    let (mut bytes, mut redirection) = (0, Redirection::Untried);
    loop {
        let count = client.pread(file, &mut [buffer.as_mut_slice().into()], bytes as i64)?;
        if count == 0 {
            break;
        }
        if bytes == 0 && may_redirect && loaders::is_worth_it() {
            let done = loaders::redirect(&mut buffer[..count]);
            redirection = done.map_or(Redirection::Impossible, Redirection::Done);
        }
        write(&memory, &buffer[..count], bytes)?;
        bytes += count as u64;
    }
    for (at, word) in library_search::changes_of_copy(file) {
        write(&memory, &word.to_le_bytes(), at)?;
    }
    seal(&memory)?;
    Ok(NewCopy { file: memory, bytes, redirection })
}
