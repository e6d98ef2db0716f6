//! The text that `blkparse` prints of a trace of the block layer.
//!
//! ```text
//!   8,0    3      11     0.009507758   697  Q   R 223490 + 8 [sqlite3]
//! ```
//!
//! A request passes many steps. It counts where it was queued (`Q`); if the trace has no such lines, where the driver got it (`D`), else where
//! it ended (`C`). The summary at the end is passed over.

use super::trace::{Access, LineReader, Op, TraceBuilder, number};

const SECTOR_BYTES: u64 = 512;
/// Steps at which requests may be counted; the first one that a trace has is taken.
const STEPS: [&str; 3] = ["Q", "D", "C"];

/// See the module.
#[derive(Debug, Default)]
pub struct BlkparseLines {
    by_step: [Vec<Access>; STEPS.len()],
    is_summary: bool,
}

impl LineReader for BlkparseLines {
    fn line(&mut self, line: &str, trace: &mut TraceBuilder) -> Result<(), String> {
        let mut words = line.split_whitespace();
        let Some(device) = words.next() else { return Ok(()) };
        self.is_summary |= ["CPU", "Total"].iter().any(|head| device.starts_with(head));
        if self.is_summary || device == "Input" {
            return Ok(());
        }
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !device.split_once(',').is_some_and(|(major, minor)| is_number(major) && is_number(minor)) {
            return Err(format!("{device:?} is no number of a device"));
        }
        // The processor and the number of the line.
        let mut words = words.skip(2);
        let mut next = |what: &str| words.next().ok_or_else(|| format!("the line ends before its {what}"));
        let at_us = microseconds(next("time")?)?;
        next("process")?;
        let step = next("step")?;
        let Some(step) = STEPS.iter().position(|known| *known == step) else { return Ok(()) };
        let kind = next("kind")?;
        let op = match kind {
            _ if !kind.contains(['R', 'W', 'D']) => return Ok(()),
            _ if kind.contains('D') => Op::Discard,
            _ if kind.contains('W') => Op::Write,
            _ => Op::Read,
        };
        let sector = next("sector")?;
        if sector.starts_with('[') {
            // A flush without content.
            return Ok(());
        }
        let sector = number("sector", sector)?;
        if next("length")? != "+" {
            return Err("no length stands behind the sector".to_owned());
        }
        let sectors = number("length", next("length")?)?;
        let bytes = |what: &str, sectors: u64| {
            sectors
                .checked_mul(SECTOR_BYTES)
                .ok_or_else(|| format!("the {what} {sectors} is beyond any disk"))
        };
        let (offset, bytes) = (bytes("sector", sector)?, bytes("length", sectors)?);
        self.by_step[step].push(Access { at_us, offset, bytes, file: trace.file(device), op });
        Ok(())
    }

    fn end(&mut self, trace: &mut TraceBuilder) -> Result<(), String> {
        let Some(taken) = self.by_step.iter_mut().find(|accesses| !accesses.is_empty()) else {
            return Ok(());
        };
        for Access { at_us, offset, bytes, file, op } in std::mem::take(taken) {
            match op {
                Op::Discard => trace.discard(at_us, file, offset, Some(bytes)),
                _ => trace.request(at_us, op, file, offset, bytes)?,
            }
        }
        Ok(())
    }
}

/// A time in seconds with a fraction.
fn microseconds(time: &str) -> Result<u64, String> {
    let wrong = || format!("the time {time:?} is no number of seconds");
    let (seconds, fraction) = time.split_once('.').ok_or_else(wrong)?;
    let seconds: u64 = seconds.parse().map_err(|_| wrong())?;
    let fraction: u64 = match fraction.len() {
        9 => fraction.parse().map_err(|_| wrong())?,
        _ => return Err(wrong()),
    };
    seconds.checked_mul(1_000_000).and_then(|us| us.checked_add(fraction / 1000)).ok_or_else(wrong)
}
