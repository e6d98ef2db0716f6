//! What people do all day in a tree of files, done by the programs they do it with: many processes, many names,
//! few bytes each. As in `start`, the measuring program touches no file itself.

use std::path::Path;
use std::time::Instant;

use crate::error::BenchError;
use crate::figures::measure::{Figure, Outcome};
use crate::workload::pieces::shell::shell;
use crate::workload::pieces::sources;

/// Files in a directory of the trees made here.
const DIRECTORY_FILES: u32 = 100;

/// A task of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// A shell script that starts a program lying on the store, this often.
    Script { programs: u32 },
    /// `git status` in a clean work tree of this many files.
    GitStatus { files: u32 },
    /// `tar xf` of an archive of this many files of 4 KiB; archive and files on the store.
    Untar { files: u32 },
    /// `rm -r` of a tree of this many files.
    Remove { files: u32 },
    /// `make` of LuaJIT: some hundred processes, of which some run what those before have built.
    Make(Make),
}

/// How LuaJIT is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Make {
    /// As who just types `make` has it made: optimised, static and shared.
    AsItComes,
    /// Static and not optimised, which leaves little but starting programs.
    Unoptimised,
}

/// A task, done a number of times.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// Which.
    pub task: Task,
    /// How often; the mean is reported.
    pub repeats: u32,
}

/// The lines of a task.
struct Lines {
    prepare: String,
    measured: &'static str,
    /// Prints `expected` if the task was done; puts things back for the next round.
    check: &'static str,
    expected: String,
}

impl Job {
    /// Measures, with files in `dir`, which is made and removed.
    pub fn run(&self, dir: &Path) -> Result<Outcome, BenchError> {
        let lines = self.task.lines()?;
        shell(&format!("mkdir -p \"$0\" && cd \"$0\" && {}", lines.prepare), dir)?;
        let mut total_ms = 0.0;
        for _ in 0..self.repeats {
            let start = Instant::now();
            shell(lines.measured, dir)?;
            total_ms += start.elapsed().as_secs_f64() * 1e3;
            let found = shell(lines.check, dir)?;
            if found.trim() != lines.expected {
                return Err(BenchError::Corrupt(format!("{} instead of {}", found.trim(), lines.expected)));
            }
        }
        shell("rm -rf \"$0\"", dir)?;
        Ok(Outcome::of(Figure::Elapsed, total_ms / f64::from(self.repeats.max(1))))
    }
}

impl Task {
    fn lines(self) -> Result<Lines, BenchError> {
        Ok(match self {
            Task::Script { programs } => Lines {
                prepare: format!(
                    "cp /bin/true program && echo 'n=0; while [ $n -lt {programs} ]; do ./program; n=$((n+1)); \
                     done; echo $n >ended' >script"
                ),
                measured: "cd \"$0\" && sh script",
                check: "cat \"$0/ended\" && rm \"$0/ended\"",
                expected: programs.to_string(),
            },
            Task::GitStatus { files } => Lines {
                prepare: format!(
                    "git init -q . && git config gc.auto 0 && {} && git add . && git -c user.name=b -c user.email=b commit -q -m all",
                    tree(files)
                ),
                measured: "cd \"$0\" && git status --porcelain >\"$0/.git/told\"",
                check: "wc -c <\"$0/.git/told\"",
                expected: "0".into(),
            },
            Task::Untar { files } => Lines {
                prepare: format!("{} && tar cf archive.tar tree && rm -r tree", tree(files)),
                measured: "cd \"$0\" && tar xf archive.tar",
                // bindfs forgets a time of change that is set without one of access.
                check: "cd \"$0\" && ! tar df archive.tar | grep -v ': Mod time differs$' && find tree -type f | wc -l && rm -r tree",
                expected: files.to_string(),
            },
            Task::Remove { files } => Lines {
                prepare: tree(files),
                measured: "rm -r \"$0/tree\"",
                check: "ls \"$0\" | wc -l",
                expected: "0".into(),
            },
            Task::Make(make) => Lines {
                prepare: format!("cp -r {} source && chmod -R u+w source", quoted(&sources::luajit()?)),
                measured: match make {
                    Make::AsItComes => "cd \"$0/source/src\" && make -s >/dev/null",
                    Make::Unoptimised => {
                        "cd \"$0/source/src\" && make -s BUILDMODE=static CCOPT=-O0 >/dev/null"
                    }
                },
                check: "cd \"$0/source/src\" && ./luajit -e 'print(6*7)' && make -s clean >/dev/null",
                expected: "42".into(),
            },
        })
    }
}

/// A path as a word of shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', "'\\''"))
}

/// Shell that makes `tree`, of `files` files of 4 KiB that differ, without starting a program for each.
fn tree(files: u32) -> String {
    format!(
        "n=0; while [ $n -lt {files} ]; do d=tree/$((n / {DIRECTORY_FILES})); \
         [ $((n % {DIRECTORY_FILES})) -eq 0 ] && mkdir -p $d; printf '%04096d' $n >$d/file-$n; n=$((n+1)); done"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_is_done_and_leaves_nothing() {
        for (task, repeats) in [
            (Task::Script { programs: 5 }, 2),
            (Task::GitStatus { files: 120 }, 2),
            (Task::Untar { files: 120 }, 2),
            (Task::Remove { files: 120 }, 1),
            (Task::Make(Make::Unoptimised), 1),
        ] {
            let parent = tempfile::tempdir().unwrap();
            let dir = parent.path().join("work");
            let outcome = Job { task, repeats }.run(&dir).unwrap();
            assert!(outcome.figures[&Figure::Elapsed] > 0.0);
            assert!(!dir.exists(), "{task:?}");
        }
    }

    #[test]
    fn a_file_that_changed_behind_git_is_seen() {
        let parent = tempfile::tempdir().unwrap();
        let lines = Task::GitStatus { files: 3 }.lines().unwrap();
        shell(&format!("cd \"$0\" && {}", lines.prepare), parent.path()).unwrap();
        std::fs::write(parent.path().join("tree/0/file-1"), "other").unwrap();
        shell(lines.measured, parent.path()).unwrap();
        assert_ne!(shell(lines.check, parent.path()).unwrap().trim(), lines.expected);
    }
}
