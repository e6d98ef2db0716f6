//! Traces of a store: JSON lines as `cuesta trace` prints them.
//!
//! ```text
//! {"time_ns":1700000000000000000,"event":"write","inode":7,"offset":0,"bytes":65536}
//! {"time_ns":1700000000000120000,"event":"read","inode":7,"offset":4096,"bytes":4096}
//! {"time_ns":1700000000000300000,"event":"truncate","inode":7,"bytes":8192}
//! {"time_ns":1700000000000500000,"event":"remove","inode":7}
//! ```
//!
//! Other events say nothing of content, and are passed over; so are other fields.

use super::trace::{LineReader, Op, TraceBuilder};
use serde::Deserialize;
use std::borrow::Cow;

#[derive(Deserialize)]
struct Line<'a> {
    time_ns: u64,
    #[serde(borrow)]
    event: Cow<'a, str>,
    inode: Option<u64>,
    offset: Option<u64>,
    /// Of a truncation: the bytes that the file still has.
    bytes: Option<u64>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct CuestaLines;

impl LineReader for CuestaLines {
    fn line(&mut self, line: &str, trace: &mut TraceBuilder) -> Result<(), String> {
        if line.trim().is_empty() {
            return Ok(());
        }
        let line: Line<'_> = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let missing = |what: &str| format!("a {} without {what}", line.event);
        let at_us = line.time_ns / 1000;
        let op = match &*line.event {
            "read" => Op::Read,
            "write" => Op::Write,
            "truncate" | "remove" => Op::Discard,
            _ => return Ok(()),
        };
        let inode = line.inode.ok_or_else(|| missing("inode"))?;
        let file = trace.file(&inode.to_string());
        if &*line.event == "remove" {
            trace.discard(at_us, file, 0, None);
            return Ok(());
        }
        let bytes = line.bytes.ok_or_else(|| missing("bytes"))?;
        if op == Op::Discard {
            trace.discard(at_us, file, bytes, None);
            return Ok(());
        }
        let offset = line.offset.ok_or_else(|| missing("offset"))?;
        trace.request(at_us, op, file, offset, bytes)
    }
}
