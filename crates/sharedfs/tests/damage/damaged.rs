//! A page of the metadata store that was damaged under the daemon: a request that needs it gets an error, and a
//! program that only reads something else goes on.

use crate::common::*;
use cuesta_format::InodeNumber;
use cuesta_format::wire::{LeaseMode, Refusal, Request, Response, Sends};
use cuesta_sharedfs::SharedFs;
use cuesta_sharedfs::check::{Mode, check};
use cuesta_sharedfs::server::Service;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

const PAGE_BYTES: usize = 4096;
const FILES: usize = 2000;

fn name(number: usize) -> String {
    format!("a name that is not in a page with many others, {number:06}")
}

/// Overwrites every page in which `needle` is found.
fn damage(path: &Path, needle: &[u8]) {
    let bytes = std::fs::read(path).unwrap();
    let pages = bytes.chunks(PAGE_BYTES).enumerate();
    let mut found = pages.filter(|(_, page)| page.windows(needle.len()).any(|window| window == needle));
    let file = File::options().write(true).open(path).unwrap();
    let (page, _) = found.next().expect("the name is in a page");
    for (page, _) in found.chain([(page, &bytes[..0])]) {
        file.write_all_at(&[0xff; PAGE_BYTES], (page * PAGE_BYTES) as u64).unwrap();
    }
}

/// The daemon stopped, and all that only read had to do without it, too.
#[test]
fn a_damaged_page_of_metadata_ends_digests_and_not_the_daemon() {
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    let [near, far] = [b"near", b"far-"].map(|name| writer.directory(name));
    for number in 0..FILES {
        writer.create_in(near, name(number).as_bytes(), 0o100_644);
        if number % 500 == 499 {
            writer.digest();
            writer.retire(writer.at);
        }
    }
    let file = writer.create_in(far, b"whole", 0o100_644);
    writer.write(file, 0, &[5; 5000]);
    assert_eq!(writer.request(&Request::Detach), Response::Done);
    drop(writer);
    // All of it is in the tree then.
    Service::stop(&*shared).unwrap();
    drop(shared);
    // On a disk there are two copies.
    for copy in ["meta.redb", "meta.copy"].map(|name| store.tier().join(name)) {
        if copy.exists() {
            damage(&copy, name(FILES / 2).as_bytes());
        }
    }

    let shared = SharedFs::open(&store.tier(), options()).unwrap();
    let mut reader = Writer::attach(&shared);
    let mut writer = Writer::attach(&shared);
    assert_eq!(reader.acquire(file, LeaseMode::Read).record.size, 5000);
    let is_damage = |answer: Response| match answer {
        Response::Failed(Refusal::Internal(why)) => assert!(why.contains("damaged"), "{why}"),
        other => panic!("{other:?}"),
    };
    let acquire = |mode| Request::Acquire {
        inode: near,
        mode,
        ahead: 0,
        beside: Vec::new(),
        kept: None,
        sends: Sends::Nothing,
    };
    // Its names cannot be told, but new ones could be made.
    is_damage(writer.request(&acquire(LeaseMode::Write)));
    writer.create_in(near, name(FILES / 2).as_bytes(), 0o100_644);
    assert!(!Service::digest(&*shared, true).unwrap(), "the digest thread goes on, with nothing to do");
    is_damage(writer.request(&Request::Digest));
    assert_eq!(Service::idle_after(&*shared), None, "it is not tried again and again");
    // Reading goes on: with what is held, and with what is asked for.
    assert_eq!(shared.file_content(file).unwrap(), [5; 5000]);
    let mut other = Writer::attach(&shared);
    assert_eq!(other.acquire(ROOT, LeaseMode::Read).entries.len(), 2);
    assert!(matches!(other.request(&Request::Statfs { tree: InodeNumber::NONE }), Response::Statfs(_)));
    // A lease of a session that changed nothing goes to the next one, as ever.
    assert_eq!(other.acquire(file, LeaseMode::Read).record.size, 5000);
    assert_eq!(reader.resync().revoked, [file]);
    // What waits in the log of the writer cannot be had.
    is_damage(other.request(&acquire(LeaseMode::Read)));
    is_damage(other.request(&Request::Map { inode: file }));
    kill(shared, vec![reader, writer, other]);
    // The next daemon says why it does not start, as does the check.
    let told = SharedFs::open(&store.tier(), options()).unwrap_err().to_string();
    assert!(told.contains("damaged"), "{told}");
    assert!(check(&store.tier(), Mode::Report).is_err_and(|error| error.to_string().contains("damaged")));
}
