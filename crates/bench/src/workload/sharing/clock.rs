//! Operations of several calls, timed as wholes and call by call, in each of several processes.

use std::time::{Duration, Instant};

use super::warm_up::WARM_UP;
use crate::error::BenchError;
use crate::figures::measure::{Figure, Outcome, Timed, latency_histogram};
use crate::workload::pieces::members;

/// Says how long each call took: the end of one is the start of the next, and what a program does between calls is little.
#[derive(Debug)]
pub struct CallClock {
    last: Instant,
    longest: Duration,
}

impl CallClock {
    /// The first call begins now.
    pub fn start() -> CallClock {
        CallClock { last: Instant::now(), longest: Duration::ZERO }
    }

    /// Notes that a call came back with `answer`, and hands that on.
    pub fn returned<T>(&mut self, answer: T) -> T {
        let now = Instant::now();
        self.longest = self.longest.max(now - self.last);
        self.last = now;
        answer
    }

    /// The time of the longest call, in ms.
    pub fn longest_ms(&self) -> f64 {
        self.longest.as_secs_f64() * 1e3
    }
}

/// Runs `operation(n, clock)`, n = `WARM_UP`, …, for `time` in each of `count` processes, after those before; `make` makes it, in
/// the process. The operation has the clock note each of its calls.
pub fn timed_in_each<O>(
    count: u32,
    time: Duration,
    make: impl Fn(u32) -> Result<O, BenchError>,
) -> Result<Vec<Outcome>, BenchError>
where
    O: FnMut(u64, &mut CallClock) -> Result<(), BenchError>,
{
    members::run(count, |member| {
        let mut operation = make(member.number)?;
        let mut clock = CallClock::start();
        (0..WARM_UP).try_for_each(|n| operation(n, &mut clock))?;
        member.wait_for_all()?;
        measured(time, |n, clock| operation(WARM_UP + n, clock))
    })
}

/// Runs `operation(n, clock)`, n = 0, 1, …, for `time`.
pub fn measured(
    time: Duration,
    mut operation: impl FnMut(u64, &mut CallClock) -> Result<(), BenchError>,
) -> Result<Outcome, BenchError> {
    let mut latency = latency_histogram();
    let mut clock = CallClock::start();
    let start = clock.last;
    let mut operations = 0;
    while clock.last - start < time {
        let begin = clock.last;
        operation(operations, &mut clock)?;
        operations += 1;
        latency.saturating_record(((clock.last - begin).as_nanos() as u64).max(1));
    }
    let whole = Timed { operations, elapsed: clock.last - start, latency };
    Ok(Outcome::default().with_timed(&whole).with(Figure::LongestWait, clock.longest_ms()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_as_long_as_its_calls_and_the_longest_call_is_kept() {
        let pause = |ms| std::thread::sleep(Duration::from_millis(ms));
        let outcome = measured(Duration::from_millis(1), |_, clock| {
            pause(2);
            clock.returned(());
            pause(9);
            clock.returned(());
            Ok(())
        })
        .unwrap();
        let (wait, whole) = (outcome.figures[&Figure::LongestWait], outcome.figures[&Figure::LongestStall]);
        assert!(wait >= 9.0 && whole >= wait + 1.9, "{outcome:?}");
        assert_eq!(outcome.latency.len(), 1);
    }

    #[test]
    fn each_process_goes_on_where_its_warm_up_ended() {
        let outcomes = timed_in_each(2, Duration::from_millis(2), |_| {
            let mut wanted = 0;
            Ok(move |n, clock: &mut CallClock| {
                assert_eq!(n, wanted);
                wanted += 1;
                clock.returned(());
                Ok(())
            })
        })
        .unwrap();
        assert!(outcomes.iter().all(|outcome| outcome.figures[&Figure::Rate] > 0.0));
    }
}
