//! Policy: the personalities of Filebench that Ziggurat was measured with (§6), and `webserver`. Steps, mean sizes of files and
//! sizes of appends are those of the workload files that Filebench comes with. There are fewer files and threads, so that a
//! run takes seconds.

use super::filebench::{Filebench, Step};
use super::fileset::Sizes;
use crate::figures::units::KIB;

const THREADS: u32 = 16;
/// `$meanappendsize`, which is the most: a step appends a random number of bytes up to it.
const APPEND_BYTES_MAX: u64 = 16 * KIB;

/// A mail server: each message is synced, and each second one twice.
pub const VARMAIL: Filebench = Filebench {
    steps: &[
        Step::Delete,
        Step::Create,
        Step::Append,
        Step::Sync,
        Step::Close,
        Step::Open,
        Step::Read,
        Step::Append,
        Step::Sync,
        Step::Close,
        Step::Open,
        Step::Read,
        Step::Close,
    ],
    files: 1000,
    prepared_percent: 80,
    sizes: Sizes::Gamma { mean_bytes: 16 * KIB },
    append_bytes_max: APPEND_BYTES_MAX,
    threads: THREADS,
};

/// A file server: files are written as wholes, appended to, read and removed. No program syncs them.
pub const FILESERVER: Filebench = Filebench {
    steps: &[
        Step::Create,
        Step::WriteWhole,
        Step::Close,
        Step::Open,
        Step::Append,
        Step::Close,
        Step::Open,
        Step::Read,
        Step::Close,
        Step::Delete,
        Step::Stat,
    ],
    // Of 10,000.
    files: 1000,
    prepared_percent: 80,
    sizes: Sizes::Gamma { mean_bytes: 128 * KIB },
    append_bytes_max: APPEND_BYTES_MAX,
    threads: THREADS,
};

/// A proxy: each page that is fetched is read five times.
pub const WEBPROXY: Filebench = Filebench {
    steps: &[
        Step::Delete,
        Step::Create,
        Step::Append,
        Step::Close,
        Step::Open,
        Step::Read,
        Step::Close,
        Step::Open,
        Step::Read,
        Step::Close,
        Step::Open,
        Step::Read,
        Step::Close,
        Step::Open,
        Step::Read,
        Step::Close,
        Step::Open,
        Step::Read,
        Step::Close,
    ],
    // Of 10,000.
    files: 2000,
    prepared_percent: 80,
    sizes: Sizes::Fixed { bytes: 16 * KIB },
    append_bytes_max: APPEND_BYTES_MAX,
    threads: THREADS,
};

/// A web server: ten pages are read for each append to the log.
pub const WEBSERVER: Filebench = Filebench {
    steps: &[Step::ReadPages(10), Step::AppendLog],
    files: 1000,
    prepared_percent: 100,
    sizes: Sizes::Gamma { mean_bytes: 16 * KIB },
    append_bytes_max: APPEND_BYTES_MAX,
    threads: THREADS,
};
