//! Calls on names.
//!
//! | file | idea |
//! |---|---|
//! | `make` | `mkdir`, `mknod`, `symlink`, files without a name |
//! | `link` | `link` |
//! | `remove` | `unlink`, `rmdir` |
//! | `rename`, `rename_flags` | `rename` |
//! | `whiteouts` | `RENAME_WHITEOUT` |
//! | `read_link` | `readlink` |

pub(crate) mod link;
pub(crate) mod make;
pub(crate) mod read_link;
pub(crate) mod remove;
pub(crate) mod rename;
pub(crate) mod rename_flags;
pub(crate) mod whiteouts;
