//! Files in mapped mode, the content of which is a file of the kernel's that programs share mappings of
//! (docs/design/open-files.md).
//!
//! | file | idea |
//! |---|---|
//! | `file` | the pin that keeps a file in the mode |
//! | `mode` | entering and leaving the mode |
//! | `read_write` | reading and writing |
//! | `attributes` | size, times, durability |
//! | `allocate` | `fallocate` |
//! | `room` | the room that such files take |
//! | `kept_descriptors` | descriptors kept from call to call |
//!
//! LibFS caches none of their content: calls read, write and cut the kernel's file, and every process sees
//! the change at once.

pub(crate) mod allocate;
pub(crate) mod attributes;
pub(crate) mod file;
pub(crate) mod kept_descriptors;
pub(crate) mod mode;
pub(crate) mod read_write;
pub(crate) mod room;
