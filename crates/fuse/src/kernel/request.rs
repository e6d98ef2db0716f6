//! A request as it came from the kernel: its header, and a reader of what follows.

use crate::kernel::abi::{InHeader, Opcode};
use zerocopy::{FromBytes, Immutable, KnownLayout};

/// The message is no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a request that cannot be read")]
pub struct Malformed;

/// One request.
#[derive(Debug)]
pub struct Request<'a> {
    /// The header: the sender, and the inode it asks about.
    pub header: InHeader,
    /// The kind of request; `None`: one that this side does not know.
    pub opcode: Option<Opcode>,
    /// What stands behind the header.
    pub arguments: Arguments<'a>,
}

impl<'a> Request<'a> {
    /// Reads one out of what a read of the device gave.
    pub fn read(bytes: &'a [u8]) -> Result<Request<'a>, Malformed> {
        let (header, _) = InHeader::read_from_prefix(bytes).map_err(|_| Malformed)?;
        let arguments = bytes.get(size_of::<InHeader>()..header.length as usize).ok_or(Malformed)?;
        // The kernel adds an extension to some requests, unasked, behind the rest.
        let extension = usize::from(header.extension_length) * 8;
        let kept = arguments.len().checked_sub(extension).ok_or(Malformed)?;
        let opcode = Opcode::from_number(header.opcode);
        Ok(Request { header, opcode, arguments: Arguments { rest: &arguments[..kept] } })
    }
}

/// The rest of a request's arguments.
#[derive(Clone, Copy, Debug)]
pub struct Arguments<'a> {
    rest: &'a [u8],
}

impl<'a> Arguments<'a> {
    /// The next structure.
    pub fn structure<T: FromBytes + KnownLayout + Immutable>(&mut self) -> Result<T, Malformed> {
        let (found, rest) = T::read_from_prefix(self.rest).map_err(|_| Malformed)?;
        self.rest = rest;
        Ok(found)
    }

    /// The next text, up to its zero byte.
    pub fn text(&mut self) -> Result<&'a [u8], Malformed> {
        let end = self.rest.iter().position(|&byte| byte == 0).ok_or(Malformed)?;
        let (text, rest) = self.rest.split_at(end);
        self.rest = &rest[1..];
        Ok(text)
    }

    /// The next `count` bytes.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (bytes, rest) = self.rest.split_at_checked(count).ok_or(Malformed)?;
        self.rest = rest;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::abi::MakeDirectoryIn;
    use zerocopy::IntoBytes;

    fn request(arguments: &[u8], extension_length: u16) -> Vec<u8> {
        let length = (size_of::<InHeader>() + arguments.len()) as u32;
        let header = InHeader { length, opcode: 9, node: 5, extension_length, ..InHeader::default() };
        [header.as_bytes(), arguments].concat()
    }

    #[test]
    fn structures_and_texts_are_read_in_turn() {
        let arguments = [MakeDirectoryIn { mode: 0o755, umask: 0o22 }.as_bytes(), b"name\0"].concat();
        let bytes = request(&arguments, 0);
        let mut read = Request::read(&bytes).unwrap();
        assert_eq!((read.opcode, read.header.node), (Some(Opcode::MakeDirectory), 5));
        let made: MakeDirectoryIn = read.arguments.structure().unwrap();
        assert_eq!((made.mode, made.umask), (0o755, 0o22));
        assert_eq!(read.arguments.text(), Ok(b"name".as_slice()));
        assert_eq!(read.arguments.text(), Err(Malformed));
    }

    #[test]
    fn what_is_cut_short_is_no_request() {
        let bytes = request(b"12345678", 1);
        assert_eq!(Request::read(&bytes).unwrap().arguments.bytes(1), Err(Malformed));
        assert!(Request::read(&request(b"1234", 1)).is_err());
        assert!(Request::read(&bytes[..bytes.len() - 1]).is_err());
        assert!(Request::read(&bytes[..20]).is_err());
    }

    #[test]
    fn what_is_not_known_says_so() {
        let mut bytes = request(b"", 0);
        bytes[4..8].copy_from_slice(&4096u32.to_ne_bytes());
        assert_eq!(Request::read(&bytes).unwrap().opcode, None);
    }
}
