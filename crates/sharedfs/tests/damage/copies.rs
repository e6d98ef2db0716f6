//! The metadata's two copies on a disk: whatever happens to one of them, nothing is lost, and both are whole again.

use crate::common::*;
use cuesta_format::{FileKind, InodeNumber, InodeRecord, Medium, Timestamp};
use cuesta_sharedfs::check::{Mode, Verdict, check};
use cuesta_sharedfs::metadata::{Dirent, Files, MetadataStore};
use cuesta_sharedfs::server::Service;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

const FILES: u64 = 6000;
const COPIES: [&str; 2] = ["meta.redb", "meta.copy"];

struct Folder(tempfile::TempDir);

impl Folder {
    /// Metadata of some thousand files, most of it in the tree and some in the journal.
    fn new() -> Folder {
        let folder = Folder(tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap());
        let store = MetadataStore::create(&folder.first(), Medium::Block).unwrap();
        put(&store, 1..FILES);
        put(&store, FILES..FILES + 3);
        store.leave();
        folder
    }

    fn first(&self) -> PathBuf {
        self.0.path().join(COPIES[0])
    }

    fn copies(&self) -> [PathBuf; 2] {
        COPIES.map(|name| self.0.path().join(name))
    }
}

fn put(store: &MetadataStore, numbers: std::ops::Range<u64>) {
    let mut transaction = store.begin().unwrap();
    for number in numbers {
        let inode = InodeNumber(number);
        transaction.put_inode(&InodeRecord::new(inode, 0o100_644, 0, 0, Timestamp(0))).unwrap();
        let name = format!("{:x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        transaction.put_dirent(InodeNumber::ROOT, name.as_bytes(), Dirent { inode, kind: FileKind::File });
    }
    transaction.commit().unwrap();
}

fn all_of(store: &MetadataStore) -> (Vec<InodeRecord>, Vec<Vec<u8>>) {
    let (mut inodes, mut names) = (Vec::new(), Vec::new());
    let snapshot = store.read().unwrap();
    snapshot.visit_inodes(|stored| inodes.push(stored.record)).unwrap();
    snapshot.visit_entries(|_, entry| names.push(entry.name)).unwrap();
    (inodes, names)
}

fn open(path: &Path) -> MetadataStore {
    MetadataStore::open(path, Medium::Block).unwrap()
}

/// Damage that a medium may do to a file. Says which it was.
fn harm(path: &Path, whole: &[u8], random: &mut fastrand::Rng) -> String {
    let write = |at: usize, bytes: &[u8]| {
        File::options().write(true).open(path).unwrap().write_all_at(bytes, at as u64).unwrap();
    };
    let written: Vec<usize> =
        (0..whole.len()).step_by(4096).filter(|&at| whole[at..at + 4096] != [0; 4096]).collect();
    let mut block = || written[random.usize(..written.len())];
    let (one, other) = (block(), block());
    match random.u8(0..7) {
        0 => {
            let at = one + random.usize(..4096);
            write(at, &[whole[at] ^ 1 << random.u8(0..8)]);
            format!("byte {at}")
        }
        1 => {
            write(one, &[0; 4096]);
            format!("zeros at {one}")
        }
        2 => {
            let at = one + random.usize(..4000);
            write(at, &std::array::from_fn::<u8, 64, _>(|_| random.u8(..)));
            format!("junk at {at}")
        }
        3 => {
            write(one, &whole[other..other + 4096]);
            write(other, &whole[one..one + 4096]);
            format!("{one} and {other} swapped")
        }
        4 => {
            let end = random.usize(..whole.len());
            File::options().write(true).open(path).unwrap().set_len(end as u64).unwrap();
            format!("cut to {end}")
        }
        5 => {
            fs::remove_file(path).unwrap();
            "removed".into()
        }
        _ => {
            let long = random.usize(1..64) << 12;
            write(one, &vec![0xff; long]);
            format!("{long} bytes from {one} on")
        }
    }
}

#[test]
fn whatever_happens_to_one_copy_nothing_is_lost_and_both_are_whole_again() {
    let folder = Folder::new();
    let expected = all_of(&open(&folder.first()));
    let whole = folder.copies().map(|copy| fs::read(copy).unwrap());
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..120 {
        let side = random.usize(..2);
        for (copy, bytes) in folder.copies().iter().zip(&whole) {
            fs::write(copy, bytes).unwrap();
        }
        let what = harm(&folder.copies()[side], &whole[side], &mut random);
        let what = format!("seed {seed}, round {round}: {} {what}", COPIES[side]);
        let store = open(&folder.first());
        assert_eq!(all_of(&store), expected, "{what}");
        assert_eq!(store.scrub_copies().unwrap(), 0, "{what}");
        store.leave();
        drop(store);
        // The other copy alone is enough then.
        fs::remove_file(&folder.copies()[1 - side]).unwrap();
        let store = open(&folder.first());
        assert_eq!(all_of(&store), expected, "{what}, and then the other removed");
    }
}

#[test]
fn a_page_damaged_while_the_store_is_open_comes_from_the_other_copy() {
    let folder = Folder::new();
    let expected = all_of(&open(&folder.first()));
    let [first, _] = folder.copies();
    let store = MetadataStore::open_caching(Files::new(&first, Medium::Block), 1 << 20).unwrap();
    let bytes = fs::read(&first).unwrap();
    let file = File::options().write(true).open(&first).unwrap();
    // Behind the journal, a page of checksums and redb's header: all that the tree is.
    for at in
        ((4 << 20) + 2 * 4096..bytes.len()).step_by(4096).filter(|&at| bytes[at..at + 4096] != [0; 4096])
    {
        file.write_all_at(&[0xee; 100], at as u64 + 50).unwrap();
    }
    assert_eq!(all_of(&store), expected);
    assert!(store.healed() > 10, "{}", store.healed());
    // Pages that nothing has read are found by a look at all of both copies.
    assert_eq!(store.scrub_copies().unwrap(), 0);
    put(&store, FILES + 10..FILES + 11);
    store.leave();
    drop(store);
    fs::remove_file(&folder.copies()[1]).unwrap();
    assert_eq!(all_of(&open(&first)).0.len(), expected.0.len() + 1);
}

#[test]
fn a_second_copy_that_a_crash_left_behind_is_brought_in_step_and_never_believed() {
    let folder = Folder::new();
    let [first, second] = folder.copies();
    let behind = fs::read(&second).unwrap();
    let store = open(&first);
    put(&store, FILES + 10..2 * FILES);
    put(&store, 2 * FILES..2 * FILES + 2);
    let expected = all_of(&store);
    // As a loss of power may leave the two.
    let whole = fs::read(&first).unwrap();
    drop(store);
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..10 {
        fs::write(&first, &whole).unwrap();
        let mut torn = fs::read(&first).unwrap();
        for at in (0..behind.len()).step_by(4096).filter(|_| random.bool()) {
            torn[at..at + 4096].copy_from_slice(&behind[at..at + 4096]);
        }
        // It says of itself that it may be behind.
        torn[..4096].copy_from_slice(&whole[..4096]);
        fs::write(&second, &torn).unwrap();
        let store = open(&first);
        assert_eq!(all_of(&store), expected);
        assert_eq!(store.scrub_copies().unwrap(), 0);
        store.leave();
        drop(store);
        fs::remove_file(&first).unwrap();
        assert_eq!(all_of(&open(&first)), expected);
    }
}

#[test]
fn an_old_copy_and_another_stores_are_told_and_replaced_and_two_of_them_refused() {
    let store = Store::on(Medium::Block);
    let other = Store::on(Medium::Block);
    let write = |store: &Store, name: &[u8]| {
        let shared = store.open();
        let mut writer = Writer::attach(&shared);
        let file = writer.create_in(ROOT, name, 0o100_644);
        writer.write(file, 0, &[5; 5000]);
        writer.digest();
        drop(writer);
        Service::stop(&*shared).unwrap();
        shared.leave();
    };
    write(&store, b"old");
    let old = COPIES.map(|name| fs::read(store.tier().join(name)).unwrap());
    write(&store, b"new");
    write(&other, b"other");
    let now = COPIES.map(|name| fs::read(store.tier().join(name)).unwrap());
    for side in 0..2 {
        let path = store.tier().join(COPIES[side]);
        fs::write(&path, &old[side]).unwrap();
        let looked = check(&store.tier(), Mode::Report).unwrap();
        assert_eq!(looked.worst(), Some(Verdict::Repairable), "{looked:?}");
        assert!(fs::read(&path).unwrap() == old[side], "looking alone changes nothing of copy {side}");
        let told = check(&store.tier(), Mode::Repair).unwrap();
        assert!(told.findings[0].problem.to_string().contains("old copy"), "{told:?}");
        assert_eq!(told.names, 2);
        assert_eq!(check(&store.tier(), Mode::Report).unwrap().findings, []);
    }
    drop(now);
    for (name, bytes) in COPIES.iter().zip(&old) {
        fs::write(store.tier().join(name), bytes).unwrap();
    }
    let refused = cuesta_sharedfs::SharedFs::open(&store.tier(), options()).unwrap_err().to_string();
    assert!(refused.contains("old copy") && refused.contains("fsck --repair"), "{refused}");
    let told = check(&store.tier(), Mode::RepairWithLoss).unwrap();
    assert!(told.findings.iter().any(|finding| finding.problem.to_string().contains("old copy")), "{told:?}");
}

/// A store whose metadata spans some hundred pages of several tables.
fn store_of_many() -> Store {
    let store = Store::on(Medium::Block);
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    for folder in 0..20 {
        let directory = writer.directory(format!("folder {folder}").as_bytes());
        for number in 0..100 {
            let file = writer.create_in(directory, format!("file {number}").as_bytes(), 0o100_644);
            if number % 25 == 0 {
                writer.write(file, 0, &[folder as u8; 100]);
            }
        }
        writer.digest();
    }
    // More extents than fit its record.
    let scattered = writer.file(b"scattered");
    (0..60).for_each(|block| writer.write(scattered, 2 * block * 4096, &[block as u8; 10]));
    writer.digest();
    drop(writer);
    leave(&shared);
    store
}

fn leave(shared: &std::sync::Arc<cuesta_sharedfs::SharedFs>) {
    Service::stop(&**shared).unwrap();
    shared.leave();
}

/// Damages a page of the tree in both copies. False: it holds nothing.
fn damage_both(store: &Store, page: u64) -> bool {
    const TREE_OFFSET: u64 = 4 << 20;
    for name in COPIES {
        let file = File::options().read(true).write(true).open(store.tier().join(name)).unwrap();
        let mut bytes = [0; 4096];
        file.read_exact_at(&mut bytes, TREE_OFFSET + page * 4096).unwrap();
        if bytes == [0; 4096] {
            return false;
        }
        file.write_all_at(&[bytes[100] ^ 0xff], TREE_OFFSET + page * 4096 + 100).unwrap();
    }
    true
}

#[test]
fn the_readable_part_of_metadata_damaged_in_every_copy_is_salvaged() {
    let whole = store_of_many();
    let sound = check(&whole.tier(), Mode::Report).unwrap();
    assert!(sound.findings.is_empty() && sound.names >= 2020, "{sound:?}");
    let (mut salvaged, mut with_losses) = (0, 0);
    for page in (2..260).step_by(7) {
        let store = whole.copied();
        if !damage_both(&store, page) {
            continue;
        }
        let looked = match check(&store.tier(), Mode::Report) {
            Ok(report) => format!("{report:?}"),
            Err(error) => error.to_string(),
        };
        assert!(looked.contains("amaged"), "page {page}: {looked}");
        let repaired = match check(&store.tier(), Mode::RepairWithLoss) {
            Ok(repaired) => repaired,
            Err(error) => {
                assert!(error.to_string().contains("damaged"), "page {page}: {error}");
                continue;
            }
        };
        // redb may write the page anew as it opens the tree: then there is nothing to tell.
        let told = repaired.findings.first().map(|finding| finding.problem.to_string()).unwrap_or_default();
        let is_salvaged = told.contains("damaged in every copy");
        assert!(is_salvaged || repaired.findings.is_empty(), "page {page}: {repaired:?}");
        cuesta_sharedfs::check::told(&store.tier()).unwrap();
        let after = check(&store.tier(), Mode::Report).unwrap();
        assert!(after.findings.is_empty(), "page {page}: {told}: {after:?}");
        let is_less = (after.names, after.inodes, after.blocks) < (sound.names, sound.inodes, sound.blocks);
        assert!(!is_less || is_salvaged && !told.ends_with("Lost: nothing"), "page {page}: {told}");
        assert!(after.inodes > sound.inodes / 2, "page {page}: {told}, {after:?}");
        assert_eq!(
            store.tier().join("damaged").join(COPIES[0]).exists(),
            is_salvaged,
            "what was there is kept"
        );
        salvaged += u32::from(is_salvaged);
        with_losses += u32::from(is_less);
        // Programs go on with it.
        let shared = store.open();
        let mut writer = Writer::attach(&shared);
        let file = writer.file(b"new");
        writer.write(file, 0, &[1; 9000]);
        writer.digest();
        drop(writer);
        leave(&shared);
        assert!(check(&store.tier(), Mode::Report).unwrap().is_clean(), "page {page}");
    }
    println!("{salvaged} salvaged, {with_losses} of them with losses");
    assert!(salvaged > 10 && with_losses > 3, "{salvaged} salvaged, {with_losses} with losses");
}
