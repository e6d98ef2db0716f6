//! A trace: the reads and writes of programs, each with its file, its bytes and its time.

use std::collections::HashMap;

/// A longer request is a mistake in the file.
const REQUEST_BYTES_MAX: u64 = 1 << 30;

/// A file of a trace, or a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u32);

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Read,
    Write,
    /// The range is no more: a removed file, the end of a truncated one, a trimmed range of a disk.
    Discard,
}

/// One request of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Microseconds since the trace began.
    pub at_us: u64,
    pub offset: u64,
    /// At least one. A discard may reach to the end of all files.
    pub bytes: u64,
    pub file: FileId,
    pub op: Op,
}

/// Requests in the order of their times.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Trace {
    pub name: String,
    pub accesses: Vec<Access>,
    /// How many files and disks there are.
    pub files: u32,
}

/// A trace that is being read or made.
#[derive(Debug, Default)]
pub struct TraceBuilder {
    files: HashMap<String, FileId>,
    accesses: Vec<Access>,
}

impl TraceBuilder {
    /// The file with a name.
    pub fn file(&mut self, name: &str) -> FileId {
        if let Some(&file) = self.files.get(name) {
            return file;
        }
        let file = FileId(self.files.len() as u32);
        self.files.insert(name.to_owned(), file);
        file
    }

    /// Adds a read or a write. A request of no bytes is none.
    pub fn request(
        &mut self,
        at_us: u64,
        op: Op,
        file: FileId,
        offset: u64,
        bytes: u64,
    ) -> Result<(), String> {
        if bytes > REQUEST_BYTES_MAX {
            return Err(format!("a request of {bytes} bytes is longer than 1 GiB"));
        }
        if offset.checked_add(bytes).is_none() {
            return Err(format!("{bytes} bytes at {offset} reach beyond the end of all files"));
        }
        if bytes > 0 {
            self.accesses.push(Access { at_us, offset, bytes, file, op });
        }
        Ok(())
    }

    /// A range is no more; `None`: all from `offset` on.
    pub fn discard(&mut self, at_us: u64, file: FileId, offset: u64, bytes: Option<u64>) {
        let most = u64::MAX - offset;
        let bytes = bytes.map_or(most, |bytes| bytes.min(most));
        if bytes > 0 {
            self.accesses.push(Access { at_us, offset, bytes, file, op: Op::Discard });
        }
    }

    /// The trace, from its first request on. Requests with equal times keep their order.
    pub fn finish(mut self, name: &str) -> Trace {
        self.accesses.sort_by_key(|access| access.at_us);
        let first_us = self.accesses.first().map_or(0, |access| access.at_us);
        self.accesses.iter_mut().for_each(|access| access.at_us -= first_us);
        Trace { name: name.to_owned(), accesses: self.accesses, files: self.files.len() as u32 }
    }
}

/// Reads one format, line by line.
pub trait LineReader {
    /// Reads a line. An error names the fault of the line.
    fn line(&mut self, line: &str, trace: &mut TraceBuilder) -> Result<(), String>;

    /// There are no more lines.
    fn end(&mut self, _trace: &mut TraceBuilder) -> Result<(), String> {
        Ok(())
    }
}

/// A number in a line.
pub fn number(what: &str, text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("the {what} {text:?} is no number"))
}
