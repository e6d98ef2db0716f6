//! Every call that must not be executed twice, and its daemon dies at one planted moment: before it, behind it, or when it was
//! digested. The call is answered by the next daemon as if nothing had been.

use super::{Daemons, Planted, Replace, Replacing, Served};
use cuesta_format::InodeRecord;
use cuesta_libfs::{
    Allocation, Asker, CallByNumber, Credentials, Error, ExtendedFlags, RenameFlags, SetAttributes,
    ShippedChange, ShippedFile, Whence,
};
use cuesta_media::UserSlice;
use cuesta_media::planted::{CAN_PLANT, Death};
use cuesta_served::{PathBase as Base, Subject};

/// A call on what [`prepare`] made, and what must be true behind it.
type Case = (&'static str, fn(&Served, &str), fn(&Served, &str));

fn path(at: &str, name: &str) -> Vec<u8> {
    format!("{at}/{name}").into_bytes()
}

fn subject(path: &[u8]) -> Subject<'_> {
    Subject::Path { place: Base::Root, path, follow: false }
}

fn names(served: &Served, at: &str) -> String {
    let names = served.list(at.as_bytes()).into_iter();
    names.map(|(name, _)| String::from_utf8(name).unwrap()).collect::<Vec<_>>().join(" ")
}

const PAGE: usize = 4096;

/// Files `one` (two pages) and `other` (with an attribute), a directory `inner`.
fn prepare(served: &Served, at: &str) {
    served.client.make_directory(Base::Root, at.as_bytes(), 0o755.into()).unwrap();
    served.client.make_directory(Base::Root, &path(at, "inner"), 0o755.into()).unwrap();
    for (name, content) in [("one", [[b'a'; PAGE], [b'b'; PAGE]].concat()), ("other", b"other".to_vec())] {
        let open = served.open(&path(at, name), libc::O_CREAT | libc::O_RDWR).unwrap();
        served.write(&open, &content, Some(0), false).unwrap();
        served.client.fsync(&open.file).unwrap();
        served.close(open).unwrap();
    }
    let set =
        served.client.set_extended(subject(&path(at, "other")), b"user.old", b"1", ExtendedFlags::default());
    set.unwrap();
}

const CASES: [Case; 21] = [
    (
        "mkdir",
        |served, at| served.client.make_directory(Base::Root, &path(at, "made"), 0o700.into()).unwrap(),
        |served, at| assert_eq!(names(served, at), "inner made one other"),
    ),
    (
        "mknod",
        |served, at| {
            let mode = (libc::S_IFIFO | 0o600).into();
            let made = served.client.make_node(Base::Root, &path(at, "made"), mode, 0).unwrap();
            let found = served.list(at.as_bytes()).into_iter().find(|(name, _)| name == b"made");
            assert_eq!(found.unwrap().1, made, "it is answered with its inode");
        },
        |served, at| assert_eq!(names(served, at), "inner made one other"),
    ),
    (
        "symlink",
        |served, at| served.client.symlink(b"there", Base::Root, &path(at, "made")).unwrap(),
        |served, at| {
            assert_eq!(served.client.read_link(subject(&path(at, "made"))).unwrap(), b"there");
        },
    ),
    (
        "link",
        |served, at| {
            let one = path(at, "one");
            served.client.link(subject(&one), Base::Root, &path(at, "made")).unwrap();
        },
        |served, at| assert_eq!(served.client.stat(subject(&path(at, "one"))).unwrap().links, 2),
    ),
    (
        "unlink",
        |served, at| served.client.unlink(Base::Root, &path(at, "one"), false).unwrap(),
        |served, at| assert_eq!(names(served, at), "inner other"),
    ),
    (
        "rmdir",
        |served, at| served.client.unlink(Base::Root, &path(at, "inner"), true).unwrap(),
        |served, at| assert_eq!(names(served, at), "one other"),
    ),
    (
        "rename",
        |served, at| {
            let (from, to) = (path(at, "one"), path(at, "inner/moved"));
            let (from, to) = ((Base::Root, &from[..]), (Base::Root, &to[..]));
            served.client.rename(from, to, RenameFlags::default()).unwrap();
        },
        |served, at| {
            assert_eq!(
                (names(served, at), names(served, &format!("{at}/inner"))),
                ("inner other".into(), "moved".into())
            );
        },
    ),
    (
        "rename over another",
        |served, at| {
            let (from, to) = (path(at, "one"), path(at, "other"));
            let (from, to) = ((Base::Root, &from[..]), (Base::Root, &to[..]));
            served.client.rename(from, to, RenameFlags::default()).unwrap();
        },
        |served, at| {
            assert_eq!(names(served, at), "inner other");
            assert_eq!(served.read(&path(at, "other")).len(), 2 * PAGE);
        },
    ),
    (
        "rename, exchanging",
        |served, at| {
            let (from, to) = (path(at, "one"), path(at, "other"));
            let (from, to) = ((Base::Root, &from[..]), (Base::Root, &to[..]));
            let flags = RenameFlags { exchange: true, ..RenameFlags::default() };
            served.client.rename(from, to, flags).unwrap();
        },
        |served, at| assert_eq!(served.read(&path(at, "one")), b"other"),
    ),
    (
        "open, exclusively",
        |served, at| {
            // The maker of a file may write it, whatever its mode says.
            let flags = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY;
            let (place, name) = (Base::Root, path(at, "made"));
            let opened = served.client.open(place, &name, flags, 0o444.into(), Default::default()).unwrap();
            assert_eq!(opened.0.flags() & libc::O_ACCMODE, libc::O_WRONLY);
            let open = super::Open { file: opened.0, token: opened.1 };
            assert_eq!(served.write(&open, b"new", None, false), Ok(3));
            assert_eq!(served.write(&open, b"er", None, false), Ok(2));
        },
        |served, at| assert_eq!(served.read(&path(at, "made")), b"newer"),
    ),
    (
        "append",
        |served, at| {
            let open = served.open(&path(at, "other"), libc::O_WRONLY | libc::O_APPEND).unwrap();
            assert_eq!(served.write(&open, b" more", None, true), Ok(5));
            assert_eq!(served.client.seek(&open.file, 0, Whence::Current), Ok(10));
            served.close(open).unwrap();
        },
        |served, at| assert_eq!(served.read(&path(at, "other")), b"other more"),
    ),
    (
        "lseek",
        |served, at| {
            let open = served.open(&path(at, "one"), libc::O_RDONLY).unwrap();
            assert_eq!(served.client.seek(&open.file, 7, Whence::Current), Ok(7));
            assert_eq!(served.client.seek(&open.file, 0, Whence::Current), Ok(7));
            served.close(open).unwrap();
        },
        |served, at| assert_eq!(names(served, at), "inner one other"),
    ),
    (
        "collapse",
        |served, at| {
            let open = served.open(&path(at, "one"), libc::O_RDWR).unwrap();
            served.client.allocate(&open.file, Allocation::Collapse, 0, PAGE as i64).unwrap();
            served.close(open).unwrap();
        },
        |served, at| assert_eq!(served.read(&path(at, "one")), [b'b'; PAGE]),
    ),
    (
        "insert",
        |served, at| {
            let open = served.open(&path(at, "one"), libc::O_RDWR).unwrap();
            served.client.allocate(&open.file, Allocation::Insert, 0, PAGE as i64).unwrap();
            served.close(open).unwrap();
        },
        |served, at| {
            let whole = [[0; PAGE], [b'a'; PAGE], [b'b'; PAGE]].concat();
            assert!(served.read(&path(at, "one")) == whole);
        },
    ),
    (
        "setxattr, creating",
        |served, at| {
            let one = path(at, "one");
            let flags = ExtendedFlags { create: true, ..ExtendedFlags::default() };
            served.client.set_extended(subject(&one), b"user.new", b"2", flags).unwrap();
        },
        |served, at| {
            assert_eq!(served.client.get_extended(subject(&path(at, "one")), b"user.new").unwrap(), b"2");
        },
    ),
    (
        "truncate",
        |served, at| served.client.truncate(subject(&path(at, "one")), 100).unwrap(),
        |served, at| assert_eq!(served.read(&path(at, "one")), [b'a'; 100]),
    ),
    (
        "open, cutting",
        |served, at| {
            let open = served.open(&path(at, "one"), libc::O_RDWR | libc::O_TRUNC).unwrap();
            assert_eq!(served.write(&open, b"anew", None, false), Ok(4));
            served.close(open).unwrap();
        },
        |served, at| assert_eq!(served.read(&path(at, "one")), b"anew"),
    ),
    (
        "pwrite",
        |served, at| {
            let open = served.open(&path(at, "one"), libc::O_RDWR).unwrap();
            assert_eq!(served.write(&open, &[b'c'; PAGE], Some(PAGE as i64), false), Ok(PAGE));
            served.close(open).unwrap();
        },
        |served, at| {
            assert!(served.read(&path(at, "one")) == [[b'a'; PAGE], [b'c'; PAGE]].concat());
        },
    ),
    (
        "fallocate",
        |served, at| {
            let open = served.open(&path(at, "one"), libc::O_RDWR).unwrap();
            served.client.allocate(&open.file, Allocation::Zero, PAGE as i64, 2 * PAGE as i64).unwrap();
            served.client.allocate(&open.file, Allocation::Extend, 0, 4 * PAGE as i64).unwrap();
            served.close(open).unwrap();
        },
        |served, at| {
            assert!(
                served.read(&path(at, "one")) == [[b'a'; PAGE], [0; PAGE], [0; PAGE], [0; PAGE]].concat()
            );
        },
    ),
    (
        "chmod",
        |served, at| {
            let set = SetAttributes { mode: Some(0o600), ..SetAttributes::default() };
            served.client.set_attributes(subject(&path(at, "one")), set).unwrap();
        },
        |served, at| {
            assert_eq!(served.client.stat(subject(&path(at, "one"))).unwrap().mode & 0o777, 0o600);
        },
    ),
    (
        "removexattr",
        |served, at| served.client.remove_extended(subject(&path(at, "other")), b"user.old").unwrap(),
        |served, at| assert_eq!(served.client.list_extended(subject(&path(at, "other"))).unwrap(), b""),
    ),
];

/// What sessions send of files that SharedFS keeps for them.
const SENT: [Case; 8] = [
    (
        "a sent append",
        |served, at| {
            let file = sent(served, at, "other", libc::O_WRONLY | libc::O_APPEND);
            let data = [UserSlice::from(&b" more"[..])];
            assert_eq!(served.client.ship_write(&file, &data, None), Ok((5, 10)));
        },
        |served, at| assert_eq!(served.read(&path(at, "other")), b"other more"),
    ),
    (
        "a sent write",
        |served, at| {
            let file = sent(served, at, "other", libc::O_WRONLY);
            let data = [UserSlice::from(&b"written"[..])];
            assert_eq!(served.client.ship_write(&file, &data, Some(2)), Ok((7, 9)));
        },
        |served, at| assert_eq!(served.read(&path(at, "other")), b"otwritten"),
    ),
    (
        "a sent truncation",
        |served, at| {
            let file = sent(served, at, "one", libc::O_WRONLY);
            served.client.ship_change(&file, ShippedChange::Truncate { size: 10 }).unwrap();
        },
        |served, at| assert_eq!(served.read(&path(at, "one")), [b'a'; 10]),
    ),
    (
        "a sent collapse",
        |served, at| {
            let file = sent(served, at, "one", libc::O_WRONLY);
            let (what, offset, length) = (Allocation::Collapse, 0, PAGE as i64);
            served.client.ship_change(&file, ShippedChange::Allocate { what, offset, length }).unwrap();
        },
        |served, at| assert_eq!(served.read(&path(at, "one")), [b'b'; PAGE]),
    ),
    (
        "a sent chmod",
        |served, at| {
            let file = sent(served, at, "one", libc::O_RDONLY);
            let set = SetAttributes { mode: Some(0o600), ..SetAttributes::default() };
            served.client.ship_change(&file, ShippedChange::SetAttributes { set }).unwrap();
        },
        |served, at| {
            let mode = served.client.stat(subject(&path(at, "one"))).unwrap().mode;
            assert_eq!(mode & 0o7777, 0o600);
        },
    ),
    (
        "a file that is made for its opener",
        |served, at| {
            let make = || {
                let number = served.client.number_for_file().unwrap();
                let made = served.client.make_file(Base::Root, &path(at, "made"), 0o600.into(), number, None);
                (made.map(|record| record.inode), number)
            };
            // Numbers go with the daemon that reserved them, unless it made the file.
            let (made, number) = match make() {
                (Err(Error::Shipped(_)), _) => make(),
                made => made,
            };
            assert_eq!(made, Ok(number));
        },
        |served, at| assert_eq!(names(served, at), "inner made one other"),
    ),
    (
        "a directory that is made by number",
        |served, at| {
            let directory = served.client.stat(subject(&path(at, "."))).unwrap().inode;
            let call = CallByNumber::MakeDirectory { directory, name: b"made", mode: 0o700.into() };
            let made = by_number(served, &call).expect("the attributes of what was made");
            assert_eq!((made.parent, made.mode & 0o7777), (directory, 0o700));
        },
        |served, at| assert_eq!(names(served, at), "inner made one other"),
    ),
    (
        "a name that is moved by number",
        |served, at| {
            let directory = served.client.stat(subject(&path(at, "."))).unwrap().inode;
            let (new_directory, flags) = (directory, RenameFlags::default());
            let call =
                CallByNumber::Rename { directory, name: b"one", new_directory, new_name: b"moved", flags };
            assert_eq!(by_number(served, &call), None);
        },
        |served, at| assert_eq!(names(served, at), "inner moved other"),
    ),
];

fn by_number(served: &Served, call: &CallByNumber<'_>) -> Option<InodeRecord> {
    let who = Asker::of(&Credentials::of_user(0, 0, Vec::new()));
    served.client.by_number(who, call).unwrap()
}

fn sent(served: &Served, at: &str, name: &str, flags: i32) -> ShippedFile {
    let record = served.client.stat(subject(&path(at, name))).unwrap();
    let writer = Credentials::of_user(0, 0, Vec::new()).writer(&record);
    ShippedFile { inode: record.inode, flags, writer, limit: u64::MAX }
}

/// Each case, with a daemon that dies at each of the moments; and with a next one that dies before it has answered.
fn each(daemons: &Daemons, replacing: &Replacing, cases: &[Case]) {
    let served = daemons.client();
    let first = |death| Some(Planted { death, count: 1 });
    for (death, next) in
        Death::ALL.into_iter().flat_map(|death| [(death, None), (death, first(Death::Executed))])
    {
        for (number, (name, call, check)) in cases.iter().enumerate() {
            println!("{name}, and the daemon dies {death:?}; the next: {next:?}");
            let at = format!("{}-{}-{number}", death.name(), next.is_some());
            prepare(&served, &at);
            replacing.begin(Replace::Kill(first(death))).recv().unwrap();
            let mut successions = vec![replacing.begin(Replace::Await(next))];
            successions.extend(next.map(|_| replacing.begin(Replace::Await(None))));
            call(&served, &at);
            successions.into_iter().for_each(|succession| succession.recv().unwrap());
            check(&served, &at);
        }
    }
}

/// A store in which deaths can be planted.
fn plantable() -> Option<Daemons> {
    if !CAN_PLANT {
        println!("skipped: nothing can be planted in this build");
        return None;
    }
    Daemons::new()
}

#[test]
fn every_call_is_executed_once_whenever_its_daemon_dies() {
    let Some(daemons) = plantable() else { return };
    daemons.as_nobody(|replacing| each(&daemons, replacing, &CASES));
}

#[test]
fn what_a_session_sends_is_executed_once_whenever_the_daemon_dies() {
    let Some(daemons) = plantable() else { return };
    daemons.beside(|replacing| each(&daemons, replacing, &SENT));
}
