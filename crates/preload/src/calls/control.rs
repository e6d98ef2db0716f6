//! Descriptors and locks: close, dup, fcntl, flock, ioctl, umask.

use std::sync::atomic::Ordering;

use cuesta_format::FileKind;
use cuesta_libfs::{Client, Error, LockKind, LockOwner, OpenFile};

use super::{Answer, Call, Failure};
use crate::descriptors::{self, Pin};
use crate::{credentials, gate, process, references, thread, user_memory};

/// `struct flock`: type and whence, start, length, process.
type RecordLock = [u64; 4];
const F_SETSIG: i32 = 10;
const F_GETSIG: i32 = 11;
const F_DUPFD_QUERY: i32 = 1027;
const F_GET_RW_HINT: i32 = 1035;
const F_SET_RW_HINT: i32 = 1036;
/// The hints there are: how long what is written will last.
const RW_HINT_MAX: u64 = 5;
const LOCK_MAND: i32 = 32;
/// The kind of `kcmp` that compares open file descriptions.
const KCMP_FILE: i32 = 0;
/// What Linux adds to the flags of a file opened by a program of 64 bits.
const LARGE_FILE: i32 = 0o100_000;

/// Lets go of a description, and of the process's locks on its file.
fn release(pin: Pin) {
    if !thread::is_vforked()
        && let (Some(client), Ok(file)) = (process::attached(), pin.file())
    {
        client.close_descriptor(file);
    }
}

pub fn close(call: &Call) -> Answer {
    let fd = call.int(0);
    if descriptors::is_hidden(fd) {
        return Err(Failure::Errno(libc::EBADF));
    }
    let change = descriptors::change(fd).ok_or(Failure::NotOurs)?;
    let (answer, pin) = change.close(|| call.kernel(call.arguments)).ok_or(Failure::NotOurs)?;
    release(pin);
    Ok(answer)
}

pub fn close_range(call: &Call) -> Answer {
    let (first, last, flags) = (call.word(0) as u32, call.word(1) as u32, call.word(2));
    const FLAGS: u32 = libc::CLOSE_RANGE_CLOEXEC | libc::CLOSE_RANGE_UNSHARE;
    if first > last || flags as u32 & !FLAGS != 0 {
        return Err(Failure::NotOurs);
    }
    let is_ours = |fd: i32| (first..=last).contains(&(fd as u32));
    let close = || {
        let closed: Vec<Pin> = match flags as u32 & libc::CLOSE_RANGE_CLOEXEC {
            0 => descriptors::all().into_iter().filter(|(fd, _)| is_ours(*fd)).collect(),
            _ => Vec::new(),
        }
        .into_iter()
        .filter_map(|(fd, _)| descriptors::remove(fd))
        .collect();
        // Everything between our own descriptors, which are close-on-exec anyway.
        let mut from = first;
        let mut answer = 0;
        for own in process::own_descriptors().filter(|fd| is_ours(*fd)) {
            let own = own as u32;
            if from < own {
                answer = call.kernel([from as usize, own as usize - 1, flags, 0, 0, 0]);
            }
            from = own + 1;
        }
        if from <= last {
            answer = call.kernel([from as usize, last as usize, flags, 0, 0, 0]);
        }
        (answer, closed)
    };
    // Nobody else puts one of ours behind a number that is about to be free.
    let (answer, closed) = if thread::is_vforked() { close() } else { gate::alone(close) };
    closed.into_iter().for_each(release);
    Ok(answer)
}

pub fn duplicate(call: &Call) -> Answer {
    let old = call.int(0);
    let onto = (call.number as i64 != libc::SYS_dup).then(|| call.int(1));
    if descriptors::is_hidden(old) {
        return Err(Failure::Errno(libc::EBADF));
    }
    if let Some(onto) = onto.filter(|onto| descriptors::is_hidden(*onto)) {
        // A vfork child's descriptors are not its parent's, whose memory names this one.
        if thread::is_vforked() || !process::is_open(old) {
            return Err(Failure::Errno(libc::EBADF));
        }
        process::vacate(onto)?;
    }
    let source = descriptors::pin(old);
    let Some(onto) = onto.filter(|onto| *onto != old) else {
        let new = source.as_ref().map(|_| call.kernel(call.arguments)).ok_or(Failure::NotOurs)?;
        if let Some(pin) = source
            && new >= 0
            && new as i32 != old
        {
            descriptors::install(new as i32, pin);
        }
        return Ok(new);
    };
    if source.is_none() && descriptors::pin(onto).is_none() {
        return Err(Failure::NotOurs);
    }
    let change = descriptors::change(onto);
    let new = call.kernel(call.arguments);
    if new >= 0
        && let Some(replaced) = change.and_then(|change| change.finish(source))
    {
        release(replaced);
    }
    Ok(new)
}

pub fn control(call: &Call) -> Answer {
    let pin = call.pin(0)?;
    let argument = call.word(2);
    match call.int(1) {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => {
            let new = call.kernel(call.arguments);
            if new >= 0 {
                descriptors::install(new as i32, pin);
            }
            Ok(new)
        }
        F_DUPFD_QUERY => match descriptors::pin(argument as i32) {
            Some(other) => Ok(isize::from(other.is_same(&pin))),
            None => Ok(call.kernel(call.arguments).min(0)),
        },
        // The kernel keeps close-on-exec on the placeholder.
        libc::F_GETFD | libc::F_SETFD => Ok(call.kernel(call.arguments)),
        libc::F_GETFL => {
            let flags = pin.file()?.flags();
            let large = if flags & libc::O_PATH == 0 { LARGE_FILE } else { 0 };
            Ok((flags | large) as isize)
        }
        _ if pin.file()?.check_not_path().is_err() => Err(Failure::Errno(libc::EBADF)),
        libc::F_SETFL => set_flags(&pin, argument as i32),
        // For pipes only.
        libc::F_GETPIPE_SZ | libc::F_SETPIPE_SZ => Err(Failure::Errno(libc::EBADF)),
        libc::F_GETLK => get_lock(&pin, argument, LockOwner::Process),
        libc::F_OFD_GETLK => get_lock(&pin, argument, LockOwner::File),
        libc::F_SETLK => set_lock(&pin, argument, LockOwner::Process, false),
        libc::F_SETLKW => set_lock(&pin, argument, LockOwner::Process, true),
        libc::F_OFD_SETLK => set_lock(&pin, argument, LockOwner::File, false),
        libc::F_OFD_SETLKW => set_lock(&pin, argument, LockOwner::File, true),
        libc::F_GETOWN | libc::F_SETOWN | F_SETSIG | F_GETSIG => Ok(0),
        // For files in memory only.
        libc::F_ADD_SEALS | libc::F_GET_SEALS => Err(Failure::Errno(libc::EINVAL)),
        libc::F_GETLEASE => Ok(libc::F_UNLCK as isize),
        libc::F_SETLEASE if argument as i32 == libc::F_UNLCK => Err(Failure::Errno(libc::EAGAIN)),
        libc::F_NOTIFY if pin.file()?.kind() != FileKind::Directory => Err(Failure::Errno(libc::ENOTDIR)),
        libc::F_NOTIFY if argument == 0 => Ok(0),
        libc::F_NOTIFY | libc::F_SETLEASE => call.unserved(libc::EOPNOTSUPP),
        F_GET_RW_HINT => user_memory::write(argument, &0u64).map(|()| 0),
        F_SET_RW_HINT => match user_memory::read::<u64>(argument)? {
            0..=RW_HINT_MAX => Ok(0),
            _ => Err(Failure::Errno(libc::EINVAL)),
        },
        _ => call.unserved(libc::EINVAL),
    }
}

fn set_flags(pin: &Pin, flags: i32) -> Answer {
    let file = pin.file()?;
    let new = flags & !file.flags();
    if new & libc::O_NOATIME != 0 {
        let record = process::client()?.stat_open(file)?.record;
        if !credentials::effective().owns(&record) {
            return Err(Failure::Errno(libc::EPERM));
        }
    }
    pin.set_flags(flags)?;
    Ok(0)
}

/// What a record lock structure asks for: kind, first byte, end.
fn record_lock(pin: &Pin, lock: &RecordLock) -> Result<(LockKind, u64, u64), Failure> {
    let kind = match i32::from(lock[0] as u16) {
        libc::F_RDLCK => LockKind::Read,
        libc::F_WRLCK => LockKind::Write,
        libc::F_UNLCK => LockKind::Unlock,
        _ => return Err(Failure::Errno(libc::EINVAL)),
    };
    let file = pin.file()?;
    let origin = match i32::from((lock[0] >> 16) as u16) {
        libc::SEEK_SET => 0,
        libc::SEEK_CUR => file.offset() as i64,
        libc::SEEK_END => process::client()?.stat_open(file)?.record.size as i64,
        _ => return Err(Failure::Errno(libc::EINVAL)),
    };
    let (offset, length) = (lock[1] as i64, lock[2] as i64);
    let start = origin.checked_add(offset).ok_or(Failure::Errno(libc::EOVERFLOW))?;
    let (start, end) = match length {
        0 => (start, i64::MAX),
        1.. => (start, start.checked_add(length).ok_or(Failure::Errno(libc::EOVERFLOW))?),
        _ => (start.checked_add(length).ok_or(Failure::Errno(libc::EINVAL))?, start),
    };
    if start < 0 {
        return Err(Failure::Errno(libc::EINVAL));
    }
    Ok((kind, start as u64, if length == 0 { u64::MAX } else { end as u64 }))
}

fn set_lock(pin: &Pin, address: usize, owner: LockOwner, wait: bool) -> Answer {
    let lock: RecordLock = user_memory::read(address)?;
    let (kind, start, end) = record_lock(pin, &lock)?;
    let file = pin.file()?;
    let refused = matches!(
        (kind, file.flags() & libc::O_ACCMODE),
        (LockKind::Read, libc::O_WRONLY) | (LockKind::Write, libc::O_RDONLY)
    );
    if refused {
        return Err(Failure::Errno(libc::EBADF));
    }
    take_lock(file, wait, |client| client.lock_record(file, owner, kind, start..end, false))
}

/// Takes a lock, waiting for it where the application's handlers can run.
fn take_lock(file: &OpenFile, wait: bool, take: impl Fn(&Client) -> Result<(), Error>) -> Answer {
    let client = process::client()?;
    loop {
        let unlocks = client.unlocks(file);
        let seen = unlocks.load(Ordering::Acquire);
        match take(client) {
            Err(Error::WouldBlock) if wait => {}
            answer => return Ok(answer.map(|()| 0)?),
        }
        let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        let arguments = [unlocks.as_ptr() as usize, operation as usize, seen as usize, 0, 0, 0];
        if thread::wait(libc::SYS_futex, arguments, true) == -(libc::EINTR as isize) {
            return Err(Failure::Errno(libc::EINTR));
        }
    }
}

fn get_lock(pin: &Pin, address: usize, owner: LockOwner) -> Answer {
    let mut lock: RecordLock = user_memory::read(address)?;
    let (kind, start, end) = record_lock(pin, &lock)?;
    match process::client()?.get_lock(pin.file()?, owner, kind, start..end)? {
        None => lock[0] = lock[0] & !0xffff | libc::F_UNLCK as u64,
        Some(held) => {
            let kind = if held.kind == LockKind::Write { libc::F_WRLCK } else { libc::F_RDLCK };
            // Whence is SEEK_SET: the upper half of the first word's low 32 bits is zero.
            lock[0] = lock[0] >> 32 << 32 | kind as u64;
            lock[1] = held.start;
            lock[2] = if held.end == u64::MAX { 0 } else { held.end - held.start };
            let holder = if held.by_process { std::process::id() as i32 } else { -1 };
            lock[3] = lock[3] >> 32 << 32 | u64::from(holder as u32);
        }
    }
    user_memory::write(address, &lock)?;
    Ok(0)
}

pub fn lock_file(call: &Call) -> Answer {
    let pin = call.pin(0)?;
    let operation = call.int(1);
    // Locks of a kind that Linux has given up: it does nothing.
    if operation & LOCK_MAND != 0 {
        return Ok(0);
    }
    let kind = match operation & !libc::LOCK_NB {
        libc::LOCK_SH => LockKind::Read,
        libc::LOCK_EX => LockKind::Write,
        libc::LOCK_UN => LockKind::Unlock,
        _ => return Err(Failure::Errno(libc::EINVAL)),
    };
    let file = pin.file()?;
    take_lock(file, operation & libc::LOCK_NB == 0, |client| client.flock(file, kind, false))
}

/// `kcmp`: placeholders are all alike to the kernel, whatever is behind them.
pub fn compare(call: &Call) -> Answer {
    let (processes, fds) = ([call.int(0), call.int(1)], [call.int(3), call.int(4)]);
    let own = rustix::process::getpid().as_raw_nonzero().get();
    if call.int(2) != KCMP_FILE || !processes.contains(&own) {
        return Err(Failure::NotOurs);
    }
    let pins = [0, 1].map(|one| descriptors::pin(fds[one]).filter(|_| processes[one] == own));
    let is_shared = |fd: i32| !references::is_placeholder(fd);
    match pins {
        [None, None] => Err(Failure::NotOurs),
        [Some(one), Some(other)] => Ok(if one.is_same(&other) { 0 } else { order(fds[0] < fds[1]) }),
        // Nobody else has what is behind a placeholder.
        [Some(_), None] if !is_shared(fds[0]) && processes[1] != own => Ok(order(true)),
        [None, Some(_)] if !is_shared(fds[1]) && processes[0] != own => Ok(order(false)),
        _ => Err(Failure::NotOurs),
    }
}

/// Different things stand in some order.
fn order(is_first: bool) -> isize {
    if is_first { 1 } else { 2 }
}

pub fn change_limits(call: &Call) -> Answer {
    let answer = call.kernel(call.arguments);
    process::limits_changed();
    Ok(answer)
}

pub fn change_umask(call: &Call) -> Answer {
    let answer = call.kernel(call.arguments);
    if !thread::is_vforked() {
        process::umask_changed(call.word(0) as u32 & 0o777);
    }
    Ok(answer)
}
