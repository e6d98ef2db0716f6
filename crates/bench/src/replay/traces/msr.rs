//! The traces of Microsoft Research Cambridge, and others in their format (Narayanan et al., "Write off-loading", FAST 2008).
//!
//! ```text
//! 128166372003061629,hm,0,Read,9056792576,4096,151
//! ```
//!
//! Each line has a time in steps of 100 ns, a host, a disk, the kind of the request, its offset and its bytes, and the time that it took.

use super::trace::{LineReader, Op, TraceBuilder, number};

const STEPS_IN_MICROSECOND: u64 = 10;

/// See the module.
#[derive(Debug, Default)]
pub struct MsrLines;

impl LineReader for MsrLines {
    fn line(&mut self, line: &str, trace: &mut TraceBuilder) -> Result<(), String> {
        let line = line.trim();
        if line.is_empty() {
            return Ok(());
        }
        let fields: Vec<&str> = line.split(',').collect();
        let [time, host, disk, kind, offset, bytes, _took] = *fields else {
            return Err(format!("{} fields instead of 7", fields.len()));
        };
        let op = match kind {
            _ if kind.eq_ignore_ascii_case("read") => Op::Read,
            _ if kind.eq_ignore_ascii_case("write") => Op::Write,
            _ => return Err(format!("the kind {kind:?} is neither Read nor Write")),
        };
        let at_us = number("time", time)? / STEPS_IN_MICROSECOND;
        let (offset, bytes) = (number("offset", offset)?, number("size", bytes)?);
        let file = trace.file(&format!("{host},{disk}"));
        trace.request(at_us, op, file, offset, bytes)
    }
}
