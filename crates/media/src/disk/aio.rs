//! Linux's asynchronous I/O, as far as it is needed here: writes that are handed to the kernel, and a queue of what is done
//! that can be looked at without a call.
//!
//! rustix has none of it, and libc's way to the kernel may be a door's, which serves these calls to the program: so they are
//! made here. The kernel only reads the memory it is given: an address that is not mapped is EFAULT.

use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};
use syscalls::{Sysno, raw_syscall};

/// `IOCB_CMD_PWRITE`.
const WRITE: u16 = 1;
/// `RWF_DSYNC`: done means durable.
const DURABLE: u32 = 2;

/// `struct iocb`, of a little-endian machine.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Request {
    data: u64,
    key: u32,
    write_flags: u32,
    operation: u16,
    priority: i16,
    file: i32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_file: u32,
}

const _: () = assert!(size_of::<Request>() == 64 && std::mem::offset_of!(Request, buffer) == 24);

impl Request {
    /// A write that is durable when it is done, of memory that stays where it is until then.
    pub(crate) fn durable_write(file: BorrowedFd<'_>, memory: *const u8, bytes: u64, offset: u64) -> Request {
        Request {
            write_flags: DURABLE,
            operation: WRITE,
            file: file.as_raw_fd(),
            buffer: memory as u64,
            bytes,
            offset: offset as i64,
            ..Request::default()
        }
    }
}

/// `struct io_event`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Event {
    data: u64,
    request: u64,
    result: i64,
    result_2: i64,
}

/// The head of the queue, `struct aio_ring`: the kernel's to write, but for what [`Queue::take`] has it do.
#[repr(C)]
struct Head {
    id: u32,
    places: u32,
    head: AtomicU32,
    tail: AtomicU32,
}

/// A queue of requests that are done.
#[derive(Debug)]
pub(crate) struct Queue {
    /// Its name to the kernel, and where the kernel mapped it.
    head: NonNull<Head>,
}

// SAFETY: threads reach only atomics through it, and calls that any thread may make.
unsafe impl Send for Queue {}
// SAFETY: as for `Send`.
unsafe impl Sync for Queue {}

fn checked(answer: usize) -> Result<usize, Errno> {
    // The kernel's errors are the last 4095 numbers.
    let code = (answer as isize).wrapping_neg();
    if (1..4096).contains(&code) { Err(Errno::from_raw_os_error(code as i32)) } else { Ok(answer) }
}

impl Queue {
    /// A queue for so many requests at once. It is this process's: a child of fork has none.
    pub(crate) fn new(requests: u32) -> Result<Queue, Errno> {
        let mut head = null_mut::<Head>();
        // SAFETY: the kernel writes the one word it is given.
        checked(unsafe { raw_syscall!(Sysno::io_setup, requests, &raw mut head) })?;
        NonNull::new(head).map(|head| Queue { head }).ok_or(Errno::NOMEM)
    }

    /// Hands a request to the kernel.
    pub(crate) fn submit(&self, request: &Request) -> Result<(), Errno> {
        let mut list = [&raw const *request];
        loop {
            // SAFETY: one request, which the kernel copies; of the memory it names it only reads (module comment).
            let submitted =
                unsafe { raw_syscall!(Sysno::io_submit, self.head.as_ptr(), 1, list.as_mut_ptr()) };
            match checked(submitted) {
                Ok(1) => return Ok(()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Whether something is done that was not taken.
    pub(crate) fn has_done(&self) -> bool {
        // SAFETY: mapped by the kernel until the queue is dropped; both words are atomics of the kernel's, too.
        let head = unsafe { self.head.as_ref() };
        head.head.load(Ordering::Relaxed) != head.tail.load(Ordering::Acquire)
    }

    /// Waits until a request is done, and takes it: how many bytes it wrote.
    pub(crate) fn take(&self) -> Result<u64, Errno> {
        let mut event = MaybeUninit::<Event>::uninit();
        loop {
            let (least, most, for_ever) = (1, 1, null_mut::<u8>());
            // SAFETY: there is room for the one event that is asked for.
            let taken = unsafe {
                raw_syscall!(
                    Sysno::io_getevents,
                    self.head.as_ptr(),
                    least,
                    most,
                    event.as_mut_ptr(),
                    for_ever
                )
            };
            match checked(taken) {
                Ok(1) => {
                    // SAFETY: the kernel says that it filled it.
                    let event = unsafe { event.assume_init() };
                    return checked(event.result as usize).map(|bytes| bytes as u64);
                }
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: it is not used any more. A child of fork has no such queue, and is told so.
        unsafe { raw_syscall!(Sysno::io_destroy, self.head.as_ptr()) };
    }
}
