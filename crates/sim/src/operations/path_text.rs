//! Names and paths as tests write them down: any bytes, in a form that is readable and survives JSON.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A path, a symlink's target or the name of an extended attribute: bytes, shown and stored percent-escaped where they are not
/// printable ASCII.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub struct PathText(pub Vec<u8>);

impl PathText {
    /// The bytes of the path.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for PathText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &byte in &self.0 {
            if byte.is_ascii_graphic() && byte != b'%' {
                write!(formatter, "{}", byte as char)?;
            } else {
                write!(formatter, "%{byte:02x}")?;
            }
        }
        Ok(())
    }
}

/// For people: a long path shows only its ends.
impl fmt::Debug for PathText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            bytes if bytes.len() <= 64 => write!(formatter, "{self}"),
            bytes => {
                let end = |bytes: &[u8]| PathText(bytes.to_vec()).to_string();
                let (head, tail) = (end(&bytes[..24]), end(&bytes[bytes.len() - 16..]));
                write!(formatter, "{head}…{tail} ({} bytes)", bytes.len())
            }
        }
    }
}

impl From<PathText> for String {
    fn from(path: PathText) -> String {
        path.to_string()
    }
}

impl From<String> for PathText {
    fn from(text: String) -> PathText {
        PathText::from(text.as_str())
    }
}

/// Undoes the percent-escapes; a `%` that starts none stands for itself.
impl From<&str> for PathText {
    fn from(text: &str) -> PathText {
        let mut bytes = Vec::with_capacity(text.len());
        let mut rest = text.as_bytes();
        while let [first, tail @ ..] = rest {
            let escaped = tail
                .get(..2)
                .filter(|_| *first == b'%')
                .and_then(|digits| std::str::from_utf8(digits).ok())
                .and_then(|digits| u8::from_str_radix(digits, 16).ok());
            bytes.push(escaped.unwrap_or(*first));
            rest = if escaped.is_some() { &tail[2..] } else { tail };
        }
        PathText(bytes)
    }
}
