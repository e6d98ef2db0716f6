//! The kernel's caches of a mount's files: attributes, names and content. It keeps each for as long as the mount's
//! session has the lease (`cuesta_fuse`, `keeping`).
//!
//! A session sees by itself that it lost a lease: the generation it looks at has moved. The kernel looks at nothing. So a
//! mount's session hands over a descriptor of the mount. The daemon tells the kernel through it which inodes are doubtful,
//! before another session gets them. That system call does not wait for the mount's process, which may be stopped or
//! wait for this very lease. Nor does it wait for pages of content: the kernel checks them when it next asks for attributes.
//! Names are not taken back: the kernel keeps them for a moment, and the daemon waits for its end ([`cuesta_format::kept_names`]).
//!
//! | | order |
//! |---|---|
//! | a fence | wait for names; move the generation; tell the kernel; revoke the lease; grant it to the other |
//! | leases given back | wait for names; tell the kernel; drop the leases |
//! | a session loses all leases, or its mount may be gone | drop them; for the kernel's term no session gets any, because the kernel's knowledge ends by itself |
//! | another daemon | if there were mounts, no session gets a lease for the term |

use crate::sessions::Control;
use cuesta_format::InodeNumber;
use cuesta_format::kept_names::MARK_TERM;
use cuesta_format::kernel_notice::{self, About};
use rustix::fs::{FileType, fstat, major, minor};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The kernel believes a mount's answers no longer than this.
pub const KERNEL_TERM: Duration = Duration::from_secs(1);
/// In the store while a session is a mount's: the next daemon finds it there.
pub(super) const MARK_FILE: &str = "mounts";
/// A mount's session that marks a directory again and again, although it is wanted, is not waited for any longer.
const NAMES_WAIT_MAX: Duration = Duration::from_millis(5 * MARK_TERM.as_millis() as u64);
/// The device that mounts are served by.
const FUSE_DEVICE: (u32, u32) = (10, 229);

/// A mount whose session this is.
#[derive(Clone, Debug)]
pub(crate) struct KernelCache {
    device: Arc<OwnedFd>,
}

/// Says that the daemon is about to take these from a mount's session, until it is dropped.
#[derive(Debug)]
pub(crate) struct Wanted<'a> {
    control: Arc<Control>,
    inodes: &'a [InodeNumber],
}

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        self.inodes.iter().for_each(|&inode| self.control.no_longer_wants(inode));
    }
}

impl<'a> Wanted<'a> {
    pub(super) fn new(control: Arc<Control>, inodes: &'a [InodeNumber]) -> Wanted<'a> {
        inodes.iter().for_each(|&inode| control.wants(inode));
        Wanted { control, inodes }
    }

    /// Waits until the kernel keeps no names of them. A session that goes on marking them is not waited for.
    pub(super) fn wait(&self) {
        let begin = Instant::now();
        while let Some(left) = self.inodes.iter().filter_map(|&inode| self.control.names_left(inode)).max() {
            if begin.elapsed() > NAMES_WAIT_MAX {
                break;
            }
            std::thread::sleep(left);
        }
    }
}

impl KernelCache {
    /// The one behind a descriptor of a mount.
    pub(crate) fn new(device: OwnedFd) -> Option<KernelCache> {
        let found = fstat(&device).ok()?;
        let number = (major(found.st_rdev), minor(found.st_rdev));
        let is_device = FileType::from_raw_mode(found.st_mode) == FileType::CharacterDevice;
        // Of anything else a write might wait.
        (is_device && number == FUSE_DEVICE).then(|| KernelCache { device: Arc::new(device) })
    }

    /// The kernel's knowledge of these holds no more.
    pub(super) fn doubt(&self, inodes: impl IntoIterator<Item = InodeNumber>) {
        // It knows no such inode, or the mount is gone: so much the better.
        for inode in inodes {
            let _ = rustix::io::write(&self.device, &kernel_notice::inode(inode, About::Attributes));
        }
    }
}

/// Until when kernels may believe answers that cannot be taken back.
#[derive(Debug, Default)]
pub(crate) struct Doubt {
    until_ns: AtomicU64,
    /// The mark may be in the store.
    pub(super) is_marked: AtomicBool,
}

impl Doubt {
    /// As an earlier daemon left it in the store's folder `tier`.
    pub(crate) fn left_in(tier: &Path) -> Doubt {
        let doubt = Doubt::default();
        if tier.join(MARK_FILE).exists() {
            doubt.begin(Duration::ZERO);
            doubt.is_marked.store(true, Ordering::SeqCst);
        }
        doubt
    }

    /// It begins at `now`.
    pub(super) fn begin(&self, now: Duration) {
        let until = (now + KERNEL_TERM).as_nanos();
        self.until_ns.fetch_max(u64::try_from(until).unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    /// How long it lasts from `now` on.
    pub(super) fn left(&self, now: Duration) -> Duration {
        Duration::from_nanos(self.until_ns.load(Ordering::SeqCst)).saturating_sub(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Mode, OFlags};

    fn open(path: &str) -> OwnedFd {
        rustix::fs::open(path, OFlags::RDWR, Mode::empty()).unwrap()
    }

    #[test]
    fn only_a_mount_s_device_is_taken() {
        assert!(KernelCache::new(open("/dev/null")).is_none());
        let (_, end) = rustix::pipe::pipe().unwrap();
        assert!(KernelCache::new(end).is_none());
    }

    #[test]
    fn doubt_lasts_for_the_term() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Doubt::left_in(folder.path()).left(Duration::ZERO), Duration::ZERO);
        std::fs::write(folder.path().join(MARK_FILE), "").unwrap();
        let doubt = Doubt::left_in(folder.path());
        assert_eq!(doubt.left(KERNEL_TERM / 4), KERNEL_TERM * 3 / 4);
        assert_eq!(doubt.left(KERNEL_TERM), Duration::ZERO);
        doubt.begin(KERNEL_TERM);
        assert_eq!(doubt.left(KERNEL_TERM), KERNEL_TERM);
    }
}
