//! Bounds for what one call moves, and for what it has memory hold.
//!
//! A copy from a device without an end, from a large file, or of a file into itself goes on until the player's timer interrupts it, which
//! is at another byte on each side. A file in memory takes as much memory as `fallocate` gives it.

use super::sequence::Call;

/// More than the fixture's files hold.
const BYTES_MAX: u64 = 1 << 20;
/// Of a file system in memory, in `struct statfs`.
const IN_MEMORY: i64 = 0x0102_1994;

/// Lowers the length among the numbers that a call gets, if the call would go on for long. Both players lower the same ones.
pub fn lower(call: &Call, numbers: &mut [u64; 6]) {
    let (length, is_bounded) = match call.entry.name {
        "sendfile" => (3, is_long(numbers[1], numbers[0])),
        "copy_file_range" => (4, is_long(numbers[0], numbers[2])),
        "fallocate" => (3, is_in_memory(numbers[0])),
        _ => return,
    };
    // The kernel refuses a length below zero.
    if is_bounded && (BYTES_MAX..1 << 63).contains(&numbers[length]) {
        numbers[length] = BYTES_MAX;
    }
}

fn stat(descriptor: u64) -> Option<libc::stat> {
    // SAFETY: asks about a descriptor, of whatever there may be.
    unsafe {
        let mut found = std::mem::zeroed::<libc::stat>();
        (libc::fstat(descriptor as i32, &raw mut found) == 0).then_some(found)
    }
}

/// Whether a copy between two descriptors may have no end soon.
fn is_long(from: u64, to: u64) -> bool {
    let Some(source) = stat(from) else { return false };
    let is_device = source.st_mode & libc::S_IFMT == libc::S_IFCHR;
    let is_same =
        stat(to).is_some_and(|target| (target.st_dev, target.st_ino) == (source.st_dev, source.st_ino));
    is_device || is_same || source.st_size as u64 > BYTES_MAX
}

fn is_in_memory(descriptor: u64) -> bool {
    // SAFETY: asks about a descriptor, of whatever there may be.
    unsafe {
        let mut found = std::mem::zeroed::<libc::statfs>();
        libc::fstatfs(descriptor as i32, &raw mut found) == 0 && found.f_type == IN_MEMORY
    }
}
