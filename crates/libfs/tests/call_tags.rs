//! Calls that a session executes for callers: the entry by which a call takes effect carries its tag, and no
//! other entry does.

use crate::common::*;
use cuesta_format::{CallRecord, CallSlot, CallTag, CallerId};
use cuesta_libfs::{
    Allocation, Base, CallingProcess, Client, Error, ExtendedFlags, RenameFlags, SetAttributes, Target,
    tagged, while_wanted,
};
use std::sync::Arc;

fn tag(slot: u16, number: u64) -> CallTag {
    let caller = cuesta_format::Caller { user: 1000, id: CallerId([slot as u8; 16]) };
    CallTag { slot: CallSlot { caller, slot }, process: 0, number }
}

fn last(client: &Client, slot: u16) -> Option<CallRecord> {
    client.last_call(tag(slot, 0).slot).unwrap()
}

fn at(path: &str) -> Target<'_> {
    Target::Path { base: Base::Root, path: path.as_bytes(), follow: false }
}

fn executing(store: &Store) -> Arc<Client> {
    let client = store.attach();
    client.execute_for_callers();
    client
}

#[test]
fn each_call_that_takes_effect_leaves_its_number() {
    let store = Store::new(small());
    let client = executing(&store);
    let caller = root(&client);
    caller.write_file("one", &[b'a'; 8192]).unwrap();
    caller.write_file("other", b"other").unwrap();
    caller.mkdir("gone").unwrap();
    let gone = caller.stat("gone").unwrap().inode;
    client.digest().unwrap();
    assert_eq!(last(&client, 0), None, "no caller's calls");
    let value = [&[0, 0, 0, 2][..], &[0; 16]].concat();
    let none = ExtendedFlags::default();
    let append = |caller: &Caller| {
        caller.with_file("other", |client, file| {
            assert_eq!(client.write_appending(file, &[b" more".as_slice().into()], None, true), Ok(5));
        })
    };
    let shift = |caller: &Caller, what| {
        caller.with_file("one", |client, file| {
            client.allocate(file, what, 0, 4096).unwrap();
        })
    };
    type Call<'a> = (&'a str, &'a dyn Fn(&Caller));
    let calls: [Call<'_>; 20] = [
        ("mkdir", &|caller| caller.mkdir("made").unwrap()),
        ("symlink", &|caller| caller.symlink("there", "soft").unwrap()),
        ("link", &|caller| caller.link("one", "hard").unwrap()),
        ("unlink", &|caller| caller.unlink("hard").unwrap()),
        ("rmdir", &|caller| caller.rmdir("gone").unwrap()),
        ("rename", &|caller| caller.rename("made", "moved").unwrap()),
        ("exchange", &|caller| {
            let exchange = RenameFlags { exchange: true, ..RenameFlags::default() };
            caller.rename_with("one", "other", exchange).unwrap();
            caller.rename("one", "back").unwrap();
            caller.rename("other", "one").unwrap();
            caller.rename("back", "other").unwrap();
        }),
        ("insert", &|caller| shift(caller, Allocation::Insert)),
        ("collapse", &|caller| shift(caller, Allocation::Collapse)),
        ("setxattr", &|caller| {
            client.set_extended(&caller.who, at("other"), b"security.capability", &value, none).unwrap();
        }),
        ("removexattr", &|caller| {
            client.remove_extended(&caller.who, at("other"), b"security.capability").unwrap();
        }),
        ("append", &append),
        ("open", &|caller| {
            let file = caller.open("new", libc::O_CREAT | libc::O_EXCL | libc::O_RDWR).unwrap();
            client.close(file).unwrap();
        }),
        ("truncate", &|caller| client.truncate(&caller.who, Base::Root, b"one", 9000).unwrap()),
        ("ftruncate", &|caller| {
            caller.with_file("one", |client, file| client.truncate_open(file, 8000).unwrap())
        }),
        ("O_TRUNC", &|caller| {
            client.close(caller.open("one", libc::O_RDWR | libc::O_TRUNC).unwrap()).unwrap()
        }),
        ("fallocate", &|caller| {
            caller.with_file("one", |client, file| {
                client.allocate(file, Allocation::Extend, 0, 100).unwrap();
            })
        }),
        ("zero range", &|caller| {
            caller.with_file("one", |client, file| {
                client.allocate(file, Allocation::Zero, 0, 100).unwrap();
            })
        }),
        ("chmod", &|caller| {
            let set = SetAttributes { mode: Some(0o600), ..SetAttributes::default() };
            client.set_attributes(&caller.who, at("one"), set).unwrap();
        }),
        ("mknod", &|caller| {
            client.make_node(&caller.who, Base::Root, b"node", libc::S_IFIFO | 0o600, 0).unwrap();
        }),
    ];
    for (number, (name, call)) in calls.iter().enumerate() {
        let number = number as u64 + 1;
        tagged(tag(0, number), || call(&caller));
        let record = last(&client, 0).unwrap_or_else(|| panic!("{name}: nothing is known"));
        let (value, end) = match *name {
            "append" => (5, 10),
            "mkdir" => (caller.stat("moved").or_else(|_| caller.stat("made")).unwrap().inode.0, 0),
            "symlink" => (caller.stat("soft").unwrap().inode.0, 0),
            "open" => (caller.stat("new").unwrap().inode.0, 0),
            "mknod" => (caller.stat("node").unwrap().inode.0, 0),
            "rmdir" => (gone.0, 0),
            "rename" => (caller.stat("moved").unwrap().inode.0, 0),
            "setxattr" | "removexattr" => (caller.stat("other").unwrap().inode.0, 0),
            "exchange" => (caller.stat("other").unwrap().inode.0, 0),
            _ => (caller.stat("one").unwrap().inode.0, 0),
        };
        assert_eq!(record, CallRecord { number, process: 0, value, end }, "{name}");
    }
    // A call without a tag leaves no record, also in this thread.
    caller.mkdir("nobody's").unwrap();
    assert_eq!(last(&client, 0).unwrap().number, calls.len() as u64);
    client.forget_caller(tag(0, 0).slot.caller).unwrap();
    assert_eq!(last(&client, 0), None);
}

#[test]
fn a_session_without_callers_carries_no_tag() {
    let store = Store::new(small());
    let client = store.attach();
    tagged(tag(0, 1), || root(&client).mkdir("made").unwrap());
    assert_eq!(last(&client, 0), None);
}

/// The write clears the file's privileges first, and is then refused: the call took no effect.
#[test]
fn only_the_effect_of_a_call_carries_its_tag() {
    let store = Store::new(small());
    let client = executing(&store);
    let caller = root(&client);
    let value = [&[0, 0, 0, 2][..], &[0; 16]].concat();
    caller.write_file("f", b"content").unwrap();
    let flags = ExtendedFlags::default();
    client.set_extended(&caller.who, at("f"), b"security.capability", &value, flags).unwrap();
    let (mode, chown) = (Some(0o6777), SetAttributes { uid: Some(5), ..SetAttributes::default() });
    client.set_attributes(&caller.who, at("f"), chown).unwrap();
    client.set_attributes(&caller.who, at("f"), SetAttributes { mode, ..SetAttributes::default() }).unwrap();
    client.set_extended(&caller.who, at("f"), b"security.capability", &value, flags).unwrap();
    client.limit_files(7);
    let who = cuesta_libfs::Credentials::of_user(1000, 1000, Vec::new());
    let user = Caller { client: Arc::clone(&client), who };
    let append = |number| {
        let file = user.open("f", libc::O_WRONLY | libc::O_APPEND).unwrap();
        let answer = tagged(tag(0, number), || client.write(&file, &[b"!".as_slice().into()]));
        client.close(file).unwrap();
        answer
    };
    assert_eq!(append(1), Err(Error::OverLimit));
    assert_eq!(caller.stat("f").unwrap().mode & 0o7777, 0o777, "the bits are gone");
    assert_eq!(client.list_extended(&caller.who, at("f")).unwrap(), b"", "so is the capability");
    assert_eq!(last(&client, 0), None);
    client.limit_files(u64::MAX);
    assert_eq!(append(2), Ok(1));
    assert_eq!(last(&client, 0), Some(CallRecord { number: 2, process: 0, value: 1, end: 8 }));

    // An entry of its own releases a file that is closed after it lost its name.
    let file = caller.open("f", libc::O_RDONLY).unwrap();
    caller.unlink("f").unwrap();
    tagged(tag(0, 3), || client.close(file).unwrap());
    assert_eq!(last(&client, 0).unwrap().number, 2);
    assert_eq!(tagged(tag(0, 4), || caller.mkdir(".")), Err(Error::Exists));
    assert_eq!(last(&client, 0).unwrap().number, 2, "a call that fails takes no effect");
}

/// Sessions fence each other at nearly each call, and void entries: the next attempt carries the tag, too.
#[test]
fn an_attempt_that_is_made_again_carries_the_tag() {
    const CALLS: u64 = 300;
    let store = Store::new(small()).digesting();
    let clients = [executing(&store), executing(&store)];
    std::thread::scope(|scope| {
        for (slot, client) in clients.iter().enumerate() {
            scope.spawn(move || {
                let caller = root(client);
                for number in 1..=CALLS {
                    tagged(tag(slot as u16, number), || caller.mkdir(&format!("{slot}-{number}")).unwrap());
                    if number % 10 == 0 {
                        assert_eq!(last(client, slot as u16).unwrap().number, number);
                    }
                }
            });
        }
    });
    for (slot, client) in clients.iter().enumerate() {
        let made = root(client).stat(&format!("{slot}-{CALLS}")).unwrap().inode;
        let record = last(client, slot as u16).unwrap();
        assert_eq!((record.number, record.value), (CALLS, made.0));
    }
}

/// A process that has ended.
struct Gone;

impl CallingProcess for Gone {
    fn is_gone(&self) -> bool {
        true
    }
}

/// The program after a killed one relies on its end: no change of it may come later.
#[test]
fn a_call_whose_process_has_ended_takes_no_effect() {
    let store = Store::new(small());
    let client = executing(&store);
    let caller = root(&client);
    caller.write_file("f", b"content").unwrap();
    caller.mkdir("d").unwrap();
    let file = caller.open("f", libc::O_RDWR).unwrap();
    let gone: Arc<dyn CallingProcess> = Arc::new(Gone);
    let none = ExtendedFlags::default();
    let chmod = SetAttributes { mode: Some(0), ..SetAttributes::default() };
    type Call<'a> = (&'a str, &'a dyn Fn() -> Result<(), Error>);
    let calls: [Call<'_>; 13] = [
        ("mkdir", &|| caller.mkdir("made")),
        ("symlink", &|| caller.symlink("there", "made")),
        ("link", &|| caller.link("f", "made")),
        ("unlink", &|| caller.unlink("f")),
        ("rmdir", &|| caller.rmdir("d")),
        ("rename", &|| caller.rename("f", "made")),
        ("open", &|| caller.open("made", libc::O_CREAT | libc::O_RDWR).map(drop)),
        ("write", &|| client.pwrite(&file, &[b"changed".as_slice().into()], 0).map(drop)),
        ("truncate", &|| client.truncate_open(&file, 1)),
        ("insert", &|| client.allocate(&file, Allocation::Insert, 0, 4096)),
        ("allocate", &|| client.allocate(&file, Allocation::Extend, 0, 9000)),
        ("chmod", &|| client.set_attributes(&caller.who, at("f"), chmod)),
        ("setxattr", &|| client.set_extended(&caller.who, at("f"), b"user.a", b"v", none)),
    ];
    let before = caller.stat("f").unwrap();
    for (number, (name, call)) in calls.iter().enumerate() {
        let answer = while_wanted(&gone, || tagged(tag(0, number as u64 + 1), call));
        assert_eq!(answer, Err(Error::Withdrawn), "{name}");
    }
    assert_eq!(last(&client, 0), None);
    assert_eq!(caller.stat("f").unwrap(), before);
    assert_eq!(caller.read_file("f").unwrap(), b"content");
    assert_eq!(caller.stat("made").unwrap_err(), Error::NotFound);
    // After the calls the thread has no tag, and its own calls work.
    caller.mkdir("made").unwrap();
    caller.rmdir("d").unwrap();
}
