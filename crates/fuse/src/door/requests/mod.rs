//! The requests, by what they are about. Each is one call of LibFS.
//!
//! | file | idea |
//! |---|---|
//! | `attributes.rs` | attributes and extended attributes, and totals of the store |
//! | `contents.rs` | open files: opening, reading, writing, closing |
//! | `inherited.rs` | files that programs of the other door hand on |
//! | `listings.rs` | directories that are read |
//! | `locks.rs` | `flock` and record locks |
//! | `names.rs` | names: looked up, made, moved, taken away |
//!
//! Requests do not know each other. They share the state of the door.

mod attributes;
mod contents;
mod inherited;
mod listings;
mod locks;
mod names;
