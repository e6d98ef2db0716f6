//! The processor's answers to `cpuid`, in place of the instruction: in a virtual machine each is an exit, and a
//! dynamic loader asks some forty times as it starts.
//!
//! ```text
//!   a site's stub: moved instructions | call routine | moved instructions | jump back
//!   routine: looks for the question in the table behind it; asks the processor if it is not there
//!   table: question (leaf, mask of the subleaf, subleaf), answer (eax, ebx, ecx, edx), 0
//! ```
//!
//! Nothing but the registers that `cpuid` writes is changed: no flags, and nothing below the stack's red zone.

use core::arch::global_asm;

use iced_x86::Code;

use crate::arch::x86_64::stub::{displacement, shift_displacements};
use crate::arch::x86_64::sweep::sweep_for;
use crate::patch::Site;

const QUESTION_BYTES: usize = 32;
/// No processor has this leaf.
const END: u32 = u32::MAX;
const JUMP_NEAR: u8 = 0xe9;
const CALL_NEAR: u8 = 0xe8;
const TRAP: u8 = 0xcc;
/// `lea rsp, [rsp - 128]` and back.
const BELOW_RED_ZONE: [u8; 5] = [0x48, 0x8d, 0x64, 0x24, 0x80];
const ABOVE_RED_ZONE: [u8; 8] = [0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0];
const CPUID_BYTES: usize = 2;
/// Leaves whose answer does not depend on a subleaf.
const LEAVES: [u32; 11] = [
    0,
    1,
    2,
    0x19,
    0x8000_0000,
    0x8000_0001,
    0x8000_0005,
    0x8000_0006,
    0x8000_0007,
    0x8000_0008,
    0x8000_001e,
];
/// Leaves with how many subleaves are asked for.
const LEAVES_WITH_SUBLEAVES: [(u32, u32); 6] =
    [(4, 5), (7, 2), (0xb, 2), (0xd, 9), (0x14, 2), (0x8000_001d, 5)];

global_asm!(
    ".pushsection .rodata.cuesta_answers, \"a\", @progbits",
    ".globl cuesta_answers",
    ".hidden cuesta_answers",
    ".globl cuesta_answers_end",
    ".hidden cuesta_answers_end",
    "cuesta_answers:",
    "  pushfq",
    "  push r8",
    "  push r9",
    "  lea r8, [rip + cuesta_answers_end]",
    "2:",
    "  cmp dword ptr [r8], -1",
    "  je 4f",
    "  cmp eax, dword ptr [r8]",
    "  jne 3f",
    "  mov r9d, ecx",
    "  and r9d, dword ptr [r8 + 4]",
    "  cmp r9d, dword ptr [r8 + 8]",
    "  je 5f",
    "3:",
    "  add r8, {question_bytes}",
    "  jmp 2b",
    "4:",
    "  cpuid",
    "  jmp 6f",
    "5:",
    "  mov eax, dword ptr [r8 + 12]",
    "  mov ebx, dword ptr [r8 + 16]",
    "  mov ecx, dword ptr [r8 + 20]",
    "  mov edx, dword ptr [r8 + 24]",
    "6:",
    "  pop r9",
    "  pop r8",
    "  popfq",
    "  ret",
    "cuesta_answers_end:",
    ".popsection",
    question_bytes = const QUESTION_BYTES,
);

unsafe extern "C" {
    static cuesta_answers: u8;
    static cuesta_answers_end: u8;
}

/// Where `code`, at `address`, asks the processor; `starts` are the addresses of functions, sorted.
pub fn sweep_questions(code: &[u8], address: u64, starts: &[u64]) -> Vec<Site> {
    sweep_for(Code::Cpuid, code, address, starts).0
}

/// The routine with this processor's answers.
pub fn routine() -> Vec<u8> {
    // SAFETY: both labels lie in one read-only section of this library, in this order.
    let mut bytes = unsafe {
        let start = &raw const cuesta_answers;
        core::slice::from_raw_parts(start, (&raw const cuesta_answers_end) as usize - start as usize)
    }
    .to_vec();
    let mut note = |leaf: u32, mask: u32, subleaf: u32| {
        let answer = core::arch::x86_64::__cpuid_count(leaf, subleaf);
        for word in [leaf, mask, subleaf, answer.eax, answer.ebx, answer.ecx, answer.edx, 0] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
    };
    LEAVES.into_iter().for_each(|leaf| note(leaf, 0, 0));
    for (leaf, subleaves) in LEAVES_WITH_SUBLEAVES {
        (0..subleaves).for_each(|subleaf| note(leaf, u32::MAX, subleaf));
    }
    bytes.extend_from_slice(&END.to_le_bytes());
    bytes
}

/// The stub for `site`, to be placed at `at`, and the jump to it that takes the place of the site's bytes, which
/// are `original` and stand at `start`.
pub fn ask_routine(
    site: &Site,
    original: &[u8],
    start: usize,
    at: usize,
    routine: usize,
) -> (Vec<u8>, Vec<u8>) {
    let asks = usize::from(site.syscall);
    let mut stub = original[..asks].to_vec();
    shift_displacements(&mut stub, site, 0..asks, start.wrapping_sub(at));
    stub.extend_from_slice(&BELOW_RED_ZONE);
    stub.push(CALL_NEAR);
    stub.extend_from_slice(&displacement(at + stub.len() + 4, routine));
    stub.extend_from_slice(&ABOVE_RED_ZONE);
    let behind = asks + CPUID_BYTES;
    let moved = (start + behind).wrapping_sub(at + stub.len());
    let mut tail = original[behind..].to_vec();
    shift_displacements(&mut tail, site, behind..original.len(), moved);
    stub.append(&mut tail);
    stub.push(JUMP_NEAR);
    stub.extend_from_slice(&displacement(at + stub.len() + 4, start + original.len()));
    let mut jump = vec![JUMP_NEAR];
    jump.extend_from_slice(&displacement(start + 5, at));
    jump.resize(original.len(), TRAP);
    (stub, jump)
}
