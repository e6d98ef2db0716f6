//! Single calls, one kind after the other, on few files: what each costs by itself, without any that was batched, cached or
//! put off for the next one to pay.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::error::{BenchError, Context};
use crate::measure::{Figure, Outcome};

const PAGE_BYTES: usize = 4096;
/// Calls before those that are measured.
const WARM_UP: u64 = 64;
/// Calls between two looks at the clock.
const BATCH: u64 = 16;

/// The calls.
#[derive(Clone, Copy, Debug)]
pub struct Calls;

impl Calls {
    /// Measures in `dir`, each kind for its part of `time`.
    pub fn run(self, dir: &Path, time: Duration) -> Result<Outcome, BenchError> {
        let path = dir.join("file");
        std::fs::write(&path, vec![7; 16 * PAGE_BYTES]).context("making a file")?;
        let file = OpenOptions::new().read(true).write(true).open(&path).context("opening it")?;
        let mut page = vec![0; PAGE_BYTES];
        let each = time / 6;
        let mean = |what: &'static str, call: &mut dyn FnMut(u64) -> std::io::Result<()>| {
            mean_us(each, call).context(what)
        };
        let stat = mean("stat", &mut |_| std::fs::metadata(&path).map(drop))?;
        let read = mean("pread", &mut |_| file.read_exact_at(&mut page, 0))?;
        let open = mean("open and close", &mut |_| File::open(&path).map(drop))?;
        let write = mean("pwrite", &mut |n| file.write_all_at(&[n as u8; PAGE_BYTES], n % 16 * 4096))?;
        let mode = mean("chmod", &mut |n| {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600 + (n % 8) as u32))
        })?;
        let make = mean("making and removing a file", &mut |_| {
            let made = dir.join("made");
            File::create_new(&made)?;
            std::fs::remove_file(made)
        })?;
        let mode_seen = file.metadata().context("looking at the file")?.permissions().mode() & 0o7770;
        if mode_seen != 0o600 {
            return Err(BenchError::Corrupt(format!("mode {mode_seen:o} instead of 600")));
        }
        Ok(Outcome::of(Figure::StatAgain, stat)
            .with(Figure::ReadAgain, read)
            .with(Figure::OpenClose, open)
            .with(Figure::WritePage, write)
            .with(Figure::ChangeMode, mode)
            .with(Figure::MakeRemove, make))
    }
}

/// Microseconds a call takes on average, over `time`.
fn mean_us(time: Duration, call: &mut dyn FnMut(u64) -> std::io::Result<()>) -> std::io::Result<f64> {
    (0..WARM_UP).try_for_each(&mut *call)?;
    let start = Instant::now();
    let mut calls = 0;
    while start.elapsed() < time || calls == 0 {
        (calls..calls + BATCH).try_for_each(&mut *call)?;
        calls += BATCH;
    }
    Ok(start.elapsed().as_secs_f64() * 1e6 / calls as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_is_made_and_timed() {
        let dir = tempfile::tempdir().unwrap();
        let outcome = Calls.run(dir.path(), Duration::from_millis(12)).unwrap();
        assert_eq!(outcome.figures.len(), 6);
        assert!(outcome.figures.values().all(|&us| us > 0.0));
    }
}
