//! The store against ordered maps, over commits, abandoned transactions and re-openings.

use crate::metadata::*;
use cuesta_format::{
    ArenaId, BLOCK_BYTES, BlockAddress, Extent, FileKind, InodeNumber, InodeRecord, LogPosition, SessionId,
    Timestamp,
};
use cuesta_media::Medium;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The tests write a store's file thousands of times over; a disk that gives room back late runs full of that.
pub(super) fn folder_in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

const fn shared_between_threads<T: Send + Sync>() {}
const _: () = {
    shared_between_threads::<MetadataStore>();
    shared_between_threads::<Snapshot>();
};

#[derive(Clone, Debug)]
enum Change {
    PutInode {
        inode: u64,
        mode: u32,
    },
    /// With several writes, as a digest has them.
    PutWriting {
        inode: u64,
        mode: u32,
        writes: Vec<Range<u64>>,
    },
    RemoveInode {
        inode: u64,
    },
    PutDirent {
        parent: u64,
        name: Vec<u8>,
        inode: u64,
    },
    RemoveDirent {
        parent: u64,
        name: Vec<u8>,
    },
    PutExtended {
        inode: u64,
        name: Vec<u8>,
        length: usize,
    },
    RemoveExtended {
        inode: u64,
        name: Vec<u8>,
    },
    Write {
        inode: u64,
        start: u64,
        blocks: u64,
    },
    Punch {
        inode: u64,
        start: u64,
        blocks: u64,
    },
    Truncate {
        inode: u64,
        start: u64,
    },
}

#[derive(Clone, Debug)]
enum Step {
    Commit(Vec<Change>),
    /// The same, and more than the journal takes: all of it goes into the tree.
    CommitMuch(Vec<Change>),
    Abandon(Vec<Change>),
    /// As a kill leaves it: the bytes of the file, copied while the store is open.
    Kill,
    Close,
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(b"ab\xff".to_vec()), 1..4)
}

fn change() -> impl Strategy<Value = Change> {
    let inode = || 1..40u64;
    let place = || (0..30u64, 1..6u64);
    prop_oneof![
        3 => (inode(), 0..8u32).prop_map(|(inode, mode)| Change::PutInode { inode, mode }),
        3 => (inode(), 0..8u32, prop::collection::vec((0..4u64, 1..4u64), 0..7)).prop_map(|(inode, mode, gaps)| {
            let mut end = 0;
            let writes = gaps.into_iter().map(|(gap, blocks)| {
                let start = end + gap;
                end = start + blocks;
                start..end
            });
            Change::PutWriting { inode, mode, writes: writes.collect() }
        }),
        1 => inode().prop_map(|inode| Change::RemoveInode { inode }),
        1 => (1..4u64).prop_map(|inode| Change::RemoveInode { inode }),
        3 => (1..4u64, name(), inode()).prop_map(|(parent, name, inode)| Change::PutDirent { parent, name, inode }),
        1 => (1..4u64, name()).prop_map(|(parent, name)| Change::RemoveDirent { parent, name }),
        2 => (1..4u64, name(), 0..9000usize)
            .prop_map(|(inode, name, length)| Change::PutExtended { inode, name, length }),
        1 => (1..4u64, name()).prop_map(|(inode, name)| Change::RemoveExtended { inode, name }),
        6 => (1..4u64, place()).prop_map(|(inode, (start, blocks))| Change::Write { inode, start, blocks }),
        2 => (1..4u64, place()).prop_map(|(inode, (start, blocks))| Change::Punch { inode, start, blocks }),
        1 => (1..4u64, 0..30u64).prop_map(|(inode, start)| Change::Truncate { inode, start }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let changes = || prop::collection::vec(change(), 0..30);
    prop_oneof![
        6 => changes().prop_map(Step::Commit),
        1 => changes().prop_map(Step::CommitMuch),
        1 => changes().prop_map(Step::Abandon),
        1 => Just(Step::Kill),
        1 => Just(Step::Close),
    ]
}

/// The content that the store should hold: each block of each file on its own.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    inodes: BTreeMap<u64, u32>,
    dirents: BTreeMap<(u64, Vec<u8>), u64>,
    extended: BTreeMap<(u64, Vec<u8>), usize>,
    blocks: BTreeMap<(u64, u64), u64>,
}

impl Model {
    fn replace(&mut self, inode: u64, range: std::ops::Range<u64>, first_address: Option<u64>) -> Vec<u64> {
        let within: Vec<_> = self.blocks.range((inode, range.start)..(inode, range.end)).collect();
        let (keys, freed): (Vec<_>, Vec<_>) =
            within.into_iter().map(|(&key, &address)| (key, address)).unzip();
        self.blocks.retain(|key, _| !keys.contains(key));
        if let Some(first) = first_address {
            self.blocks.extend(range.clone().map(|block| ((inode, block), first + block - range.start)));
        }
        freed
    }
}

fn single_blocks(extents: &[Extent]) -> Vec<(u64, u64)> {
    let blocks = |extent: &Extent| {
        let first = extent.address.0 / BLOCK_BYTES;
        let file_block = extent.file_block;
        (0..u64::from(extent.blocks)).map(move |at| (file_block + at, first + at))
    };
    extents.iter().flat_map(blocks).collect()
}

/// An inode's record with the bytes of its extended attributes.
fn record(model: &Model, inode: u64) -> InodeRecord {
    let attributes = model.extended.range((inode, Vec::new())..(inode + 1, Vec::new()));
    let bytes = attributes.map(|((_, name), length)| name.len() + length).sum::<usize>();
    let mode = 0o100_000 | model.inodes[&inode];
    let record = InodeRecord::new(InodeNumber(inode), mode, 0, 0, Timestamp(5));
    InodeRecord { extended: bytes as u32, ..record }
}

fn put_inode(transaction: &mut Transaction, model: &Model, inode: u64) {
    transaction.put_inode(&record(model, inode)).unwrap();
}

fn assert_extended(snapshot: &Snapshot, model: &Model) {
    let mut found = BTreeMap::new();
    for inode in 1..40 {
        for attribute in snapshot.extended(InodeNumber(inode)).unwrap() {
            let length = snapshot.extended_length(InodeNumber(inode), &attribute.name).unwrap();
            assert_eq!(length, Some(attribute.value.len()));
            found.insert((inode, attribute.name), attribute.value.len());
        }
    }
    assert_eq!(found, model.extended);
    let mut visited = 0;
    snapshot.visit_extended(|_, _, _| visited += 1).unwrap();
    assert_eq!(visited, found.len());
}

fn make(transaction: &mut Transaction, model: &mut Model, change: &Change, next_address: &mut u64) {
    let freed_blocks =
        |freed: &[Extent]| single_blocks(freed).into_iter().map(|(_, at)| at).collect::<Vec<_>>();
    match change {
        Change::PutInode { inode, mode } => {
            model.inodes.insert(*inode, *mode);
            put_inode(transaction, model, *inode);
        }
        Change::PutWriting { inode, mode, writes } => {
            model.inodes.insert(*inode, *mode);
            let extents = writes.iter().map(|blocks| {
                let address = BlockAddress(*next_address * BLOCK_BYTES);
                *next_address += blocks.end - blocks.start;
                Extent { file_block: blocks.start, blocks: (blocks.end - blocks.start) as u32, address }
            });
            let extents: Vec<Extent> = extents.collect();
            let with_extents = writes.iter().zip(extents.chunks(1));
            let writes: Vec<_> =
                with_extents.map(|(blocks, new)| ExtentWrite { blocks: blocks.clone(), new }).collect();
            let freed = transaction.put_inode_writing(&record(model, *inode), &writes).unwrap();
            let expected = extents.iter().flat_map(|extent| {
                let blocks = extent.file_block..extent.end_block();
                model.replace(*inode, blocks, Some(extent.address.0 / BLOCK_BYTES))
            });
            assert_eq!(freed_blocks(&freed), expected.collect::<Vec<_>>());
        }
        Change::RemoveInode { inode } => {
            let freed = transaction.remove_inode(InodeNumber(*inode));
            if model.inodes.remove(inode).is_some() {
                model.extended.retain(|(owner, _), _| owner != inode);
                assert_eq!(freed_blocks(&freed.unwrap()), model.replace(*inode, 0..u64::MAX, None));
            } else {
                assert!(matches!(freed, Err(MetadataError::NoInode(_))));
            }
        }
        Change::PutDirent { parent, name, inode } => {
            let dirent = Dirent { inode: InodeNumber(*inode), kind: FileKind::Fifo };
            transaction.put_dirent(InodeNumber(*parent), name, dirent);
            model.dirents.insert((*parent, name.clone()), *inode);
        }
        Change::RemoveDirent { parent, name } => {
            transaction.remove_dirent(InodeNumber(*parent), name);
            model.dirents.remove(&(*parent, name.clone()));
        }
        Change::PutExtended { inode, name, length } if model.inodes.contains_key(inode) => {
            transaction.put_extended(InodeNumber(*inode), name, &vec![7; *length]);
            model.extended.insert((*inode, name.clone()), *length);
            put_inode(transaction, model, *inode);
        }
        Change::RemoveExtended { inode, name } if model.inodes.contains_key(inode) => {
            transaction.remove_extended(InodeNumber(*inode), name);
            model.extended.remove(&(*inode, name.clone()));
            put_inode(transaction, model, *inode);
        }
        Change::PutExtended { .. } | Change::RemoveExtended { .. } => {}
        Change::Write { inode, .. } | Change::Punch { inode, .. } | Change::Truncate { inode, .. }
            if !model.inodes.contains_key(inode) =>
        {
            let refused = transaction.write_extents(InodeNumber(*inode), 0..1, &[]);
            assert!(matches!(refused, Err(MetadataError::NoInode(_))));
        }
        Change::Write { inode, start, blocks } => {
            // Addresses follow each other often enough that neighbours join.
            let address = *next_address;
            *next_address += blocks;
            let extent = Extent {
                file_block: *start,
                blocks: *blocks as u32,
                address: BlockAddress(address * BLOCK_BYTES),
            };
            let range = *start..start + blocks;
            let freed = transaction.write_extents(InodeNumber(*inode), range.clone(), &[extent]).unwrap();
            assert_eq!(freed_blocks(&freed), model.replace(*inode, range, Some(address)));
        }
        Change::Punch { inode, start, blocks } => {
            let range = *start..start + blocks;
            let freed = transaction.write_extents(InodeNumber(*inode), range.clone(), &[]).unwrap();
            assert_eq!(freed_blocks(&freed), model.replace(*inode, range, None));
        }
        Change::Truncate { inode, start } => {
            let freed = transaction.write_extents(InodeNumber(*inode), *start..u64::MAX, &[]).unwrap();
            assert_eq!(freed_blocks(&freed), model.replace(*inode, *start..u64::MAX, None));
        }
    }
}

/// Questions that a transaction and a snapshot both answer, asked in the same words.
macro_rules! assert_holds {
    ($view:expr, $model:expr) => {{
        let (view, model): (_, &Model) = ($view, $model);
        for inode in 1..40 {
            let stored = view.inode(InodeNumber(inode)).unwrap();
            assert_eq!(stored.as_ref().map(|it| it.record.mode & 7), model.inodes.get(&inode).copied());
            let Some(stored) = stored else { continue };
            let blocks = |range: std::ops::Range<u64>| -> Vec<(u64, u64)> {
                model
                    .blocks
                    .range((inode, range.start)..(inode, range.end))
                    .map(|(key, at)| (key.1, *at))
                    .collect()
            };
            assert_eq!(stored.record.blocks, blocks(0..u64::MAX).len() as u64);
            let all = view.extents(InodeNumber(inode), 0..u64::MAX).unwrap();
            assert_eq!(single_blocks(&all), blocks(0..u64::MAX));
            for start in 0..30 {
                let some = single_blocks(&view.extents(InodeNumber(inode), start..start + 3).unwrap());
                let inside = |it: &(u64, u64)| (start..start + 3).contains(&it.0);
                assert_eq!(some.into_iter().filter(inside).collect::<Vec<_>>(), blocks(start..start + 3));
            }
        }
        for parent in 1..4 {
            let names: Vec<_> = model
                .dirents
                .range((parent, Vec::new())..(parent + 1, Vec::new()))
                .map(|((_, name), inode)| (name.clone(), *inode))
                .collect();
            for limit in [1, 3, 1000] {
                let mut listed = Vec::new();
                let mut after = Vec::new();
                loop {
                    let page = view.list(InodeNumber(parent), &after, limit).unwrap();
                    let Some(last) = page.last() else { break };
                    assert!(page.len() <= limit);
                    after.clone_from(&last.name);
                    listed.extend(page.into_iter().map(|entry| (entry.name, entry.dirent.inode.0)));
                }
                assert_eq!(listed, names, "in pages of {limit}");
            }
            for (name, inode) in &names {
                let found = view.lookup(InodeNumber(parent), name).unwrap();
                assert_eq!(found.map(|it| it.inode.0), Some(*inode));
            }
            assert_eq!(view.lookup(InodeNumber(parent), b"missing").unwrap(), None);
        }
        let counters: Counters = view.counters();
        assert_eq!(counters.inodes, model.inodes.len() as u64);
        assert_eq!(counters.used_blocks, model.blocks.len() as u64);
    }};
}

/// A snapshot whose counters are read without an error, as a transaction's are.
struct Reading(Snapshot);

impl Reading {
    fn counters(&self) -> Counters {
        self.0.counters().unwrap()
    }
}

impl std::ops::Deref for Reading {
    type Target = Snapshot;

    fn deref(&self) -> &Snapshot {
        &self.0
    }
}

/// Makes a transaction one that the journal does not take.
pub(super) fn put_much(transaction: &mut Transaction) {
    transaction.put_symlink(InodeNumber(1 << 20), &vec![b'/'; 2 << 20]);
}

fn run(steps: &[Step]) {
    let folder = folder_in_memory();
    let mut path = folder.path().join("0");
    let mut store = MetadataStore::create(&path, Medium::Memory).unwrap();
    let mut model = Model::default();
    let mut next_address = 1000;
    for (number, step) in steps.iter().enumerate() {
        match step {
            Step::Commit(changes) | Step::CommitMuch(changes) | Step::Abandon(changes) => {
                let before = Reading(store.read().unwrap());
                let mut changed = model.clone();
                let mut transaction = store.begin().unwrap();
                for change in changes {
                    make(&mut transaction, &mut changed, change, &mut next_address);
                }
                assert_holds!(&transaction, &changed);
                if matches!(step, Step::CommitMuch(_)) {
                    put_much(&mut transaction);
                }
                if !matches!(step, Step::Abandon(_)) {
                    transaction.commit().unwrap();
                    assert_holds!(&before, &model);
                    model = changed;
                }
            }
            Step::Kill => {
                let killed = folder.path().join(format!("{}", number + 1));
                std::fs::copy(&path, &killed).unwrap();
                path = killed;
                drop(std::mem::replace(&mut store, reopen(&path)));
            }
            Step::Close => {
                drop(store);
                store = reopen(&path);
            }
        }
        assert_holds!(&Reading(store.read().unwrap()), &model);
        assert_extended(&store.read().unwrap(), &model);
    }
    assert!(store.check_pages().unwrap());
}

pub(super) fn reopen(path: &Path) -> MetadataStore {
    MetadataStore::open(path, Medium::Memory).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn holds_what_ordered_maps_hold(steps in prop::collection::vec(step(), 1..12)) {
        run(&steps);
    }
}

#[test]
fn many_files_in_one_batch_then_scattered_changes() {
    let folder = folder_in_memory();
    let path = folder.path().join("meta");
    let store = MetadataStore::create(&path, Medium::Memory).unwrap();
    let mut transaction = store.begin().unwrap();
    let first = InodeNumber(2);
    for file in 0..5000 {
        let inode = InodeNumber(first.0 + file);
        transaction.put_inode(&InodeRecord::new(inode, 0o100_600, 0, 0, Timestamp(0))).unwrap();
        let name = format!("{file:06}");
        transaction.put_dirent(InodeNumber::ROOT, name.as_bytes(), Dirent { inode, kind: FileKind::File });
    }
    transaction.commit().unwrap();
    let mut transaction = store.begin().unwrap();
    for file in (0..5000).step_by(7) {
        let name = format!("{file:06}");
        transaction.remove_dirent(InodeNumber::ROOT, name.as_bytes());
        transaction.remove_inode(InodeNumber(first.0 + file)).unwrap();
        let between = format!("{file:06}+");
        let dirent = Dirent { inode: first, kind: FileKind::File };
        transaction.put_dirent(InodeNumber::ROOT, between.as_bytes(), dirent);
    }
    transaction.commit().unwrap();
    drop(store);
    let store = reopen(&path);
    let snapshot = store.read().unwrap();
    let removed = 5000usize.div_ceil(7) as u64;
    assert_eq!(snapshot.counters().unwrap().inodes, 5000 - removed);
    assert_eq!(snapshot.list(InodeNumber::ROOT, b"", usize::MAX).unwrap().len(), 5000);
    let mut seen = 0;
    snapshot.visit_inodes(|_| seen += 1).unwrap();
    assert_eq!(seen, 5000 - removed);
}

#[test]
fn the_small_tables_keep_what_they_are_given() {
    let folder = folder_in_memory();
    let path = folder.path().join("meta");
    let store = MetadataStore::create(&path, Medium::Memory).unwrap();
    let mut transaction = store.begin().unwrap();
    let session = SessionId(1);
    let record = SessionRecord { digested: LogPosition(640), ..SessionRecord::default() };
    transaction.put_session(session, record);
    transaction.put_session(SessionId(99), record);
    transaction.remove_session(SessionId(99));
    transaction.put_arena(ArenaId(3), vec![5; 2048]);
    transaction.put_orphan(InodeNumber(7), session);
    transaction.put_orphan(InodeNumber(8), session);
    transaction.remove_orphan(InodeNumber(8), session);
    transaction.put_inode(&InodeRecord::new(InodeNumber(9), 0o120_777, 0, 0, Timestamp(0))).unwrap();
    transaction.put_symlink(InodeNumber(9), b"../there");
    transaction.commit().unwrap();
    drop(store);

    let store = reopen(&path);
    let snapshot = store.read().unwrap();
    assert_eq!(snapshot.sessions().unwrap(), [(session, record)]);
    assert_eq!(snapshot.session(session).unwrap(), Some(record));
    assert_eq!(snapshot.arenas().unwrap(), [(ArenaId(3), vec![5; 2048])]);
    assert_eq!(snapshot.arena(ArenaId(4)).unwrap(), None);
    assert_eq!(snapshot.orphans().unwrap(), [(InodeNumber(7), session)]);
    assert_eq!(snapshot.symlink(InodeNumber(9)).unwrap().as_deref(), Some(&b"../there"[..]));
    let mut transaction = store.begin().unwrap();
    transaction.remove_inode(InodeNumber(9)).unwrap();
    transaction.commit().unwrap();
    assert_eq!(store.read().unwrap().symlink(InodeNumber(9)).unwrap(), None);
}

#[test]
fn behind_a_commit_that_may_have_been_done_nothing_is_written() {
    let folder = folder_in_memory();
    let path = folder.path().join("meta");
    let store = MetadataStore::create(&path, Medium::Memory).unwrap();
    let mut transaction = store.begin().unwrap();
    for number in 1..5000 {
        transaction.put_symlink(InodeNumber(number), &[b'/'; 500]);
    }
    transaction.commit().unwrap();
    drop(store);
    let store = reopen(&path);
    let mut transaction = store.begin().unwrap();
    let (tree, length) = ((4 << 20) + 8192, std::fs::metadata(&path).unwrap().len());
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.write_all_at(&vec![0xff; (length - tree) as usize], tree).unwrap();
    for number in (1..5000).step_by(100) {
        transaction.put_symlink(InodeNumber(number), b"elsewhere");
    }
    put_much(&mut transaction);
    assert!(transaction.commit().is_err(), "its pages are not there any more");
    assert!(matches!(store.begin().map(|_| ()), Err(MetadataError::Failed)));
}

/// A commit that was done and told its caller that there was no room was done again.
#[test]
fn a_transaction_without_room_changes_nothing() {
    let (mut done, mut refused) = (0, 0);
    for syncs in 0.. {
        let folder = folder_in_memory();
        let path = folder.path().join("meta");
        let store = MetadataStore::create(&path, Medium::Memory).unwrap();
        let mut transaction = store.begin().unwrap();
        transaction.put_symlink(InodeNumber(9), b"target");
        put_much(&mut transaction);
        store.fill_behind(syncs);
        let committed = transaction.commit();
        store.fill_behind(u64::MAX);
        let is_there = store.read().unwrap().symlink(InodeNumber(9)).unwrap().is_some();
        match committed {
            Ok(()) => assert!(is_there, "{syncs}"),
            Err(MetadataError::NoSpace) => assert!(!is_there, "{syncs}: it is there all the same"),
            Err(error) => panic!("{syncs}: {error}"),
        }
        done += u64::from(is_there);
        refused += u64::from(!is_there);
        // It goes on as ever.
        let mut transaction = store.begin().unwrap();
        transaction.put_symlink(InodeNumber(10), b"next");
        put_much(&mut transaction);
        transaction.commit().unwrap();
        drop(store);
        let store = reopen(&path);
        assert_eq!(store.read().unwrap().symlink(InodeNumber(9)).unwrap().is_some(), is_there);
        assert!(store.read().unwrap().symlink(InodeNumber(10)).unwrap().is_some());
        if done > 2 {
            break;
        }
    }
    assert!(refused > 0);
}

#[test]
fn a_foreign_file_is_an_error() {
    let folder = folder_in_memory();
    let path = folder.path().join("meta");
    assert!(matches!(MetadataStore::open(&path, Medium::Memory), Err(MetadataError::Missing(_))));
    std::fs::write(&path, b"").unwrap();
    assert!(matches!(MetadataStore::open(&path, Medium::Memory), Err(MetadataError::Foreign(_))));
    assert!(matches!(MetadataStore::create(&path, Medium::Memory), Err(MetadataError::Exists(_))));
    std::fs::write(&path, vec![b'x'; 100_000]).unwrap();
    assert!(matches!(MetadataStore::open(&path, Medium::Memory), Err(MetadataError::Foreign(_))));
}

#[test]
fn a_damaged_store_is_an_error_and_never_a_panic() {
    let folder = folder_in_memory();
    let path = folder.path().join("meta");
    drop(MetadataStore::create(&path, Medium::Memory).unwrap());
    let sound = std::fs::read(&path).unwrap();
    for place in (0..256).chain(4096..4096 + 512) {
        let mut bytes = sound.clone();
        bytes[place] ^= 0xff;
        std::fs::write(&path, &bytes).unwrap();
        if let Ok(mut store) = MetadataStore::open(&path, Medium::Memory) {
            let _ = store.check_pages();
        }
    }
    for len in [1, 100, 4096, 5000, 100_000] {
        std::fs::write(&path, &sound[..len.min(sound.len())]).unwrap();
        assert!(MetadataStore::open(&path, Medium::Memory).is_err(), "cut to {len} bytes");
    }
}
