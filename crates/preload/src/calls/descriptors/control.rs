//! Descriptors: close, dup, fcntl, umask.

use cuesta_format::FileKind;
use cuesta_libfs::LARGE_FILE;

use crate::call::{Answer, Call, Failure};
use crate::calls::descriptors::locks;
use crate::descriptors::{self, Pin, kernel, record_locks, references};
use crate::memory::user_memory;
use crate::process;
use crate::thread::{self, gate};
use crate::users::credentials;

const F_SETSIG: i32 = 10;
const F_GETSIG: i32 = 11;
const F_SETOWN_EX: i32 = 15;
const F_GETOWN_EX: i32 = 16;
const DN_MULTISHOT: u32 = 0x8000_0000;
const F_DUPFD_QUERY: i32 = 1027;
const F_GET_RW_HINT: i32 = 1035;
const F_SET_RW_HINT: i32 = 1036;
/// The hints there are: how long what is written will last.
const RW_HINT_MAX: u64 = 5;
/// The kind of `kcmp` that compares open file descriptions.
const KCMP_FILE: i32 = 0;

pub fn close(call: &Call) -> Answer {
    let fd = call.int(0);
    if descriptors::is_hidden(fd) {
        return Err(Failure::Errno(libc::EBADF));
    }
    let change = descriptors::change(fd).ok_or(Failure::NotOurs)?;
    let close = |pin: &Pin| {
        record_locks::closing(pin);
        call.kernel(call.arguments)
    };
    let (answer, pin) = change.close(close).ok_or(Failure::NotOurs)?;
    drop(pin);
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
        closed.iter().for_each(record_locks::closing);
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
    // No other thread puts one of ours behind a number that is about to be free.
    let (answer, closed) = if thread::is_vforked() { close() } else { gate::alone(close) };
    drop(closed);
    Ok(answer)
}

pub fn duplicate(call: &Call) -> Answer {
    let old = call.int(0);
    let onto = (call.number as i64 != libc::SYS_dup).then(|| call.int(1));
    if descriptors::is_hidden(old) {
        return Err(Failure::Errno(libc::EBADF));
    }
    if let Some(onto) = onto.filter(|onto| descriptors::is_hidden(*onto)) {
        // A vfork child's descriptors are not its parent's, and the parent's memory names this one.
        if thread::is_vforked() || !kernel::is_open(old) {
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
    if let Some(replaced) = descriptors::pin(onto) {
        record_locks::closing(&replaced);
    }
    let new = call.kernel(call.arguments);
    if new >= 0 {
        drop(change.and_then(|change| change.finish(source)));
    }
    Ok(new)
}

pub fn control(call: &Call) -> Answer {
    let pin = call.pin(0)?;
    if let Some(answer) = locks::control(call, &pin) {
        return answer;
    }
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
        libc::F_GETOWN | libc::F_SETOWN | F_SETSIG | F_GETSIG => Ok(0),
        // How libc asks for the same.
        F_GETOWN_EX => user_memory::write(argument, &[0i32; 2]).map(|()| 0),
        F_SETOWN_EX => match user_memory::read::<[i32; 2]>(argument)?[0] {
            0..=2 => Ok(0),
            _ => Err(Failure::Errno(libc::EINVAL)),
        },
        // For files in memory only.
        libc::F_ADD_SEALS if !pin.writes() => Err(Failure::Errno(libc::EPERM)),
        libc::F_ADD_SEALS | libc::F_GET_SEALS => Err(Failure::Errno(libc::EINVAL)),
        libc::F_GETLEASE => Ok(libc::F_UNLCK as isize),
        libc::F_SETLEASE if pin.file()?.kind() != FileKind::File => Err(Failure::Errno(libc::EINVAL)),
        libc::F_SETLEASE if argument as i32 == libc::F_UNLCK => Err(Failure::Errno(libc::EAGAIN)),
        libc::F_NOTIFY if argument as u32 & !DN_MULTISHOT == 0 => Ok(0),
        libc::F_NOTIFY if pin.file()?.kind() != FileKind::Directory => Err(Failure::Errno(libc::ENOTDIR)),
        libc::F_NOTIFY | libc::F_SETLEASE => call.unserved(libc::EOPNOTSUPP),
        // The kernel copies it, up to where the program's memory ends.
        F_GET_RW_HINT => user_memory::write_bytes(argument, &0u64.to_ne_bytes()).map(|()| 0),
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
        // No other process has the file behind a placeholder.
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
        crate::users::umask::changed(call.word(0) as u32 & 0o777);
    }
    Ok(answer)
}
