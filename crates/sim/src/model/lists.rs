//! The access control lists of an inode.

use crate::operations::lists::Entry;

/// Those of an inode; no entries: it has none.
#[derive(Clone, Default)]
pub(crate) struct Lists {
    pub(super) access: Vec<Entry>,
    pub(super) default: Vec<Entry>,
}
