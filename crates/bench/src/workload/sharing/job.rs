//! Jobs of several programs at once in one folder. How long a single call waits there is seen by a probe: a thread that renames a
//! file in the folder now and then, meanwhile.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::clock::CallClock;
use crate::error::{BenchError, Context};
use crate::figures::measure::{Figure, Outcome, latency_histogram};
use crate::workload::pieces::shell::shell;

/// The probe renames its file so often: a load that is small beside the job's.
const PROBE_EVERY: Duration = Duration::from_millis(5);

/// The job. All its files lie in one folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// `make -j4` of so many small C files and an archive of them.
    Make { files: u32 },
    /// Four `touch` at a time make names.
    Touch { names: u32 },
    /// Four `rm` at a time remove them.
    Remove { names: u32 },
    /// Four shells that each write and move so many files.
    Shells { files: u32 },
    /// Two processes, each in a work tree of its own of one repository: status, add and commit, so often, and then gc.
    Git { commits: u32 },
}

/// A task, done once.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// Which.
    pub task: Task,
}

/// The lines of a task.
struct Lines {
    prepare: String,
    measured: String,
    /// Prints `expected` if the task was done.
    check: &'static str,
    expected: u32,
    /// Where in the directory the probe works.
    probed: &'static str,
}

impl Job {
    /// Measures, with files in `dir`, which is made and removed.
    pub fn run(&self, dir: &Path) -> Result<Outcome, BenchError> {
        let lines = self.task.lines();
        shell(&format!("mkdir -p \"$0\" && cd \"$0\" && {}", lines.prepare), dir)?;
        let measured = format!("cd \"$0\" && {}", lines.measured);
        let (elapsed, outcome) = probed(&dir.join(lines.probed), || {
            let start = Instant::now();
            shell(&measured, dir)?;
            Ok(start.elapsed())
        })?;
        let found = shell(&format!("cd \"$0\" && {}", lines.check), dir)?;
        if found.trim() != lines.expected.to_string() {
            return Err(BenchError::Corrupt(format!("{} instead of {}", found.trim(), lines.expected)));
        }
        shell("rm -rf \"$0\"", dir)?;
        Ok(outcome.with(Figure::Elapsed, elapsed.as_secs_f64() * 1e3))
    }
}

impl Task {
    /// The programs it is done with.
    pub fn programs(self) -> &'static [&'static str] {
        match self {
            Task::Make { .. } => &["make", "gcc", "ar"],
            Task::Touch { .. } | Task::Remove { .. } => &["xargs", "seq"],
            Task::Shells { .. } => &[],
            Task::Git { .. } => &["git"],
        }
    }

    fn lines(self) -> Lines {
        match self {
            Task::Make { files } => Lines {
                prepare: format!(
                    "n=0; while [ $n -lt {files} ]; do \
                     printf '#include <stdio.h>\\n#include <string.h>\\nunsigned long f%d(int x)\\n{{\\n  char text[64];\\n  \
                     snprintf(text, sizeof text, \"%%d\", x);\\n  return strlen(text);\\n}}\\n' $n >f$n.c; n=$((n+1)); done; \
                     printf 'objects = $(patsubst %%.c,%%.o,$(wildcard *.c))\\nall.a: $(objects)\\n\\tar rcs $@ $^\\n\
                     %%.o: %%.c\\n\\tgcc -O1 -c $< -o $@\\n' >Makefile"
                ),
                measured: "make -s -j4 >/dev/null".into(),
                check: "ar t all.a | wc -l",
                expected: files,
                probed: ".",
            },
            Task::Touch { names } => Lines {
                prepare: "true".into(),
                measured: format!("seq {names} | xargs -P4 -n100 touch"),
                check: "ls | grep -c '^[0-9]'",
                expected: names,
                probed: ".",
            },
            Task::Remove { names } => Lines {
                prepare: format!("seq {names} | xargs touch"),
                measured: format!("seq {names} | xargs -P4 -n100 rm"),
                check: "ls | grep -c '^[0-9]' || true",
                expected: 0,
                probed: ".",
            },
            Task::Shells { files } => Lines {
                prepare: "true".into(),
                measured: format!(
                    "for w in 1 2 3 4; do (n=0; while [ $n -lt {files} ]; do echo $n >written.$w.$n; \
                     mv written.$w.$n moved.$w.$n; n=$((n+1)); done) & done; wait"
                ),
                check: "cat moved.* | wc -l",
                expected: 4 * files,
                probed: ".",
            },
            Task::Git { commits } => Lines {
                prepare:
                    "git init -q one && cd one && git config gc.auto 0 && git config user.name bench && \
                          git config user.email bench && n=0 && \
                          while [ $n -lt 200 ]; do printf '%0999d' $n >file-$n; n=$((n+1)); done && \
                          git add . && git commit -q -m all && git worktree add -q -b other ../two"
                        .into(),
                // While one gc goes on, git refuses another one.
                measured: format!(
                    "work() {{ cd $1; n=0; while [ $n -lt {commits} ]; do echo $n >file-$1; git status --porcelain >/dev/null; \
                     git add .; git commit -q -m $n; n=$((n+1)); done; \
                     n=0; until git gc -q 2>/dev/null || [ $n -eq 300 ]; do sleep 0.01; n=$((n+1)); done; }}; \
                     (work one) & (work two) & wait"
                ),
                check: "cd one && git fsck --no-progress >/dev/null && git rev-list --count --all",
                expected: 1 + 2 * commits,
                probed: "one/.git",
            },
        }
    }
}

/// Does `task` with a probe beside it; returns what the probe saw, too.
fn probed<T>(
    folder: &Path,
    task: impl FnOnce() -> Result<T, BenchError>,
) -> Result<(T, Outcome), BenchError> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let probe = scope.spawn(|| probe(folder, &is_over));
        let done = task();
        is_over.store(true, Ordering::Relaxed);
        let seen = probe.join().expect("a probe does not panic");
        Ok((done?, seen?))
    })
}

fn probe(folder: &Path, is_over: &AtomicBool) -> Result<Outcome, BenchError> {
    let names: [PathBuf; 2] = ["probe.one", "probe.other"].map(|name| folder.join(name));
    std::fs::write(&names[0], "moved").context("making the probe's file")?;
    let mut latency = latency_histogram();
    let mut longest_ms = 0.0_f64;
    let mut turn = 0;
    loop {
        turn ^= 1;
        let mut clock = CallClock::start();
        clock.returned(std::fs::rename(&names[turn ^ 1], &names[turn])).context("the probe's rename")?;
        latency.saturating_record((clock.longest_ms() * 1e6) as u64);
        longest_ms = longest_ms.max(clock.longest_ms());
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        std::thread::sleep(PROBE_EVERY);
    }
    std::fs::remove_file(&names[turn]).context("removing the probe's file")?;
    Ok(Outcome::of(Figure::Percentile99, latency.value_at_quantile(0.99) as f64 / 1e3)
        .with(Figure::LongestWait, longest_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_is_done_is_probed_and_leaves_nothing() {
        for task in [
            Task::Make { files: 5 },
            Task::Touch { names: 300 },
            Task::Remove { names: 300 },
            Task::Shells { files: 3 },
            Task::Git { commits: 2 },
        ] {
            let parent = tempfile::tempdir().unwrap();
            let dir = parent.path().join("work");
            let outcome = Job { task }.run(&dir).unwrap();
            for figure in [Figure::Elapsed, Figure::Percentile99, Figure::LongestWait] {
                assert!(outcome.figures[&figure] > 0.0, "{task:?}: {figure:?}");
            }
            assert!(!dir.exists(), "{task:?}");
        }
    }

    #[test]
    fn a_task_that_fails_ends_the_probe() {
        let dir = tempfile::tempdir().unwrap();
        let failed = probed(dir.path(), || Err::<(), _>(BenchError::Corrupt("it is not done".into())));
        assert!(matches!(failed, Err(BenchError::Corrupt(_))));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
