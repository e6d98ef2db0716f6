//! The processors that there can be, by the kernel's numbers, and threads that stay on one.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::ops::RangeInclusive;

/// The numbers of those that there can be; `None`: the numbers have gaps, or nobody says.
pub fn possible() -> Option<u16> {
    match listed("possible")?.as_slice() {
        [only] if *only.start() == 0 => only.end().checked_add(1),
        _ => None,
    }
}

/// Whether this one runs.
pub fn runs(processor: u16) -> bool {
    listed("online").is_none_or(|running| running.iter().any(|range| range.contains(&processor)))
}

/// The calling thread stays on this one, if it may.
pub fn stay_on(processor: u16) {
    let mut only = CpuSet::new();
    if usize::from(processor) < CpuSet::MAX_CPU {
        only.set(processor.into());
        if let Err(error) = sched_setaffinity(None::<Pid>, &only) {
            tracing::debug!(%error, processor, "a thread is not where its requests are made");
        }
    }
}

fn listed(which: &str) -> Option<Vec<RangeInclusive<u16>>> {
    ranges(&std::fs::read_to_string(format!("/sys/devices/system/cpu/{which}")).ok()?)
}

fn ranges(list: &str) -> Option<Vec<RangeInclusive<u16>>> {
    let range = |text: &str| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    list.trim().split(',').map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_read() {
        assert_eq!(ranges("0\n"), Some(vec![0..=0]));
        assert_eq!(ranges("0-3,8,10-11\n"), Some(vec![0..=3, 8..=8, 10..=11]));
        assert_eq!(ranges("\n"), None);
        assert!(possible().is_some_and(|count| count > 0 && runs(0)));
    }
}
