//! Traces of fio (`--write_iolog`), versions 2 and 3.
//!
//! | version | a line | times |
//! |---|---|---|
//! | 2 | `NAME ACTION OFFSET LENGTH`, `NAME add`, `NAME wait MICROSECONDS` | none but the waits: requests follow one another by a step |
//! | 3 | the same behind `MICROSECONDS`, without `wait` | of each line |
//!
//! fio appends to a file that is there. So a head may come again, and times begin anew behind it.

use super::trace::{LineReader, Op, TraceBuilder, number};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    Two,
    Three,
}

/// See the module.
#[derive(Debug)]
pub struct FioLines {
    version: Option<Version>,
    step_us: u64,
    now_us: u64,
    /// When the last head came.
    head_us: u64,
}

impl FioLines {
    /// Requests of version 2 follow one another after `step_us` microseconds.
    pub fn new(step_us: u64) -> FioLines {
        FioLines { version: None, step_us, now_us: 0, head_us: 0 }
    }
}

impl LineReader for FioLines {
    fn line(&mut self, line: &str, trace: &mut TraceBuilder) -> Result<(), String> {
        let line = line.trim();
        let head = match line {
            "fio version 2 iolog" => Some(Version::Two),
            "fio version 3 iolog" => Some(Version::Three),
            _ => None,
        };
        if head.is_some() {
            (self.version, self.head_us) = (head, self.now_us);
            return Ok(());
        }
        let Some(version) = self.version else {
            return Err(format!("{line:?} is not the head of an iolog of version 2 or 3"));
        };
        if line.is_empty() {
            return Ok(());
        }
        let rest = match version {
            Version::Two => line,
            Version::Three => {
                let (time, rest) = line.split_once(' ').ok_or("nothing stands behind the time")?;
                self.now_us = self.head_us.saturating_add(number("time", time)?);
                rest
            }
        };
        // A name may have blanks in it. So lines are read from their ends.
        let words: Vec<&str> = rest.rsplitn(4, ' ').collect();
        match *words {
            ["add" | "open" | "close", _, ..] => Ok(()),
            [wait, "wait", _, ..] if version == Version::Two => self.wait(wait),
            [_, wait, "wait", _] if version == Version::Two => self.wait(wait),
            [length, offset, action, name] => {
                let (offset, length) = (number("offset", offset)?, number("length", length)?);
                let file = trace.file(name);
                match action {
                    "read" => trace.request(self.now_us, Op::Read, file, offset, length)?,
                    "write" => trace.request(self.now_us, Op::Write, file, offset, length)?,
                    "trim" => trace.discard(self.now_us, file, offset, Some(length)),
                    "sync" | "datasync" | "sync_file_range" => return Ok(()),
                    _ => return Err(format!("there is no action {action:?}")),
                }
                if version == Version::Two {
                    self.now_us = self.now_us.saturating_add(self.step_us);
                }
                Ok(())
            }
            _ => Err("neither an action on a file nor a request".to_owned()),
        }
    }
}

impl FioLines {
    fn wait(&mut self, wait: &str) -> Result<(), String> {
        self.now_us = self.now_us.saturating_add(number("wait", wait)?);
        Ok(())
    }
}
