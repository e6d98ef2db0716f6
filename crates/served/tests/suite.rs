//! Tests of the service for other users, as one program.

mod common;

mod hostile;
mod hostile_rings;
mod limits;
mod lock_files;
mod once;
mod ring_endings;
mod rings;
