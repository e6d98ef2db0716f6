//! fsck: a sound store is clean, each planted damage is found, what can be repaired is.

use crate::common::*;
use cuesta_format::geometry::{MAPPED_FOLDER, REFERENCES_FOLDER};
use cuesta_format::quota::{Amounts, Payer};
use cuesta_format::wire::{LeaseMode, Request};
use cuesta_format::{
    ArenaId, BlockAddress, Extent, FileKind, InodeNumber, InodeRecord, Operation, Timestamp,
};
use cuesta_sharedfs::SharedFs;
use cuesta_sharedfs::check::{CheckReport, Finding, Mode, Problem, Verdict, check, told};
use cuesta_sharedfs::metadata::{Dirent, JournalFlaw, MetadataStore, Transaction};
use std::os::unix::fs::FileExt;

/// A store with a little of everything; the directory `d` is 2, the file `d/f` 3.
fn populated() -> Store {
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    let directory = writer.directory(b"d");
    let file = writer.create_in(directory, b"f", 0o100_644);
    writer.write(file, 0, &[1; 10_000]);
    writer.create_in(directory, b"link", 0o120_777);
    let scattered = writer.file(b"scattered");
    for number in 0..20 {
        writer.write(scattered, number * 3 * 4096, &[2; 4096]);
    }
    assert_eq!((directory, file), (InodeNumber(2), InodeNumber(3)));
    writer.request(&Request::Detach);
    store
}

fn damage(store: &Store, change: impl FnOnce(&mut Transaction)) {
    let metadata = MetadataStore::open(&store.tier().join("meta.redb"), medium()).unwrap();
    let mut transaction = metadata.begin().unwrap();
    change(&mut transaction);
    transaction.commit().unwrap();
}

fn problems(report: &CheckReport) -> Vec<Problem> {
    report.findings.iter().map(|finding| finding.problem.clone()).collect()
}

const D: InodeNumber = InodeNumber(2);
const F: InodeNumber = InodeNumber(3);

#[test]
fn a_sound_store_is_clean() {
    let store = populated();
    let report = check(&store.tier(), Mode::Report).unwrap();
    assert_eq!(problems(&report), []);
    assert!(report.is_clean());
    assert_eq!((report.inodes, report.names, report.blocks), (5, 4, 23));
}

#[test]
fn logs_are_digested_by_a_repair_only_and_leave_a_clean_store() {
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    let file = writer.file(b"f");
    writer.write(file, 0, b"content");
    let orphan = writer.file(b"o");
    writer.unlink(ROOT, b"o", orphan, true);
    writer.digest();
    writer.write(file, 0, b"C");
    kill(shared, vec![writer]);
    let report = check(&store.tier(), Mode::Report).unwrap();
    assert!(report.is_clean() && report.inodes == 3, "{report:?}");
    let report = check(&store.tier(), Mode::Repair).unwrap();
    assert!(report.is_clean() && report.inodes == 2, "{report:?}");
    assert_eq!(report.recovered_entries, 1);
    assert_eq!(content(&store.open(), "f"), b"Content");
}

/// Damages the journal's record with this name.
fn damage_journal(store: &Store, name: &[u8]) {
    let copies = ["meta.redb", "meta.copy"].map(|name| store.tier().join(name));
    for metadata in copies.iter().filter(|path| path.exists()) {
        let mut bytes = std::fs::read(metadata).unwrap();
        let found = bytes[..4 << 20].windows(name.len()).position(|bytes| bytes == name);
        bytes[found.expect("the name is in the journal")] = b'?';
        std::fs::write(metadata, bytes).unwrap();
    }
}

/// Commits that the metadata's journal lost are digested again, as far as the log still has them.
#[test]
fn a_damaged_journal_is_dropped_only_if_that_is_wanted_and_logs_make_up_for_it() {
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    let file = writer.file(b"a name to be found");
    writer.write(file, 0, b"content");
    writer.digest();
    kill(shared, vec![writer]);
    damage_journal(&store, b"a name to be found");
    for mode in [Mode::Report, Mode::Repair] {
        let refused = check(&store.tier(), mode).unwrap_err().to_string();
        assert!(refused.contains("not what was written"), "{refused}");
    }
    assert!(SharedFs::open(&store.tier(), options()).is_err());
    let report = check(&store.tier(), Mode::RepairWithLoss).unwrap();
    let is_journal = |finding: &Finding| {
        let flaw = matches!(finding.problem, Problem::Journal { flaw: JournalFlaw::Record { .. }, .. });
        flaw && finding.verdict == Verdict::Repaired
    };
    assert!(matches!(&report.findings[..], [finding] if is_journal(finding)), "{report:?}");
    assert_eq!(report.recovered_entries, 2);
    told(&store.tier()).unwrap();
    assert_eq!(check(&store.tier(), Mode::Report).unwrap().findings, []);
    assert_eq!(content(&store.open(), "a name to be found"), b"content");
}

/// A repair is broken off, by a kill or by an error.
#[test]
fn a_broken_off_repair_is_ended_by_the_next_which_tells_its_losses() {
    let store = Store::new();
    let program = Program::start();
    let shared = store.open();
    let mut writer = Writer::attach_as(&shared, program.0.id());
    let file = writer.file(b"a name to be found");
    writer.write(file, 0, b"content");
    writer.digest();
    kill(shared, vec![writer]);
    damage_journal(&store, b"a name to be found");
    let [arenas, away] = ["arenas", "away"].map(|name| store.tier().join(name));
    std::fs::rename(&arenas, &away).unwrap();
    check(&store.tier(), Mode::RepairWithLoss).unwrap_err();
    std::fs::rename(away, arenas).unwrap();

    let refused = SharedFs::open(&store.tier(), options()).unwrap_err().to_string();
    assert!(refused.contains("cuesta fsck"), "{refused}");
    let is_loss = |finding: &Finding, verdict| {
        finding.verdict == verdict
            && finding.problem.to_string().contains("journal of the metadata store was damaged")
    };
    let report = check(&store.tier(), Mode::Report).unwrap();
    assert!(matches!(&report.findings[..], [finding] if is_loss(finding, Verdict::Repairable)), "{report:?}");
    for _ in 0..2 {
        let report = check(&store.tier(), Mode::Repair).unwrap();
        assert!(is_loss(&report.findings[0], Verdict::Repaired), "{report:?}");
        assert!(SharedFs::open(&store.tier(), options()).is_err(), "the losses were not told");
    }
    told(&store.tier()).unwrap();
    assert_eq!(check(&store.tier(), Mode::Report).unwrap().findings, []);
    assert_eq!(store.open().awaited().len(), 0, "what the program knows is of what was lost");
}

/// The loss may be that a file is in mapped mode: content stored by mappings lies nowhere else.
#[test]
fn content_of_mapped_files_is_set_aside_where_a_journal_is_dropped() {
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    let file = writer.file(b"a name to be found");
    writer.digest();
    kill(shared, vec![writer]);
    let mapped = store.tier().join(REFERENCES_FOLDER).join(MAPPED_FOLDER).join(file.0.to_string());
    let metadata = store.tier().join("meta.redb");
    let whole = std::fs::read(&metadata).unwrap();
    for (time, stored) in [b"stored", b"later!"].into_iter().enumerate() {
        std::fs::write(&mapped, stored).unwrap();
        std::fs::write(&metadata, &whole).unwrap();
        damage_journal(&store, b"a name to be found");
        let report = check(&store.tier(), Mode::RepairWithLoss).unwrap();
        let set_aside = report.findings.iter().find_map(|finding| match &finding.problem {
            Problem::SetAside(inode, path) if *inode == file => Some(path.clone()),
            _ => None,
        });
        let set_aside = set_aside.expect("it is told where");
        assert_eq!(std::fs::read(set_aside).unwrap(), stored, "repair {time}");
        assert!(!mapped.exists());
    }
}

/// Entries behind the end of a log that do not say that what is missing was acknowledged may be what a crash left.
#[test]
fn whole_entries_behind_a_torn_one_are_no_damage() {
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    writer.file(b"a");
    let damaged = writer.at;
    writer.file(b"b");
    writer.file(b"c");
    writer.write_raw(damaged.plus(70), &[0xff; 2]);
    kill(shared, vec![writer]);
    let report = check(&store.tier(), Mode::Report).unwrap();
    assert_eq!(problems(&report), []);
    assert!(report.is_clean());
}

/// The check itself failed, and later called the store clean.
#[test]
fn a_log_whose_owner_cut_it_short_is_told_until_a_repair_told_it() {
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    writer.file(b"digested");
    writer.digest();
    writer.file(b"lost");
    writer.cut_segment(0, 10);
    let session = writer.session;
    kill(shared, vec![writer]);
    let is_of_it = |problem: &Problem| match problem {
        Problem::Log(loss) => loss.is_cut && loss.session == session,
        Problem::LostBefore(words) => words.contains(&format!("the log of session {session} is given up")),
        _ => false,
    };
    for (mode, verdict) in [
        (Mode::Report, Verdict::Damaged),
        (Mode::Repair, Verdict::Damaged),
        (Mode::Report, Verdict::Damaged),
        (Mode::RepairWithLoss, Verdict::Repaired),
    ] {
        let report = check(&store.tier(), mode).unwrap();
        assert!(problems(&report).iter().all(is_of_it), "{report:?}");
        assert_eq!((report.worst(), report.inodes), (Some(verdict), 2), "{report:?}");
        told(&store.tier()).unwrap();
    }
    assert_eq!(check(&store.tier(), Mode::Report).unwrap().findings, []);
}

/// The session that had the repair broken off was never told of the log; and whatever a repair had written down
/// before, the next one gave up the sessions of all programs.
#[test]
fn a_cut_log_is_told_by_the_next_repair_and_costs_no_other_session() {
    for damaged in [false, true] {
        let store = populated();
        let shared = store.open();
        let (one, two) = (Program::start(), Program::start());
        let mut cut = Writer::attach_as(&shared, one.0.id());
        let mut innocent = Writer::attach_as(&shared, two.0.id());
        cut.file(b"digested");
        cut.digest();
        cut.append(Operation::Link { parent: ROOT, inode: F, name: b"lost" });
        innocent.acquire(F, LeaseMode::Write);
        innocent.write(F, 0, b"kept");
        cut.cut_segment(0, 10);
        let (lost, kept) = (cut.session, innocent.session);
        kill(shared, vec![cut, innocent]);
        if damaged {
            // Something to be repaired beside it.
            damage(&store, |it| {
                it.put_dirent(D, b"ghost", Dirent { inode: InodeNumber(99), kind: FileKind::File })
            });
        }
        let first = check(&store.tier(), Mode::RepairWithLoss).unwrap();
        let is_cut = |problem: &Problem| matches!(problem, Problem::Log(loss) if loss.session == lost);
        let cut = problems(&first).into_iter().find(is_cut).expect("the log is told");
        // Broken off before that was told.
        assert!(SharedFs::open(&store.tier(), options()).is_err());
        let second = check(&store.tier(), Mode::RepairWithLoss).unwrap();
        assert!(problems(&second).contains(&Problem::Earlier(cut.to_string())), "{second:?}");
        told(&store.tier()).unwrap();
        let next = store.open();
        let awaited: Vec<_> = next.awaited().into_iter().map(|(session, _)| session).collect();
        assert_eq!(awaited, [kept], "damaged: {damaged}");
        assert_eq!(content(&next, "d/f")[..4], *b"kept");
    }
}

#[test]
fn repairable_damage_is_found_and_repaired() {
    type Damage = fn(&mut Transaction);
    type Expected = fn(&Problem) -> bool;
    let cases: [(Damage, Expected); 16] = [
        (
            |it| it.put_dirent(D, b"ghost", Dirent { inode: InodeNumber(99), kind: FileKind::File }),
            |it| matches!(it, Problem::Dangling { parent: D, inode: InodeNumber(99), .. }),
        ),
        (
            |it| it.put_dirent(F, b"inside", Dirent { inode: F, kind: FileKind::File }),
            |it| matches!(it, Problem::NoDirectory { parent: F, .. }),
        ),
        (
            |it| it.put_dirent(D, b"f", Dirent { inode: F, kind: FileKind::Fifo }),
            |it| matches!(it, Problem::EntryKind { inode: F, .. }),
        ),
        (
            |it| it.put_dirent(D, b"second", Dirent { inode: F, kind: FileKind::File }),
            |it| matches!(it, Problem::Links { inode: F, names: 2, links: 1 }),
        ),
        (
            |it| it.remove_dirent(D, b"link"),
            |it| matches!(it, Problem::Entries { inode: D, entries: 1, size: 2 } | Problem::Nameless(_)),
        ),
        (
            |it| it.remove_dirent(D, b"f"),
            |it| matches!(it, Problem::Nameless(F) | Problem::Entries { inode: D, .. }),
        ),
        (
            |it| {
                let mut stored = it.inode(D).unwrap().unwrap();
                stored.record.parent = F;
                it.put_inode(&stored.record).unwrap();
            },
            |it| matches!(it, Problem::Parent { inode: D, .. }),
        ),
        (
            |it| it.put_arena(ArenaId(0), vec![0xff; 32]),
            |it| matches!(it, Problem::Leaked { arena: ArenaId(0), blocks: 233 }),
        ),
        (
            |it| it.put_arena(ArenaId(0), vec![0; 32]),
            |it| matches!(it, Problem::Unmarked { arena: ArenaId(0), blocks: 23 }),
        ),
        (
            |it| {
                let mut stored = it.inode(F).unwrap().unwrap();
                stored.record.size = 4096;
                it.put_inode(&stored.record).unwrap();
            },
            |it| matches!(it, Problem::BehindEnd { inode: F, from_block: 1 }),
        ),
        (
            |it| it.correct_usage(Payer::User(7), Amounts::NONE, Amounts { blocks: 3, inodes: 1 }),
            |it| {
                matches!(
                    it,
                    Problem::Usage {
                        payer: Payer::User(7),
                        right: Amounts::NONE,
                        kept: Amounts { blocks: 3, inodes: 1 }
                    }
                )
            },
        ),
        (
            |it| it.correct_usage(Payer::Tree(D), Amounts::NONE, Amounts { blocks: 1, inodes: 2 }),
            |it| matches!(it, Problem::Usage { payer: Payer::Tree(D), right: Amounts::NONE, .. }),
        ),
        (
            |it| {
                let mut stored = it.inode(D).unwrap().unwrap();
                stored.record.tree = F;
                it.put_inode(&stored.record).unwrap();
            },
            |it| matches!(it, Problem::Tree { inode: D, tree: F, right: InodeNumber::NONE }),
        ),
        (
            |it| it.put_extended(F, b"user.a", b"12"),
            |it| matches!(it, Problem::Extended { inode: F, counted: 8, bytes: 0 }),
        ),
        (
            |it| {
                let mut stored = it.inode(F).unwrap().unwrap();
                stored.record.access_list = true;
                it.put_inode(&stored.record).unwrap();
            },
            |it| matches!(it, Problem::Lists { inode: F, access: false, default: false }),
        ),
        (
            |it| {
                it.put_extended(InodeNumber(99), b"user.a", b"");
                it.put_extended(InodeNumber(99), b"user.b", b"12");
            },
            |it| matches!(it, Problem::StrayExtended(InodeNumber(99))),
        ),
    ];
    for (number, (change, expected)) in cases.into_iter().enumerate() {
        let store = populated();
        damage(&store, change);
        let report = check(&store.tier(), Mode::Report).unwrap();
        assert_eq!(report.worst(), Some(Verdict::Repairable), "case {number}: {report:?}");
        let found = problems(&report);
        assert!(found.iter().any(expected), "case {number}: {report:?}");
        let report = check(&store.tier(), Mode::Repair).unwrap();
        assert_eq!(report.worst(), Some(Verdict::Repaired), "case {number}: {report:?}");
        let report = check(&store.tier(), Mode::Repair).unwrap();
        // Some repairs uncover the next one; a second pass always settles it.
        assert!(report.worst() <= Some(Verdict::Repaired), "case {number}: {report:?}");
        let report = check(&store.tier(), Mode::Report).unwrap();
        assert!(report.is_clean(), "case {number}: {report:?}");
        store.open();
    }
}

#[test]
fn damage_without_a_safe_repair_is_reported_and_left() {
    type Damage = fn(&mut Transaction);
    type Expected = fn(&Problem) -> bool;
    let cases: [(Damage, Expected); 5] = [
        (
            |it| {
                let extent = Extent { file_block: 0, blocks: 1, address: BlockAddress(1 << 40) };
                it.write_extents(F, 0..1, &[extent]).unwrap();
            },
            |it| matches!(it, Problem::Address { inode: F, file_block: 0 }),
        ),
        (
            |it| {
                let other = it.extents(InodeNumber(5), 0..1).unwrap()[0];
                it.write_extents(F, 0..1, &[Extent { blocks: 1, ..other }]).unwrap();
            },
            |it| matches!(it, Problem::Shared { first: F, .. }),
        ),
        (
            |it| {
                let record = InodeRecord::new(InodeNumber(1 << 40), 0o100_644, 0, 0, Timestamp(0));
                it.put_inode(&record).unwrap();
                let dirent = Dirent { inode: record.inode, kind: FileKind::File };
                it.put_dirent(D, b"huge", dirent);
            },
            |it| matches!(it, Problem::Number(InodeNumber(number)) if *number == 1 << 40),
        ),
        (
            |it| {
                let mut stored = it.inode(F).unwrap().unwrap();
                stored.record.mode = 0o644;
                it.put_inode(&stored.record).unwrap();
            },
            |it| matches!(it, Problem::Mode(F, 0o644)),
        ),
        (
            |it| {
                // The directory holds itself: it has a name, and no way to the root.
                it.remove_dirent(ROOT, b"d");
                it.put_dirent(D, b"self", Dirent { inode: D, kind: FileKind::Directory });
            },
            |it| matches!(it, Problem::Unreachable(D)),
        ),
    ];
    for (number, (change, expected)) in cases.into_iter().enumerate() {
        let store = populated();
        damage(&store, change);
        let report = check(&store.tier(), Mode::Repair).unwrap();
        assert_eq!(report.worst(), Some(Verdict::Damaged), "case {number}: {report:?}");
        assert!(problems(&report).iter().any(expected), "case {number}: {report:?}");
    }
}

#[test]
fn content_of_a_mapped_file_that_is_missing_or_left_behind_is_told() {
    let store = populated();
    let folder = store.tier().join(REFERENCES_FOLDER);
    std::fs::write(folder.join(MAPPED_FOLDER).join("4"), b"left behind").unwrap();
    damage(&store, |it| {
        let mut stored = it.inode(F).unwrap().unwrap();
        stored.record.mapped = true;
        it.put_inode(&stored.record).unwrap();
    });
    let found = |mode| {
        let report = check(&store.tier(), mode).unwrap();
        report.findings.into_iter().map(|finding| (finding.problem, finding.verdict)).collect::<Vec<_>>()
    };
    let missing = (Problem::MissingMapped(F), Verdict::Damaged);
    let stray = (Problem::StrayMapped(InodeNumber(4)), Verdict::Noted);
    assert_eq!(found(Mode::Report), [stray.clone(), missing.clone()]);
    assert_eq!(found(Mode::Repair), [stray, missing.clone()]);
    assert_eq!(found(Mode::Repair), [missing], "what was left behind is gone");
    let whole = std::fs::read(store.tier().join("meta.redb")).unwrap();
    std::fs::write(folder.join(MAPPED_FOLDER).join(F.0.to_string()), b"content").unwrap();
    assert_eq!(found(Mode::Report), []);

    std::fs::remove_file(folder.join(MAPPED_FOLDER).join(F.0.to_string())).unwrap();
    std::fs::write(store.tier().join("meta.redb"), whole).unwrap();
    let given_up = (Problem::MissingMapped(F), Verdict::Repaired);
    assert_eq!(found(Mode::RepairWithLoss), [given_up]);
    assert!(SharedFs::open(&store.tier(), options()).is_err(), "the losses were not told");
    told(&store.tier()).unwrap();
    assert_eq!(found(Mode::Report), []);
    assert_eq!(content(&store.open(), "d/f"), [1; 10_000], "as it was before it was mapped");
}

#[test]
fn bytes_behind_the_end_of_a_file_are_found_and_cleared() {
    let store = populated();
    let metadata = MetadataStore::open(&store.tier().join("meta.redb"), medium()).unwrap();
    let last = metadata.read().unwrap().extents(F, 2..3).unwrap()[0].address_of(2);
    drop(metadata);
    let arena =
        std::fs::OpenOptions::new().write(true).open(store.tier().join("arenas/arena-000000")).unwrap();
    arena.write_all_at(b"remains", last.0 + 3000).unwrap();
    let report = check(&store.tier(), Mode::Repair).unwrap();
    assert_eq!(problems(&report), [Problem::Tail(F)]);
    assert!(check(&store.tier(), Mode::Report).unwrap().is_clean());
}
