//! The model's calls on extended attributes.

use super::access_lists::list_of;
use super::{Body, InodeNumber, Model};
use crate::operations::operation::{Operation, Outcome, PathText, SetCondition};
use rustix::io::Errno;

const NAME_BYTES_MAX: usize = 255;
const VALUE_BYTES_MAX: usize = 64 << 10;

type Result<T> = std::result::Result<T, Errno>;

impl Model {
    /// Carries out a call on extended attributes.
    pub(super) fn apply_extended(&mut self, operation: &Operation) -> Result<Outcome> {
        use Operation::*;
        match operation {
            SetExtended { path, follow, name, value, condition } => {
                check_name(name)?;
                let value = value.bytes();
                if value.len() > VALUE_BYTES_MAX {
                    return Err(Errno::TOOBIG);
                }
                let inode = self.lookup(path, *follow)?;
                self.set_extended(inode, name, value, *condition)
            }
            FsetExtended { slot, name, value } => {
                let inode = self.handle(*slot)?.inode;
                check_name(name)?;
                self.set_extended(inode, name, value.bytes(), SetCondition::Either)
            }
            RemoveExtended { path, follow, name } => {
                check_name(name)?;
                let inode = self.lookup(path, *follow)?;
                self.check_namespace(inode, name, Errno::PERM)?;
                if let Some(default) = list_of(name) {
                    return self.set_list(inode, default, &[]);
                }
                let removed = self.inode_mut(inode).extended.remove(name);
                removed.map(|_| Outcome::Done).ok_or(Errno::NODATA)
            }
            GetExtended { path, follow, name } => {
                check_name(name)?;
                let inode = self.lookup(path, *follow)?;
                self.check_namespace(inode, name, Errno::NODATA)?;
                let value = self.inodes[&inode].all_extended().remove(name);
                value.map(Outcome::Bytes).ok_or(Errno::NODATA)
            }
            ListExtended { path, follow } => Ok(self.list_extended(self.lookup(path, *follow)?)),
            FlistExtended { slot } => Ok(self.list_extended(self.handle(*slot)?.inode)),
            _ => unreachable!("other calls are served elsewhere"),
        }
    }

    fn set_extended(
        &mut self,
        inode: InodeNumber,
        name: &PathText,
        value: Vec<u8>,
        condition: SetCondition,
    ) -> Result<Outcome> {
        self.check_namespace(inode, name, Errno::PERM)?;
        let attributes = &mut self.inode_mut(inode).extended;
        match (condition, attributes.contains_key(name)) {
            (SetCondition::Create, true) => Err(Errno::EXIST),
            (SetCondition::Replace, false) => Err(Errno::NODATA),
            _ => {
                attributes.insert(name.clone(), value);
                Ok(Outcome::Done)
            }
        }
    }

    fn list_extended(&self, inode: InodeNumber) -> Outcome {
        Outcome::Names(self.inodes[&inode].all_extended().into_keys().collect())
    }

    /// Whether root finds attributes of this name on the inode at all.
    fn check_namespace(&self, inode: InodeNumber, name: &PathText, refused: Errno) -> Result<()> {
        let prefixes = [&b"user."[..], b"trusted.", b"security."];
        let namespace = prefixes.into_iter().find(|prefix| name.as_bytes().starts_with(prefix));
        match namespace {
            Some(b"user.") if matches!(self.inodes[&inode].body, Body::Symlink(_) | Body::Node { .. }) => {
                Err(refused)
            }
            Some(prefix) if prefix == name.as_bytes() => Err(Errno::INVAL),
            Some(_) => Ok(()),
            None if list_of(name).is_some() && !matches!(self.inodes[&inode].body, Body::Symlink(_)) => {
                Ok(())
            }
            None => Err(Errno::OPNOTSUPP),
        }
    }
}

fn check_name(name: &PathText) -> Result<()> {
    if (1..=NAME_BYTES_MAX).contains(&name.as_bytes().len()) { Ok(()) } else { Err(Errno::RANGE) }
}
