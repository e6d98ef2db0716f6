//! One tree by two doors: changes by one are seen by the other at once, whatever the kernel has cached.

use crate::common::{Mounted, ROOT, can_mount};
use cuesta_format::{InodeNumber, Timestamp};
use cuesta_libfs::{Base, Client, RenameFlags, SetAttributes, SetTime, Target};
use cuesta_media::{UserSlice, UserSliceMut};
use cuesta_sharedfs::Ship;
use std::fs::File;
use std::io::{ErrorKind, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, UNIX_EPOCH};

/// A number as different parts of a file system can hold it, larger each time.
#[derive(Clone, Copy, Debug)]
enum Holder {
    /// The first bytes of a file that is kept open.
    Content,
    /// Bytes far behind them.
    FarContent,
    /// The size of a file.
    Size,
    /// The time of its last change.
    Modified,
    /// The mode bits.
    Mode,
    /// The highest name there is of many.
    NewName,
    /// The lowest name there is not of many.
    GoneName,
    /// The file that a replaced name stands for.
    Renamed,
    /// The target of a link that is made anew.
    Target,
}

const HOLDERS: [Holder; 9] = [
    Holder::Content,
    Holder::FarContent,
    Holder::Size,
    Holder::Modified,
    Holder::Mode,
    Holder::NewName,
    Holder::GoneName,
    Holder::Renamed,
    Holder::Target,
];
const FAR: u64 = 300 << 10;
const CHANGES: u64 = 300;

/// A way to the files.
#[derive(Clone)]
enum Door {
    Mount(PathBuf),
    Session(Arc<Client>),
}

impl Door {
    fn prepare(&self) {
        for name in ["content", "far", "size", "modified", "mode"] {
            self.replace(name, &[0; 8], 0);
        }
        self.replace("far", &[0; 8], FAR);
        self.replace("renamed", &0u64.to_ne_bytes(), 0);
        for number in 0..=CHANGES {
            self.replace(&format!("gone-{number}"), b"", 0);
        }
        self.make_link(0);
    }

    fn replace(&self, name: &str, bytes: &[u8], at: u64) {
        match self {
            Door::Mount(folder) => {
                let file =
                    File::options().create(true).truncate(false).write(true).open(folder.join(name)).unwrap();
                file.write_all_at(bytes, at).unwrap();
            }
            Door::Session(client) => {
                let flags = libc::O_CREAT | libc::O_WRONLY;
                let file = client.open(&ROOT, Base::Root, name.as_bytes(), flags, 0o644).unwrap();
                client.pwrite(&file, &[UserSlice::from(bytes)], at as i64).unwrap();
                client.close(file).unwrap();
            }
        }
    }

    fn make_link(&self, number: u64) {
        let target = number.to_string();
        match self {
            Door::Mount(folder) => {
                let name = folder.join("link");
                let _ = std::fs::remove_file(&name);
                std::os::unix::fs::symlink(target, name).unwrap();
            }
            Door::Session(client) => {
                let _ = client.unlink(&ROOT, Base::Root, b"link");
                client.symlink(&ROOT, target.as_bytes(), Base::Root, b"link").unwrap();
            }
        }
    }

    /// Puts `number` there.
    fn put(&self, holder: Holder, number: u64) {
        let at_name = |name: &'static [u8]| Target::Path { base: Base::Root, path: name, follow: false };
        match (holder, self) {
            (Holder::Content, _) => self.replace("content", &number.to_ne_bytes(), 0),
            (Holder::FarContent, _) => self.replace("far", &number.to_ne_bytes(), FAR),
            (Holder::Size, Door::Mount(folder)) => {
                File::options().write(true).open(folder.join("size")).unwrap().set_len(number).unwrap();
            }
            (Holder::Size, Door::Session(client)) => {
                client.truncate(&ROOT, Base::Root, b"size", number as i64).unwrap();
            }
            (Holder::Modified, Door::Mount(folder)) => {
                let file = File::options().write(true).open(folder.join("modified")).unwrap();
                file.set_modified(UNIX_EPOCH + Duration::from_secs(number)).unwrap();
            }
            (Holder::Modified, Door::Session(client)) => {
                let modified = SetTime::To(Timestamp::new(number as i64, 0));
                let set = SetAttributes { modified, ..SetAttributes::default() };
                client.set_attributes(&ROOT, at_name(b"modified"), set).unwrap();
            }
            (Holder::Mode, Door::Mount(folder)) => {
                let mode = std::os::unix::fs::PermissionsExt::from_mode(number as u32);
                std::fs::set_permissions(folder.join("mode"), mode).unwrap();
            }
            (Holder::Mode, Door::Session(client)) => {
                let set = SetAttributes { mode: Some(number as u32), ..SetAttributes::default() };
                client.set_attributes(&ROOT, at_name(b"mode"), set).unwrap();
            }
            (Holder::NewName, _) => self.replace(&format!("new-{number}"), b"", 0),
            (Holder::GoneName, Door::Mount(folder)) => {
                std::fs::remove_file(folder.join(format!("gone-{number}"))).unwrap();
            }
            (Holder::GoneName, Door::Session(client)) => {
                client.unlink(&ROOT, Base::Root, format!("gone-{number}").as_bytes()).unwrap();
            }
            (Holder::Renamed, _) => {
                self.replace("renaming", &number.to_ne_bytes(), 0);
                match self {
                    Door::Mount(folder) => {
                        std::fs::rename(folder.join("renaming"), folder.join("renamed")).unwrap();
                    }
                    Door::Session(client) => {
                        let (from, to) =
                            ((Base::Root, b"renaming".as_slice()), (Base::Root, b"renamed".as_slice()));
                        client.rename(&ROOT, from, to, RenameFlags::default()).unwrap();
                    }
                }
            }
            (Holder::Target, _) => self.make_link(number),
        }
    }
}

/// Sees what is there, with files that stay open.
struct Looker {
    door: Door,
    content: Vec<Opened>,
}

enum Opened {
    Mount(File),
    Session(Arc<cuesta_libfs::OpenFile>),
}

impl Looker {
    fn new(door: Door) -> Looker {
        let open = |name: &str| match &door {
            Door::Mount(folder) => Opened::Mount(File::open(folder.join(name)).unwrap()),
            Door::Session(client) => {
                Opened::Session(client.open(&ROOT, Base::Root, name.as_bytes(), libc::O_RDONLY, 0).unwrap())
            }
        };
        let content = vec![open("content"), open("far")];
        Looker { door, content }
    }

    fn number_in(&self, file: &Opened, at: u64) -> u64 {
        let mut bytes = [0; 8];
        match (file, &self.door) {
            (Opened::Mount(file), _) => file.read_exact_at(&mut bytes, at).unwrap(),
            (Opened::Session(file), Door::Session(client)) => {
                let read = client.pread(file, &mut [UserSliceMut::from(&mut bytes[..])], at as i64).unwrap();
                assert_eq!(read, 8);
            }
            _ => unreachable!("files are opened by the looker's own door"),
        }
        u64::from_ne_bytes(bytes)
    }

    fn is_there(&self, name: &str) -> bool {
        match &self.door {
            Door::Mount(folder) => match std::fs::symlink_metadata(folder.join(name)) {
                Ok(_) => true,
                Err(error) if error.kind() == ErrorKind::NotFound => false,
                Err(error) => panic!("{name}: {error}"),
            },
            Door::Session(client) => client.stat(&ROOT, Base::Root, name.as_bytes(), false).is_ok(),
        }
    }

    /// Size, time of last change in seconds, mode bits.
    fn attributes(&self, name: &str) -> (u64, u64, u64) {
        match &self.door {
            Door::Mount(folder) => {
                let found = std::fs::metadata(folder.join(name)).unwrap();
                (found.len(), found.mtime() as u64, u64::from(found.mode() & 0o7777))
            }
            Door::Session(client) => {
                let record = client.stat(&ROOT, Base::Root, name.as_bytes(), true).unwrap().record;
                (record.size, record.modified.seconds() as u64, u64::from(record.mode & 0o7777))
            }
        }
    }

    /// The number that is there, at least if `least` was put there before.
    fn look(&self, holder: Holder, least: u64) -> u64 {
        match holder {
            Holder::Content => self.number_in(&self.content[0], 0),
            Holder::FarContent => self.number_in(&self.content[1], FAR),
            Holder::Size => self.attributes("size").0,
            Holder::Modified => self.attributes("modified").1,
            Holder::Mode => self.attributes("mode").2,
            Holder::NewName => {
                // Looking for the next ones has the kernel keep that there are none.
                for next in least + 1..least + 10 {
                    let _ = self.is_there(&format!("new-{next}"));
                }
                if least == 0 || self.is_there(&format!("new-{least}")) { least } else { least - 1 }
            }
            Holder::GoneName => {
                for next in least + 1..least + 10 {
                    let _ = self.is_there(&format!("gone-{next}"));
                }
                if least == 0 || !self.is_there(&format!("gone-{least}")) { least } else { least - 1 }
            }
            Holder::Renamed => match &self.door {
                Door::Mount(folder) => {
                    let file = File::open(folder.join("renamed")).unwrap();
                    self.number_in(&Opened::Mount(file), 0)
                }
                Door::Session(client) => {
                    let file = client.open(&ROOT, Base::Root, b"renamed", libc::O_RDONLY, 0).unwrap();
                    let number = self.number_in(&Opened::Session(Arc::clone(&file)), 0);
                    client.close(file).unwrap();
                    number
                }
            },
            Holder::Target => loop {
                // Between being taken away and made it is not there.
                let target = match &self.door {
                    Door::Mount(folder) => std::fs::read_link(folder.join("link"))
                        .ok()
                        .map(|target| target.to_str().unwrap().to_owned()),
                    Door::Session(client) => {
                        let target = client.read_link(&ROOT, Base::Root, b"link").ok();
                        target.map(|target| String::from_utf8(target).unwrap())
                    }
                };
                if let Some(target) = target {
                    return target.parse().unwrap();
                }
            },
        }
    }
}

/// One door changes, the other looks all the time: it never sees less than was there when it began to look.
fn hammer(changing: Door, looking: Door) {
    changing.prepare();
    let put: Vec<AtomicU64> = HOLDERS.iter().map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        let looker = Looker::new(looking.clone());
        let put = &put;
        scope.spawn(move || {
            loop {
                let mut is_over = true;
                for (place, &holder) in HOLDERS.iter().enumerate() {
                    let least = put[place].load(Ordering::SeqCst);
                    let seen = looker.look(holder, least);
                    assert!(seen >= least, "{holder:?}: {seen} is seen after {least} was put there");
                    is_over &= least == CHANGES;
                }
                if is_over {
                    return;
                }
            }
        });
        for number in 1..=CHANGES {
            for (place, &holder) in HOLDERS.iter().enumerate() {
                changing.put(holder, number);
                put[place].store(number, Ordering::SeqCst);
            }
        }
    });
}

/// All ways in which sessions share inodes, if a mount can be made here.
fn ways_to_share() -> impl Iterator<Item = Ship> {
    let ways = [Ship::Always, Ship::Random, Ship::Never, Ship::Auto];
    ways.into_iter().take(if can_mount() { ways.len() } else { 0 })
}

#[test]
fn what_a_session_changes_the_mount_shows_at_once() {
    for ship in ways_to_share() {
        let mounted = Mounted::shipping(ship);
        hammer(Door::Session(mounted.session()), Door::Mount(mounted.at().to_owned()));
    }
}

#[test]
fn what_the_mount_changes_a_session_sees_at_once() {
    for ship in ways_to_share() {
        let mounted = Mounted::shipping(ship);
        hammer(Door::Mount(mounted.at().to_owned()), Door::Session(mounted.session()));
    }
}

#[test]
fn the_kernel_does_not_ask_again_for_unchanged_files() {
    if !can_mount() {
        return;
    }
    let mounted = Mounted::shipping(Ship::Never);
    let session = Door::Session(mounted.session());
    session.replace("file", b"words", 0);
    let path = mounted.path("file");
    let file = File::open(&path).unwrap();
    let look = |length: u64| {
        assert_eq!(std::fs::metadata(&path).unwrap().len(), length);
        assert_eq!(std::fs::metadata(mounted.path("none")).unwrap_err().kind(), ErrorKind::NotFound);
        let mut bytes = [0; 5];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    };
    // Names are kept once the session has not changed them for a while.
    loop {
        let before = mounted.requests();
        assert_eq!(look(5), *b"words");
        if mounted.requests() == before {
            break;
        }
    }
    let before = mounted.requests();
    const LOOKS: u64 = 1000;
    (0..LOOKS).for_each(|_| assert_eq!(look(5), *b"words"));
    let asked = mounted.requests() - before;
    assert!(asked < LOOKS / 10, "{asked} requests");
    session.replace("file", b"other words", 0);
    assert_eq!(look(11), *b"other");
}

#[test]
fn a_name_that_was_not_there_is_there_once_it_is_made() {
    if !can_mount() {
        return;
    }
    let mounted = Mounted::new();
    let session = mounted.session();
    let door = Door::Session(Arc::clone(&session));
    let is_there = || std::fs::symlink_metadata(mounted.path("name")).is_ok();
    for _ in 0..20 {
        assert!(!is_there() && !is_there());
        door.replace("name", b"", 0);
        assert!(is_there() && is_there());
        session.unlink(&ROOT, Base::Root, b"name").unwrap();
    }
}

/// Nobody asks for attributes in between: reading alone has the kernel ask how large the file is now.
#[test]
fn a_file_that_is_open_is_as_long_as_the_other_door_left_it() {
    if !can_mount() {
        return;
    }
    let mounted = Mounted::new();
    let session = mounted.session();
    let door = Door::Session(Arc::clone(&session));
    door.replace("file", b"0", 0);
    let mut file = File::open(mounted.path("file")).unwrap();
    let all = |file: &File| {
        let mut bytes = vec![0; 100];
        let got = file.read_at(&mut bytes, 0).unwrap();
        String::from_utf8(bytes[..got].to_vec()).unwrap()
    };
    let mut expected = "0".to_owned();
    for digit in ["1", "2", "3", "4", "5", "6", "7", "8", "9"] {
        door.replace("file", digit.as_bytes(), expected.len() as u64);
        expected.push_str(digit);
        assert_eq!(all(&file), expected);
    }
    for length in [8, 20, 3] {
        session.truncate(&ROOT, Base::Root, b"file", length).unwrap();
        assert_eq!(file.seek(SeekFrom::End(0)).unwrap(), length as u64);
    }
    assert_eq!(all(&file), "012");
    for word in ["abc", "def", "ghi"] {
        door.replace("file", word.as_bytes(), 0);
        assert_eq!(all(&file), word);
    }
}

/// Each record is some pages, of one byte, so that one that is cut or put elsewhere is seen.
#[test]
fn appends_by_both_doors_at_once_lie_whole_one_behind_the_other() {
    if !can_mount() {
        return;
    }
    for ship in [Ship::Always, Ship::Random, Ship::Never] {
        let mounted = Mounted::shipping(ship);
        append_by_both_doors(&mounted);
        let senders = mounted.senders().len();
        match ship {
            // The session of the mount, and the one beside it.
            Ship::Always => assert_eq!(senders, 2),
            Ship::Never => assert_eq!(senders, 0),
            Ship::Random | Ship::Auto => {}
        }
    }
}

fn append_by_both_doors(mounted: &Mounted) {
    const RECORD_BYTES: usize = 9_001;
    const RECORDS: u8 = 100;
    // Neither door may be done before the other has begun.
    const TOGETHER: u8 = 10;
    let barrier = Barrier::new(2);
    let meet = |number: u8| {
        if number.is_multiple_of(TOGETHER) {
            barrier.wait();
        }
    };
    let session = mounted.session();
    Door::Session(Arc::clone(&session)).replace("file", b"", 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let flags = libc::O_WRONLY | libc::O_APPEND;
            let file = session.open(&ROOT, Base::Root, b"file", flags, 0).unwrap();
            for number in 0..RECORDS {
                meet(number);
                let record = vec![2 * number; RECORD_BYTES];
                assert_eq!(session.write(&file, &[UserSlice::from(&record[..])]), Ok(RECORD_BYTES));
            }
            session.close(file).unwrap();
        });
        let mut file = File::options().append(true).open(mounted.path("file")).unwrap();
        for number in 0..RECORDS {
            meet(number);
            assert_eq!(file.write(&[2 * number + 1; RECORD_BYTES]).unwrap(), RECORD_BYTES);
        }
    });
    let content = std::fs::read(mounted.path("file")).unwrap();
    let mut seen: Vec<u8> = Vec::new();
    for record in content.chunks(RECORD_BYTES) {
        assert!(record.iter().all(|byte| *byte == record[0]), "torn behind {seen:?}");
        seen.push(record[0]);
    }
    for door in [0, 1] {
        let of_door: Vec<u8> = seen.iter().copied().filter(|number| number % 2 == door).collect();
        assert_eq!(of_door, (0..RECORDS).map(|number| 2 * number + door).collect::<Vec<_>>());
    }
}

/// The kernel does not take an answer that it is told meanwhile to hold no more.
#[test]
fn a_process_that_comes_to_a_new_mount_while_its_root_changes_may_enter() {
    if !can_mount() {
        return;
    }
    const NOTICES: usize = 8;
    for _ in 0..20 {
        let mounted = Mounted::new();
        let (device, at) = (mounted.device(), mounted.at());
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    (0..NOTICES).for_each(|_| device.doubt_attributes(InodeNumber::ROOT));
                }
            });
            let entered = scope.spawn(|| {
                become_nobody();
                std::fs::read_dir(at).map(drop).map_err(|error| error.kind())
            });
            let entered = entered.join().unwrap();
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(entered, Ok(()));
        });
    }
}

/// This thread, and no other, is of a user with no rights from now on.
fn become_nobody() {
    const NOBODY: libc::uid_t = 65534;
    // SAFETY: the call takes three numbers; only this thread's user changes.
    assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) }, 0);
}
