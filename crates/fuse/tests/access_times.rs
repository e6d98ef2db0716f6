//! Times of last access by both doors: a read moves one that lies before the last change, every door shows what it moved to, and
//! the store keeps it.

use crate::common::{Mounted, ROOT, can_mount};
use cuesta_format::Timestamp;
use cuesta_libfs::{Base, Client, SetAttributes, SetTime, Target};
use cuesta_media::{UserSlice, UserSliceMut};
use cuesta_sharedfs::Ship;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

/// Long ago, in seconds.
const LONG_AGO: i64 = 1_000_000_000;
const CONTENT: &[u8] = &[7; 4096];

fn at_name(name: &str) -> Target<'_> {
    Target::Path { base: Base::Root, path: name.as_bytes(), follow: false }
}

/// It was read long ago, and before that changed.
fn set_unread(session: &Client, name: &str) {
    let long_ago = SetTime::To(Timestamp::new(LONG_AGO, 0));
    let set = SetAttributes { accessed: long_ago, modified: long_ago, ..SetAttributes::default() };
    session.set_attributes(&ROOT, at_name(name), set).unwrap();
    // A read in the same tick would not be behind that change.
    let changed = now();
    while now() == changed {}
}

fn by_session(session: &Client, name: &str) -> Timestamp {
    session.stat(&ROOT, Base::Root, name.as_bytes(), false).unwrap().record.accessed
}

fn by_mount(path: &Path) -> Timestamp {
    let found = std::fs::symlink_metadata(path).unwrap();
    Timestamp::new(found.atime(), found.atime_nsec() as u32)
}

/// Waits, where a door is told behind the call that ends the read.
fn sees(session: &Client, name: &str, time: Timestamp) {
    let end = Instant::now() + Duration::from_secs(20);
    while by_session(session, name) != time {
        assert!(Instant::now() < end, "{name}: {:?}, not {time:?}", by_session(session, name));
        std::thread::yield_now();
    }
}

fn make(session: &Client) {
    let flags = libc::O_CREAT | libc::O_WRONLY;
    let file = session.open(&ROOT, Base::Root, b"file", flags, 0o644).unwrap();
    session.pwrite(&file, &[UserSlice::from(CONTENT)], 0).unwrap();
    session.close(file).unwrap();
    session
        .make_directory(&ROOT, Base::Root, b"directory", cuesta_libfs::NewMode { bits: 0o755, umask: 0 })
        .unwrap();
    session.symlink(&ROOT, b"file", Base::Root, b"link").unwrap();
}

#[test]
fn what_a_read_by_the_mount_moves_is_shown_by_both_doors_and_kept() {
    if !can_mount() {
        return;
    }
    let mounted = Mounted::new();
    let session = mounted.session();
    make(&session);
    let read = |path: &Path| match path.file_name().and_then(std::ffi::OsStr::to_str) {
        Some("file") => assert_eq!(std::fs::read(path).unwrap(), CONTENT),
        Some("directory") => assert_eq!(std::fs::read_dir(path).unwrap().count(), 0),
        _ => drop(std::fs::read_link(path).unwrap()),
    };
    let mut moved = Vec::new();
    for name in ["file", "directory", "link"] {
        let path = mounted.path(name);
        set_unread(&session, name);
        assert_eq!((by_mount(&path).seconds(), by_mount(&path).seconds()), (LONG_AGO, LONG_AGO), "{name}");
        read(&path);
        let shown = by_mount(&path);
        assert!(shown.seconds() > LONG_AGO, "{name}");
        sees(&session, name, shown);
        read(&path);
        assert_eq!(by_mount(&path), shown, "{name}");
        moved.push((name, shown));
    }
    // A mount that knows nothing yet is told the times that are kept.
    for (name, shown) in moved {
        assert_eq!(
            (by_mount(&mounted.path(name)), by_session(&mounted.session(), name)),
            (shown, shown),
            "{name}"
        );
    }
}

/// The kernel asks for nothing but attributes then.
#[test]
fn a_read_from_the_kernels_own_pages_moves_it() {
    if !can_mount() {
        return;
    }
    let mounted = Mounted::shipping(Ship::Never);
    let session = mounted.session();
    make(&session);
    let path = mounted.path("file");
    let mut file = File::open(&path).unwrap();
    for mode in [0o600, 0o640, 0o644] {
        let mut read = Vec::new();
        std::io::Seek::rewind(&mut file).unwrap();
        file.read_to_end(&mut read).unwrap();
        let before = by_mount(&path);
        // That moves the time of last change, and leaves the content.
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let changed = by_mount(&path);
        assert_eq!(changed, before);
        while std::fs::symlink_metadata(&path).unwrap().ctime_nsec() == i64::from(now().nanoseconds()) {}
        std::io::Seek::rewind(&mut file).unwrap();
        file.read_to_end(&mut read).unwrap();
        assert!(by_mount(&path) > before, "{mode:o}");
    }
    let unmoved = by_mount(&path);
    set_unread(&session, "file");
    let quiet = File::options().read(true).custom_flags(libc::O_NOATIME).open(&path).unwrap();
    let mut read = Vec::new();
    (&quiet).read_to_end(&mut read).unwrap();
    assert_eq!((by_mount(&path).seconds(), read.len()), (LONG_AGO, CONTENT.len()), "after {unmoved:?}");
}

fn now() -> Timestamp {
    cuesta_media::clock::now()
}

#[test]
fn what_a_session_reads_is_shown_by_both_doors_and_kept() {
    if !can_mount() {
        return;
    }
    let mounted = Mounted::new();
    let (session, other) = (mounted.session(), mounted.session());
    make(&session);
    let path = mounted.path("file");
    set_unread(&session, "file");
    // The kernel, and another session, keep what they are told here.
    assert_eq!((by_mount(&path).seconds(), by_session(&other, "file").seconds()), (LONG_AGO, LONG_AGO));
    let reader = mounted.session();
    let file = reader.open(&ROOT, Base::Root, b"file", libc::O_RDONLY, 0).unwrap();
    let mut bytes = [0; CONTENT.len()];
    assert_eq!(reader.pread(&file, &mut [UserSliceMut::from(&mut bytes[..])], 0), Ok(CONTENT.len()));
    let moved = by_session(&reader, "file");
    assert!(moved.seconds() > LONG_AGO);
    assert_eq!(by_mount(&path).seconds(), LONG_AGO, "it is told at the end");
    reader.close(file).unwrap();
    reader.detach();
    assert_eq!((by_session(&other, "file"), by_mount(&path)), (moved, moved));
    // A time that was set since is not taken back by a session that read the file before.
    let reader = mounted.session();
    set_unread(&session, "file");
    let file = reader.open(&ROOT, Base::Root, b"file", libc::O_RDONLY, 0).unwrap();
    assert_eq!(reader.pread(&file, &mut [UserSliceMut::from(&mut bytes[..])], 0), Ok(CONTENT.len()));
    let read_at = by_session(&reader, "file");
    while now() <= read_at {}
    set_unread(&session, "file");
    reader.close(file).unwrap();
    reader.detach();
    assert_eq!(by_session(&other, "file").seconds(), LONG_AGO);
    assert_eq!(
        (by_session(&mounted.session(), "file").seconds(), by_mount(&path).seconds()),
        (LONG_AGO, LONG_AGO)
    );
}
