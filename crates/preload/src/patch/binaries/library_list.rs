//! The dynamic loader's list of libraries (`/etc/ld.so.cache`), with one of them elsewhere.
//!
//! ```text
//!   magic | count | … | entries: flags, name, path, …, | strings
//! ```
//!
//! Names and paths are places in the file. The new path goes to its end; everything else stays what and where it is.

/// Where the loader has it.
pub const PATH: &std::ffi::CStr = c"/etc/ld.so.cache";

const MAGIC: &[u8; 20] = b"glibc-ld.so.cache1.1";
const COUNT: usize = 20;
const ENTRIES: usize = 48;
const ENTRY_BYTES: usize = 24;
/// A library for this processor's 64-bit programs.
const FLAGS: u32 = 0x0303;

/// The list in `file` with the library at the path `from` at the path `to`; `None` if it is not there, or the list is
/// in another form.
pub fn with_library_at(file: &[u8], from: &[u8], to: &[u8]) -> Option<Vec<u8>> {
    if !file.starts_with(MAGIC) {
        return None;
    }
    let count = usize::try_from(word(file, COUNT)?).ok()?;
    let mut list = file.to_vec();
    let place = u32::try_from(list.len()).ok()?;
    list.extend_from_slice(to);
    list.push(0);
    let mut is_found = false;
    for entry in (0..count).map(|index| ENTRIES + index * ENTRY_BYTES) {
        let path = file.get(usize::try_from(word(file, entry + 8)?).ok()?..)?;
        if word(file, entry)? == FLAGS && path.strip_prefix(from).is_some_and(|rest| rest.first() == Some(&0))
        {
            list[entry + 8..entry + 12].copy_from_slice(&place.to_le_bytes());
            is_found = true;
        }
    }
    is_found.then_some(list)
}

fn word(file: &[u8], at: usize) -> Option<u32> {
    file.get(at..at.checked_add(4)?)?.try_into().ok().map(u32::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn string(list: &[u8], entry: usize, field: usize) -> &[u8] {
        let at = word(list, ENTRIES + entry * ENTRY_BYTES + field).expect("a field") as usize;
        list[at..].split(|byte| *byte == 0).next().expect("a string")
    }

    fn list(entries: &[(u32, &[u8], &[u8])]) -> Vec<u8> {
        let mut list = MAGIC.to_vec();
        list.extend_from_slice(&(entries.len() as u32).to_le_bytes());
        list.resize(ENTRIES + entries.len() * ENTRY_BYTES, 0);
        for (index, (flags, name, path)) in entries.iter().enumerate() {
            let at = ENTRIES + index * ENTRY_BYTES;
            list[at..at + 4].copy_from_slice(&flags.to_le_bytes());
            for (field, text) in [(4, name), (8, path)] {
                let place = list.len() as u32;
                list[at + field..at + field + 4].copy_from_slice(&place.to_le_bytes());
                list.extend_from_slice(text);
                list.push(0);
            }
        }
        list
    }

    #[test]
    fn one_library_is_elsewhere_and_all_others_are_where_they_were() {
        let list = list(&[
            (FLAGS, b"libm.so.6", b"/lib/libm.so.6"),
            (FLAGS, b"libc.so.6", b"/lib/libc.so.6"),
            (3, b"libc.so.6", b"/lib/libc.so.6"),
            (FLAGS, b"libc.so.60", b"/lib/libc.so.60"),
        ]);
        let new = with_library_at(&list, b"/lib/libc.so.6", b"/tmp/ours").expect("it is there");
        let paths: Vec<&[u8]> = (0..4).map(|entry| string(&new, entry, 8)).collect();
        assert_eq!(paths, [&b"/lib/libm.so.6"[..], b"/tmp/ours", b"/lib/libc.so.6", b"/lib/libc.so.60"]);
        assert!((0..4).all(|entry| string(&new, entry, 4) == string(&list, entry, 4)));
        assert_eq!(with_library_at(&list, b"/lib/libd.so.6", b"/tmp/ours"), None);
    }

    #[test]
    fn a_list_that_is_cut_off_or_of_another_form_is_refused() {
        let list = list(&[(FLAGS, b"libc.so.6", b"/lib/libc.so.6")]);
        for end in 0..list.len() - 1 {
            assert_eq!(with_library_at(&list[..end], b"/lib/libc.so.6", b"/tmp/ours"), None, "{end}");
        }
        assert_eq!(with_library_at(b"ld.so-1.7.0", b"/lib/libc.so.6", b"/tmp/ours"), None);
    }
}
