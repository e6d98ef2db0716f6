//! The damage that a medium does to a file, or a mistaken operator.

use crate::operations::random::Random;
use clap::ValueEnum;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// Bytes that are read and written as one.
const BLOCK_BYTES: usize = 4096;

/// A kind of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
pub enum Kind {
    /// One bit is another
    Flip,
    /// Some bytes are others
    Junk,
    /// A block of 4 KiB is zeros
    Zero,
    /// Two blocks have changed places
    Swap,
    /// The file ends early
    Cut,
    /// The file is as it was earlier
    Old,
    /// The file is gone
    Removed,
}

impl Kind {
    /// All there are.
    pub const ALL: [Kind; 7] =
        [Kind::Flip, Kind::Junk, Kind::Zero, Kind::Swap, Kind::Cut, Kind::Old, Kind::Removed];
}

/// The damage, in words.
#[derive(Clone, Debug)]
pub(super) struct Harm(String);

impl fmt::Display for Harm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Blocks of a file that are not all zeros: its content lies there.
fn written_blocks(bytes: &[u8]) -> Vec<usize> {
    let blocks = bytes.chunks(BLOCK_BYTES).enumerate();
    blocks.filter(|(_, block)| block.iter().any(|&byte| byte != 0)).map(|(at, _)| at).collect()
}

/// Damages a file of which `old` is an earlier copy, if there is one. `None`: that would change nothing of it.
pub(super) fn damage(
    path: &Path,
    old: Option<&Path>,
    kind: Kind,
    random: &mut Random,
) -> io::Result<Option<Harm>> {
    let bytes = fs::read(path)?;
    let written = written_blocks(&bytes);
    let range = |block: usize| block * BLOCK_BYTES..bytes.len().min((block + 1) * BLOCK_BYTES);
    let write =
        |at: usize, part: &[u8]| File::options().write(true).open(path)?.write_all_at(part, at as u64);
    let done = |text: String| Ok(Some(Harm(text)));
    if matches!(kind, Kind::Flip | Kind::Junk | Kind::Zero | Kind::Swap) && written.is_empty() {
        return Ok(None);
    }
    match kind {
        Kind::Flip => {
            let range = range(*random.pick(&written));
            let at = range.start + random.below(range.len() as u64) as usize;
            let bit = random.below(8);
            write(at, &[bytes[at] ^ 1 << bit])?;
            done(format!("bit {bit} of byte {at} flipped"))
        }
        Kind::Junk => {
            let range = range(*random.pick(&written));
            let at = range.start + random.below(range.len() as u64) as usize;
            let len = (1 + random.below(64) as usize).min(bytes.len() - at);
            let junk: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
            if junk == bytes[at..at + len] {
                return Ok(None);
            }
            write(at, &junk)?;
            done(format!("{len} bytes from {at} on are others"))
        }
        Kind::Zero => {
            let range = range(*random.pick(&written));
            write(range.start, &vec![0; range.len()])?;
            done(format!("zeros from {} to {}", range.start, range.end))
        }
        Kind::Swap => {
            let whole = (bytes.len() / BLOCK_BYTES) as u64;
            let one = *random.pick(&written);
            let other =
                if random.one_in(3) { random.below(whole.max(1)) as usize } else { *random.pick(&written) };
            let (one, other) = (range(one), range(other));
            if one.len() != other.len() || bytes[one.clone()] == bytes[other.clone()] {
                return Ok(None);
            }
            write(one.start, &bytes[other.clone()])?;
            write(other.start, &bytes[one.clone()])?;
            done(format!("the blocks at {} and {} swapped", one.start, other.start))
        }
        Kind::Cut => {
            if bytes.is_empty() {
                return Ok(None);
            }
            // Behind what is written, the end of a file says little.
            let last = written.last().filter(|_| !random.one_in(4));
            let end = random.below(last.map_or(bytes.len(), |&last| range(last).end) as u64);
            File::options().write(true).open(path)?.set_len(end)?;
            done(format!("cut from {} to {end} bytes", bytes.len()))
        }
        Kind::Old => match old {
            Some(old) if fs::read(old)? != bytes => {
                fs::copy(old, path)?;
                done("an old copy put back".into())
            }
            _ => Ok(None),
        },
        Kind::Removed => {
            fs::remove_file(path)?;
            done("removed".into())
        }
    }
}
