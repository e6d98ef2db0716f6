//! The log's space and its durability. The appender itself is `cuesta-oplog`; entries are appended in
//! [`crate::client::attempt`].
//!
//! | file | idea |
//! |---|---|
//! | `cost` | blocks that an entry may cost, at worst |
//! | `space` | making room for the next entry |
//! | `digests` | asking SharedFS for a digest |
//! | `retire`, `retire_round` | letting go of digested log space, in bounded steps: the steps, and how far they are |
//! | `durability` | `fsync` and its like |
//! | `commit_file` | on a disk: writing the log past the page cache |
//! | `windows`, `arena_file` | blocks that large writes go to, and the files that these lie in |
//! | `write_back` | on a disk: few of these blocks wait to be written |
//! | `epochs`, `epoch_state` | in optimistic mode, the epoch that the session works in |
//!
//! Nothing here resolves a path or checks a permission.

pub(crate) mod arena_file;
pub(crate) mod commit_file;
pub(crate) mod cost;
pub(crate) mod digests;
pub(crate) mod durability;
pub(crate) mod epoch_state;
pub(crate) mod epochs;
pub(crate) mod retire;
pub(crate) mod retire_round;
pub(crate) mod space;
pub(crate) mod windows;
pub(crate) mod write_back;
