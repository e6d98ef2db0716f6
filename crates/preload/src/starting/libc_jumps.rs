//! Jumps to those functions of libc that the dynamic linker looks up only when they are called: see `build.rs`, which
//! writes them.

core::arch::global_asm!(include_str!(concat!(env!("OUT_DIR"), "/libc_jumps.s")));
