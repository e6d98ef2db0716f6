//! Locks of programs: `flock`, and the record locks of `fcntl`.
//!
//! They are the kernel's, on the lock file behind the descriptor ([`crate::descriptors::references`]). This file adds what
//! the kernel cannot know of the file: how it was opened, where its offset and its end are.

use crate::call::{Answer, Call, Failure};
use crate::descriptors::{Pin, first_record_lock, kernel, references};
use crate::memory::user_memory;
use crate::users::connecting;
use crate::{process, thread};
use cuesta_format::control::USER_LOCK_LAST;
use cuesta_media::lock_files::{self, Mark};

/// `struct flock`: type and whence, start, length, process.
type RecordLock = [u64; 4];
const LOCK_MAND: i32 = 32;

/// `flock`.
pub fn lock_file(call: &Call) -> Answer {
    let pin = call.pin(0)?;
    let operation = call.int(1);
    // Locks of a kind that Linux has given up: it does nothing.
    if operation & LOCK_MAND != 0 {
        return Ok(0);
    }
    let kind = operation & !libc::LOCK_NB;
    if !matches!(kind, libc::LOCK_SH | libc::LOCK_EX | libc::LOCK_UN) {
        return Err(Failure::Errno(libc::EINVAL));
    }
    if pin.is_path() {
        return Err(Failure::Errno(libc::EBADF));
    }
    if kind == libc::LOCK_UN && has_no_locks(call.int(0), &pin) {
        return Ok(0);
    }
    references::ensure(call.int(0), &pin)?;
    match operation & libc::LOCK_NB {
        0 if kind != libc::LOCK_UN => Ok(thread::wait(libc::SYS_flock, call.arguments, true)),
        _ => Ok(settled(call.int(0), || call.kernel(call.arguments), |answer| *answer < 0)),
    }
}

/// The kernel's answer about locks on `fd`. The kernel is asked again if one is `in_the_way`: that may be of a file that SharedFS still
/// closes after a process it served, which is gone, or has just closed.
fn settled<A>(fd: i32, ask: impl Fn() -> A, in_the_way: impl Fn(&A) -> bool) -> A {
    let answer = ask();
    if !in_the_way(&answer) {
        return answer;
    }
    if lock_files::has_other(kernel::borrow(fd), Mark::Served).unwrap_or(false) {
        connecting::settle();
    }
    ask()
}

/// The commands of `fcntl` for record locks; `None`: it is another one.
pub fn control(call: &Call, pin: &Pin) -> Option<Answer> {
    let command = call.int(1);
    let answer = match command {
        libc::F_GETLK | libc::F_OFD_GETLK => get_lock,
        libc::F_SETLK | libc::F_SETLKW | libc::F_OFD_SETLK | libc::F_OFD_SETLKW => set_lock,
        _ => return None,
    };
    Some(if pin.is_path() { Err(Failure::Errno(libc::EBADF)) } else { answer(call, pin) })
}

fn set_lock(call: &Call, pin: &Pin) -> Answer {
    let (fd, command) = (call.int(0), call.int(1));
    let asked: RecordLock = user_memory::read(call.word(2))?;
    let mut lock = mapped(pin, &asked)?;
    let is_open_for_it = match i32::from(lock.l_type) {
        libc::F_RDLCK => pin.reads(),
        libc::F_WRLCK => pin.writes(),
        _ => true,
    };
    if !is_open_for_it {
        return Err(Failure::Errno(libc::EBADF));
    }
    let is_descriptions = matches!(command, libc::F_OFD_SETLK | libc::F_OFD_SETLKW);
    if is_descriptions && lock.l_pid != 0 {
        return Err(Failure::Errno(libc::EINVAL));
    }
    if i32::from(lock.l_type) == libc::F_UNLCK && has_no_locks(fd, pin) {
        return Ok(0);
    }
    let setting = (!is_descriptions).then(|| first_record_lock::setting(pin));
    references::ensure(fd, pin)?;
    let arguments = [fd as usize, command as usize, &raw mut lock as usize, 0, 0, 0];
    let answer = match command {
        libc::F_SETLK | libc::F_OFD_SETLK => settled(fd, || call.kernel(arguments), |answer| *answer < 0),
        _ => thread::wait(libc::SYS_fcntl, arguments, true),
    };
    drop(setting);
    Ok(answer)
}

fn get_lock(call: &Call, pin: &Pin) -> Answer {
    let (fd, address) = (call.int(0), call.word(2));
    let mut asked: RecordLock = user_memory::read(address)?;
    let wanted = mapped(pin, &asked)?;
    references::ensure(fd, pin)?;
    let ask = || {
        let mut lock = wanted;
        (call.kernel([fd as usize, call.word(1), &raw mut lock as usize, 0, 0, 0]), lock)
    };
    let (answer, lock) = settled(fd, ask, |(_, lock)| i32::from(lock.l_type) != libc::F_UNLCK);
    if answer < 0 {
        return Ok(answer);
    }
    if i32::from(lock.l_type) == libc::F_UNLCK {
        asked[0] = asked[0] & !0xffff | u64::from(lock.l_type as u16);
    } else {
        let is_to_the_end = (lock.l_start + lock.l_len - 1) as u64 == USER_LOCK_LAST;
        asked[0] =
            asked[0] >> 32 << 32 | u64::from(lock.l_whence as u16) << 16 | u64::from(lock.l_type as u16);
        asked[1] = lock.l_start as u64;
        asked[2] = if is_to_the_end { 0 } else { lock.l_len as u64 };
        asked[3] = asked[3] >> 32 << 32 | u64::from(lock.l_pid as u32);
    }
    user_memory::write(address, &asked)?;
    Ok(answer)
}

/// Whether there can be nothing to give up: the descriptor is a placeholder, beside which there are no record locks.
fn has_no_locks(fd: i32, pin: &Pin) -> bool {
    !pin.is_reference() && references::is_placeholder(fd)
}

/// The lock that a structure of the application's asks for, where it lies in a lock file.
fn mapped(pin: &Pin, asked: &RecordLock) -> Result<libc::flock, Failure> {
    let overflow = || Failure::Errno(libc::EOVERFLOW);
    let invalid = || Failure::Errno(libc::EINVAL);
    let origin = match i32::from((asked[0] >> 16) as u16) {
        libc::SEEK_SET => 0,
        libc::SEEK_CUR => pin.with_offset(|file| Ok(file.offset()))? as i64,
        libc::SEEK_END => process::client()?.stat_open(pin.file()?)?.record.size as i64,
        _ => return Err(invalid()),
    };
    let (offset, length) = (asked[1] as i64, asked[2] as i64);
    let start = origin.checked_add(offset).ok_or_else(overflow)?;
    if start < 0 {
        return Err(invalid());
    }
    let (first, last) = match length {
        0 => (start, i64::MAX),
        1.. => (start, start.checked_add(length - 1).ok_or_else(overflow)?),
        _ => (start.checked_add(length).filter(|first| *first >= 0).ok_or_else(invalid)?, start - 1),
    };
    let kind = asked[0] as u16;
    if !matches!(i32::from(kind), libc::F_RDLCK | libc::F_WRLCK | libc::F_UNLCK) {
        return Err(invalid());
    }
    let [first, last] = [first, last].map(|byte| byte.min(USER_LOCK_LAST as i64));
    Ok(libc::flock {
        l_type: kind as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: first,
        l_len: last - first + 1,
        l_pid: asked[3] as i32,
    })
}
