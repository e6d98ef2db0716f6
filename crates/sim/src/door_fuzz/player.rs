//! Plays sequences that come on standard input, each ended by an empty line, and answers with transcripts, ended by [`END`].
//!
//! Each sequence has a child of its own, so that one that dies costs that sequence. The child writes into memory it shares with the
//! player, as a sequence may close any descriptor. A call that waits is interrupted by a timer.

use super::bounds;
use super::fixture::{self, Directories, fill};
use super::place::{self, Number, PAGE, ROOM, ROOM_BYTES};
use super::sequence::{Argument, Call, expand};
use super::snapshot::{self, Snapshot};
use super::table::{Answers, Leaves};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::fmt::Write as _;
use std::io::{self, BufRead as _, Read as _, Seek as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Ends a transcript.
pub const END: &str = "end";
/// A line before the calls: times must differ by them, so that calls wait for the next tick of the kernel's clock.
pub const SLOWLY: &str = "slowly";
/// In the place of a call: the listing at the end of a sequence.
pub const LEFT: &str = "left";
/// Begins what is told of a call.
pub const CALL: char = '#';
/// More than a tick of the slowest clock that kernels have.
const TICK: Duration = Duration::from_millis(11);
const SHARED_BYTES: usize = 8 << 20;
/// How long a call may wait, and how often it is interrupted then.
const PATIENCE_MICROSECONDS: i64 = 400_000;
const INTERRUPTED_MAX: u64 = 50;

/// Signals that came, as bits; and how often one interrupted the same call.
static SIGNALS: AtomicU64 = AtomicU64::new(0);
static INTERRUPTED: AtomicU64 = AtomicU64::new(0);

extern "C" fn note_signal(signal: i32) {
    if signal == libc::SIGALRM {
        if INTERRUPTED.fetch_add(1, Ordering::Relaxed) > INTERRUPTED_MAX {
            // SAFETY: ends the process.
            unsafe { libc::_exit(98) };
        }
    } else {
        SIGNALS.fetch_or(1 << signal, Ordering::Relaxed);
    }
}

fn expect_signals() {
    for signal in [libc::SIGALRM, libc::SIGPIPE, libc::SIGXFSZ, libc::SIGIO, libc::SIGUSR1, libc::SIGURG] {
        // SAFETY: a handler that only touches atomics, or ends the process.
        unsafe {
            let mut action = std::mem::zeroed::<libc::sigaction>();
            action.sa_sigaction = note_signal as *const () as usize;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

fn set_timer(microseconds: i64) {
    let first = libc::timeval { tv_sec: 0, tv_usec: microseconds };
    let timer = libc::itimerval {
        it_interval: libc::timeval { tv_sec: 0, tv_usec: microseconds / 4 },
        it_value: first,
    };
    // SAFETY: a timer of this process.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()) };
}

/// The memory that the child writes to: a length, then text.
struct Shared(*mut u8);

impl Shared {
    fn new() -> io::Result<Shared> {
        // SAFETY: a new mapping.
        let at = unsafe {
            let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
            libc::mmap(std::ptr::null_mut(), SHARED_BYTES, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
        };
        if at == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(Shared(at.cast())) }
    }

    fn length(&self) -> &AtomicU64 {
        // SAFETY: the mapping begins with it, and stays.
        unsafe { &*self.0.cast::<AtomicU64>() }
    }

    fn add(&self, text: &str) {
        let at = self.length().load(Ordering::Relaxed) as usize;
        let bytes = text.len().min(SHARED_BYTES - 8 - at);
        // SAFETY: room inside the mapping, which only the child writes while it lives.
        unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), self.0.add(8 + at), bytes) };
        self.length().store((at + bytes) as u64, Ordering::Relaxed);
    }

    fn take(&self) -> String {
        let bytes = self.length().swap(0, Ordering::Relaxed) as usize;
        // SAFETY: the bytes that the child has written, which has ended.
        let text = unsafe { std::slice::from_raw_parts(self.0.add(8), bytes) };
        String::from_utf8_lossy(text).into_owned()
    }
}

type Function = unsafe extern "C" fn(u64, u64, u64, u64, u64, u64) -> i64;

/// libc's function of a name.
fn wrapper(name: &str) -> Option<Function> {
    let name = CString::new(name).ok()?;
    // SAFETY: looks a name up; the function of that name takes at most six words, in registers.
    unsafe {
        let found = libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr());
        (!found.is_null()).then(|| std::mem::transmute::<*mut libc::c_void, Function>(found))
    }
}

/// Functions whose answer is no int.
const LONG_ANSWERS: &[&str] = &[
    "read",
    "write",
    "pread64",
    "pwrite64",
    "readv",
    "writev",
    "lseek",
    "copy_file_range",
    "sendfile",
    "splice",
    "tee",
    "vmsplice",
    "readlink",
    "readlinkat",
    "getxattr",
    "lgetxattr",
    "fgetxattr",
    "listxattr",
    "llistxattr",
    "flistxattr",
    "readahead",
    "sendto",
    "recvfrom",
];

/// One child's view of what it plays.
struct Scene<'a> {
    directories: &'a Directories,
    shared: &'a Shared,
    snapshot: Snapshot,
    slowly: bool,
}

/// The folder of the outside has another last name for each player; the transcript has one name for both.
fn same_name(mut text: Vec<u8>) -> Vec<u8> {
    for at in 0..text.len().saturating_sub(3) {
        if matches!(&text[at..at + 4], b"out2" | b"/at2") {
            text[at + 3] = b'1';
        }
    }
    // The numbers of pipes and sockets.
    let mut is_number = false;
    for byte in &mut text {
        is_number = *byte == b'[' || is_number && byte.is_ascii_digit();
        if is_number && *byte != b'[' {
            *byte = b'0';
        }
    }
    text
}

fn memory(start: u64, bytes: u64) -> &'static mut [u8] {
    // SAFETY: called with parts of the room only, which stays mapped and which nothing else looks at meanwhile.
    unsafe { std::slice::from_raw_parts_mut(start as *mut u8, bytes as usize) }
}

fn checksum(bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(0xcbf2_9ce4_8422_2325, |sum, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        (sum.rotate_left(5) ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    })
}

impl Scene<'_> {
    fn place(&self, call: &Call) -> [u64; 6] {
        let mut numbers = [0; 6];
        for (index, argument) in call.arguments.iter().enumerate() {
            numbers[index] = match argument {
                Argument::Number(number) => *number,
                Argument::Path(path) => {
                    let bytes = expand(path, &self.directories.inside, &self.directories.outside);
                    let room = 2 * PAGE as usize;
                    let at = place::path(index) as *mut u8;
                    let count = bytes.len().min(room - 1);
                    // SAFETY: the pages of this argument, which are mapped.
                    unsafe {
                        at.write_bytes(0, room);
                        at.copy_from_nonoverlapping(bytes.as_ptr(), count);
                    }
                    at as u64
                }
                Argument::Words(words) => {
                    let at = place::words(index) as *mut u64;
                    // SAFETY: the page of this argument, which is mapped, and has room for 512 words.
                    unsafe {
                        at.cast::<u8>().write_bytes(0, PAGE as usize);
                        at.copy_from_nonoverlapping(words.as_ptr(), words.len().min(512));
                    }
                    at as u64
                }
            };
        }
        numbers
    }

    fn play(&mut self, call: &Call, told: &mut String) {
        let _ = writeln!(told, "{CALL} {call}");
        // The call that is played when the child dies.
        self.shared.add(told);
        told.clear();
        let mut numbers = self.place(call);
        bounds::lower(call, &mut numbers);
        // Entries are compared where all come at once, for which there must be room.
        // SAFETY: asks for the offset of whatever descriptor it is.
        let may_tell = !matches!(call.entry.leaves, Leaves::Entries(_))
            || numbers[2] >= PAGE
                && (ROOM..=ROOM + ROOM_BYTES - PAGE).contains(&numbers[1])
                && unsafe { libc::lseek(numbers[0] as i32, 0, libc::SEEK_CUR) } == 0;
        let function = if call.by_wrapper { wrapper(call.entry.name) } else { None };
        SIGNALS.store(0, Ordering::Relaxed);
        INTERRUPTED.store(0, Ordering::Relaxed);
        if self.slowly {
            std::thread::sleep(TICK);
        }
        set_timer(PATIENCE_MICROSECONDS);
        let [a, b, c, d, e, f] = numbers;
        // SAFETY: the call may answer anything; the table's calls leave the player's own memory alone.
        let (answer, errno) = unsafe {
            *libc::__errno_location() = 0;
            let answer = match function {
                Some(function) if LONG_ANSWERS.contains(&call.entry.name) => function(a, b, c, d, e, f),
                Some(function) => i64::from(function(a, b, c, d, e, f) as i32),
                None => libc::syscall(call.entry.number, a, b, c, d, e, f),
            };
            (answer, *libc::__errno_location())
        };
        set_timer(0);
        self.tell_answer(call, answer, errno, told);
        if may_tell {
            self.tell_memory(call, &numbers, answer, told);
        } else {
            fill(2);
        }
        self.snapshot.update(told, self.slowly, &same_name);
        self.shared.add(told);
        told.clear();
    }

    fn tell_answer(&self, call: &Call, answer: i64, errno: i32, told: &mut String) {
        let _ = match (answer, call.entry.answers) {
            (-1, _) => writeln!(told, "  = {}", name_of(errno)),
            (_, Answers::Number) => writeln!(told, "  = {answer}"),
            (_, Answers::Any) => writeln!(told, "  = some"),
            (_, Answers::Address) if (ROOM..ROOM + (16 << 20)).contains(&(answer as u64)) => {
                writeln!(told, "  = {}", Number(answer as u64))
            }
            (_, Answers::Address) => writeln!(told, "  = an address"),
            (_, Answers::Position) => {
                // SAFETY: asks what is behind a descriptor.
                let is_directory = unsafe {
                    let mut found = std::mem::zeroed::<libc::stat>();
                    let Some(Argument::Number(fd)) = call.arguments.first() else { return };
                    libc::fstat(*fd as i32, &raw mut found) == 0
                        && found.st_mode & libc::S_IFMT == libc::S_IFDIR
                };
                if is_directory && answer > 0 {
                    writeln!(told, "  = a position")
                } else {
                    writeln!(told, "  = {answer}")
                }
            }
        };
        let signals = SIGNALS.load(Ordering::Relaxed);
        if signals != 0 {
            let _ = writeln!(told, "  signals {signals:#x}");
        }
    }

    /// Tells what the call wrote, and puts the room back.
    fn tell_memory(&self, call: &Call, numbers: &[u64; 6], answer: i64, told: &mut String) {
        let whole = |argument: usize, bytes: u64| {
            let start = numbers[argument];
            (start >= ROOM && start.saturating_add(bytes) <= ROOM + ROOM_BYTES).then(|| memory(start, bytes))
        };
        let is_large = answer > 2 * PAGE as i64;
        let pages = if is_large { ROOM_BYTES / PAGE / 2 } else { 2 };
        match call.entry.leaves {
            _ if answer == -1 => {}
            Leaves::Stat(argument) => {
                if let Some(found) = whole(argument, size_of::<libc::stat>() as u64) {
                    // SAFETY: bytes of this length, which the kernel or the door has filled.
                    tell_stat(&unsafe { found.as_ptr().cast::<libc::stat>().read_unaligned() }, told);
                }
            }
            Leaves::Statx(argument) => {
                if let Some(found) = whole(argument, size_of::<libc::statx>() as u64) {
                    // SAFETY: as above.
                    tell_statx(
                        &unsafe { found.as_ptr().cast::<libc::statx>().read_unaligned() },
                        numbers[3] as u32,
                        told,
                    );
                }
            }
            Leaves::Entries(argument) => {
                if let Some(found) = whole(argument, answer as u64) {
                    tell_entries(found, told);
                }
            }
            Leaves::Names(argument) => {
                if let Some(found) = whole(argument, answer as u64) {
                    tell_names(found, told);
                }
            }
            Leaves::Own | Leaves::Bytes => {}
        }
        if matches!(call.entry.leaves, Leaves::Bytes) {
            let (head, tail) =
                (memory(ROOM, pages * PAGE), memory(ROOM + ROOM_BYTES - pages * PAGE, pages * PAGE));
            let head = same_name(head.to_vec());
            let _ =
                writeln!(told, "  memory {:x} {:x}", checksum(&head), checksum(&same_name(tail.to_vec())));
            for (index, argument) in call.arguments.iter().enumerate() {
                if let Argument::Words(words) = argument {
                    // SAFETY: the page of this argument.
                    let now =
                        unsafe { std::slice::from_raw_parts(place::words(index) as *const u64, words.len()) };
                    if now != words.as_slice() {
                        let now = Argument::Words(now.to_vec());
                        let _ = writeln!(told, "  argument {index} {now}");
                    }
                }
            }
        }
        fill(pages);
    }
}

fn name_of(errno: i32) -> String {
    // SAFETY: a name that stays, or none.
    unsafe {
        let name = strerrorname_np(errno);
        if name.is_null() {
            errno.to_string()
        } else {
            std::ffi::CStr::from_ptr(name).to_string_lossy().into_owned()
        }
    }
}

unsafe extern "C" {
    fn strerrorname_np(errno: i32) -> *const libc::c_char;
}

fn tell_stat(found: &libc::stat, told: &mut String) {
    let is_directory = found.st_mode & libc::S_IFMT == libc::S_IFDIR;
    let _ = writeln!(
        told,
        "  stat {:o} links {} owner {}:{} device {:x} size {} {}",
        found.st_mode,
        found.st_nlink,
        found.st_uid,
        found.st_gid,
        found.st_rdev,
        if is_directory { 0 } else { found.st_size },
        snapshot::time(found.st_mtime, found.st_mtime_nsec),
    );
}

fn tell_statx(found: &libc::statx, asked: u32, told: &mut String) {
    let is_directory = u32::from(found.stx_mode) & libc::S_IFMT == libc::S_IFDIR;
    let _ = writeln!(
        told,
        "  statx {:o} links {} owner {}:{} device {}:{} size {} {}",
        found.stx_mode,
        found.stx_nlink,
        found.stx_uid,
        found.stx_gid,
        found.stx_rdev_major,
        found.stx_rdev_minor,
        if is_directory { 0 } else { found.stx_size },
        if asked & found.stx_mask & libc::STATX_MTIME == 0 {
            "no time".to_owned()
        } else {
            snapshot::time(found.stx_mtime.tv_sec, i64::from(found.stx_mtime.tv_nsec))
        },
    );
}

/// Names of extended attributes, sorted, as those of entries.
fn tell_names(bytes: &[u8], told: &mut String) {
    let mut names: Vec<_> = bytes.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
    names.sort();
    let _ = writeln!(told, "  names {names:?}");
}

/// The names, sorted: their order is each file system's own.
fn tell_entries(mut bytes: &[u8], told: &mut String) {
    let mut entries = BTreeMap::new();
    while bytes.len() > 19 {
        let length = usize::from(u16::from_le_bytes([bytes[16], bytes[17]]));
        let Some(entry) = bytes.get(19..length) else { break };
        let name = entry.split(|byte| *byte == 0).next().unwrap_or_default();
        entries.insert(String::from_utf8_lossy(name).into_owned(), bytes[18]);
        bytes = &bytes[length..];
    }
    let _ = writeln!(told, "  entries {entries:?}");
}

/// Lists everything below a directory: kinds, modes, owners, sizes, links, times, content, attributes.
fn tell_tree(top: &str, shown: &str, told: &mut String) {
    let path = CString::new(top).unwrap_or_default();
    // SAFETY: a path that ends with a zero, and where the answer goes.
    let Some(found) = (unsafe {
        let mut found = std::mem::zeroed::<libc::stat>();
        (libc::lstat(path.as_ptr(), &raw mut found) == 0).then_some(found)
    }) else {
        let _ = writeln!(told, "tree {shown} cannot be looked at");
        return;
    };
    let _ = write!(told, "tree {shown}");
    tell_stat(&found, told);
    let mut names = vec![0u8; 65_536];
    // SAFETY: a path that ends with a zero, and room of this length.
    let listed = unsafe { libc::llistxattr(path.as_ptr(), names.as_mut_ptr().cast(), names.len()) };
    let mut names: Vec<_> =
        names[..listed.max(0) as usize].split(|byte| *byte == 0).filter(|name| !name.is_empty()).collect();
    names.sort_unstable();
    for name in names {
        let (mut value, name) = (vec![0u8; 65_536], CString::new(name).unwrap_or_default());
        // SAFETY: as above.
        let bytes =
            unsafe { libc::lgetxattr(path.as_ptr(), name.as_ptr(), value.as_mut_ptr().cast(), value.len()) };
        let _ = writeln!(
            told,
            "  attribute {} {bytes} {:x}",
            name.to_string_lossy(),
            checksum(&value[..bytes.max(0) as usize])
        );
    }
    match found.st_mode & libc::S_IFMT {
        libc::S_IFLNK => {
            let target = std::fs::read_link(top).unwrap_or_default();
            let target = same_name(target.into_os_string().into_encoded_bytes());
            let _ = writeln!(told, "  to {}", String::from_utf8_lossy(&target));
        }
        libc::S_IFREG => match std::fs::File::open(top) {
            Ok(mut file) => {
                let mut bytes = Vec::new();
                let first =
                    (&mut file).take(1 << 18).read_to_end(&mut bytes).map_err(|error| error.raw_os_error());
                let _ = writeln!(told, "  content {first:?} {:x}", checksum(&bytes));
                if found.st_size > 1 << 18 {
                    let last = file.seek(io::SeekFrom::Start(found.st_size as u64 - 65_536));
                    bytes.clear();
                    let read = last.and_then(|_| file.take(1 << 18).read_to_end(&mut bytes));
                    let _ = writeln!(
                        told,
                        "  end {:?} {:x}",
                        read.map_err(|error| error.raw_os_error()),
                        checksum(&bytes)
                    );
                }
            }
            Err(error) => {
                let _ = writeln!(told, "  content {:?}", error.raw_os_error());
            }
        },
        libc::S_IFDIR => {
            let mut names: Vec<_> = std::fs::read_dir(top)
                .into_iter()
                .flatten()
                .flatten()
                .map(|entry| entry.file_name())
                .collect();
            names.sort();
            for name in names {
                let name = name.to_string_lossy();
                tell_tree(&format!("{top}/{name}"), &format!("{shown}/{name}"), told);
            }
        }
        _ => {}
    }
}

/// Plays one sequence and returns its transcript.
fn play(
    calls: &[Call],
    slowly: bool,
    directories: &Directories,
    shared: &Shared,
    said: &mut std::fs::File,
) -> io::Result<String> {
    fixture::make(directories)?;
    said.set_len(0)?;
    said.rewind()?;
    // SAFETY: the player has one thread.
    let child = unsafe { libc::fork() };
    if child == 0 {
        expect_signals();
        if std::env::set_current_dir(&directories.inside).is_err() {
            shared.add("# the directory cannot be entered\n");
        }
        fixture::open(said.as_raw_fd());
        let mut told = format!("{CALL} fixture\n");
        let snapshot = Snapshot::new(&directories.inside, &directories.outside, &mut told, &same_name);
        shared.add(&told);
        let mut scene = Scene { directories, shared, snapshot, slowly };
        told.clear();
        for call in calls {
            scene.play(call, &mut told);
        }
        // SAFETY: ends the process.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: waits for the child.
    while unsafe { libc::waitpid(child, &raw mut status, 0) } < 0 {
        if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return Err(io::Error::last_os_error());
        }
    }
    let mut told = shared.take();
    let _ = match (libc::WIFSIGNALED(status), libc::WEXITSTATUS(status)) {
        (true, _) => writeln!(told, "  ended by signal {}", libc::WTERMSIG(status)),
        (false, 0) => Ok(()),
        (false, status) => writeln!(told, "  ended with {status}"),
    };
    let mut complaint = String::new();
    said.rewind()?;
    said.read_to_string(&mut complaint).unwrap_or_default();
    let _ = writeln!(told, "{CALL} said {complaint:?}");
    let _ = writeln!(told, "{CALL} {LEFT}");
    tell_tree(&directories.inside, "", &mut told);
    tell_tree(&directories.outside, "outside", &mut told);
    Ok(told)
}

/// Plays what comes until there is no more.
///
/// # Errors
///
/// A line is no call, or a fixture cannot be made.
pub fn main(directories: &Directories) -> io::Result<()> {
    super::enclosure::check()?;
    place_limits();
    fixture::map()?;
    let shared = Shared::new()?;
    // SAFETY: a new descriptor, which this file owns.
    let mut said = unsafe { std::fs::File::from_raw_fd(libc::memfd_create(c"said".as_ptr(), 0)) };
    let mut calls: Vec<Call> = Vec::new();
    let mut slowly = false;
    for line in io::stdin().lock().lines() {
        let line = line?;
        if line == SLOWLY {
            slowly = true;
            continue;
        }
        if !line.is_empty() {
            calls.push(line.parse().map_err(io::Error::other)?);
            continue;
        }
        let told = match play(&calls, slowly, directories, &shared, &mut said) {
            Ok(told) => told,
            Err(error) => format!("{CALL} the fixture\n  {error}\n"),
        };
        let mut stdout = io::stdout().lock();
        stdout.write_all(told.as_bytes())?;
        writeln!(stdout, "{END}")?;
        stdout.flush()?;
        calls.clear();
        slowly = false;
    }
    Ok(())
}

/// Both players have the same.
fn place_limits() {
    // SAFETY: limits of this process; a mask.
    unsafe {
        let mut limit = std::mem::zeroed::<libc::rlimit>();
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = 1024;
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        libc::umask(0o022);
    }
}
