//! Several processes that do the same at once: forked, let go together, and their outcomes made one.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::error::{BenchError, Context};
use crate::figures::measure::{Budget, Figure, Outcome, Timed, latency_histogram, timed};

/// One of the processes.
#[derive(Debug)]
pub struct Member {
    /// Which one, from 0.
    pub number: u32,
    ready: File,
    go: File,
    is_ready: bool,
}

impl Member {
    /// Says that this one is ready, and waits until all are.
    pub fn wait_for_all(&mut self) -> Result<(), BenchError> {
        self.say_ready()?;
        self.go.read_exact(&mut [0]).context("waiting for the other members")
    }

    fn say_ready(&mut self) -> Result<(), BenchError> {
        self.is_ready = true;
        self.ready.write_all(&[1]).context("saying that a member is ready")
    }

    /// All that a member does. The others do not wait for one that failed.
    fn act(
        &mut self,
        program: impl Fn(&mut Member) -> Result<Outcome, BenchError>,
    ) -> Result<String, BenchError> {
        let outcome = program(self);
        if !self.is_ready {
            self.say_ready()?;
        }
        serde_json::to_string(&outcome?).context("saying what was measured")
    }
}

/// A process started here, and where it says what became of it.
struct Started {
    pid: libc::pid_t,
    words: File,
}

/// Runs `program` in `count` processes and returns what each gave, in their order. Each has to call
/// `wait_for_all` once.
pub fn run(
    count: u32,
    program: impl Fn(&mut Member) -> Result<Outcome, BenchError>,
) -> Result<Vec<Outcome>, BenchError> {
    let (mut all_ready, ready) = pipe()?;
    let (wait, mut go) = pipe()?;
    let mut started = Vec::new();
    for number in 0..count {
        let (words, mut say) = pipe()?;
        let mut member = Member {
            number,
            ready: ready.try_clone().context("a descriptor for a member")?,
            go: wait.try_clone().context("a descriptor for a member")?,
            is_ready: false,
        };
        // SAFETY: the workload has one thread, so the child finds no lock held by a thread that it does not
        // have (where tests run beside each other, the C library sees to its own). It leaves by `_exit`, so
        // nothing of the parent's is dropped or flushed twice.
        match unsafe { libc::fork() } {
            -1 => return Err(std::io::Error::last_os_error()).context("starting a member"),
            0 => {
                let told = member.act(&program);
                let failed = told.is_err();
                let words = told.unwrap_or_else(|error| error.to_string());
                let said = say.write_all(words.as_bytes()).is_ok();
                // SAFETY: ends this process.
                unsafe { libc::_exit(i32::from(failed || !said)) }
            }
            pid => started.push(Started { pid, words }),
        }
    }
    let mut each = vec![0; count as usize];
    all_ready.read_exact(&mut each).context("waiting for the members")?;
    go.write_all(&each).context("letting the members go")?;
    let outcomes: Vec<_> = started.into_iter().map(Started::outcome).collect();
    outcomes.into_iter().collect()
}

impl Started {
    fn outcome(mut self) -> Result<Outcome, BenchError> {
        let mut words = String::new();
        self.words.read_to_string(&mut words).context("reading what a member said")?;
        let mut status = 0;
        // SAFETY: `status` has room for what waitpid writes.
        if unsafe { libc::waitpid(self.pid, &raw mut status, 0) } < 0 {
            return Err(std::io::Error::last_os_error()).context("waiting for a member");
        }
        if status == 0 {
            return serde_json::from_str(&words).context("reading what a member measured");
        }
        let words = if words.is_empty() { "(said nothing)".to_owned() } else { words };
        Err(BenchError::Child { what: "a member".into(), status: format!("wait status {status:#x}"), words })
    }
}

fn pipe() -> Result<(File, File), BenchError> {
    let (read, write): (OwnedFd, OwnedFd) =
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).context("making a pipe")?;
    Ok((File::from(read), File::from(write)))
}

/// What `count` processes reached together: rates added up, latencies put together.
pub fn together(outcomes: &[Outcome]) -> Outcome {
    let rate: f64 = outcomes.iter().filter_map(|outcome| outcome.figures.get(&Figure::Rate)).sum();
    let mut latency = latency_histogram();
    for &(nanoseconds, times) in outcomes.iter().flat_map(|outcome| &outcome.latency) {
        latency.saturating_record_n(nanoseconds, times);
    }
    let elapsed = Duration::from_secs_f64(latency.len() as f64 / rate.max(1.0));
    let whole = Timed { operations: latency.len(), elapsed, latency };
    let percentile_us = |quantile| whole.latency.value_at_quantile(quantile) as f64 / 1e3;
    let (median_us, percentile_99_us) = (percentile_us(0.5), percentile_us(0.99));
    Outcome::default()
        .with_timed(&whole)
        .with(Figure::Median, median_us)
        .with(Figure::Percentile99, percentile_99_us)
}

/// `operation(n)` in each of `count` processes for `time`, after `warm_up` of them; `make` makes it, in the process.
pub fn timed_in_each<O>(
    count: u32,
    warm_up: u64,
    time: Duration,
    make: impl Fn(u32) -> Result<O, BenchError>,
) -> Result<Vec<Outcome>, BenchError>
where
    O: FnMut(u64) -> Result<(), BenchError>,
{
    run(count, |member| {
        let mut operation = make(member.number)?;
        timed(Budget { time: Duration::MAX, operations: warm_up }, &mut operation)?;
        member.wait_for_all()?;
        let measured = timed(Budget { time, operations: u64::MAX }, |n| operation(warm_up + n))?;
        Ok(Outcome::default().with_timed(&measured))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_processes_reach_together_is_added_up() {
        let outcomes = timed_in_each(3, 2, Duration::from_millis(5), |_| Ok(|_| Ok(()))).unwrap();
        assert_eq!(outcomes.len(), 3);
        let rates: f64 = outcomes.iter().map(|outcome| outcome.figures[&Figure::Rate]).sum();
        let whole = together(&outcomes);
        assert!((whole.figures[&Figure::Rate] / rates - 1.0).abs() < 0.01);
        assert!(whole.figures[&Figure::Percentile99] >= whole.figures[&Figure::Median]);
        let count = |outcome: &Outcome| outcome.latency.iter().map(|&(_, times)| times).sum::<u64>();
        assert_eq!(count(&whole), outcomes.iter().map(count).sum::<u64>());
    }

    #[test]
    fn one_that_fails_is_told_with_its_words_and_no_other_waits_for_it() {
        let failed = run(2, |member| {
            if member.number == 1 {
                return Err(BenchError::Corrupt("it is not what it was".into()));
            }
            member.wait_for_all()?;
            Ok(Outcome::default())
        });
        let Err(BenchError::Child { words, .. }) = failed else { panic!("{failed:?}") };
        assert!(words.contains("it is not what it was"), "{words}");
    }
}
