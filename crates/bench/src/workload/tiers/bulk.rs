//! One large file, written once from front to back, and one fsync behind it. Both are timed, and the processor's time of the
//! program and of the daemon is compared with that of a bare copy of as many bytes.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::error::{BenchError, Context};
use crate::figures::measure::{Figure, Outcome};
use crate::figures::units::{GIB, MIB};
use crate::processes::daemon::Daemon;
use crate::workload::pieces::stamp::{Stamped, verify_blocks};

/// Bytes of one `memcpy` of the bare copy.
const COPIED_AT_ONCE: u64 = MIB;

/// A file written by writes of one size.
#[derive(Clone, Copy, Debug)]
pub struct Bulk {
    /// Bytes of a write.
    pub size: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
}

impl Bulk {
    /// Measures in `dir`.
    pub fn run(&self, dir: &Path, daemon: Option<&Daemon>) -> Result<Outcome, BenchError> {
        let copy = per_gib(self.file_bytes, bare_copy(self.file_bytes)?);
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(dir.join("bulk"))
            .context("making the file")?;
        let blocks = self.file_bytes / self.size;
        let mut block = Stamped::new(self.size);
        let daemon_before = daemon.map(Daemon::run_time).transpose()?;
        let program_before = own_time()?;
        let start = Instant::now();
        for n in 0..blocks {
            file.write_all_at(block.with(n), n * self.size).context("pwrite")?;
        }
        let written = start.elapsed();
        file.sync_all().context("fsync")?;
        let synced = start.elapsed();
        let program = per_gib(self.file_bytes, own_time()?.saturating_sub(program_before));
        let bandwidth = |elapsed: Duration| self.file_bytes as f64 / 1e6 / elapsed.as_secs_f64();
        let mut outcome = Outcome::of(Figure::WrittenBandwidth, bandwidth(written))
            .with(Figure::SyncedBandwidth, bandwidth(synced))
            .with(Figure::ProgramTime, program)
            .with(Figure::CopyTime, copy);
        let mut both = program;
        if let Some((daemon, before)) = daemon.zip(daemon_before) {
            daemon.wait_until_quiet()?;
            let served = per_gib(self.file_bytes, daemon.run_time()?.saturating_sub(before));
            outcome = outcome.with(Figure::DaemonTime, served);
            both += served;
        }
        verify_blocks(&file, self.size, blocks, |n| n)?;
        Ok(outcome.with(Figure::ToCopies, both / copy))
    }
}

/// Milliseconds for each GiB.
fn per_gib(bytes: u64, time: Duration) -> f64 {
    time.as_secs_f64() * 1e3 * GIB as f64 / bytes as f64
}

/// The processor's time of a copy of so many bytes into memory that the program has touched before.
fn bare_copy(bytes: u64) -> Result<Duration, BenchError> {
    let mut into = vec![1_u8; bytes as usize];
    let from = vec![2_u8; COPIED_AT_ONCE as usize];
    let before = own_time()?;
    for part in into.chunks_mut(COPIED_AT_ONCE as usize) {
        part.copy_from_slice(&from[..part.len()]);
    }
    std::hint::black_box(&into);
    Ok(own_time()?.saturating_sub(before))
}

/// The processor's time of this process so far.
fn own_time() -> Result<Duration, BenchError> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(time).map_err(|_| BenchError::Unusable("the kernel tells a time before 0".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_once_and_compared_with_a_copy() {
        let dir = tempfile::tempdir().unwrap();
        let mut idle = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let daemon = Daemon::new(idle.id());
        let bulk = Bulk { size: 4096, file_bytes: 4 * MIB };
        let alone = bulk.run(dir.path(), None).unwrap();
        assert_eq!(std::fs::metadata(dir.path().join("bulk")).unwrap().len(), 4 * MIB);
        assert!(alone.figures[&Figure::WrittenBandwidth] >= alone.figures[&Figure::SyncedBandwidth]);
        assert!(!alone.figures.contains_key(&Figure::DaemonTime));
        std::fs::remove_file(dir.path().join("bulk")).unwrap();
        let served = bulk.run(dir.path(), Some(&daemon)).unwrap();
        idle.kill().and_then(|()| idle.wait()).unwrap();
        let [program, daemon, copy, copies] =
            [Figure::ProgramTime, Figure::DaemonTime, Figure::CopyTime, Figure::ToCopies]
                .map(|figure| served.figures[&figure]);
        assert!(((program + daemon) / copy - copies).abs() < 1e-9);
    }
}
