//! Locks outlast the daemon that served who holds them.

use crate::common::TestFolder;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};

const TAKE: &str = "
import fcntl, os, struct, sys
def take(wait):
    lock = struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 0, 0)
    fds = [os.open(f'/cuesta/{n}', os.O_RDWR | os.O_CREAT) for n in range(3)]
    said = []
    def tried(call, *arguments):
        try:
            call(*arguments)
            said.append('taken')
        except BlockingIOError:
            said.append('held')
    tried(fcntl.flock, fds[0], fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    tried(fcntl.fcntl, fds[1], fcntl.F_SETLKW if wait else fcntl.F_SETLK, lock)
    tried(fcntl.fcntl, fds[2], 38 if wait else 37, lock)
    print(*said, flush=True)
    return fds
";

fn start(place: &TestFolder, script: &str) -> (Child, BufReader<ChildStdout>) {
    let script = format!("{TAKE}{script}");
    let mut command = place.command(&["run", "--store", "store", "--", "python3", "-c", &script]);
    let mut program = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let said = BufReader::new(program.stdout.take().unwrap());
    (program, said)
}

fn line(said: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    line
}

#[test]
fn locks_outlast_a_daemon_that_is_killed() {
    let place = TestFolder::with_store();
    // Unlocked one way each: given up, and closed.
    let (mut holder, mut said) = start(
        &place,
        "fds = take(False); input(); fcntl.flock(fds[0], fcntl.LOCK_UN); input(); os.close(fds[1]); os.close(fds[2]); input()",
    );
    assert_eq!(line(&mut said), "taken taken taken\n");
    let daemon = std::fs::read_to_string(place.path("store/lock")).unwrap().trim().to_owned();
    assert!(Command::new("kill").args(["-9", &daemon]).status().unwrap().success());
    let (mut other, mut others) = start(
        &place,
        "def drop(fds):\n    for fd in fds: os.close(fd)\n\
         drop(take(False)); input(); drop(take(False)); input(); take(True)",
    );
    assert_eq!(line(&mut others), "held held held\n");
    let go_on = |program: &mut Child| program.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    go_on(&mut holder);
    // Until it has: the process that asks for the lock waits for it.
    let (mut waiter, mut waiters) = start(
        &place,
        "fd = os.open('/cuesta/0', os.O_RDWR); fcntl.flock(fd, fcntl.LOCK_EX); print('got it', flush=True)",
    );
    assert_eq!(line(&mut waiters), "got it\n");
    assert!(waiter.wait().unwrap().success());
    go_on(&mut other);
    assert_eq!(line(&mut others), "taken held held\n");
    go_on(&mut other);
    go_on(&mut holder);
    assert_eq!(line(&mut others), "taken taken taken\n");
    assert!(other.wait().unwrap().success());
    go_on(&mut holder);
    let _ = holder.wait();
}
