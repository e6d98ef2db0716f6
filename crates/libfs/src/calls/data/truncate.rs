//! `truncate` and `ftruncate`.

use crate::cache::inode::{Inode, State};
use crate::calls::data::limits::{checked_size, too_big};
use crate::client::attempt::Attempt;
use crate::client::client::Client;
use crate::client::halt::Halt;
use crate::errno::Error;
use crate::log::cost;
use crate::open_files::open_file::OpenFile;
use crate::paths::confinement::Rights;
use crate::paths::credentials::{Credentials, WRITE};
use crate::paths::path::{Base, Follow};
use crate::sharing::shipped::ShippedChange;
use cuesta_format::{FileKind, Operation};

impl Client {
    /// `truncate`.
    pub fn truncate(
        &self,
        credentials: &Credentials,
        base: Base<'_>,
        path: &[u8],
        size: i64,
    ) -> Result<(), Error> {
        let size = checked_size(size)?;
        loop {
            let loses_rights = self.operate(|attempt| {
                let found = self.walk(credentials, base, path, Follow::Always)?;
                let is_confined = self.check_confined(credentials, &found, Rights::TRUNCATE);
                let (inode, kind) = found.existing()?;
                match kind {
                    FileKind::File => {}
                    FileKind::Directory => return Err(Error::IsDirectory.into()),
                    _ => return Err(Error::Invalid.into()),
                }
                attempt.prepare_effect(0, cost::of_truncation(size))?;
                let mut state = self.changing(&inode)?;
                if state.released {
                    return Err(Halt::Again);
                }
                state.check(credentials, WRITE)?;
                self.check_not_running(&state.record)?;
                is_confined?;
                let writer = credentials.writer(&state.record);
                if state.loses_rights(writer) {
                    drop(state);
                    return Ok(Some((inode, writer)));
                }
                self.truncate_locked(attempt, &inode, &mut state, size)?;
                Ok(None)
            })?;
            match loses_rights {
                Some((inode, writer)) => self.take_rights(&inode, writer)?,
                None => return Ok(()),
            }
        }
    }

    /// Sets the size of an open file.
    pub fn truncate_open(&self, file: &OpenFile, size: i64) -> Result<(), Error> {
        file.check_not_path()?;
        file.check_writable().map_err(|_| Error::Invalid)?;
        let size = checked_size(size)?;
        if file.kind() != FileKind::File {
            return Err(Error::Invalid);
        }
        if !file.may_truncate {
            return Err(Error::Denied);
        }
        if let Some(shipped) = self.ship_change(file, ShippedChange::Truncate { size: size as i64 }) {
            return shipped;
        }
        let inode = file.inode_ref();
        loop {
            let done = self.operate(|attempt| {
                attempt.prepare_effect(0, cost::of_truncation(size))?;
                let mut state = self.changing(inode)?;
                if state.loses_rights(file.writer) {
                    return Ok(false);
                }
                self.truncate_locked(attempt, inode, &mut state, size)?;
                Ok(true)
            })?;
            if done {
                return Ok(());
            }
            self.take_rights(inode, file.writer)?;
        }
    }

    /// Appends a prepared truncation and applies it.
    pub(crate) fn truncate_locked(
        &self,
        attempt: &mut Attempt<'_>,
        inode: &Inode,
        state: &mut State,
        size: u64,
    ) -> Result<(), Halt> {
        if let Some(mapped) = state.mapped() {
            return Ok(self.truncate_mapped(mapped, size)?);
        }
        let old_size = state.record.size;
        if size > old_size {
            self.check_growth(size)?;
        }
        let appended = attempt.append(&Operation::Truncate { inode: inode.number, size })?;
        if let Some(content) = state.file_mut()
            && content.truncate(old_size, size, appended.position)
        {
            self.truncations.lock().push_back((appended.position, inode.number));
        }
        if let Some(predictions) = &mut state.predictions {
            predictions.cut(size);
        }
        state.record.size = size;
        state.touch_content(attempt.now);
        state.logged = appended.end;
        Ok(())
    }

    /// Whether a file may grow to `size`.
    pub(crate) fn check_growth(&self, size: u64) -> Result<(), Error> {
        let limit = self.file_limit();
        if size > limit { Err(too_big(limit)) } else { Ok(()) }
    }
}
