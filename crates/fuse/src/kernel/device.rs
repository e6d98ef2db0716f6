//! The kernel's end of a mount: requests are read from it, answers and notices written to it.

use crate::kernel::abi::OutHeader;
use cuesta_format::InodeNumber;
use cuesta_format::kernel_notice::{self, About};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::ioctl;
use std::io::IoSlice;
use std::ops::Range;
use zerocopy::IntoBytes as _;

/// Where the device is.
const PATH: &str = "/dev/fuse";
/// `FUSE_DEV_IOC_CLONE`.
const CLONE: ioctl::Opcode = ioctl::opcode::read::<u32>(229, 0);

/// The outcome of a read of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A request of so many bytes.
    Request(usize),
    /// The mount is gone.
    Unmounted,
}

/// One descriptor of a mount. Each has requests of its own that it answers; notices go by any.
#[derive(Debug)]
pub struct Device {
    file: OwnedFd,
}

impl Device {
    /// The device that a mount is to be made with.
    pub fn open() -> Result<Device, Errno> {
        let file = rustix::fs::open(PATH, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Device { file })
    }

    /// One that came from elsewhere.
    #[must_use]
    pub fn from_file(file: OwnedFd) -> Device {
        Device { file }
    }

    /// The descriptor itself.
    #[must_use]
    pub fn into_file(self) -> OwnedFd {
        self.file
    }

    /// One more of the same mount, for another thread: its requests and answers meet no other thread's.
    pub fn another(&self) -> Result<Device, Errno> {
        let other = Device::open()?;
        let number: u32 = std::os::fd::AsRawFd::as_raw_fd(&self.file).unsigned_abs();
        // SAFETY: the operation reads one 32-bit number, a descriptor of the mount that this one is to belong to.
        unsafe { ioctl::ioctl(&other.file, ioctl::Setter::<CLONE, u32>::new(number)) }?;
        Ok(other)
    }

    /// Waits for a request.
    pub fn receive(&self, buffer: &mut [u8]) -> Result<Received, Errno> {
        loop {
            match rustix::io::read(&self.file, &mut *buffer) {
                Ok(0) => return Ok(Received::Unmounted),
                Ok(bytes) => return Ok(Received::Request(bytes)),
                // The request was taken back while it was being handed over.
                Err(Errno::NOENT | Errno::INTR | Errno::AGAIN) => {}
                Err(Errno::NODEV | Errno::CONNABORTED) => return Ok(Received::Unmounted),
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Answers request `unique`.
    pub fn answer(&self, unique: u64, answer: &[u8]) {
        self.send(unique, 0, answer);
    }

    /// Answers request `unique` with an error number.
    pub fn refuse(&self, unique: u64, errno: i32) {
        self.send(unique, -errno, b"");
    }

    fn send(&self, unique: u64, error: i32, bytes: &[u8]) {
        let header = header(unique, error, bytes.len());
        // The sender may be gone, and the request with it.
        let _ = rustix::io::writev(&self.file, &[IoSlice::new(header.as_bytes()), IoSlice::new(bytes)]);
    }

    /// The kernel's attributes of an inode hold no more.
    pub fn doubt_attributes(&self, inode: InodeNumber) {
        let _ = rustix::io::write(&self.file, &kernel_notice::inode(inode, About::Attributes));
    }

    /// Throws away the kernel's cached content of a file. Waits for reads of it that are under way: a thread that may be
    /// waited for must not wait for the caller.
    pub fn forget_content(&self, inode: InodeNumber) {
        // The kernel knows no such inode: so much the better.
        let _ = rustix::io::write(&self.file, &kernel_notice::inode(inode, About::Content));
    }

    /// Throws away the pages of a part of a file, which are written back first where they were stored to. Waits as
    /// `forget_content` does.
    pub fn forget_content_part(&self, inode: InodeNumber, bytes: Range<u64>) {
        if !bytes.is_empty() {
            let _ = rustix::io::write(&self.file, &kernel_notice::content_part(inode, bytes));
        }
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn header(unique: u64, error: i32, bytes: usize) -> OutHeader {
    OutHeader { length: (size_of::<OutHeader>() + bytes) as u32, error, unique }
}
