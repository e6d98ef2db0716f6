//! Access control lists as the extended attributes that programs set.

use crate::operations::operation::PathText;
pub use cuesta_format::access_list::{Entry, Whom};

/// The name of the extended attribute that a list is.
#[must_use]
pub fn list_name(default: bool) -> PathText {
    PathText::from(if default { "system.posix_acl_default" } else { "system.posix_acl_access" })
}

/// The value of the extended attribute that a list is, as programs set it: no entries to take one away. (No bytes at all
/// do the same, but from Linux 6.2 on; before, the kernel answers EINVAL, on a mount as on ext4.)
#[must_use]
pub fn list_value(list: &[Entry]) -> Vec<u8> {
    cuesta_format::access_list::encode(list)
}
