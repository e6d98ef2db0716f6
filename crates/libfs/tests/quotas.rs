//! Quotas of users and groups: no acknowledged write makes an owner exceed a limit, and every write within
//! the limit is accepted.

use crate::common::quota::{ANNA, BERT, BLOCK, check, fill, limit, owned, quotas, set, store, user, write};
use crate::common::{Caller, InProcess, root};
use cuesta_format::SessionId;
use cuesta_format::quota::{Amounts, Limited, Payer};
use cuesta_format::wire::Response;
use cuesta_libfs::{Allocation, Base, Client, Credentials, Error, OpenFile, SetAttributes, Target, UNNAMED};
use libc::{O_CREAT, O_RDWR, O_WRONLY};
use std::sync::Arc;

#[test]
fn blocks_end_where_the_limit_is() {
    let (store, client) = store();
    let shared = Arc::clone(&store.shared);
    limit(&shared, ANNA, 300, 0);
    let (anna, bert, admin) = (user(&client, ANNA), user(&client, BERT), root(&client));
    write(&anna, "first", 0, 100 * BLOCK).unwrap();
    assert_eq!(fill(&anna, "f"), 200);
    assert_eq!(owned(&shared, ANNA).blocks, 300);
    assert_eq!(write(&anna, "f", 10, 150 * BLOCK), Ok(150 * BLOCK), "what is there is written over");
    assert_eq!(write(&anna, "f", 199 * BLOCK + 9, BLOCK), Err(Error::OverQuota), "all or nothing");
    assert_eq!(anna.read_file("f").unwrap().len(), 200 * BLOCK);
    assert_eq!(write(&bert, "b", 0, 400 * BLOCK), Ok(400 * BLOCK), "others have none");
    assert_eq!(write(&bert, "first", 200 * BLOCK, BLOCK), Err(Error::OverQuota), "of whom owns it");
    assert_eq!(write(&admin, "f", 200 * BLOCK, 5 * BLOCK), Ok(5 * BLOCK), "root passes limits");
    assert_eq!(owned(&shared, ANNA).blocks, 305);
    anna.unlink("first").unwrap();
    assert_eq!(fill(&anna, "more"), 95, "freed blocks are free at once");
    client.truncate(&anna.who, Base::Root, b"f", (10 * BLOCK) as i64).unwrap();
    assert_eq!(fill(&anna, "last"), 195);
    limit(&shared, ANNA, 0, 0);
    write(&anna, "free", 0, 50 * BLOCK).unwrap();
    assert_eq!(owned(&shared, ANNA).blocks, 350);
    drop((anna, bert, admin, shared));
    check(store, vec![client]);
}

#[test]
fn a_refused_payer_has_nothing_left_of_its_earlier_room() {
    let (store, client) = store();
    let other = store.attach();
    let shared = Arc::clone(&store.shared);
    let [anna, beside] = [&client, &other].map(|client| user(client, ANNA));
    // In folders of their own, so that no lease moves between the two and voids anything.
    let [first, second] = [(&anna, "first"), (&beside, "second")].map(|(caller, folder)| {
        caller.mkdir(folder).unwrap();
        let path = format!("{folder}/f");
        caller.client.open(&caller.who, Base::Root, path.as_bytes(), O_CREAT | O_WRONLY, 0o666).unwrap()
    });
    limit(&shared, ANNA, 30, 0);
    let mut ends = [0, 0];
    let mut append = |which: usize, blocks: usize| {
        let data = vec![7; blocks * BLOCK];
        let (client, file) = [(&client, &first), (&other, &second)][which];
        let answer = client.pwrite(file, &[data.as_slice().into()], ends[which]);
        ends[which] += answer.as_ref().map_or(0, |&written| written as i64);
        answer.map(|written| written / BLOCK)
    };
    assert_eq!(append(0, 1), Ok(1), "and room for some more");
    assert_eq!(append(1, 16), Ok(16));
    assert_eq!(append(0, 16), Err(Error::OverQuota));
    assert_eq!(append(1, 13), Ok(13), "all that there is");
    assert_eq!(append(0, 1), Err(Error::OverQuota));
    assert_eq!(owned(&shared, ANNA).blocks, 30);
    client.close(first).unwrap();
    other.close(second).unwrap();
    drop((anna, beside, shared));
    check(store, vec![client, other]);
}

#[test]
fn inodes_end_where_the_limit_is() {
    let (store, client) = store();
    let shared = Arc::clone(&store.shared);
    limit(&shared, ANNA, 0, 5);
    let anna = user(&client, ANNA);
    anna.mkdir("d").unwrap();
    anna.symlink("x", "l").unwrap();
    write(&anna, "f", 0, 100 * BLOCK).unwrap();
    anna.link("f", "hard").unwrap();
    let unnamed = || {
        let flags = UNNAMED | libc::O_DIRECTORY | O_RDWR;
        client.open(&anna.who, Base::Root, b".", flags, 0o600)
    };
    let open = unnamed().unwrap();
    client.make_node(&anna.who, Base::Root, b"p", libc::S_IFIFO | 0o600, 0).unwrap();
    assert_eq!(anna.mkdir("e"), Err(Error::OverQuota));
    assert_eq!(anna.symlink("x", "m"), Err(Error::OverQuota));
    assert_eq!(unnamed().err(), Some(Error::OverQuota));
    assert_eq!(write(&anna, "g", 0, 1), Err(Error::OverQuota));
    assert_eq!(owned(&shared, ANNA).inodes, 5);
    client.close(open).unwrap();
    anna.mkdir("e").unwrap();
    anna.rename("e", "moved").unwrap();
    assert_eq!(anna.mkdir("g"), Err(Error::OverQuota));
    drop((anna, shared));
    check(store, vec![client]);
}

#[test]
fn sessions_share_the_remaining_room_to_the_last_block() {
    let (store, first) = store();
    let shared = Arc::clone(&store.shared);
    let second = store.attach();
    limit(&shared, ANNA, 1000, 100);
    let (one, two) = (user(&first, ANNA), user(&second, ANNA));
    // Both have room they do not use.
    write(&one, "one", 0, 1).unwrap();
    write(&two, "two", 0, 1).unwrap();
    assert_eq!(fill(&one, "more"), 998);
    assert_eq!(fill(&two, "none"), 0);
    one.unlink("more").unwrap();
    assert_eq!(fill(&two, "again"), 998, "the other's log says what is free");
    assert_eq!(owned(&shared, ANNA), Amounts { blocks: 1000, inodes: 4 });
    drop((one, two, shared));
    check(store, vec![first, second]);
}

#[test]
fn a_file_given_away_counts_for_its_new_owner() {
    let (store, client) = store();
    let shared = Arc::clone(&store.shared);
    limit(&shared, ANNA, 10, 0);
    let (anna, bert, admin) = (user(&client, ANNA), user(&client, BERT), root(&client));
    write(&bert, "f", 0, 8 * BLOCK).unwrap();
    write(&anna, "mine", 0, 4 * BLOCK).unwrap();
    let give = |who: &Credentials, uid| {
        let at = Target::Path { base: Base::Root, path: b"f", follow: true };
        let set = SetAttributes { uid: Some(uid), chown: true, ..SetAttributes::default() };
        client.set_attributes(who, at, set)
    };
    let mut giver = bert.who.clone();
    giver.capabilities =
        cuesta_libfs::Capabilities::from_bits(1 << cuesta_libfs::Capability::ChangeOwner as u8);
    assert_eq!(give(&giver, ANNA), Err(Error::OverQuota));
    give(&admin.who, ANNA).unwrap();
    assert_eq!((owned(&shared, ANNA).blocks, owned(&shared, BERT)), (12, Amounts::NONE));
    assert_eq!(write(&anna, "mine", 4 * BLOCK, 1), Err(Error::OverQuota));
    give(&admin.who, BERT).unwrap();
    assert_eq!(fill(&anna, "rest"), 6);
    drop((anna, bert, admin, shared));
    check(store, vec![client]);
}

/// No space is reserved, but an allocation that could not be written is refused here.
#[test]
fn an_allocation_is_refused_where_writing_would_be() {
    let (store, client) = store();
    let shared = Arc::clone(&store.shared);
    limit(&shared, ANNA, 100, 0);
    let (anna, admin) = (user(&client, ANNA), root(&client));
    write(&anna, "f", 0, 40 * BLOCK).unwrap();
    client.digest().unwrap();
    write(&anna, "f", 50 * BLOCK, 10 * BLOCK).unwrap();
    let before = anna.read_file("f").unwrap();
    let file = anna.open("f", O_RDWR).unwrap();
    let allocate = |what, from: usize, to: usize| {
        client.allocate(&file, what, (from * BLOCK) as i64, ((to - from) * BLOCK) as i64)
    };
    for what in [Allocation::Extend, Allocation::KeepSize, Allocation::Zero] {
        assert_eq!(allocate(what, 0, 101), Err(Error::OverQuota), "{what:?}");
        assert_eq!(allocate(what, 45, 111), Err(Error::OverQuota), "{what:?} of what it has in part");
    }
    assert!(anna.read_file("f").unwrap() == before, "not begun");
    for what in [Allocation::KeepSize, Allocation::Extend] {
        assert_eq!(allocate(what, 20, 100), Ok(()), "{what:?}");
    }
    assert_eq!(anna.stat("f").unwrap().size, 100 * BLOCK as u64);
    assert_eq!(fill(&anna, "g"), 50);
    assert_eq!(allocate(Allocation::KeepSize, 0, 40), Ok(()), "what it has");
    assert_eq!(allocate(Allocation::Extend, 0, 41), Err(Error::OverQuota));
    admin.with_file("f", |client, file| {
        client.allocate(file, Allocation::Extend, 0, (200 * BLOCK) as i64).unwrap();
    });
    assert_eq!(owned(&shared, ANNA).blocks, 100);
    client.close(file).unwrap();
    drop((anna, admin, shared));
    check(store, vec![client]);
}

#[test]
fn groups_are_limited_as_users_are() {
    const STAFF: u32 = 50;
    let (store, client) = store();
    let shared = Arc::clone(&store.shared);
    let limits = Some(Amounts { blocks: 100, inodes: 6 });
    assert_eq!(set(&shared, Limited::Group(STAFF), limits), Response::Done);
    let caller = |uid, gid, groups| Caller {
        client: Arc::clone(&client),
        who: Credentials::of_user(uid, gid, groups),
    };
    let (anna, bert) = (caller(ANNA, STAFF, Vec::new()), caller(BERT, STAFF, Vec::new()));
    let owned = || {
        let found = quotas(&shared).into_iter().find(|quota| quota.payer == Payer::Group(STAFF));
        found.map_or(Amounts::NONE, |quota| quota.used)
    };
    write(&anna, "a", 0, 60 * BLOCK).unwrap();
    assert_eq!(fill(&bert, "b"), 40, "either session");
    assert_eq!(write(&anna, "a", 60 * BLOCK, 1), Err(Error::OverQuota));
    assert_eq!(owned(), Amounts { blocks: 100, inodes: 2 });

    // The quota is that of the file's group, not of the user's first group.
    let alone = caller(ANNA, ANNA, vec![STAFF]);
    write(&alone, "own", 0, 30 * BLOCK).unwrap();
    let give = |path: &str, gid| {
        let at = Target::Path { base: Base::Root, path: path.as_bytes(), follow: true };
        let set = SetAttributes { gid: Some(gid), chown: true, ..SetAttributes::default() };
        client.set_attributes(&alone.who, at, set)
    };
    assert_eq!(give("own", STAFF), Err(Error::OverQuota));
    assert_eq!(alone.stat("own").unwrap().gid, ANNA);
    bert.unlink("b").unwrap();
    give("own", STAFF).unwrap();
    assert_eq!(fill(&bert, "c"), 10, "a file given away counts at once");
    give("own", ANNA).unwrap();
    assert_eq!(fill(&bert, "d"), 30);
    assert_eq!(owned(), Amounts { blocks: 100, inodes: 3 });
    for folder in ["e", "f", "g"] {
        anna.mkdir(folder).unwrap();
    }
    assert_eq!(anna.mkdir("h"), Err(Error::OverQuota));
    alone.mkdir("h").unwrap();
    assert_eq!(give("h", STAFF), Err(Error::OverQuota));
    drop((anna, bert, alone, shared));
    check(store, vec![client]);
}

/// Two sessions of a user, each with a file in a folder of its own, so that no lease moves between them and
/// voids anything.
fn apart(clients: [&Arc<Client>; 2], uid: u32) -> [Arc<OpenFile>; 2] {
    let open = |client: &Arc<Client>, folder: &str| {
        let caller = user(client, uid);
        caller.mkdir(folder).unwrap();
        caller.open(&format!("{folder}/f"), O_CREAT | O_WRONLY).unwrap()
    };
    [open(clients[0], &format!("first{uid}")), open(clients[1], &format!("second{uid}"))]
}

/// Writes blocks from `from` on until a write is refused. Answers how many.
fn fill_from(client: &Client, file: &OpenFile, from: usize) -> usize {
    let block = vec![7; BLOCK];
    let mut blocks = 0;
    loop {
        match client.pwrite(file, &[block.as_slice().into()], ((from + blocks) * BLOCK) as i64) {
            Ok(_) => blocks += 1,
            Err(Error::OverQuota) => return blocks,
            Err(error) => panic!("{error}"),
        }
        assert!(blocks < 5000, "it goes on and on");
    }
}

#[test]
fn room_given_before_a_limit_is_worth_nothing_after_it() {
    let (store, client) = store();
    let other = store.attach();
    let shared = Arc::clone(&store.shared);
    let annas = apart([&client, &other], ANNA);
    let berts = apart([&client, &other], BERT);
    limit(&shared, ANNA, 1000, 0);
    let one = vec![7; BLOCK];
    for files in [&annas, &berts] {
        for (client, file) in [&client, &other].into_iter().zip(files) {
            assert_eq!(client.pwrite(file, &[one.as_slice().into()], 0), Ok(BLOCK), "and room for more");
        }
    }
    limit(&shared, ANNA, 20, 0);
    let first = fill_from(&client, &annas[0], 1);
    assert_eq!(first + fill_from(&other, &annas[1], 1), 18);
    assert_eq!(owned(&shared, ANNA).blocks, 20);
    // He had no limit at all.
    limit(&shared, BERT, 5, 0);
    let first = fill_from(&client, &berts[0], 1);
    assert_eq!(first + fill_from(&other, &berts[1], 1), 3);
    assert_eq!(owned(&shared, BERT).blocks, 5);
    for [first, second] in [annas, berts] {
        client.close(first).unwrap();
        other.close(second).unwrap();
    }
    drop(shared);
    check(store, vec![client, other]);
}

#[test]
fn undigested_changes_count_when_a_limit_is_set() {
    let (store, client) = store();
    let other = store.attach();
    let shared = Arc::clone(&store.shared);
    let files = apart([&client, &other], ANNA);
    client.digest().unwrap();
    other.digest().unwrap();
    let data = vec![7; 10 * BLOCK];
    for round in 0..4 {
        client.pwrite(&files[0], &[data.as_slice().into()], (round * 10 * BLOCK) as i64).unwrap();
    }
    assert!(shared.backlogs().iter().any(|log| log.bytes > 0), "nothing is in a log");
    limit(&shared, ANNA, 50, 0);
    // The session that asks first has nothing of it in its own log.
    assert_eq!(fill_from(&other, &files[1], 0), 10);
    assert_eq!(fill_from(&client, &files[0], 40), 0);
    assert_eq!(owned(&shared, ANNA).blocks, 50);
    let [first, second] = files;
    client.close(first).unwrap();
    other.close(second).unwrap();
    drop(shared);
    check(store, vec![client, other]);
}

#[test]
fn limits_and_amounts_survive_the_daemon() {
    let (store, client) = store();
    limit(&store.shared, ANNA, 100, 0);
    let anna = user(&client, ANNA);
    write(&anna, "f", 0, 60 * BLOCK).unwrap();
    let shared = store.take_over();
    let next = Client::attach(Box::new(InProcess::of(&shared, SessionId(0))), "test").unwrap();
    let anna = user(&next, ANNA);
    assert_eq!(owned(&shared, ANNA), Amounts { blocks: 60, inodes: 1 });
    assert_eq!(fill(&anna, "rest"), 40);
}
