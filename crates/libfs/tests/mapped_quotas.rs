//! Quotas and files that programs share by mappings: their owner is charged for their pages at once, and
//! calls end at the limit.

use crate::common::quota::{ANNA, BERT, BLOCK, check, fill, limit, owned, quotas, set, store, user, write};
use crate::common::{Caller, InProcess, medium, root};
use cuesta_format::Medium;
use cuesta_format::quota::{Amounts, Limited, Payer};
use cuesta_format::wire::{Request, Response};
use cuesta_libfs::{Allocation, Base, Client, Error, Link, LinkError, OpenFile, SetAttributes, Target};
use cuesta_media::{Mapping, Protection};
use libc::{O_CREAT, O_RDWR};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maps so many blocks of a file, as a program does.
fn map(caller: &Caller, file: &OpenFile, blocks: usize) -> Mapping {
    let shared = caller.client.map_shared(file, true).unwrap();
    Mapping::of_file(&shared, 0, (blocks * BLOCK) as u64, Protection::ReadWrite, Medium::Memory, false)
        .unwrap()
}

/// Blocks of the kernel's file that hold none of its pages: in memory none, on ext4 the extent tree of so
/// small a file.
fn blocks_beside_pages(file: &OwnedFd) -> u64 {
    let is_memory = rustix::fs::fstatfs(file).unwrap().f_type == libc::TMPFS_MAGIC;
    let found = rustix::fs::fstat(file).unwrap();
    let page = |at: u64| cuesta_media::mapped_files::has_page(file, at * BLOCK as u64).unwrap();
    let pages = (0..found.st_size.unsigned_abs() / BLOCK as u64).filter(|at| page(*at)).count();
    let beside = found.st_blocks.unsigned_abs() * 512 / BLOCK as u64 - pages as u64;
    assert!(beside <= u64::from(!is_memory), "{beside}");
    beside
}

fn store_into(mapping: &Mapping, blocks: std::ops::Range<usize>) {
    for block in blocks {
        mapping.write_through((block * BLOCK) as u64, b"stored").unwrap();
    }
}

fn put(caller: &Caller, file: &OpenFile, block: usize, bytes: usize) -> Result<usize, Error> {
    caller.client.pwrite(file, &[vec![1; bytes].as_slice().into()], (block * BLOCK) as i64)
}

#[test]
fn stores_count_at_once_and_calls_end_at_the_limit() {
    let (store, client) = store();
    let shared = Arc::clone(&store.shared);
    limit(&shared, ANNA, 100, 0);
    let anna = user(&client, ANNA);
    let file = anna.open("f", O_CREAT | O_RDWR).unwrap();
    put(&anna, &file, 0, 10 * BLOCK).unwrap();
    client.truncate_open(&file, (300 * BLOCK) as i64).unwrap();
    let mapping = map(&anna, &file, 300);
    // A disk counts what it needs to find the blocks, too.
    let shared_file = client.map_shared(&file, false).unwrap();
    let beside = || blocks_beside_pages(&shared_file);
    store_into(&mapping, 5..40);
    assert_eq!(owned(&shared, ANNA).blocks, 40 + beside(), "ten it had, and thirty came by stores");

    // Into holes: a page, several, the end, fallocate. Each works as far as there is room, and then not at
    // all.
    assert_eq!(put(&anna, &file, 50, BLOCK), Ok(BLOCK));
    assert_eq!(put(&anna, &file, 35, 10 * BLOCK), Ok(10 * BLOCK), "five of these are there");
    client.allocate(&file, Allocation::Extend, (60 * BLOCK) as i64, (10 * BLOCK) as i64).unwrap();
    assert_eq!(owned(&shared, ANNA).blocks, 56 + beside());
    assert_eq!(put(&anna, &file, 60, 3 * BLOCK), Ok(3 * BLOCK));
    client.allocate(&file, Allocation::KeepSize, (298 * BLOCK) as i64, (5 * BLOCK) as i64).unwrap();
    client.allocate(&file, Allocation::Punch, (298 * BLOCK) as i64, (2 * BLOCK) as i64).unwrap();
    assert_eq!(
        owned(&shared, ANNA).blocks,
        56 + beside(),
        "allocated blocks are written, and punched ones are free"
    );
    assert_eq!(write(&anna, "g", 0, 40 * BLOCK), Ok(40 * BLOCK));
    let mut pages = 0;
    let refused = loop {
        match put(&anna, &file, 100 + pages, BLOCK) {
            Ok(BLOCK) => pages += 1,
            other => break other,
        }
        assert!(pages < 100, "it goes on beyond the limit");
    };
    assert_eq!((refused, pages), (Err(Error::OverQuota), 4 - beside() as usize));
    let allocate = |what| client.allocate(&file, what, (200 * BLOCK) as i64, BLOCK as i64);
    for what in [Allocation::Extend, Allocation::KeepSize, Allocation::Zero] {
        assert_eq!(allocate(what), Err(Error::OverQuota), "{what:?}");
    }
    assert_eq!(put(&anna, &file, 200, 3 * BLOCK), Err(Error::OverQuota));
    assert_eq!(put(&anna, &file, 300, 1), Err(Error::OverQuota), "at the end");
    assert_eq!(put(&anna, &file, 36, 4 * BLOCK), Ok(4 * BLOCK), "what it has is written over");
    assert_eq!(fill(&anna, "h"), 0);
    assert_eq!(owned(&shared, ANNA).blocks, 100);

    // A store through a mapping cannot be refused. It counts, now and after the last mapping is gone.
    store_into(&mapping, 250..257);
    assert_eq!(owned(&shared, ANNA).blocks, 107);
    let beside_at_end = beside();
    client.allocate(&file, Allocation::Punch, (60 * BLOCK) as i64, (9 * BLOCK) as i64).unwrap();
    assert_eq!(fill(&anna, "h"), 2, "blocks given back are free at once");
    drop((mapping, shared_file));
    client.close(file).unwrap();
    assert_eq!(&anna.read_file("f").unwrap()[250 * BLOCK..][..6], b"stored");
    assert!(!anna.stat("f").unwrap().mapped);
    assert_eq!(owned(&shared, ANNA).blocks, 100 - beside_at_end);
    anna.unlink("f").unwrap();
    assert_eq!(owned(&shared, ANNA).blocks, 42);
    drop((anna, shared));
    check(store, vec![client]);
}

#[test]
fn truncated_pages_may_be_written_again() {
    let (store, client) = store();
    let shared = Arc::clone(&store.shared);
    limit(&shared, ANNA, 10, 0);
    let anna = user(&client, ANNA);
    let file = anna.open("f", O_CREAT | O_RDWR).unwrap();
    put(&anna, &file, 0, 10 * BLOCK).unwrap();
    let mapping = map(&anna, &file, 1);
    client.truncate_open(&file, 0).unwrap();
    assert_eq!(put(&anna, &file, 5, BLOCK), Ok(BLOCK));
    assert_eq!(put(&anna, &file, 0, 9 * BLOCK), Ok(9 * BLOCK));
    assert_eq!(put(&anna, &file, 9, 2 * BLOCK), Err(Error::OverQuota));
    assert_eq!(put(&anna, &file, 9, BLOCK), Ok(BLOCK));
    assert_eq!(put(&anna, &file, 10, BLOCK), Err(Error::OverQuota));
    assert_eq!(owned(&shared, ANNA).blocks, 10);
    drop(mapping);
    client.close(file).unwrap();
    drop((anna, shared));
    check(store, vec![client]);
}

/// A link that counts the digests it is asked for.
struct Counting {
    link: InProcess,
    digests: Arc<AtomicUsize>,
}

impl Link for Counting {
    fn call(&mut self, request: &Request, descriptors: &mut Vec<OwnedFd>) -> Result<Response, LinkError> {
        self.digests.fetch_add(usize::from(*request == Request::Digest), Ordering::Relaxed);
        self.link.call(request, descriptors)
    }
}

/// Writes of users without limits do not wait for digests, even beside users with limits.
#[test]
fn a_user_without_a_limit_does_not_wait_for_digests() {
    if medium() != Medium::Memory {
        // On this medium every write goes by the log.
        return;
    }
    let (store, client) = store();
    let shared = Arc::clone(&store.shared);
    let digests = Arc::new(AtomicUsize::new(0));
    let link = Counting { link: store.link(), digests: Arc::clone(&digests) };
    let other = Client::attach(Box::new(link), "counting").unwrap();
    let bert = user(&other, BERT);
    let file = bert.open("f", O_CREAT | O_RDWR).unwrap();
    put(&bert, &file, 0, 40 * BLOCK).unwrap();
    let mapping = map(&bert, &file, 1);
    other.truncate_open(&file, 0).unwrap();
    limit(&shared, ANNA, 10, 0);
    let before = digests.load(Ordering::Relaxed);
    for block in 0..30 {
        assert_eq!(put(&bert, &file, block, BLOCK), Ok(BLOCK));
    }
    let asked = digests.load(Ordering::Relaxed) - before;
    assert!(asked <= 1, "{asked} pages of 30 went by the log");
    drop(mapping);
    other.close(file).unwrap();
    drop((bert, shared));
    check(store, vec![client, other]);
}

#[test]
fn they_count_for_the_directory_and_are_its_size() {
    let (store, client) = store();
    let shared = Arc::clone(&store.shared);
    let admin = root(&client);
    admin.mkdir("d").unwrap();
    let limits = Some(Amounts { blocks: 50, inodes: 0 });
    assert_eq!(set(&shared, Limited::Directory(b"d".to_vec()), limits), Response::Done);
    let file = admin.open("d/f", O_CREAT | O_RDWR).unwrap();
    client.truncate_open(&file, (100 * BLOCK) as i64).unwrap();
    let mapping = map(&admin, &file, 100);
    store_into(&mapping, 0..20);
    let tree = admin.stat("d").unwrap().inode;
    assert_eq!(client.statfs_in(tree).unwrap().blocks_free, 30);
    let of_tree = |used: Vec<cuesta_format::quota::Quota>| {
        used.into_iter().find(|quota| quota.payer == Payer::Tree(tree)).map(|quota| quota.used.blocks)
    };
    assert_eq!(of_tree(quotas(&shared)), Some(20));
    assert_eq!(put(&admin, &file, 60, 31 * BLOCK), Err(Error::NoSpace), "root, too");
    assert_eq!(put(&admin, &file, 60, 30 * BLOCK), Ok(30 * BLOCK));
    assert_eq!(put(&admin, &file, 95, 1), Err(Error::NoSpace));
    assert_eq!(client.statfs_in(tree).unwrap().blocks_free, 0);
    drop(mapping);
    client.close(file).unwrap();
    drop((admin, shared));
    check(store, vec![client]);
}

#[test]
fn a_new_owner_is_charged_for_mapped_pages() {
    let (store, client) = store();
    let shared = Arc::clone(&store.shared);
    limit(&shared, BERT, 20, 0);
    let (anna, admin) = (user(&client, ANNA), root(&client));
    let file = anna.open("f", O_CREAT | O_RDWR).unwrap();
    client.truncate_open(&file, (100 * BLOCK) as i64).unwrap();
    let mapping = map(&anna, &file, 100);
    store_into(&mapping, 0..21);
    let mut giver = anna.who.clone();
    giver.capabilities =
        cuesta_libfs::Capabilities::from_bits(1 << cuesta_libfs::Capability::ChangeOwner as u8);
    let give = |who, uid| {
        let at = Target::Path { base: Base::Root, path: b"f", follow: true };
        let set = SetAttributes { uid: Some(uid), chown: true, ..SetAttributes::default() };
        client.set_attributes(who, at, set)
    };
    assert_eq!(give(&giver, BERT), Err(Error::OverQuota));
    assert_eq!((owned(&shared, ANNA).blocks, owned(&shared, BERT).blocks), (21, 0));
    client.allocate(&file, Allocation::Punch, 0, BLOCK as i64).unwrap();
    give(&giver, BERT).unwrap();
    assert_eq!((owned(&shared, ANNA).blocks, owned(&shared, BERT).blocks), (0, 20));
    give(&admin.who, ANNA).unwrap();
    assert_eq!((owned(&shared, ANNA).blocks, owned(&shared, BERT).blocks), (20, 0));
    drop(mapping);
    client.close(file).unwrap();
    drop((anna, admin, shared));
    check(store, vec![client]);
}
