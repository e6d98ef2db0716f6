//! Memory that files are made of: mapping it, making stores into it durable, and copying to and from the
//! application.
//!
//! This crate runs inside other people's processes: every call to the kernel goes through rustix's own
//! system-call stubs (but for [`byte_locks`]), because libc's wrappers are intercepted there, and nothing panics on what a file or an
//! application holds. Absent are the meaning of the bytes (`format`), and the rules for writers.

pub mod clock;
mod copying;
mod disk;
pub mod emulate;
mod error;
mod files;
mod memory;
pub mod planted;
pub mod recorder;
pub mod wait;

pub use copying::fault_handler::{BUS_MCEERR_AO, install_fault_handler};
pub use copying::user_copy::{Fault, UserSlice, UserSliceMut, read_c_string};
pub use copying::{persist, user_copy};
pub use cuesta_format::Medium;
pub use disk::direct::{DIRECT_BYTES, DirectWriter, Piece, open_direct};
pub use disk::discard::discard;
pub use disk::gathered::{GatherError, begin_write_back, flush_file, write_back, write_gathered};
pub use error::{AccessError, MediaError};
pub use files::create::{
    UNFINISHED_EXTENSION, create_allocated, create_sparse, create_whole, create_written, lengthen, remove,
};
pub use files::device::{alignment_of_device, device_bytes};
pub use files::{byte_locks, lock_files, mapped_files, owner_rights};
pub use memory::growable::GrowableMapping;
pub use memory::huge::HUGE_PAGE_BYTES;
pub use memory::mapping::Mapping;
pub use memory::node::Node;
pub use memory::nodes::Nodes;
pub use memory::pages::Protection;
pub use memory::shared::SharedMemory;
pub use memory::window::Window;
