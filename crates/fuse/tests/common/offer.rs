//! Rings, as long as a test wants them: the kernel offers them to mounts that are made while its parameter says so.

use std::fs::File;

/// The parameter, off by default.
const PARAMETER: &str = "/sys/module/fuse/parameters/enable_uring";
/// Who changes it has this file locked: tests of several processes do.
const LOCK: &str = "cuesta-tests-enable-uring";

/// Mounts that are made while this is there may be served by rings.
pub struct Offer {
    found: String,
    _lock: File,
}

impl Offer {
    /// `None`, and says so, where they are not to be had.
    pub fn new() -> Option<Offer> {
        let offer = Offer::try_new();
        if offer.is_none() {
            println!(
                "skipped by rings: needs FUSE over io_uring (Linux 6.16), and to be allowed to enable it"
            );
        }
        offer
    }

    fn try_new() -> Option<Offer> {
        let lock = File::create(std::env::temp_dir().join(LOCK)).ok()?;
        lock.lock().ok()?;
        let found = std::fs::read_to_string(PARAMETER).ok()?;
        std::fs::write(PARAMETER, "1").ok()?;
        Some(Offer { found, _lock: lock })
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        let _ = std::fs::write(PARAMETER, &self.found);
    }
}
