//! What only the session of a mount needs.
//!
//! | file | idea |
//! |---|---|
//! | `calls` | the calls of a mount, which the session or SharedFS performs |
//! | `kernel`, `state` | what the kernel may keep of inodes and names |
//! | `revoked_directories` | policy: directories of which it keeps no name |
//! | `kernel_cache` | reads and writes that the kernel does in its own cache |
//! | `tenure` | attributes, and for how long they hold |

pub(crate) mod calls;
pub(crate) mod kernel;
pub(crate) mod kernel_cache;
pub(crate) mod revoked_directories;
pub(crate) mod state;
pub(crate) mod tenure;
