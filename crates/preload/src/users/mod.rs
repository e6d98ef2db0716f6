//! The users that calls are made as.
//!
//! | file | what it has |
//! |---|---|
//! | `credentials` | the credentials of a thread's calls |
//! | `thread_credentials` | what a thread was found to have |
//! | `confinement` | what the process has forbidden itself by Landlock |
//! | `ruleset` | a ruleset that it has made |
//! | `store_user` | being the store's user for a moment |
//! | `change_of_user` | becoming another user for good |
//! | `socket_folder` | the folder of the socket for other users |
//! | `connecting` | connections to SharedFS without a session |
//! | `umask` | the process's umask |
//!
//! This room does not judge: LibFS does.

pub(crate) mod change_of_user;
pub(crate) mod confinement;
pub(crate) mod connecting;
pub(crate) mod credentials;
pub(crate) mod ruleset;
pub(crate) mod socket_folder;
pub(crate) mod store_user;
pub(crate) mod thread_credentials;
pub(crate) mod umask;
