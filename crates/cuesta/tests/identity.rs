//! Which file a file is: device and inode numbers, by both doors and of several stores.

use crate::common::{Ended, TestFolder, can_mount, mounted::Mounted};

fn run(place: &TestFolder, store: &str, script: &str) -> Ended {
    place.cuesta(&["run", "--store", store, "--", "sh", "-c", script])
}

fn shown(ended: &Ended) -> String {
    assert_eq!((ended.status(), ended.errors()), (0, String::new()));
    ended.text()
}

#[test]
fn two_stores_never_share_a_device_number_and_each_keeps_its_own() {
    let place = TestFolder::with_store();
    let made = place.cuesta(&["mkfs", "other", "--medium", "memory", "--nvm", "8M"]);
    assert_eq!(made.status(), 0, "{}", made.errors());
    let script = "mkdir -p /cuesta/d; stat -c '%d' /cuesta /cuesta/d; stat -f -c %i /cuesta; \
                  python3 -c 'import os; s = os.fstat(os.open(\"/cuesta/d\", 0)); print(s.st_dev, os.major(s.st_dev) >= 1024)'; \
                  env -i /usr/bin/stat -c '%d' /cuesta; find /cuesta -xdev | wc -l";
    let [one, other] = ["store", "other"].map(|store| shown(&run(&place, store, script)));
    let lines: Vec<&str> = one.lines().collect();
    assert_eq!((lines[0], format!("{} True", lines[0])), (lines[1], lines[3].to_owned()), "{one}");
    assert_eq!((lines[0], lines[5]), (lines[4], "2"), "{one}");
    assert_ne!(one.lines().next(), other.lines().next());
    assert_ne!(one.lines().nth(2), other.lines().nth(2));
    assert_eq!(place.cuesta(&["stop", "store"]).status(), 0);
    assert_eq!(shown(&run(&place, "store", script)), one);
    assert_eq!(place.cuesta(&["stop", "other"]).status(), 0);
}

#[test]
fn a_file_is_the_same_file_by_both_doors() {
    let Some(mounted) = Mounted::new() else { return };
    let at = mounted.place.path("files");
    std::fs::create_dir(at.join("data")).unwrap();
    let ids = |prefix: &str| {
        format!("stat -c %d:%i {prefix} {prefix}/data; stat -c %Hd:%Ld {prefix}/data; stat -f -c %i {prefix}")
    };
    let by_mount =
        std::process::Command::new("sh").arg("-c").arg(ids(&at.display().to_string())).output().unwrap();
    let by_mount = String::from_utf8(by_mount.stdout).unwrap();
    let by_run = run(&mounted.place, "store", &ids(&at.display().to_string()));
    assert_eq!(shown(&by_run), by_mount);
    // Wherever it appears.
    let elsewhere = mounted.place.cuesta(&[
        "run",
        "--store",
        "store",
        "--at",
        "/elsewhere",
        "--",
        "sh",
        "-c",
        &ids("/elsewhere"),
    ]);
    assert_eq!(shown(&elsewhere), by_mount);
}

/// By a number that was said before the mount came.
#[test]
fn a_program_sees_one_number_for_as_long_as_it_runs() {
    if !can_mount() {
        return;
    }
    let place = TestFolder::with_store();
    std::fs::create_dir(place.path("mnt")).unwrap();
    let script =
        "stat -c %d /cuesta; bin/cuesta mount store mnt >&2; stat -c %d /cuesta; bin/cuesta unmount mnt >&2";
    let seen = shown(&run(&place, "store", script));
    let numbers: Vec<&str> = seen.lines().collect();
    assert!(numbers.len() == 2 && numbers[0] == numbers[1], "{seen}");
}
