//! Journals that were damaged, torn, or left beside another tree.

use super::flaw::{JournalFlaw, JournalLoss};
use super::record::{JournalEnd, JournalGeneration};
use super::redo::Redo;
use super::writer::append;
use crate::metadata::codec::{SessionRecord, Table, encode_extent_place, pair_key};
use crate::metadata::files::{BackendFile, Files};
use crate::metadata::tests::{folder_in_memory, put_much, reopen};
use crate::metadata::{MetadataError, MetadataStore};
use cuesta_format::{BlockAddress, InodeNumber, SessionId};
use cuesta_media::Medium;
use std::path::Path;

/// Where the file says how far the journal counts.
const JOURNAL_NUMBER: std::ops::Range<usize> = 24..32;
/// Where the journal begins in it.
const JOURNAL: usize = 4096;

#[test]
fn a_damaged_journal_is_an_error_and_loses_nothing_silently() {
    let folder = folder_in_memory();
    let path = folder.path().join("meta");
    let store = MetadataStore::create(&path, Medium::Memory).unwrap();
    for number in 0..3 {
        let mut transaction = store.begin().unwrap();
        transaction.put_session(SessionId(number), SessionRecord::default());
        transaction.commit().unwrap();
    }
    drop(store);
    let sound = std::fs::read(&path).unwrap();
    let open = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        MetadataStore::open(&path, Medium::Memory)
    };
    assert_eq!(open(&sound).unwrap().read().unwrap().sessions().unwrap().len(), 3);
    let end = sound[JOURNAL..JOURNAL + 4096].iter().rposition(|&byte| byte != 0).unwrap();
    for place in JOURNAL_NUMBER.chain(JOURNAL..=JOURNAL + end) {
        let mut bytes = sound.clone();
        bytes[place] ^= 0x10;
        assert!(matches!(open(&bytes), Err(MetadataError::Journal(_))), "byte {place}");
    }
}

/// A store's file with three sessions, each committed by a record of its own, and where these end in it.
fn three_records(path: &Path) -> (Vec<u8>, [usize; 3]) {
    let store = MetadataStore::create(path, Medium::Memory).unwrap();
    let ends = [1, 2, 3].map(|number| {
        let mut transaction = store.begin().unwrap();
        transaction.put_session(SessionId(number), SessionRecord::default());
        transaction.commit().unwrap();
        let bytes = std::fs::read(path).unwrap();
        let number = u64::from_le_bytes(bytes[JOURNAL_NUMBER].try_into().unwrap());
        JOURNAL + 16 * (number % (1 << 20)) as usize
    });
    drop(store);
    (std::fs::read(path).unwrap(), ends)
}

fn open_dropping(path: &Path) -> (MetadataStore, Option<JournalLoss>) {
    let sound = MetadataStore::open_sound_part(Files::new(path, Medium::Memory)).unwrap();
    let loss = sound.loss();
    (sound.drop_rest().unwrap(), loss)
}

fn sessions(store: &MetadataStore) -> Vec<u64> {
    store.read().unwrap().sessions().unwrap().into_iter().map(|(session, _)| session.0).collect()
}

#[test]
fn a_torn_record_behind_the_last_that_counts_is_the_end() {
    let folder = folder_in_memory();
    let path = folder.path().join("meta");
    let (whole, [_, two, three]) = three_records(&path);
    let counted = MetadataStore::create(&folder.path().join("other"), Medium::Memory).unwrap();
    for number in 1..3 {
        let mut transaction = counted.begin().unwrap();
        transaction.put_session(SessionId(number), SessionRecord::default());
        transaction.commit().unwrap();
    }
    let two_counted = std::fs::read(folder.path().join("other")).unwrap();
    for torn_at in two..=three {
        for rest in [0, 0xff] {
            let mut bytes = whole.clone();
            bytes[JOURNAL_NUMBER].copy_from_slice(&two_counted[JOURNAL_NUMBER]);
            bytes[torn_at..three].fill(rest);
            std::fs::write(&path, &bytes).unwrap();
            let store = reopen(&path);
            assert_eq!(sessions(&store), [1, 2], "torn at {torn_at}");
            // The next one comes in its place.
            let mut transaction = store.begin().unwrap();
            transaction.put_session(SessionId(4), SessionRecord::default());
            transaction.commit().unwrap();
            drop(store);
            assert_eq!(sessions(&reopen(&path)), [1, 2, 4], "torn at {torn_at}");
        }
    }
}

#[test]
fn dropping_a_damaged_journal_keeps_all_before_the_first_damaged_record() {
    let folder = folder_in_memory();
    let path = folder.path().join("meta");
    let (whole, ends) = three_records(&path);
    let [one, two, three] = ends;
    let record = |number, at: usize| {
        let (at, end) = ((at - JOURNAL) as u64, (three - JOURNAL) as u64);
        JournalFlaw::Record { number, at, end }
    };
    let none: &[u64] = &[];
    // Where a byte is damaged, the flaw that is told then, and the commits that are kept.
    let cases = [
        (JOURNAL + 20, record(1, JOURNAL), none),
        (one + 1, record(2, one), &[1]),
        (one + 5, record(2, one), &[1]),
        (two + 30, record(3, two), &[1, 2]),
        // The number itself: every record of this journal that is whole counts.
        (JOURNAL_NUMBER.start + 1, JournalFlaw::Number, &[1, 2, 3]),
    ];
    for (place, flaw, kept) in cases {
        let mut bytes = whole.clone();
        bytes[place] ^= 0x10;
        std::fs::write(&path, &bytes).unwrap();
        let refused = MetadataStore::open(&path, Medium::Memory).map(|_| ());
        assert!(matches!(refused, Err(MetadataError::Journal(found)) if found == flaw), "{refused:?}");
        let after = std::fs::read(&path).unwrap();
        let is_kept = [JOURNAL_NUMBER, JOURNAL..three].map(|part| bytes[part.clone()] == after[part]);
        assert_eq!(is_kept, [true; 2], "opening it alone changes nothing of it");
        let (store, loss) = open_dropping(&path);
        assert_eq!(loss, Some(JournalLoss { flaw, commits_kept: kept.len() as u64 }));
        assert_eq!(sessions(&store), kept);
        drop(store);
        // From then on it is a store as any other.
        let store = reopen(&path);
        let mut transaction = store.begin().unwrap();
        transaction.put_session(SessionId(9), SessionRecord::default());
        transaction.commit().unwrap();
        drop(store);
        assert_eq!(sessions(&reopen(&path)), [kept, &[9]].concat());
        assert_eq!(open_dropping(&path).1, None);
    }
}

#[test]
fn a_journal_that_went_into_the_tree_counts_no_more_and_one_ahead_of_its_tree_is_damage() {
    let folder = folder_in_memory();
    let path = folder.path().join("meta");
    let store = MetadataStore::create(&path, Medium::Memory).unwrap();
    let put = |session| {
        let mut transaction = store.begin().unwrap();
        transaction.put_session(SessionId(session), SessionRecord::default());
        transaction
    };
    put(1).commit().unwrap();
    let before = std::fs::read(&path).unwrap();
    let mut much = put(2);
    put_much(&mut much);
    much.commit().unwrap();
    let after = std::fs::read(&path).unwrap();
    drop(store);
    let open = |bytes: &[u8], number: &[u8]| {
        let mut bytes = bytes.to_vec();
        bytes[JOURNAL_NUMBER].copy_from_slice(&number[JOURNAL_NUMBER]);
        std::fs::write(&path, bytes).unwrap();
        MetadataStore::open(&path, Medium::Memory)
    };
    // As a kill leaves it right behind the tree's commit.
    let store = open(&after, &before).unwrap();
    assert_eq!(store.read().unwrap().sessions().unwrap().len(), 2);
    let mut transaction = store.begin().unwrap();
    transaction.remove_session(SessionId(1));
    transaction.commit().unwrap();
    drop(store);
    assert_eq!(reopen(&path).read().unwrap().sessions().unwrap().len(), 1);
    assert!(matches!(open(&before, &after), Err(MetadataError::Journal(JournalFlaw::OtherTree))));
    // The journal is gone with the tree it came behind; the tree that is there stands.
    let (store, loss) = open_dropping(&path);
    assert_eq!(loss, Some(JournalLoss { flaw: JournalFlaw::OtherTree, commits_kept: 0 }));
    assert_eq!(sessions(&store), []);
}

/// An extent in the table that no inode's record speaks of, as damage leaves it.
pub(crate) fn plant_extent(path: &Path, inode: InodeNumber, file_block: u64) {
    let file = BackendFile::open(&Files::new(path, Medium::Memory)).unwrap();
    let place = JournalEnd::from_number(file.journal_number().unwrap().unwrap(), JournalGeneration(0));
    let mut redo = Redo::default();
    let extent = encode_extent_place(BlockAddress(0), 1);
    redo.push(Table::Extents, &pair_key(inode.0, file_block), Some(&extent));
    append(&file, place, &redo).unwrap();
}
