//! What only the session of a mount needs.
//!
//! | file | idea |
//! |---|---|
//! | `kernel`, `state` | what the kernel may keep of inodes and names |
//! | `taken_names` | policy: directories of which it keeps no name |
//! | `tenure` | attributes, and for how long they hold |

pub(crate) mod kernel;
pub(crate) mod state;
pub(crate) mod taken_names;
pub(crate) mod tenure;
