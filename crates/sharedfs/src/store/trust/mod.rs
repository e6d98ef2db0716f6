//! Checks of a store's folders, before the daemon believes a byte in them.
//!
//! | file | idea |
//! |---|---|
//! | `folder` | a folder that was opened once, and has the right owner, type, mode and link count |
//! | `trusted_store` | a store whose two folders were checked |
//! | `purpose` | what it is opened for |
//! | `removal` | what becomes of a fast tier whose store is removed |
//! | `identity` | the secret that a fast tier proves to be the store's by, and the store's device number |
//!
//! A path is only a name: another user can put something else there, for example in the place of a fast tier in shared
//! memory that a reboot took away. So each folder is opened once, checked by its descriptor, and everything in it is opened
//! relative to that descriptor. See decision 41 for each path that the programs of a store open.
//!
//! No file here reads what the folders hold, but for identities and the superblock.

mod folder;
mod identity;
mod purpose;
mod removal;
mod trusted_store;

pub use folder::{TIER_NAME, TrustError, TrustedFolder};
pub use identity::store_of;
pub use purpose::Purpose;
pub use removal::{Freed, free_tier};
pub use trusted_store::{TrustedStore, create_identity, named_tier};
