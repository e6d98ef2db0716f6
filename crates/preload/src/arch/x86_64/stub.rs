//! The stub that a patched site jumps to.
//!
//! ```text
//!   moved instructions that stood before the syscall
//!   [clone part, where the number is unknown or a clone]
//!   lea rcx, [1f]; jump to the entry, or to rcx as long as there is none
//!   1: syscall
//!   moved instructions that stood behind it
//!   jmp back
//! ```
//!
//! What differs between processes (the entry's address, the thread state's place, the flag of a fork)
//! stands in `Slots`, at a fixed distance: a stub's bytes are the same in every process. Slots that no process has
//! filled yet are zero, and then the call is made as it is.
//!
//! A call that makes a process first passes through the entry like any other, so that the parent can
//! prepare; it is never answered there. The clone part then makes the call itself, because the child may return on another stack, or on the
//! stack its suspended parent needs intact: it uses no stack at all. A child of a fork is noted in a
//! global (its copy of it), a vfork child in the thread state it shares with its parent.

use core::arch::global_asm;
use core::mem::offset_of;

use crate::arch::x86_64::entry_symbols::entry_address;
use crate::arch::x86_64::thread_place::thread_offset;
use crate::call::filter::{self, CLASS_CLONE};
use crate::patch::{Site, UNKNOWN_NUMBER};
use crate::thread::ThreadState;

/// Room one stub takes at most.
pub const STUB_BYTES: usize = 256;
/// How far a stub may lie from its site.
pub const REACH: usize = 1 << 30;

const JUMP_NEAR: u8 = 0xe9;
/// `lea rcx, [1f]`.
const LOAD_SYSCALL: [u8; 7] = [0x48, 0x8d, 0x0d, (LOAD_ENTRY.len() + 4 + GO_THERE.len()) as u8, 0, 0, 0];
/// `mov r11, [rip + …]`.
const LOAD_ENTRY: [u8; 3] = [0x4c, 0x8b, 0x1d];
/// `test r11, r11; cmovz r11, rcx; jmp r11`.
const GO_THERE: [u8; 10] = [0x4d, 0x85, 0xdb, 0x4c, 0x0f, 0x44, 0xd9, 0x41, 0xff, 0xe3];
const NOP: u8 = 0xcc;
/// Stand in the clone part for the distances to the slots.
const THREAD_PLACE: u32 = 0x1111_2223;
const FORKED_PLACE: u32 = 0x5555_6667;
const _: () = assert!(offset_of!(ThreadState, inside) + 4 == offset_of!(ThreadState, vforked));
/// Length of the sequence between the clone part and the instructions behind the syscall.
const PLAIN_BYTES: usize = LOAD_SYSCALL.len() + LOAD_ENTRY.len() + 4 + GO_THERE.len() + 2;
/// Where in that sequence the jump to the entry stands.
const ENTRY_JUMP_OFFSET: usize = LOAD_SYSCALL.len();

global_asm!(
    ".pushsection .rodata.cuesta_clone, \"a\", @progbits",
    ".globl cuesta_clone_part",
    ".hidden cuesta_clone_part",
    ".globl cuesta_clone_part_end",
    ".hidden cuesta_clone_part_end",
    "cuesta_clone_part:",
    // `.byte` and `.long` below are `mov rcx, [rip + slot]`.
    "  cmp eax, {clone3}",
    "  je 21f",
    "  lea r11d, [rax - {clone}]",
    "  cmp r11d, {vfork} - {clone}",
    "  ja 90f",
    "  cmp eax, {vfork}",
    "  je 23f",
    "  cmp eax, {fork}",
    "  je 24f",
    "  mov r11, rdi",
    "  jmp 22f",
    "21:",
    "  test rdi, rdi",
    "  jz 25f",
    "  mov r11, qword ptr [rdi]",
    "22:",
    "  test r11d, {clone_vm}",
    "  jz 24f",
    "  test r11d, {clone_vfork}",
    "  jnz 23f",
    "  test r11d, {clone_thread}",
    "  jnz 25f",
    // A process on this memory; its parent goes on.
    "  lea rcx, [rip + 25f]",
    "  jmp 90f + {entry_jump}",
    // The parent is suspended until the child is gone; a vfork within a vfork child adds nothing.
    "23:",
    "  lea rcx, [rip + 26f]",
    "  jmp 90f + {entry_jump}",
    "26:",
    "  .byte 0x48, 0x8b, 0x0d",
    "  .long {thread_place}",
    "  test rcx, rcx",
    "  jz 25f",
    "  cmp dword ptr fs:[rcx], 0",
    "  jne 25f",
    "  mov dword ptr fs:[rcx], 1",
    "  syscall",
    "  test rax, rax",
    "  jz 91f",
    // The child may have gone while inside the client.
    "  .byte 0x48, 0x8b, 0x0d",
    "  .long {thread_place}",
    "  mov qword ptr fs:[rcx - 4], 0",
    "  jmp 91f",
    "24:",
    "  lea rcx, [rip + 27f]",
    "  jmp 90f + {entry_jump}",
    "27:",
    "  syscall",
    "  test rax, rax",
    "  jnz 91f",
    "  .byte 0x48, 0x8b, 0x0d",
    "  .long {forked_place}",
    "  test rcx, rcx",
    "  jz 91f",
    "  mov dword ptr [rcx], 1",
    "  jmp 91f",
    "25:",
    "  syscall",
    "91:",
    "  jmp 90f + {plain_bytes}",
    "90:",
    "cuesta_clone_part_end:",
    ".popsection",
    clone = const libc::SYS_clone,
    clone3 = const libc::SYS_clone3,
    fork = const libc::SYS_fork,
    vfork = const libc::SYS_vfork,
    clone_vm = const libc::CLONE_VM,
    clone_vfork = const libc::CLONE_VFORK,
    clone_thread = const libc::CLONE_THREAD,
    thread_place = const THREAD_PLACE,
    forked_place = const FORKED_PLACE,
    plain_bytes = const PLAIN_BYTES,
    entry_jump = const ENTRY_JUMP_OFFSET,
);

unsafe extern "C" {
    static cuesta_clone_part: u8;
    static cuesta_clone_part_end: u8;
}

/// What stubs read.
#[derive(Debug)]
#[repr(C)]
pub struct Slots {
    entry: usize,
    thread: usize,
    forked: usize,
}

impl Slots {
    /// Those of this process. `forked` is the flag a forked child sets.
    pub fn new(forked: *const u32) -> Self {
        let thread = thread_offset().wrapping_add(offset_of!(ThreadState, vforked));
        Self { entry: entry_address(), thread, forked: forked as usize }
    }
}

/// Writes stubs and the jumps to them.
#[derive(Debug)]
pub struct Patcher {
    clone_part: &'static [u8],
    slots: usize,
}

impl Patcher {
    /// For stubs that find their [`Slots`] at the address `slots`.
    pub fn new(slots: usize) -> Self {
        // SAFETY: both labels lie in one read-only section of this library, in this order.
        let clone_part = unsafe {
            let start = &raw const cuesta_clone_part;
            core::slice::from_raw_parts(start, (&raw const cuesta_clone_part_end) as usize - start as usize)
        };
        Self { clone_part, slots }
    }

    /// The stub for `site` of the image at `base`, to be placed at `at`. `original` is the site's
    /// bytes as they are now.
    pub fn stub(&self, site: &Site, base: usize, original: &[u8], at: usize) -> Vec<u8> {
        let start = base + site.start as usize;
        let syscall = usize::from(site.syscall);
        let mut stub = Vec::with_capacity(STUB_BYTES);
        stub.extend_from_slice(&original[..syscall]);
        shift_displacements(&mut stub, site, 0..syscall, start.wrapping_sub(at));
        let may_clone =
            site.number == UNKNOWN_NUMBER || filter::class_of(i64::from(site.number)) == CLASS_CLONE;
        if may_clone {
            stub.extend_from_slice(self.clone_part);
            self.resolve(&mut stub, THREAD_PLACE, at, offset_of!(Slots, thread));
            self.resolve(&mut stub, FORKED_PLACE, at, offset_of!(Slots, forked));
        }
        stub.extend_from_slice(&LOAD_SYSCALL);
        let entry = self.slots + offset_of!(Slots, entry);
        stub.extend_from_slice(&LOAD_ENTRY);
        stub.extend_from_slice(&displacement(at + stub.len() + 4, entry));
        stub.extend_from_slice(&GO_THERE);
        stub.extend_from_slice(&[0x0f, 0x05]);
        let behind = stub.len();
        stub.extend_from_slice(&original[syscall + 2..]);
        let moved = (start + syscall + 2).wrapping_sub(at + behind);
        let mut tail = stub.split_off(behind);
        shift_tail(&mut tail, site, syscall + 2, moved);
        stub.append(&mut tail);
        let next = at + stub.len() + 5;
        stub.push(JUMP_NEAR);
        stub.extend_from_slice(&displacement(next, start + original.len()));
        stub
    }

    /// Puts the distance to a slot where `place` stands in for it.
    fn resolve(&self, stub: &mut [u8], place: u32, at: usize, slot: usize) {
        let place = place.to_le_bytes();
        for start in 0..stub.len().saturating_sub(3) {
            if stub[start..start + 4] == place {
                let distance = displacement(at + start + 4, self.slots + slot);
                stub[start..start + 4].copy_from_slice(&distance);
            }
        }
    }

    /// What replaces the site's bytes.
    pub fn jump(&self, site: &Site, base: usize, to: usize) -> Vec<u8> {
        let mut bytes = vec![JUMP_NEAR];
        bytes.extend_from_slice(&displacement(base + site.start as usize + 5, to));
        bytes.resize(usize::from(site.length), NOP);
        bytes
    }
}

pub(super) fn displacement(from: usize, to: usize) -> [u8; 4] {
    (to.wrapping_sub(from) as i32).to_le_bytes()
}

pub(super) fn shift_displacements(code: &mut [u8], site: &Site, range: core::ops::Range<usize>, by: usize) {
    for offset in site.relative.iter().map(|offset| usize::from(*offset)).filter(|offset| *offset != 0) {
        if range.contains(&offset) {
            let field = &mut code[offset - range.start..offset - range.start + 4];
            let old = i32::from_le_bytes([field[0], field[1], field[2], field[3]]);
            field.copy_from_slice(&old.wrapping_add(by as i32).to_le_bytes());
        }
    }
}

fn shift_tail(code: &mut [u8], site: &Site, from: usize, by: usize) {
    let range = from..from + code.len();
    shift_displacements(code, site, range, by);
}
