//! The formats of traces, and how a file in one is read.

use super::blkparse::BlkparseLines;
use super::cuesta::CuestaLines;
use super::fio::FioLines;
use super::msr::MsrLines;
use super::trace::{LineReader, Trace, TraceBuilder};
use crate::error::{BenchError, Context};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// A format of traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// JSON lines of a store.
    Cuesta,
    /// `fio --write_iolog`, versions 2 and 3.
    Fio,
    /// The text that blkparse prints.
    Blkparse,
    /// CSV of Microsoft Research Cambridge.
    Msr,
}

impl Format {
    /// The format of a file that begins with this line.
    fn guess(line: &str) -> Option<Format> {
        let first = line.split_whitespace().next().unwrap_or("");
        match line.trim_start() {
            line if line.starts_with('{') => Some(Format::Cuesta),
            line if line.starts_with("fio version") => Some(Format::Fio),
            line if line.split(',').count() == 7 => Some(Format::Msr),
            _ if first.split(',').count() == 2 => Some(Format::Blkparse),
            _ => None,
        }
    }

    fn lines(self, step_us: u64) -> Box<dyn LineReader> {
        match self {
            Format::Cuesta => Box::new(CuestaLines),
            Format::Fio => Box::new(FioLines::new(step_us)),
            Format::Blkparse => Box::new(BlkparseLines::default()),
            Format::Msr => Box::new(MsrLines),
        }
    }
}

/// Reads a trace from a file. Without a format its first line tells it. Where a format has no times, requests follow one another after
/// `step_us`.
pub fn read_file(path: &Path, format: Option<Format>, step_us: u64) -> Result<Trace, BenchError> {
    let file = File::open(path).context(format!("opening {}", path.display()))?;
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    read(BufReader::new(file), &path.display().to_string(), &name, format, step_us)
}

/// Reads a trace. Errors begin with `place`.
fn read(
    mut file: impl BufRead,
    place: &str,
    name: &str,
    format: Option<Format>,
    step_us: u64,
) -> Result<Trace, BenchError> {
    let mut trace = TraceBuilder::default();
    let mut reader = format.map(|format| format.lines(step_us));
    let mut line = Vec::new();
    let mut number = 0_u64;
    loop {
        number += 1;
        line.clear();
        let wrong = |what: String| BenchError::Unusable(format!("{place}:{number}: {what}"));
        if file.read_until(b'\n', &mut line).context(format!("reading {place}"))? == 0 {
            break;
        }
        let text = std::str::from_utf8(&line).map_err(|_| wrong("not a line of text".to_owned()))?;
        if reader.is_none() {
            if text.trim().is_empty() {
                continue;
            }
            let guess = Format::guess(text);
            reader =
                Some(guess.ok_or_else(|| wrong("in no format that is known".to_owned()))?.lines(step_us));
        }
        if let Some(reader) = &mut reader {
            reader.line(text, &mut trace).map_err(wrong)?;
        }
    }
    if let Some(reader) = &mut reader {
        reader.end(&mut trace).map_err(|what| BenchError::Unusable(format!("{place}: {what}")))?;
    }
    let trace = trace.finish(name);
    if trace.accesses.is_empty() {
        return Err(BenchError::Unusable(format!("{place}: there is no read and no write in it")));
    }
    Ok(trace)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::traces::trace::{Access, Op};
    use Op::{Discard, Read, Write};

    const SAMPLES: [(Format, &str); 5] = [
        (Format::Cuesta, include_str!("../../../tests/traces/cuesta.jsonl")),
        (Format::Fio, include_str!("../../../tests/traces/fio-2.log")),
        (Format::Fio, include_str!("../../../tests/traces/fio-3.log")),
        (Format::Blkparse, include_str!("../../../tests/traces/blkparse.txt")),
        (Format::Msr, include_str!("../../../tests/traces/msr.csv")),
    ];

    fn parse(text: &[u8], format: Option<Format>) -> Result<Trace, String> {
        read(text, "the-file", "test", format, 100).map_err(|error| error.to_string())
    }

    fn seen(trace: &Trace) -> Vec<(u64, Op, u32, u64, u64)> {
        let seen = |one: &Access| (one.at_us, one.op, one.file.0, one.offset, one.bytes);
        trace.accesses.iter().map(seen).collect()
    }

    #[test]
    fn the_first_line_tells_the_format() {
        for (format, text) in SAMPLES {
            let first = text.lines().next().unwrap();
            assert_eq!(Format::guess(first), Some(format), "{first}");
            assert!(parse(text.as_bytes(), None).unwrap() == parse(text.as_bytes(), Some(format)).unwrap());
        }
        let error = parse(b"\n\nhello\n", None).unwrap_err();
        assert_eq!(error, "the-file:3: in no format that is known");
    }

    #[test]
    fn lines_of_a_store_are_read() {
        let trace = parse(SAMPLES[0].1.as_bytes(), None).unwrap();
        assert_eq!(
            seen(&trace),
            [
                (0, Write, 0, 0, 65536),
                (120, Read, 0, 4096, 4096),
                (300, Discard, 0, 8192, u64::MAX - 8192),
                (400, Read, 1, 0, 100),
                (500, Discard, 0, 0, u64::MAX),
            ]
        );
    }

    #[test]
    fn both_versions_of_fio_are_read() {
        let three = parse(SAMPLES[2].1.as_bytes(), None).unwrap();
        assert_eq!(three.accesses.len(), 12);
        assert_eq!(
            seen(&three)[..3],
            [
                (0, Read, 0, 61440, 12288),
                (3865 - 179, Read, 1, 774144, 45056),
                (6771 - 179, Read, 0, 880640, 53248),
            ]
        );
        let two = parse(SAMPLES[1].1.as_bytes(), None).unwrap();
        let without_times = |trace: &Trace| -> Vec<_> {
            seen(trace).into_iter().map(|(_, op, file, offset, bytes)| (op, file, offset, bytes)).collect()
        };
        assert_eq!(without_times(&two), without_times(&three));
        let times: Vec<u64> = two.accesses.iter().take(3).map(|one| one.at_us).collect();
        assert_eq!(times, [0, 2600, 2700], "a wait stands before the second one");
        let twice = parse(SAMPLES[2].1.repeat(2).as_bytes(), None).unwrap();
        assert_eq!(twice.accesses[12].at_us, 10_937, "its times begin where the first part ends");
    }

    #[test]
    fn requests_of_a_disk_count_once() {
        let trace = parse(SAMPLES[3].1.as_bytes(), None).unwrap();
        let seen = seen(&trace);
        assert_eq!(seen.len(), 9, "a flush has no content");
        assert_eq!(seen[..2], [(0, Read, 0, 3992376 * 512, 65536), (1093, Write, 0, 2188128 * 512, 16384)]);
        assert_eq!(seen[8], (8744, Discard, 0, 4096 * 512, 1 << 20));
        let issued: String = SAMPLES[3]
            .1
            .lines()
            .filter(|line| !line.contains("  Q "))
            .map(|line| format!("{line}\n"))
            .collect();
        let issued = parse(issued.as_bytes(), None).unwrap();
        assert_eq!(issued.accesses.len(), 9);
        assert_eq!(issued.accesses[1].at_us, 1096 - 3);
    }

    #[test]
    fn requests_come_in_the_order_of_their_times() {
        let trace = parse(SAMPLES[4].1.as_bytes(), None).unwrap();
        assert_eq!(
            seen(&trace),
            [
                (0, Read, 0, 9056792576, 4096),
                (0, Write, 1, 2748375040, 12288),
                (21_011, Read, 0, 9056796672, 65536),
                (1_022_589, Read, 0, 0, 4096),
                (1_022_590, Write, 1, 2748387328, 512),
            ]
        );
    }

    #[test]
    fn a_mistake_is_told_with_its_line() {
        let cases: [(&[u8], &str); 12] = [
            (b"{\"time_ns\":1,\"event\":\"read\",\"inode\":1,\"offset\":0}\n", "1: a read without bytes"),
            (b"{\"time_ns\":-1,\"event\":\"read\"}\n", "1: invalid value"),
            (b"fio version 1 iolog\n", "1: \"fio version 1 iolog\" is not the head"),
            (b"fio version 3 iolog\n5 a read 1 x\n", "2: the length \"x\" is no number"),
            (b"fio version 3 iolog\n5 a eat 1 2\n", "2: there is no action \"eat\""),
            (b"fio version 2 iolog\na\n", "2: neither an action"),
            (b"1,hm,0,Read,0,4096,1\n1,hm,0,Read,0,4096\n", "2: 6 fields instead of 7"),
            (b"1,hm,0,Read,18446744073709551615,2,1\n", "1: 2 bytes at 18446744073709551615 reach"),
            (b"1,hm,0,Read,0,2000000000,1\n", "1: a request of 2000000000 bytes"),
            (b"8,0 0 1 1.5 9 Q R 8 + 8 [x]\n", "1: the time \"1.5\" is no number of seconds"),
            (b"8,0 0 1 1.500000000 9 Q R 8 8 [x]\n", "1: no length stands behind"),
            (b"1,hm,0,Read,0,4096,1\n\xff\n", "2: not a line of text"),
        ];
        for (text, message) in cases {
            let error = parse(text, None).unwrap_err();
            assert!(error.starts_with(&format!("the-file:{message}")), "{error}, not {message}");
            assert_eq!(error.lines().count(), 1);
        }
        assert_eq!(parse(b"", None).unwrap_err(), "the-file: there is no read and no write in it");
    }

    #[test]
    fn changed_files_are_read_or_refused_in_one_line() {
        let mut rng = fastrand::Rng::with_seed(11);
        let mut read_well = 0;
        for round in 0..4000 {
            let (format, text) = SAMPLES[round % SAMPLES.len()];
            let mut bytes = text.as_bytes().to_vec();
            for _ in 0..rng.usize(1..4) {
                let at = rng.usize(..bytes.len());
                match rng.u8(..4) {
                    0 => bytes[at] = rng.u8(..),
                    1 => bytes[at] = *rng.choice(b"0123456789,+ -.\n{}\"").unwrap(),
                    2 => bytes.truncate(at + 1),
                    _ => drop(bytes.splice(at..at, std::iter::repeat_n(b'9', 20))),
                }
            }
            let as_any = *rng.choice(&SAMPLES).unwrap();
            for format in [None, Some(format), Some(as_any.0)] {
                match parse(&bytes, format) {
                    Ok(_) => read_well += 1,
                    Err(error) => assert_eq!(error.trim_end().lines().count(), 1, "{error}"),
                }
            }
        }
        assert!(read_well > 0);
    }
}
