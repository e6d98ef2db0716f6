//! A file that is open stays until its last opener closes it, whichever sessions and processes those are.

use crate::common::{Caller, ROOT, Store, root, small};
use cuesta_format::geometry::REFERENCES_FOLDER;
use cuesta_format::wire::StoreTotals;
use cuesta_format::{Geometry, InodeNumber};
use cuesta_libfs::{Base, Client, Error, LinkSource, OpenFile, SetAttributes, Target};
use cuesta_media::lock_files::{self, Access};
use cuesta_sharedfs::SharedFs;
use libc::{O_CREAT, O_DIRECTORY, O_RDONLY, O_RDWR};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A descriptor of the inode, as in a process that has no session.
fn reference(store: &Store, inode: InodeNumber, access: Access) -> OwnedFd {
    let folder = File::open(store.tier().join(REFERENCES_FOLDER)).unwrap();
    lock_files::take(&folder, inode, access).unwrap()
}

fn again(client: &Client, file: &OpenFile) -> Arc<OpenFile> {
    client.reopen(&ROOT, file.inode(), file.flags(), file.offset()).unwrap()
}

fn totals(store: &Store) -> StoreTotals {
    store.shared.totals().unwrap()
}

/// Inodes in use besides the root once everything is digested.
fn inodes(store: &Store, callers: &[&Caller]) -> u64 {
    callers.iter().for_each(|caller| caller.client.digest().unwrap());
    totals(store).inodes - 1
}

fn two(store: &Store) -> (Caller, Caller) {
    (root(&store.attach()), root(&store.attach()))
}

/// The daemon is killed, and this is the next one.
fn killed(store: &Store) -> Arc<SharedFs> {
    std::mem::forget(Arc::clone(&store.shared));
    store.take_over()
}

static CONTENT: [u8; 50_000] = [7; 50_000];

#[test]
fn a_file_that_another_session_removes_is_read_and_written_until_it_is_closed() {
    let store = Store::new(small()).digesting();
    let (here, there) = two(&store);
    let free = totals(&store).blocks_free;
    here.write_file("f", &CONTENT).unwrap();
    let file = here.open("f", O_RDWR).unwrap();
    there.unlink("f").unwrap();
    assert_eq!(here.stat("f").err(), Some(Error::NotFound));
    assert_eq!(inodes(&store, &[&here, &there]), 1);
    assert_eq!(here.client.stat_open(&file).unwrap().record.links, 0);
    here.client.pwrite(&file, &[b"more".as_slice().into()], CONTENT.len() as i64).unwrap();
    assert_eq!(here.read_all(&file).unwrap(), [&CONTENT[..], b"more"].concat());
    let linked = here.client.link(&ROOT, LinkSource::File(&file), cuesta_libfs::Base::Root, b"g");
    assert_eq!(linked.err(), Some(Error::NotFound));
    let twice = again(&here.client, &file);
    here.client.close(file).unwrap();
    assert_eq!(here.read_all(&twice).unwrap().len(), CONTENT.len() + 4);
    assert_eq!(inodes(&store, &[&here, &there]), 1);
    here.client.close(twice).unwrap();
    assert_eq!(inodes(&store, &[&here, &there]), 0);
    here.client.detach();
    there.client.detach();
    assert_eq!(totals(&store).blocks_free, free);
}

#[test]
fn a_file_that_another_session_renames_over_stays_for_its_openers() {
    let store = Store::new(small()).digesting();
    let (here, there) = two(&store);
    here.write_file("log", b"old").unwrap();
    let file = here.open("log", O_RDWR).unwrap();
    there.write_file("new", b"new").unwrap();
    there.rename("new", "log").unwrap();
    assert_eq!(here.read_all(&file).unwrap(), b"old");
    assert_eq!(here.read_file("log").unwrap(), b"new");
    here.client.pwrite(&file, &[b"OLD".as_slice().into()], 0).unwrap();
    assert_eq!(
        (here.read_all(&file).unwrap(), there.read_file("log").unwrap()),
        (b"OLD".into(), b"new".into())
    );
    assert_eq!(inodes(&store, &[&here, &there]), 2);
    here.client.close(file).unwrap();
    assert_eq!(inodes(&store, &[&here, &there]), 1);
}

#[test]
fn all_openers_of_a_file_without_a_name_see_the_same_file() {
    let store = Store::new(small()).digesting();
    let (here, there) = two(&store);
    let third = root(&store.attach());
    third.write_file("f", b"....").unwrap();
    let (one, two) = (here.open("f", O_RDWR).unwrap(), there.open("f", O_RDWR).unwrap());
    third.unlink("f").unwrap();
    for turn in 0..20u8 {
        let (writer, written, reader, read) =
            if turn % 2 == 0 { (&here, &one, &there, &two) } else { (&there, &two, &here, &one) };
        writer.client.pwrite(written, &[[turn; 4].as_slice().into()], 2).unwrap();
        assert_eq!(reader.read_all(read).unwrap()[2..], [turn; 4]);
    }
    third.client.detach();
    here.client.close(one).unwrap();
    assert_eq!(there.read_all(&two).unwrap().len(), 6);
    there.client.close(two).unwrap();
    assert_eq!(inodes(&store, &[&here, &there]), 0);
}

#[test]
fn a_session_that_removes_and_closes_a_file_leaves_it_to_a_child() {
    let store = Store::new(small()).digesting();
    let (parent, child) = two(&store);
    let file = parent.open("tmp", O_CREAT | O_RDWR).unwrap();
    parent.client.write(&file, &[CONTENT.as_slice().into()]).unwrap();
    parent.unlink("tmp").unwrap();
    let inherited = again(&child.client, &file);
    parent.client.close(file).unwrap();
    assert_eq!(inodes(&store, &[&parent]), 1);
    assert_eq!(child.read_all(&inherited).unwrap(), CONTENT);
    parent.client.detach();
    child.client.pwrite(&inherited, &[b"x".as_slice().into()], 0).unwrap();
    assert_eq!(child.read_all(&inherited).unwrap()[..2], *b"x\x07");
    child.client.close(inherited).unwrap();
    assert_eq!(inodes(&store, &[&child]), 0);
}

#[test]
fn a_process_without_a_session_keeps_an_inode_by_its_descriptor() {
    for removed_first in [false, true] {
        let store = Store::new(small()).digesting();
        let (parent, other) = two(&store);
        let file = parent.open("f", O_CREAT | O_RDWR).unwrap();
        parent.client.write(&file, &[CONTENT.as_slice().into()]).unwrap();
        if removed_first {
            parent.unlink("f").unwrap();
        }
        let (inode, flags) = (file.inode(), file.flags());
        let descriptor = reference(&store, inode, Access::Read);
        if removed_first {
            parent.client.close(file).unwrap();
        }
        parent.client.detach();
        if !removed_first {
            other.unlink("f").unwrap();
        }
        assert_eq!(inodes(&store, &[&other]), 1);
        let child = root(&store.attach());
        let file = child.client.reopen(&ROOT, inode, flags, 0).unwrap();
        assert_eq!(child.read_all(&file).unwrap(), CONTENT);
        drop(descriptor);
        assert_eq!(inodes(&store, &[&child]), 1);
        // A second descriptor, as a grandchild has it, outlives the child.
        let descriptor = reference(&store, inode, Access::Read);
        child.client.detach();
        assert_eq!(inodes(&store, &[&other]), 1);
        drop(descriptor);
        assert_eq!(inodes(&store, &[&other]), 0);
    }
}

#[test]
fn a_session_removes_a_file_and_opens_it_then_by_a_descriptor_it_inherited() {
    let store = Store::new(small());
    let (parent, child) = two(&store);
    parent.write_file("f", b"content").unwrap();
    let file = parent.open("f", O_RDWR).unwrap();
    let (inode, flags) = (file.inode(), file.flags());
    let _descriptor = reference(&store, inode, Access::Read);
    parent.client.detach();
    // The child knows the file by its name, too, and has written to it.
    let named = child.open("f", O_RDWR).unwrap();
    child.client.pwrite(&named, &[b"C".as_slice().into()], 0).unwrap();
    child.client.close(named).unwrap();
    child.unlink("f").unwrap();
    let file = child.client.reopen(&ROOT, inode, flags, 0).unwrap();
    assert_eq!(child.client.stat_open(&file).unwrap().record.links, 0);
    assert_eq!(child.read_all(&file).unwrap(), b"Content");
    child.client.pwrite(&file, &[b"!".as_slice().into()], 7).unwrap();
    child.write_file("g", b"next").unwrap();
    child.client.digest().unwrap();
    assert_eq!(child.read_all(&file).unwrap(), b"Content!");
    // The same, if the session had the file open when it removed it, and has closed it since.
    let second = child.open("h", O_CREAT | O_RDWR).unwrap();
    child.client.write(&second, &[b"second".as_slice().into()]).unwrap();
    let inode = second.inode();
    let _descriptor = reference(&store, inode, Access::Read);
    child.unlink("h").unwrap();
    child.client.close(second).unwrap();
    let second = child.client.reopen(&ROOT, inode, flags, 0).unwrap();
    assert_eq!(child.read_all(&second).unwrap(), b"second");
}

#[test]
fn a_session_that_once_saw_a_file_does_not_keep_it() {
    let store = Store::new(small()).digesting();
    let (idle, busy) = two(&store);
    busy.write_file("f", &CONTENT).unwrap();
    assert_eq!(idle.stat("f").unwrap().size, CONTENT.len() as u64);
    assert_eq!(idle.read_file("f").unwrap(), CONTENT);
    let other = idle.open("other", O_CREAT | O_RDWR).unwrap();
    busy.unlink("f").unwrap();
    assert_eq!(inodes(&store, &[&busy]), 1);
    idle.client.close(other).unwrap();
}

#[test]
fn a_write_before_the_last_close_does_not_void_a_log() {
    let store = Store::new(small());
    let (writer, other) = two(&store);
    other.write_file("f", b"f").unwrap();
    let file = writer.open("f", O_RDWR).unwrap();
    other.unlink("f").unwrap();
    other.client.digest().unwrap();
    writer.client.pwrite(&file, &[CONTENT.as_slice().into()], 0).unwrap();
    writer.client.close(file).unwrap();
    writer.write_file("g", b"kept").unwrap();
    assert_eq!(inodes(&store, &[&other]), 1);
    assert_eq!(writer.read_file("g").unwrap(), b"kept");
    writer.client.digest().unwrap();
    assert_eq!(other.read_file("g").unwrap(), b"kept");
}

#[test]
fn a_write_to_a_file_of_an_ending_session_does_not_void_a_log() {
    let store = Store::new(small());
    let (owner, writer) = two(&store);
    for released in [true, false] {
        let file = owner.open("f", O_CREAT | O_RDWR).unwrap();
        owner.unlink("f").unwrap();
        let again = again(&writer.client, &file);
        writer.client.pwrite(&again, &[CONTENT.as_slice().into()], 0).unwrap();
        writer.client.close(again).unwrap();
        writer.write_file("g", b"kept").unwrap();
        if released {
            owner.client.close(file).unwrap();
            owner.client.digest().unwrap();
        } else {
            owner.client.detach();
        }
        writer.client.digest().unwrap();
        assert_eq!(writer.read_file("g").unwrap(), b"kept");
        assert_eq!(inodes(&store, &[&writer]), 1);
    }
}

#[test]
fn a_recovery_keeps_the_log_of_a_writer_to_a_removed_file_and_leaves_no_file_behind() {
    // Recovery may reach the session that removed the file before the one that wrote to it, or after it.
    for removed_by_first in [true, false] {
        let store = Store::new(small());
        let (first, second) = two(&store);
        let (owner, writer) = if removed_by_first { (&first, &second) } else { (&second, &first) };
        let file = owner.open("f", O_CREAT | O_RDWR).unwrap();
        owner.unlink("f").unwrap();
        let again = again(&writer.client, &file);
        writer.client.pwrite(&again, &[CONTENT.as_slice().into()], 0).unwrap();
        owner.client.close(file).unwrap();
        writer.write_file("g", b"kept").unwrap();
        let next = killed(&store);
        assert_eq!(next.totals().unwrap().inodes, 2);
        let snapshot = next.snapshot().unwrap();
        assert!(snapshot.orphans().unwrap().is_empty());
        let kept = snapshot.lookup(InodeNumber::ROOT, b"g").unwrap().expect("g survives").inode;
        assert_eq!(next.file_content(kept).unwrap(), b"kept");
    }
}

#[test]
fn a_daemon_that_takes_over_keeps_inodes_with_descriptors_in_living_processes() {
    let store = Store::new(small());
    let (owner, other) = two(&store);
    let file = owner.open("f", O_CREAT | O_RDWR).unwrap();
    owner.client.write(&file, &[CONTENT.as_slice().into()]).unwrap();
    other.unlink("f").unwrap();
    other.client.digest().unwrap();
    let descriptor = reference(&store, file.inode(), Access::Read);
    let next = killed(&store);
    assert_eq!(next.totals().unwrap().inodes, 2);
    assert_eq!(next.file_content(file.inode()).unwrap(), CONTENT);
    drop(descriptor);
    assert_eq!(next.totals().unwrap().inodes, 1);
}

#[test]
fn a_directory_removed_elsewhere_is_an_empty_one_without_a_name() {
    let store = Store::new(small()).digesting();
    let (here, there) = two(&store);
    here.mkdir("d").unwrap();
    here.write_file("d/f", b"").unwrap();
    let directory = here.open("d", O_RDONLY | O_DIRECTORY).unwrap();
    there.unlink("d/f").unwrap();
    there.rmdir("d").unwrap();
    assert_eq!(here.client.stat_open(&directory).unwrap().record.links, 0);
    let mut names = Vec::new();
    here.client
        .read_directory(&directory, &mut |item| {
            names.push(item.name.to_vec());
            true
        })
        .unwrap();
    assert!(names.iter().all(|name| name == b"." || name == b".."), "{names:?}");
    let base = cuesta_libfs::Base::Directory(&directory);
    let made = here.client.open(&ROOT, base, b"new", O_CREAT | O_RDWR, 0o644);
    assert_eq!(made.err(), Some(Error::NotFound));
    here.client.close(directory).unwrap();
    assert_eq!(inodes(&store, &[&here, &there]), 0);
}

#[test]
fn a_later_session_finds_the_directory_above_a_removed_one() {
    let store = Store::new(small()).digesting();
    let (here, there) = two(&store);
    here.mkdir("d").unwrap();
    here.mkdir("d/gone").unwrap();
    let directory = here.open("d/gone", O_RDONLY | O_DIRECTORY).unwrap();
    there.rmdir("d/gone").unwrap();
    let client = store.attach();
    let again = client.reopen(&ROOT, directory.inode(), O_RDONLY | O_DIRECTORY, 0).unwrap();
    let base = cuesta_libfs::Base::Directory(&again);
    let above = client.open(&ROOT, base, b"..", O_RDONLY | O_DIRECTORY, 0).unwrap();
    assert_eq!(above.inode(), here.open("d", O_RDONLY | O_DIRECTORY).unwrap().inode());
    there.rmdir("d").unwrap();
    let made = client.open(&ROOT, base, b"../new", O_CREAT | O_RDWR, 0o644);
    assert_eq!(made.err(), Some(Error::NotFound));
}

#[test]
fn a_file_is_read_while_it_is_removed_and_its_space_is_wanted() {
    let geometry = Geometry { nvm_bytes: 8 << 20, ..small() };
    let store = Store::new(geometry).digesting();
    let (reader, writer) = two(&store);
    let large = vec![9u8; 3 << 20];
    writer.write_file("f", &large).unwrap();
    let file = reader.open("f", O_RDONLY).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut looks = 0;
            while !done.load(Ordering::Acquire) || looks < 3 {
                assert!(reader.read_all(&file).unwrap() == large);
                looks += 1;
            }
        });
        writer.unlink("f").unwrap();
        for turn in 0..30u8 {
            writer.write_file("g", &vec![turn; 1 << 20]).unwrap();
        }
        done.store(true, Ordering::Release);
    });
    assert_eq!(writer.write_file("h", &vec![1; 5 << 20]).err(), Some(Error::NoSpace));
    reader.client.close(file).unwrap();
    writer.write_file("h", &vec![1; 5 << 20]).unwrap();
}

#[test]
fn opens_that_race_with_the_end_of_the_name_are_open_or_find_nothing() {
    let store = Store::new(small()).digesting();
    let (one, two) = two(&store);
    for turn in 0..300u32 {
        let content = turn.to_ne_bytes();
        one.write_file("f", &content).unwrap();
        let mut opened = None;
        std::thread::scope(|scope| {
            let opener = scope.spawn(|| two.open("f", O_RDWR));
            one.unlink("f").unwrap();
            opened = Some(opener.join().unwrap());
        });
        match opened.expect("it answered") {
            Ok(file) => {
                one.client.digest().unwrap();
                assert_eq!(two.read_all(&file).unwrap(), content);
                two.client.close(file).unwrap();
            }
            Err(error) => assert_eq!(error, Error::NotFound),
        }
    }
    assert_eq!(inodes(&store, &[&one, &two]), 0);
}

#[test]
fn a_file_made_without_a_name_is_named_by_another_session_and_loses_that_name() {
    let store = Store::new(small()).digesting();
    let (maker, other) = two(&store);
    let at_root = cuesta_libfs::Base::Root;
    for turn in 0..8u8 {
        let (other_closes_first, maker_looks) = (turn % 2 == 0, turn % 4 < 2);
        let file = maker.open("/", libc::O_TMPFILE | O_RDWR).unwrap();
        maker.client.write(&file, &[[turn; 100].as_slice().into()]).unwrap();
        let inherited = again(&other.client, &file);
        other.client.link(&ROOT, LinkSource::File(&inherited), at_root, b"named").unwrap();
        assert_eq!(other.read_file("named").unwrap(), [turn; 100]);
        if other_closes_first {
            other.client.close(inherited).unwrap();
            other.unlink("named").unwrap();
        } else {
            other.unlink("named").unwrap();
            other.client.close(inherited).unwrap();
        }
        if maker_looks {
            assert_eq!(maker.client.stat_open(&file).unwrap().record.links, 0);
        }
        assert_eq!(maker.read_all(&file).unwrap(), [turn; 100]);
        maker.client.close(file).unwrap();
        assert_eq!(inodes(&store, &[&maker, &other]), 0);
    }
}

#[test]
fn a_program_is_not_executed_while_anybody_has_it_open_for_writing() {
    let store = Store::new(small()).digesting();
    let (here, there) = two(&store);
    let made = here.client.open(&ROOT, Base::Root, b"program", O_CREAT | O_RDWR, 0o755).unwrap();
    here.client.close(made).unwrap();
    let program = here.open("program", O_RDONLY).unwrap();
    let inode = program.inode();
    let check = |expected: Result<(), Error>| {
        // The session does not repeat the question.
        for _ in 0..3 {
            assert_eq!(here.client.check_not_written(&program), expected);
        }
    };
    for _ in 0..3 {
        check(Ok(()));
        for writer in [&there, &here] {
            let open = writer.open("program", O_RDWR).unwrap();
            check(Err(Error::Running));
            writer.client.close(open).unwrap();
            check(Ok(()));
        }
        let inherited = there.client.reopen(&ROOT, inode, O_RDWR, 0).unwrap();
        check(Err(Error::Running));
        there.client.close(inherited).unwrap();
        check(Ok(()));
        let reader = reference(&store, inode, Access::Read);
        check(Ok(()));
        let writer = reference(&store, inode, Access::Write);
        check(Err(Error::Running));
        drop((reader, writer));
    }
}

#[test]
fn what_becomes_a_program_while_it_is_written_is_not_executed() {
    let store = Store::new(small()).digesting();
    let (here, there) = two(&store);
    here.write_file("program", b"content").unwrap();
    let open = there.open("program", O_RDWR).unwrap();
    let set = SetAttributes { mode: Some(0o755), ..SetAttributes::default() };
    here.client
        .set_attributes(&ROOT, Target::Path { base: Base::Root, path: b"program", follow: true }, set)
        .unwrap();
    let program = here.open("program", O_RDONLY).unwrap();
    for _ in 0..2 {
        assert_eq!(here.client.check_not_written(&program), Err(Error::Running));
    }
    there.client.close(open).unwrap();
    assert_eq!(here.client.check_not_written(&program), Ok(()));
}
