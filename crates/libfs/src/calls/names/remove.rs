//! `unlink` and `rmdir`.

use crate::cache::directory_content::NameState;
use crate::cache::inode::{Content, Inode, State};
use crate::client::attempt::Attempt;
use crate::client::client::Client;
use crate::client::halt::Halt;
use crate::errno::Error;
use crate::paths::confinement::Rights;
use crate::paths::credentials::{Credentials, EXECUTE, WRITE};
use crate::paths::path::{Base, Follow, LastName};
use crate::sync::{Arc, Ordering};
use cuesta_format::{FileKind, InodeNumber, LogPosition, Operation};

impl Client {
    /// `unlink`.
    pub fn unlink(&self, credentials: &Credentials, base: Base<'_>, path: &[u8]) -> Result<(), Error> {
        self.take_away(credentials, base, path, false)
    }

    /// `rmdir`.
    pub fn remove_directory(
        &self,
        credentials: &Credentials,
        base: Base<'_>,
        path: &[u8],
    ) -> Result<(), Error> {
        self.take_away(credentials, base, path, true)
    }

    fn take_away(
        &self,
        credentials: &Credentials,
        base: Base<'_>,
        path: &[u8],
        directory: bool,
    ) -> Result<(), Error> {
        self.operate(|attempt| {
            let found = self.walk(credentials, base, path, Follow::Never)?;
            let name = match (&found.last, directory) {
                (LastName::Name(name), _) => name,
                (LastName::TooLong, _) => return Err(Error::NameTooLong.into()),
                (_, false) => return Err(Error::IsDirectory.into()),
                (LastName::DotDot, true) => return Err(Error::NotEmpty.into()),
                (LastName::Dot, true) if path.iter().all(|&byte| byte == b'/') => {
                    return Err(Error::Busy.into());
                }
                (LastName::Dot, true) => return Err(Error::Invalid.into()),
            };
            let (inode, kind) = found.inode.as_ref().ok_or(Error::NotFound)?;
            let is_directory = *kind == FileKind::Directory;
            if found.slash && !directory {
                return Err(if is_directory { Error::IsDirectory } else { Error::NotDirectory }.into());
            }
            let wanted = if directory { Rights::REMOVE_DIRECTORY } else { Rights::REMOVE_FILE };
            self.check_confined_in(credentials, &found.parent, wanted)?;
            let operation =
                |orphan| Operation::Unlink { parent: found.parent.number, inode: inode.number, name, orphan };
            attempt.prepare_effect(operation(false).body_bytes(), 0)?;
            let mut locked = self.lock_all([Some(&found.parent), Some(inode), None, None])?;
            let parent = locked.of(&found.parent)?;
            if parent.is_unlinked() {
                return Err(Error::NotFound.into());
            }
            if !name_stands_for(parent, name, inode.number) {
                return Err(Halt::Again);
            }
            parent.check(credentials, WRITE | EXECUTE)?;
            let parent_record = parent.record;
            let state = locked.of(inode)?;
            credentials.check_sticky(&parent_record, &state.record)?;
            match (directory, is_directory) {
                (true, false) => return Err(Error::NotDirectory.into()),
                (false, true) => return Err(Error::IsDirectory.into()),
                _ => {}
            }
            check_empty(state)?;
            let orphan = inode.opens.load(Ordering::SeqCst) > 0;
            let appended = attempt.append(&operation(orphan))?;
            self.drop_name(inode, state, is_directory, orphan, attempt, appended.end);
            let parent = locked.of(&found.parent)?;
            parent.record.size = parent.record.size.saturating_sub(1);
            if is_directory {
                parent.record.links = parent.record.links.saturating_sub(1);
            }
            parent.touch_content(attempt.now);
            parent.logged = appended.end;
            if let Some(content) = parent.directory_mut() {
                content.take(name, appended.position, self.session.retired());
            }
            Ok(Arc::clone(inode))
        })
        .and_then(|inode| self.release_if_closed(&inode))
    }

    /// Drops one name of an inode, by an entry that ends at `logged`. The inode ends with its last name,
    /// unless it is open.
    pub(crate) fn drop_name(
        &self,
        inode: &Inode,
        state: &mut State,
        is_directory: bool,
        orphan: bool,
        attempt: &Attempt<'_>,
        logged: LogPosition,
    ) {
        state.record.links = if is_directory { 0 } else { state.record.links.saturating_sub(1) };
        state.record.changed = attempt.now;
        state.logged = logged;
        if !state.is_unlinked() {
            return;
        }
        self.accesses.forget(inode.number);
        if orphan {
            inode.orphaned.store(true, Ordering::SeqCst);
        } else {
            state.released = true;
            state.content = Content::Special;
            self.cache.remove(inode.number, logged);
        }
    }
}

pub(crate) fn name_state(directory: &State, name: &[u8], retired: LogPosition) -> NameState {
    directory.directory().map_or(NameState::Absent, |content| content.find(name, retired))
}

/// Whether `name` still stands for `inode`.
pub(crate) fn name_stands_for(directory: &State, name: &[u8], inode: InodeNumber) -> bool {
    matches!(name_state(directory, name, LogPosition(0)), NameState::Present(named) if named.inode == inode)
}

/// Fails if the directory holds anything.
pub(crate) fn check_empty(state: &State) -> Result<(), Error> {
    match state.directory() {
        Some(content) if !content.is_empty() || state.record.size > 0 => Err(Error::NotEmpty),
        _ => Ok(()),
    }
}
