//! Finding system call instructions and the neighbours that can move with them.
//!
//! `syscall` is two bytes, a jump five, so at least three bytes of neighbours move into the stub: the
//! instructions before if possible (a `mov eax, N` nearly always), else those behind. An instruction
//! may move only if it does not touch the flow of control and nothing can jump into the middle of
//! the moved range. Besides the branch targets seen, an instruction behind an unconditional jump or
//! return counts as a target (the arm of a jump table), and so does any address the code takes.

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess,
    OpKind, Register,
};

use crate::call::filter;
use crate::patch::{Site, UNKNOWN_NUMBER};

const JUMP_BYTES: usize = 5;
const WINDOW_BEFORE: usize = 8;
const WINDOW_BEHIND: usize = 3;
/// `mov rax, 15`: the return from a signal handler, which unwinders know by its bytes. Its unwind
/// information starts a byte early, so decoding from there cannot be trusted to see it.
const SIGNAL_RETURN: [u8; 7] = [0x48, 0xc7, 0xc0, 15, 0, 0, 0];

/// Finds the sites in `code`, which is mapped at `address`, decoding afresh at each of `starts`
/// (sorted addresses of functions). Sites that cannot be patched are counted, not returned.
pub fn sweep(code: &[u8], address: u64, starts: &[u64]) -> (Vec<Site>, usize) {
    sweep_for(Code::Syscall, code, address, starts)
}

/// As [`sweep`], for the instruction `wanted`, which has two bytes.
pub(super) fn sweep_for(wanted: Code, code: &[u8], address: u64, starts: &[u64]) -> (Vec<Site>, usize) {
    let mut targets = Bits::new(code.len());
    let mut candidates = Vec::new();
    let end = address + code.len() as u64;
    let mut bounds: Vec<u64> =
        starts.iter().copied().filter(|start| (address..end).contains(start)).collect();
    bounds.insert(0, address);
    bounds.push(end);
    bounds.dedup();
    for range in bounds.windows(2) {
        let (from, to) = ((range[0] - address) as usize, (range[1] - address) as usize);
        targets.set(from);
        decode_function(wanted, &code[from..to], range[0], address, &mut targets, &mut candidates);
    }
    let mut unpatchable = 0;
    let mut sites = Vec::new();
    for candidate in &candidates {
        match candidate.place(address, &targets) {
            Some(site) => sites.push(site),
            None => unpatchable += 1,
        }
    }
    (sites, unpatchable)
}

/// Decodes a function, noting what is jumped to and each `wanted` instruction.
pub(super) fn decode_function(
    wanted: Code,
    code: &[u8],
    ip: u64,
    base: u64,
    targets: &mut Bits,
    candidates: &mut Vec<Candidate>,
) {
    let mut decoder = Decoder::with_ip(64, code, ip, DecoderOptions::NONE);
    let mut recent: Vec<Instruction> = Vec::with_capacity(WINDOW_BEFORE + 1);
    let mut open: Vec<usize> = Vec::new();
    let mut instruction = Instruction::default();
    let mut after_jump = true;
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        if after_jump {
            targets.set((instruction.ip() - base) as usize);
        }
        after_jump = matches!(
            instruction.flow_control(),
            FlowControl::UnconditionalBranch
                | FlowControl::IndirectBranch
                | FlowControl::Return
                | FlowControl::Exception
        );
        note_targets(&instruction, base, targets);
        open.retain(|index| {
            let candidate: &mut Candidate = &mut candidates[*index];
            candidate.behind.push(instruction);
            candidate.behind.len() < WINDOW_BEHIND
        });
        let offset = (instruction.ip() - ip) as usize;
        if instruction.code() == wanted && !code[..offset].ends_with(&SIGNAL_RETURN) {
            open.push(candidates.len());
            candidates.push(Candidate { before: recent.clone(), at: instruction, behind: Vec::new() });
        }
        if recent.len() == WINDOW_BEFORE {
            recent.remove(0);
        }
        recent.push(instruction);
    }
}

fn note_targets(instruction: &Instruction, base: u64, targets: &mut Bits) {
    let target = match instruction.flow_control() {
        FlowControl::ConditionalBranch
        | FlowControl::UnconditionalBranch
        | FlowControl::Call
        | FlowControl::XbeginXabortXend
            if instruction.op0_kind() == OpKind::NearBranch64 =>
        {
            instruction.near_branch_target()
        }
        _ if instruction.mnemonic() == Mnemonic::Lea && instruction.is_ip_rel_memory_operand() => {
            instruction.ip_rel_memory_address()
        }
        _ => return,
    };
    if let Some(offset) = target.checked_sub(base) {
        targets.set(offset as usize);
    }
}

/// A syscall instruction with its neighbourhood.
pub(super) struct Candidate {
    before: Vec<Instruction>,
    at: Instruction,
    behind: Vec<Instruction>,
}

impl Candidate {
    /// Where the instruction stands.
    pub(super) fn address(&self) -> u64 {
        self.at.ip()
    }

    /// The site, if the instruction has neighbours that can move.
    pub(super) fn place(&self, base: u64, targets: &Bits) -> Option<Site> {
        let number = self.number(base, targets);
        self.place_before(base, targets).or_else(|| self.place_behind(base, targets)).map(|mut site| {
            site.number = number;
            site
        })
    }

    fn place_before(&self, base: u64, targets: &Bits) -> Option<Site> {
        if targets.get((self.at.ip() - base) as usize) {
            return None;
        }
        let mut bytes = self.at.len();
        for (index, instruction) in self.before.iter().enumerate().rev() {
            if !can_move(instruction) {
                return None;
            }
            bytes += instruction.len();
            if bytes >= JUMP_BYTES {
                return Site::new(base, instruction.ip(), self.at.ip(), bytes, &self.before[index..]);
            }
            if targets.get((instruction.ip() - base) as usize) {
                return None;
            }
        }
        None
    }

    fn place_behind(&self, base: u64, targets: &Bits) -> Option<Site> {
        let mut bytes = self.at.len();
        for (index, instruction) in self.behind.iter().enumerate() {
            if targets.get((instruction.ip() - base) as usize) || !can_move(instruction) {
                return None;
            }
            bytes += instruction.len();
            if bytes >= JUMP_BYTES {
                return Site::new(base, self.at.ip(), self.at.ip(), bytes, &self.behind[..=index]);
            }
        }
        None
    }

    /// The system call's number, where straight-line code sets it to a constant.
    fn number(&self, base: u64, targets: &Bits) -> u16 {
        if targets.get((self.at.ip() - base) as usize) {
            return UNKNOWN_NUMBER;
        }
        let mut information = InstructionInfoFactory::new();
        for instruction in self.before.iter().rev() {
            if instruction.flow_control() != FlowControl::Next {
                return UNKNOWN_NUMBER;
            }
            let writes = information.info(instruction).used_registers().iter().any(|used| {
                used.register().full_register() == Register::RAX
                    && !matches!(
                        used.access(),
                        OpAccess::Read | OpAccess::CondRead | OpAccess::None | OpAccess::NoMemAccess
                    )
            });
            if writes {
                return constant(instruction);
            }
            if targets.get((instruction.ip() - base) as usize) {
                return UNKNOWN_NUMBER;
            }
        }
        UNKNOWN_NUMBER
    }
}

fn constant(instruction: &Instruction) -> u16 {
    let value = match instruction.code() {
        Code::Mov_r32_imm32 => u64::from(instruction.immediate32()),
        Code::Mov_rm64_imm32 => instruction.immediate64(),
        Code::Xor_r32_rm32 | Code::Xor_rm32_r32
            if instruction.op0_register() == instruction.op1_register() =>
        {
            0
        }
        _ => return UNKNOWN_NUMBER,
    };
    if value < filter::SYSCALL_LIMIT as u64 { value as u16 } else { UNKNOWN_NUMBER }
}

fn can_move(instruction: &Instruction) -> bool {
    !instruction.is_invalid()
        && instruction.flow_control() == FlowControl::Next
        && !matches!(instruction.code(), Code::Syscall | Code::Cpuid)
        && instruction.mnemonic() != Mnemonic::Endbr64
        && instruction.memory_base() != Register::EIP
}

impl Site {
    fn new(base: u64, start: u64, at: u64, bytes: usize, moved: &[Instruction]) -> Option<Self> {
        let mut relative = [0u8; 2];
        let mut slots = relative.iter_mut();
        for instruction in moved.iter().filter(|instruction| instruction.is_ip_rel_memory_operand()) {
            // The displacement is the last field but an immediate; its place follows from the length.
            let displacement = displacement_offset(instruction)?;
            *slots.next()? = u8::try_from(instruction.ip() - start).ok()? + displacement;
        }
        Some(Site {
            start: u32::try_from(start - base).ok()?,
            length: u8::try_from(bytes).ok()?,
            syscall: u8::try_from(at - start).ok()?,
            number: UNKNOWN_NUMBER,
            relative,
        })
    }
}

/// Where the 32-bit displacement of an rip-relative operand lies in the instruction's bytes.
fn displacement_offset(instruction: &Instruction) -> Option<u8> {
    let immediate: usize = instruction
        .op_kinds()
        .map(|kind| match kind {
            OpKind::Immediate8 | OpKind::Immediate8to16 | OpKind::Immediate8to32 | OpKind::Immediate8to64 => {
                1
            }
            OpKind::Immediate16 => 2,
            OpKind::Immediate32 | OpKind::Immediate32to64 => 4,
            OpKind::Immediate64 => 8,
            _ => 0,
        })
        .sum();
    u8::try_from(instruction.len().checked_sub(4 + immediate)?).ok()
}

/// A set of byte offsets.
pub(super) struct Bits(Vec<u64>);

impl Bits {
    pub(super) fn new(length: usize) -> Self {
        Self(vec![0; length / 64 + 1])
    }

    pub(super) fn set(&mut self, offset: usize) {
        if let Some(word) = self.0.get_mut(offset / 64) {
            *word |= 1 << (offset % 64);
        }
    }

    pub(super) fn get(&self, offset: usize) -> bool {
        self.0.get(offset / 64).is_some_and(|word| word & (1 << (offset % 64)) != 0)
    }
}
