//! A snapshot of a player: its descriptors and the files of the fixture, taken after each call.
//! Changes since the last one are told, so that a difference shows at the call that makes it.

use super::fixture::OLD_SECONDS;
use std::ffi::CString;
use std::fmt::Write;

/// Descriptors looked at.
const DESCRIPTORS: usize = 64;
/// Files looked at: in the directory of the sequence, then outside.
const INSIDE: &[&str] = &[
    "", "f", "g", "h", "empty", "d", "d/a", "d/b", "l", "ld", "loop", "dangling", "p", "s", "sparse", "suid",
    "secret", "new1", "new2", "new3", "d/new1", "d/b/new2",
];
const OUTSIDE: &[&str] = &["", "f", "g", "d", "d/a", "back", "new1"];

#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Descriptor {
    flags: i32,
    status: i32,
    offset: i64,
    waiting: i32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct File {
    mode: u32,
    links: u64,
    owner: [u32; 2],
    size: i64,
    changed: (i64, i64),
    modified: (i64, i64),
}

/// All that is looked at.
pub struct Snapshot {
    descriptors: Vec<Option<Descriptor>>,
    files: Vec<(String, CString, Option<File>)>,
    directory: Option<Vec<u8>>,
    umask: u32,
}

/// A time of a file: that of the fixture, one of now, or one that a call has set.
pub fn time(seconds: i64, nanoseconds: i64) -> String {
    match seconds {
        OLD_SECONDS if nanoseconds == 0 => "old".to_owned(),
        1_700_000_000..3_900_000_000 => "now".to_owned(),
        _ => format!("{seconds}.{nanoseconds}"),
    }
}

fn descriptor(fd: i32) -> Option<Descriptor> {
    // SAFETY: asks about a descriptor, of whatever there may be.
    unsafe {
        let flags = libc::fcntl(fd, libc::F_GETFD);
        if flags < 0 {
            return None;
        }
        let mut found = std::mem::zeroed::<libc::stat>();
        let kind = if libc::fstat(fd, &raw mut found) == 0 { found.st_mode & libc::S_IFMT } else { 0 };
        let mut waiting = -1;
        if matches!(kind, libc::S_IFIFO | libc::S_IFSOCK) {
            libc::ioctl(fd, libc::FIONREAD, &raw mut waiting);
        }
        // A position in a directory means something to its file system only.
        let offset = match (kind, libc::lseek(fd, 0, libc::SEEK_CUR)) {
            (libc::S_IFDIR, offset) => i64::from(offset > 0),
            (_, offset) => offset,
        };
        Some(Descriptor { flags, status: libc::fcntl(fd, libc::F_GETFL), offset, waiting })
    }
}

fn file(path: &CString) -> Option<File> {
    // SAFETY: a path that ends with a zero, and where the answer goes.
    let found = unsafe {
        let mut found = std::mem::zeroed::<libc::stat>();
        (libc::lstat(path.as_ptr(), &raw mut found) == 0).then_some(found)?
    };
    let is_directory = found.st_mode & libc::S_IFMT == libc::S_IFDIR;
    Some(File {
        mode: found.st_mode,
        links: found.st_nlink,
        owner: [found.st_uid, found.st_gid],
        size: if is_directory { 0 } else { found.st_size },
        changed: (found.st_ctime, found.st_ctime_nsec),
        modified: (found.st_mtime, found.st_mtime_nsec),
    })
}

fn working_directory() -> Option<Vec<u8>> {
    let mut name = [0u8; 4096];
    // SAFETY: room of this length.
    let answer = unsafe { libc::syscall(libc::SYS_getcwd, name.as_mut_ptr(), name.len()) };
    (answer > 0).then(|| name[..answer as usize - 1].to_vec())
}

fn umask() -> u32 {
    // SAFETY: sets it and sets it back.
    unsafe {
        let umask = libc::umask(0);
        libc::umask(umask);
        umask
    }
}

impl Snapshot {
    /// The first.
    #[must_use]
    pub fn new(
        inside: &str,
        outside: &str,
        told: &mut String,
        same_name: &dyn Fn(Vec<u8>) -> Vec<u8>,
    ) -> Snapshot {
        let named = |directory: &str, names: &[&str], shown: &str| -> Vec<_> {
            let path = |name: &str| CString::new(format!("{directory}/{name}")).unwrap_or_default();
            names.iter().map(|name| (format!("{shown}/{name}"), path(name), None)).collect()
        };
        let mut files = named(inside, INSIDE, "");
        files.extend(named(outside, OUTSIDE, "outside"));
        let mut first = Snapshot { descriptors: vec![None; DESCRIPTORS], files, directory: None, umask: 0 };
        first.update(told, false, same_name);
        first
    }

    /// Looks again, and tells what is not as it was; `with_times`, which of a file's times changed as well.
    pub fn update(&mut self, told: &mut String, with_times: bool, same_name: &dyn Fn(Vec<u8>) -> Vec<u8>) {
        for (fd, before) in self.descriptors.iter_mut().enumerate() {
            let now = descriptor(fd as i32);
            if now != *before {
                let _ = match now {
                    None => writeln!(told, "  descriptor {fd}: closed"),
                    Some(now) => writeln!(
                        told,
                        "  descriptor {fd}: flags {:#x} status {:#x} offset {} waiting {}",
                        now.flags, now.status, now.offset, now.waiting
                    ),
                };
                *before = now;
            }
        }
        for (name, path, before) in &mut self.files {
            let now = file(path);
            let without = |file: File| File { changed: (0, 0), modified: (0, 0), ..file };
            let time_of = |file: File| time(file.modified.0, file.modified.1);
            let is_same = match (now, *before) {
                (Some(now), Some(before)) if !with_times => {
                    without(now) == without(before) && time_of(now) == time_of(before)
                }
                (now, before) => now == before,
            };
            if is_same {
                *before = now;
                continue;
            }
            let other = |time: fn(File) -> (i64, i64)| {
                with_times && before.is_some_and(|before| now.is_some_and(|now| time(before) != time(now)))
            };
            let (is_changed, is_modified) = (other(|file| file.changed), other(|file| file.modified));
            let _ = match (now, *before) {
                (None, _) => writeln!(told, "  {name}: gone"),
                (Some(now), _) => writeln!(
                    told,
                    "  {name}: {:o} links {} owner {}:{} size {} {} {}{}",
                    now.mode,
                    now.links,
                    now.owner[0],
                    now.owner[1],
                    now.size,
                    time(now.modified.0, now.modified.1),
                    if is_changed { "changed" } else { "" },
                    if is_modified { " modified" } else { "" },
                ),
            };
            *before = now;
        }
        let (directory, umask) = (working_directory(), umask());
        if directory != self.directory {
            let shown = directory.clone().map(same_name);
            let shown =
                shown.map_or_else(|| "none".to_owned(), |name| String::from_utf8_lossy(&name).into_owned());
            let _ = writeln!(told, "  working directory {shown}");
            self.directory = directory;
        }
        if umask != self.umask {
            let _ = writeln!(told, "  umask {umask:o}");
            self.umask = umask;
        }
    }
}
