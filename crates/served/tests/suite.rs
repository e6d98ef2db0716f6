//! Tests of the service for other users, as one program.

mod common;

mod hostile;
mod limits;
mod lock_files;
mod once;
