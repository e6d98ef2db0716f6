//! Finding system call instructions in code that mostly has none: libraries other than the C library's, and
//! programs.
//!
//! Only functions that hold the two bytes are decoded. An instruction counts if decoding its function, from where
//! the exception tables say it starts, arrives at it; outside of any function, if it is one of the few sequences
//! that compilers of languages without such tables write. All the code is searched for jumps into what would move.

use iced_x86::Code;

use crate::arch::x86_64::sweep::{Bits, Candidate, decode_function};
use crate::call::filter;
use crate::patch::{Site, UNKNOWN_NUMBER};

const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// `mov eax, N`.
const MOVE_NUMBER: u8 = 0xb8;
/// `mov rax, N`.
const MOVE_NUMBER_WIDE: [u8; 3] = [0x48, 0xc7, 0xc0];
/// `cmp rax, -4095`.
const COMPARE_ERROR: [u8; 6] = [0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff];
/// `push r12`, after a call that may return twice on one stack.
const PUSH: [u8; 2] = [0x41, 0x54];

/// Finds the sites in `code`, which is mapped at `address`. `function` answers the bounds of the function that an
/// address belongs to. Sites that cannot be patched are counted, not returned.
pub fn sweep_sparse(
    code: &[u8],
    address: u64,
    function: &mut dyn FnMut(u64) -> Option<(u64, u64)>,
) -> (Vec<Site>, usize) {
    let mut sites = Vec::new();
    let mut candidates: Vec<Candidate> = Vec::new();
    let mut targets = None;
    let mut decoded = 0;
    for at in positions(code) {
        if at < decoded {
            continue;
        }
        match function(address + at as u64).filter(|(start, _)| *start >= address) {
            Some((start, end)) => {
                let targets = targets.get_or_insert_with(|| Bits::new(code.len()));
                let (from, to) = ((start - address) as usize, ((end - address) as usize).min(code.len()));
                targets.set(from);
                decode_function(Code::Syscall, &code[from..to], start, address, targets, &mut candidates);
                decoded = to;
            }
            None => sites.extend(known_sequence(code, at)),
        }
    }
    let mut missed = 0;
    if let Some(targets) = &mut targets
        && !candidates.is_empty()
    {
        note_far_jumps(code, &candidates, address, targets);
        for candidate in &candidates {
            match candidate.place(address, targets) {
                Some(site) => sites.push(site),
                None => missed += 1,
            }
        }
    }
    (sites, missed)
}

/// Where the two bytes stand.
fn positions(code: &[u8]) -> impl Iterator<Item = usize> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let rest = &code[from..];
        // SAFETY: searches within the two slices.
        let found =
            unsafe { libc::memmem(rest.as_ptr().cast(), rest.len(), SYSCALL.as_ptr().cast(), SYSCALL.len()) };
        let at = (found as usize).checked_sub(code.as_ptr() as usize)?;
        from = at + SYSCALL.len();
        Some(at)
    })
}

/// A site that needs no decoding to be known for one.
fn known_sequence(code: &[u8], at: usize) -> Option<Site> {
    let site = |start: usize, length: usize, number: u16| {
        let (start, syscall) = (u32::try_from(start).ok()?, (at - start) as u8);
        Some(Site { start, length: length as u8, syscall, number, relative: [0; 2] })
    };
    let number = |from: usize| {
        let number = u32::from_le_bytes(code.get(from..from + 4)?.try_into().ok()?);
        u16::try_from(number).ok().filter(|number| usize::from(*number) < filter::SYSCALL_LIMIT)
    };
    if at >= 7
        && code[at - 7..].starts_with(&MOVE_NUMBER_WIDE)
        && let Some(number) = number(at - 4)
    {
        return site(at - 7, 9, number);
    }
    if at >= 5
        && code[at - 5] == MOVE_NUMBER
        && let Some(number) = number(at - 4)
    {
        return site(at - 5, 7, number);
    }
    let behind = &code[at + 2..];
    if behind.starts_with(&COMPARE_ERROR) {
        return site(at, 2 + COMPARE_ERROR.len(), UNKNOWN_NUMBER);
    }
    if behind.starts_with(&PUSH) && behind[2..].starts_with(&COMPARE_ERROR) {
        return site(at, 4 + COMPARE_ERROR.len(), UNKNOWN_NUMBER);
    }
    None
}

/// Notes what looks like a jump from anywhere in the code to near one of the candidates.
fn note_far_jumps(code: &[u8], candidates: &[Candidate], address: u64, targets: &mut Bits) {
    const NEAR: u64 = 64;
    let mut near = Bits::new(code.len());
    for candidate in candidates {
        let at = candidate.address() - address;
        for place in at.saturating_sub(NEAR)..at + NEAR {
            near.set(place as usize);
        }
    }
    for (at, opcode) in code.windows(2).enumerate() {
        let distance_at = match opcode {
            [0xe8 | 0xe9, _] => at + 1,
            [0x0f, 0x80..=0x8f] => at + 2,
            _ => continue,
        };
        let Some(distance) = code.get(distance_at..distance_at + 4) else { break };
        let distance = i32::from_le_bytes([distance[0], distance[1], distance[2], distance[3]]);
        if let Some(target) = (distance_at + 4).checked_add_signed(distance as isize)
            && near.get(target)
        {
            targets.set(target);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{UNKNOWN_NUMBER, positions, sweep_sparse};

    const GETPID: [u8; 8] = [0xb8, 39, 0, 0, 0, 0x0f, 0x05, 0xc3];

    #[test]
    fn the_bytes_inside_other_instructions_are_no_call() {
        // mov eax, 0x050f; ret
        let code = [0xb8, 0x0f, 0x05, 0, 0, 0xc3];
        assert_eq!(positions(&code).collect::<Vec<_>>(), [1]);
        let mut whole = |_| Some((0x1000, 0x1000 + code.len() as u64));
        assert_eq!(sweep_sparse(&code, 0x1000, &mut whole), (Vec::new(), 0));
        assert_eq!(sweep_sparse(&code, 0x1000, &mut |_| None), (Vec::new(), 0));
    }

    #[test]
    fn a_call_is_found_with_and_without_a_table_of_functions() {
        let mut whole = |_| Some((0x1000, 0x1008));
        for (sites, missed) in
            [sweep_sparse(&GETPID, 0x1000, &mut whole), sweep_sparse(&GETPID, 0x1000, &mut |_| None)]
        {
            assert_eq!((sites.len(), missed), (1, 0));
            assert_eq!((sites[0].start, sites[0].length, sites[0].syscall, sites[0].number), (0, 7, 5, 39));
        }
        // syscall; cmp rax, -4095: the number came from elsewhere.
        let go = [0x0f, 0x05, 0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff, 0x76, 0x20];
        let (sites, _) = sweep_sparse(&go, 0x1000, &mut |_| None);
        assert_eq!((sites[0].length, sites[0].syscall, sites[0].number), (8, 0, UNKNOWN_NUMBER));
    }

    #[test]
    fn a_call_that_is_jumped_to_from_another_function_keeps_its_place() {
        // mov eax, 39; syscall; ret; then, as another function: jmp to the syscall.
        let mut code = GETPID.to_vec();
        code.extend_from_slice(&[0xe9, 0xf8, 0xff, 0xff, 0xff]);
        let mut function = |at: u64| Some(if at < 0x1008 { (0x1000, 0x1008) } else { (0x1008, 0x100d) });
        assert_eq!(sweep_sparse(&code, 0x1000, &mut function), (Vec::new(), 1));
    }
}
