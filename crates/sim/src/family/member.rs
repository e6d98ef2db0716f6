//! A member: does what it is told, and answers, until it is told to exit.

use super::step::Step;
use super::{ANSWERS, ANSWERS_SENDER, MEMBERS, OWN_DESCRIPTORS, calls, orders, orders_sender};
use std::ffi::CString;
use std::io;

/// The identity of a member.
#[derive(Debug)]
pub struct Member {
    /// Its number.
    pub number: usize,
    /// Where paths that begin with a slash begin.
    pub root: String,
    /// The program that is a member, by path.
    pub program: String,
}

impl Member {
    /// The first one, a child of the conductor's: it gives up what only the conductor needs.
    pub(super) fn begin(self) -> ! {
        let path = |name: &str| CString::new(format!("{}{name}", self.root)).expect("no zero in a path");
        // SAFETY: NUL-terminated paths, and descriptors which nothing in this process owns but the family.
        unsafe {
            for member in 0..MEMBERS {
                libc::close(orders_sender(member));
            }
            libc::close(ANSWERS);
            libc::close_range(0, OWN_DESCRIPTORS as u32 - 1, 0);
            libc::signal(libc::SIGCHLD, libc::SIG_IGN);
            libc::umask(0o022);
            libc::chdir(path("").as_ptr());
            // Its standard streams are a file, as a shell would redirect them.
            let flags = libc::O_RDWR | libc::O_CREAT | libc::O_APPEND;
            let input = libc::open(path("/standard").as_ptr(), flags, 0o644);
            libc::dup(input);
            libc::dup(input);
        }
        self.work()
    }

    /// A member again, after it has become a new program: the step that did is answered now.
    pub fn go_on(self) -> ! {
        answer(Ok("a new program".to_owned()));
        self.work()
    }

    /// Does what it is told.
    pub fn work(mut self) -> ! {
        loop {
            match self.next_step() {
                Step::Exit => {
                    answer(Ok(format!("exits {}", std::process::id())));
                    // SAFETY: no handlers of this process's are to run.
                    unsafe { libc::_exit(0) }
                }
                // SAFETY: there is one thread.
                Step::Fork { member } => match unsafe { libc::fork() } {
                    0 => self.number = member,
                    child => {
                        answer(if child < 0 { Err(io::Error::last_os_error()) } else { Ok("forked".into()) })
                    }
                },
                Step::Spawn { member } => answer(self.spawn(member)),
                Step::Exec => answer(Err(self.exec())),
                step => answer(calls::make(&step, &self.root)),
            }
        }
    }

    fn next_step(&self) -> Step {
        let mut line = Vec::new();
        let mut byte = 0u8;
        loop {
            // SAFETY: the buffer is one byte.
            match unsafe { libc::read(orders(self.number), (&raw mut byte).cast(), 1) } {
                1 if byte == b'\n' => break,
                1 => line.push(byte),
                // The conductor is gone.
                // SAFETY: no handlers of this process's are to run.
                _ => unsafe { libc::_exit(1) },
            }
        }
        serde_json::from_slice(&line).expect("the conductor writes steps")
    }

    /// The arguments of the program that is member `number`.
    fn arguments(&self, action: &str, number: usize) -> Vec<CString> {
        let number = number.to_string();
        [&self.program, action, "--root", &self.root, "--number", &number]
            .into_iter()
            .map(|text| CString::new(text).expect("arguments have no zero in them"))
            .collect()
    }

    fn exec(&self) -> io::Error {
        let arguments = self.arguments("go-on", self.number);
        let pointers = pointers(&arguments);
        // SAFETY: NUL-terminated strings, and a list of them that ends with null.
        unsafe { libc::execv(pointers[0], pointers.as_ptr()) };
        io::Error::last_os_error()
    }

    fn spawn(&self, member: usize) -> io::Result<String> {
        unsafe extern "C" {
            static environ: *const *mut libc::c_char;
        }
        let arguments = self.arguments("work", member);
        let pointers = pointers(&arguments);
        let mut child = 0;
        // SAFETY: as in `exec`; the environment is this process's own.
        let error = unsafe {
            libc::posix_spawn(
                &mut child,
                pointers[0],
                std::ptr::null(),
                std::ptr::null(),
                pointers.as_ptr().cast(),
                environ,
            )
        };
        if error == 0 { Ok("spawned".to_owned()) } else { Err(io::Error::from_raw_os_error(error)) }
    }
}

fn pointers(arguments: &[CString]) -> Vec<*const libc::c_char> {
    arguments.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
}

/// Tells the conductor what came of a step.
fn answer(outcome: io::Result<String>) {
    let mut line = outcome.unwrap_or_else(|error| error.to_string());
    line.push('\n');
    // SAFETY: the buffer is valid for its length. If the conductor is gone, the next read says so.
    unsafe { libc::write(ANSWERS_SENDER, line.as_ptr().cast(), line.len()) };
}
