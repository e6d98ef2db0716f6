//! Quotas of users and groups: nothing is acknowledged that makes somebody own more than they may, and all that may be is.

mod common;

use common::quota::{ANNA, BERT, BLOCK, check, fill, limit, owned, store, user, write};
use common::{InProcess, root};
use cuesta_format::SessionId;
use cuesta_format::quota::Amounts;
use cuesta_libfs::{Base, Client, Credentials, Error, SetAttributes, Target, UNNAMED};
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
    assert_eq!(fill(&anna, "more"), 95, "what was freed is free at once");
    client.truncate(&anna.who, Base::Root, b"f", (10 * BLOCK) as i64).unwrap();
    assert_eq!(fill(&anna, "last"), 195);
    limit(&shared, ANNA, 0, 0);
    write(&anna, "free", 0, 50 * BLOCK).unwrap();
    assert_eq!(owned(&shared, ANNA).blocks, 350);
    drop((anna, bert, admin, shared));
    check(store, vec![client]);
}

#[test]
fn who_was_refused_has_nothing_left_of_the_room_of_before() {
    let (store, client) = store();
    let other = store.attach();
    let shared = Arc::clone(&store.shared);
    let [anna, beside] = [&client, &other].map(|client| user(client, ANNA));
    // In folders of their own: no lease moves between the two, and voids anything.
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
fn sessions_share_what_is_left_to_the_last_block() {
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
fn what_is_given_away_is_the_new_owners() {
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

#[test]
fn limits_and_what_is_owned_survive_the_daemon() {
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
