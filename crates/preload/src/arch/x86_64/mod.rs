//! x86-64: see `entry` for the calling sequence of a patched site, `sweep` and `sparse` for how sites are found, and
//! `stub` for what is written in their place.

mod answers;
mod context;
mod entry;
mod entry_symbols;
mod first_stack;
mod frame;
mod raw;
mod sparse;
mod stub;
mod sweep;
mod thread_place;
mod vector;

pub use answers::{ask_routine, routine, sweep_questions};
pub use context::{
    instruction_pointer, set_instruction_pointer, set_signal_mask, signal_mask, stack_pointer,
};
/// The machine that headers of programs for this processor name.
pub const ELF_MACHINE: u16 = 62;

pub use entry_symbols::{call_on_stack, filter_fault, restorer};
pub use first_stack::after_fork;
pub use frame::Frame;
pub use raw::{Handler, abort, call_handler, end_of_wait, is_waiting_call, syscall, waiting_call};
pub use sparse::sweep_sparse;
pub use stub::{Patcher, REACH, STUB_BYTES, Slots};
pub use sweep::sweep;
pub use thread_place::{thread_pointer, thread_state};
