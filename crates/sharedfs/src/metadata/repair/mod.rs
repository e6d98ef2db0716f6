//! The rest of a damaged metadata store.
//!
//! | file | idea |
//! |---|---|
//! | `sound_part` | a store whose journal has a flaw: the commits before that |
//! | `salvage` | a store whose pages are damaged in every copy: what can be read of it |
//!
//! No file here decides whether a repair may lose something: the checker does.

mod salvage;
mod sound_part;

pub use sound_part::SoundPart;
