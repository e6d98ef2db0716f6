//! A folder that was opened once and checked by its descriptor.

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, fchmod, fstat, openat, readlinkat, statat};
use rustix::io::Errno;
use std::ffi::OsString;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// The name of the fast tier in the store's folder: a folder, or a symbolic link to one.
pub const TIER_NAME: &str = "nvm";
/// Bits of a mode by which others could put something into a folder.
const WRITABLE_BY_OTHERS: u32 = 0o022;
/// Bits of a mode by which others could read anything.
const FOR_OTHERS: u32 = 0o077;

/// Why a folder, or what lies in it, is not believed.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// There is nothing.
    #[error("{} is gone", .0.display())]
    Missing(PathBuf),
    /// Another user's.
    #[error("{} belongs to user {owner}, and the store to user {expected}: nothing in it is used", .path.display())]
    Owner {
        /// What.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// The owner it had to have.
        expected: u32,
    },
    /// Others can write to it.
    #[error("{} may be written by other users (mode {mode:03o}): chmod go-w {0}", .path.display())]
    Writable {
        /// What.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// It is no folder, or a symbolic link.
    #[error("{} is no directory", .0.display())]
    Type(PathBuf),
    /// A file that has other names, or is none.
    #[error("{} is no regular file with this name alone", .0.display())]
    File(PathBuf),
    /// It holds another store's secret.
    #[error("{} is the fast tier of another store: nothing in it is used", .0.display())]
    Foreign(PathBuf),
    /// It does not hold the store's secret.
    #[error("{} does not prove to be this store's: its file {} is missing or damaged (cuesta fsck writes a new one)",
        .0.display(), cuesta_format::geometry::IDENTITY_FILE)]
    Unproven(PathBuf),
    /// The kernel refused.
    #[error("{}: {errno}", .path.display())]
    System {
        /// On what.
        path: PathBuf,
        /// Why.
        errno: Errno,
    },
}

impl TrustError {
    pub(crate) fn system(path: &Path) -> impl Fn(Errno) -> TrustError + use<> {
        let path = path.to_owned();
        move |errno| match errno {
            Errno::NOENT => TrustError::Missing(path.clone()),
            Errno::LOOP | Errno::NOTDIR => TrustError::Type(path.clone()),
            errno => TrustError::System { path: path.clone(), errno },
        }
    }
}

/// An open folder whose owner, type, mode and link count are right.
#[derive(Debug)]
pub struct TrustedFolder {
    descriptor: OwnedFd,
    /// The path it was opened by.
    named: PathBuf,
    /// A path that leads to the descriptor, and so to this folder and no other.
    anchored: PathBuf,
}

impl TrustedFolder {
    /// Opens the folder at `path`. Its last component must be no symbolic link, and the folder must belong to
    /// `owner`.
    pub fn open(path: &Path, owner: u32) -> Result<TrustedFolder, TrustError> {
        TrustedFolder::open_at(CWD, path, path.to_owned(), owner)
    }

    fn open_at(
        at: BorrowedFd<'_>,
        path: &Path,
        named: PathBuf,
        owner: u32,
    ) -> Result<TrustedFolder, TrustError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let descriptor = openat(at, path, flags, Mode::empty());
        let descriptor = match descriptor {
            // One that its owner alone may read is no less another's.
            Err(Errno::ACCESS) => {
                let stat = statat(at, path, AtFlags::SYMLINK_NOFOLLOW).map_err(TrustError::system(&named))?;
                match stat.st_uid {
                    found if found == owner => Err(TrustError::system(&named)(Errno::ACCESS)),
                    found => Err(TrustError::Owner { path: named.clone(), owner: found, expected: owner }),
                }
            }
            opened => opened.map_err(TrustError::system(&named)),
        }?;
        let stat = fstat(&descriptor).map_err(TrustError::system(&named))?;
        if stat.st_nlink == 0 {
            return Err(TrustError::Missing(named));
        }
        if stat.st_uid != owner {
            return Err(TrustError::Owner { path: named, owner: stat.st_uid, expected: owner });
        }
        if stat.st_mode & WRITABLE_BY_OTHERS != 0 {
            return Err(TrustError::Writable { path: named, mode: stat.st_mode & 0o7777 });
        }
        let anchored = PathBuf::from(format!("/proc/self/fd/{}", descriptor.as_raw_fd()));
        // Without /proc the name must do, which led here a moment ago.
        let leads_here = |path: &Path| {
            rustix::fs::stat(path).is_ok_and(|it| (it.st_dev, it.st_ino) == (stat.st_dev, stat.st_ino))
        };
        let anchored = if leads_here(&anchored) { anchored } else { named.clone() };
        Ok(TrustedFolder { descriptor, named, anchored })
    }

    /// The fast tier of the store in this folder, which must belong to `owner`. Others cannot read it from then on.
    pub fn tier(&self, owner: u32) -> Result<TrustedFolder, TrustError> {
        let tier = match self.tier_link() {
            Some(target) => TrustedFolder::open(&target, owner)?,
            None => {
                let named = self.named.join(TIER_NAME);
                TrustedFolder::open_at(self.descriptor.as_fd(), Path::new(TIER_NAME), named, owner)?
            }
        };
        let failed = TrustError::system(&tier.named);
        let mode = fstat(&tier.descriptor).map_err(&failed)?.st_mode;
        if mode & FOR_OTHERS != 0 {
            fchmod(&tier.descriptor, Mode::RWXU).map_err(&failed)?;
        }
        Ok(tier)
    }

    /// Where the fast tier lies, if that is elsewhere.
    #[must_use]
    pub fn tier_link(&self) -> Option<PathBuf> {
        let target = readlinkat(&self.descriptor, TIER_NAME, Vec::new()).ok()?;
        // A relative link begins in the folder.
        Some(self.anchored.join(OsString::from_vec(target.into_bytes())))
    }

    /// A path of this folder that no other one can take. It is this process's alone.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.anchored
    }

    /// The path by which it was found.
    #[must_use]
    pub fn named(&self) -> &Path {
        &self.named
    }

    /// Whether its name still leads to it.
    #[must_use]
    pub fn is_at_its_name(&self) -> bool {
        let named = statat(CWD, &self.named, AtFlags::SYMLINK_NOFOLLOW);
        let this = fstat(&self.descriptor);
        named.is_ok_and(|named| this.is_ok_and(|it| (it.st_dev, it.st_ino) == (named.st_dev, named.st_ino)))
    }

    /// Whether there is anything of this name in it.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Whether it was removed.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        fstat(&self.descriptor).is_ok_and(|found| found.st_nlink == 0)
    }

    /// Opens a regular file in it that has this name alone and belongs to the folder's owner.
    pub(crate) fn open_file(&self, name: &str) -> Result<OwnedFd, TrustError> {
        let path = self.named.join(name);
        let failed = TrustError::system(&path);
        // A pipe in its place must not make us wait.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&self.descriptor, name, flags, Mode::empty()).map_err(&failed)?;
        let stat = fstat(&file).map_err(&failed)?;
        let owner = fstat(&self.descriptor).map_err(&failed)?.st_uid;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || stat.st_nlink != 1 {
            return Err(TrustError::File(path));
        }
        if stat.st_uid != owner {
            return Err(TrustError::Owner { path, owner: stat.st_uid, expected: owner });
        }
        if stat.st_mode & WRITABLE_BY_OTHERS != 0 {
            return Err(TrustError::Writable { path, mode: stat.st_mode & 0o7777 });
        }
        Ok(file)
    }
}

impl AsFd for TrustedFolder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn us() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    fn folder(mode: u32) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        folder
    }

    #[test]
    fn folders_that_others_own_or_may_write_are_refused() {
        let (ours, open) = (folder(0o711), folder(0o770));
        TrustedFolder::open(ours.path(), us()).unwrap();
        assert!(matches!(TrustedFolder::open(ours.path(), us() + 1), Err(TrustError::Owner { .. })));
        assert!(matches!(
            TrustedFolder::open(open.path(), us()),
            Err(TrustError::Writable { mode: 0o770, .. })
        ));
        let (link, file) = (ours.path().join("link"), ours.path().join("file"));
        symlink(open.path(), &link).unwrap();
        std::fs::write(&file, "").unwrap();
        for other in [link, file] {
            assert!(matches!(TrustedFolder::open(&other, us()), Err(TrustError::Type(_))));
        }
        let gone = TrustedFolder::open(&ours.path().join("gone"), us());
        assert!(matches!(gone, Err(TrustError::Missing(_))));
    }

    /// A path opens the folder that was checked, whatever has its name by now.
    #[test]
    fn a_folder_put_in_its_place_is_not_looked_into() {
        let above = folder(0o700);
        let (name, aside) = (above.path().join("store"), above.path().join("aside"));
        std::fs::create_dir(&name).unwrap();
        std::fs::write(name.join("file"), "checked").unwrap();
        let trusted = TrustedFolder::open(&name, us()).unwrap();
        assert!(trusted.is_at_its_name());
        std::fs::rename(&name, &aside).unwrap();
        std::fs::create_dir(&name).unwrap();
        std::fs::write(name.join("file"), "planted").unwrap();
        assert_eq!(std::fs::read_to_string(trusted.path().join("file")).unwrap(), "checked");
        assert!(!trusted.is_at_its_name() && !trusted.is_removed());
        std::fs::remove_dir_all(&aside).unwrap();
        assert!(trusted.is_removed());
    }

    #[test]
    fn a_tier_is_closed_to_other_users() {
        let store = folder(0o711);
        let (elsewhere, planted) = (folder(0o755), folder(0o775));
        symlink(elsewhere.path(), store.path().join(TIER_NAME)).unwrap();
        let trusted = TrustedFolder::open(store.path(), us()).unwrap();
        trusted.tier(us()).unwrap();
        assert_eq!(elsewhere.path().metadata().unwrap().permissions().mode() & 0o777, 0o700);
        std::fs::remove_file(store.path().join(TIER_NAME)).unwrap();
        symlink(planted.path(), store.path().join(TIER_NAME)).unwrap();
        assert!(matches!(trusted.tier(us()), Err(TrustError::Writable { .. })));
    }

    #[test]
    fn a_file_with_another_name_or_no_file_is_refused() {
        let place = folder(0o700);
        let trusted = TrustedFolder::open(place.path(), us()).unwrap();
        std::fs::write(place.path().join("file"), "").unwrap();
        trusted.open_file("file").unwrap();
        std::fs::hard_link(place.path().join("file"), place.path().join("second")).unwrap();
        symlink("/etc/passwd", place.path().join("link")).unwrap();
        rustix::fs::mknodat(&trusted, "pipe", FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert!(matches!(trusted.open_file("file"), Err(TrustError::File(_))));
        assert!(matches!(trusted.open_file("link"), Err(TrustError::Type(_))));
        assert!(matches!(trusted.open_file("pipe"), Err(TrustError::File(_))));
    }
}
