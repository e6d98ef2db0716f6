//! A medium that fills up between two steps. Alone in its process: the limit on file sizes that stands for the full
//! medium is the process's.

mod common;

use common::*;
use cuesta_format::wire::{LeaseMode, Request, Response};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

fn limit_files(bytes: Option<u64>) {
    let limit = getrlimit(Resource::Fsize);
    setrlimit(Resource::Fsize, Rlimit { current: bytes, maximum: limit.maximum }).unwrap();
}

#[test]
fn a_fence_that_fails_half_way_voids_nothing_that_was_acknowledged() {
    // SAFETY: no handler runs: past the limit the call fails, that is all.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let store = Store::new();
    let shared = store.open();
    let mut first = Writer::attach(&shared);
    let mut second = Writer::attach(&shared);
    first.acquire(ROOT, LeaseMode::Write);
    for _ in 0..40 {
        first.request(&Request::InodeNumbers { count: 4096 });
    }
    let metadata = std::fs::metadata(store.tier().join("meta.redb")).unwrap().len();
    limit_files(Some(metadata));
    let mut names = Vec::new();
    loop {
        for _ in 0..100 {
            let name = format!("{:0250}", names.len()).into_bytes();
            first.file(&name);
            names.push(name);
        }
        if first.request(&Request::Digest) != Response::Done {
            break;
        }
        first.retire(first.at);
    }
    let acquire = Request::Acquire { inode: ROOT, mode: LeaseMode::Read, ahead: 0 };
    assert!(matches!(second.request(&acquire), Response::Failed(_)));
    assert!(first.generation() > first.lease_generation, "it is fenced");
    assert!(
        matches!(first.request(&Request::Resync), Response::Failed(_)),
        "where its log goes on nobody can tell"
    );
    limit_files(None);
    kill(shared, vec![first, second]);
    let shared = store.open();
    assert_eq!(shared.read_directory(ROOT).unwrap().len(), names.len());
}
