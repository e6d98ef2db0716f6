//! A daemon's use of the machine, as the kernel tells: its memory, its time and how often it woke up.
//!
//! A mapping of a named file that is shared is the store itself, content and logs, and lies in memory because the medium is
//! memory: it is told apart. The rest counts as the daemon's memory, even if others have it mapped: heap, stacks,
//! code, and the pages it shares with each session.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::{BenchError, Context};
use crate::figures::measure::{Figure, Outcome};
use crate::figures::units::MIB;

/// A daemon that did nothing for so long has nothing left to do,
const QUIET: Duration = Duration::from_millis(700);
/// and one that goes on behind this is measured at whatever it does.
const QUIET_WITHIN: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A process that serves a peer.
#[derive(Clone, Debug)]
pub struct Daemon {
    process: PathBuf,
}

/// Bytes of a process that lie in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Resident {
    own: u64,
    storage: u64,
}

/// What all threads did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Activity {
    run: Duration,
    wake_ups: u64,
}

impl Daemon {
    /// The process with this number.
    pub fn new(pid: u32) -> Daemon {
        Daemon { process: PathBuf::from(format!("/proc/{pid}")) }
    }

    /// Where the kernel tells of it.
    pub fn process(&self) -> &Path {
        &self.process
    }

    /// The process that the kernel tells of there.
    pub fn of_process(process: PathBuf) -> Daemon {
        Daemon { process }
    }

    /// Waits until it has done what it had to do.
    pub fn wait_until_quiet(&self) -> Result<(), BenchError> {
        let deadline = Instant::now() + QUIET_WITHIN;
        let (mut last, mut since) = (self.activity()?, Instant::now());
        while since.elapsed() < QUIET && Instant::now() < deadline {
            std::thread::sleep(LOOK_EVERY);
            let now = self.activity()?;
            if now != last {
                (last, since) = (now, Instant::now());
            }
        }
        Ok(())
    }

    /// The processor's time of all its threads so far.
    pub fn run_time(&self) -> Result<Duration, BenchError> {
        Ok(self.activity()?.run)
    }

    /// Waits until it has done what it had to do, and measures what it does for `time` behind that, and what it takes.
    pub fn at_rest(&self, time: Duration) -> Result<Outcome, BenchError> {
        self.wait_until_quiet()?;
        let before = self.activity()?;
        let start = Instant::now();
        std::thread::sleep(time);
        let (after, seconds) = (self.activity()?, start.elapsed().as_secs_f64());
        let resident = self.resident()?;
        let run = after.run.saturating_sub(before.run).as_secs_f64();
        Ok(Outcome::of(Figure::Processor, 100.0 * run / seconds)
            .with(Figure::WakeUps, after.wake_ups.saturating_sub(before.wake_ups) as f64 / seconds)
            .with(Figure::Memory, resident.own as f64 / MIB as f64)
            .with(Figure::MappedStorage, resident.storage as f64 / MIB as f64))
    }

    fn resident(&self) -> Result<Resident, BenchError> {
        resident(&read(&self.process.join("smaps"))?)
    }

    fn activity(&self) -> Result<Activity, BenchError> {
        let mut all = Activity::default();
        let threads = fs::read_dir(self.process.join("task")).context("listing the daemon's threads")?;
        for thread in threads {
            let thread = thread.context("listing the daemon's threads")?.path();
            // One that ends meanwhile is none that counts.
            let (Ok(schedule), Ok(status)) = (read(&thread.join("schedstat")), read(&thread.join("status")))
            else {
                continue;
            };
            let nanoseconds = schedule.split_whitespace().next().and_then(|word| word.parse().ok());
            all.run += Duration::from_nanos(nanoseconds.unwrap_or(0));
            all.wake_ups += number_behind(&status, "voluntary_ctxt_switches:").unwrap_or(0);
        }
        Ok(all)
    }
}

fn read(path: &Path) -> Result<String, BenchError> {
    fs::read_to_string(path).context("reading what the kernel tells of the daemon")
}

/// The number behind the first line that begins so.
fn number_behind(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    value.split_whitespace().next()?.parse().ok()
}

/// Adds up what lies in memory, from the text of a `smaps`.
fn resident(maps: &str) -> Result<Resident, BenchError> {
    let mut resident = Resident::default();
    let mut is_storage = false;
    for line in maps.lines() {
        let mut words = line.split_whitespace();
        let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        if first == "Rss:" {
            let kibibytes: u64 = second.parse().map_err(|_| unreadable(line))?;
            let sum = if is_storage { &mut resident.storage } else { &mut resident.own };
            *sum += kibibytes << 10;
        } else if !first.ends_with(':') {
            // Address, access, offset, device, inode, name.
            let name = words.nth(3).unwrap_or_default();
            is_storage = second.ends_with('s') && name.starts_with('/') && !name.starts_with("/memfd:");
        }
    }
    Ok(resident)
}

fn unreadable(line: &str) -> BenchError {
    BenchError::Unusable(format!("the kernel tells of the daemon's memory: {line}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_store_are_told_from_memory() {
        let maps = "\
7f0000000000-7f0000200000 rw-s 00000000 00:19 77                         /mnt/store/tier/logs/seg-3
Size:               2048 kB
Rss:                2048 kB
7f0000200000-7f0000201000 rw-s 00000000 00:01 9                          /memfd:cuesta-notice (deleted)
Size:                  4 kB
Rss:                   4 kB
Pss:                   2 kB
7f0000201000-7f0000301000 rw-p 00000000 00:00 0 
Rss:                 100 kB
7f0000401000-7f0000501000 r-xp 00000000 fe:01 5                          /usr/bin/cuesta
Rss:                  60 kB
VmFlags: rd ex mr
";
        let wanted = Resident { own: (4 + 100 + 60) << 10, storage: 2 << 20 };
        assert_eq!(resident(maps).unwrap(), wanted);
        assert!(resident("Rss: much\n").is_err());
    }

    #[test]
    fn what_a_process_does_is_seen() {
        let this = Daemon::new(std::process::id());
        let before = this.activity().unwrap();
        std::thread::sleep(Duration::from_millis(1));
        let after = this.activity().unwrap();
        // Threads of other tests come and go.
        assert!(
            before.wake_ups > 0 && after.wake_ups > 0 && after.run > Duration::ZERO,
            "{before:?}, {after:?}"
        );
        assert!(this.resident().unwrap().own > MIB);
    }
}
