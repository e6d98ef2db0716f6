//! A daemon of another version than the command, and the programs, that meet it.

use crate::common::TestFolder;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// Answers everything with a frame of protocol 200, or, as daemons did before protocol 12, hangs up.
const DAEMON: &str = r"
import fcntl, socket, struct, sys
lock = open('store/lock', 'w')
fcntl.flock(lock, fcntl.LOCK_EX)
listener = socket.socket(socket.AF_UNIX)
listener.bind('store/sharedfs.sock')
listener.listen(50)
print('listening', flush=True)
while True:
    connection, _ = listener.accept()
    connection.recv(1000)
    if sys.argv[1] == 'newer':
        connection.sendall(struct.pack('<I', 200 << 24 | 1) + b'?')
    connection.close()
";

fn daemon(place: &TestFolder, age: &str) -> Child {
    let _ = std::fs::remove_file(place.path("store/sharedfs.sock"));
    let mut command = Command::new("python3");
    command.args(["-c", DAEMON, age]).current_dir(place.path("")).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "listening\n");
    child
}

#[test]
fn a_daemon_of_another_version_is_told_with_both_and_can_be_stopped() {
    let place = TestFolder::with_store();
    for (age, protocol) in [("newer", "protocol 200,"), ("older", "a protocol before 12,")] {
        let mut daemon = daemon(&place, age);
        let words = ["the daemon speaks", protocol, "and this cuesta ", "cuesta stop"];
        for arguments in [["status", "store"], ["trace", "store"]] {
            place.cuesta(&arguments).refused(1, &words);
        }
        // As JSON, where programs look for it.
        let told = place.cuesta(&["status", "--json", "store"]);
        let object: serde_json::Value = serde_json::from_str(&told.text()).unwrap();
        let error = object["error"].as_str().unwrap();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
        assert_eq!((told.status(), told.errors().as_str()), (1, ""));
        for command in ["run", "doctor"].iter().filter(|_| age == "newer") {
            let refused = place.cuesta(&[command, "--store", "store", "--", "cat", "/cuesta/f"]);
            refused.refused(125, &["the daemon speaks", protocol, "and this cuesta ", "cuesta stop"]);
        }
        assert_eq!(place.cuesta(&["stop", "store"]).text(), "stopped\n");
        daemon.wait().unwrap();
    }
    assert_eq!(
        place.cuesta(&["run", "--store", "store", "--", "sh", "-c", "echo x > /cuesta/f"]).status(),
        0
    );
}
