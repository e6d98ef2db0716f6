//! Symbols that take the place of libc's for the hottest calls, so that a call of ours needs no patched site, and one that is not
//! costs a table look-up and a jump.
//!
//! | file | what it has |
//! |---|---|
//! | `descriptors` | calls on descriptors |
//! | `paths` | calls on paths |
//! | `real` | libc's own functions, and what a symbol does with a call |
//! | `look_up` | looking libc's functions up as the program starts |
//!
//! A call that is not ours goes to libc's own function: it is a cancellation point, and stays one. A call that this library makes itself,
//! as the standard library's to close a file, goes to the kernel: a thread that is cancelled cannot end there.

mod descriptors;
mod look_up;
mod paths;
mod real;

pub use look_up::look_up;
