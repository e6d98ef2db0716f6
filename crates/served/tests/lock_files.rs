//! A process of another user, with the lock file of a file it may only read.

use crate::common::*;
use cuesta_format::control::MARKS_OFFSET;
use cuesta_libfs::Base;
use cuesta_media::{byte_locks, lock_files};
use cuesta_served::{Request, Response};
use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd as _, OwnedFd};

/// A descriptor to lock `path` by, as it is handed to a reader.
fn lent(store: &Store, path: &[u8], flags: i32) -> OwnedFd {
    as_nobody(|| {
        let mut raw = Raw::connect(store);
        // A closed file counts until the daemon has seen it.
        let file = loop {
            if let Response::Opened { file, .. } = raw.open(path, flags) {
                break file;
            }
        };
        assert_eq!(raw.ask(&Request::LockFile { file }), Response::Done);
        raw.1.pop().unwrap()
    })
}

#[test]
fn a_reader_keeps_no_program_from_being_executed() {
    if !is_root() {
        return;
    }
    let store = store();
    write_as_root(&store, b"tool", b"#!/bin/sh\n", 0o755);
    let locks = lent(&store, b"tool", libc::O_RDONLY);
    // Each mark that says that a process writes it is in there.
    for first in 0..64 {
        let byte = MARKS_OFFSET + first;
        byte_locks::mark(&locks, byte..byte + 1).unwrap();
    }
    byte_locks::mark(&locks, MARKS_OFFSET..u64::MAX).unwrap();
    assert!(byte_locks::claim(&locks, MARKS_OFFSET..u64::MAX).is_err(), "it may only read");
    let file = store.root.open(&ROOT, Base::Root, b"tool", libc::O_RDONLY, 0).unwrap();
    assert_eq!(store.root.check_not_written(&file), Ok(()));
    // And one that writes it is seen all the same.
    let references = store.folder.path().join(cuesta_format::geometry::REFERENCES_FOLDER);
    let references = File::open(references).unwrap();
    let _writer = lock_files::take(&references, file.inode(), lock_files::Access::Locks).unwrap();
    assert_eq!(store.root.check_not_written(&file), Ok(()));
}

#[test]
fn a_reader_writes_nothing_into_the_folder_of_the_store() {
    if !is_root() {
        return;
    }
    let store = store();
    write_as_root(&store, b"shown", b"to all", 0o644);
    let locks = lent(&store, b"shown", libc::O_RDONLY);
    let refused = as_nobody(|| {
        let path = format!("/proc/self/fd/{}", locks.as_raw_fd());
        let again = OpenOptions::new().write(true).open(path).err();
        let written = rustix::io::pwrite(&locks, b"x", 0).err();
        (again.and_then(|error| error.raw_os_error()), written.map(|errno| errno.raw_os_error()))
    });
    assert_eq!(refused, (Some(libc::EACCES), Some(libc::EBADF)));
}

#[test]
fn a_user_has_only_so_many_lock_files() {
    if !is_root() {
        return;
    }
    let limits = cuesta_served::Limits { files_of_user: 8, ..Default::default() };
    let store = store_within(limits);
    let mut kept = Vec::new();
    for number in 0..8 {
        let path = format!("f{number}");
        write_as_root(&store, path.as_bytes(), b"", 0o644);
        kept.push(lent(&store, path.as_bytes(), libc::O_RDONLY));
    }
    write_as_root(&store, b"more", b"", 0o644);
    as_nobody(|| {
        let mut raw = Raw::connect(&store);
        let file = loop {
            if let Response::Opened { file, .. } = raw.open(b"more", libc::O_RDONLY) {
                break file;
            }
        };
        assert!(matches!(raw.ask(&Request::LockFile { file }), Response::Failed(_)));
        kept.clear();
        while raw.ask(&Request::LockFile { file }) != Response::Done {}
    });
}
