//! Paths that name descriptors of this process: `/proc/self/fd/N`, `/dev/fd/N`, `/dev/stdin`; and `/proc/self/cwd`.

use crate::calls::paths::prefix::{self, Walk};
use crate::descriptors::{self, Pin, working_directory};

/// A descriptor on the way of a path.
#[derive(Debug)]
pub enum Passed<'a> {
    /// One of ours, and what is asked for there (empty: the file itself).
    Ours(Pin, &'a [u8]),
    /// One of this library's own: to the application there is no such thing.
    Hidden,
}

/// The first descriptor of the store's or of this library's that absolute `path` passes through.
pub fn first_passed(path: &[u8]) -> Option<Passed<'_>> {
    let mut walk = Walk::new(path)?;
    while walk.step() {
        if names_directory(&walk.passed)
            && let Some(pin) = working_directory::pin()
        {
            let is_directory = walk.rest.is_empty() && path.ends_with(b"/");
            return Some(Passed::Ours(pin, if is_directory { b"." } else { walk.rest }));
        }
        let Some(fd) = number(&walk.passed) else {
            match listed(&walk.passed, b"fdinfo") {
                Some(fd) if descriptors::is_hidden(fd) => return Some(Passed::Hidden),
                _ => continue,
            }
        };
        if let Some(pin) = descriptors::pin(fd) {
            let is_directory = walk.rest.is_empty() && path.ends_with(b"/");
            return Some(Passed::Ours(pin, if is_directory { b"." } else { walk.rest }));
        }
        if descriptors::is_hidden(fd) {
            return Some(Passed::Hidden);
        }
    }
    None
}

/// The description that absolute `path` passes through, and what it asks for there (empty: the file itself).
pub fn passed(path: &[u8]) -> Option<(Pin, &[u8])> {
    match first_passed(path)? {
        Passed::Ours(pin, rest) => Some((pin, rest)),
        Passed::Hidden => None,
    }
}

/// Whether the folder that the kernel calls `path` lists this process's descriptors.
pub fn lists_own(path: &[u8]) -> bool {
    let own = format!("/proc/{}/", rustix::process::getpid().as_raw_nonzero());
    let folder = path.strip_prefix(own.as_bytes());
    let Some(folder) = folder else { return false };
    let of_thread =
        folder.strip_prefix(b"task/").and_then(|rest| rest.splitn(2, |byte| *byte == b'/').nth(1));
    matches!(of_thread.unwrap_or(folder), b"fd" | b"fdinfo")
}

/// Whether `path` names the list of this process's descriptors. The list's size says how many there are.
pub fn is_own_list(path: &[u8]) -> bool {
    let Some(path) = prefix::normal(path).filter(|path| path.ends_with(b"/fd")) else { return false };
    lists_own(&path) || matches!(&path[..], b"/proc/self/fd" | b"/proc/thread-self/fd")
}

/// The descriptor that a normal path names.
fn number(path: &[u8]) -> Option<i32> {
    match path {
        b"/dev/stdin" => return Some(libc::STDIN_FILENO),
        b"/dev/stdout" => return Some(libc::STDOUT_FILENO),
        b"/dev/stderr" => return Some(libc::STDERR_FILENO),
        _ => {}
    }
    match path.strip_prefix(b"/dev/fd/") {
        Some(name) => decimal(name),
        None => listed(path, b"fd"),
    }
}

/// The descriptor about which `list` of this process, or of a thread of its, says something at a normal path.
fn listed(path: &[u8], list: &[u8]) -> Option<i32> {
    let name = path.iter().rposition(|byte| *byte == b'/')? + 1;
    let folder = path[..name - 1].strip_prefix(b"/proc/")?.strip_suffix(list)?.strip_suffix(b"/")?;
    let mut parts = folder.split(|byte| *byte == b'/');
    let process = parts.next()?;
    let is_own = process == b"self"
        || process == b"thread-self"
        || decimal(process) == Some(rustix::process::getpid().as_raw_nonzero().get());
    let is_thread = match (parts.next(), parts.next(), parts.next()) {
        (None, ..) => true,
        (Some(b"task"), Some(thread), None) => process != b"thread-self" && decimal(thread).is_some(),
        _ => false,
    };
    if is_own && is_thread { decimal(&path[name..]) } else { None }
}

/// Whether `path` is the link to this process's program.
pub fn names_program(path: &[u8]) -> bool {
    prefix::normal(path).is_some_and(|path| is_own_link(&path, b"/exe"))
}

/// Whether the kernel calls `path` the link to this process's working directory.
fn names_directory(path: &[u8]) -> bool {
    is_own_link(path, b"/cwd")
}

/// Whether a normal path is this process's link of that name.
fn is_own_link(path: &[u8], link: &[u8]) -> bool {
    let process = path.strip_suffix(link).and_then(|folder| folder.strip_prefix(b"/proc/"));
    process.is_some_and(|process| {
        process == b"self"
            || process == b"thread-self"
            || decimal(process) == Some(rustix::process::getpid().as_raw_nonzero().get())
    })
}

/// A number as the kernel writes it.
pub fn decimal(digits: &[u8]) -> Option<i32> {
    let is_plain =
        digits.iter().all(u8::is_ascii_digit) && (digits.len() == 1 || digits.first() != Some(&b'0'));
    if is_plain { std::str::from_utf8(digits).ok()?.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn a_descriptor_is_named_by_plain_digits_in_a_folder_of_this_process() {
        let own = format!("/proc/{}/fd/12", std::process::id());
        for path in
            ["/proc/self/fd/12", "/proc/thread-self/fd/12", "/proc/self/task/77/fd/12", "/dev/fd/12", &own]
        {
            assert_eq!(number(path.as_bytes()), Some(12), "{path}");
        }
        assert_eq!(number(b"/dev/stdin"), Some(0));
        assert_eq!(number(b"/dev/fd/0"), Some(0));
        let others = [
            "/proc/self/fd",
            "/proc/self/task/fd/3",
            "/proc/self/tasks/1/fd/3",
            "/dev/fd/",
            "/dev/fd/01",
            "/dev/fd/+1",
            "/dev/fd/99999999999",
            "/proc/1x/fd/2",
        ];
        for path in
            others.into_iter().chain(["/proc/self/fdinfo/3", "/dev/null", "/proc/4294967296/fd/1", "/3"])
        {
            assert_eq!(number(path.as_bytes()), None, "{path}");
        }
    }
}
