//! A store's life: made, worked on by programs, killed, recovered, checked.

use crate::common::TestFolder;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

fn daemon_pid(place: &TestFolder) -> String {
    std::fs::read_to_string(place.path("store/lock")).unwrap().trim().to_owned()
}

fn shell(place: &TestFolder, script: &str) -> crate::common::Ended {
    place.cuesta(&["run", "--store", "store", "--", "sh", "-c", script])
}

#[test]
fn files_and_exit_status_pass_through() {
    let place = TestFolder::with_store();
    let first = shell(&place, "echo hello >/cuesta/a && mkdir /cuesta/d && mv /cuesta/a /cuesta/d/b; exit 7");
    assert_eq!(first.status(), 7, "{}", first.errors());
    assert_eq!(shell(&place, "cat /cuesta/d/b; ls /cuesta").text(), "hello\nd\n");
    assert!(!std::path::Path::new("/cuesta").exists());
    let mode = place.path("store/sharedfs.sock").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(place.cuesta(&["stop", "store"]).text(), "stopped\n");
    assert!(place.cuesta(&["fsck", "store"]).text().starts_with("clean: 3 inodes, 2 names"));
    assert_eq!(shell(&place, "cat /cuesta/d/b").text(), "hello\n");
}

/// The one that starts the daemon as well.
#[test]
fn a_program_that_waits_for_all_its_children_has_none_it_did_not_start() {
    let place = TestFolder::with_store();
    let waits = "import os; os.wait()";
    let waited = place.cuesta(&["run", "--store", "store", "--", "python3", "-c", waits]);
    assert!(waited.errors().contains("ChildProcessError"), "{}", waited.errors());
}

#[test]
fn programs_that_lie_on_the_store_run() {
    let place = TestFolder::with_store();
    assert_eq!(shell(&place, "cp /bin/echo /cuesta/say").status(), 0);
    let said = place.cuesta(&["run", "--store", "store", "--", "/cuesta/say", "hello"]);
    assert_eq!(said.text(), "hello\n", "{}", said.errors());
}

#[test]
fn what_a_killed_daemon_left_is_recovered() {
    let place = TestFolder::with_store();
    let killing = "echo safe >/cuesta/a && kill -9 $(cat store/lock) && kill -9 $$";
    let killed = shell(&place, killing);
    assert_eq!(killed.status(), -1);
    assert_eq!(shell(&place, "cat /cuesta/a").text(), "safe\n");
    place.cuesta(&["stop", "store"]);
    assert_eq!(place.cuesta(&["fsck", "--json", "store"]).status(), 0);
}

#[test]
fn programs_read_the_state_as_json() {
    let place = TestFolder::with_store();
    assert_eq!(shell(&place, "echo hello >/cuesta/a").status(), 0);
    let json = |arguments: &[&str]| -> serde_json::Value {
        let ended = place.cuesta(arguments);
        assert_eq!(ended.status(), 0, "{}", ended.errors());
        serde_json::from_str(&ended.text()).unwrap()
    };
    let status = json(&["status", "--json", "store"]);
    assert_eq!(status["medium"], "memory");
    assert!(place.cuesta(&["status", "store"]).text().contains("  medium memory: survives the death"));
    let configuration = std::fs::read_to_string(place.path("store/cuesta.toml")).unwrap();
    assert!(configuration.contains(": medium memory, fast tier in "), "{configuration}");
    assert_eq!(status["pid"].to_string(), daemon_pid(&place));
    let explained = json(&["explain", "--store", "store", "--json", "/cuesta/a"]);
    assert_eq!(explained["record"]["size"], 6);
    let trace = place.cuesta(&["trace", "store"]).text();
    let events: Vec<serde_json::Value> =
        trace.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(events.iter().any(|event| event["event"] == "attach"), "{trace}");
    place.cuesta(&["explain", "--store", "store", "/etc/passwd"]).refused(2, &["not under /cuesta"]);
    place.cuesta(&["explain", "--store", "store", "/cuesta/b"]).refused(1, &["/cuesta/b", "no such file"]);
}

#[test]
fn signals_stop_the_daemon_in_order() {
    let place = TestFolder::with_store();
    assert_eq!(shell(&place, "echo hello >/cuesta/a").status(), 0);
    let pid = daemon_pid(&place);
    assert!(Command::new("sh").args(["-c", "kill -TERM $0", &pid]).status().unwrap().success());
    // The daemon holds the lock until it has left.
    let waited = Command::new("flock").arg(place.path("store/lock")).arg("true").status().unwrap();
    assert!(waited.success());
    assert_eq!(shell(&place, "cat /cuesta/a").text(), "hello\n");
    let log = std::fs::read_to_string(place.path("store/sharedfs.log")).unwrap();
    assert!(log.contains("signal 15") && log.contains("stopped"), "{log}");
}

#[test]
fn several_starts_at_once_share_one_daemon() {
    let place = TestFolder::with_store();
    let started: Vec<_> = (0..6)
        .map(|number| {
            let script = format!("echo {number} >/cuesta/file-{number}");
            place.command(&["run", "--store", "store", "--", "sh", "-c", &script]).spawn().unwrap()
        })
        .collect();
    for mut child in started {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(shell(&place, "cat /cuesta/file-*").text(), "0\n1\n2\n3\n4\n5\n");
}

#[test]
fn a_daemon_that_does_not_understand_the_question_is_stopped_too() {
    let place = TestFolder::with_store();
    let other = "
import os, signal, socket, time
def leave(*_):
    # In its own time, which is waited for.
    time.sleep(0.5)
    os._exit(7)
listening = socket.socket(socket.AF_UNIX)
listening.bind('store/sharedfs.sock')
listening.listen()
signal.signal(signal.SIGTERM, leave)
# Nobody asks it to leave: it leaves as nobody should.
signal.alarm(60)
print('listening', flush=True)
asking = listening.accept()[0]
asking.recv(100)
asking.sendall(b'\\x01\\0\\0\\0\\x63')
signal.pause()";
    let mut daemon = Command::new("python3");
    daemon.args(["-c", other]).current_dir(place.path("")).stdout(std::process::Stdio::piped());
    let mut daemon = daemon.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(daemon.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let stopped = place.cuesta(&["stop", "store"]);
    assert_eq!(stopped.text(), "stopped\n", "{}", stopped.errors());
    let ended = daemon.try_wait().unwrap().expect("its end was waited for");
    assert_eq!(ended.code(), Some(7), "it left at SIGTERM");
}

/// A process that has no descriptors left cannot attach, and is told so at once: it waits for no daemon. It tries again with
/// each call, and leaves no session behind.
#[test]
fn attaching_that_finds_no_descriptors_fails_at_once_and_leaves_no_session() {
    let place = TestFolder::with_store();
    let program = "
import json, os, resource, subprocess, time
least, most = resource.getrlimit(resource.RLIMIT_NOFILE)
failed, began = 0, time.monotonic()
for limit in range(3, 100):
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, most))
    try:
        os.mkdir('/cuesta/d')
        break
    except OSError:
        failed += 1
seconds = time.monotonic() - began
resource.setrlimit(resource.RLIMIT_NOFILE, (least, most))
# Sessions end a moment behind their connections.
for _ in range(200):
    status = subprocess.run(['bin/cuesta', 'status', 'store', '--json'], capture_output=True, check=True).stdout
    own = [one for one in json.loads(status)['sessions'] if one['pid'] == os.getpid()]
    if len(own) == 1:
        break
print(failed > 0, seconds < 20, len(own))
";
    let ended = place.cuesta(&["run", "--store", "store", "--", "python3", "-c", program]);
    assert_eq!(ended.text(), "True True 1\n", "{}", ended.errors());
}

#[test]
fn a_daemon_has_no_open_files_of_its_starter() {
    let place = TestFolder::with_store();
    let file = place.path("file of the caller's");
    std::fs::write(&file, "").unwrap();
    let script = "exec 9<\"$1\"; \"$0\" run --store store -- true";
    let mut command = std::process::Command::new("sh");
    command.args(["-ec", script]).arg(place.path("bin/cuesta")).arg(&file).current_dir(place.path(""));
    assert!(command.status().unwrap().success());
    let open = std::fs::read_dir(format!("/proc/{}/fd", place.daemon())).unwrap();
    let open: Vec<_> = open.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok()).collect();
    assert!(!open.is_empty() && !open.contains(&file), "{open:?}");
}

#[test]
fn a_store_is_made_of_what_its_place_is() {
    let place = TestFolder::new();
    let mkfs = |arguments: &[&str]| {
        let made = place.cuesta(&[&["mkfs", "--nvm", "8M"], arguments].concat());
        assert_eq!(made.status(), 0, "{}", made.errors());
        made
    };
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let tier = memory.path().join("tier");
    let in_memory = mkfs(&["fast", "--nvm-path", tier.to_str().unwrap()]);
    assert!(in_memory.text().contains("medium memory") && in_memory.errors().contains("does NOT survive"));
    if rustix::fs::statfs(place.path("")).unwrap().f_type == libc::TMPFS_MAGIC {
        println!("skipped: no disk here");
        return;
    }
    let on_disk = mkfs(&["store"]);
    assert!(on_disk.text().contains("medium block"), "{}", on_disk.text());
    assert_eq!(on_disk.errors(), "");
    assert_eq!(shell(&place, "echo kept >/cuesta/a; sync /cuesta/a; cat /cuesta/a").text(), "kept\n");
    place.kill_daemon();
    assert_eq!(shell(&place, "cat /cuesta/a").text(), "kept\n");
}

/// Other users make it long, too: the daemon puts it aside itself, and says in the next one what it has to say.
#[test]
fn a_long_log_is_put_aside_while_the_daemon_runs() {
    use std::io::{Read as _, Write as _};
    let place = TestFolder::with_store();
    assert_eq!(shell(&place, "true").status(), 0);
    let (log, aside) = (place.path("store/sharedfs.log"), place.path("store/sharedfs.log.old"));
    let nonsense = || {
        let mut users = std::os::unix::net::UnixStream::connect(place.path("store/users/sock")).unwrap();
        users.write_all(&[255; 4]).unwrap();
        // It hangs up behind what it has to say.
        let _ = users.read(&mut [0]);
    };
    // Every time the log is long again.
    for _ in 0..2 {
        std::fs::File::options().write(true).open(&log).unwrap().set_len(9 << 20).unwrap();
        nonsense();
        let told = std::fs::read_to_string(&log).unwrap();
        assert!(told.contains("a connection is closed") && told.len() < 10_000, "{} bytes", told.len());
        assert!(std::fs::metadata(&aside).unwrap().len() >= 9 << 20);
    }
}
