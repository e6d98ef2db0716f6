//! Waiting for descriptors: to poll and select a file of ours is always ready, as any regular file is.
//!
//! The kernel is asked about the others, without waiting if one of ours is ready.

use crate::call::{Answer, Call, Failure};
use crate::descriptors::{self, kernel};
use crate::memory::user_memory;
use crate::thread;

/// Most descriptors of one call: the kernel's table has no more.
const COUNT_LIMIT: usize = 1 << 20;
const READY: u16 = (libc::POLLIN | libc::POLLOUT | libc::POLLRDNORM | libc::POLLWRNORM) as u16;
const WORD_BITS: usize = 64;

/// No time to wait, as struct timeval and timespec alike.
static NO_WAIT: [u64; 2] = [0, 0];

/// `struct pollfd`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Polled {
    fd: i32,
    events: u16,
    seen: u16,
}

// SAFETY: integers without padding.
unsafe impl user_memory::Plain for Polled {}

fn kernel(call: &Call, arguments: [usize; 6]) -> Result<isize, Failure> {
    let answer = thread::wait(call.number as i64, arguments, false);
    if answer < 0 { Err(Failure::Errno(-answer as i32)) } else { Ok(answer) }
}

/// `epoll_ctl`: a file is nothing to wait for, and waits for nothing.
pub fn watch(call: &Call) -> Answer {
    let (waiting, watched) = (call.pin(0), call.pin(2));
    if [&waiting, &watched].map(|pin| pin.as_ref().err().copied()) == [Some(Failure::NotOurs); 2] {
        return Err(Failure::NotOurs);
    }
    let has_event = call.int(1) != libc::EPOLL_CTL_DEL;
    if has_event {
        // struct epoll_event is packed.
        user_memory::read::<[u32; 3]>(call.word(3))?;
    }
    for (pin, fd) in [(&waiting, call.int(0)), (&watched, call.int(2))] {
        match pin {
            Ok(pin) => pin.file()?.check_not_path()?,
            Err(Failure::NotOurs) => check_open(fd)?,
            Err(failure) => return Err(*failure),
        }
    }
    if watched.is_ok() || !can_wait_for(call.int(2)) {
        return Err(Failure::Errno(libc::EPERM));
    }
    Err(Failure::Errno(libc::EINVAL))
}

/// Fails if a descriptor of the kernel's is none, or for paths only.
fn check_open(fd: i32) -> Result<(), Failure> {
    match rustix::fs::fcntl_getfl(kernel::borrow(fd)) {
        Ok(flags) if !flags.contains(rustix::fs::OFlags::PATH) => Ok(()),
        _ => Err(Failure::Errno(libc::EBADF)),
    }
}

/// Whether what is behind a descriptor of the kernel's can be waited for, which an epoll of ours tries.
fn can_wait_for(fd: i32) -> bool {
    use rustix::event::epoll;
    let Ok(waiting) = epoll::create(epoll::CreateFlags::CLOEXEC) else { return true };
    let data = epoll::EventData::new_u64(0);
    epoll::add(&waiting, kernel::borrow(fd), data, epoll::EventFlags::empty()) != Err(rustix::io::Errno::PERM)
}

/// Whether a descriptor is one for paths only.
fn is_path(fd: i32) -> bool {
    descriptors::pin(fd).is_some_and(|pin| pin.is_path())
}

/// `poll` and `ppoll`.
pub fn poll(call: &Call) -> Answer {
    let [address, count, ..] = call.arguments;
    if count > COUNT_LIMIT {
        return Err(Failure::NotOurs);
    }
    let item = |index: usize| address.wrapping_add(index * size_of::<Polled>());
    let mut asked = Vec::with_capacity(count);
    for index in 0..count {
        asked.push(user_memory::read::<Polled>(item(index)).map_err(|_| Failure::NotOurs)?);
    }
    let ours: Vec<bool> = asked.iter().map(|one| descriptors::pin(one.fd).is_some()).collect();
    if !ours.contains(&true) {
        return Err(Failure::NotOurs);
    }
    let mut others = asked.clone();
    let mut ready = 0;
    for ((one, other), _) in asked.iter_mut().zip(&mut others).zip(&ours).filter(|(_, ours)| **ours) {
        one.seen = if is_path(one.fd) { libc::POLLNVAL as u16 } else { one.events & READY };
        ready += isize::from(one.seen != 0);
        other.fd = -1;
    }
    let mut arguments = call.arguments;
    arguments[0] = others.as_mut_ptr() as usize;
    if ready != 0 {
        let is_plain = call.number as i64 == libc::SYS_poll;
        arguments[2] = if is_plain { 0 } else { NO_WAIT.as_ptr() as usize };
    }
    let answer = kernel(call, arguments)?;
    for (index, (one, ours)) in asked.iter().zip(&ours).enumerate() {
        let seen = if *ours { one.seen } else { others[index].seen };
        user_memory::write(item(index), &Polled { seen, ..*one })?;
    }
    Ok(answer + ready)
}

/// `select` and `pselect6`.
pub fn select(call: &Call) -> Answer {
    let highest = usize::try_from(call.int(0)).ok().filter(|count| *count <= COUNT_LIMIT);
    let words = highest.ok_or(Failure::NotOurs)?.div_ceil(WORD_BITS);
    let mut sets: [Vec<u64>; 3] = Default::default();
    for (set, address) in sets.iter_mut().zip(&call.arguments[1..4]) {
        if *address != 0 {
            *set = vec![0; words];
            for (index, word) in set.iter_mut().enumerate() {
                *word = user_memory::read(address.wrapping_add(index * 8)).map_err(|_| Failure::NotOurs)?;
            }
        }
    }
    let is_asked = |set: &[u64], fd: usize| {
        set.get(fd / WORD_BITS).is_some_and(|word| word >> (fd % WORD_BITS) & 1 != 0)
    };
    let ours: Vec<usize> = (0..call.int(0) as usize)
        .filter(|fd| sets.iter().any(|set| is_asked(set, *fd)) && descriptors::pin(*fd as i32).is_some())
        .collect();
    if ours.is_empty() {
        return Err(Failure::NotOurs);
    }
    let mut found: [Vec<u64>; 3] = sets.each_ref().map(|set| vec![0; set.len()]);
    let mut ready = 0;
    for fd in ours {
        let bit = 1 << (fd % WORD_BITS);
        for (index, set) in sets.iter_mut().enumerate().filter(|(_, set)| !set.is_empty()) {
            // Nothing exceptional happens to a file, and what is no open file is all at once.
            if set[fd / WORD_BITS] & bit != 0 && (index < 2 || is_path(fd as i32)) {
                found[index][fd / WORD_BITS] |= bit;
                ready += 1;
            }
            set[fd / WORD_BITS] &= !bit;
        }
    }
    let mut arguments = call.arguments;
    for (argument, set) in arguments[1..4].iter_mut().zip(&mut sets) {
        *argument = if set.is_empty() { 0 } else { set.as_mut_ptr() as usize };
    }
    if ready != 0 {
        arguments[4] = NO_WAIT.as_ptr() as usize;
    }
    let answer = kernel(call, arguments)?;
    for ((set, found), address) in sets.iter().zip(&found).zip(&call.arguments[1..4]) {
        for (index, (others, ours)) in set.iter().zip(found).enumerate() {
            user_memory::write(address.wrapping_add(index * 8), &(others | ours))?;
        }
    }
    Ok(answer + ready)
}
