//! Which daemon a session belongs to: a counter in a page that outlives daemons.
//!
//! A program may go on writing into its log after its daemon was killed, while the next daemon recovers that very
//! log. So a daemon counts itself in before it reads any log. A session reads the count after each operation, as it
//! reads its lease generation. So an operation that the recovery may not have seen is never acknowledged.
//!
//! The page must be the one that sessions of before have mapped, and its number none that they go by. So its file
//! has a second name, and the session table's head knows the last number. A daemon that finds the page changed
//! under it sets it right. A session that sees another number asks before it believes that its daemon is gone
//! (docs/decisions/0046).

use crate::Error;
use cuesta_format::control::CONTROL_BYTES;
use cuesta_format::geometry::{INCARNATION_COPY_FILE, INCARNATION_FILE};
use cuesta_media::{create_allocated, lengthen, recorder};
use rustix::fs::{Mode, OFlags, fstat};
use rustix::io::Errno;
use std::io::ErrorKind;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{Ordering, fence};

/// A number further from the last one than this was not counted.
const STEPS_MAX: u64 = 1 << 20;

/// The page and this daemon's number.
#[derive(Debug)]
pub(crate) struct Incarnation {
    paths: [PathBuf; 2],
    /// The file; two, if a copy of the store was made that has no second names.
    files: Vec<OwnedFd>,
    number: u64,
}

/// What became of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageState {
    /// It has the right number.
    Sound,
    /// It was changed or cut, and says so again.
    Mended,
    /// The next daemon has counted itself in.
    Taken,
}

fn failed(errno: Errno) -> Error {
    Error::errno("open the page that counts daemons")(errno)
}

fn open(path: &Path) -> Result<Option<OwnedFd>, Error> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => Ok(Some(file)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(failed(errno)),
    }
}

fn number_in(file: &OwnedFd) -> Result<u64, Error> {
    let mut word = [0; size_of::<u64>()];
    match rustix::io::pread(file, &mut word, 0) {
        Ok(8) => Ok(u64::from_ne_bytes(word)),
        Ok(_) => Ok(0),
        Err(errno) => Err(failed(errno)),
    }
}

fn set_number(file: &OwnedFd, number: u64) -> Result<(), Error> {
    let word = number.to_ne_bytes();
    recorder::record_file_write(file.as_fd(), 0, &word);
    match rustix::io::pwrite(file, &word, 0) {
        Ok(8) => Ok(()),
        Ok(_) => Err(failed(Errno::IO)),
        Err(errno) => Err(failed(errno)),
    }
}

fn is_same(one: &OwnedFd, other: &OwnedFd) -> Result<bool, Error> {
    let place = |file: &OwnedFd| fstat(file).map(|stat| (stat.st_dev, stat.st_ino)).map_err(failed);
    Ok(place(one)? == place(other)?)
}

impl Incarnation {
    /// Counts this daemon in: from now on no session of an earlier one acknowledges anything. `known` is the number of the last daemon, as
    /// the session table has it, or 0.
    pub(crate) fn begin(tier: &Path, known: u64) -> Result<Incarnation, Error> {
        let paths = [INCARNATION_FILE, INCARNATION_COPY_FILE].map(|name| tier.join(name));
        let [first, second] = &paths;
        let files = match (open(first)?, open(second)?) {
            (Some(one), Some(other)) if is_same(&one, &other)? => vec![one],
            (Some(one), Some(other)) => vec![one, other],
            (Some(one), None) => vec![one],
            (None, Some(other)) => {
                tracing::warn!("{INCARNATION_FILE} was removed: it gets its name again");
                vec![other]
            }
            (None, None) => {
                if known > 0 {
                    tracing::warn!("{INCARNATION_FILE} was removed: it is made anew");
                }
                vec![create_allocated(first, CONTROL_BYTES as u64)?]
            }
        };
        let mut last = known;
        for file in &files {
            if lengthen(file, CONTROL_BYTES as u64)? {
                tracing::warn!("{INCARNATION_FILE} was cut short: it is made whole again");
            }
            let found = number_in(file)?;
            // The table may lag by a daemon that died in between; a number that is far from it was never counted.
            if known == 0 || (last..last.saturating_add(STEPS_MAX)).contains(&found) {
                last = last.max(found);
            } else {
                tracing::warn!(
                    found,
                    known,
                    "{INCARNATION_FILE} was damaged: the session table knows the number"
                );
            }
        }
        let number = last.wrapping_add(1);
        for file in &files {
            set_number(file, number)?;
        }
        fence(Ordering::SeqCst);
        let incarnation = Incarnation { paths, files, number };
        incarnation.name_again();
        Ok(incarnation)
    }

    /// Gives the file back the name that it lacks. Without it the other one is the only one.
    fn name_again(&self) {
        let [first, second] = &self.paths;
        for (from, to) in [(first, second), (second, first)] {
            if let Err(error) = std::fs::hard_link(from, to)
                && !matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotFound)
            {
                tracing::debug!(%error, "the page that counts daemons has one name");
            }
        }
    }

    /// The file that sessions have mapped.
    pub(crate) fn page(&self) -> &OwnedFd {
        &self.files[0]
    }

    /// This daemon's number.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Looks whether the page still has the right number, and sets it right.
    pub(crate) fn mend(&self) -> Result<PageState, Error> {
        let mut state = PageState::Sound;
        for file in &self.files {
            let was_cut = lengthen(file, CONTROL_BYTES as u64)?;
            let found = number_in(file)?;
            if found == self.number && !was_cut {
                continue;
            }
            if (self.number + 1..self.number.saturating_add(STEPS_MAX)).contains(&found) {
                return Ok(PageState::Taken);
            }
            set_number(file, self.number)?;
            fence(Ordering::SeqCst);
            tracing::error!(
                found,
                was_cut,
                "{INCARNATION_FILE} was damaged under the daemon: it is set right"
            );
            state = PageState::Mended;
        }
        if self.paths.iter().any(|path| !path.exists()) {
            self.name_again();
        }
        Ok(state)
    }

    /// A descriptor that reads the page.
    pub(crate) fn descriptor(&self) -> Result<OwnedFd, Error> {
        self.mend()?;
        for path in &self.paths {
            if let Some(found) = open(path)?
                && is_same(&found, &self.files[0])?
            {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                return rustix::fs::open(path, flags, Mode::empty()).map_err(failed);
            }
        }
        // It has no name any more: sessions know it all the same, and the next daemon must give them up.
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&self.files[0]));
        rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuesta_media::{Mapping, Protection};

    fn seen(page: &Mapping) -> u64 {
        let mut word = [0; 8];
        page.read(0, &mut word).unwrap();
        u64::from_ne_bytes(word)
    }

    /// Whatever became of one of its names, or of what it holds: the page that a session has mapped counts the next daemon, and with a
    /// number that none had.
    #[test]
    fn a_session_of_before_sees_the_next_daemon() {
        type Harm = fn(&Path);
        let harms: [(&str, Harm); 6] = [
            ("nothing", |_| {}),
            ("removed", |tier| std::fs::remove_file(tier.join(INCARNATION_FILE)).unwrap()),
            ("second name removed", |tier| std::fs::remove_file(tier.join(INCARNATION_COPY_FILE)).unwrap()),
            ("zeroed", |tier| {
                let file = std::fs::File::options().write(true).open(tier.join(INCARNATION_FILE)).unwrap();
                std::os::unix::fs::FileExt::write_all_at(&file, &[0; 4096], 0).unwrap();
            }),
            ("noise", |tier| {
                let file = std::fs::File::options().write(true).open(tier.join(INCARNATION_FILE)).unwrap();
                std::os::unix::fs::FileExt::write_all_at(&file, &[0xa5; 4096], 0).unwrap();
            }),
            ("cut", |tier| {
                let file = std::fs::File::options().write(true).open(tier.join(INCARNATION_FILE)).unwrap();
                file.set_len(0).unwrap();
            }),
        ];
        for (what, harm) in harms {
            let folder = tempfile::tempdir().unwrap();
            let tier = folder.path();
            let first = Incarnation::begin(tier, 0).unwrap();
            let second = Incarnation::begin(tier, first.number()).unwrap();
            let bytes = CONTROL_BYTES as u64;
            let medium = cuesta_format::Medium::Memory;
            let file = second.descriptor().unwrap();
            let page = Mapping::of_file(&file, 0, bytes, Protection::ReadOnly, medium, false).unwrap();
            assert_eq!((second.number(), seen(&page)), (2, 2), "{what}");
            harm(tier);
            if !["nothing", "removed", "second name removed"].contains(&what) {
                assert_eq!(second.mend().unwrap(), PageState::Mended, "{what}");
                assert_eq!(seen(&page), 2, "{what}");
                harm(tier);
            }
            let third = Incarnation::begin(tier, second.number()).unwrap();
            assert_eq!((third.number(), seen(&page)), (3, 3), "{what}");
            assert_eq!(second.mend().unwrap(), PageState::Taken, "{what}");
            for name in [INCARNATION_FILE, INCARNATION_COPY_FILE] {
                assert!(
                    is_same(&open(&tier.join(name)).unwrap().unwrap(), &third.files[0]).unwrap(),
                    "{what}"
                );
            }
        }
    }
}
