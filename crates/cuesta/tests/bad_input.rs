//! What users get wrong, and what happens to stores: one clear line and the documented exit status.

use crate::common::{Ended, TestFolder};
use std::io::{BufRead, BufReader};
use std::process::Stdio;

#[test]
fn a_missing_store_is_named() {
    let place = TestFolder::new();
    for command in ["serve", "stop", "status", "trace"] {
        place.cuesta(&[command, "nowhere"]).refused(1, &["nowhere", "no such store", "cuesta mkfs"]);
    }
    place.cuesta(&["fsck", "nowhere"]).refused(8, &["nowhere", "no such store"]);
    place.cuesta(&["run", "--store", "nowhere", "--", "true"]).refused(125, &["nowhere", "no such store"]);
    if cuesta_fuse::mounts().unwrap().is_empty() {
        place.cuesta(&["run", "--", "true"]).refused(125, &["--store", "CUESTA_STORE"]);
    } else {
        println!("skipped: run without a store, where some are mounted");
    }
}

#[test]
fn a_path_that_is_no_store_is_named() {
    let place = TestFolder::new();
    std::fs::create_dir(place.path("folder")).unwrap();
    std::fs::write(place.path("file"), "").unwrap();
    for path in ["folder", "file"] {
        place.cuesta(&["serve", path]).refused(1, &[path, "no Cuesta store"]);
        place.cuesta(&["fsck", path]).refused(8, &[path, "no Cuesta store"]);
    }
}

#[test]
fn mkfs_overwrites_nothing() {
    let place = TestFolder::with_store();
    let again: &[&str] = &["mkfs", "store", "--medium", "memory", "--nvm", "8M"];
    place.cuesta(again).refused(1, &["store", "not empty"]);
    std::fs::write(place.path("file"), "precious").unwrap();
    place.cuesta(&["mkfs", "file", "--medium", "memory"]).refused(1, &["file", "no directory"]);
    assert_eq!(std::fs::read(place.path("file")).unwrap(), b"precious");
    place
        .cuesta(&["mkfs", "new", "--medium", "memory", "--nvm-path", "store/nvm"])
        .refused(1, &["store/nvm", "not empty"]);
    assert!(!place.path("new").exists());
    assert_eq!(place.cuesta(&["fsck", "store"]).status(), 0);
}

#[test]
fn mkfs_says_what_to_do_with_a_disk() {
    use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
    let place = TestFolder::new();
    let (disk, device) = (place.path("disk"), makedev(7, 0));
    if mknodat(CWD, &disk, FileType::BlockDevice, Mode::RUSR, device).is_err() {
        println!("skipped: only root makes devices");
        return;
    }
    place
        .cuesta(&["mkfs", "disk"])
        .refused(1, &["disk", "is a block device", "mkfs.ext4", "overwrites nothing"]);
}

#[test]
fn mkfs_names_what_cannot_be() {
    let place = TestFolder::new();
    let mkfs = |arguments: &[&str]| -> Ended { place.cuesta(&[&["mkfs", "new"], arguments].concat()) };
    let in_memory = ["--medium", "block", "--nvm-path", "/dev/shm/cuesta-no-disk"];
    mkfs(&in_memory).refused(1, &["cuesta-no-disk", "is in memory", "--medium memory"]);
    let tape = mkfs(&["--medium", "tape"]);
    assert_eq!(tape.status(), 2);
    assert!(tape.errors().contains("memory, pmem, block"), "{}", tape.errors());
    let no_dax: &[&str] = &["not on a file system mounted with DAX", "--nvm-path"];
    mkfs(&["--medium", "pmem"]).refused(1, &[no_dax, &["--medium memory"]].concat());
    let elsewhere = mkfs(&["--medium", "pmem", "--nvm-path", "/proc/nvm"]);
    elsewhere.refused(1, &[no_dax, &["/proc", "--medium block"]].concat());
    mkfs(&["--medium", "memory", "--nvm", "9999T"]).refused(1, &["has room for", "--shm-size"]);
    mkfs(&["--medium", "memory", "--nvm", "64K"]).refused(2, &["does not hold one arena"]);
    mkfs(&["--medium", "memory", "--nvm-path", "/proc/nvm"]).refused(1, &["/proc/nvm", "tmpfs"]);
    let long = "x".repeat(120);
    place.cuesta(&["mkfs", &long, "--medium", "memory"]).refused(1, &["too long for a socket"]);
    assert_eq!(mkfs(&["--nvm", "lots"]).status(), 2);
    assert!(!place.path("new").exists());
}

/// Changes one byte of both copies of the store's superblock, or changes it back.
fn flip_superblock(place: &TestFolder, at: usize) {
    for name in ["superblock", "superblock.copy"] {
        let path = place.path("store/nvm").join(name);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[at] ^= 0x10;
        std::fs::write(&path, bytes).unwrap();
    }
}

#[test]
fn another_version_is_refused_and_kept() {
    let place = TestFolder::with_store();
    flip_superblock(&place, 12);
    place.cuesta(&["serve", "store"]).refused(1, &["store", "format version"]);
    place.cuesta(&["fsck", "store"]).refused(8, &["format version"]);
    place.cuesta(&["run", "--store", "store", "--", "true"]).refused(125, &["format version"]);
    flip_superblock(&place, 12);
    assert_eq!(place.cuesta(&["fsck", "store"]).status(), 0);
}

#[test]
fn a_damaged_superblock_is_told_from_no_store() {
    let place = TestFolder::with_store();
    flip_superblock(&place, 50);
    place.cuesta(&["serve", "store"]).refused(1, &["superblock is damaged"]);
    place.cuesta(&["fsck", "store"]).refused(2, &["superblock is damaged"]);
    place.cuesta(&["run", "--store", "store", "--", "true"]).refused(125, &["superblock is damaged"]);
}

/// A damaged record of the metadata's journal keeps the store closed until an operator says that the last changes may be lost.
#[test]
fn a_damaged_journal_is_told_in_a_line_and_dropped_on_demand() {
    let place = TestFolder::with_store();
    let shell = |script: &str| place.cuesta(&["run", "--store", "store", "--", "sh", "-c", script]);
    assert_eq!(shell("echo old >/cuesta/old").status(), 0);
    // All of that is in the tree, and what comes now is in the journal.
    place.cuesta(&["stop", "store"]);
    assert_eq!(shell("mkdir /cuesta/new && kill -9 $(cat store/lock)").status(), 0);
    assert_eq!(shell("ls /cuesta && kill -9 $(cat store/lock)").text(), "new\nold\n");
    place.wait_until_unused();
    let metadata = place.path("store/nvm/meta.redb");
    let mut bytes = std::fs::read(&metadata).unwrap();
    // The name of the first entry that is written about there.
    let journal = 4096..4 << 20;
    let found =
        bytes[journal.clone()].windows(3).position(|bytes| bytes == b"new").expect("it is in the journal");
    bytes[journal.start + found] ^= 1;
    std::fs::write(&metadata, bytes).unwrap();

    let told = ["store", "journal", "record 1 ", "not what was written", "cuesta fsck --repair"];
    place.cuesta(&["serve", "store"]).refused(1, &told);
    place.cuesta(&["fsck", "store"]).refused(2, &told);
    place.cuesta(&["fsck", "--dry-run", "store"]).refused(2, &told);
    // A report that could not be written has not been told.
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let unread = place.command(&["fsck", "--repair", "store"]).stdout(full).status().unwrap();
    assert_eq!(unread.code(), Some(8));
    place.cuesta(&["serve", "store"]).refused(1, &["store", "repair", "broken off", "cuesta fsck --repair"]);
    let unread = place.cuesta(&["fsck", "--dry-run", "store"]);
    assert!(
        unread.status() == 2 && unread.text().contains("0 commits before that were kept"),
        "{}",
        unread.text()
    );
    let repaired = place.cuesta(&["fsck", "--repair", "store"]);
    assert_eq!(repaired.status(), 1, "{}", repaired.errors());
    let said = repaired.text();
    assert!(
        said.starts_with("repaired    a repair that was broken off found: the journal")
            && said.contains("0 commits before that were kept"),
        "{said}"
    );
    assert!(place.cuesta(&["fsck", "store"]).text().starts_with("clean"));
    let left = shell("ls /cuesta; cat /cuesta/old");
    assert_eq!(left.text(), "old\nold\n", "{}", left.errors());
}

#[test]
fn a_fast_tier_that_is_gone_is_named() {
    let place = TestFolder::with_store();
    std::fs::rename(place.path("store/nvm"), place.path("elsewhere")).unwrap();
    place.cuesta(&["status", "store"]).refused(1, &["store/nvm", "gone", "reboot"]);
}

#[test]
fn a_configuration_with_a_mistake_is_named() {
    let place = TestFolder::with_store();
    std::fs::write(place.path("store/cuesta.toml"), "kick_bites = 3\n").unwrap();
    let served = place.cuesta(&["serve", "store"]);
    assert_eq!(served.status(), 1);
    assert!(served.errors().contains("kick_bites"), "{}", served.errors());
}

#[test]
fn a_store_in_use_names_its_holder() {
    let place = TestFolder::with_store();
    let mut daemon = place.command(&["serve", "store"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(daemon.stderr.take().unwrap()).lines();
    assert!(log.next().unwrap().unwrap().contains("serving"));
    let who = format!("in use by process {}", daemon.id());
    place.cuesta(&["serve", "store"]).refused(1, &[&who, "cuesta stop"]);
    place.cuesta(&["fsck", "store"]).refused(8, &[&who]);
    // A second daemon that was refused has not touched the first one's socket.
    assert_eq!(place.cuesta(&["status", "store"]).status(), 0);
    assert_eq!(place.cuesta(&["stop", "store"]).status(), 0);
    assert!(daemon.wait().unwrap().success());
    place.cuesta(&["status", "store"]).refused(3, &["no daemon serves this store"]);
    assert_eq!(place.cuesta(&["stop", "store"]).text(), "no daemon was running\n");
}

#[test]
fn a_store_in_the_wrong_place_is_told_where_it_belongs() {
    let place = TestFolder::with_store();
    let belongs = ["store: this is a directory, not a program", "--store store"];
    place.cuesta(&["run", "store", "--", "true"]).refused(126, &belongs);
    place.cuesta(&["run", "./store", "true"]).refused(126, &["--store ./store"]);
    place.cuesta(&["doctor", "store", "true"]).refused(126, &belongs);
    let named = place.cuesta(&["run", "--store", "store", "--", "./store"]);
    named.refused(126, &["./store: this is a directory, not a program"]);
    for command in ["mkfs", "serve", "stop", "status", "trace"] {
        place.cuesta(&[command, "--store", "store"]).refused(2, &[&format!("cuesta {command} STORE")]);
    }
    place.cuesta(&["fsck", "--store", "store"]).refused(8, &["cuesta fsck STORE"]);
    place.cuesta(&["explain", "store", "/cuesta/file"]).refused(2, &["one path", "--store"]);
}

#[test]
fn programs_that_cannot_be_run_are_named() {
    let place = TestFolder::with_store();
    let run = |program: &str| place.cuesta(&["run", "--store", "store", "--", program]);
    run("no-such-program").refused(127, &["no-such-program", "no such program"]);
    run("/cuesta/program").refused(127, &["/cuesta/program", "No such file"]);
    std::fs::write(place.path("text"), "").unwrap();
    run("./text").refused(126, &["permission denied"]);
    place.cuesta(&["run", "--store", "store", "--at", "/", "--", "true"]).refused(125, &["--at"]);
}
