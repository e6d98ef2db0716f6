//! Memory that files are made of: mapping it, making stores into it durable, and copying to and from the
//! application.
//!
//! What is here runs inside other people's processes: every call to the kernel goes through rustix's own
//! system-call stubs (but for [`byte_locks`]), because libc's wrappers are intercepted there, and nothing panics on what a file or an
//! application holds. What is not here: what the bytes mean (`format`), and who may write where.

mod aio;
mod arch;
pub mod byte_locks;
mod called;
pub mod clock;
mod device;
mod direct;
pub mod emulate;
mod error;
mod fault_handler;
mod growable;
mod huge;
pub mod lock_files;
pub mod mapped_files;
mod mapping;
mod node;
pub mod owner_rights;
pub mod persist;
pub mod planted;
pub mod recorder;
mod shared;
mod unsynced;
pub mod user_copy;
mod vigil;
pub mod wait;
mod window;

pub use cuesta_format::Medium;
pub use device::{alignment_of_device, device_bytes};
pub use direct::{DIRECT_BYTES, DirectWriter, Piece, open_direct};
pub use error::{AccessError, MediaError};
pub use fault_handler::{BUS_MCEERR_AO, install_fault_handler};
pub use growable::GrowableMapping;
pub use huge::HUGE_PAGE_BYTES;
pub use mapping::{
    Mapping, Protection, UNFINISHED_EXTENSION, create_allocated, create_sparse, create_whole, create_written,
    lengthen, remove,
};
pub use node::{Node, Nodes};
pub use shared::SharedMemory;
pub use user_copy::{Fault, UserSlice, UserSliceMut, read_c_string};
pub use window::Window;
