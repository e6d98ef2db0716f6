//! Notices to the kernel's FUSE driver: an answer that the server of a mount gave holds no more. No I/O.
//!
//! Each is a message to be written, whole, to a descriptor of the mount (`linux/fuse.h`: `fuse_out_header` with the
//! notice's code for an error and no request's number, then what it is about, in the machine's own byte order).

use crate::InodeNumber;
use std::ops::Range;

/// Bytes in front of what a notice is about.
const HEADER_BYTES: usize = 16;
/// Bytes of a notice about an inode.
pub const INODE_NOTICE_BYTES: usize = HEADER_BYTES + 24;

/// `FUSE_NOTIFY_INVAL_INODE`.
const ABOUT_INODE: i32 = 2;

/// What of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// Its attributes and access lists. Taken at once, whatever the kernel is doing.
    Attributes,
    /// These and all of its content. Waits for reads and writes of it that are under way.
    Content,
}

fn header(notice: &mut [u8], code: i32) {
    let length = notice.len() as u32;
    notice[..4].copy_from_slice(&length.to_ne_bytes());
    notice[4..8].copy_from_slice(&code.to_ne_bytes());
}

/// Attributes and content of an inode hold no more.
#[must_use]
pub fn inode(inode: InodeNumber, about: About) -> [u8; INODE_NOTICE_BYTES] {
    let mut notice = [0; INODE_NOTICE_BYTES];
    header(&mut notice, ABOUT_INODE);
    let offset: i64 = match about {
        About::Attributes => -1,
        About::Content => 0,
    };
    notice[16..24].copy_from_slice(&inode.0.to_ne_bytes());
    notice[24..32].copy_from_slice(&offset.to_ne_bytes());
    notice
}

/// Pages with any byte of `bytes`, which are some, hold no more, nor do the inode's attributes. Waits for reads and writes of
/// these pages that are under way, and has those written back first that were stored to.
#[must_use]
pub fn content_part(inode: InodeNumber, bytes: Range<u64>) -> [u8; INODE_NOTICE_BYTES] {
    let mut notice = self::inode(inode, About::Content);
    notice[24..32].copy_from_slice(&bytes.start.to_ne_bytes());
    notice[32..40].copy_from_slice(&(bytes.end - bytes.start).to_ne_bytes());
    notice
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_say_their_length_their_code_and_what_they_are_about() {
        let word = |bytes: &[u8], at: usize| i32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        let content = inode(InodeNumber(7), About::Content);
        assert_eq!((word(&content, 0), word(&content, 4), word(&content, 16)), (40, 2, 7));
        assert_eq!(content[24..], [0; 16]);
        assert_eq!(inode(InodeNumber(7), About::Attributes)[24..32], (-1i64).to_ne_bytes());
        let part = content_part(InodeNumber(7), 10..15);
        assert_eq!((word(&part, 16), word(&part, 24), word(&part, 32)), (7, 10, 5));
    }
}
