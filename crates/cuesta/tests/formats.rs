//! Stores of older minor versions of the format, as their releases left them: they open, and are of this version from then on.

use crate::common::TestFolder;
use std::path::Path;
use std::process::Command;

/// What every store in `formats` holds, as lines of a shell.
const LOOK: &str = "cd /cuesta && cat a/hello a/hard a/link && cksum a/b/numbers holes && stat -c '%a %h %s' a/hello holes && \
                    readlink a/link && find . | sort | tr '\\n' ' '";

fn golden(name: &str) -> TestFolder {
    let place = TestFolder::new();
    let image = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats").join(name);
    let unpack = "import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])";
    let unpacked =
        Command::new("python3").args(["-c", unpack]).arg(image).arg(place.path("")).status().unwrap();
    assert!(unpacked.success());
    place
}

#[test]
fn a_store_of_format_9_0_on_a_disk_opens_and_has_two_copies_from_then_on() {
    let place = golden("9.0-block.tar.xz");
    let looked = place.cuesta(&["fsck", "--dry-run", "store"]);
    assert_eq!(looked.status(), 0, "{}{}", looked.text(), looked.errors());
    assert!(!place.path("store/nvm/meta.copy").exists(), "who only looks makes nothing");
    let look = || {
        let seen = place.cuesta(&["run", "--store", "store", "--", "sh", "-c", LOOK]);
        assert_eq!(seen.status(), 0, "{}", seen.errors());
        seen.text()
    };
    let seen = look();
    let numbers: String = (1..=5000).map(|number| format!("{number}\n")).collect();
    assert!(seen.starts_with("hello\nhello\nhello\n"), "{seen}");
    assert!(
        seen.contains(&format!(" {} a/b/numbers\n", numbers.len())) && seen.contains(" 100000 holes\n"),
        "{seen}"
    );
    assert!(seen.contains("640 2 6\n") && seen.ends_with("./a/hello ./a/link ./holes "), "{seen}");
    place.cuesta(&["stop", "store"]);
    let log = std::fs::read_to_string(place.path("store/sharedfs.log")).unwrap();
    assert!(!log.contains("ERROR") && !log.contains("WARN"), "{log}");
    for copy in ["superblock.copy", "meta.copy"] {
        assert!(place.path("store/nvm").join(copy).exists(), "{copy}");
    }
    std::fs::remove_file(place.path("store/nvm/meta.redb")).unwrap();
    std::fs::remove_file(place.path("store/nvm/superblock")).unwrap();
    assert_eq!(look(), seen, "the second copies are enough");
    place.cuesta(&["stop", "store"]);
    assert_eq!(place.cuesta(&["fsck", "--content", "store"]).status(), 0);
}

/// It was left by a daemon that was killed with a program: a log of that format is recovered, and calls of other users' programs are
/// recorded in a table that the store did not have.
#[test]
fn a_store_of_format_9_1_that_was_killed_opens_and_keeps_calls_from_then_on() {
    let place = golden("9.1-block.tar.xz");
    let looked = place.cuesta(&["fsck", "--dry-run", "store"]);
    assert_eq!(looked.status(), 0, "{}{}", looked.text(), looked.errors());
    let look = |more: &str| {
        let script = format!("{LOOK}; cat late/moved; {more}");
        let seen = place.cuesta(&["run", "--store", "store", "--", "sh", "-c", &script]);
        assert_eq!(seen.status(), 0, "{}", seen.errors());
        seen.text()
    };
    let seen = look("ulimit -v 900000; mkdir /cuesta/served");
    assert!(seen.starts_with("hello\nhello\nhello\n") && seen.ends_with(" ./late/moved late\n"), "{seen}");
    place.cuesta(&["stop", "store"]);
    let log = std::fs::read_to_string(place.path("store/sharedfs.log")).unwrap();
    assert!(!log.contains("ERROR") && !log.contains("WARN"), "{log}");
    assert!(look("").contains("./served"), "SharedFS made it");
    place.cuesta(&["stop", "store"]);
    assert_eq!(place.cuesta(&["fsck", "--content", "store"]).status(), 0);
}

/// A daemon of that format was killed beside a program without a session, whose calls it had recorded.
#[test]
fn a_store_of_format_9_2_that_was_killed_opens_with_what_served_calls_made() {
    let place = golden("9.2-block.tar.xz");
    let looked = place.cuesta(&["fsck", "--dry-run", "store"]);
    assert_eq!(looked.status(), 0, "{}{}", looked.text(), looked.errors());
    let script = format!("{LOOK}; cat served/moved; echo more >served/more; sync; cat served/more");
    let seen = place.cuesta(&["run", "--store", "store", "--", "sh", "-c", &script]);
    assert_eq!(seen.status(), 0, "{}", seen.errors());
    assert!(seen.text().starts_with("hello\nhello\nhello\n"), "{}", seen.text());
    assert!(seen.text().ends_with("./served ./served/moved served\nmore\n"), "{}", seen.text());
    place.cuesta(&["stop", "store"]);
    let log = std::fs::read_to_string(place.path("store/sharedfs.log")).unwrap();
    assert!(!log.contains("ERROR") && !log.contains("WARN"), "{log}");
    assert_eq!(place.cuesta(&["fsck", "--content", "store"]).status(), 0);
}

#[test]
fn a_store_of_another_version_is_refused_by_a_line_that_says_what_to_do() {
    let place = golden("9.0-block.tar.xz");
    let path = place.path("store/nvm/superblock");
    let bytes = std::fs::read(&path).unwrap();
    for version in [8, 10] {
        let mut other = bytes.clone();
        other[12] = version;
        std::fs::write(&path, other).unwrap();
        let words = [&format!("format version {version}")[..], "copy its files out"];
        place.cuesta(&["serve", "store"]).refused(1, &words);
        place.cuesta(&["fsck", "store"]).refused(8, &words);
        place.cuesta(&["run", "--store", "store", "--", "true"]).refused(125, &words);
    }
}
