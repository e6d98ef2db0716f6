//! Power cuts: programs work on a store in optimistic mode, the power of its disk goes, and the campaign checks the rest.
//!
//! The disk is a file of a FUSE file system of our own, with a loop device and an ext4 above it. So the campaign sees every
//! write and every flush. A cut keeps all that was flushed and a drawn part of the rest: nothing, everything, a prefix, some
//! writes, or some sectors of them. Then everything is killed, the disk is mounted anew, and recovery runs as it does in
//! another boot.
//!
//! At work are two processes that take turns and tell each other by pipes, SQLite with one or the other journal, on some stores
//! PostgreSQL, in some rounds a session in pessimistic mode, and one that calls dsync. In some rounds the turns, SQLite and dsync come
//! by a mount. All say of each record when it began and returned. The cut takes effect at a moment that the disk notes, on the
//! same clock. So [`records`] can decide which records must be there.
//!
//! | file | idea |
//! |---|---|
//! | [`image`] | the bytes of a disk with a volatile cache |
//! | [`disk`] | that disk, as a file of a FUSE file system |
//! | `machine` | the ext4, the store on it, and all that starts and ends with the power |
//! | `postgres` | a server of PostgreSQL on the store |
//! | `jobs/` | the programs at work, as scripts |
//! | [`records`] | the records that they told of, and those that must be there |
//! | [`campaign`] | rounds: look, work, cut |
//!
//! The seed determines the work and the moments of cuts, as far as the machine's timing lets it.

pub mod campaign;
pub mod disk;
pub mod image;
mod machine;
mod postgres;
pub mod records;
