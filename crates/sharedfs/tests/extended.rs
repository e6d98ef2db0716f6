//! Extended attributes as digests leave them.

use crate::common::*;
use cuesta_format::wire::{LeaseMode, Request, Response};
use cuesta_format::{EXTENDED_BYTES_MAX, InodeNumber, Operation, Timestamp};
use cuesta_sharedfs::SharedFs;
use cuesta_sharedfs::check::{Mode, check};
use std::collections::BTreeMap;

fn set(writer: &mut Writer, inode: InodeNumber, name: &str, value: &[u8]) {
    writer.append(Operation::SetExtended { inode, name: name.as_bytes(), value });
}

fn remove(writer: &mut Writer, inode: InodeNumber, name: &str) {
    writer.append(Operation::RemoveExtended { inode, name: name.as_bytes() });
}

/// The attributes in the shared area; their count in the inode's record is right.
fn attributes(shared: &SharedFs, inode: InodeNumber) -> BTreeMap<String, Vec<u8>> {
    let found = shared.snapshot().unwrap().extended(inode).unwrap();
    let bytes: usize = found.iter().map(|it| it.name.len() + it.value.len()).sum();
    assert_eq!(shared.inode_record(inode).unwrap().map_or(0, |record| record.extended as usize), bytes);
    found.into_iter().map(|it| (String::from_utf8(it.name).unwrap(), it.value)).collect()
}

fn expected(attributes: &[(&str, &[u8])]) -> BTreeMap<String, Vec<u8>> {
    attributes.iter().map(|&(name, value)| (name.to_owned(), value.to_vec())).collect()
}

#[test]
fn they_are_set_changed_and_removed_within_a_batch_and_across() {
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    let file = writer.file(b"f");
    set(&mut writer, file, "user.a", b"1");
    set(&mut writer, file, "user.b", b"2");
    set(&mut writer, file, "user.a", b"three");
    set(&mut writer, file, "user.gone", b"4");
    remove(&mut writer, file, "user.gone");
    writer.digest();
    assert_eq!(attributes(&shared, file), expected(&[("user.a", b"three"), ("user.b", b"2")]));
    remove(&mut writer, file, "user.a");
    set(&mut writer, file, "user.b", b"");
    set(&mut writer, file, "user.c", &[7; 5000]);
    let time = shared.inode_record(file).unwrap().unwrap().changed;
    writer.digest();
    assert_eq!(attributes(&shared, file), expected(&[("user.b", b""), ("user.c", &[7; 5000])]));
    assert!(shared.inode_record(file).unwrap().unwrap().changed >= time);
    remove(&mut writer, file, "user.b");
    set(&mut writer, file, "user.b", b"again");
    remove(&mut writer, file, "user.nothing");
    writer.digest();
    assert_eq!(attributes(&shared, file), expected(&[("user.b", b"again"), ("user.c", &[7; 5000])]));
    writer.request(&Request::Detach);
    drop(shared);
    assert!(check(&store.tier(), Mode::Report).unwrap().is_clean());
}

#[test]
fn they_go_with_their_inode() {
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    let neighbour = writer.file(b"neighbour");
    set(&mut writer, neighbour, "user.a", b"stays");
    let digested = writer.file(b"digested");
    set(&mut writer, digested, "user.a", b"1");
    set(&mut writer, digested, "user.b", &[9; 3000]);
    let orphan = writer.file(b"orphan");
    set(&mut writer, orphan, "user.a", b"1");
    writer.digest();
    set(&mut writer, digested, "user.c", b"in the same batch");
    writer.unlink(ROOT, b"digested", digested, false);
    let brief = writer.file(b"brief");
    set(&mut writer, brief, "user.a", b"1");
    writer.unlink(ROOT, b"brief", brief, false);
    writer.unlink(ROOT, b"orphan", orphan, true);
    set(&mut writer, orphan, "user.b", b"without a name");
    writer.digest();
    for inode in [digested, brief] {
        assert_eq!(attributes(&shared, inode), expected(&[]));
    }
    assert_eq!(attributes(&shared, orphan), expected(&[("user.a", b"1"), ("user.b", b"without a name")]));
    writer.append(Operation::Release { inode: orphan });
    writer.digest();
    assert_eq!(attributes(&shared, orphan), expected(&[]));
    assert_eq!(attributes(&shared, neighbour), expected(&[("user.a", b"stays")]));
    writer.request(&Request::Detach);
    drop(shared);
    assert!(check(&store.tier(), Mode::Report).unwrap().is_clean());
}

#[test]
fn recovery_takes_them_from_the_log() {
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    let file = writer.file(b"f");
    set(&mut writer, file, "user.a", b"digested");
    writer.digest();
    set(&mut writer, file, "user.b", b"logged");
    remove(&mut writer, file, "user.a");
    kill(shared, vec![writer]);
    let shared = store.open();
    assert_eq!(attributes(&shared, file), expected(&[("user.b", b"logged")]));
}

#[test]
fn a_lease_brings_few_and_a_question_all() {
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    let (few, many) = (writer.file(b"few"), writer.file(b"many"));
    set(&mut writer, few, "user.a", b"1");
    set(&mut writer, many, "user.a", &[1; 1000]);
    writer.digest();
    let mut reader = Writer::attach(&shared);
    let grant = reader.acquire(few, LeaseMode::Read);
    assert_eq!((grant.record.extended, grant.extended.len()), (7, 1));
    let grant = reader.acquire(many, LeaseMode::Read);
    assert_eq!((grant.record.extended, grant.extended.len()), (1006, 0));
    let Response::Extended(all) = reader.request(&Request::Extended { inode: many }) else { panic!() };
    assert_eq!((all.len(), all[0].value.len()), (1, 1000));
    let other = writer.file(b"other");
    let refused = reader.request(&Request::Extended { inode: other });
    assert!(matches!(refused, Response::Failed(_)), "{refused:?}");
}

#[test]
fn a_log_that_gives_an_inode_too_many_is_given_up_there() {
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    let file = writer.file(b"f");
    let value = vec![3; 16 << 10];
    let fitting = EXTENDED_BYTES_MAX as usize / value.len() - 1;
    for number in 0..fitting {
        set(&mut writer, file, &format!("user.{number:04}"), &value);
        writer.digest();
        writer.retire(writer.at);
    }
    assert_eq!(attributes(&shared, file).len(), fitting);
    set(&mut writer, file, "user.a", &value);
    set(&mut writer, file, "user.b", &value);
    writer.request(&Request::Digest);
    assert_eq!(attributes(&shared, file).len(), fitting);
    assert!(matches!(writer.request(&Request::Digest), Response::Failed(_)), "the session has ended");
}

#[test]
fn any_sequence_leaves_the_content_of_a_map() {
    let seed = std::env::var("SEED").map_or(3, |seed| seed.parse().unwrap());
    let mut random = fastrand::Rng::with_seed(seed);
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    let files: Vec<InodeNumber> = (0..3).map(|number| writer.file(&[b'a' + number])).collect();
    let mut model: Vec<BTreeMap<String, Vec<u8>>> = vec![BTreeMap::new(); files.len()];
    for step in 0..600 {
        let at = random.usize(..files.len());
        let name = format!("user.{}", random.u8(0..6));
        if random.u8(..) < 80 {
            remove(&mut writer, files[at], &name);
            model[at].remove(&name);
        } else {
            let value = vec![random.u8(..); random.usize(..2000)];
            set(&mut writer, files[at], &name, &value);
            model[at].insert(name, value);
        }
        if random.u8(..) < 30 {
            writer.digest();
            writer.retire(writer.at);
            for (file, model) in files.iter().zip(&model) {
                assert_eq!(attributes(&shared, *file), *model, "seed {seed}, step {step}");
            }
        }
    }
    let record = shared.inode_record(files[0]).unwrap().unwrap();
    assert!(record.changed > Timestamp(0));
}
