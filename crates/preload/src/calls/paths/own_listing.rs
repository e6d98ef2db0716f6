//! Listings of this process's descriptors (`/proc/self/fd` and its like), without those that are this library's own:
//! a program that closes all it finds there, or counts them, finds the descriptors that it opened.

use crate::call::{Answer, Call, Failure};
use crate::calls::paths::descriptor_paths;
use crate::descriptors::{self, kernel};
use crate::memory::user_memory::{self, UserPath};

/// Where a directory entry has its length, as the kernel writes it, of two bytes.
const LENGTH_AT: usize = 16;
/// Where its name starts, which a zero byte ends: behind its kind, or, as the older call has it, at once.
const NAME_AT: usize = 19;
const OLD_NAME_AT: usize = 18;

/// Entries of a directory of the kernel's.
pub fn read_entries(call: &Call) -> Answer {
    if descriptors::hidden().next().is_none() || !is_own_listing(call.int(0)) {
        return Err(Failure::NotOurs);
    }
    let name_at = if call.number as i64 == libc::SYS_getdents { OLD_NAME_AT } else { NAME_AT };
    loop {
        let answer = call.kernel(call.arguments);
        let Ok(length @ 1..) = usize::try_from(answer) else { return Ok(answer) };
        let mut entries = vec![0; length];
        user_memory::read_bytes(call.word(1), &mut entries)?;
        let shown = without_hidden(&entries, name_at, descriptors::is_hidden);
        // Nothing at all would mean the end.
        if !shown.is_empty() {
            user_memory::write_bytes(call.word(1), &shown)?;
            return Ok(shown.len() as isize);
        }
    }
}

/// The attributes of such a listing, with its size at `size_at`, once the kernel has been asked: of newer kernels it says
/// how many descriptors there are.
pub fn attributes(call: &Call, path: usize, size_at: usize) -> Answer {
    let path = UserPath::read(call.word(path)).map_err(|_| Failure::NotOurs)?;
    let hidden = descriptors::hidden().count() as i64;
    if hidden == 0 || !descriptor_paths::is_own_list(path.as_bytes()) {
        return Err(Failure::NotOurs);
    }
    let answer = call.kernel(call.arguments);
    if answer == 0 {
        let size: i64 = user_memory::read(size_at)?;
        user_memory::write(size_at, &(size - hidden).max(0))?;
    }
    Ok(answer)
}

fn is_own_listing(fd: i32) -> bool {
    let is_proc =
        rustix::fs::fstatfs(kernel::borrow(fd)).is_ok_and(|found| found.f_type == libc::PROC_SUPER_MAGIC);
    is_proc
        && rustix::fs::readlink(format!("/proc/self/fd/{fd}"), Vec::new())
            .is_ok_and(|path| descriptor_paths::lists_own(path.as_bytes()))
}

fn without_hidden(entries: &[u8], name_at: usize, is_hidden: impl Fn(i32) -> bool) -> Vec<u8> {
    let mut shown = Vec::with_capacity(entries.len());
    let mut rest = entries;
    while let Some(&[low, high]) = rest.get(LENGTH_AT..LENGTH_AT + 2) {
        let length = usize::from(u16::from_ne_bytes([low, high]));
        let Some((entry, behind)) = rest.split_at_checked(length).filter(|_| length > name_at) else { break };
        let name = entry[name_at..].split(|byte| *byte == 0).next().unwrap_or_default();
        if !descriptor_paths::decimal(name).is_some_and(&is_hidden) {
            shown.extend_from_slice(entry);
        }
        rest = behind;
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::{NAME_AT, OLD_NAME_AT, without_hidden};

    fn entry(name: &str, name_at: usize) -> Vec<u8> {
        let length = (name_at + name.len() + 2).next_multiple_of(8);
        let mut entry = vec![1; length];
        entry[16..18].copy_from_slice(&(length as u16).to_ne_bytes());
        entry[name_at..name_at + name.len()].copy_from_slice(name.as_bytes());
        entry[name_at + name.len()] = 0;
        entry
    }

    #[test]
    fn only_hidden_numbers_are_left_out() {
        for name_at in [NAME_AT, OLD_NAME_AT] {
            let list =
                |names: &[&str]| names.iter().flat_map(|name| entry(name, name_at)).collect::<Vec<_>>();
            let all = list(&[".", "..", "0", "9", "900", "09", "x9", "12"]);
            let shown = without_hidden(&all, name_at, |fd| fd == 9 || fd == 900);
            assert_eq!(shown, list(&[".", "..", "0", "09", "x9", "12"]));
            assert_eq!(without_hidden(&list(&["9"]), name_at, |fd| fd == 9), []);
            let cut = &all[..all.len() - 3];
            assert_eq!(
                without_hidden(cut, name_at, |_| false),
                all[..all.len() - entry("12", name_at).len()]
            );
        }
    }
}
