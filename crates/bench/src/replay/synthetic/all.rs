//! The names of the traces that the bench makes itself.

use super::scenario::Scenario;
use super::{programs, reads};

type Make = fn(&str, u64) -> Scenario;

/// A trace that can be made.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    pub name: &'static str,
    make: Make,
}

macro_rules! zipf {
    ($share:literal, $rest:literal, $layout:literal, $is_scattered:literal) => {
        Named {
            name: concat!("zipf-", $share, "-", $rest, "-", $layout),
            make: |name, seed| reads::zipf(name, seed, $share, $is_scattered),
        }
    };
}

/// All of them.
pub static ALL: &[Named] = &[
    zipf!(50, 50, "scattered", true),
    zipf!(60, 40, "scattered", true),
    zipf!(70, 30, "scattered", true),
    zipf!(80, 20, "scattered", true),
    zipf!(90, 10, "scattered", true),
    zipf!(60, 40, "clustered", false),
    zipf!(70, 30, "clustered", false),
    zipf!(80, 20, "clustered", false),
    zipf!(90, 10, "clustered", false),
    Named { name: "scan", make: reads::scan },
    Named { name: "rocksdb", make: programs::rocksdb },
    Named { name: "sqlite", make: programs::sqlite },
    Named { name: "day", make: programs::day },
];

impl Named {
    /// Makes it. Equal seeds make equal traces.
    pub fn make(&self, seed: u64) -> Scenario {
        (self.make)(self.name, seed)
    }
}

/// The trace of that name, for the command line.
pub fn find(name: &str) -> Result<&'static Named, String> {
    ALL.iter().find(|named| named.name == name).ok_or_else(|| {
        let names: Vec<&str> = ALL.iter().map(|named| named.name).collect();
        format!("there is no such trace: it is one of {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_make_equal_traces() {
        let make = |seed| find("scan").unwrap().make(seed).trace;
        assert!(make(1) == make(1));
        assert!(make(1) != make(2));
    }

    #[test]
    fn a_trace_has_its_name_and_is_counted_from_a_moment_within_it() {
        let scenario = find("sqlite").unwrap().make(5);
        let end = scenario.trace.accesses.last().unwrap().at_us;
        assert!((1..end / 2).contains(&scenario.counted_from_us));
        assert_eq!(scenario.trace.name, "sqlite");
    }
}
