//! A differential fuzzer of the preload door: seeded sequences of system calls with usual and hostile arguments.
//!
//! Two players ([`player`]) run each sequence: one under `cuesta run`, in a directory of a store, and one in a directory of the
//! disk. Both start from the same files and descriptors ([`fixture`]) and write a transcript: each call's answer, what it
//! wrote to memory, and what changed in descriptors and files ([`snapshot`]). The campaign ([`campaign`]) compares the
//! transcripts, shrinks a sequence that differs, and prints it as a list that `door-fuzz replay` takes.
//!
//! Neither player can change anything but its own folders ([`enclosure`]).
//!
//! [`table`] says which calls there are, [`arguments`] what their arguments are drawn from, [`sequence`] is the
//! text form. [`allowed`] holds the differences that stay; `docs/door-differences.md` gives the reason for each.

pub mod allowed;
pub mod arguments;
pub mod bounds;
pub mod campaign;
pub mod enclosure;
pub mod fixture;
pub mod part;
pub mod place;
pub mod player;
pub mod players;
pub mod sequence;
pub mod snapshot;
pub mod table;
