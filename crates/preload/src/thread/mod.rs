//! The application's threads, in which the client runs.
//!
//! | file | what it has |
//! |---|---|
//! | `layout` | what one thread keeps, laid out for the entry code |
//! | `state` | questions about it, and changes of it |
//! | `vfork_delta` | what a vfork child changed |
//! | `gate` | the gate that a fork passes |
//! | `leaving` | the thread leaves the client |
//! | `waiting` | calls that may wait long |
//! | `signals` | signals around the client |
//! | `client_stack` | the stack that the client runs on |
//! | `stacks` | stacks kept for the next thread |
//! | `sanitizers` | programs built with a sanitizer |
//!
//! This room does not know what a call does.

pub(crate) mod client_stack;
pub(crate) mod gate;
pub(crate) mod layout;
pub(crate) mod leaving;
pub(crate) mod sanitizers;
pub(crate) mod signals;
pub(crate) mod stacks;
pub(crate) mod state;
pub(crate) mod vfork_delta;
pub(crate) mod waiting;

pub use client_stack::{ensure_stack, prepare};
pub use layout::ThreadState;
pub use leaving::leave;
pub use state::{
    call_restarts, came_by_symbol, delta, end_wait, expect_guest, forget_guests, handled, has_guests,
    is_inside, is_on_client_stack, is_vforked, is_within_client, leaves_memory_behind, note_came_by_symbol,
    set_alternate_stack,
};
pub use waiting::{enter, wait};
