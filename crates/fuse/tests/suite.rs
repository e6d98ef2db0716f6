//! Tests of the mount and the other door, as one program: it is linked once, and its tests share the processors to the end.

mod common;

mod access_times;
mod coherence;
mod deadlock;
mod hammer;
mod kept_names;
mod lock_holders;
mod options;
mod overtaken;
mod set_id;
mod two_doors;
mod whiteouts;
