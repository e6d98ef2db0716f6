//! Two sessions that change the same two directories: one fence moves both.

use crate::common::{ROOT, Store, Writer};
use cuesta_format::InodeNumber;
use cuesta_format::control::ClientPage;
use cuesta_format::kept_names::{self, WAYS, set_of};
use cuesta_format::wire::{LeaseMode, Response};
use cuesta_media::clock;
use cuesta_sharedfs::SharedFs;
use cuesta_sharedfs::server::Service;
use rustix::fs::{Mode, OFlags};
use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Two sessions, of which the first has lost both directories to the second.
fn contended(shared: &Arc<SharedFs>) -> ([Writer; 2], [InodeNumber; 2]) {
    let mut writers = [Writer::attach(shared), Writer::attach(shared)];
    writers[0].acquire(ROOT, LeaseMode::Write);
    let directories = [b"tmp", b"new"].map(|name| writers[0].directory(name));
    for directory in directories {
        writers[1].acquire(directory, LeaseMode::Write);
    }
    let mut lost = writers[0].resync().revoked;
    lost.retain(|inode| directories.contains(inode));
    assert_eq!(lost, directories);
    (writers, directories)
}

#[test]
fn a_lease_granted_along_and_never_asked_for_is_lost_untold() {
    let store = Store::new();
    let shared = store.open();
    let ([mut first, mut second], [tmp, new]) = contended(&shared);
    second.create_in(new, b"one", 0o100_644);
    first.acquire(tmp, LeaseMode::Write);
    let lost = second.resync().revoked;
    assert!(lost.contains(&tmp) && lost.contains(&new), "{lost:?}");
    second.acquire(new, LeaseMode::Write);
    // It knows names of `new` as they were before `one`, and must not take them for those of now.
    let resynced = first.resync();
    assert_eq!(resynced.revoked, [tmp]);
}

/// Names that the kernel keeps of a directory by a mount are waited for, also if the directory only goes along.
#[test]
fn a_directory_that_goes_along_waits_for_the_kernels_names() {
    let Ok(device) = rustix::fs::open("/dev/fuse", OFlags::RDWR, Mode::empty()) else {
        println!("left out: no /dev/fuse here");
        return;
    };
    let store = Store::new();
    let shared = store.open();
    let ([mut first, mut second], [tmp, new]) = contended(&shared);
    let kept = Service::keep_in_kernel(&*shared, Some(first.session), Some(device)).response;
    assert!(matches!(kept, Response::KeptInKernel { .. }), "{kept:?}");
    for directory in [tmp, new] {
        first.acquire(directory, LeaseMode::Write);
        first.resync_if_fenced();
    }
    let marks: [AtomicU64; WAYS] = Default::default();
    assert!(kept_names::mark(&marks, new, clock::ticks()));
    let marks = marks.map(|mark| mark.load(Ordering::SeqCst));
    let set = offset_of!(ClientPage, kept_names) + set_of(new) * size_of_val(&marks);
    first.client_page(set as u64, &marks.map(u64::to_ne_bytes).concat());
    second.acquire(tmp, LeaseMode::Write);
    let lost = first.resync().revoked;
    assert!(lost.contains(&new), "it did not go along: {lost:?}");
    assert_eq!(kept_names::left(marks, new, clock::ticks()), None, "names may still be kept");
}
