//! Making processes and executing programs.
//!
//! | file | what it has |
//! |---|---|
//! | `program` | `fork` and `exec` |
//! | `program_file` | the file that an exec names |
//! | `variables` | the environment of the next program |
//! | `exec_image` | what the kernel reads during an exec |
//! | `copies` | copies of programs that lie in the store |
//! | `program_copy` | one copy, for one exec |
//! | `kept_file` | a file that this process keeps open |
//! | `memory_file` | sealed memory files |
//! | `needed` | libraries of the store that a program needs |
//! | `library_search` | where the loader would find a library |
//! | `loaders` | the dynamic loader that programs of the store get |
//! | `running` | which programs of the store run |
//!
//! This room does not know what the next program inherits: [`crate::process::inheritance`] does.

pub(crate) mod copies;
pub(crate) mod exec_image;
pub(crate) mod kept_file;
pub(crate) mod library_search;
pub(crate) mod loaders;
pub(crate) mod memory_file;
pub(crate) mod needed;
pub(crate) mod program;
pub(crate) mod program_copy;
pub(crate) mod program_file;
pub(crate) mod running;
pub(crate) mod variables;
