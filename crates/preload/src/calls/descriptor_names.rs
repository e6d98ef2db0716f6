//! Paths that name one of our descriptors: `/proc/self/fd/N`, `/dev/fd/N`, `/dev/stdin`; and `/proc/self/cwd`.
//!
//! In the kernel such a path leads to the placeholder, which is the wrong file. What follows it means the
//! file behind the descriptor, as it is now; what does not (`lstat`, `unlink`) means the link, which the
//! kernel has.

use cuesta_format::{FileKind, InodeNumber};
use cuesta_libfs::{Credentials, Error};

use super::names::Opened;
use super::path::{self, Walk};
use super::{Call, Failure, running};
use crate::descriptors::{self, Pin};
use crate::store::{Base, Client, OpenFile};
use crate::user_memory::UserPath;
use crate::{credentials, process, working_directory};

/// What the kernel puts behind the name of a file that has none any more.
const DELETED: &[u8] = b" (deleted)";
const READ: u32 = libc::R_OK as u32;
const WRITE: u32 = libc::W_OK as u32;
/// The flags that mean something together with `O_PATH`.
const PATH_FLAGS: i32 = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;

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

/// Whether `path` names the list of this process's descriptors, whose size says how many there are.
pub fn is_own_list(path: &[u8]) -> bool {
    let Some(path) = path::normal(path).filter(|path| path.ends_with(b"/fd")) else { return false };
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
    path::normal(path).is_some_and(|path| is_own_link(&path, b"/exe"))
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

/// The description that the path at argument `path` of `call` names.
pub fn itself(call: &Call, path: usize) -> Result<Pin, Failure> {
    let path = UserPath::read(call.word(path))?;
    match passed(path.as_bytes()) {
        Some((pin, b"")) => Ok(pin),
        _ => Err(Failure::NotOurs),
    }
}

/// What the link at argument `path` says: where the file was opened.
pub fn target(call: &Call, path: usize) -> Result<Vec<u8>, Failure> {
    if let Some(program) = process::program()
        && names_program(UserPath::read(call.word(path))?.as_bytes())
    {
        let is_gone = process::client().is_ok_and(|client| is_gone(client, running::own_inode(client)));
        return Ok([program, if is_gone { DELETED } else { b"" }].concat());
    }
    let pin = itself(call, path)?;
    // The names of the standard streams are links to links.
    let is_stream = path::normal(UserPath::read(call.word(path))?.as_bytes())
        .is_some_and(|path| path.starts_with(b"/dev/std"));
    if is_stream {
        return Err(Failure::NotOurs);
    }
    let mut target = process::configuration()?.prefix.clone();
    target.extend_from_slice(pin.path());
    if process::client()?.stat_open(pin.file()?)?.record.links == 0 {
        target.extend_from_slice(DELETED);
    }
    Ok(target)
}

/// Whether the inode has no name any more.
fn is_gone(client: &Client, inode: Option<InodeNumber>) -> bool {
    let Some(inode) = inode else { return false };
    let file = match client.reopen_number(&credentials::effective(), inode, libc::O_PATH, 0) {
        Ok(file) => file,
        Err(error) => return error != Error::Denied,
    };
    let is_gone = client.stat_open(&file).is_ok_and(|stat| stat.record.links == 0);
    let _ = client.close(file);
    is_gone
}

/// Whether `credentials` have `rights` to the file.
pub fn check(pin: &Pin, credentials: &Credentials, rights: u32) -> Result<(), Failure> {
    let client = process::client()?;
    let file = pin.file()?;
    if file.kind() == FileKind::Directory {
        return Ok(client.access(credentials, Base::Directory(file), b".", rights, true)?);
    }
    Ok(client.access_open(credentials, file, rights)?)
}

/// The file behind a description, for a purpose its flags do not allow; no rights are checked.
pub fn reopen(pin: &Pin, flags: i32) -> Result<OpenFile, Failure> {
    Ok(process::client()?.reopen(&credentials::effective(), pin.file()?, flags)?)
}

/// Opens what is behind a description once more, as by a path to it.
pub fn open(pin: &Pin, flags: i32) -> Result<Opened, Failure> {
    let name = pin.path().to_vec();
    let (client, credentials) = (process::client()?, credentials::effective());
    let file = pin.file()?;
    if file.kind() == FileKind::Directory {
        let file = client.open(&credentials, Base::Directory(file), b".", flags, 0)?;
        return Ok(Opened::File(file, name));
    }
    if flags & libc::O_DIRECTORY != 0 {
        return Err(Failure::Errno(libc::ENOTDIR));
    }
    if flags & libc::O_PATH != 0 {
        return Ok(Opened::File(reopen(pin, flags & PATH_FLAGS)?, name));
    }
    match file.kind() {
        FileKind::File | FileKind::Fifo => {}
        FileKind::Symlink => return Err(Failure::Errno(libc::ELOOP)),
        FileKind::Socket => return Err(Failure::Errno(libc::ENXIO)),
        FileKind::CharacterDevice | FileKind::BlockDevice => return Ok(Opened::Device(file.inode(), name)),
        FileKind::Directory => return Err(Failure::Errno(libc::EISDIR)),
    }
    let truncates = flags & libc::O_TRUNC != 0;
    let rights = match flags & libc::O_ACCMODE {
        libc::O_RDONLY if truncates => READ | WRITE,
        libc::O_RDONLY => READ,
        libc::O_WRONLY => WRITE,
        // The fourth way, which neither reads nor writes, takes both rights as well.
        _ => READ | WRITE,
    };
    check(pin, &credentials, rights)?;
    if flags & libc::O_NOATIME != 0 && !credentials.owns(&client.stat_open(file)?.record) {
        return Err(Failure::Errno(libc::EPERM));
    }
    if file.kind() == FileKind::Fifo {
        return Ok(Opened::Pipe(file.inode(), name));
    }
    if rights & WRITE != 0 {
        client.check_not_running(&client.stat_open(file)?.record)?;
    }
    if truncates {
        set_size(pin, 0)?;
    }
    Ok(Opened::File(reopen(pin, flags)?, name))
}

/// Sets the size of the file behind a description, as by a path to it.
pub fn truncate(pin: &Pin, size: i64) -> Result<(), Failure> {
    match pin.file()?.kind() {
        _ if size < 0 => Err(Failure::Errno(libc::EINVAL)),
        FileKind::File => {
            check(pin, &credentials::effective(), WRITE)?;
            let client = process::client()?;
            client.check_not_running(&client.stat_open(pin.file()?)?.record)?;
            set_size(pin, size)
        }
        FileKind::Directory => Err(Failure::Errno(libc::EISDIR)),
        _ => Err(Failure::Errno(libc::EINVAL)),
    }
}

fn set_size(pin: &Pin, size: i64) -> Result<(), Failure> {
    let client = process::client()?;
    let file = reopen(pin, libc::O_WRONLY)?;
    let answer = client.truncate_open(&file, size);
    client.close(file)?;
    Ok(answer?)
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
