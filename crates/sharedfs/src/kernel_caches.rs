//! What the kernel keeps of a mount's files: attributes, names and content, each for as long as the mount's session has
//! the lease (`cuesta_fuse`, `keeping`).
//!
//! A session needs no telling that it lost a lease: the generation it looks at has moved. The kernel looks at nothing. So
//! the session of a mount hands over a descriptor of the mount, and what it loses is called doubtful to the kernel here,
//! before anybody else gets it, by a system call that waits for nobody: not for the mount's process, which may be stopped or
//! waiting for this very lease, nor for pages of content, which are looked after when the kernel next asks for attributes.
//! Names are not taken back: the kernel keeps them for a moment, which is waited for ([`cuesta_format::kept_names`]).
//!
//! | | order |
//! |---|---|
//! | a fence | names waited for; generation moves; kernel told; lease revoked; the other gets it |
//! | leases given back | names waited for; kernel told; leases gone |
//! | all leases at once, or a session whose mount is not known to be | gone; for the kernel's term nobody gets any: what it was told ends by itself |
//! | another daemon | for the term nobody gets any lease, if there were mounts |

use crate::sessions::{Control, Presence, Session};
use crate::{Error, SharedFs};
use cuesta_format::kept_names::MARK_TERM;
use cuesta_format::kernel_notice::{self, About};
use cuesta_format::{InodeNumber, SessionId};
use rustix::fs::{FileType, fstat, major, minor};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What the kernel is told by a mount holds no longer than this.
pub const KERNEL_TERM: Duration = Duration::from_secs(1);

/// In the store while a session is a mount's: the next daemon finds it there.
const MARK_FILE: &str = "mounts";
/// A mount's session that marks a directory again and again, although it is wanted, is not waited for any longer.
const NAMES_WAIT_MAX: Duration = Duration::from_millis(5 * MARK_TERM.as_millis() as u64);
/// The device that mounts are served by.
const FUSE_DEVICE: (u32, u32) = (10, 229);

/// A mount whose session this is.
#[derive(Clone, Debug)]
pub(crate) struct KernelCache {
    device: Arc<OwnedFd>,
}

/// Says that somebody is about to take these from a mount's session, until it is dropped.
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
    fn new(control: Arc<Control>, inodes: &'a [InodeNumber]) -> Wanted<'a> {
        inodes.iter().for_each(|&inode| control.wants(inode));
        Wanted { control, inodes }
    }

    /// Waits until the kernel keeps no names of them. A session that goes on marking them is not waited for.
    fn wait(&self) {
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

    /// What the kernel knows of these holds no more.
    fn doubt(&self, inodes: impl IntoIterator<Item = InodeNumber>) {
        // It knows no such inode, or the mount is gone: so much the better.
        for inode in inodes {
            let _ = rustix::io::write(&self.device, &kernel_notice::inode(inode, About::Attributes));
        }
    }
}

/// Until when kernels may believe what nobody can take back.
#[derive(Debug, Default)]
pub(crate) struct Doubt {
    until_ns: AtomicU64,
    /// The mark may be in the store.
    is_marked: AtomicBool,
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
    fn begin(&self, now: Duration) {
        let until = (now + KERNEL_TERM).as_nanos();
        self.until_ns.fetch_max(u64::try_from(until).unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    /// How long it lasts from `now` on.
    fn left(&self, now: Duration) -> Duration {
        Duration::from_nanos(self.until_ns.load(Ordering::SeqCst)).saturating_sub(now)
    }
}

impl SharedFs {
    /// The session is a mount's, which hands over a descriptor.
    pub(crate) fn keep_in_kernel(&self, session: SessionId, cache: KernelCache) -> Result<(), Error> {
        let mut core = self.core.lock();
        self.doubt.is_marked.store(true, Ordering::SeqCst);
        let path = self.tier.join(MARK_FILE);
        let mark = std::fs::OpenOptions::new().write(true).create(true).truncate(false).open(path);
        mark.map_err(Error::io("note that there is a mount"))?;
        if let Some(found) = core.sessions.get_mut(&session) {
            found.kernel = Some(cache);
        }
        Ok(())
    }

    /// The session ends: nobody serves its mount any more, whose calls fail from now on, even if there is no room to end the session
    /// yet.
    pub(crate) fn abandon_mount(&self, session: SessionId) {
        let mut core = self.core.lock();
        if let Some(found) = core.sessions.get_mut(&session)
            && found.kernel.take().is_some()
        {
            self.begin_doubt();
        }
    }

    /// The session's mount is gone, in order.
    pub(crate) fn keep_nothing_in_kernel(&self, session: SessionId) {
        let mut core = self.core.lock();
        if let Some(found) = core.sessions.get_mut(&session) {
            found.kernel = None;
        }
        self.forget_mounts(&core.sessions);
    }

    /// Tells the kernel, if the session is a mount's, that what it knows of these holds no more. From before this on nothing
    /// the session says of them may hold.
    pub(crate) fn doubt_in_kernel(&self, session: SessionId, inodes: impl IntoIterator<Item = InodeNumber>) {
        let cache = self.core.lock().sessions.get(&session).and_then(|found| found.kernel.clone());
        if let Some(cache) = cache {
            cache.doubt(inodes);
        }
    }

    /// Waits until the kernel keeps no names of these, if the session is a mount's; as long as what is answered lives it will keep
    /// none. Nothing may be locked meanwhile.
    pub(crate) fn await_names<'a>(
        &self,
        session: SessionId,
        inodes: &'a [InodeNumber],
    ) -> Option<Wanted<'a>> {
        let control = {
            let core = self.core.lock();
            let found = core.sessions.get(&session).filter(|found| found.kernel.is_some())?;
            Arc::clone(&found.control)
        };
        let wanted = Wanted::new(control, inodes);
        wanted.wait();
        Some(wanted)
    }

    /// A mount's session loses all it has: what its kernel was told ends by itself.
    pub(crate) fn begin_doubt(&self) {
        self.doubt.begin(self.opened.elapsed());
    }

    /// How long a kernel may still believe what nobody can take back: until then nobody is granted anything. To be looked at
    /// with the core locked, as it begins.
    pub(crate) fn doubt_left(&self) -> Duration {
        self.doubt.left(self.opened.elapsed())
    }

    /// Takes the mark away if there is no mount any more: one whose session has not come back yet there may be.
    pub(crate) fn forget_mounts(&self, sessions: &BTreeMap<SessionId, Session>) {
        let may_be =
            |session: &Session| session.kernel.is_some() || matches!(session.presence, Presence::Away(_));
        let is_needed = sessions.values().any(may_be) || !self.doubt_left().is_zero();
        if is_needed || !self.doubt.is_marked.swap(false, Ordering::SeqCst) {
            return;
        }
        match std::fs::remove_file(self.tier.join(MARK_FILE)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                tracing::debug!(%error, "the next start waits a moment for mounts that are gone");
            }
            _ => {}
        }
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
