//! `rename` and `renameat2`.

use crate::cache::directory_content::{NameState, NameTarget};
use crate::cache::inode::{Inode, State};
use crate::calls::names::remove::{check_empty, name_stands_for, name_state};
use crate::calls::names::rename_flags::RenameFlags;
use crate::client::attempt::Attempt;
use crate::client::client::Client;
use crate::client::halt::Halt;
use crate::errno::Error;
use crate::paths::confined::Refer;
use crate::paths::credentials::{Credentials, EXECUTE, WRITE};
use crate::paths::path::{Base, Follow, LastName, Name, Resolved};
use crate::sync::{Arc, Ordering};
use cuesta_format::{FileKind, InodeNumber, InodeRecord, LINKS_MAX, Operation};

/// The depth up to which a directory's ancestors are followed.
const DEPTH_MAX: u32 = 1 << 20;

/// The two ends of a rename, resolved.
struct Move<'a> {
    from: &'a Arc<Inode>,
    from_name: &'a Name,
    to: &'a Arc<Inode>,
    to_name: &'a Name,
    inode: &'a Arc<Inode>,
    is_directory: bool,
    replaced: Option<&'a Arc<Inode>>,
    replaced_is_directory: bool,
    exchange: bool,
}

impl Client {
    /// `rename` and `renameat2`.
    pub fn rename(
        &self,
        credentials: &Credentials,
        (old_base, old_path): (Base<'_>, &[u8]),
        (new_base, new_path): (Base<'_>, &[u8]),
        flags: RenameFlags,
    ) -> Result<(), Error> {
        if flags.no_replace && flags.exchange {
            return Err(Error::Invalid);
        }
        self.operate(|attempt| {
            let old = self.walk(credentials, old_base, old_path, Follow::Never);
            let old = old.or_else(|halt| self.found_above_root(halt))?;
            let new = self.walk_second(credentials, new_base, new_path);
            let new = new.or_else(|halt| self.found_above_root(halt))?;
            self.rename_found(attempt, credentials, &old, &new, flags)?;
            Ok(new.inode)
        })
        .and_then(|replaced| match replaced {
            Some((inode, _)) => self.release_if_closed(&inode),
            None => Ok(()),
        })
    }

    /// A path that ends in the `..` of the root. A rename refuses that name before it looks where it leads.
    fn found_above_root(&self, halt: Halt) -> Result<Resolved, Halt> {
        match halt {
            Halt::Failed(Error::Leaves { path, .. }) if is_parent(&path) => {}
            halt => return Err(halt),
        }
        let root = self.cache.get_or_insert(InodeNumber::ROOT);
        Ok(Resolved { parent: root, last: LastName::DotDot, inode: None, slash: true })
    }

    fn rename_found(
        &self,
        attempt: &mut Attempt<'_>,
        credentials: &Credentials,
        old: &Resolved,
        new: &Resolved,
        flags: RenameFlags,
    ) -> Result<(), Halt> {
        let (from_name, to_name) = match (&old.last, &new.last) {
            (LastName::Dot | LastName::DotDot, _) => return Err(Error::Busy.into()),
            (_, LastName::Dot | LastName::DotDot) if flags.no_replace => return Err(Error::Exists.into()),
            (_, LastName::Dot | LastName::DotDot) => return Err(Error::Busy.into()),
            (LastName::TooLong, _) => return Err(Error::NameTooLong.into()),
            (LastName::Name(_), LastName::TooLong) if old.inode.is_none() => {
                return Err(Error::NotFound.into());
            }
            (LastName::Name(_), LastName::TooLong) => return Err(Error::NameTooLong.into()),
            (LastName::Name(from_name), LastName::Name(to_name)) => (from_name, to_name),
        };
        let (inode, kind) = old.inode.as_ref().ok_or(Error::NotFound)?;
        let is_directory = *kind == FileKind::Directory;
        if flags.no_replace && new.inode.is_some() {
            return Err(Error::Exists.into());
        }
        if flags.exchange && new.inode.is_none() {
            return Err(Error::NotFound.into());
        }
        if (old.slash || (new.slash && !flags.exchange)) && !is_directory {
            return Err(Error::NotDirectory.into());
        }
        let replaced = new.inode.as_ref();
        let replaced_is_directory = replaced.is_some_and(|(_, kind)| *kind == FileKind::Directory);
        if new.slash && flags.exchange && !replaced_is_directory {
            return Err(Error::NotDirectory.into());
        }
        let number = |(inode, kind): &(Arc<Inode>, FileKind)| (inode.number, *kind);
        let refer = Refer {
            from: Some(&old.parent),
            inode: (inode.number, *kind),
            to: &new.parent,
            replaced: replaced.map(number),
            moves: true,
            exchanges: flags.exchange,
        };
        self.check_may_refer(credentials, &refer)?;
        let moving = Move {
            from: &old.parent,
            from_name,
            to: &new.parent,
            to_name,
            inode,
            is_directory,
            replaced: replaced.map(|(inode, _)| inode),
            replaced_is_directory,
            exchange: flags.exchange,
        };
        if (is_directory || replaced_is_directory) && old.parent.number != new.parent.number {
            let _moving = self.moving.lock();
            self.check_no_cycle(&moving)?;
            return self.rename_locked(attempt, credentials, &moving);
        }
        self.rename_locked(attempt, credentials, &moving)
    }

    /// A directory must not move below itself. `moving` is held, so the tree above stands still.
    fn check_no_cycle(&self, moving: &Move<'_>) -> Result<(), Halt> {
        if self.is_above(moving.inode.number, moving.to)? {
            return Err(Error::Invalid.into());
        }
        if let Some(replaced) = moving.replaced
            && self.is_above(replaced.number, moving.from)?
        {
            return Err(if moving.exchange { Error::Invalid } else { Error::NotEmpty }.into());
        }
        Ok(())
    }

    /// Whether `above` is `directory` or one of its ancestors.
    fn is_above(&self, above: InodeNumber, directory: &Arc<Inode>) -> Result<bool, Halt> {
        let mut at = Arc::clone(directory);
        for _ in 0..DEPTH_MAX {
            if at.number == above {
                return Ok(true);
            }
            if at.number == InodeNumber::ROOT {
                return Ok(false);
            }
            let state = self.reading(&at)?;
            let parent = self.directory_above(&state)?;
            drop(state);
            if parent.number == at.number {
                return Err(Error::NotFound.into());
            }
            at = parent;
        }
        Err(Error::Daemon("a directory lies in itself".into()).into())
    }

    fn rename_locked(
        &self,
        attempt: &mut Attempt<'_>,
        credentials: &Credentials,
        moving: &Move<'_>,
    ) -> Result<(), Halt> {
        let &Move { from, from_name, to, to_name, inode, is_directory, replaced, exchange, .. } = moving;
        let replaced_number = replaced.map_or(InodeNumber::NONE, |inode| inode.number);
        let operation = |orphan| Operation::Rename {
            parent: from.number,
            name: from_name,
            new_parent: to.number,
            new_name: to_name,
            inode: inode.number,
            replaced: replaced_number,
            orphan,
            exchange,
        };
        attempt.prepare_effect(operation(false).body_bytes(), 0)?;
        let mut locked = self.lock_all([Some(from), Some(to), Some(inode), replaced])?;
        let (from_record, from_checked) = {
            let state = locked.of(from)?;
            if !name_stands_for(state, from_name, inode.number) {
                return Err(Halt::Again);
            }
            (state.record, state.check(credentials, WRITE | EXECUTE))
        };
        let (to_record, to_checked) = {
            let state = locked.of(to)?;
            if state.is_unlinked() {
                return Err(Error::NotFound.into());
            }
            let stands = match replaced {
                Some(replaced) => name_stands_for(state, to_name, replaced.number),
                None => !matches!(name_state(state, to_name, self.session.retired()), NameState::Present(_)),
            };
            if !stands {
                return Err(Halt::Again);
            }
            (state.record, state.check(credentials, WRITE | EXECUTE))
        };
        if replaced_number == inode.number {
            // Both names stand for the same inode. POSIX then does nothing, whatever the permissions are.
            return Ok(());
        }
        let (record, checked) = checked_to_move(credentials, locked.of(inode)?);
        from_checked?;
        credentials.check_sticky(&from_record, &record)?;
        let kind = record.kind();
        let (replaced_record, replaced_checked) = match replaced {
            Some(replaced) => {
                let (record, checked) = checked_to_move(credentials, locked.of(replaced)?);
                (Some(record), checked)
            }
            None => (None, Ok(())),
        };
        to_checked?;
        if let Some(replaced) = replaced_record {
            credentials.check_sticky(&to_record, &replaced)?;
            match (is_directory, moving.replaced_is_directory) {
                (true, false) if !exchange => return Err(Error::NotDirectory.into()),
                (false, true) if !exchange => return Err(Error::IsDirectory.into()),
                _ => {}
            }
        }
        if from.number != to.number {
            // A directory's quota counts everything below the directory. A program that moves a file across
            // copies it.
            if from_record.tree != to_record.tree {
                return Err(Error::CrossDevice.into());
            }
            checked?;
            if exchange {
                replaced_checked?;
            }
            let (lost, won) = link_moves(moving);
            if won > 0 && to_record.links >= LINKS_MAX || lost > 0 && from_record.links >= LINKS_MAX {
                return Err(Error::LinkLimit.into());
            }
        }
        let mut orphan = false;
        if let Some(replaced) = replaced
            && !exchange
        {
            check_empty(locked.of(replaced)?)?;
            orphan = replaced.opens.load(Ordering::SeqCst) > 0;
        }
        let replaced_kind = replaced_record.map_or(FileKind::File, |record| record.kind());
        let appended = attempt.append(&operation(orphan))?;

        let state = locked.of(inode)?;
        state.record.changed = attempt.now;
        state.logged = appended.end;
        if is_directory {
            state.record.parent = to.number;
        }
        if let Some(replaced) = replaced {
            let state = locked.of(replaced)?;
            if exchange {
                state.record.changed = attempt.now;
                state.logged = appended.end;
                if moving.replaced_is_directory {
                    state.record.parent = from.number;
                }
            } else {
                self.drop_name(replaced, state, is_directory, orphan, attempt, appended.end);
            }
        }
        let (lost, won) = link_moves(moving);
        let state = locked.of(from)?;
        state.touch_content(attempt.now);
        state.logged = appended.end;
        state.record.links = state.record.links.saturating_add_signed(lost);
        if !exchange {
            state.record.size = state.record.size.saturating_sub(1);
        }
        if let Some(content) = state.directory_mut() {
            if exchange {
                content.put(from_name, NameTarget { inode: replaced_number, kind: replaced_kind });
            } else {
                content.take(from_name, appended.position, self.session.retired());
            }
        }
        let state = locked.of(to)?;
        state.touch_content(attempt.now);
        state.logged = appended.end;
        state.record.links = state.record.links.saturating_add_signed(won);
        if replaced.is_none() {
            state.record.size += 1;
        }
        if let Some(content) = state.directory_mut() {
            content.put(to_name, NameTarget { inode: inode.number, kind });
        }
        Ok(())
    }
}

/// An inode's record, and whether it may move to another directory. A directory must be writable for that,
/// because its `..` changes.
fn checked_to_move(credentials: &Credentials, state: &State) -> (InodeRecord, Result<(), Halt>) {
    let is_directory = state.kind() == FileKind::Directory;
    (state.record, if is_directory { state.check(credentials, WRITE) } else { Ok(()) })
}

/// How the link counts of the old and the new parent change: the `..` of each sub-directory is a link.
fn link_moves(moving: &Move<'_>) -> (i32, i32) {
    let moved = i32::from(moving.is_directory);
    let other = i32::from(moving.replaced_is_directory);
    if moving.exchange { (other - moved, moved - other) } else { (-moved, moved - other) }
}

/// Whether a path that leaves the store ends there.
fn is_parent(path: &[u8]) -> bool {
    path.strip_prefix(b"..").is_some_and(|behind| behind.iter().all(|&byte| byte == b'/'))
}
