//! The model's access control lists. There is one caller, root, so they decide nothing; but they and modes change each other,
//! and what is made in a directory starts with its default list.

use super::lists::Lists;
use super::{Body, Inode, InodeNumber, Model};
use crate::operations::lists::{Entry, Whom, list_name, list_value};
use crate::operations::operation::{Extended, Outcome, PathText};
use rustix::io::Errno;

/// Which list an extended attribute is: whether the default one.
pub(super) fn list_of(name: &PathText) -> Option<bool> {
    [false, true].into_iter().find(|default| list_name(*default) == *name)
}

impl Model {
    pub(super) fn set_list(
        &mut self,
        number: InodeNumber,
        default: bool,
        list: &[Entry],
    ) -> Result<Outcome, Errno> {
        let is_directory = self.is_directory(number);
        let inode = self.inode_mut(number);
        if matches!(inode.body, Body::Symlink(_)) {
            return Err(Errno::OPNOTSUPP);
        }
        if default && !is_directory {
            return if list.is_empty() { Ok(Outcome::Done) } else { Err(Errno::ACCESS) };
        }
        if !list.is_empty() && !is_sound(list) {
            return Err(Errno::INVAL);
        }
        if default {
            inode.lists.default = list.to_vec();
            return Ok(Outcome::Done);
        }
        inode.lists.access = list.to_vec();
        if !list.is_empty() {
            inode.mode = inode.mode & !0o777 | mode_of(list);
            if is_plain(list) {
                inode.lists.access.clear();
            }
        }
        Ok(Outcome::Done)
    }
}

impl Inode {
    /// Its mode was set: its list follows.
    pub(super) fn remask(&mut self) {
        let (mode, class) = (self.mode, class_of_group(&self.lists.access));
        for entry in &mut self.lists.access {
            match entry.whom {
                Whom::Owner => entry.permissions = mode >> 6 & 7,
                Whom::Others => entry.permissions = mode & 7,
                whom if whom == class => entry.permissions = mode >> 3 & 7,
                _ => {}
            }
        }
    }

    /// It was made in a directory that has these lists.
    pub(super) fn inherit_lists(&mut self, above: &Lists) {
        if above.default.is_empty() || matches!(self.body, Body::Symlink(_)) {
            return;
        }
        self.mode &= !0o777 | mode_of(&above.default);
        if !is_plain(&above.default) {
            self.lists.access.clone_from(&above.default);
            self.remask();
        }
        if matches!(self.body, Body::Directory(_)) {
            self.lists.default.clone_from(&above.default);
        }
    }

    /// All its extended attributes, its lists among them.
    pub(crate) fn all_extended(&self) -> Extended {
        let mut all = self.extended.clone();
        for (default, list) in [(false, &self.lists.access), (true, &self.lists.default)] {
            if !list.is_empty() {
                all.insert(list_name(default), list_value(list));
            }
        }
        all
    }
}

/// Whether it has an entry for owner, group and others each, at most one mask (and that if a user or group is named), in order.
fn is_sound(list: &[Entry]) -> bool {
    let place = |entry: &Entry| match entry.whom {
        Whom::Owner => 0,
        Whom::User(_) => 1,
        Whom::OwningGroup => 2,
        Whom::Group(_) => 3,
        Whom::Mask => 4,
        Whom::Others => 5,
    };
    let count = |at: u32| list.iter().filter(|entry| place(entry) == at).count();
    let is_named = count(1) + count(3) > 0;
    list.is_sorted_by_key(place)
        && [0, 2, 5].into_iter().all(|at| count(at) == 1)
        && (usize::from(is_named)..=1).contains(&count(4))
        && list.iter().all(|entry| entry.permissions <= 7)
}

fn is_plain(list: &[Entry]) -> bool {
    list.len() == 3
}

fn class_of_group(list: &[Entry]) -> Whom {
    if list.iter().any(|entry| entry.whom == Whom::Mask) { Whom::Mask } else { Whom::OwningGroup }
}

fn mode_of(list: &[Entry]) -> u32 {
    let of = |whom| list.iter().find(|entry| entry.whom == whom).map_or(0, |entry| entry.permissions);
    of(Whom::Owner) << 6 | of(class_of_group(list)) << 3 | of(Whom::Others)
}
