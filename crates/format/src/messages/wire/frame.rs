//! Frames: what stands around a message on a socket.

use super::{FRAME_BYTES_MAX, PROTOCOL_VERSION};
use serde::{Serialize, de::DeserializeOwned};

/// Why a message cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// It is longer than a frame may be.
    #[error("a message of {0} bytes is longer than {FRAME_BYTES_MAX}")]
    Length(usize),
    /// It is of another version of the protocol.
    #[error("the other side speaks protocol {0}, and this one {PROTOCOL_VERSION}")]
    Version(u32),
    /// Its bytes are no message.
    #[error("a message cannot be read: {0}")]
    Content(postcard::Error),
}

/// Where a frame's first word has the version.
pub(super) const VERSION_SHIFT: u32 = 24;
const _: () =
    assert!(PROTOCOL_VERSION < 1 << (u32::BITS - VERSION_SHIFT) && FRAME_BYTES_MAX < 1 << VERSION_SHIFT);

/// Appends a frame to `out`.
pub fn encode<M: Serialize>(message: &M, out: &mut Vec<u8>) -> Result<(), WireError> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    let filled = postcard::to_extend(message, std::mem::take(out)).map_err(WireError::Content)?;
    *out = filled;
    let length = out.len() - start - 4;
    if length > FRAME_BYTES_MAX {
        out.truncate(start);
        return Err(WireError::Length(length));
    }
    let head = PROTOCOL_VERSION << VERSION_SHIFT | length as u32;
    out[start..start + 4].copy_from_slice(&head.to_le_bytes());
    Ok(())
}

/// The length announced by a frame's first four bytes.
pub fn frame_length(head: [u8; 4]) -> Result<usize, WireError> {
    let head = u32::from_le_bytes(head);
    let version = head >> VERSION_SHIFT;
    if version != PROTOCOL_VERSION {
        return Err(WireError::Version(version));
    }
    let length = (head & !(u32::MAX << VERSION_SHIFT)) as usize;
    if length > FRAME_BYTES_MAX {
        return Err(WireError::Length(length));
    }
    Ok(length)
}

/// Reads a message from a frame's content.
pub fn decode<M: DeserializeOwned>(content: &[u8]) -> Result<M, WireError> {
    postcard::from_bytes(content).map_err(WireError::Content)
}
