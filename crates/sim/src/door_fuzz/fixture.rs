//! What each sequence starts with: the files, which the player makes, and the descriptors, which its child opens.

use super::place::{self, PAGE, ROOM, ROOM_BYTES};
use std::ffi::CString;
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::Path;

/// When all files were last changed.
pub const OLD_SECONDS: i64 = 1_000_000_000;

/// The directory of the sequence and the one outside.
#[derive(Clone, Debug)]
pub struct Directories {
    /// Where sequences start, in the store or on the disk.
    pub inside: String,
    /// On another file system.
    pub outside: String,
}

/// Content by which a wrong offset shows.
fn content(bytes: usize, seed: u64) -> Vec<u8> {
    (0..bytes as u64).map(|index| ((index * 31 + index / 251 + seed) % 251) as u8).collect()
}

fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    std::fs::write(path, bytes)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

/// Removes what a directory holds, and makes it anew.
fn fresh(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Ok(found) if found.is_dir() => {
            open_up(path);
            std::fs::remove_dir_all(path)?;
        }
        Ok(_) => std::fs::remove_file(path)?,
        Err(_) => {}
    }
    std::fs::create_dir(path)
}

/// Directories that their user may not enter cannot be emptied.
fn open_up(path: &Path) {
    let _ = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700));
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

/// Removes the extended attributes of a directory that stays.
fn strip(path: &CString) {
    let mut names = vec![0u8; 1 << 16];
    // SAFETY: a path that ends with a zero, and a buffer of this length.
    let listed = unsafe { libc::llistxattr(path.as_ptr(), names.as_mut_ptr().cast(), names.len()) };
    for name in names[..listed.max(0) as usize].split_inclusive(|byte| *byte == 0) {
        // SAFETY: a path and a name that end with a zero.
        unsafe { libc::lremovexattr(path.as_ptr(), name.as_ptr().cast()) };
    }
}

fn path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_encoded_bytes()).unwrap_or_default()
}

fn age(path: &CString) -> io::Result<()> {
    let old = libc::timespec { tv_sec: OLD_SECONDS, tv_nsec: 0 };
    // SAFETY: a path that ends with a zero, and two times.
    let answer = unsafe {
        libc::utimensat(libc::AT_FDCWD, path.as_ptr(), [old, old].as_ptr(), libc::AT_SYMLINK_NOFOLLOW)
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes the files.
///
/// # Errors
///
/// Something of the last sequence cannot be removed, or a file not be made.
pub fn make(directories: &Directories) -> io::Result<()> {
    let (inside, outside) = (Path::new(&directories.inside), Path::new(&directories.outside));
    for directory in [inside, outside] {
        directory.parent().into_iter().for_each(|above| strip(&path(above)));
        fresh(directory)?;
        write(&directory.join("f"), &content(10_000, 7), 0o644)?;
        write(&directory.join("g"), &content(100, 9), 0o640)?;
        std::fs::create_dir(directory.join("d"))?;
        write(&directory.join("d/a"), &content(5000, 3), 0o600)?;
    }
    write(&inside.join("empty"), b"", 0o644)?;
    write(&inside.join("suid"), b"#!/nothing\n", 0o4755)?;
    std::fs::create_dir(inside.join("d/b"))?;
    std::fs::create_dir(inside.join("secret"))?;
    write(&inside.join("secret/x"), b"x", 0o000)?;
    std::fs::hard_link(inside.join("g"), inside.join("h"))?;
    for (target, name) in [("f", "l"), ("d", "ld"), ("loop", "loop"), ("nothing", "dangling")] {
        symlink(target, inside.join(name))?;
    }
    symlink(outside, inside.join("outside"))?;
    symlink(inside.join("d"), outside.join("back"))?;
    let sparse =
        std::fs::OpenOptions::new().create_new(true).write(true).mode(0o644).open(inside.join("sparse"))?;
    std::os::unix::fs::FileExt::write_all_at(&sparse, &content(4096, 1), 65_536)?;
    sparse.set_len(200_000)?;
    for (name, kind) in [("p", libc::S_IFIFO), ("s", libc::S_IFSOCK)] {
        // SAFETY: a path that ends with a zero.
        if unsafe { libc::mknod(path(&inside.join(name)).as_ptr(), kind | 0o600, 0) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    let value = content(20, 5);
    // SAFETY: a path and a name that end with a zero, and a value of this length.
    let answer = unsafe {
        libc::setxattr(path(&inside.join("f")).as_ptr(), c"user.a".as_ptr(), value.as_ptr().cast(), 20, 0)
    };
    if answer != 0 {
        return Err(io::Error::last_os_error());
    }
    std::fs::set_permissions(inside.join("secret"), std::fs::Permissions::from_mode(0o000))?;
    for name in [
        "f", "g", "empty", "suid", "d/a", "d/b", "d", "l", "ld", "loop", "dangling", "outside", "sparse",
        "p", "s", "secret", "",
    ] {
        age(&path(&inside.join(name)))?;
    }
    for name in ["f", "g", "d/a", "d", "back", ""] {
        age(&path(&outside.join(name)))?;
    }
    Ok(())
}

/// Opens the descriptors, 0 to 33, in a child that has none but those of this library; `said` becomes standard error.
pub fn open(said: i32) {
    let open = |path: &std::ffi::CStr, flags: i32| {
        // SAFETY: a path that ends with a zero.
        unsafe { libc::open(path.as_ptr(), flags, 0o644) };
    };
    // SAFETY: descriptors of this child, which nothing else of it uses; memory of this function.
    unsafe {
        libc::dup2(said, 2);
        libc::close(0);
        libc::close(1);
        libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0);
    }
    open(c"/dev/null", libc::O_RDONLY);
    open(c"/dev/null", libc::O_WRONLY);
    for (path, flags) in [
        (c"f", libc::O_RDWR),
        (c"f", libc::O_RDONLY),
        (c"g", libc::O_WRONLY | libc::O_APPEND),
        (c".", libc::O_RDONLY),
        (c"d", libc::O_RDONLY),
        (c"f", libc::O_PATH),
        (c"d", libc::O_PATH),
        (c"l", libc::O_PATH | libc::O_NOFOLLOW),
        (c"outside/f", libc::O_RDWR),
        (c"outside", libc::O_RDONLY),
        (c"outside/g", libc::O_WRONLY | libc::O_APPEND),
    ] {
        open(path, flags);
    }
    let mut pair = [0; 2];
    // SAFETY: as above.
    unsafe {
        libc::pipe2(pair.as_mut_ptr(), libc::O_NONBLOCK);
        libc::write(pair[1], c"what lies in the pipe".as_ptr().cast(), 21);
        libc::pipe2(pair.as_mut_ptr(), libc::O_NONBLOCK);
        libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_NONBLOCK, 0, pair.as_mut_ptr());
    }
    open(c"p", libc::O_RDWR | libc::O_NONBLOCK);
    // SAFETY: as above.
    unsafe {
        libc::eventfd(3, libc::EFD_NONBLOCK);
        libc::epoll_create1(0);
        libc::inotify_init1(libc::IN_NONBLOCK);
        let memory = libc::memfd_create(c"memory".as_ptr(), libc::MFD_ALLOW_SEALING);
        libc::write(memory, c"in memory".as_ptr().cast(), 9);
    }
    open(c"/dev/null", libc::O_RDWR);
    open(c"/dev/zero", libc::O_RDWR);
    open(c"sparse", libc::O_RDWR);
    open(c"outside/f", libc::O_PATH);
    open(c"d/a", libc::O_WRONLY);
    open(c"f", libc::O_RDWR | libc::O_APPEND);
    open(c"outside/d", libc::O_RDONLY | libc::O_DIRECTORY);
    open(c"outside/d/a", libc::O_RDONLY);
    open(c"empty", libc::O_RDWR);
}

/// Fills the first and last pages of the room, where results go.
pub fn fill(pages: u64) {
    for start in [ROOM, ROOM + ROOM_BYTES - pages * PAGE] {
        for index in 0..pages * PAGE / 8 {
            // SAFETY: the room is mapped, and its pages can be written.
            unsafe { ((start + index * 8) as *mut u64).write(0x6162_6364_6566_6768 + index) };
        }
    }
}

/// Maps the player's memory.
///
/// # Errors
///
/// Something lies there already.
pub fn map() -> io::Result<()> {
    let fixed = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    for (start, bytes, protection) in [
        (ROOM, ROOM_BYTES, libc::PROT_READ | libc::PROT_WRITE),
        (place::READ_ONLY, PAGE, libc::PROT_READ),
        (place::CLOSED, PAGE, libc::PROT_NONE),
        (place::WORDS, 6 * PAGE, libc::PROT_READ | libc::PROT_WRITE),
        (place::PATHS, 12 * PAGE, libc::PROT_READ | libc::PROT_WRITE),
    ] {
        // SAFETY: nothing that is mapped is replaced.
        let at = unsafe { libc::mmap(start as *mut _, bytes as usize, protection, fixed, -1, 0) };
        if at as u64 != start {
            return Err(io::Error::last_os_error());
        }
    }
    fill(ROOM_BYTES / PAGE / 2);
    Ok(())
}
