//! The medium that suites run on: `memory`, or what `CUESTA_TEST_MEDIUM` says (`make test-pmem` says `pmem`). Whoever says so
//! sees to it that `/dev/shm`, where stores of tests lie, and the folder for temporary files are on it.

use cuesta_format::Medium;

pub fn medium() -> Medium {
    std::env::var("CUESTA_TEST_MEDIUM").map_or(Medium::Memory, |name| name.parse().unwrap())
}
