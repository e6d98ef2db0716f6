//! The answer of a call, small enough to be written down beside millions of others.

use crate::operations::operation::Outcome;
use rustix::io::Errno;
use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};

/// An answer, as far as it is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// 0 of a call that succeeded.
    pub errno: i32,
    /// Bytes or names.
    pub count: u32,
    /// Of all that was answered but modification times, which the clock decides.
    pub hash: u64,
}

impl Answer {
    /// The answer of a call.
    #[must_use]
    pub fn of(outcome: &Result<Outcome, Errno>) -> Answer {
        let mut hasher = DefaultHasher::new();
        let (errno, count) = match outcome {
            Err(errno) => (errno.raw_os_error(), 0),
            Ok(Outcome::Done) => (0, 0),
            Ok(Outcome::Written(count)) => (0, *count as u32),
            Ok(Outcome::Bytes(bytes)) => {
                bytes.hash(&mut hasher);
                (0, bytes.len() as u32)
            }
            Ok(Outcome::Attributes(attributes)) => {
                attributes.clone().without_time().hash(&mut hasher);
                (0, 1)
            }
            Ok(Outcome::Target(target)) => {
                target.hash(&mut hasher);
                (0, 1)
            }
            Ok(Outcome::Names(names)) => {
                names.hash(&mut hasher);
                (0, names.len() as u32)
            }
        };
        Answer { errno, count, hash: hasher.finish() }
    }
}

/// The answer for people, shortened.
#[must_use]
pub fn text(outcome: &Result<Outcome, Errno>) -> String {
    match outcome {
        Ok(Outcome::Bytes(bytes)) => {
            let mut text = format!("{} bytes ", bytes.len());
            for byte in bytes {
                let _ = write!(text, "{byte:02x}");
            }
            text
        }
        Ok(Outcome::Attributes(found)) => {
            format!("{:?} {:o}, {} links, {} bytes", found.kind, found.mode, found.links, found.size)
        }
        Ok(Outcome::Names(names)) => {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            format!("names {}", names.join(" "))
        }
        Ok(other) => format!("{other:?}"),
        Err(errno) => format!("{errno:?}"),
    }
}
