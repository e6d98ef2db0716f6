//! A copy of the dynamic loader that knows what the processor would answer it, for programs whose file is ours to
//! write: their copies name it in place of the loader itself. The questions are a third of what starting a small
//! program costs in a virtual machine.
//!
//! It may have its list of libraries from another place, where the C library is one that is patched (see `whole`).
//!
//! Everything stands where it stood. The stubs lie in what the loader's code leaves of its last page, so nothing
//! is mapped that was not. The program sees the loader under its own name; only the kernel reads the other one.

use std::ffi::CStr;

use crate::arch;
use crate::patch::binaries::elf::Elf;
use crate::patch::binaries::library_list;

const PAGE_BYTES: u64 = 4096;
const PT_GNU_STACK: u32 = 0x6474_e551;
/// In the header of a segment: its place in the file, and its length there.
const PLACE: usize = 8;
const LENGTH: usize = 32;
/// Fewer questions are not worth it.
const SITES_MIN: usize = 8;

/// The loader in `file`, with the questions it asks answered; `None` if it asks none, or has no room. It has its list of
/// libraries from `list`, if that is something.
pub fn with_answers(file: &[u8], list: Option<&CStr>) -> Option<Vec<u8>> {
    let read = |offset: u64, bytes: &mut [u8]| {
        let start = usize::try_from(offset).ok()?;
        bytes.copy_from_slice(file.get(start..start.checked_add(bytes.len())?)?);
        Some(())
    };
    let elf = Elf::of_file(&read)?;
    let code = elf.only_code()?;
    // Instructions find what they name by distances, which are the same in the file and in memory.
    if code.in_file != code.address {
        return None;
    }
    let start = usize::try_from(code.in_file).ok()?;
    let end = start.checked_add(usize::try_from(code.length).ok()?)?;
    let room = usize::try_from((end as u64).next_multiple_of(PAGE_BYTES)).ok()?;
    if elf.is_mapped_besides(end as u64, room as u64) || room > file.len() {
        return None;
    }
    let functions = elf.functions(&read)?.starts();
    let sites = arch::sweep_questions(file.get(start..end)?, start as u64, &functions);
    if sites.len() < SITES_MIN {
        return None;
    }
    let mut copy = file.to_vec();
    let routine = end.next_multiple_of(16);
    let mut next = place(&mut copy, routine, room, &arch::routine())?;
    for site in &sites {
        let at = start + site.start as usize;
        let original = file.get(at..at + usize::from(site.length))?;
        let (stub, jump) = arch::ask_routine(site, original, at, next, routine);
        next = place(&mut copy, next, room, &stub)?;
        place(&mut copy, at, end, &jump)?;
    }
    if let Some(list) = list {
        let was = elf.address_of(find(file, library_list::PATH.to_bytes_with_nul())? as u64)?;
        place(&mut copy, next, room, list.to_bytes_with_nul())?;
        let mut is_named = false;
        for at in names_address(&file[start..end], start, usize::try_from(was).ok()?) {
            let distance = i32::try_from(next as i64 - (start + at + 4) as i64).ok()?;
            place(&mut copy, start + at, end, &distance.to_le_bytes())?;
            is_named = true;
        }
        is_named.then_some(())?;
    }
    Some(copy)
}

/// Where a string stands that is there just once.
fn find(file: &[u8], string: &[u8]) -> Option<usize> {
    let mut found = file.windows(string.len()).enumerate().filter(|(_, window)| *window == string);
    let (at, _) = found.next()?;
    found.next().is_none().then_some(at)
}

/// Where in `code`, which is at `start`, instructions that take an address (`lea`) have the distance to `address`.
fn names_address(code: &[u8], start: usize, address: usize) -> impl Iterator<Item = usize> {
    const BYTES: usize = 7;
    let is_lea =
        |window: &[u8]| matches!(window[0], 0x48 | 0x4c) && window[1] == 0x8d && window[2] & 0xc7 == 5;
    code.windows(BYTES).enumerate().filter_map(move |(at, window)| {
        let distance = i32::from_le_bytes([window[3], window[4], window[5], window[6]]);
        let leads_there = (start + at + BYTES).wrapping_add_signed(distance as isize) == address;
        (is_lea(window) && leads_there).then_some(at + 3)
    })
}

/// Writes `bytes` at `at`, if they end before `end`; where they end.
fn place(copy: &mut [u8], at: usize, end: usize, bytes: &[u8]) -> Option<usize> {
    let behind = at.checked_add(bytes.len()).filter(|behind| *behind <= end)?;
    copy.get_mut(at..behind)?.copy_from_slice(bytes);
    Some(behind)
}

/// The loader that the program whose file begins with `head` names.
pub fn named_by(head: &[u8]) -> Option<&[u8]> {
    let header = segment(head, libc::PT_INTERP)?;
    let (start, length) = (word(head, header + PLACE)?, word(head, header + LENGTH)?);
    head.get(start..start.checked_add(length)?)?.strip_suffix(b"\0")
}

/// Has the kernel take `loader` for the program whose file begins with `head`. Its name stands in the header of the
/// stack, which is all flags: the file keeps its length, and its own loader's name.
pub fn redirect(head: &mut [u8], loader: &[u8]) -> Option<()> {
    let names = segment(head, libc::PT_INTERP)?;
    let stack = segment(head, PT_GNU_STACK)?;
    let place = stack + PLACE;
    let unused = head.get_mut(place..stack + LENGTH + 8)?;
    if unused.iter().any(|byte| *byte != 0) || loader.len() >= unused.len() {
        return None;
    }
    unused[..loader.len()].copy_from_slice(loader);
    head.get_mut(names + PLACE..names + PLACE + 8)?.copy_from_slice(&(place as u64).to_le_bytes());
    let length = loader.len() as u64 + 1;
    head.get_mut(names + LENGTH..names + LENGTH + 8)?.copy_from_slice(&length.to_le_bytes());
    Some(())
}

/// Where the header of the first segment of this kind stands.
fn segment(head: &[u8], kind: u32) -> Option<usize> {
    const HEADER_BYTES: usize = 56;
    let half = |at: usize| Some(usize::from(u16::from_le_bytes(head.get(at..at + 2)?.try_into().ok()?)));
    if !head.starts_with(b"\x7fELF\x02\x01") || half(54)? != HEADER_BYTES {
        return None;
    }
    let first = word(head, 32)?;
    let headers = (0..half(56)?).map(|index| first.saturating_add(index * HEADER_BYTES));
    headers.into_iter().find(|at| head.get(*at..at.saturating_add(4)) == Some(&kind.to_le_bytes()[..]))
}

fn word(bytes: &[u8], at: usize) -> Option<usize> {
    let field = bytes.get(at..at.checked_add(8)?)?;
    usize::try_from(u64::from_le_bytes(field.try_into().ok()?)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_sent_to_another_loader_and_keeps_its_length_and_name() {
        let file = std::fs::read("/bin/true").expect("readable");
        let mut head = file.clone();
        let own = named_by(&file).expect("a dynamic program").to_vec();
        assert!(own.starts_with(b"/lib"));
        redirect(&mut head, b"/proc/self/fd/1000").expect("room");
        assert_eq!(named_by(&head), Some(&b"/proc/self/fd/1000"[..]));
        assert_eq!(head.len(), file.len());
        assert!(head.windows(own.len()).any(|window| window == own));
        assert_eq!(redirect(&mut head, b"/again"), None, "the room is taken");
        assert_eq!(redirect(&mut file.clone(), &[b'a'; 32]), None, "too long");
    }

    #[test]
    fn a_file_that_is_no_program_names_no_loader() {
        let file = std::fs::read("/bin/true").expect("readable");
        for end in 0..600 {
            let _ = named_by(&file[..end]);
            let _ = redirect(&mut file[..end].to_vec(), b"/loader");
        }
        assert_eq!(named_by(b"#!/bin/sh\n"), None);
        assert_eq!(with_answers(&file, None), None, "it asks nothing");
    }

    #[test]
    fn the_loader_with_answers_starts_programs_as_the_loader_does() {
        use std::os::unix::fs::PermissionsExt as _;
        // Some answers tell which processor gave them: all are to be of one.
        let mut one = rustix::thread::CpuSet::new();
        one.set(rustix::thread::sched_getcpu());
        rustix::thread::sched_setaffinity(None, &one).expect("a processor this thread may run on");
        let program = std::fs::read("/bin/true").expect("readable");
        let path = std::str::from_utf8(named_by(&program).expect("dynamic")).expect("a plain name");
        let loader = std::fs::read(path).expect("readable");
        let copy = with_answers(&loader, Some(c"/nowhere/a-list"))
            .expect("this machine's loader asks, and has room");
        assert_eq!(copy.len(), loader.len());
        let folder = tempfile::tempdir().expect("folder");
        let place = folder.path().join("loader");
        std::fs::write(&place, copy).expect("written");
        std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o700)).expect("executable");
        let diagnose = |loader: &std::path::Path| {
            let output = std::process::Command::new(loader).arg("--list-diagnostics").output().expect("runs");
            let told = String::from_utf8_lossy(&output.stdout).into_owned();
            // Which of the processors this was tells, and where things are differs.
            let lines = told
                .lines()
                .filter(|line| line.starts_with("x86.") && !line.contains("cpuid.features[0x0].cpuid[0x1]"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        let (own, ours) = (diagnose(path.as_ref()), diagnose(&place));
        assert!(own.len() > 20, "{own:?}");
        assert_eq!(own, ours);
    }
}
