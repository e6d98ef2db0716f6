//! A family of processes that make calls in turns: they fork, spawn and exec each other, pass descriptors on, and
//! what each is told is written down.
//!
//! The same seed gives the same family, so its record on a file system of the kernel's and its record under
//! `cuesta run` must be the same, line by line: results, errors, descriptors' numbers, and the tree in the end.
//!
//! The [`conductor`] decides who does what next ([`step`]) and tells them on pipes made before any of them existed; a
//! [`member`] does what it is told by plain libc calls and answers. One at a time, so nothing depends on the scheduler.

mod calls;
pub mod conductor;
pub mod member;
pub mod step;

/// How many members there are at most at once.
pub const MEMBERS: usize = 4;

/// Descriptors from here on are the family's own: no step touches them.
const OWN_DESCRIPTORS: i32 = 100;

/// Where member `member` reads what to do.
fn orders(member: usize) -> i32 {
    OWN_DESCRIPTORS + 2 * member as i32
}

/// Where the conductor writes it.
fn orders_sender(member: usize) -> i32 {
    orders(member) + 1
}

/// Where the conductor reads answers.
const ANSWERS: i32 = OWN_DESCRIPTORS + 2 * MEMBERS as i32;
/// Where members write them.
const ANSWERS_SENDER: i32 = ANSWERS + 1;
