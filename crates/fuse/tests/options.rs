//! Options of a mount that the door sees to take effect, also those that a remount brings.

use crate::common::{Mounted, can_mount};
use rustix::mount::{MountFlags, mount_remount};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

fn accessed(path: &Path) -> (i64, i64) {
    let found = std::fs::metadata(path).unwrap();
    (found.atime(), found.atime_nsec())
}

/// Whether reading a file, or a folder, moves its time of last access.
fn moves(path: &Path) -> bool {
    let before = accessed(path);
    // Past the tick that the time before is of.
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(15) {
        std::hint::spin_loop();
    }
    // The kernel reads neither from what it keeps: the file is opened past its cache, and no listing is kept.
    if path.is_dir() {
        std::fs::read_dir(path).unwrap().count();
    } else {
        let file = rustix::fs::open(
            path,
            rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::APPEND,
            rustix::fs::Mode::empty(),
        )
        .unwrap();
        assert_eq!(rustix::io::pread(&file, &mut [0; 8], 0).unwrap(), 7);
    }
    accessed(path) != before
}

#[test]
fn access_times_move_as_the_mount_says_now() {
    if !can_mount() {
        return;
    }
    let mounted = Mounted::new();
    let (file, folder) = (mounted.path("file"), mounted.path("folder"));
    std::fs::write(&file, "content").unwrap();
    std::fs::create_dir(&folder).unwrap();
    assert!(moves(&file), "relatime: not read since the change");
    assert!(moves(&folder), "relatime: not read since the change");
    for (flags, of_file, of_folder) in [
        (MountFlags::NOATIME, false, false),
        (MountFlags::STRICTATIME, true, true),
        (MountFlags::STRICTATIME | MountFlags::NODIRATIME, true, false),
        (MountFlags::RELATIME, false, false),
        (MountFlags::STRICTATIME | MountFlags::RDONLY, false, false),
        (MountFlags::STRICTATIME, true, true),
    ] {
        mount_remount(mounted.at(), flags, c"").unwrap();
        // The door hears of it from the kernel's list of mounts.
        let begin = Instant::now();
        while (moves(&file), moves(&folder)) != (of_file, of_folder) {
            assert!(begin.elapsed() < Duration::from_secs(30), "{flags:?}");
        }
    }
}
