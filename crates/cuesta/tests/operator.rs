//! What an operator meets on an ordinary day: one clear line, the right exit status, and what to do.

use crate::common::mounted::Mounted;
use crate::common::{Ended, TestFolder, can_mount};
use std::process::Command;

fn json(ended: &Ended) -> serde_json::Value {
    serde_json::from_str(&ended.text()).unwrap_or_else(|error| panic!("{error}: {:?}", ended.text()))
}

#[test]
fn mkfs_says_how_much_room_is_needed() {
    if !can_mount() {
        return;
    }
    let place = TestFolder::new();
    let script = "mount -t tmpfs -o size=64m tmpfs /dev/shm && exec \"$@\"";
    let mkfs = place.command(&["mkfs", "/tmp/cuesta-test-no-room", "--medium", "memory"]);
    // The program lies in /dev/shm, which the small one hides.
    let own = tempfile::tempdir().unwrap();
    let program = own.path().join("cuesta");
    std::fs::copy(mkfs.get_program(), &program).unwrap();
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, "sh"]).arg(program).args(mkfs.get_args());
    Ended(command.output().unwrap())
        .refused(1, &["/dev/shm", "room for 64.0 MiB", "--shm-size", "--nvm-path"]);
}

#[test]
fn mkfs_refuses_a_tier_of_nothing_and_a_device_that_is_not_named() {
    let place = TestFolder::new();
    let zero = ["mkfs", "new", "--medium", "memory", "--nvm", "0"];
    place.cuesta(&zero).refused(2, &["--nvm 0", "1.0 MiB at least"]);
    let nameless = ["mkfs", "new", "--medium", "memory", "--overwrite-device"];
    place.cuesta(&nameless).refused(2, &["--overwrite-device", "--nvm-path"]);
    assert!(!place.path("new").exists());
}

#[test]
fn a_level_of_the_log_that_does_not_exist_is_named() {
    let place = TestFolder::with_store();
    let served = place.command(&["serve", "store"]).env("CUESTA_LOG", "loud").output().unwrap();
    Ended(served).refused(2, &["CUESTA_LOG=loud", "debug"]);
    // A daemon in the background serves all the same, and says so in its log.
    let run = place.command(&["run", "--store", "store", "--", "true"]).env("CUESTA_LOG", "loud").output();
    assert_eq!(Ended(run.unwrap()).status(), 0);
    let log = std::fs::read_to_string(place.path("store/sharedfs.log")).unwrap();
    assert!(log.contains("CUESTA_LOG=loud"), "{log}");
}

#[test]
fn a_soft_limit_above_the_limit_is_refused() {
    let place = TestFolder::with_store();
    let quota = |arguments: &[&str]| place.cuesta(&[&["quota", "store", "--user", "7"], arguments].concat());
    quota(&["--bytes", "2M", "--soft-bytes", "3M"])
        .refused(2, &["soft limit of 3.0 MiB", "limit of 2.0 MiB"]);
    quota(&["--inodes", "5", "--soft-inodes", "6"]).refused(2, &["soft limit of 6 inodes", "limit of 5"]);
    assert_eq!(quota(&["--soft-bytes", "3M"]).status(), 0);
    quota(&["--bytes", "2M"]).refused(2, &["soft limit of 3.0 MiB"]);
    assert_eq!(quota(&["--bytes", "3M"]).status(), 0);
}

#[test]
fn no_store_appears_where_programs_need_the_kernel() {
    let place = TestFolder::with_store();
    for at in ["/proc", "/proc/self", "/sys/kernel", "/dev"] {
        place.cuesta(&["run", "--store", "store", "--at", at, "--", "true"]).refused(125, &["--at", "/data"]);
    }
}

#[test]
fn errors_are_json_where_json_was_asked_for() {
    let place = TestFolder::with_store();
    for (arguments, status, words) in [
        (&["status", "--json", "store"][..], 3, "no daemon serves"),
        (&["status", "nowhere", "--json"], 1, "no such store"),
        (&["fsck", "--json", "nowhere"], 8, "no such store"),
        (&["quota", "--json", "store", "--user", "no-such-user-here"], 2, "no such user"),
        (&["status", "--json"], 2, "required"),
    ] {
        let ended = place.cuesta(arguments);
        let told = json(&ended);
        assert_eq!((ended.status(), &told["exit_status"]), (status, &status.into()), "{arguments:?}");
        assert!(told["error"].as_str().unwrap().contains(words), "{told}");
        assert_eq!(ended.errors(), "");
    }
    // Arguments behind the program are the program's.
    let run = place.cuesta(&["run", "--store", "nowhere", "--", "true", "--json"]);
    run.refused(125, &["no such store"]);
}

#[test]
fn paths_may_have_spaces() {
    let place = TestFolder::new();
    let made = place.cuesta(&["mkfs", "a store", "--medium", "memory", "--nvm", "8M"]);
    assert!(made.text().contains("cuesta run --store 'a store' -- bash"), "{}", made.text());
    let at = place.path("a place").display().to_string();
    let script = "echo x >\"$1/a file\"; cat \"$1/a file\"";
    let run = place.cuesta(&["run", "--store", "a store", "--at", &at, "--", "sh", "-c", script, "sh", &at]);
    assert_eq!((run.status(), run.text().as_str()), (0, "x\n"), "{}", run.errors());
    if can_mount() {
        std::fs::create_dir(place.path("a place")).unwrap();
        assert_eq!(place.cuesta(&["mount", "a store", "a place"]).status(), 0);
        assert_eq!(std::fs::read_to_string(place.path("a place/a file")).unwrap(), "x\n");
        let stopped = place.cuesta(&["stop", "a store"]);
        assert!(stopped.errors().contains(&format!("cuesta unmount '{at}'")), "{}", stopped.errors());
        assert_eq!(place.cuesta(&["unmount", "a place"]).status(), 0);
    }
    let stopped = place.cuesta(&["stop", "a store"]);
    assert_eq!((stopped.status(), stopped.errors().as_str()), (0, ""));
    assert_eq!(place.cuesta(&["fsck", "a store"]).status(), 0);
}

#[test]
fn files_are_named_by_the_path_of_the_mount() {
    let Some(mounted) = Mounted::new() else { return };
    std::fs::create_dir(mounted.path("d")).unwrap();
    std::fs::write(mounted.path("d/f"), "x").unwrap();
    let (folder, file) = (mounted.path("d").display().to_string(), mounted.path("d/f").display().to_string());
    for arguments in [
        &["explain", "--store", "store", &file][..],
        &["explain", &file],
        &["explain", "--store", "store", "/cuesta/d/f"],
        &["explain", "--store", "store", "d/f"],
    ] {
        let ended = mounted.place.cuesta(arguments);
        assert!(ended.text().contains("1 B (1 bytes)"), "{arguments:?}: {}", ended.errors());
    }
    // In the mount, relative paths are those of the current directory.
    let here = mounted.place.command(&["explain", "f"]).current_dir(mounted.path("d")).output().unwrap();
    assert!(Ended(here).text().contains("1 B (1 bytes)"));
    let limited = mounted.place.cuesta(&["quota", "store", "--directory", &folder, "--bytes", "10M"]);
    assert!(limited.text().contains(&folder), "{}{}", limited.text(), limited.errors());
    mounted.place.cuesta(&["explain", "--store", "store", "/etc/passwd"]).refused(2, &["/cuesta", "--at"]);
}
