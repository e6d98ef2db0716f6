//! Small files in which the kernel describes this process.

use rustix::fs::{Mode, OFlags};
use std::ffi::CStr;

/// How much of a file of the kernel's is read at a time.
const CONTENTS_STEP: usize = 4096;

/// The content of a small file of the kernel's. The standard library would read it by cancellation points.
pub fn contents(path: &CStr) -> rustix::io::Result<Vec<u8>> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let (mut bytes, mut length) = (Vec::new(), 0);
    loop {
        bytes.resize(length + CONTENTS_STEP, 0);
        match rustix::io::read(&file, &mut bytes[length..])? {
            0 => break,
            more => length += more,
        }
    }
    bytes.truncate(length);
    Ok(bytes)
}
