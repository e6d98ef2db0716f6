//! A call as the program made it, and what it can be answered.

use cuesta_libfs::Error;

/// Why a call has no answer of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The kernel decides, as if we were not here.
    NotOurs,
    /// The call failed.
    Errno(i32),
    /// The call is about the store and not served: counted, and answered with an error number.
    Unserved(i32),
    /// A file would get larger than the process allows itself: EFBIG, and a signal.
    OverLimit,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::OverLimit => Failure::OverLimit,
            error => Failure::Errno(error.errno()),
        }
    }
}

impl From<rustix::io::Errno> for Failure {
    fn from(errno: rustix::io::Errno) -> Self {
        Failure::Errno(errno.raw_os_error())
    }
}

/// The answer of a call.
pub type Answer = Result<isize, Failure>;

/// One intercepted call.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Its number.
    pub number: usize,
    /// Its arguments.
    pub arguments: [usize; 6],
}

impl Call {
    /// The argument at `index` as a C int.
    pub fn int(&self, index: usize) -> i32 {
        self.arguments[index] as i32
    }

    /// The argument at `index` as it is.
    pub fn word(&self, index: usize) -> usize {
        self.arguments[index]
    }

    /// Makes the call as it came, or with other arguments, and answers what the kernel answers.
    pub fn kernel(&self, arguments: [usize; 6]) -> isize {
        // SAFETY: a call the application asked for, with arguments that mean the same.
        unsafe { crate::arch::syscall(self.number, arguments) }
    }
}

/// The kernel's answer, as an answer of ours.
pub fn from_kernel(answer: isize) -> Answer {
    if answer < 0 { Err(Failure::Errno(-answer as i32)) } else { Ok(answer) }
}
