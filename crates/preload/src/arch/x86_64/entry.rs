//! How a system call of the application enters Rust.
//!
//! A patched site jumps to its stub, which loads the address of its own `syscall` instruction into
//! rcx (free: the instruction would clobber it) and jumps to `cuesta_entry`. From there
//!
//! 1. the *filter* decides, on the number, the descriptor table and the path prefix alone, whether the
//!    call can concern us. If not, control goes straight back to the stub's `syscall`; nothing but
//!    rcx, r11 and the flags was touched. A call whose class is `NEVER` has not used the stack either.
//! 2. otherwise the general registers are saved below the red zone as a [`Frame`], the thread's own
//!    client stack is taken (unless we already are on it, or on the application's signal stack, which a
//!    further signal would overwrite), the vector state is saved there, and `cuesta_dispatch` runs.
//! 3. a frame that was served continues behind the `syscall` with the answer in rax; one that was not
//!    goes back to it, and the kernel sees exactly the call the application made.
//!
//! A call on a path that is not ours is made right here, not at the site: if the kernel finds nothing (ENOENT), a link may
//! lead to the store, and Rust looks at it once more (`calls::look_again`), with the number marked.
//!
//! The filter reads path bytes through the application's pointer. A fault there is caught by the
//! signal handler (see [`filter_fault`]) and means "not ours": the kernel then answers EFAULT.

use core::arch::{asm, global_asm};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, Ordering};

use super::frame::Frame;
use super::vector::{XSAVE_BYTES, XSAVE_MASK, learn_vector_state};
use crate::filter::{
    ACTIVE, CLASS_ACTIVE, CLASS_ALWAYS, CLASS_AT, CLASS_AT_AT, CLASS_AT_THIRD, CLASS_FD, CLASS_FD_FD,
    CLASS_FD_FIFTH, CLASS_FD_THIRD, CLASS_LEAVING, CLASS_PATH, CLASS_PATH_PATH, CLASS_PATH_SECOND, CLASSES,
    CWD_VIRTUAL, DESCRIPTORS, DEVICE_FOLDER, FIRST_BYTES, FOUND_NOTHING_BIT, HOLDS, PREFIX, PROC_FOLDER,
    TRY_KERNEL_BIT,
};
use crate::thread::ThreadState;

const FIRST_STACK_BYTES: usize = 64 * 1024;

/// Memory of a stack.
#[repr(align(64))]
struct Stack(#[allow(dead_code)] UnsafeCell<[u8; FIRST_STACK_BYTES]>);

// SAFETY: only the entry code uses it, by whoever has FIRST_STACK_TAKEN.
unsafe impl Sync for Stack {}

/// Where threads make their client stacks.
static FIRST_STACK: Stack = Stack(UnsafeCell::new([0; FIRST_STACK_BYTES]));
static FIRST_STACK_TAKEN: AtomicU32 = AtomicU32::new(0);

/// This is the child of a fork: no other thread of it makes a stack.
pub fn after_fork() {
    FIRST_STACK_TAKEN.store(0, Ordering::Release);
}

/// Called by the entry code for a thread that has no client stack.
extern "C" fn make_stack() {
    crate::thread::ensure_stack();
}

global_asm!(
    // One thread's state, in the static TLS block (initial-exec): reaching it never allocates.
    ".pushsection .tbss, \"awT\", @nobits",
    ".balign 64",
    ".globl cuesta_thread",
    ".hidden cuesta_thread",
    ".type cuesta_thread, @object",
    "cuesta_thread: .zero {thread_bytes}",
    ".size cuesta_thread, {thread_bytes}",
    ".popsection",
    "",
    ".pushsection .text.cuesta_entry, \"ax\", @progbits",
    ".globl cuesta_entry",
    ".hidden cuesta_entry",
    ".type cuesta_entry, @function",
    ".balign 64",
    "cuesta_entry:",
    "  cmp rax, 512",
    "  jae 9f",
    "  lea r11, [rip + {classes}]",
    "  movzx r11d, byte ptr [r11 + rax]",
    "  test r11d, r11d",
    "  jnz 2f",
    "9: jmp rcx",
    "2:",
    "  lea rsp, [rsp - 128]",
    "  push rcx",
    "  cmp r11d, {fd}",
    "  je 20f",
    "  cmp r11d, {at}",
    "  je 31f",
    "  cmp r11d, {path}",
    "  je 30f",
    "  cmp r11d, {active_class}",
    "  je 24f",
    "  cmp r11d, {leaving}",
    "  je 25f",
    "  cmp r11d, {fd_fifth}",
    "  je 22f",
    "  cmp r11d, {fd_fd}",
    "  je 21f",
    "  cmp r11d, {fd_third}",
    "  je 23f",
    "  cmp r11d, {path_path}",
    "  je 32f",
    "  cmp r11d, {path_second}",
    "  je 33f",
    "  cmp r11d, {at_at}",
    "  je 34f",
    "  cmp r11d, {at_third}",
    "  je 35f",
    "  jmp 70f",
    "24:",
    "  cmp dword ptr [rip + {active}], 0",
    "  jne 70f",
    "  jmp 60f",
    "25:",
    "  cmp dword ptr [rip + {holds}], 0",
    "  jne 70f",
    "  jmp 60f",
    // Descriptors: any non-zero class byte makes the call ours to look at.
    "21:",
    "  mov ecx, esi",
    "  call 40f",
    "  jnz 70f",
    "  jmp 20f",
    "23:",
    "  mov ecx, edx",
    "  call 40f",
    "  jnz 70f",
    "20:",
    "  mov ecx, edi",
    "  call 40f",
    "  jnz 70f",
    "  jmp 60f",
    // A mapping of ours, or code of a file, which may have system calls of its own.
    "22:",
    "  test r8d, r8d",
    "  js 60f",
    "  test edx, {executable}",
    "  jnz 70f",
    "  mov ecx, r8d",
    "  call 40f",
    "  jnz 70f",
    "  jmp 60f",
    // Paths.
    "33:",
    "  mov r11, rsi",
    "  jmp 36f",
    "32:",
    "  mov r11, rsi",
    "  mov ecx, -100",
    "  call 50f",
    "  jnz 70f",
    "30:",
    "  mov r11, rdi",
    "36:",
    "  mov ecx, -100",
    "  jmp 37f",
    "34:",
    "  mov r11, r10",
    "  mov ecx, edx",
    "  call 50f",
    "  jnz 70f",
    "31:",
    "  mov r11, rsi",
    "  mov ecx, edi",
    "  jmp 37f",
    "35:",
    "  mov r11, rdx",
    "  mov ecx, esi",
    "37:",
    "  call 50f",
    "  jnz 70f",
    // A path that is not ours: the call is made here, to see whether the kernel finds what it names.
    "38:",
    "  push rax",
    "  syscall",
    "  cmp rax, -{not_found}",
    "  je 39f",
    "  add rsp, 8",
    "42:",
    "  pop rcx",
    "  add rcx, {syscall_bytes}",
    "  lea rsp, [rsp + 128]",
    "  jmp rcx",
    "39:",
    "  pop rax",
    "  mov r11, qword ptr [rip + cuesta_thread@GOTTPOFF]",
    "  cmp dword ptr fs:[r11 + {inside}], 0",
    "  jne 43f",
    "  bts rax, {found_nothing}",
    "  jmp 70f",
    "43:",
    "  mov rax, -{not_found}",
    "  jmp 42b",
    // Not ours.
    "60:",
    "  pop rcx",
    "  lea rsp, [rsp + 128]",
    "  jmp rcx",
    "",
    // ecx: descriptor. Out: ZF clear if it has a class.
    "40:",
    "  cmp ecx, {descriptor_limit}",
    "  jae 41f",
    "  lea r11, [rip + {descriptors}]",
    "  cmp byte ptr [r11 + rcx], 0",
    "  ret",
    "41:",
    "  xor r11d, r11d",
    "  ret",
    "",
    // r11: path, ecx: directory descriptor. Out: ZF clear if the path may lead to the store.
    "50:",
    "  push rax",
    "  push rdx",
    "  test r11, r11",
    "  jz 57f",
    "cuesta_filter_load_0:",
    "  movzx eax, byte ptr [r11]",
    "  cmp al, '/'",
    "  jne 55f",
    "cuesta_filter_load_3:",
    "  movzx edx, byte ptr [r11 + 1]",
    "  cmp dl, 'p'",
    "  je 62f",
    "  cmp dl, 'd'",
    "  je 63f",
    "64:",
    "  lea rdx, [rip + {prefix}]",
    "51:",
    "  mov al, byte ptr [rdx]",
    "  test al, al",
    "  jz 58f",
    "cuesta_filter_load_1:",
    "  cmp al, byte ptr [r11]",
    "  jne 52f",
    "  inc rdx",
    "  inc r11",
    "  jmp 51b",
    "52:",
    "  mov ah, byte ptr [rdx - 1]",
    "53:",
    "cuesta_filter_load_2:",
    "  mov al, byte ptr [r11]",
    "  test al, al",
    "  jz 59f",
    "  cmp ah, '/'",
    "  jne 54f",
    "  cmp al, '.'",
    "  je 58f",
    "  cmp al, '/'",
    "  je 58f",
    "54:",
    "  mov ah, al",
    "  inc r11",
    "  jmp 53b",
    // `/proc/` and `/dev/` may name a descriptor of ours, once there may be one.
    "62:",
    "  lea rdx, [rip + {proc_folder}]",
    "  jmp 65f",
    "63:",
    "  lea rdx, [rip + {device_folder}]",
    "65:",
    "  cmp dword ptr [rip + {active}], 0",
    "  je 64b",
    "66:",
    "  mov al, byte ptr [rdx]",
    "  test al, al",
    "  jz 58f",
    "cuesta_filter_load_4:",
    "  cmp al, byte ptr [r11]",
    "  jne 67f",
    "  inc rdx",
    "  inc r11",
    "  inc ah",
    "  jmp 66b",
    "67:",
    "  movzx eax, ah",
    "  sub r11, rax",
    "  jmp 64b",
    // Relative: to a directory of ours, or by a name that occurs on the way to the prefix.
    "55:",
    "  cmp ecx, -100",
    "  jne 56f",
    "  cmp dword ptr [rip + {cwd_virtual}], 0",
    "  jne 58f",
    "  jmp 61f",
    "56:",
    "  cmp ecx, {descriptor_limit}",
    "  jae 61f",
    "  lea rdx, [rip + {descriptors}]",
    "  cmp byte ptr [rdx + rcx], 0",
    "  jne 58f",
    "61:",
    "  lea rdx, [rip + {first_bytes}]",
    "  cmp byte ptr [rdx + rax], 0",
    "  jne 58f",
    "  xor eax, eax",
    "  jmp 53b",
    // A null path names the descriptor itself (utimensat), or nothing.
    "57:",
    "  cmp ecx, {descriptor_limit}",
    "  jae 59f",
    "  lea rdx, [rip + {descriptors}]",
    "  cmp byte ptr [rdx + rcx], 0",
    "  jne 58f",
    ".globl cuesta_filter_not_ours",
    ".hidden cuesta_filter_not_ours",
    "cuesta_filter_not_ours:",
    "59:",
    "  xor r11d, r11d",
    "  pop rdx",
    "  pop rax",
    "  ret",
    "58:",
    "  or r11d, 1",
    "  pop rdx",
    "  pop rax",
    "  ret",
    "",
    // Ours to look at, unless this thread is already inside the client.
    "70:",
    "  mov r11, qword ptr [rip + cuesta_thread@GOTTPOFF]",
    "  cmp dword ptr fs:[r11 + {inside}], 0",
    "  jne 60b",
    "  push rax",
    "  push rdi",
    "  push rsi",
    "  push rdx",
    "  push r10",
    "  push r8",
    "  push r9",
    "  push rbp",
    "  push rbx",
    "  mov rbp, rsp",
    "  lea rbx, [rip + {dispatch}]",
    "  mov rax, qword ptr fs:[r11 + {stack_top}]",
    "  test rax, rax",
    "  jz 79f",
    "81:",
    "  cmp rsp, rax",
    "  ja 71f",
    "  cmp rsp, qword ptr fs:[r11 + {stack_bottom}]",
    "  jae 73f",
    "71:",
    "  cmp rsp, qword ptr fs:[r11 + {alternate_high}]",
    "  ja 72f",
    "  cmp rsp, qword ptr fs:[r11 + {alternate_low}]",
    "  jae 73f",
    "72:",
    "  mov rsp, rax",
    "73:",
    "  and rsp, -64",
    "  cmp dword ptr [rip + {xsave_mask}], -1",
    "  jne 78f",
    "  sub rsp, 512",
    "  fxsave64 [rsp]",
    "  call {learn_vector_state}",
    "  fxrstor64 [rsp]",
    "  add rsp, 512",
    "78:",
    "  sub rsp, qword ptr [rip + {xsave_bytes}]",
    "  mov eax, dword ptr [rip + {xsave_mask}]",
    "  test eax, eax",
    "  jz 74f",
    "  xor edx, edx",
    "  mov qword ptr [rsp + 512], rdx",
    "  mov qword ptr [rsp + 520], rdx",
    "  mov qword ptr [rsp + 528], rdx",
    "  mov qword ptr [rsp + 536], rdx",
    "  mov qword ptr [rsp + 544], rdx",
    "  mov qword ptr [rsp + 552], rdx",
    "  mov qword ptr [rsp + 560], rdx",
    "  mov qword ptr [rsp + 568], rdx",
    "  xsavec [rsp]",
    "  jmp 75f",
    "74:",
    "  fxsave64 [rsp]",
    "75:",
    "  mov rdi, rbp",
    "  call rbx",
    "  mov eax, dword ptr [rip + {xsave_mask}]",
    "  test eax, eax",
    "  jz 76f",
    "  xor edx, edx",
    "  xrstor [rsp]",
    "  jmp 77f",
    "76:",
    "  fxrstor64 [rsp]",
    "77:",
    "  mov rsp, rbp",
    "  lea rax, [rip + {dispatch}]",
    "  cmp rbx, rax",
    "  jne 82f",
    "  pop rbx",
    "  pop rbp",
    "  pop r9",
    "  pop r8",
    "  pop r10",
    "  pop rdx",
    "  pop rsi",
    "  pop rdi",
    "  pop rax",
    "  test rax, rax",
    "  js 60b",
    "  btr rax, {try_kernel}",
    "  jc 38b",
    "  jmp 60b",
    // The thread's first call: its stack may be too small even for the vector state (a goroutine's). Its own
    // client stack is made on one that threads take in turns, with handlers deferred.
    "79:",
    "  mov dword ptr fs:[r11 + {inside}], 1",
    "83:",
    "  mov eax, 1",
    "  xchg dword ptr [rip + {first_stack_taken}], eax",
    "  test eax, eax",
    "  jz 84f",
    // Whoever has it may wait for the same processor.
    "  mov eax, {yield_processor}",
    "  syscall",
    "  jmp 83b",
    "84:",
    "  lea rsp, [rip + {first_stack} + {first_stack_bytes}]",
    "  lea rbx, [rip + {make_stack}]",
    "  jmp 73b",
    "82:",
    "  mov dword ptr [rip + {first_stack_taken}], 0",
    "  mov r11, qword ptr [rip + cuesta_thread@GOTTPOFF]",
    "  mov dword ptr fs:[r11 + {inside}], 0",
    "  lea rbx, [rip + {dispatch}]",
    "  mov rax, qword ptr fs:[r11 + {stack_top}]",
    "  test rax, rax",
    "  jz 73b",
    "  jmp 81b",
    ".size cuesta_entry, . - cuesta_entry",
    "",
    // cuesta_call_on_stack(function rdi, argument rsi): an ordinary call, on the client's stack.
    ".globl cuesta_call_on_stack",
    ".hidden cuesta_call_on_stack",
    ".type cuesta_call_on_stack, @function",
    ".balign 16",
    "cuesta_call_on_stack:",
    "  .cfi_startproc",
    "  push rbp",
    "  .cfi_def_cfa_offset 16",
    "  .cfi_offset rbp, -16",
    "  mov rbp, rsp",
    "  .cfi_def_cfa_register rbp",
    "  mov r11, qword ptr [rip + cuesta_thread@GOTTPOFF]",
    "  mov rax, qword ptr fs:[r11 + {stack_top}]",
    "  test rax, rax",
    "  jz 73f",
    "  cmp rsp, rax",
    "  ja 71f",
    "  cmp rsp, qword ptr fs:[r11 + {stack_bottom}]",
    "  jae 73f",
    "71:",
    "  cmp rsp, qword ptr fs:[r11 + {alternate_high}]",
    "  ja 72f",
    "  cmp rsp, qword ptr fs:[r11 + {alternate_low}]",
    "  jae 73f",
    "72:",
    "  mov rsp, rax",
    "73:",
    "  and rsp, -16",
    "  mov rax, rdi",
    "  mov rdi, rsi",
    "  call rax",
    "  mov rsp, rbp",
    "  pop rbp",
    "  .cfi_def_cfa rsp, 8",
    "  ret",
    "  .cfi_endproc",
    ".size cuesta_call_on_stack, . - cuesta_call_on_stack",
    "",
    // What a signal handler we install returns to.
    ".globl cuesta_restorer",
    ".hidden cuesta_restorer",
    ".type cuesta_restorer, @function",
    ".balign 16",
    "  nop",
    "cuesta_restorer:",
    "  mov rax, 15",
    "  syscall",
    ".size cuesta_restorer, . - cuesta_restorer",
    ".popsection",
    thread_bytes = const size_of::<ThreadState>(),
    inside = const core::mem::offset_of!(ThreadState, inside),
    stack_top = const core::mem::offset_of!(ThreadState, stack_top),
    stack_bottom = const core::mem::offset_of!(ThreadState, stack_bottom),
    alternate_low = const core::mem::offset_of!(ThreadState, alternate_low),
    alternate_high = const core::mem::offset_of!(ThreadState, alternate_high),
    descriptor_limit = const crate::filter::DESCRIPTOR_LIMIT,
    active_class = const CLASS_ACTIVE,
    active = sym ACTIVE,
    leaving = const CLASS_LEAVING,
    holds = sym HOLDS,
    fd = const CLASS_FD,
    fd_fd = const CLASS_FD_FD,
    fd_third = const CLASS_FD_THIRD,
    executable = const libc::PROT_EXEC,
    fd_fifth = const CLASS_FD_FIFTH,
    path = const CLASS_PATH,
    path_path = const CLASS_PATH_PATH,
    path_second = const CLASS_PATH_SECOND,
    at = const CLASS_AT,
    at_at = const CLASS_AT_AT,
    at_third = const CLASS_AT_THIRD,
    not_found = const libc::ENOENT,
    found_nothing = const FOUND_NOTHING_BIT,
    try_kernel = const TRY_KERNEL_BIT,
    syscall_bytes = const super::frame::SYSCALL_BYTES,
    classes = sym CLASSES,
    descriptors = sym DESCRIPTORS,
    prefix = sym PREFIX,
    proc_folder = sym PROC_FOLDER,
    device_folder = sym DEVICE_FOLDER,
    cwd_virtual = sym CWD_VIRTUAL,
    first_bytes = sym FIRST_BYTES,
    xsave_bytes = sym XSAVE_BYTES,
    xsave_mask = sym XSAVE_MASK,
    first_stack = sym FIRST_STACK,
    first_stack_bytes = const FIRST_STACK_BYTES,
    first_stack_taken = sym FIRST_STACK_TAKEN,
    yield_processor = const libc::SYS_sched_yield,
    make_stack = sym make_stack,
    learn_vector_state = sym learn_vector_state,
    dispatch = sym crate::door::cuesta_dispatch,
);

const _: () = assert!(CLASS_ALWAYS != 0 && size_of::<Frame>() == 10 * 8);

unsafe extern "C" {
    fn cuesta_entry();
    fn cuesta_call_on_stack(function: extern "C" fn(&mut Frame), frame: &mut Frame);
    fn cuesta_restorer();
    fn cuesta_filter_load_0();
    fn cuesta_filter_load_1();
    fn cuesta_filter_load_2();
    fn cuesta_filter_load_3();
    fn cuesta_filter_load_4();
    fn cuesta_filter_not_ours();
}

/// Where the stubs jump to.
pub(super) fn entry_address() -> usize {
    cuesta_entry as *const () as usize
}

/// What a signal handler installed by us returns to.
pub fn restorer() -> usize {
    cuesta_restorer as *const () as usize
}

/// Where to go on if `address` is one of the filter's reads of an application's path.
pub fn filter_fault(address: usize) -> Option<usize> {
    let loads = [
        cuesta_filter_load_0 as *const () as usize,
        cuesta_filter_load_1 as *const () as usize,
        cuesta_filter_load_2 as *const () as usize,
        cuesta_filter_load_3 as *const () as usize,
        cuesta_filter_load_4 as *const () as usize,
    ];
    loads.contains(&address).then_some(cuesta_filter_not_ours as *const () as usize)
}

/// Runs `function` on this thread's client stack, or on the current one if there is none yet, if it is
/// already in use, or if this is the application's signal stack.
pub fn call_on_stack(function: extern "C" fn(&mut Frame), frame: &mut Frame) {
    // SAFETY: the callee is an ordinary function, and the stack it runs on is either the current one
    // or the thread's own, registered by `thread::register_stack` and unused below its top.
    unsafe { cuesta_call_on_stack(function, frame) }
}

/// Offset of this library's thread state from the thread pointer; the same in every thread.
pub(super) fn thread_offset() -> usize {
    let offset: usize;
    // SAFETY: reads a constant of the dynamic linker's from the global offset table.
    unsafe {
        asm!("mov {}, qword ptr [rip + cuesta_thread@GOTTPOFF]", out(reg) offset, options(pure, readonly, nostack));
    }
    offset
}

/// What tells the calling thread from all others alive: the address of its control block.
pub fn thread_pointer() -> usize {
    let address: usize;
    // SAFETY: the first word of the thread control block is its own address (x86-64 TLS ABI).
    unsafe {
        asm!("mov {}, qword ptr fs:[0]", out(reg) address, options(pure, readonly, nostack));
    }
    address
}

/// The calling thread's state.
#[inline(always)]
pub fn thread_state() -> *mut ThreadState {
    let address: *mut ThreadState;
    // SAFETY: the first word of the thread control block is its own address (x86-64 TLS ABI).
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + cuesta_thread@GOTTPOFF]",
            "add {0}, qword ptr fs:[0]",
            out(reg) address,
            options(pure, readonly, nostack),
        );
    }
    address
}
