//! The instruments that keep Cuesta honest: a reference model, a crash explorer and kill tests.
//!
//! * [`model`] says what a POSIX file system is; [`tree`] is what any file system shows, for
//!   comparing; [`operation`] and [`generate`] are what is done to them.
//! * [`posix`] does the same operations by plain libc calls ([`visitor`]: in a root of its own); [`world`] does them on SharedFS and
//!   LibFS in this process.
//! * `explorer` (feature `record`) rebuilds what a store may look like after a crash at every persist
//!   point of a recorded run, has it recovered, and compares it with the model.
//! * [`family`] has processes that fork, spawn and exec make calls in turns, to compare Cuesta with the kernel.
//! * [`kill`] kills the real programs and checks the store from outside.
//! * [`linearizability`] has processes work at once and checks that each call took effect at one instant.
//! * [`power`] cuts the power of the disk below a store in optimistic mode.
//! * [`damage`] changes files of a store behind its back, and looks whether that is healed or told.
//! * [`door_fuzz`] makes random system calls under the preload door and on a disk, and compares.
//! * [`doors`]: by which of the two doors programs of a campaign come to the store.
//! * [`soak`] has real programs of two users work for as long as is wished, kills anything, and reads everything again.
//!
//! Nothing here is linked into what users run.

pub mod damage;
pub mod door_fuzz;
#[cfg(feature = "record")]
pub mod explorer;
pub mod family;
pub mod kill;
pub mod linearizability;
pub mod model;
mod operations;
pub mod power;
mod programs;
pub mod soak;
pub mod world;

pub use operations::{generate, lists, operation, posix, random, sparse, tree, visitor};
pub use programs::doors;
