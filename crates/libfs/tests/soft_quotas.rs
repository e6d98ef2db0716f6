//! Soft limits: they may be exceeded for a time. When that has run out, writes are refused until the owner
//! owns less.

use crate::common::quota::{ANNA, BLOCK, check, fill, owned, quotas, set_limits, store, user, write};
use crate::common::{InProcess, root};
use cuesta_format::SessionId;
use cuesta_format::quota::{Allowance, Amounts, Limited, Limits, OverSince, Payer};
use cuesta_format::wire::Response;
use cuesta_libfs::{Base, Client, Error};
use cuesta_media::clock;
use cuesta_sharedfs::SharedFs;
use std::sync::Arc;

fn blocks(blocks: u64) -> Amounts {
    Amounts { blocks, inodes: 0 }
}

fn limit(shared: &SharedFs, limits: Limits) {
    assert_eq!(set_limits(shared, Limited::User(ANNA), Some(limits)), Response::Done);
}

/// Anna's allowance, in the terms of `cuesta quota`.
fn allowance(shared: &SharedFs) -> Allowance {
    let listed = quotas(shared).into_iter().find(|quota| quota.payer == Payer::User(ANNA));
    listed.expect("she has limits").allowance
}

#[test]
fn without_a_grace_a_soft_limit_is_reached_to_the_last_block_and_not_exceeded() {
    let (store, first) = store();
    let second = store.attach();
    let shared = Arc::clone(&store.shared);
    limit(&shared, Limits { soft: blocks(100), grace_seconds: 0, ..Limits::hard(blocks(1000)) });
    let (one, two) = (user(&first, ANNA), user(&second, ANNA));
    write(&one, "one", 0, BLOCK).unwrap();
    write(&two, "two", 0, BLOCK).unwrap();
    assert_eq!(fill(&one, "more") + fill(&two, "last"), 98);
    assert_eq!(owned(&shared, ANNA).blocks, 100);
    assert_eq!(allowance(&shared).over_since, OverSince::default());
    // Files without blocks do not count.
    one.mkdir("d").unwrap();
    drop((one, two, shared));
    check(store, vec![first, second]);
}

#[test]
fn a_grace_outlives_the_daemon_and_later_writes_are_refused_until_less_is_owned() {
    let (store, client) = store();
    let shared = Arc::clone(&store.shared);
    let limits = Limits { soft: blocks(50), ..Limits::hard(blocks(80)) };
    limit(&shared, limits);
    let anna = user(&client, ANNA);
    write(&anna, "within", 0, 50 * BLOCK).unwrap();
    assert_eq!(allowance(&shared), Allowance { limits, over_since: OverSince::default() });
    write(&anna, "beyond", 0, 10 * BLOCK).unwrap();
    let since = allowance(&shared).over_since;
    assert!(since.blocks.is_some() && since.inodes.is_none(), "{since:?}");
    assert_eq!(fill(&anna, "most"), 20, "the hard limit holds meanwhile");

    // The daemon is killed. The next one knows since when the limit is exceeded.
    client.detach();
    drop((anna, client, shared));
    let next = store.take_over();
    // The clock of files ticks slowly. An unchanged time shows that the earlier one was kept.
    while Some(clock::now()) <= since.blocks {
        std::thread::yield_now();
    }
    assert_eq!(allowance(&next), Allowance { limits, over_since: since });
    // The present grace period decides whether the time has run out.
    limit(&next, Limits { grace_seconds: 0, ..limits });
    assert_eq!(allowance(&next).over_since, since);
    let client = Client::attach(Box::new(InProcess::of(&next, SessionId(0))), "after").unwrap();
    let (anna, admin) = (user(&client, ANNA), root(&client));
    admin.unlink("most").unwrap();
    assert_eq!(write(&anna, "no more", 0, BLOCK), Err(Error::OverQuota));
    anna.mkdir("but a directory").unwrap();
    admin.unlink("beyond").unwrap();
    assert_eq!(write(&anna, "no more", 0, BLOCK), Err(Error::OverQuota), "all of the soft limit");
    client.truncate(&anna.who, Base::Root, b"within", (40 * BLOCK) as i64).unwrap();
    assert_eq!(fill(&anna, "again"), 10);
    assert_eq!(allowance(&next).over_since, OverSince::default());
    client.detach();
}

/// A user that passes limits may take others over theirs, and a limit may be set below the amount owned. The
/// excess is noticed all the same.
#[test]
fn an_owner_taken_over_a_soft_limit_has_a_grace_from_when_it_is_seen() {
    let (store, client) = store();
    let shared = Arc::clone(&store.shared);
    let (anna, admin) = (user(&client, ANNA), root(&client));
    write(&anna, "f", 0, 10 * BLOCK).unwrap();
    limit(&shared, Limits { soft: Amounts { blocks: 20, inodes: 1 }, ..Limits::NONE });
    assert_eq!(allowance(&shared).over_since, OverSince::default());
    write(&admin, "f", 10 * BLOCK, 20 * BLOCK).unwrap();
    let since = allowance(&shared).over_since;
    assert!(since.blocks.is_some() && since.inodes.is_none(), "{since:?}");
    limit(&shared, Limits { soft: Amounts { blocks: 40, inodes: 0 }, ..Limits::NONE });
    assert_eq!(allowance(&shared).over_since, OverSince::default());
    limit(&shared, Limits { soft: blocks(5), grace_seconds: 0, ..Limits::NONE });
    assert!(allowance(&shared).over_since.blocks.is_some(), "from when it was set");
    assert_eq!(write(&anna, "f", 30 * BLOCK, BLOCK), Err(Error::OverQuota));
    assert_eq!(write(&anna, "f", 0, 30 * BLOCK), Ok(30 * BLOCK), "what is there is written over");
    drop((anna, admin, shared));
    check(store, vec![client]);
}

/// As on XFS: programs see a file system of that size.
#[test]
fn a_directory_is_as_large_as_its_soft_limit() {
    let (store, client) = store();
    let shared = Arc::clone(&store.shared);
    let admin = root(&client);
    admin.mkdir("p").unwrap();
    let of = Limited::Directory(b"p".to_vec());
    let limits = Limits { soft: blocks(50), grace_seconds: 0, ..Limits::hard(blocks(80)) };
    assert_eq!(set_limits(&shared, of.clone(), Some(limits)), Response::Done);
    let tree = admin.stat("p").unwrap().inode;
    let totals = client.statfs_in(tree).unwrap();
    assert_eq!((totals.blocks, totals.blocks_free), (50, 50));
    write(&admin, "p/f", 0, 50 * BLOCK).unwrap();
    assert_eq!(write(&admin, "p/f", 50 * BLOCK, BLOCK), Err(Error::NoSpace));
    assert_eq!(set_limits(&shared, of, Some(Limits { grace_seconds: 60, ..limits })), Response::Done);
    write(&admin, "p/f", 50 * BLOCK, 30 * BLOCK).unwrap();
    assert_eq!(write(&admin, "p/f", 80 * BLOCK, BLOCK), Err(Error::NoSpace), "the hard one");
    assert_eq!(client.statfs_in(tree).unwrap().blocks_free, 0);
    drop((admin, shared));
    check(store, vec![client]);
}
