//! What this process is to the store: where the store is, the session once there is one, and what a
//! fork changes.
//!
//! Nothing is attached before the first call that needs it. A child of fork has a copy of its parent's
//! session, which it must never use: it notices the flag the patched clone left, abandons the copy and
//! attaches its own when it needs one.

use std::ffi::{CStr, CString, c_char};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, Ordering};

use cuesta_threads::GenerationLock;
use rustix::fd::{AsRawFd as _, BorrowedFd, IntoRawFd as _, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::attaching::{self, addresses_are_short, file_limit};
use crate::calls::{self, Failure};
use crate::environment::Environment;
use crate::store::{Client, shipping};
use crate::{
    cells, descriptors, filter, first_calls, gate, proxy, record_locks, signals, thread, way,
    working_directory,
};

/// How many descriptors below the limit are ours to take.
const RESERVED_DESCRIPTORS: u64 = 128;
/// The limit assumed if it is higher: the kernel's table grows to the highest descriptor in use.
const LIMIT_ASSUMED: u64 = 1024;

/// Where the store is.
#[derive(Debug)]
pub struct Configuration {
    /// The daemon's socket.
    pub socket: Vec<u8>,
    /// The prefix: absolute, normal, not the root.
    pub prefix: Vec<u8>,
    /// The store is mounted there: the device's number as the kernel tells it of files.
    pub mounted: Option<u64>,
    /// What `stat` shows as the store's device, for as long as this program and those that it starts run.
    pub device: Option<u64>,
    variables: Vec<CString>,
}

static CONFIGURATION: AtomicPtr<Configuration> = AtomicPtr::new(std::ptr::null_mut());
static LIBRARY: AtomicPtr<c_char> = AtomicPtr::new(std::ptr::null_mut());
/// Zero until it is first asked for.
static FLOOR: AtomicI32 = AtomicI32::new(0);
static FORKED: AtomicU32 = AtomicU32::new(0);
pub(crate) static CLIENT: AtomicPtr<Client> = AtomicPtr::new(std::ptr::null_mut());
pub(crate) static ATTACHING: GenerationLock = GenerationLock::new();
pub(crate) static MARKER: AtomicI32 = AtomicI32::new(-1);
/// A vfork child needed a session that its parent did not have.
pub(crate) static SESSION_WANTED: AtomicBool = AtomicBool::new(false);
/// Where this program lies, if it was executed from a copy.
static PROGRAM: AtomicPtr<Vec<u8>> = AtomicPtr::new(std::ptr::null_mut());
pub(crate) static COMPLAINED: AtomicBool = AtomicBool::new(false);

/// Notes where the store is. Call once.
pub fn configure(socket: &CStr, prefix: Vec<u8>, environment: &Environment) {
    let given = [
        (c"LD_PRELOAD", environment.preload),
        (c"CUESTA_SOCKET", Some(socket)),
        (c"CUESTA_AT", environment.at),
        (c"CUESTA_MOUNTED", environment.mounted),
        (c"CUESTA_DEVICE", environment.device),
        (c"CUESTA_PATCH", environment.patch),
    ];
    let number = |text: Option<&CStr>| text.and_then(|text| text.to_str().ok()?.parse().ok());
    let variables = given.into_iter().filter_map(|(name, value)| Some(assignment(name, value?)));
    let configuration = Configuration {
        socket: socket.to_bytes().to_vec(),
        prefix,
        mounted: number(environment.mounted),
        device: number(environment.device),
        variables: variables.collect(),
    };
    CONFIGURATION.store(Box::into_raw(Box::new(configuration)), Ordering::Release);
}

fn assignment(name: &CStr, value: &CStr) -> CString {
    let (name, value) = (name.to_bytes(), value.to_bytes());
    let mut text = Vec::with_capacity(name.len() + value.len() + 2);
    text.extend_from_slice(name);
    text.push(b'=');
    text.extend_from_slice(value);
    // SAFETY: both parts are C strings, so there is no zero in them.
    unsafe { CString::from_vec_unchecked(text) }
}

/// Notes where this library lies: a string of the dynamic linker's, which lives as long as the library.
pub fn note_library(path: &'static CStr) {
    LIBRARY.store(path.as_ptr().cast_mut(), Ordering::Relaxed);
}

/// Where the store is, unless this program runs without one.
pub fn configuration() -> Result<&'static Configuration, Failure> {
    // SAFETY: null, or what `configure` leaked.
    unsafe { CONFIGURATION.load(Ordering::Acquire).as_ref() }.ok_or(Failure::NotOurs)
}

/// Lowest number for descriptors of our own: high, but below any limit on their number.
pub fn descriptor_floor() -> i32 {
    match FLOOR.load(Ordering::Relaxed) {
        0 => choose_floor(),
        floor => floor,
    }
}

#[cold]
fn choose_floor() -> i32 {
    let limit =
        rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(LIMIT_ASSUMED);
    let floor = limit.min(LIMIT_ASSUMED).saturating_sub(RESERVED_DESCRIPTORS).max(1) as i32;
    // Whoever comes first decides for all.
    match FLOOR.compare_exchange(0, floor, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => floor,
        Err(first) => first,
    }
}

/// A copy of a descriptor out of the application's way, close-on-exec. Where a limit that was lowered meanwhile
/// leaves no room there it is in the way.
pub fn set_aside(file: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    match rustix::io::fcntl_dupfd_cloexec(file, descriptor_floor()) {
        Err(Errno::INVAL | Errno::MFILE) => rustix::io::fcntl_dupfd_cloexec(file, 0),
        copy => copy,
    }
}

/// `NAME=value` as this program was started with, if it was.
pub fn variable(name: &CStr) -> Option<CString> {
    let configuration = configuration().ok()?;
    let is_named = |text: &&CString| {
        text.as_bytes().strip_prefix(name.to_bytes()).is_some_and(|rest| rest.first() == Some(&b'='))
    };
    configuration.variables.iter().find(is_named).cloned()
}

/// Where this library lies.
pub fn preload_path() -> Option<&'static [u8]> {
    let path = LIBRARY.load(Ordering::Relaxed);
    // SAFETY: null, or the string given to `note_library`.
    (!path.is_null()).then(|| unsafe { CStr::from_ptr(path) }.to_bytes()).filter(|path| !path.is_empty())
}

/// The name the kernel shows of this program.
pub fn own_name() -> String {
    let mut name = [0u8; NAME_BYTES];
    let arguments = [libc::PR_GET_NAME as usize, name.as_mut_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: writes a name of the kernel's length, which ends with a zero.
    unsafe { crate::arch::syscall(libc::SYS_prctl as usize, arguments) };
    let name = CStr::from_bytes_until_nul(&name).unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Makes this program look as if the kernel had executed it itself: its name, and where it lies.
pub fn take_identity(command: &[u8], program: Option<Vec<u8>>) {
    let mut name = [0u8; NAME_BYTES];
    let length = command.len().min(NAME_BYTES - 1);
    name[..length].copy_from_slice(&command[..length]);
    let arguments = [libc::PR_SET_NAME as usize, name.as_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: reads a name of the kernel's length.
    unsafe { crate::arch::syscall(libc::SYS_prctl as usize, arguments) };
    if let Some(program) = program {
        filter::ACTIVE.store(1, Ordering::Release);
        PROGRAM.store(Box::into_raw(Box::new(program)), Ordering::Release);
    }
}

/// Where this program lies, if it was executed from a copy.
pub fn program() -> Option<&'static [u8]> {
    // SAFETY: null, or what `take_identity` leaked.
    unsafe { PROGRAM.load(Ordering::Acquire).as_ref() }.map(Vec::as_slice)
}

/// The descriptors this library uses for itself.
pub fn own_descriptors() -> impl Iterator<Item = i32> {
    descriptors::hidden()
}

/// Moves one of this library's descriptors to another number: the application wants its.
pub fn vacate(fd: i32) -> Result<(), Failure> {
    gate::alone(|| {
        let copy = set_aside(borrow(fd))?;
        let number = copy.as_raw_fd();
        if MARKER.load(Ordering::Relaxed) == fd {
            MARKER.store(copy.into_raw_fd(), Ordering::Release);
        } else if cells::file() == Some(fd) {
            cells::move_file(copy.into_raw_fd());
        } else if way::get() == Some(fd) {
            way::take_over(copy.into_raw_fd());
            descriptors::keep_hidden(number);
        } else if has_token(fd, number) {
            let _ = copy.into_raw_fd();
            descriptors::keep_hidden(number);
        } else {
            let old = match attached() {
                Some(client) => client.replace_descriptor(fd, copy),
                None => copy,
            };
            if old.as_raw_fd() != fd && !calls::move_copy(fd, number) {
                return Err(Failure::Errno(libc::EBADF));
            }
            // The number is the application's now, or in use for what it was a copy of.
            let _ = old.into_raw_fd();
        }
        descriptors::hide(fd, false);
        if !descriptors::is_hidden(number) {
            descriptors::hide(number, true);
        }
        Ok(())
    })
}

/// Whether SharedFS knows an open file by the descriptor `fd`: by `number` from now on.
fn has_token(fd: i32, number: i32) -> bool {
    let open = descriptors::all().into_iter().map(|(_, pin)| pin);
    open.chain(working_directory::pin()).any(|pin| pin.move_token(fd, number))
}

/// A descriptor for the length of a call: one that this library knows to be open, `AT_FDCWD`, or a number the application
/// named, which need not be open: the kernel then answers EBADF.
pub fn borrow(fd: i32) -> BorrowedFd<'static> {
    // To the type −1 is no number of a descriptor; to the kernel every negative one is as bad.
    let fd = if fd == -1 { i32::MIN } else { fd };
    // SAFETY: used for one call, which checks the number.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

/// The flag the child of a fork sets in its copy.
pub fn forked_flag() -> *const u32 {
    FORKED.as_ptr().cast_const()
}

/// This is the child of a fork that was made here.
pub fn forked() {
    FORKED.store(1, Ordering::Relaxed);
}

/// Whether this process is none that was forked, and has made no call since.
#[inline(always)]
pub fn is_caught_up() -> bool {
    FORKED.load(Ordering::Relaxed) == 0
}

/// Settles what happened since this thread's last call: a fork, or the end of a vfork child.
#[inline(always)]
pub fn catch_up() {
    if !is_caught_up() {
        after_fork();
    }
    if !thread::is_vforked() && (!thread::has_guests() || is_of_suspending_child()) {
        settle_vfork();
    }
}

/// Whether what waits to be settled is a child's that is gone: another may still use what it changed.
#[cold]
fn is_of_suspending_child() -> bool {
    // SAFETY: the reference ends within this expression.
    unsafe { thread::delta() }.as_ref().is_some_and(|delta| delta.is_of_suspending_child)
}

/// A vfork child is gone: what it changed goes with it, or is this process's.
#[inline(always)]
pub fn settle_vfork() {
    // SAFETY: the reference ends before anything else is called.
    let delta = unsafe { thread::delta() }.take();
    if let Some(delta) = delta {
        descriptors::drop_delta(*delta);
    }
}

/// The child about to be made has a copy of this memory, and these descriptors.
static SHARES_DESCRIPTORS: AtomicBool = AtomicBool::new(false);

/// Notes whether it does.
pub fn note_sharing(shares: bool) {
    SHARES_DESCRIPTORS.store(shares, Ordering::Relaxed);
}

#[cold]
fn after_fork() {
    FORKED.store(0, Ordering::Relaxed);
    thread::forget_guests();
    proxy::after_fork();
    if SHARES_DESCRIPTORS.swap(false, Ordering::Relaxed) {
        // The table that says what they are is a copy: this process's changes to them would be lost on the other, and those
        // of this library's own that are closed here are the other's session.
        // SAFETY: takes a copy of the descriptors.
        unsafe {
            crate::arch::syscall(libc::SYS_unshare as usize, [libc::CLONE_FILES as usize, 0, 0, 0, 0, 0])
        };
    }
    crate::arch::after_fork();
    signals::after_fork();
    calls::forget_copies();
    cuesta_threads::after_fork();
    descriptors::after_fork();
    record_locks::after_fork();
    first_calls::after_fork();
    let was_connected = shipping::after_fork();
    let parents = CLIENT.swap(std::ptr::null_mut(), Ordering::AcqRel);
    // SAFETY: null, or a client made by `attach`, whose reference was leaked for the process's life.
    let parents = unsafe { parents.as_ref() };
    parents.into_iter().for_each(Client::after_fork_in_child);
    if was_connected || parents.is_some() {
        // The child's copies of the parent's connections would keep the parent looking alive.
        close_own_descriptors();
    }
}

fn close_own_descriptors() {
    let kept = [MARKER.load(Ordering::Relaxed), cells::file().unwrap_or(-1)];
    for fd in own_descriptors().filter(|fd| !kept.contains(fd) && !descriptors::is_kept(*fd)) {
        descriptors::hide(fd, false);
        // SAFETY: hidden descriptors are this library's; their owner has been abandoned.
        unsafe { crate::arch::syscall(libc::SYS_close as usize, [fd as usize, 0, 0, 0, 0, 0]) };
    }
}

/// The session, if there is one.
#[inline]
pub fn attached() -> Option<&'static Client> {
    // SAFETY: null, or a client whose reference was leaked for the process's life.
    match unsafe { CLIENT.load(Ordering::Acquire).as_ref() } {
        Some(client) => Some(client),
        None if thread::is_vforked() => childs_own().map(|own| own.client),
        None => None,
    }
}

/// What a vfork child attached for itself. Its connection is among its own descriptors, so that its
/// parent, whose memory this is, can neither use nor close it.
#[derive(Clone, Copy)]
pub struct ChildSession {
    pub(crate) client: &'static Client,
    pub(crate) marker: i32,
}

impl std::fmt::Debug for ChildSession {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ChildSession").field("marker", &self.marker).finish_non_exhaustive()
    }
}

fn childs_own() -> Option<ChildSession> {
    // SAFETY: the reference ends within this expression.
    unsafe { thread::delta() }.as_ref().and_then(|delta| delta.session)
}

/// The session; attached now if there is none.
#[inline]
pub fn client() -> Result<&'static Client, Failure> {
    match attached() {
        Some(client) => Ok(client),
        None => attaching::attach(),
    }
}

/// Gives up the session, or the connection that SharedFS serves it by; the next call begins another. Call with no other
/// thread inside.
pub fn give_up_client() {
    shipping::forget();
    let client = CLIENT.swap(std::ptr::null_mut(), Ordering::AcqRel);
    // SAFETY: null, or a client that was leaked for the process's life.
    let Some(client) = (unsafe { client.as_ref() }) else { return };
    client.part();
    calls::forget_copies();
    let own = client.descriptors();
    for fd in own {
        descriptors::hide(fd, false);
    }
    if is_single_threaded() {
        // SAFETY: made by `Box::leak`, and nobody else is here to know it: files of it are opened anew before they are used.
        drop(unsafe { Box::from_raw(std::ptr::from_ref(client).cast_mut()) });
    }
}

fn is_single_threaded() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1)
}

/// The process's limits may be others now.
pub fn limits_changed() {
    // A vfork child's are its own, its parent's session is not.
    let client = if thread::is_vforked() { childs_own().map(|own| own.client) } else { attached() };
    if let Some(client) = client {
        client.limit_files(file_limit());
        if !thread::is_vforked() && !client.is_served() && addresses_are_short() {
            gate::alone(give_up_client);
        }
    }
}

/// How much of a file of the kernel's is read at a time.
const CONTENTS_STEP: usize = 4096;

/// What a small file of the kernel's says. The standard library's way leads over cancellation points.
pub fn contents(path: &CStr) -> rustix::io::Result<Vec<u8>> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let (mut bytes, mut length) = (Vec::new(), 0);
    loop {
        bytes.resize(length + CONTENTS_STEP, 0);
        match rustix::io::read(&file, &mut bytes[length..])? {
            0 => break,
            more => length += more,
        }
    }
    bytes.truncate(length);
    Ok(bytes)
}

/// Whether there is such a descriptor.
pub fn is_open(fd: i32) -> bool {
    rustix::io::fcntl_getfd(borrow(fd)).is_ok()
}

/// A new placeholder descriptor, the lowest free one from `lowest` on.
/// For a file that SharedFS serves it is a copy of the `token`.
pub fn placeholder(token: Option<i32>, lowest: i32, close_on_exec: bool) -> Result<i32, Failure> {
    let command = if close_on_exec { libc::F_DUPFD_CLOEXEC } else { libc::F_DUPFD };
    let marker = match childs_own() {
        _ if token.is_some() => token.unwrap_or(-1),
        Some(own) if thread::is_vforked() => own.marker,
        _ => MARKER.load(Ordering::Acquire),
    };
    let arguments = [marker as usize, command as usize, lowest as usize, 0, 0, 0];
    // SAFETY: makes a new descriptor, of the marker.
    let fd = unsafe { crate::arch::syscall(libc::SYS_fcntl as usize, arguments) } as i32;
    match fd {
        0.. if (fd as usize) < crate::filter::DESCRIPTOR_LIMIT => Ok(fd),
        0.. => {
            // SAFETY: the descriptor just made.
            unsafe { crate::arch::syscall(libc::SYS_close as usize, [fd as usize, 0, 0, 0, 0, 0]) };
            Err(Failure::Errno(libc::EMFILE))
        }
        _ => Err(Failure::Errno(-fd)),
    }
}

/// The kernel's limit of a program's name, with the terminator.
const NAME_BYTES: usize = 16;

/// Ends the session as the process ends. Other threads' calls wait for the end: an error would be the last thing
/// they see.
pub fn leave() {
    if thread::leaves_memory_behind() {
        return;
    }
    gate::shut();
    end_session();
}

/// The same by a thread that is not the program's, while that which ends waits inside.
pub fn leave_by_proxy() {
    end_session();
}

fn end_session() {
    for (fd, _) in descriptors::all() {
        drop(descriptors::remove(fd));
    }
    if let Some(client) = attached() {
        client.part();
    }
}

/// A child is about to be made: what it will share moves to where both can see it. A vfork child could
/// not do so, its descriptors being its own and its memory its parent's.
pub fn before_child() {
    if thread::is_vforked() {
        return;
    }
    if SESSION_WANTED.load(Ordering::Relaxed) {
        // Without a session the child reports what is wrong.
        let _ = client();
    }
    calls::copy_for_child();
    if descriptors::any() {
        cells::prepare();
        for (pin, _) in descriptors::grouped(|_| true) {
            pin.share();
        }
    }
}
