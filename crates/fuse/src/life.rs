//! Whether anybody serves a mount. The kernel lists one whose process died as any other, goes on answering from what it was
//! told before, and lets requests wait for as long as somebody has a descriptor of it: SharedFS has one until it has seen that the
//! session is gone. So the mount is asked what the kernel keeps no answer to.

use rustix::io::Errno;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

/// What becomes of a dead mount does so in milliseconds; one that lives may wait for a daemon.
const PATIENCE: Duration = Duration::from_secs(10);

/// What becomes of who asks something of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// He is answered.
    Served,
    /// There is nobody, and never will be.
    Dead,
    /// He waits: the process is stopped, or waits itself.
    Silent,
}

/// Looks what is mounted at `at`, which takes some seconds if it is [`Life::Silent`].
#[must_use]
pub fn life(at: &Path) -> Life {
    let (answers, answered) = channel();
    let at = at.to_owned();
    let ask = move || {
        // Who asked may have lost patience.
        let _ = answers.send(rustix::fs::statvfs(&at).map(drop));
    };
    // An answer that says that something is wrong is one.
    match std::thread::Builder::new()
        .name("asking".into())
        .spawn(ask)
        .map(|_| answered.recv_timeout(PATIENCE))
    {
        Ok(Ok(Err(Errno::NOTCONN | Errno::CONNABORTED))) => Life::Dead,
        Ok(Ok(_)) => Life::Served,
        Ok(Err(_)) | Err(_) => Life::Silent,
    }
}
