//! What gives those who run a file the rights of its owner (set-id bits, `security.capability`) goes by the mount when and only when it
//! goes on the machine's own file system: each case is played on both, and compared by errno, mode and capability.

use crate::common::{Mounted, can_mount};
use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

const USER: u32 = 65534;
const MODES: [u32; 7] = [0o777, 0o4777, 0o2777, 0o6777, 0o2767, 0o6767, 0o4666];
/// Of version 2: the capability to bind low ports.
const CAPABILITY: [u8; 20] = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const CAPABILITY_NAME: &std::ffi::CStr = c"security.capability";

/// The user that makes the change.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Actor {
    Root,
    /// Root without the capability to keep set-id bits.
    RootWithout,
    User,
}

/// The change of the file; some by a descriptor that root opened.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Action {
    Write,
    WriteByRootsDescriptor,
    WriteDirect,
    Append,
    Truncate,
    TruncateDescriptor,
    OpenTruncating,
    Allocate,
    CopyRange,
    ChangeOwnerOfNothing,
    ChangeOwnerOfNothingWhileOpen,
}

const ACTIONS: [Action; 11] = [
    Action::Write,
    Action::WriteByRootsDescriptor,
    Action::WriteDirect,
    Action::Append,
    Action::Truncate,
    Action::TruncateDescriptor,
    Action::OpenTruncating,
    Action::Allocate,
    Action::CopyRange,
    Action::ChangeOwnerOfNothing,
    Action::ChangeOwnerOfNothingWhileOpen,
];

fn checked(result: libc::c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Gives this thread, and no other, the rights of the actor.
fn become_actor(actor: Actor) {
    match actor {
        Actor::Root => {}
        Actor::RootWithout => {
            let mut header = [0x2008_0522u32, 0];
            let mut sets = [0u32; 6];
            // SAFETY: the kernel reads and writes the two arrays, which are as long as version 3 has them.
            checked(unsafe { libc::syscall(libc::SYS_capget, header.as_mut_ptr(), sets.as_mut_ptr()) })
                .unwrap();
            sets[0] &= !(1 << 4);
            // SAFETY: as before.
            checked(unsafe { libc::syscall(libc::SYS_capset, header.as_mut_ptr(), sets.as_ptr()) }).unwrap();
        }
        Actor::User => {
            // SAFETY: these calls, made directly, change the identity of the calling thread alone.
            checked(unsafe { libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<u32>()) }).unwrap();
            // SAFETY: as before.
            checked(unsafe { libc::syscall(libc::SYS_setresgid, USER, USER, USER) }).unwrap();
            // SAFETY: as before.
            checked(unsafe { libc::syscall(libc::SYS_setresuid, USER, USER, USER) }).unwrap();
        }
    }
}

fn act(action: Action, path: &Path, of_root: &File, source: &File) -> io::Result<()> {
    let open = |flags| OpenOptions::new().write(true).custom_flags(flags).open(path);
    let name = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: the kernel reads the path, which ends with a zero byte; minus one says that an owner stays.
    let chown_nothing = || checked(unsafe { libc::chown(name.as_ptr(), u32::MAX, u32::MAX) }.into());
    match action {
        Action::Write => open(0)?.write_all_at(b"x", 0),
        Action::WriteByRootsDescriptor => of_root.write_all_at(b"x", 0),
        Action::WriteDirect => {
            #[repr(align(4096))]
            struct Block([u8; 4096]);
            open(libc::O_DIRECT)?.write_all_at(&Block([1; 4096]).0, 0)
        }
        Action::Append => open(libc::O_APPEND)?.write_all_at(b"x", 0),
        // SAFETY: the kernel reads the path, which ends with a zero byte.
        Action::Truncate => checked(unsafe { libc::truncate(name.as_ptr(), 1) }.into()),
        Action::TruncateDescriptor => open(0)?.set_len(1),
        Action::OpenTruncating => open(libc::O_TRUNC).map(drop),
        Action::Allocate => {
            let file = open(0)?;
            // SAFETY: passes numbers.
            checked(unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, 8192) }.into())
        }
        Action::CopyRange => {
            let (file, null) = (open(0)?, std::ptr::null_mut());
            // SAFETY: the offsets are those of the descriptors; the rest are numbers.
            let copied =
                unsafe { libc::copy_file_range(source.as_raw_fd(), null, file.as_raw_fd(), null, 1, 0) };
            checked(copied as libc::c_long)
        }
        Action::ChangeOwnerOfNothing => chown_nothing(),
        Action::ChangeOwnerOfNothingWhileOpen => {
            let _file = open(0)?;
            chown_nothing()
        }
    }
}

fn has_capability(path: &Path) -> bool {
    let name = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: both texts end with a zero byte; nothing is written.
    unsafe { libc::getxattr(name.as_ptr(), CAPABILITY_NAME.as_ptr(), std::ptr::null_mut(), 0) > 0 }
}

/// The error number, the mode and whether there are capabilities, once `actor` has done `action` to a file in `folder`.
fn outcome(
    folder: &Path,
    actor: Actor,
    action: Action,
    mode: u32,
    capable: bool,
) -> (Option<i32>, u32, bool) {
    let path = folder.join("file");
    let _ = std::fs::remove_file(&path);
    std::fs::write(&path, "content").unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    let of_root = OpenOptions::new().write(true).open(&path).unwrap();
    let source = File::open(folder.join("source")).unwrap();
    if capable {
        let name = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
        let (value, bytes) = (CAPABILITY.as_ptr().cast(), CAPABILITY.len());
        // SAFETY: the texts end with a zero byte, and the value is as long as said.
        checked(unsafe { libc::setxattr(name.as_ptr(), CAPABILITY_NAME.as_ptr(), value, bytes, 0) }.into())
            .unwrap();
    }
    let ended = std::thread::scope(|scope| {
        let acting = scope.spawn(|| {
            become_actor(actor);
            act(action, &path, &of_root, &source)
        });
        acting.join().unwrap()
    });
    let errno = ended.err().map(|error| error.raw_os_error().unwrap());
    (errno, std::fs::metadata(&path).unwrap().mode() & 0o7777, has_capability(&path))
}

#[test]
fn rights_of_a_file_s_owner_go_when_they_go_elsewhere() {
    if !can_mount() {
        return;
    }
    let (mounted, local) = (Mounted::new(), tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap());
    let folders = [
        mounted.at().to_path_buf(),
        std::path::PathBuf::from(format!("/proc/self/fd/{}", {
            // A user may not pass the folders above.
            let folder = File::open(local.path()).unwrap();
            std::os::fd::IntoRawFd::into_raw_fd(folder)
        })),
    ];
    for folder in &folders {
        std::fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
        std::fs::write(folder.join("source"), "source").unwrap();
    }
    let mut wrong = Vec::new();
    for actor in [Actor::Root, Actor::RootWithout, Actor::User] {
        for action in ACTIONS {
            for (mode, capable) in MODES.into_iter().flat_map(|mode| [(mode, false), (mode, true)]) {
                let [ours, theirs] =
                    [0, 1].map(|index: usize| outcome(&folders[index], actor, action, mode, capable));
                if ours != theirs {
                    wrong.push(format!(
                        "{actor:?} {action:?} {mode:o} {capable}: {ours:x?}, elsewhere {theirs:x?}"
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
