//! What the kernel keeps of a mount's files: attributes, names and content, each for as long as the mount's session has
//! the lease (`cuesta_fuse`, `keeping`).
//!
//! A session needs no telling that it lost a lease: the generation it looks at has moved. The kernel looks at nothing. So
//! the session of a mount hands over a descriptor of the mount, and what it loses is called doubtful to the kernel here,
//! before anybody else gets it, by a system call that waits for nobody: not for the mount's process, which may be stopped or
//! waiting for this very lease, nor for pages of content, which are looked after when the kernel next asks for attributes.
//!
//! | | order |
//! |---|---|
//! | a fence | generation moves; kernel told; lease revoked; the other gets it |
//! | names of a directory that was taken lately | none are kept, and the kernel is told nothing ([`TakenNames`]) |
//! | leases given back | kernel told; leases gone |
//! | all leases at once, or a session whose mount is not known to be | gone; for the kernel's term nobody gets any: what it was told ends by itself |
//! | another daemon | for the term nobody gets any lease, if there were mounts |

use crate::sessions::{Presence, Session};
use crate::{Error, SharedFs};
use cuesta_format::kernel_notice::{self, About};
use cuesta_format::{InodeNumber, SessionId, TakenNames};
use parking_lot::Mutex;
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
/// The device that mounts are served by.
const FUSE_DEVICE: (u32, u32) = (10, 229);

/// A mount whose session this is.
#[derive(Clone, Debug)]
pub(crate) struct KernelCache {
    device: Arc<OwnedFd>,
    /// If its kernel can be told that names are doubtful: of which directories it keeps none anyway.
    taken: Option<Arc<Mutex<TakenNames>>>,
}

/// What becomes of names.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Names<'a> {
    /// They hold.
    Hold,
    /// The directory is taken: somebody else changes it, and may go on.
    Taken(InodeNumber),
    /// The mount's session does not need these any more, of which some may be directories.
    GivenBack(&'a [InodeNumber]),
}

impl KernelCache {
    /// The one behind a descriptor of a mount; `names`: its kernel can be told that names are doubtful.
    pub(crate) fn new(device: OwnedFd, names: bool) -> Option<KernelCache> {
        let found = fstat(&device).ok()?;
        let number = (major(found.st_rdev), minor(found.st_rdev));
        let is_device = FileType::from_raw_mode(found.st_mode) == FileType::CharacterDevice;
        // Of anything else a write might wait.
        (is_device && number == FUSE_DEVICE).then(|| KernelCache {
            device: Arc::new(device),
            taken: names.then(|| Arc::new(Mutex::new(TakenNames::of_shared_fs()))),
        })
    }

    /// Its session comes from an earlier daemon, with which it lost all its leases: none was granted before what the kernel was
    /// told had ended by itself, and the door has it keep no more for now.
    fn call_all_taken(&self) {
        if let Some(taken) = &self.taken {
            taken.lock().note_all(Instant::now());
        }
    }

    /// What the kernel knows of these holds no more.
    fn doubt(&self, inodes: impl IntoIterator<Item = InodeNumber>, names: Names<'_>) {
        // It knows no such inode, or the mount is gone: so much the better.
        for inode in inodes {
            let _ = rustix::io::write(&self.device, &kernel_notice::inode(inode, About::Attributes));
        }
        let Some(taken) = &self.taken else { return };
        // Until it is written nobody else may find that it is.
        let mut taken = taken.lock();
        let now = Instant::now();
        let are_kept = match names {
            Names::Hold => false,
            Names::Taken(directory) => {
                let was_quiet = taken.is_quiet(directory, now);
                taken.note(directory, now);
                was_quiet
            }
            Names::GivenBack(inodes) => inodes.iter().any(|&inode| taken.is_quiet(inode, now)),
        };
        if are_kept {
            let _ = rustix::io::write(&self.device, &kernel_notice::names());
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
            if matches!(found.presence, Presence::Returning) {
                cache.call_all_taken();
            }
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
    pub(crate) fn doubt_in_kernel(
        &self,
        session: SessionId,
        inodes: impl IntoIterator<Item = InodeNumber>,
        names: Names<'_>,
    ) {
        let cache = self.core.lock().sessions.get(&session).and_then(|found| found.kernel.clone());
        if let Some(cache) = cache {
            cache.doubt(inodes, names);
        }
    }

    /// Whether the session is a mount's.
    pub(crate) fn is_mount(&self, session: SessionId) -> bool {
        self.core.lock().sessions.get(&session).is_some_and(|found| found.kernel.is_some())
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
        assert!(KernelCache::new(open("/dev/null"), true).is_none());
        let (_, end) = rustix::pipe::pipe().unwrap();
        assert!(KernelCache::new(end, true).is_none());
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
