//! Random calls against a naive model, on a log so small that it wraps many times, with digests in between,
//! fences by a second client, and threads.

use crate::common::{Caller, Store, root, small};
use cuesta_libfs::{Allocation, Client, Error, OpenFile, Whence};
use libc::{O_APPEND, O_CREAT, O_RDWR};
use std::collections::BTreeMap;
use std::sync::Arc;

const BLOCK: usize = 4096;

/// A file of the model: its bytes, and an open file on it.
struct HeldFile {
    file: Arc<OpenFile>,
    content: Vec<u8>,
    named: bool,
}

fn write_at(content: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    if content.len() < at + bytes.len() {
        content.resize(at + bytes.len(), 0);
    }
    content[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Clears a range, takes one out, or inserts one.
fn allocate(client: &Client, held: &mut HeldFile, random: &mut fastrand::Rng) {
    let size = held.content.len();
    let (at, len) = (random.usize(0..60_000), random.usize(1..30_000));
    let range = at.min(size)..(at + len).min(size);
    let what = match random.u8(0..4) {
        0 => {
            held.content[range].fill(0);
            (Allocation::Punch, at, len)
        }
        1 => {
            held.content[range].fill(0);
            held.content.resize(size.max(at + len), 0);
            (Allocation::Zero, at, len)
        }
        shift => {
            let at = at / BLOCK % (size / BLOCK + 1) * BLOCK;
            let len = (len / BLOCK / 2 + 1) * BLOCK;
            let insert = shift == 3 && size < 200_000;
            if at >= size || !insert && at + len >= size {
                return;
            }
            match insert {
                true => drop(held.content.splice(at..at, std::iter::repeat_n(0, len))),
                false => drop(held.content.drain(at..at + len)),
            }
            (if insert { Allocation::Insert } else { Allocation::Collapse }, at, len)
        }
    };
    client.allocate(&held.file, what.0, what.1 as i64, what.2 as i64).unwrap();
}

/// Holes and data alternate from the start to the end, at block boundaries, and no hole has content.
fn check_holes(client: &Client, held: &HeldFile, place: &str) {
    let size = held.content.len() as u64;
    let mut at = 0;
    while at < size {
        let hole = client.seek(&held.file, at as i64, Whence::Hole).unwrap();
        let data = client.seek(&held.file, at as i64, Whence::Data);
        let (next, is_hole) = if hole == at { (data.clone().unwrap_or(size), true) } else { (hole, false) };
        assert!(next > at && next <= size && (next == size || next.is_multiple_of(BLOCK as u64)), "{place}");
        if is_hole {
            assert!(held.content[at as usize..next as usize].iter().all(|&byte| byte == 0), "{place}");
        } else {
            assert_eq!(data, Ok(at), "{place}");
        }
        at = next;
    }
    assert_eq!(client.seek(&held.file, size as i64, Whence::Data), Err(Error::NoData), "{place}");
    assert_eq!(client.seek(&held.file, size as i64, Whence::Hole), Err(Error::NoData), "{place}");
    client.seek(&held.file, 0, Whence::Set).unwrap();
}

fn run(seed: u64, steps: usize, store: &Store, disturb: impl Fn(&mut fastrand::Rng)) {
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let client = store.attach();
    let call = root(&client);
    let mut files: BTreeMap<u32, HeldFile> = BTreeMap::new();
    let mut next = 0;
    for step in 0..steps {
        if files.len() < 6 && random.u8(..) < 64 {
            let file = call.open(&format!("f{next}"), O_CREAT | O_RDWR).unwrap();
            files.insert(next, HeldFile { file, content: Vec::new(), named: true });
            next += 1;
            continue;
        }
        let Some(&key) = random.choice(files.keys().collect::<Vec<_>>()) else { continue };
        let held = files.get_mut(&key).unwrap();
        match random.u8(0..100) {
            0..50 => {
                let at = random.usize(0..60_000);
                let len = match random.u8(0..12) {
                    0 => random.usize(66_000..134_000),
                    1..7 => random.usize(1..200),
                    _ => random.usize(1..20_000),
                };
                let bytes: Vec<u8> = std::iter::repeat_with(|| random.u8(1..)).take(len).collect();
                let (first, second) = bytes.split_at(len / 3);
                let written = client.pwrite(&held.file, &[first.into(), second.into()], at as i64).unwrap();
                assert_eq!(written, len);
                write_at(&mut held.content, at, &bytes);
            }
            50..60 => {
                held.file.set_flags(O_APPEND);
                client.write(&held.file, &[[7; 300].as_slice().into()]).unwrap();
                held.file.set_flags(0);
                let end = held.content.len();
                write_at(&mut held.content, end, &[7; 300]);
            }
            60..66 => {
                let size = if random.bool() { 0 } else { random.usize(0..180_000) };
                client.truncate_open(&held.file, size as i64).unwrap();
                held.content.resize(size, 0);
            }
            66..70 => allocate(&client, held, &mut random),
            70..76 if held.named => {
                call.unlink(&format!("f{key}")).unwrap();
                held.named = false;
            }
            76..80 => {
                let held = files.remove(&key).unwrap();
                client.close(held.file).unwrap();
                if held.named {
                    assert_eq!(call.read_file(&format!("f{key}")).unwrap(), held.content, "seed {seed}");
                    call.unlink(&format!("f{key}")).unwrap();
                }
            }
            80..84 => client.digest().unwrap(),
            84..88 if held.named => {
                call.rename(&format!("f{key}"), &format!("f{next}")).unwrap();
                let held = files.remove(&key).unwrap();
                files.insert(next, held);
                next += 1;
            }
            88..90 => disturb(&mut random),
            90..93 => check_holes(&client, held, &format!("seed {seed}, step {step}")),
            _ => {
                let content = call.read_all(&held.file).unwrap();
                assert_eq!(content.len(), held.content.len(), "seed {seed}, step {step}");
                if let Some(at) = content.iter().zip(&held.content).position(|(read, model)| read != model) {
                    panic!(
                        "seed {seed}, step {step}: byte {at} of f{key}: {} {}",
                        content[at], held.content[at]
                    );
                }
            }
        }
    }
    let names: Vec<String> =
        files.iter().filter(|(_, held)| held.named).map(|(key, _)| format!("f{key}")).collect();
    let mut listed = call.list("/").unwrap();
    listed.sort_by_key(|name| name[1..].parse::<u32>().unwrap());
    assert_eq!(listed, names, "seed {seed}");
    client.detach();
    let other = root(&store.attach());
    for (key, held) in files.iter().filter(|(_, held)| held.named) {
        assert_eq!(other.read_file(&format!("f{key}")).unwrap(), held.content, "seed {seed}, f{key}");
        other.unlink(&format!("f{key}")).unwrap();
    }
}

/// As many seeds as `CUESTA_TEST_SEEDS` says, or a few.
fn seeds(first: u64) -> std::ops::Range<u64> {
    let count = std::env::var("CUESTA_TEST_SEEDS").ok().and_then(|count| count.parse().ok());
    first..first + count.unwrap_or(6)
}

#[test]
fn random_calls_with_digests_on_demand() {
    for seed in seeds(0) {
        run(seed, 1500, &Store::new(small()).digesting_when_full(), |_| {});
    }
}

#[test]
fn random_calls_with_digests_all_the_time() {
    for seed in seeds(10_000) {
        run(seed, 1500, &Store::new(small()).digesting(), |_| {});
    }
}

#[test]
fn random_calls_under_fences() {
    for seed in seeds(20_000) {
        let store = Store::new(small()).digesting();
        let other = root(&store.attach());
        run(seed, 1000, &store, |random| {
            // Looking at a file takes its lease away. Every second time it also takes the directory's.
            let names = other.list("/").unwrap();
            if let Some(name) = random.choice(&names) {
                other.read_file(name).unwrap();
            }
        });
    }
}

#[test]
fn two_clients_take_turns_on_one_file() {
    let store = Store::new(small()).digesting();
    let writers: Vec<Caller> = (0..2).map(|_| root(&store.attach())).collect();
    root(&store.attach()).write_file("f", b"").unwrap();
    std::thread::scope(|scope| {
        for (number, call) in writers.iter().enumerate() {
            scope.spawn(move || {
                let file = call.open("f", O_RDWR | O_APPEND).unwrap();
                for round in 0..100u16 {
                    let record = [number as u8, round as u8, 0xaa, 0x55];
                    assert_eq!(call.client.write(&file, &[record.as_slice().into()]), Ok(4));
                }
            });
        }
    });
    let content = writers[0].read_file("f").unwrap();
    assert_eq!(content.len(), 2 * 100 * 4, "each append is there once");
    for number in 0..2u8 {
        let rounds: Vec<u8> =
            content.chunks(4).filter(|record| record[0] == number).map(|record| record[1]).collect();
        assert_eq!(rounds, (0..100).collect::<Vec<_>>(), "and in order");
    }
}

#[test]
fn two_clients_make_names_in_one_directory() {
    let store = Store::new(small()).digesting();
    let makers: Vec<Caller> = (0..2).map(|_| root(&store.attach())).collect();
    std::thread::scope(|scope| {
        for (number, call) in makers.iter().enumerate() {
            scope.spawn(move || {
                for round in 0..60 {
                    call.write_file(&format!("{number}-{round}.tmp"), b"content").unwrap();
                    call.rename(&format!("{number}-{round}.tmp"), &format!("{number}-{round}")).unwrap();
                }
            });
        }
    });
    assert_eq!(makers[0].list("/").unwrap().len(), 120);
    assert_eq!(makers[1].read_file("0-59").unwrap(), b"content");
}

#[test]
fn many_threads_share_a_client() {
    let store = Store::new(small()).digesting();
    let client = store.attach();
    std::thread::scope(|scope| {
        for number in 0..4u8 {
            let call = root(&client);
            scope.spawn(move || {
                call.mkdir(&format!("d{number}")).unwrap();
                for round in 0..200 {
                    let path = format!("d{number}/f{}", round % 7);
                    let content = vec![number + 1; 1 + (round * 977) % 9000];
                    call.write_file(&path, &content).unwrap();
                    assert_eq!(call.read_file(&path).unwrap(), content);
                    let shared = call.open("shared", O_CREAT | O_RDWR | O_APPEND).unwrap();
                    call.client.write(&shared, &[[number; 16].as_slice().into()]).unwrap();
                    call.client.close(shared).unwrap();
                    call.rename(&path, &format!("d{}/g{number}", (number + 1) % 4))
                        .or_else(|error| if error == Error::NotFound { Ok(()) } else { Err(error) })
                        .unwrap();
                }
            });
        }
    });
    let shared = root(&client).read_file("shared").unwrap();
    assert_eq!(shared.len(), 4 * 200 * 16);
    assert!(
        shared.chunks(16).all(|record| record.iter().all(|&byte| byte == record[0])),
        "no append is torn"
    );
}

#[test]
fn a_full_store_refuses_and_keeps_its_content() {
    let geometry = cuesta_format::Geometry { nvm_bytes: 8 << 20, ..small() };
    let store = Store::new(geometry).digesting();
    let client = store.attach();
    let call = root(&client);
    let mut written = Vec::new();
    let failed = (0..).find_map(|number| {
        let name = format!("f{number}");
        match call.write_file(&name, &[number as u8; 50_000]) {
            Ok(()) => {
                written.push(number);
                None
            }
            Err(error) => Some(error),
        }
    });
    assert_eq!(failed, Some(Error::NoSpace));
    assert!(written.len() > 60, "{} files of 50 kB fit in 8 MiB", written.len());
    client.digest().unwrap();
    for &number in &written {
        assert_eq!(call.read_file(&format!("f{number}")).unwrap(), [number as u8; 50_000]);
    }
    for &number in &written[..20] {
        call.unlink(&format!("f{number}")).unwrap();
    }
    call.write_file("again", &[9; 200_000]).unwrap();
    assert_eq!(call.read_file("again").unwrap(), [9; 200_000]);
}

#[test]
fn a_write_may_be_as_large_as_an_entry() {
    let store = Store::new(cuesta_format::Geometry::default()).digesting();
    let client = store.attach();
    let call = root(&client);
    let content: Vec<u8> =
        (0..20u32 << 20).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let file = call.open("big", O_CREAT | O_RDWR).unwrap();
    let written = client.write(&file, &[content.as_slice().into()]).unwrap();
    assert_eq!(written, cuesta_format::WRITE_BYTES_MAX.min(16 << 20));
    assert_eq!(client.write(&file, &[content[written..].into()]), Ok(content.len() - written));
    assert!(call.read_all(&file).unwrap() == content);
    client.digest().unwrap();
    assert!(call.read_all(&file).unwrap() == content);
}

#[test]
fn a_large_directory_is_learnt_in_parts() {
    let store = Store::new(small()).digesting();
    {
        let client = store.attach();
        let call = root(&client);
        call.mkdir("d").unwrap();
        for number in 0..3000 {
            call.write_file(&format!("d/{number:05}"), b"").unwrap();
        }
        client.detach();
    }
    let client = store.attach();
    let call = root(&client);
    assert!(call.stat("d/02999").is_ok());
    assert_eq!(call.stat("d/03000").err(), Some(Error::NotFound));
    call.unlink("d/02500").unwrap();
    assert_eq!(call.stat("d/02500").err(), Some(Error::NotFound));
    call.write_file("d/02500", b"new").unwrap();
    call.unlink("d/02600").unwrap();
    call.rename("d/02700", "d/x").unwrap();
    assert_eq!(call.list("d").unwrap().len(), 2999);
    client.digest().unwrap();
    assert_eq!(call.read_file("d/02500").unwrap(), b"new");
    assert_eq!(call.stat("d").unwrap().size, 2999);
    assert_eq!(root(&store.attach()).list("d").unwrap().len(), 2999);
}
