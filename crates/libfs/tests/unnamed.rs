//! Files that are opened without a name (`O_TMPFILE`): they get one, or leave nothing behind.

use crate::common::{Caller, Store, root, small};
use cuesta_libfs::{Base, Error, LinkSource, OpenFile};
use libc::{O_EXCL, O_RDWR, O_TMPFILE};

fn link(call: &Caller, file: &OpenFile, path: &str) -> Result<(), Error> {
    call.client.link(&call.who, LinkSource::File(file), Base::Root, path.as_bytes()).map(drop)
}

#[test]
fn an_unnamed_file_gets_a_name_with_all_it_holds() {
    for digested in [false, true] {
        let store = Store::new(small());
        let client = store.attach();
        let call = root(&client);
        call.mkdir("d").unwrap();
        let file = call.open("d", O_TMPFILE | O_RDWR).unwrap();
        client.write(&file, &[[5u8; 9000].as_slice().into()]).unwrap();
        let links = || client.stat_open(&file).unwrap().record.links;
        assert_eq!((links(), call.list("d").unwrap().len(), call.stat("d").unwrap().size), (0, 0, 0));
        if digested {
            client.digest().unwrap();
        }
        link(&call, &file, "d/named").unwrap();
        assert_eq!(links(), 1);
        call.unlink("d/named").unwrap();
        assert_eq!(link(&call, &file, "d/again"), Err(Error::NotFound), "only the first name is free");
        client.close(file).unwrap();
        assert_eq!(call.stat("d").unwrap().size, 0);

        let file = call.open("d", O_TMPFILE | O_RDWR).unwrap();
        client.write(&file, &[[6u8; 5000].as_slice().into()]).unwrap();
        link(&call, &file, "kept").unwrap();
        client.close(file).unwrap();
        client.detach();
        assert_eq!(root(&store.attach()).read_file("kept").unwrap(), [6u8; 5000]);
    }
}

#[test]
fn an_exclusive_one_never_gets_a_name() {
    let store = Store::new(small());
    let call = root(&store.attach());
    let file = call.open("/", O_TMPFILE | O_RDWR | O_EXCL).unwrap();
    assert_eq!(link(&call, &file, "named"), Err(Error::NotFound));
}

#[test]
fn nothing_is_left_of_a_file_that_got_no_name() {
    let store = Store::new(small());
    let used = |call: &Caller| {
        let totals = call.client.statfs().unwrap();
        (totals.inodes - totals.inodes_free, totals.blocks - totals.blocks_free)
    };
    let first = store.attach();
    let call = root(&first);
    let before = used(&call);
    let closed = call.open("/", O_TMPFILE | O_RDWR).unwrap();
    first.write(&closed, &[[1u8; 50_000].as_slice().into()]).unwrap();
    first.digest().unwrap();
    first.close(closed).unwrap();
    let open = call.open("/", O_TMPFILE | O_RDWR).unwrap();
    first.write(&open, &[[1u8; 50_000].as_slice().into()]).unwrap();
    first.digest().unwrap();
    first.detach();
    let second = store.attach();
    second.digest().unwrap();
    assert_eq!(used(&root(&second)).0, before.0);
    assert_eq!(root(&second).list("/").unwrap(), [""; 0]);
}

#[test]
fn another_session_of_the_family_may_name_it() {
    let store = Store::new(small()).digesting();
    let parent = store.attach();
    let file = root(&parent).open("/", O_TMPFILE | O_RDWR).unwrap();
    parent.write(&file, &[b"shared".as_slice().into()]).unwrap();
    let child = store.attach();
    let call = root(&child);
    let again = child.reopen(&call.who, file.inode(), O_RDWR, 0).unwrap();
    link(&call, &again, "named").unwrap();
    parent.close(file).unwrap();
    parent.detach();
    child.close(again).unwrap();
    child.detach();
    // Later sessions, and the daemon that recovers the store, have it.
    assert_eq!(root(&store.attach()).read_file("named").unwrap(), b"shared");
    let shared = store.take_over();
    let client = cuesta_libfs::Client::attach(
        Box::new(crate::common::InProcess::of(&shared, cuesta_format::SessionId(0))),
        "test",
    );
    assert_eq!(root(&client.unwrap()).read_file("named").unwrap(), b"shared");
}
