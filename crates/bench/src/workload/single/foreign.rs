//! Calls that are not ours: the cost of files elsewhere for a program under the preload. The same call is made
//! by libc's symbol (which the preload interposes) and where no symbol leads to (`syscall`, the inside of
//! stdio: which the preload patches).

use std::ffi::CString;
use std::fs::File;
use std::hint::black_box;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Instant;

use crate::error::{BenchError, Context};
use crate::figures::measure::{Figure, Outcome};

/// Each figure is the fastest of so many loops: the cost of a call is what it takes when nothing else happens.
const LOOPS: u32 = 25;

/// Loops over foreign calls.
#[derive(Clone, Copy, Debug)]
pub struct Foreign {
    /// Calls in a loop.
    pub calls: u32,
}

impl Foreign {
    /// Measures on a file in `dir`, on /dev/null and on /dev/zero.
    pub fn run(&self, dir: &Path) -> Result<Outcome, BenchError> {
        let path = dir.join("foreign");
        std::fs::write(&path, b"x").context("making the file")?;
        let file = File::open(&path).context("opening the file")?;
        let null = File::options().write(true).open("/dev/null").context("opening /dev/null")?;
        let (fd, null) = (file.as_raw_fd(), null.as_raw_fd());

        let mut byte = 0_u8;
        let at: *mut libc::c_void = (&raw mut byte).cast();
        // SAFETY: `at` points to one byte, and one byte is asked for.
        let pread = self.nanoseconds("pread", 1, || unsafe { libc::pread(fd, at, 1, 0) as i64 })?;
        // SAFETY: as above.
        let write = self.nanoseconds("write", 1, || unsafe { libc::write(null, at, 1) as i64 })?;
        let by_number = self.nanoseconds("syscall", 1, || {
            // SAFETY: as above; the arguments are those of pread64.
            unsafe { libc::syscall(libc::SYS_pread64, fd, at, 1_usize, 0_i64) }
        })?;
        if byte != b'x' {
            return Err(BenchError::Corrupt("a foreign file reads wrong".to_owned()));
        }
        let mut stat = std::mem::MaybeUninit::<libc::stat>::uninit();
        // SAFETY: `stat` has room for one struct stat.
        let fstat = self.nanoseconds("fstat", 0, || unsafe { libc::fstat(fd, stat.as_mut_ptr()).into() })?;

        let zero = UnbufferedZero::open()?;
        let stdio = self.nanoseconds("fgetc", 0, || zero.next())?;
        Ok(Outcome::of(Figure::PreadCall, pread)
            .with(Figure::FstatCall, fstat)
            .with(Figure::WriteCall, write)
            .with(Figure::SyscallCall, by_number)
            .with(Figure::StdioCall, stdio))
    }

    /// Nanoseconds of one `call`, which has to answer `wanted` each time.
    fn nanoseconds(&self, name: &str, wanted: i64, mut call: impl FnMut() -> i64) -> Result<f64, BenchError> {
        let mut fastest = f64::INFINITY;
        for _ in 0..LOOPS {
            let start = Instant::now();
            for _ in 0..self.calls {
                if black_box(call()) != wanted {
                    return Err(std::io::Error::last_os_error()).context(format!("a foreign {name}"));
                }
            }
            fastest = fastest.min(start.elapsed().as_nanos() as f64 / f64::from(self.calls));
        }
        Ok(fastest)
    }
}

/// /dev/zero as a stdio stream without a buffer: each `fgetc` is one read made inside libc.
struct UnbufferedZero(std::ptr::NonNull<libc::FILE>);

impl UnbufferedZero {
    fn open() -> Result<Self, BenchError> {
        let path = CString::from(c"/dev/zero");
        // SAFETY: both arguments are C strings that outlive the call.
        let stream = unsafe { libc::fopen(path.as_ptr(), c"r".as_ptr()) };
        let Some(stream) = std::ptr::NonNull::new(stream) else {
            return Err(std::io::Error::last_os_error()).context("fopen of /dev/zero");
        };
        // SAFETY: the stream is open and nothing was read from it.
        unsafe { libc::setvbuf(stream.as_ptr(), std::ptr::null_mut(), libc::_IONBF, 0) };
        Ok(UnbufferedZero(stream))
    }

    fn next(&self) -> i64 {
        // SAFETY: the stream is open until drop.
        unsafe { libc::fgetc(self.0.as_ptr()) }.into()
    }
}

impl Drop for UnbufferedZero {
    fn drop(&mut self) {
        // SAFETY: closed once, here; there is nothing to flush on a stream for reading.
        unsafe { libc::fclose(self.0.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_call_is_measured() {
        let dir = tempfile::tempdir().unwrap();
        let outcome = Foreign { calls: 10 }.run(dir.path()).unwrap();
        assert_eq!(outcome.figures.len(), 5);
        assert!(outcome.figures.values().all(|&nanoseconds| nanoseconds > 0.0));
    }

    #[test]
    fn a_call_that_answers_something_else_is_an_error() {
        assert!(Foreign { calls: 1 }.nanoseconds("nothing", 1, || 0).is_err());
    }
}
