//! Quotas of directories: everything at and below a directory counts for it, however it came there, and never
//! exceeds its limits.

use crate::common::quota::{ANNA, BERT, BLOCK, check, quotas, set, store, user, write};
use crate::common::{Caller, InProcess, root};
use cuesta_format::quota::{Amounts, Limited, Payer};
use cuesta_format::wire::Response;
use cuesta_format::{InodeNumber, SessionId};
use cuesta_libfs::{Base, Client, Error, LinkSource, RenameFlags, UNNAMED};
use cuesta_sharedfs::SharedFs;
use libc::{O_CREAT, O_DIRECTORY, O_RDWR, O_WRONLY};
use std::sync::Arc;

/// Sets limits of a directory, with or without earlier ones.
fn limit(shared: &SharedFs, path: &str, blocks: u64, inodes: u64) {
    let limits = Some(Amounts { blocks, inodes });
    assert_eq!(set(shared, Limited::Directory(path.into()), limits), Response::Done);
}

fn unlimit(shared: &SharedFs, path: &str) {
    assert_eq!(set(shared, Limited::Directory(path.into()), None), Response::Done);
}

/// The amounts that count for a directory; `None`: it has no quota.
fn counted(shared: &SharedFs, path: &str) -> Option<Amounts> {
    let found = quotas(shared)
        .into_iter()
        .find(|quota| matches!(quota.payer, Payer::Tree(_)) && quota.path == path.as_bytes());
    found.map(|quota| quota.used)
}

fn amounts(blocks: u64, inodes: u64) -> Option<Amounts> {
    Some(Amounts { blocks, inodes })
}

/// Writes blocks one by one until a write is refused. Answers how many there are then.
fn fill(caller: &Caller, path: &str) -> usize {
    let mut blocks = 0;
    loop {
        match write(caller, path, blocks * BLOCK, BLOCK) {
            Ok(BLOCK) => blocks += 1,
            Err(Error::NoSpace) => return blocks,
            other => panic!("{other:?}"),
        }
    }
}

fn make_all(caller: &Caller, directories: &[&str]) {
    for directory in directories {
        caller.mkdir(directory).unwrap();
        caller.client.set_attributes(&caller.who, target(directory), open_to_all()).unwrap();
    }
}

fn target(path: &str) -> cuesta_libfs::Target<'_> {
    cuesta_libfs::Target::Path { base: Base::Root, path: path.as_bytes(), follow: false }
}

fn open_to_all() -> cuesta_libfs::SetAttributes {
    cuesta_libfs::SetAttributes { mode: Some(0o777), ..Default::default() }
}

#[test]
fn all_writers_below_share_the_limit() {
    let (store, client) = store();
    let shared = Arc::clone(&store.shared);
    let (admin, anna, bert) = (root(&client), user(&client, ANNA), user(&client, BERT));
    make_all(&admin, &["d", "beside"]);
    limit(&shared, "d", 200, 8);
    make_all(&admin, &["d/a", "d/a/b"]);
    write(&anna, "d/a/b/anna", 0, 100 * BLOCK).unwrap();
    write(&bert, "d/bert", 0, 50 * BLOCK).unwrap();
    assert_eq!(fill(&admin, "d/a/root"), 50, "root, too");
    assert_eq!(write(&anna, "d/a/b/anna", 10, 50 * BLOCK), Ok(50 * BLOCK), "what is there is written over");
    assert_eq!(write(&bert, "d/bert", 50 * BLOCK, 1), Err(Error::NoSpace));
    assert_eq!(counted(&shared, "d"), amounts(200, 6));
    write(&anna, "beside/free", 0, 300 * BLOCK).unwrap();
    anna.symlink("x", "d/a/link").unwrap();
    anna.mkdir("d/last").unwrap();
    assert_eq!(anna.symlink("x", "d/a/more"), Err(Error::NoSpace));
    assert_eq!(anna.mkdir("d/a/more"), Err(Error::NoSpace));
    let unnamed = client.open(&anna.who, Base::Root, b"d", UNNAMED | O_DIRECTORY | O_RDWR, 0o600);
    assert_eq!(unnamed.err(), Some(Error::NoSpace));
    anna.unlink("d/a/b/anna").unwrap();
    assert_eq!(fill(&bert, "d/a/again"), 100, "freed blocks are free at once");
    assert_eq!(counted(&shared, "d"), amounts(200, 8));
    drop((admin, anna, bert, shared));
    check(store, vec![client]);
}

#[test]
fn existing_content_counts_from_the_moment_the_limit_is_set() {
    let (store, client) = store();
    let shared = Arc::clone(&store.shared);
    let admin = root(&client);
    make_all(&admin, &["d", "d/a", "d/a/b", "beside"]);
    for (path, blocks) in [("d/one", 10), ("d/a/two", 20), ("d/a/b/three", 30), ("beside/four", 40)] {
        write(&admin, path, 0, blocks * BLOCK).unwrap();
    }
    admin.link("beside/four", "d/hard").unwrap();
    // One is open, one is no longer in any log, and all are cached.
    let open = admin.open("d/a/two", O_WRONLY).unwrap();
    client.digest().unwrap();
    write(&admin, "d/a/late", 0, 5 * BLOCK).unwrap();
    limit(&shared, "d", 120, 0);
    assert_eq!(counted(&shared, "d"), amounts(105, 8));
    let more = vec![1; 10 * BLOCK];
    assert_eq!(client.pwrite(&open, &[more.as_slice().into()], (20 * BLOCK) as i64), Ok(10 * BLOCK));
    client.close(open).unwrap();
    assert_eq!(fill(&admin, "d/a/b/rest"), 5);
    assert_eq!(write(&admin, "beside/four", 40 * BLOCK, 1), Err(Error::NoSpace), "it has a name there");
    assert_eq!(counted(&shared, "d"), amounts(120, 9));
    limit(&shared, "d", 0, 0);
    assert_eq!(write(&admin, "d/one", 10 * BLOCK, 200 * BLOCK), Ok(200 * BLOCK));
    assert_eq!(counted(&shared, "d"), amounts(320, 9), "it is counted without a limit");
    unlimit(&shared, "d");
    assert_eq!(counted(&shared, "d"), None);
    admin.rename("d/one", "beside/one").unwrap();
    drop((admin, shared));
    check(store, vec![client]);
}

#[test]
fn names_do_not_cross_its_border() {
    let (store, client) = store();
    let shared = Arc::clone(&store.shared);
    let admin = root(&client);
    make_all(&admin, &["d", "d/a", "beside", "e", "d/empty"]);
    for path in ["d/f", "beside/f", "e/f"] {
        write(&admin, path, 0, BLOCK).unwrap();
    }
    let before = admin.stat("d/f").unwrap();
    limit(&shared, "d", 100, 100);
    limit(&shared, "e", 100, 100);
    assert_eq!(
        admin.stat("d/f").unwrap(),
        cuesta_format::InodeRecord { tree: admin.stat("d").unwrap().inode, ..before }
    );
    let exchange = RenameFlags { exchange: true, ..RenameFlags::default() };
    for (from, to) in
        [("d/f", "beside/x"), ("beside/f", "d/x"), ("d/f", "e/x"), ("d/a", "beside/x"), ("e", "d/x")]
    {
        assert_eq!(admin.rename(from, to), Err(Error::CrossDevice), "{from} to {to}");
        if !admin.stat(from).unwrap().mode & libc::S_IFMT == libc::S_IFDIR {
            assert_eq!(admin.link(from, to), Err(Error::CrossDevice), "{from} as {to}");
        }
    }
    assert_eq!(admin.rename("d/f", "e/f"), Err(Error::CrossDevice), "over another");
    assert_eq!(admin.rename_with("d/f", "beside/f", exchange), Err(Error::CrossDevice));
    let unnamed = client.open(&admin.who, Base::Root, b"d", UNNAMED | O_DIRECTORY | O_RDWR, 0o600).unwrap();
    let link = |path: &str| client.link(&admin.who, LinkSource::File(&unnamed), Base::Root, path.as_bytes());
    assert_eq!(link("beside/unnamed"), Err(Error::CrossDevice));
    link("d/unnamed").unwrap();
    client.close(unnamed).unwrap();
    admin.rename("d/f", "d/a/f").unwrap();
    admin.link("d/a/f", "d/hard").unwrap();
    admin.rename_with("d/a", "d/empty", exchange).unwrap();
    // The directory itself stays in its place.
    admin.rename("d", "beside/d").unwrap();
    assert_eq!(counted(&shared, "d"), None);
    assert_eq!(counted(&shared, "beside/d"), amounts(1, 5));
    assert_eq!(admin.rename("beside/d", "e/d"), Err(Error::CrossDevice));
    drop((admin, shared));
    check(store, vec![client]);
}

#[test]
fn the_innermost_is_the_one_that_counts() {
    let (store, client) = store();
    let shared = Arc::clone(&store.shared);
    let admin = root(&client);
    make_all(&admin, &["d", "d/in", "d/in/deep"]);
    write(&admin, "d/f", 0, 10 * BLOCK).unwrap();
    write(&admin, "d/in/f", 0, 20 * BLOCK).unwrap();
    write(&admin, "d/in/deep/f", 0, 30 * BLOCK).unwrap();
    limit(&shared, "d/in", 60, 0);
    limit(&shared, "d", 15, 0);
    assert_eq!((counted(&shared, "d"), counted(&shared, "d/in")), (amounts(10, 2), amounts(50, 4)));
    limit(&shared, "d/in/deep", 31, 0);
    assert_eq!((counted(&shared, "d/in"), counted(&shared, "d/in/deep")), (amounts(20, 2), amounts(30, 2)));
    assert_eq!(admin.rename("d/in/deep/f", "d/in/g"), Err(Error::CrossDevice));
    assert_eq!(fill(&admin, "d/in/deep/more"), 1);
    assert_eq!(fill(&admin, "d/in/more"), 40);
    unlimit(&shared, "d/in/deep");
    assert_eq!(counted(&shared, "d/in"), amounts(91, 6), "more than may be, and no more");
    assert_eq!(write(&admin, "d/in/deep/x", 0, 1), Err(Error::NoSpace));
    unlimit(&shared, "d/in");
    assert_eq!((counted(&shared, "d"), counted(&shared, "d/in")), (amounts(101, 9), None));
    // With the last limit, the store's root directory has one.
    limit(&shared, "", 1000, 0);
    assert_eq!(counted(&shared, ""), amounts(0, 1));
    drop((admin, shared));
    check(store, vec![client]);
}

#[test]
fn its_limits_are_its_size() {
    let (store, client) = store();
    let shared = Arc::clone(&store.shared);
    let admin = root(&client);
    make_all(&admin, &["d"]);
    write(&admin, "d/f", 0, 30 * BLOCK).unwrap();
    let whole = client.statfs().unwrap();
    limit(&shared, "d", 100, 0);
    write(&admin, "d/g", 0, BLOCK).unwrap();
    let tree = admin.stat("d/g").unwrap().tree;
    assert_eq!(tree, admin.stat("d").unwrap().inode);
    let part = client.statfs_in(tree).unwrap();
    assert_eq!((part.blocks, part.blocks_free), (100, 69));
    assert_eq!(client.statfs_in(admin.stat(".").unwrap().tree).unwrap().blocks, whole.blocks);
    limit(&shared, "d", 0, 10);
    let part = client.statfs_in(tree).unwrap();
    assert_eq!((part.blocks, part.inodes, part.inodes_free), (whole.blocks, 3, 7));
    limit(&shared, "d", u64::MAX / 4096, 1);
    let part = client.statfs_in(tree).unwrap();
    assert_eq!((part.blocks, part.inodes_free), (whole.blocks, 0), "no more than the store has");
    drop((admin, shared));
    check(store, vec![client]);
}

#[test]
fn sessions_reach_the_limit_together_to_the_last_block() {
    let (store, first) = store();
    let shared = Arc::clone(&store.shared);
    let second = store.attach();
    let (one, two) = (root(&first), user(&second, ANNA));
    make_all(&one, &["d", "d/one", "d/two"]);
    limit(&shared, "d", 1000, 0);
    write(&one, "d/one/f", 0, 1).unwrap();
    write(&two, "d/two/f", 0, 1).unwrap();
    assert_eq!(fill(&one, "d/one/more"), 998);
    assert_eq!(fill(&two, "d/two/none"), 0);
    one.unlink("d/one/more").unwrap();
    assert_eq!(fill(&two, "d/two/again"), 998);
    assert_eq!(counted(&shared, "d").map(|used| used.blocks), Some(1000));
    drop((one, two, shared));
    check(store, vec![first, second]);
}

#[test]
fn a_quota_goes_with_its_directory() {
    let (store, client) = store();
    let shared = Arc::clone(&store.shared);
    let admin = root(&client);
    make_all(&admin, &["d"]);
    limit(&shared, "d", 10, 0);
    let open = admin.open("d/f", O_CREAT | O_RDWR).unwrap();
    admin.unlink("d/f").unwrap();
    admin.rmdir("d").unwrap();
    assert_eq!(counted(&shared, "d"), None);
    let data = vec![1; 16 * BLOCK];
    assert_eq!(client.pwrite(&open, &[data.as_slice().into()], 0), Ok(16 * BLOCK), "it has no limit");
    client.close(open).unwrap();
    make_all(&admin, &["d"]);
    assert_eq!(counted(&shared, "d"), None);
    drop((admin, shared));
    check(store, vec![client]);
}

#[test]
fn limits_go_with_the_directory_and_its_number() {
    let (store, client) = store();
    let admin = root(&client);
    make_all(&admin, &["d"]);
    limit(&store.shared, "d", 10, 5);
    let tree = admin.stat("d").unwrap().inode;
    assert_eq!(client.statfs_in(tree).unwrap().blocks, 10);
    admin.rmdir("d").unwrap();
    client.digest().unwrap();
    let whole = client.statfs().unwrap();
    assert_eq!(client.statfs_in(tree).unwrap(), whole, "it has no size of its own");
    make_all(&admin, &["d"]);
    let fresh = admin.stat("d").unwrap();
    assert!(fresh.inode != tree && fresh.tree == InodeNumber::NONE);
    write(&admin, "d/f", 0, 16 * BLOCK).unwrap();
    client.digest().unwrap();
    // The next daemon finds none, either.
    let shared = store.take_over();
    let next = Client::attach(Box::new(InProcess::of(&shared, SessionId(0))), "test").unwrap();
    assert!(quotas(&shared).iter().all(|quota| !matches!(quota.payer, Payer::Tree(_))));
    assert_eq!(next.statfs_in(tree).unwrap().blocks, whole.blocks);
    write(&root(&next), "d/g", 0, BLOCK).unwrap();
    assert_eq!(root(&next).stat("d/g").unwrap().tree, InodeNumber::NONE);
}

/// A session that asks often for a directory that others change does not make them digest each time.
#[test]
fn questions_about_its_size_do_not_cost_others() {
    let (store, client) = store();
    let other = store.attach();
    let shared = Arc::clone(&store.shared);
    let admin = root(&client);
    make_all(&admin, &["d"]);
    limit(&shared, "d", 5000, 0);
    let tree = admin.stat("d").unwrap().inode;
    let file = admin.open("d/f", O_CREAT | O_WRONLY).unwrap();
    let block = vec![7; BLOCK];
    let (rounds, mut digested) = (2000, 0);
    for round in 0..rounds {
        client.pwrite(&file, &[block.as_slice().into()], (round % 200 * BLOCK) as i64).unwrap();
        other.statfs_in(tree).unwrap();
        digested += usize::from(shared.backlogs().iter().all(|log| log.bytes == 0));
    }
    assert!(digested < rounds / 2, "{digested} of {rounds} questions had everything digested");
    assert_eq!(client.statfs_in(tree).unwrap().blocks_free, 4800, "what it did itself it is told");
    client.close(file).unwrap();
    drop((admin, shared));
    check(store, vec![client, other]);
}

#[test]
fn only_directories_have_quotas() {
    let (store, client) = store();
    let shared = Arc::clone(&store.shared);
    let admin = root(&client);
    write(&admin, "f", 0, 1).unwrap();
    for (path, limits) in [("f", amounts(1, 1)), ("none", amounts(1, 1)), ("", None)] {
        let answer = set(&shared, Limited::Directory(path.into()), limits);
        assert!(matches!(answer, Response::Failed(_)), "{path}: {answer:?}");
    }
    write(&admin, "g", 0, 1).unwrap();
    assert_eq!(admin.stat("g").unwrap().tree, InodeNumber::NONE);
    drop((admin, shared));
    check(store, vec![client]);
}

#[test]
fn it_survives_the_daemon_and_counts_undigested_changes() {
    let (store, client) = store();
    let admin = root(&client);
    make_all(&admin, &["d"]);
    limit(&store.shared, "d", 100, 0);
    write(&admin, "d/f", 0, 40 * BLOCK).unwrap();
    client.digest().unwrap();
    make_all(&admin, &["d/a"]);
    write(&admin, "d/a/g", 0, 20 * BLOCK).unwrap();
    let shared = store.take_over();
    let next = Client::attach(Box::new(InProcess::of(&shared, SessionId(0))), "test").unwrap();
    assert_eq!(counted(&shared, "d"), amounts(60, 4));
    assert_eq!(fill(&root(&next), "d/a/rest"), 40);
    assert_eq!(root(&next).rename("d/f", "f"), Err(Error::CrossDevice));
}
