//! The conductor: makes the first member, tells everybody what to do, and writes down what it hears.

use super::member::Member;
use super::step::{Chooser, Step};
use super::{ANSWERS, ANSWERS_SENDER, MEMBERS, OWN_DESCRIPTORS, orders, orders_sender};
use crate::operations::posix::Posix;
use std::io::{self, Write};

/// A member that says nothing for so long hangs, or has died.
const PATIENCE_MS: i32 = 30_000;

/// Conducts a family of `program` below `root`, an empty directory, for so many steps; writes its record.
pub fn conduct(root: &str, program: &str, seed: u64, steps: u64, record: &mut dyn Write) -> io::Result<()> {
    make_pipes()?;
    let first = Member { number: 0, root: root.to_owned(), program: program.to_owned() };
    // SAFETY: there is one thread.
    match unsafe { libc::fork() } {
        0 => first.begin(),
        -1 => return Err(io::Error::last_os_error()),
        _ => {}
    }
    let mut alive = [false; MEMBERS];
    alive[0] = true;
    let mut chooser = Chooser::new(seed);
    for number in 0..steps {
        let (member, step) = chooser.next(&alive);
        let mut answer = tell(member, &step)?;
        if step == Step::Exit {
            await_end(&mut answer)?;
        }
        writeln!(record, "{number} member {member}: {step:?}: {answer}")?;
        match step {
            Step::Fork { member } if answer == "forked" => alive[member] = true,
            Step::Spawn { member } if answer == "spawned" => alive[member] = true,
            Step::Exit => alive[member] = false,
            _ => {}
        }
    }
    for member in (0..MEMBERS).filter(|&member| alive[member]) {
        tell(member, &Step::Exit)?;
    }
    write!(record, "{:?}", Posix::new(root).tree()?.without_times())
}

fn make_pipes() -> io::Result<()> {
    let made = |result: i32| if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) };
    for (reader, writer) in
        (0..MEMBERS).map(|member| (orders(member), orders_sender(member))).chain([(ANSWERS, ANSWERS_SENDER)])
    {
        let mut ends = [0; 2];
        // SAFETY: the array has room for both ends; the numbers they get are not in use yet.
        unsafe {
            made(libc::pipe(ends.as_mut_ptr()))?;
            made(libc::dup2(ends[0], reader))?;
            made(libc::dup2(ends[1], writer))?;
            debug_assert!(ends[1] < OWN_DESCRIPTORS);
            ends.iter().for_each(|&end| {
                libc::close(end);
            });
        }
    }
    Ok(())
}

/// A member keeps its files until its end: that comes before the next step. Its number is its own.
fn await_end(answer: &mut String) -> io::Result<()> {
    let process = answer.rsplit(' ').next().and_then(|word| word.parse().ok());
    let process = process.and_then(rustix::process::Pid::from_raw);
    let process = process.ok_or_else(|| io::Error::other(format!("no process: {answer}")))?;
    answer.truncate(answer.find(' ').unwrap_or(answer.len()));
    match rustix::process::pidfd_open(process, rustix::process::PidfdFlags::empty()) {
        Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(errno) => Err(errno.into()),
        Ok(process) => {
            let mut ended = [rustix::event::PollFd::new(&process, rustix::event::PollFlags::IN)];
            rustix::event::poll(&mut ended, None)?;
            Ok(())
        }
    }
}

/// Has `member` do `step`; returns its answer.
fn tell(member: usize, step: &Step) -> io::Result<String> {
    let mut line = serde_json::to_vec(step)?;
    line.push(b'\n');
    // SAFETY: the buffer is valid for its length.
    if unsafe { libc::write(orders_sender(member), line.as_ptr().cast(), line.len()) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut answer = Vec::new();
    loop {
        let mut ready = libc::pollfd { fd: ANSWERS, events: libc::POLLIN, revents: 0 };
        let mut byte = 0u8;
        // SAFETY: one entry to poll, one byte to read.
        let got = unsafe {
            if libc::poll(&mut ready, 1, PATIENCE_MS) < 1 {
                return Err(io::Error::other(format!("member {member} does not answer {step:?}")));
            }
            libc::read(ANSWERS, (&raw mut byte).cast(), 1)
        };
        match got {
            1 if byte == b'\n' => break,
            1 => answer.push(byte),
            _ => return Err(io::Error::last_os_error()),
        }
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
