//! Random calls of several clients, each in a directory of its own, against what they must come to. Daemons are killed at random
//! moments, and most die within a call: before it, behind it, or when it was digested. No call answers EIO, none is executed twice, and what was acknowledged is there.
//!
//! `CUESTA_ONCE_SEED` repeats one seed, as far as moments are the same.

use super::{Daemons, Failing, Open, Planted, Replace, Served};
use cuesta_format::FileKind;
use cuesta_libfs::{Allocation, Error, ExtendedFlags, RenameFlags};
use cuesta_media::planted::{CAN_PLANT, Death};
use cuesta_served::{PathBase as Base, Subject};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const CLIENTS: u64 = 3;
const DAEMONS: u64 = 24;
/// One that dies in a call dies in one of so many.
const CALLS_OF_DAEMON: u64 = 60;
const NAMES: u64 = 6;
const PAGE: usize = 4096;
/// A daemon lives for less than so long, in microseconds, once it serves.
const LIFE_US: u64 = 60_000;
const SEED: u64 = 0x2545_f491_4f6c_dd1d;

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// A file, however many names it has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct File {
    content: Vec<u8>,
    attributes: BTreeSet<Vec<u8>>,
}

/// The kind of file behind a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    File(usize),
    Directory,
}

/// The expected content of a client's directory.
#[derive(Default)]
struct Ledger {
    names: BTreeMap<String, Named>,
    files: Vec<File>,
}

/// A client at work.
struct Worker {
    served: Served,
    at: String,
    random: Random,
    ledger: Ledger,
    /// Its records in the file that all clients append to.
    appended: u64,
    everyones: Arc<Open>,
}

impl Worker {
    fn path(&self, name: &str) -> Vec<u8> {
        format!("{}/{name}", self.at).into_bytes()
    }

    fn name(&mut self) -> String {
        format!("name-{}", self.random.below(NAMES))
    }

    fn file(&self, name: &str) -> Option<usize> {
        match self.ledger.names.get(name) {
            Some(&Named::File(file)) => Some(file),
            _ => None,
        }
    }

    /// Makes one call. Its answer must be as the ledger says.
    fn step(&mut self) {
        let (name, other) = (self.name(), self.name());
        let (path, to) = (self.path(&name), self.path(&other));
        let found = self.ledger.names.get(&name).copied();
        let at_other = self.ledger.names.get(&other).copied();
        let client = &self.served.client;
        match self.random.below(10) {
            0 => {
                let made = client.make_directory(Base::Root, &path, 0o755.into());
                assert_eq!(made, found.map_or(Ok(()), |_| Err(Error::Exists)), "mkdir {name}");
                self.ledger.names.entry(name).or_insert(Named::Directory);
            }
            1 => {
                let flags = libc::O_CREAT | libc::O_EXCL | libc::O_RDWR;
                match self.served.open(&path, flags) {
                    Ok(open) => {
                        assert_eq!(found, None, "open {name}");
                        let content = vec![b'a' + self.random.below(26) as u8; 2 * PAGE];
                        assert_eq!(self.served.write(&open, &content, Some(0), false), Ok(content.len()));
                        self.served.close(open).unwrap();
                        self.ledger.files.push(File { content, ..File::default() });
                        self.ledger.names.insert(name, Named::File(self.ledger.files.len() - 1));
                    }
                    Err(error) => assert_eq!((error, found.is_some()), (Error::Exists, true), "open {name}"),
                }
            }
            2 => {
                let removed = client.unlink(Base::Root, &path, false);
                let expected = match found {
                    None => Err(Error::NotFound),
                    Some(Named::Directory) => Err(Error::IsDirectory),
                    Some(Named::File(_)) => Ok(()),
                };
                assert_eq!(removed, expected, "unlink {name}");
                if expected.is_ok() {
                    self.ledger.names.remove(&name);
                }
            }
            3 => {
                let removed = client.unlink(Base::Root, &path, true);
                let expected = match found {
                    None => Err(Error::NotFound),
                    Some(Named::Directory) => Ok(()),
                    Some(Named::File(_)) => Err(Error::NotDirectory),
                };
                assert_eq!(removed, expected, "rmdir {name}");
                if expected.is_ok() {
                    self.ledger.names.remove(&name);
                }
            }
            4 => {
                let linked = client.link(
                    Subject::Path { place: Base::Root, path: &path, follow: false },
                    Base::Root,
                    &to,
                );
                let expected = match (found, at_other) {
                    (None, _) => Err(Error::NotFound),
                    (_, Some(_)) => Err(Error::Exists),
                    (Some(Named::Directory), None) => Err(Error::NotPermitted),
                    (Some(Named::File(_)), None) => Ok(()),
                };
                assert_eq!(linked, expected, "link {name} {other}");
                if expected.is_ok() {
                    self.ledger.names.extend(found.map(|found| (other, found)));
                }
            }
            5 => {
                let exchange = self.random.below(2) == 0;
                let flags = RenameFlags { exchange, no_replace: !exchange };
                let renamed = client.rename((Base::Root, &path), (Base::Root, &to), flags);
                let expected = match (found, at_other) {
                    (None, _) => Err(Error::NotFound),
                    (_, None) if exchange => Err(Error::NotFound),
                    (_, Some(_)) if !exchange => Err(Error::Exists),
                    _ => Ok(()),
                };
                assert_eq!(renamed, expected, "rename {name} {other}, {flags:?}");
                if let (Ok(()), Some(found)) = (expected, found) {
                    self.ledger.names.remove(&name);
                    self.ledger.names.extend(at_other.map(|at_other| (name, at_other)));
                    self.ledger.names.insert(other, found);
                }
            }
            6 | 7 => {
                let Some(file) = self.file(&name) else { return };
                let data = vec![b'0' + self.random.below(10) as u8; 1 + self.random.below(300) as usize];
                let open = self.served.open(&path, libc::O_WRONLY | libc::O_APPEND).unwrap();
                assert_eq!(self.served.write(&open, &data, None, true), Ok(data.len()), "append {name}");
                self.served.close(open).unwrap();
                self.ledger.files[file].content.extend(data);
            }
            8 => {
                let Some(file) = self.file(&name) else { return };
                let insert = self.random.below(2) == 0 || self.ledger.files[file].content.len() <= PAGE;
                let what = if insert { Allocation::Insert } else { Allocation::Collapse };
                if self.ledger.files[file].content.len() > 20 * PAGE && insert {
                    return;
                }
                let open = self.served.open(&path, libc::O_RDWR).unwrap();
                client.allocate(&open.file, what, 0, PAGE as i64).unwrap();
                self.served.close(open).unwrap();
                let content = &mut self.ledger.files[file].content;
                match insert {
                    true => drop(content.splice(0..0, [0; PAGE])),
                    false => drop(content.drain(..PAGE)),
                }
            }
            _ => {
                let Some(file) = self.file(&name) else { return };
                let attribute = format!("user.{}", self.random.below(3)).into_bytes();
                let subject = Subject::Path { place: Base::Root, path: &path, follow: false };
                let attributes = &mut self.ledger.files[file].attributes;
                if self.random.below(2) == 0 {
                    let flags = ExtendedFlags { create: true, ..ExtendedFlags::default() };
                    let set = client.set_extended(subject, &attribute, b"value", flags);
                    let is_new = attributes.insert(attribute);
                    assert_eq!(set, if is_new { Ok(()) } else { Err(Error::Exists) }, "setxattr {name}");
                } else {
                    let removed = client.remove_extended(subject, &attribute);
                    let was_there = attributes.remove(&attribute);
                    let expected = if was_there { Ok(()) } else { Err(Error::NoAttribute) };
                    assert_eq!(removed, expected, "removexattr {name}");
                }
            }
        }
    }

    /// A line in the file that all of them append to.
    fn append_line(&mut self) {
        let line = format!("{} {}\n", self.at, self.appended);
        let written = self.served.write(&self.everyones, line.as_bytes(), None, true);
        assert_eq!(written, Ok(line.len()), "append a line");
        self.appended += 1;
    }

    /// Whether everything is as the ledger says.
    fn check(&self) {
        let found: Vec<String> = self.served.list(self.at.as_bytes()).into_iter().map(text).collect();
        assert_eq!(found, self.ledger.names.keys().cloned().collect::<Vec<_>>());
        for (name, named) in &self.ledger.names {
            let path = self.path(name);
            let subject = Subject::Path { place: Base::Root, path: &path, follow: false };
            let record = self.served.client.stat(subject).unwrap();
            let Named::File(file) = *named else {
                assert_eq!(record.kind(), FileKind::Directory, "{name}");
                continue;
            };
            let links = self.ledger.names.values().filter(|other| *other == named).count();
            let File { content, attributes } = &self.ledger.files[file];
            assert_eq!(record.links as usize, links, "{name}");
            assert!(self.served.read(&path) == *content, "the content of {name}");
            let listed = self.served.client.list_extended(subject).unwrap();
            let listed: BTreeSet<Vec<u8>> =
                listed.split(|byte| *byte == 0).filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect();
            assert_eq!(listed, *attributes, "{name}");
        }
    }
}

fn text((name, _): (Vec<u8>, cuesta_format::InodeNumber)) -> String {
    String::from_utf8(name).unwrap()
}

/// Each client's lines are there once, in its order.
fn check_lines(content: &[u8], appended: &[(String, u64)]) {
    let mut next: BTreeMap<&str, u64> = BTreeMap::new();
    let content = std::str::from_utf8(content).unwrap();
    for line in content.lines() {
        let (client, number) = line.rsplit_once(' ').unwrap();
        let next = next.entry(client).or_default();
        assert_eq!(number.parse(), Ok(*next), "the next line of {client}");
        *next += 1;
    }
    let expected: BTreeMap<&str, u64> =
        appended.iter().map(|(client, count)| (&client[..], *count)).collect();
    assert_eq!(next, expected);
}

#[test]
fn random_calls_are_executed_once_while_daemons_die() {
    let seed = std::env::var("CUESTA_ONCE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(SEED);
    println!("seed {seed}");
    let Some(daemons) = Daemons::new() else { return };
    let (is_over, calls) = (AtomicBool::new(false), AtomicU64::new(0));
    daemons.as_nobody(|replacing| {
        let work = |number: u64| {
            let _failing = Failing(&daemons);
            let served = daemons.client();
            let at = format!("client-{number}");
            served.client.make_directory(Base::Root, at.as_bytes(), 0o755.into()).unwrap();
            let everyones = served.open(b"lines", libc::O_CREAT | libc::O_WRONLY | libc::O_APPEND).unwrap();
            let random = Random(seed.wrapping_add(number) | 1);
            let mut worker = Worker { served, at, random, ledger: Ledger::default(), appended: 0, everyones };
            while !is_over.load(Ordering::Relaxed) {
                worker.step();
                worker.append_line();
                calls.fetch_add(2, Ordering::Relaxed);
            }
            worker.check();
            (worker.at, worker.appended)
        };
        let work = &work;
        let appended: Vec<(String, u64)> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..CLIENTS).map(|number| scope.spawn(move || work(number))).collect();
            let mut random = Random(!seed | 1);
            let mut present = None;
            for daemon in 0..DAEMONS {
                let death = Death::ALL[random.below(Death::ALL.len() as u64) as usize];
                let planted = Planted { death, count: 1 + random.below(CALLS_OF_DAEMON) };
                let next = (CAN_PLANT && daemon % 3 != 0 && daemon + 1 < DAEMONS).then_some(planted);
                let how = match present {
                    Some(_) => Replace::Await(next),
                    None => {
                        // Not to wait for something, but for a daemon to die at whatever it does then.
                        std::thread::sleep(Duration::from_micros(random.below(LIFE_US)));
                        Replace::Kill(next)
                    }
                };
                replacing.begin(how).recv().unwrap();
                present = next;
            }
            is_over.store(true, Ordering::Relaxed);
            workers.into_iter().map(|worker| worker.join().unwrap()).collect()
        });
        check_lines(&daemons.client().read(b"lines"), &appended);
    });
    println!("{} calls and {DAEMONS} daemons", calls.into_inner());
}
