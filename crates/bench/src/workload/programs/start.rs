//! A program that starts others, as a shell script does: under `cuesta run` the preload is inherited, so each
//! of them pays for it.
//!
//! The program itself touches no file: it leaves making, counting and removing files to programs, too. So
//! the measured time is of one process on the store after the other, never of two that share a directory.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::error::{BenchError, Context};
use crate::figures::measure::{Figure, Outcome, latency_histogram};
use crate::workload::pieces::shell::shell;

/// The program that is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Started {
    /// /bin/true.
    True,
    /// /bin/cat of one small file.
    Reader,
    /// /bin/touch of a new file: its first mutation attaches a session.
    Writer,
}

/// One program, started again and again.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// Which.
    pub what: Started,
    /// How often.
    pub count: u32,
}

impl Start {
    /// Measures, with files in `dir`, which is made and removed.
    pub fn run(&self, dir: &Path) -> Result<Outcome, BenchError> {
        shell("mkdir -p \"$0\" && echo content > \"$0/read\"", dir)?;
        let mut latency = latency_histogram();
        let mut total_ms = 0.0;
        // The first start warms caches and is not counted.
        for n in 0..=self.count {
            let mut command = match self.what {
                Started::True => Command::new("/bin/true"),
                Started::Reader => with_argument("/bin/cat", &dir.join("read")),
                Started::Writer => with_argument("/bin/touch", &dir.join(format!("written-{n}"))),
            };
            let start = Instant::now();
            let status = command.stdout(Stdio::null()).status().context("starting a program")?;
            let elapsed = start.elapsed();
            if !status.success() {
                return Err(BenchError::Child {
                    what: command.get_program().to_string_lossy().into_owned(),
                    status: status.to_string(),
                    words: String::new(),
                });
            }
            if n > 0 {
                latency.saturating_record(elapsed.as_nanos() as u64);
                total_ms += elapsed.as_secs_f64() * 1e3;
            }
        }
        let wanted = if self.what == Started::Writer { self.count + 2 } else { 1 };
        let found = shell("ls \"$0\" | wc -l", dir)?;
        if found.trim() != wanted.to_string() {
            return Err(BenchError::Corrupt(format!("{} names instead of {wanted}", found.trim())));
        }
        shell("rm -r \"$0\"", dir)?;
        let latency = latency.iter_recorded().map(|v| (v.value_iterated_to(), v.count_at_value())).collect();
        let mean_ms = total_ms / f64::from(self.count.max(1));
        Ok(Outcome { latency, ..Outcome::of(Figure::Start, mean_ms) })
    }
}

fn with_argument(program: &str, path: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg(path);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_started_as_often_as_asked() {
        for what in [Started::True, Started::Reader, Started::Writer] {
            let parent = tempfile::tempdir().unwrap();
            let dir = parent.path().join("work");
            let outcome = Start { what, count: 3 }.run(&dir).unwrap();
            assert_eq!(outcome.latency.iter().map(|(_, count)| count).sum::<u64>(), 3);
            assert!(!dir.exists());
        }
    }

    #[test]
    fn a_name_too_many_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("stray"), "").unwrap();
        let ended = Start { what: Started::Writer, count: 1 }.run(dir.path());
        assert!(matches!(ended, Err(BenchError::Corrupt(_))));
    }
}
