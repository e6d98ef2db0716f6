//! Libraries and programs, as bytes and in memory.
//!
//! | file | what it has |
//! |---|---|
//! | `elf` | an ELF file |
//! | `image` | the loaded libraries |
//! | `layout` | where stubs and jumps lie |
//! | `mark` | the mark of a whole file |
//! | `loader` | a copy of the dynamic loader that need not ask the processor |
//! | `library_list` | the dynamic loader's list of libraries |
//! | `namesake` | a library's own name for a whole file |
//!
//! This room writes nothing into this process, except the loader's notes (`namesake`).

pub(crate) mod elf;
pub(crate) mod image;
pub(crate) mod layout;
pub(crate) mod library_list;
pub(crate) mod loader;
pub(crate) mod mark;
pub(crate) mod namesake;
