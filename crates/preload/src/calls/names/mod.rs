//! Names in the store.
//!
//! | file | what it has |
//! |---|---|
//! | `opening` | `open` and `open_tree` |
//! | `open_how` | `openat2` |
//! | `opened` | what an open found |
//! | `mode` | the mode of a new file |
//! | `changing` | making, moving, linking and removing names |
//! | `two_names` | calls with two names, wherever each of them is |
//! | `directories` | listing directories, and the working directory |
//!
//! This room does not know how a path leaves the store: `paths` does.

pub(crate) mod changing;
pub(crate) mod directories;
pub(crate) mod mode;
pub(crate) mod open_how;
pub(crate) mod opened;
pub(crate) mod opening;
pub(crate) mod two_names;
