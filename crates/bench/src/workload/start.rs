//! A program that starts others, as a shell script does: under `cuesta run` the preload is inherited, so each
//! of them pays for it.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::error::{BenchError, Context};
use crate::measure::{Figure, Outcome, latency_histogram};

/// What is started.
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
    /// Measures, with files in `dir`.
    pub fn run(&self, dir: &Path) -> Result<Outcome, BenchError> {
        let read = dir.join("read");
        std::fs::write(&read, "content\n").context("making the file to read")?;
        let mut latency = latency_histogram();
        let mut total_ms = 0.0;
        // The first start warms caches and is not counted.
        for n in 0..=self.count {
            let written = dir.join(format!("written-{n}"));
            let mut command = match self.what {
                Started::True => Command::new("/bin/true"),
                Started::Reader => argument("/bin/cat", &read),
                Started::Writer => argument("/bin/touch", &written),
            };
            let start = Instant::now();
            let status = command.stdout(Stdio::null()).status().context("starting a program")?;
            let elapsed = start.elapsed();
            if !status.success() {
                return Err(BenchError::Child {
                    what: format!("{:?}", self.what),
                    status: status.to_string(),
                    words: String::new(),
                });
            }
            if n > 0 {
                latency.saturating_record(elapsed.as_nanos() as u64);
                total_ms += elapsed.as_secs_f64() * 1e3;
            }
            if self.what == Started::Writer && !written.exists() {
                return Err(BenchError::Corrupt("a program's new file is not there".to_owned()));
            }
        }
        let pairs = latency.iter_recorded().map(|v| (v.value_iterated_to(), v.count_at_value()));
        let latency = pairs.collect();
        let mean_ms = total_ms / f64::from(self.count.max(1));
        Ok(Outcome { latency, ..Outcome::of(Figure::Start, mean_ms) })
    }
}

fn argument(program: &str, path: &Path) -> Command {
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
            let dir = tempfile::tempdir().unwrap();
            let outcome = Start { what, count: 3 }.run(dir.path()).unwrap();
            assert_eq!(outcome.latency.iter().map(|(_, count)| count).sum::<u64>(), 3);
            let made = std::fs::read_dir(dir.path()).unwrap().count();
            assert_eq!(made, if what == Started::Writer { 5 } else { 1 });
        }
    }
}
