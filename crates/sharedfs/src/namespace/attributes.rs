//! Applying what changes attributes: those of `stat`, extended ones, and access control lists.

use super::applied::Applied;
use super::lookup::Lookup;
use super::rejection::{Rejection, Stop};
use super::view::View;
use cuesta_format::access_list::{ACCESS_LIST, DEFAULT_LIST, is_list, is_plain};
use cuesta_format::operation::Attributes;
use cuesta_format::{EXTENDED_BYTES_MAX, FileKind, InodeNumber, Timestamp};

const PERMISSION_BITS: u32 = 0o7777;

impl<L: Lookup> Applied<'_, L> {
    pub(super) fn set_attributes(
        &self,
        view: &mut View,
        inode: InodeNumber,
        attributes: Attributes,
        now: Timestamp,
    ) -> Result<(), Stop> {
        let at = self.existing(view, inode)?;
        let record = &mut view.change(at).record;
        if let Some(mode) = attributes.mode {
            record.mode = (record.mode & !PERMISSION_BITS) | (mode & PERMISSION_BITS);
        }
        record.uid = attributes.uid.unwrap_or(record.uid);
        record.gid = attributes.gid.unwrap_or(record.gid);
        record.accessed = attributes.accessed.unwrap_or(record.accessed);
        record.modified = attributes.modified.unwrap_or(record.modified);
        record.changed = now;
        Ok(())
    }

    /// Sets an extended attribute, or takes it away: one that is not there stays away.
    pub(super) fn set_extended(
        &self,
        view: &mut View,
        inode: InodeNumber,
        name: &[u8],
        value: Option<&[u8]>,
        now: Timestamp,
    ) -> Result<(), Stop> {
        let at = self.existing(view, inode)?;
        let is_default = name == DEFAULT_LIST;
        if is_default && view.node(at).record.kind() != FileKind::Directory {
            return Err(Rejection::Kind(inode).into());
        }
        // An access list goes with the mode.
        if name == ACCESS_LIST || is_default && value.is_some_and(|list| !is_list(list)) {
            return Err(Rejection::List(inode).into());
        }
        self.put_extended(view, at, name, value)?;
        view.change(at).record.changed = now;
        Ok(())
    }

    pub(super) fn set_access_list(
        &self,
        view: &mut View,
        inode: InodeNumber,
        mode: u32,
        list: &[u8],
        now: Timestamp,
    ) -> Result<(), Stop> {
        let at = self.existing(view, inode)?;
        check_list(inode, list)?;
        if view.node(at).record.kind() == FileKind::Symlink {
            return Err(Rejection::Kind(inode).into());
        }
        self.put_extended(view, at, ACCESS_LIST, (!list.is_empty()).then_some(list))?;
        let record = &mut view.change(at).record;
        record.mode = (record.mode & !PERMISSION_BITS) | (mode & PERMISSION_BITS);
        record.changed = now;
        Ok(())
    }

    fn put_extended(&self, view: &mut View, at: u32, name: &[u8], value: Option<&[u8]>) -> Result<(), Stop> {
        let attribute = view.extended(self.store, self.batch, at, name)?;
        let freed = view.extended.get(attribute).bytes();
        let taken = value.map_or(0, |value| (name.len() + value.len()) as u32);
        let bytes = view.node(at).record.extended.saturating_sub(freed) + taken;
        if bytes > EXTENDED_BYTES_MAX {
            return Err(Rejection::Extended(view.node(at).record.inode).into());
        }
        view.extended.set(self.batch, attribute, value);
        let record = &mut view.change(at).record;
        record.extended = bytes;
        match name {
            ACCESS_LIST => record.access_list = value.is_some(),
            DEFAULT_LIST => record.default_list = value.is_some(),
            _ => {}
        }
        Ok(())
    }

    /// A new inode takes over its directory's default list.
    pub(super) fn hand_down(&self, view: &mut View, at: u32, list: &[u8]) -> Result<(), Stop> {
        if list.is_empty() {
            return Ok(());
        }
        if !is_plain(list) {
            self.put_extended(view, at, ACCESS_LIST, Some(list))?;
        }
        if view.node(at).record.kind() == FileKind::Directory {
            self.put_extended(view, at, DEFAULT_LIST, Some(list))?;
        }
        Ok(())
    }
}

/// A list that is not empty must be one.
pub(super) fn check_list(inode: InodeNumber, list: &[u8]) -> Result<(), Rejection> {
    if list.is_empty() || is_list(list) { Ok(()) } else { Err(Rejection::List(inode)) }
}
