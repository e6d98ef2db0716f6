//! The calls of the store: what each of them means to LibFS.
//!
//! | file | what it has |
//! |---|---|
//! | `table` | the system call table: it leads each call to its family |
//! | `following` | calls whose paths reach the store by a link of the kernel's |
//! | `arguments` | what a call's arguments name of the store |
//! | `paths` | where a path leads, and paths that leave the store |
//! | `names` | opening, making, moving and removing names; directories |
//! | `attributes` | `stat`, extended attributes, flags |
//! | `data` | reading, writing, copying and mapping |
//! | `descriptors` | `close`, `dup`, `fcntl`, `ioctl`, locks, `poll`, sockets |
//! | `kinds` | pipes, sockets, devices and mounts, and descriptors that are no files |
//! | `programs` | `fork`, `exec`, and programs that lie in the store |
//! | `rights` | credentials and Landlock |
//!
//! One circle of `use` is left here. A symbolic link of the store may lead to one of the program's descriptors
//! (`/proc/self/fd/7`). Then `paths::crossing` makes the call again, by the table. So the families that take a path by
//! `crossing` and the table know each other. No file outside this room knows the table, except the door.

mod arguments;
pub(crate) mod attributes;
pub(crate) mod data;
pub(crate) mod descriptors;
pub(crate) mod following;
pub(crate) mod kinds;
pub(crate) mod names;
pub(crate) mod paths;
pub(crate) mod programs;
pub(crate) mod rights;
pub(crate) mod table;

pub use table::serve;
