//! What other users plant, or remove, outside a store's own folder and in it.

use crate::common::{Ended, TestFolder};
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const OTHER: u32 = 65002;

/// A place with a store whose fast tier is elsewhere in shared memory, and the tier.
fn with_tier_elsewhere() -> (TestFolder, PathBuf) {
    let place = TestFolder::new();
    let tier = place.path("tier");
    let made = place.cuesta(&["mkfs", "store", "--medium", "memory", "--nvm", "8M", "--nvm-path", "tier"]);
    assert_eq!(made.status(), 0, "{}", made.errors());
    (place, tier)
}

fn stopped(place: &TestFolder) {
    let stopped = place.cuesta(&["stop", "store"]);
    assert_eq!(stopped.status(), 0, "{}", stopped.errors());
}

fn run(place: &TestFolder, script: &str) -> Ended {
    place.cuesta(&["run", "--store", "store", "--", "sh", "-c", script])
}

fn give(path: &Path, user: u32) {
    let given = Command::new("chown").arg("-R").arg(format!("{user}:{user}")).arg(path).status().unwrap();
    assert!(given.success());
}

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("skipped: only root gives files to others");
    }
    is_root
}

/// After a reboot its name is free, and all users may have seen it.
#[test]
fn a_tier_that_another_user_planted_is_neither_served_nor_removed() {
    if !is_root() {
        return;
    }
    let (place, tier) = with_tier_elsewhere();
    assert_eq!(run(&place, "echo mine >/cuesta/mine").status(), 0);
    stopped(&place);
    std::fs::remove_dir_all(&tier).unwrap();
    let words = ["store", "is gone", "does not survive a reboot"];
    run(&place, "true").refused(125, &words);
    let planted =
        place.cuesta(&["mkfs", "theirs", "--medium", "memory", "--nvm", "8M", "--nvm-path", "tier"]);
    assert_eq!(planted.status(), 0, "{}", planted.errors());
    give(&tier, OTHER);
    let of_user = format!("user {OTHER}'s: nothing of it is used");
    run(&place, "cat /cuesta/*").refused(125, &[&of_user, "does not survive a reboot"]);
    for command in ["serve", "stop", "status"] {
        place.cuesta(&[command, "store"]).refused(1, &[&of_user]);
    }
    place.cuesta(&["fsck", "store"]).refused(8, &[&of_user]);
    assert!(tier.join("superblock").exists());
}

#[test]
fn a_tier_of_the_users_own_is_not_taken_for_another_stores() {
    let (place, tier) = with_tier_elsewhere();
    std::fs::rename(&tier, place.path("aside")).unwrap();
    let other = place.cuesta(&["mkfs", "other", "--medium", "memory", "--nvm", "8M", "--nvm-path", "tier"]);
    assert_eq!(other.status(), 0, "{}", other.errors());
    run(&place, "true").refused(125, &["tier", "another store"]);
    std::fs::remove_dir_all(&tier).unwrap();
    std::fs::rename(place.path("aside"), &tier).unwrap();
    assert_eq!(run(&place, "true").status(), 0);
    stopped(&place);
    // The proof of its identity.
    std::fs::remove_file(tier.join("identity")).unwrap();
    run(&place, "true").refused(125, &["tier", "does not prove", "fsck"]);
    assert_eq!(place.cuesta(&["fsck", "store"]).status(), 0);
    assert_eq!(run(&place, "true").status(), 0);
}

#[test]
fn a_folder_that_others_may_write_is_not_served() {
    let (place, tier) = with_tier_elsewhere();
    for folder in [place.path("store"), tier.clone()] {
        let before = folder.metadata().unwrap().permissions();
        std::fs::set_permissions(&folder, Permissions::from_mode(0o1777)).unwrap();
        run(&place, "true").refused(125, &["may be written by other users", "chmod go-w"]);
        std::fs::set_permissions(&folder, before).unwrap();
    }
    std::fs::set_permissions(&tier, Permissions::from_mode(0o755)).unwrap();
    assert_eq!(run(&place, "true").status(), 0);
    assert_eq!(tier.metadata().unwrap().mode() & 0o777, 0o700);
}

/// Made without its user's help: that one may not get at the place.
fn store_of_another() -> Option<TestFolder> {
    if !is_root() {
        return None;
    }
    let place = TestFolder::with_store();
    std::fs::set_permissions(place.path(""), Permissions::from_mode(0o755)).unwrap();
    give(&place.path("store"), OTHER);
    Some(place)
}

#[test]
fn root_serves_another_users_store_as_that_user() {
    let Some(place) = store_of_another() else { return };
    let made = run(&place, "echo hello >/cuesta/a; stat -c %u /cuesta/a");
    assert_eq!((made.text(), made.errors()), ("0\n".to_owned(), String::new()));
    let daemon = PathBuf::from(format!("/proc/{}/status", place.daemon()));
    let status = std::fs::read_to_string(daemon).unwrap();
    let of = |what: &str| status.lines().find_map(|line| line.strip_prefix(what)).unwrap().to_owned();
    assert_eq!(of("Uid:"), format!("\t{OTHER}\t{OTHER}\t{OTHER}\t{OTHER}"));
    assert_eq!(of("CapEff:").trim().trim_start_matches('0'), "");
    // Its user goes on with the same daemon, and with the next one.
    let theirs = |script: &str| {
        let mut command = place.command(&["run", "--store", "store", "--", "sh", "-c", script]);
        Ended(command.uid(OTHER).gid(OTHER).output().unwrap())
    };
    let told = |ended: Ended| (ended.text(), ended.errors());
    assert_eq!(told(theirs("cat /cuesta/a")), ("hello\n".to_owned(), String::new()));
    stopped(&place);
    assert_eq!(told(theirs("cat /cuesta/a")), ("hello\n".to_owned(), String::new()));
    stopped(&place);
    assert_eq!(place.cuesta(&["fsck", "store"]).status(), 0);
    assert_eq!(place.path("store/nvm/superblock").metadata().unwrap().uid(), OTHER);
}

/// Links, pipes and second names that a store's user leaves for root to follow.
#[test]
fn root_writes_through_no_link_in_another_users_store() {
    let Some(place) = store_of_another() else { return };
    let victim = place.path("victim");
    std::fs::write(&victim, "untouched").unwrap();
    for name in [
        "sharedfs.log",
        "lock",
        "sharedfs.sock",
        "cuesta.toml",
        "identity",
        "nvm/superblock",
        "nvm/incarnation",
    ] {
        let path = place.path("store").join(name);
        let aside = path.with_extension("aside");
        let was_there = std::fs::rename(&path, &aside).is_ok();
        symlink(&victim, &path).unwrap();
        let ended = run(&place, "true");
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "untouched", "{name}");
        assert_eq!(victim.metadata().unwrap().uid(), 0, "{name}");
        // The daemon makes a socket anew, and restores a file from its second copy; it refuses the rest.
        let is_replaced = matches!(name, "sharedfs.sock" | "nvm/superblock");
        assert!(ended.status() == 125 || is_replaced, "{name}: {}", ended.errors());
        let _ = place.cuesta(&["stop", "store"]);
        let _ = std::fs::remove_file(&path);
        if was_there {
            std::fs::rename(&aside, &path).unwrap();
        }
    }
    std::fs::hard_link(&victim, place.path("store/sharedfs.log.new")).unwrap();
    std::fs::rename(place.path("store/sharedfs.log.new"), place.path("store/sharedfs.log")).unwrap();
    run(&place, "true").refused(125, &["sharedfs.log", "remove it"]);
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "untouched");
}

/// `rm -rf` of a store frees its memory, and its daemon ends.
#[test]
fn a_removed_store_leaves_neither_memory_nor_a_daemon() {
    let (place, tier) = with_tier_elsewhere();
    assert_eq!(run(&place, "echo hello >/cuesta/a").status(), 0);
    let daemon = place.daemon();
    std::fs::remove_dir_all(place.path("store")).unwrap();
    wait_until("the daemon ends", || has_ended(&daemon));
    assert!(!tier.exists(), "{}", tier.display());
}

/// It may not have been waited for yet by the process that has orphans for children.
fn has_ended(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_none_or(|(_, rest)| rest.starts_with(" Z") || rest.starts_with(" X"))
}

#[track_caller]
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let began = std::time::Instant::now();
    while !is_so() {
        assert!(began.elapsed().as_secs() < 60, "{what}: not within a minute");
        std::thread::park_timeout(std::time::Duration::from_millis(10));
    }
}

#[test]
fn a_removed_lock_file_and_socket_come_back_and_let_no_second_daemon_in() {
    let place = TestFolder::with_store();
    assert_eq!(run(&place, "echo one >/cuesta/a").status(), 0);
    let daemon = place.daemon();
    let (lock, socket) = (place.path("store/lock"), place.path("store/sharedfs.sock"));
    for name in [&lock, &socket, &place.path("store/users/sock")] {
        std::fs::remove_file(name).unwrap();
    }
    place.cuesta(&["serve", "store"]).refused(1, &["store in use by process", &daemon]);
    // A process that asks meanwhile waits for it.
    assert_eq!(place.daemon(), daemon);
    wait_until("they are put back", || lock.exists() && place.path("store/users/sock").exists());
    assert_eq!(std::fs::read_to_string(&lock).unwrap().trim(), daemon);
    assert_eq!(run(&place, "cat /cuesta/a").text(), "one\n");
    stopped(&place);
    assert!(!socket.exists() && !place.path("store/.sharedfs.sock").exists());
}

#[test]
fn a_daemon_without_a_socket_is_stopped() {
    let place = TestFolder::with_store();
    assert_eq!(run(&place, "echo one >/cuesta/a").status(), 0);
    let daemon = place.daemon();
    for name in ["sharedfs.sock", ".sharedfs.sock"] {
        std::fs::remove_file(place.path("store").join(name)).unwrap();
    }
    assert_eq!(place.cuesta(&["stop", "store"]).text(), "stopped\n");
    assert!(has_ended(&daemon));
    assert_eq!(place.cuesta(&["stop", "store"]).text(), "no daemon was running\n");
    assert_eq!(place.cuesta(&["fsck", "store"]).status(), 0);
}

#[test]
fn serve_waits_for_a_daemon_that_was_killed() {
    let place = TestFolder::with_store();
    for _ in 0..5 {
        assert_eq!(run(&place, "head -c 4M /dev/zero >/cuesta/a").status(), 0);
        place.kill_daemon();
        let mut serving =
            place.command(&["serve", "store"]).stderr(std::process::Stdio::piped()).spawn().unwrap();
        wait_until("it serves", || place.cuesta(&["status", "store"]).status() == 0);
        stopped(&place);
        assert!(serving.wait().unwrap().success());
    }
}

#[test]
fn a_store_is_destroyed_with_all_that_is_in_it() {
    let (place, tier) = with_tier_elsewhere();
    std::fs::create_dir(place.path("there")).unwrap();
    assert_eq!(run(&place, "head -c 1M /dev/zero >/cuesta/a").status(), 0);
    let daemon = place.daemon();
    place.cuesta(&["destroy", "store"]).refused(2, &["--yes"]);
    let mut user =
        place.command(&["run", "--store", "store", "--", "sh", "-c", "exec 3>/cuesta/b; echo; read x <&0"]);
    let mut user =
        user.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut said = [0];
    std::io::Read::read_exact(user.stdout.as_mut().unwrap(), &mut said).unwrap();
    place.cuesta(&["destroy", "--yes", "store"]).refused(1, &["programs use it", "--force"]);
    drop(user.stdin.take());
    user.wait().unwrap();
    wait_until("its session ends", || !place.cuesta(&["status", "store"]).text().contains("sh "));
    let destroyed = place.cuesta(&["destroy", "--yes", "--json", "store"]);
    assert_eq!(destroyed.status(), 0, "{}", destroyed.errors());
    let told: serde_json::Value = serde_json::from_str(&destroyed.text()).unwrap();
    assert_eq!(told["stopped_daemon"].to_string(), daemon);
    assert!(told["freed_bytes"].as_u64().unwrap() > 1 << 20, "{told}");
    assert!(!tier.exists() && !place.path("store").exists() && has_ended(&daemon));
    place.cuesta(&["destroy", "--yes", "store"]).refused(1, &["no such store"]);
    place.cuesta(&["destroy", "--yes", "there"]).refused(1, &["no Cuesta store"]);
}

#[test]
fn destroy_leaves_what_is_no_part_of_the_store() {
    let (place, tier) = with_tier_elsewhere();
    std::fs::write(place.path("store/notes"), "mine").unwrap();
    // After a reboot, another store lies there.
    std::fs::rename(&tier, place.path("gone")).unwrap();
    let other = place.cuesta(&["mkfs", "other", "--medium", "memory", "--nvm", "8M", "--nvm-path", "tier"]);
    assert_eq!(other.status(), 0, "{}", other.errors());
    let destroyed = place.cuesta(&["destroy", "--yes", "store"]);
    assert_eq!(destroyed.status(), 0, "{}", destroyed.errors());
    assert_eq!(std::fs::read_dir(place.path("store")).unwrap().count(), 1);
    assert!(destroyed.text().contains("notes: it is no part"), "{}", destroyed.text());
    assert!(tier.join("superblock").exists());
    // What an rm -rf without a daemon leaves.
    std::fs::remove_dir_all(place.path("other")).unwrap();
    let freed = place.cuesta(&["destroy", "--yes", "tier"]);
    assert_eq!(freed.status(), 0, "{}", freed.errors());
    assert!(!tier.exists());
}
