//! The device number of the store.

use crate::process;

/// The device number of the store, which is the same for as long as the program runs. The kernel gives a mount its own, so that
/// is what is shown by this door, too: one file is one file by both.
pub fn device() -> u64 {
    let configuration = process::configuration();
    configuration.ok().and_then(|store| store.device.or(store.mounted)).unwrap_or(DEVICE_UNKNOWN)
}

/// The device number of a store whose own one was not said: by tests of this library.
pub(crate) const DEVICE_UNKNOWN: u64 = 0xc0c_cce5;
