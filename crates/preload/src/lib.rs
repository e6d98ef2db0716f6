//! The preload door: an unmodified program's file system calls, served in its own process.
//!
//! Loaded by `LD_PRELOAD`; `cuesta run` sets
//!
//! | variable | meaning |
//! |---|---|
//! | `CUESTA_SOCKET` | the daemon's socket; without it the library does nothing |
//! | `CUESTA_AT` | the prefix that is the store, default `/cuesta` |
//! | `CUESTA_MOUNTED` | the device number of the mount at that prefix, if there is one |
//! | `CUESTA_DEVICE` | what `stat` shows as the store's device: of its mount, wherever that is, or its own |
//! | `CUESTA_TABLE` | what the program before exec left (see `inheritance`) |
//! | `CUESTA_DOCTOR` | where calls are counted by what became of them (see `counting`) |
//! | `CUESTA_PATCH` | `all` patches every site, for tests of the patcher; `report` says what was done |
//!
//! `arch` knows the processor, `patch` rewrites the C library family, `interpose` replaces its hottest
//! symbols; both lead to `door`, which asks `calls`, the system call table. No file system logic lives
//! here: `libfs` has it.

pub mod arch;
mod at_once;
mod attaching;
mod authority;
mod becoming;
pub mod calls;
pub mod cells;
mod confinement;
mod counting;
mod credentials;
pub mod descriptors;
pub mod door;
mod environment;
mod errno;
pub mod filter;
mod first_calls;
mod gate;
pub mod inheritance;
pub mod interpose;
mod later;
mod link_maps;
mod memory;
mod memory_calls;
mod numbers;
pub mod open_file;
mod passing;
pub mod patch;
pub mod process;
mod proxy;
mod record_locks;
mod references;
mod sanitizers;
pub mod signals;
mod stacks;
pub mod start;
mod store;
pub mod thread;
mod umask;
pub mod user_memory;
mod way;
pub mod working_directory;

#[global_allocator]
static ALLOCATOR: memory::Allocator = memory::Allocator;

/// Writes one line to standard error, past the application's buffers.
pub(crate) fn report(message: std::fmt::Arguments<'_>) {
    let line = format!("cuesta: {message}\n");
    let of_store = descriptors::pin(libc::STDERR_FILENO).and_then(|pin| {
        let client = process::attached()?;
        pin.with_offset(|file| Ok(client.write(file, &[line.as_bytes().into()])?)).ok()
    });
    if of_store.is_none() {
        write_to_kernels(&line);
    }
}

/// The same in the middle of an operation, which may hold what a write to the store would wait for: nothing is written there.
pub(crate) fn report_inside(message: std::fmt::Arguments<'_>) {
    if descriptors::pin(libc::STDERR_FILENO).is_none() {
        write_to_kernels(&format!("cuesta: {message}\n"));
    }
}

fn write_to_kernels(line: &str) {
    // SAFETY: writes bytes of ours to a descriptor; if it is closed the line is lost.
    unsafe { arch::syscall(libc::SYS_write as usize, [2, line.as_ptr() as usize, line.len(), 0, 0, 0]) };
}
