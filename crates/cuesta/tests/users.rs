//! Programs of another user than the store's, started by that user.

use crate::common::{Ended, Stopped, TestFolder};
use cuesta_format::InodeNumber;
use cuesta_format::geometry::{SOCKET_FILE, USERS_FOLDER, USERS_SOCKET_FILE};
use cuesta_format::wire::{Question, Request, Response};
use cuesta_sharedfs::server::frames::Frames;
use std::fs::{Permissions, set_permissions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::time::Duration;

const NOBODY: u32 = 65534;

/// A store in a folder with this mode for others. None where the test cannot become another user.
fn place_for_others(mode: u32) -> Option<TestFolder> {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root becomes somebody else");
        return None;
    }
    let place = TestFolder::with_store();
    set_permissions(place.path(""), Permissions::from_mode(0o755)).unwrap();
    set_permissions(place.path("store"), Permissions::from_mode(mode)).unwrap();
    Some(place)
}

fn as_nobody(place: &TestFolder, script: &str) -> Ended {
    let mut command = place.command(&["run", "--store", "store", "--", "/bin/sh", "-c", script]);
    Ended(command.uid(NOBODY).gid(NOBODY).output().unwrap())
}

#[test]
fn a_store_that_others_may_reach_serves_them_while_its_user_serves_it() {
    let Some(place) = place_for_others(0o700) else { return };
    let made = place.cuesta(&[
        "run",
        "--store",
        "store",
        "--",
        "sh",
        "-c",
        "umask 077; echo s > /cuesta/secret; mkdir -m 777 /cuesta/all",
    ]);
    assert_eq!(made.status(), 0, "{}", made.errors());
    as_nobody(&place, "true").refused(125, &["store", "another user"]);

    set_permissions(place.path("store"), Permissions::from_mode(0o711)).unwrap();
    let script = "id -u; cat /cuesta/secret; echo mine > /cuesta/all/mine && stat -c '%u %a' /cuesta/all/mine; ls /cuesta";
    let served = as_nobody(&place, script);
    assert_eq!(served.text(), "65534\n65534 644\nall\nsecret\n", "{}", served.errors());
    assert_eq!(served.errors(), "cat: /cuesta/secret: Permission denied\n");

    assert_eq!(place.cuesta(&["stop", "store"]).status(), 0);
    as_nobody(&place, "true").refused(125, &["store", "another user", "not served"]);
}

fn users_socket(place: &TestFolder) -> PathBuf {
    place.path("store").join(USERS_FOLDER).join(USERS_SOCKET_FILE)
}

/// Whether a process waits for a time to pass.
fn sleeps(process: &Child) -> bool {
    let call = std::fs::read_to_string(format!("/proc/{}/syscall", process.id())).unwrap_or_default();
    let number = call.split(' ').next().and_then(|number| number.parse().ok());
    [libc::SYS_nanosleep, libc::SYS_clock_nanosleep].map(Some).contains(&number)
}

#[test]
fn clients_after_a_killed_daemon_are_served_by_the_next_one() {
    let Some(place) = place_for_others(0o711) else { return };
    assert_eq!(place.cuesta(&["run", "--store", "store", "--", "true"]).status(), 0);
    place.kill_daemon();
    while UnixStream::connect(users_socket(&place)).is_ok() {}
    let mut command = place.command(&["run", "--store", "store", "--", "ls", "-d", "/cuesta"]);
    command.uid(NOBODY).gid(NOBODY).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut early = command.spawn().unwrap();
    while !sleeps(&early) && early.try_wait().unwrap().is_none() {}
    assert_eq!(place.cuesta(&["run", "--store", "store", "--", "true"]).status(), 0);
    let served = Ended(early.wait_with_output().unwrap());
    assert_eq!((served.text(), served.errors()), ("/cuesta\n".to_owned(), String::new()));
}

/// Its user may have others come as soon as the store answers.
#[test]
fn a_store_that_answers_its_user_answers_others() {
    let Some(place) = place_for_others(0o711) else { return };
    let question = Question { processor: None, request: &Request::Statfs { tree: InodeNumber::NONE } };
    for daemon in 0..20 {
        let mut serving = place.command(&["serve", "store"]).stderr(Stdio::null()).spawn().unwrap();
        let answering = loop {
            let Ok(socket) = UnixStream::connect(place.path("store").join(SOCKET_FILE)) else { continue };
            let mut frames = Frames::new(OwnedFd::from(socket));
            if frames.send(&question, &[]).is_ok() && frames.receive::<Response>().is_ok() {
                break frames;
            }
        };
        let found = UnixStream::connect(users_socket(&place));
        assert!(found.is_ok(), "daemon {daemon}: {found:?}");
        drop(answering);
        assert_eq!(place.cuesta(&["stop", "store"]).status(), 0);
        assert!(serving.wait().unwrap().success());
    }
}

/// Others cannot bind a name of the store, nor reach one: they are told so, and no name stays.
#[test]
fn sockets_and_pipes_of_a_store_say_that_they_are_its_users() {
    let Some(place) = place_for_others(0o711) else { return };
    let script = "import errno, os, socket
def refused(call, *arguments):
    try: call(*arguments)
    except OSError as error: print(errno.errorcode[error.errno], end=' ')
    else: print('done', end=' ')
before = os.stat('/cuesta/all').st_mtime_ns
with socket.socket(socket.AF_UNIX) as one:
    refused(one.bind, '/cuesta/all/socket')
    # Nobody sees a name come and go.
    assert os.stat('/cuesta/all').st_mtime_ns == before
    refused(one.connect, '/cuesta/all/there')
    refused(one.bind, '/cuesta/out/socket')
os.mkfifo('/cuesta/all/pipe')
refused(os.open, '/cuesta/all/pipe', os.O_RDONLY | os.O_NONBLOCK)
print(sorted(os.listdir('/cuesta/all')))";
    let out = place.path("out");
    std::fs::create_dir(&out).unwrap();
    set_permissions(&out, Permissions::from_mode(0o777)).unwrap();
    let bound = "import os, socket, sys
os.mkdir('/cuesta/all')
os.symlink(sys.argv[1], '/cuesta/out')
socket.socket(socket.AF_UNIX).bind('/cuesta/all/there')
os.chmod('/cuesta/all', 0o777); os.chmod('/cuesta/all/there', 0o777)";
    let made =
        place.cuesta(&["run", "--store", "store", "--", "python3", "-c", bound, out.to_str().unwrap()]);
    assert_eq!(made.status(), 0, "{}", made.errors());
    let served = as_nobody(&place, &format!("python3 -c \"{script}\""));
    assert_eq!(served.text(), "ENOTSUP ENOTSUP done ENOTSUP ['pipe', 'there']\n", "{}", served.errors());
}

/// Locks a file, and goes when it is told to.
const HOLDER: &str = "
import fcntl
file = open('/cuesta/locked', 'r+')
fcntl.flock(file, fcntl.LOCK_EX)
print('has it', flush=True)
input()
";

/// Tries to lock it when it is told to.
const TAKER: &str = "
import fcntl
file = open('/cuesta/locked', 'r+')
print('ready', flush=True)
input()
try:
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    print('had', flush=True)
except OSError as error:
    print(error.strerror, flush=True)
";

/// The daemon closes a file when it sees that no process has it any more; its locks must seem gone as soon as its process is.
#[test]
fn a_lock_of_another_user_s_program_ends_with_it_however_late_the_daemon_is() {
    let Some(place) = place_for_others(0o711) else { return };
    let made = ["run", "--store", "store", "--", "sh", "-c", "umask 0; echo > /cuesta/locked"];
    assert_eq!(place.cuesta(&made).status(), 0);
    for taker_user in [0, NOBODY] {
        let start = |script: &str, user: u32| {
            let mut command = place.command(&["run", "--store", "store", "--", "python3", "-c", script]);
            command.uid(user).gid(user).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut started = command.spawn().unwrap();
            let lines = BufReader::new(started.stdout.take().unwrap()).lines();
            (started, lines)
        };
        let (mut holder, mut held) = start(HOLDER, NOBODY);
        assert_eq!(held.next().unwrap().unwrap(), "has it");
        let (mut taker, mut told) = start(TAKER, taker_user);
        assert_eq!(told.next().unwrap().unwrap(), "ready");
        let daemon = place.daemon();
        let stopped = Stopped::new(&daemon);
        holder.kill().unwrap();
        holder.wait().unwrap();
        taker.stdin.take().unwrap().write_all(b"\n").unwrap();
        let (said, heard) = mpsc::channel();
        let listening = std::thread::spawn(move || said.send(told.next()));
        // A thread that does not ask the daemon answers meanwhile.
        let early = heard.recv_timeout(Duration::from_millis(300));
        drop(stopped);
        let answer = early.or_else(|_| heard.recv()).unwrap().expect("it says something").unwrap();
        assert_eq!(answer, "had", "asked by user {taker_user}");
        listening.join().unwrap().unwrap();
        assert!(taker.wait().unwrap().success());
    }
}

/// Has files open in every way, one without a name, and a child that shares an offset; asks for more between daemons.
const KEEPER: &str = r#"
import errno, os, subprocess, sys
os.chdir('/cuesta/all/here')
written = open('written', 'w+b', buffering=0)
appended = os.open('appended', os.O_CREAT | os.O_RDWR | os.O_APPEND)
moved = os.open('moved', os.O_CREAT | os.O_RDWR)
secret = os.open('secret', os.O_CREAT | os.O_RDWR, 0)
gone = os.open('gone', os.O_CREAT | os.O_RDWR)
os.unlink('gone')
os.rename('moved', '../elsewhere')
child = subprocess.Popen(['sh', '-c', 'while read line; do echo child $line; done'], stdin=subprocess.PIPE, stdout=written)
count = 0
while True:
    for _ in range(50):
        written.write(b'%d\n' % count)
        os.pwrite(moved, b'%04d' % count, 4 * count)
        assert os.pread(moved, 4, 4 * count) == b'%04d' % count
        count += 1
    child.stdin.write(b'%d\n' % count)
    child.stdin.flush()
    print(count, flush=True)
    if not sys.stdin.readline():
        break
    while written.tell() != os.stat('written').st_size or b'child %d\n' % count not in os.pread(written.fileno(), 100000, 0):
        pass
    os.write(appended, b'%d\n' % count)
    os.write(secret, b'%d\n' % count)
    open('new-%d' % count, 'w').close()
    try:
        os.write(gone, b'content')
        print('kept', flush=True)
    except OSError as error:
        print(errno.errorcode[error.errno], flush=True)
child.stdin.close()
child.wait()
lines = os.pread(written.fileno(), 100000, 0).split(b'\n')
assert [line for line in lines if line[:1].isdigit()] == [b'%d' % line for line in range(count)], lines
for file in appended, secret:
    assert os.pread(file, 1000, 0).split() == [b'%d' % line for line in range(50, count, 50)]
os.lseek(moved, 0, 0)
assert os.read(moved, 10000) == b''.join(b'%04d' % line for line in range(count))
assert sorted(os.listdir('.')) == sorted(['written', 'appended', 'secret'] + ['new-%d' % done for done in range(50, count, 50)])
print('whole', flush=True)
"#;

#[test]
fn a_program_of_another_user_goes_on_when_the_daemon_is_killed_or_replaced() {
    let Some(place) = place_for_others(0o711) else { return };
    let make = ["run", "--store", "store", "--", "mkdir", "-m", "777", "/cuesta/all", "/cuesta/all/here"];
    assert_eq!(place.cuesta(&make).status(), 0);
    let mut command = place.command(&["run", "--store", "store", "--", "python3", "-c", KEEPER]);
    command.uid(NOBODY).gid(NOBODY).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut keeper = command.spawn().unwrap();
    let (mut input, output) = (keeper.stdin.take().unwrap(), keeper.stdout.take().unwrap());
    let mut lines = BufReader::new(output).lines();
    for round in 1..=4 {
        assert_eq!(lines.next().expect("it says something").unwrap(), (50 * round).to_string());
        if round % 2 == 1 {
            place.kill_daemon();
        } else {
            assert_eq!(place.cuesta(&["stop", "store"]).status(), 0);
        }
        let started = place.cuesta(&["run", "--store", "store", "--", "true"]);
        assert_eq!(started.status(), 0, "{}", started.errors());
        input.write_all(b"\n").unwrap();
        let nameless = lines.next().expect("it says something").unwrap();
        assert!(["EIO", "kept"].contains(&&*nameless), "what has no name may be gone: {nameless}");
    }
    drop(input);
    let said: Vec<String> = lines.map(Result::unwrap).collect();
    assert_eq!(said, ["250", "whole"]);
    assert!(keeper.wait().unwrap().success());
}

/// What `cuesta quota --json` says of a user.
fn quota(place: &TestFolder, user: &str) -> serde_json::Value {
    let shown = place.cuesta(&["quota", "store", "--json", "--user", user]);
    assert_eq!(shown.status(), 0, "{}", shown.errors());
    serde_json::from_str::<serde_json::Value>(&shown.text()).unwrap()["users"][0].clone()
}

/// Whether this process has CAP_SYS_RESOURCE.
fn passes_quotas() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap().trim();
    u64::from_str_radix(effective, 16).unwrap() & 1 << 24 != 0
}

#[test]
fn a_user_owns_no_more_than_the_quota() {
    let Some(place) = place_for_others(0o711) else { return };
    let made = place.cuesta(&["run", "--store", "store", "--", "mkdir", "-m", "777", "/cuesta/all"]);
    assert_eq!(made.status(), 0, "{}", made.errors());
    let set = ["quota", "store", "--user", "nobody", "--bytes", "1M", "--inodes", "20"];
    let shown = place.cuesta(&set);
    assert_eq!(shown.status(), 0, "{}", shown.errors());
    assert!(shown.text().contains("nobody") && shown.text().contains("1.0 MiB"), "{}", shown.text());

    let script = "cd /cuesta/all; dd if=/dev/zero of=large bs=4k count=300; for i in $(seq 30); do touch f$i; done; ls | wc -l";
    let ended = as_nobody(&place, script);
    assert_eq!(ended.text(), "20\n", "{}", ended.errors());
    let errors = ended.errors();
    assert!(
        errors.contains("'large': Disk quota exceeded") && errors.contains("256+0 records out"),
        "{errors}"
    );
    let now = quota(&place, "nobody");
    assert_eq!((&now["bytes"], &now["bytes_limit"]), (&(1 << 20).into(), &(1 << 20).into()), "{now}");
    assert_eq!(
        (&now["inodes"], &now["inodes_limit"], &now["name"]),
        (&20.into(), &20.into(), &"nobody".into())
    );

    // Root passes limits, unless it is a container's; what belongs to root is another matter.
    let passes = "touch /cuesta/all/roots; dd if=/dev/zero of=/cuesta/all/large bs=4k seek=256 count=10";
    let passed = place.cuesta(&["run", "--store", "store", "--", "sh", "-c", passes]);
    assert_eq!(passed.status(), if passes_quotas() { 0 } else { 1 }, "{}", passed.errors());
    assert_eq!(quota(&place, "root")["bytes_limit"], serde_json::Value::Null);
    place.kill_daemon();
    let freed = as_nobody(&place, "exit 3");
    assert_ne!(freed.status(), 0, "nobody serves it");
    assert_eq!(place.cuesta(&["run", "--store", "store", "--", "true"]).status(), 0);
    let again = as_nobody(
        &place,
        "cd /cuesta/all; rm large f1 f2; dd if=/dev/zero of=next bs=4k count=300; mkdir d && mkdir e",
    );
    assert!(again.errors().contains("256+0 records out"), "{}", again.errors());
    assert!(again.errors().contains("Disk quota exceeded"), "{}", again.errors());
    assert_eq!(place.cuesta(&["quota", "store", "--user", "nobody", "--no-limits"]).status(), 0);
    assert_eq!(quota(&place, "nobody")["bytes_limit"], serde_json::Value::Null);
    let free = as_nobody(&place, "dd if=/dev/zero of=/cuesta/all/free bs=4k count=300");
    assert_eq!(free.status(), 0, "{}", free.errors());

    place
        .cuesta(&["quota", "store", "--user", "no such user", "--bytes", "1M"])
        .refused(2, &["no such user"]);
    assert_eq!(place.cuesta(&["quota", "store", "--bytes", "1M"]).status(), 2, "of whom?");
    assert_eq!(place.cuesta(&["stop", "store"]).status(), 0);
    let checked = place.cuesta(&["fsck", "store"]);
    assert_eq!(checked.status(), 0, "{}", checked.text());
}

/// Totals of a directory with a quota are told who can reach it, as of a file system; and allocating ends where writing would.
#[test]
fn a_quotas_totals_are_for_processes_that_reach_it() {
    let Some(place) = place_for_others(0o711) else { return };
    let script =
        "mkdir -m 777 /cuesta/all /cuesta/all/p; mkdir -m 700 /cuesta/closed; mkdir -m 777 /cuesta/closed/p";
    let made = place.cuesta(&["run", "--store", "store", "--", "sh", "-c", script]);
    assert_eq!(made.status(), 0, "{}", made.errors());
    for (whose, name, size) in
        [("--directory", "all/p", "1M"), ("--directory", "closed/p", "1M"), ("--user", "nobody", "2M")]
    {
        assert_eq!(place.cuesta(&["quota", "store", whose, name, "--bytes", size]).status(), 0);
    }
    let totals = as_nobody(
        &place,
        "cd /cuesta/all; dd if=/dev/zero of=p/f bs=4k count=100; stat -f -c '%b %a' p p/f; python3 -c 'import os; print(os.fstatvfs(3).f_blocks)' 3<p; stat -f ../closed/p",
    );
    assert_eq!(totals.text(), "256 156\n256 156\n256\n", "{}", totals.errors());
    assert!(totals.errors().contains("'../closed/p': Permission denied"), "{}", totals.errors());
    let allocated = as_nobody(
        &place,
        "cd /cuesta/all; fallocate -l 700K p/g; fallocate -n -l 700K p/g; stat -c %s p/g; fallocate -l 1600K g && stat -c %s g; \
         fallocate -l 1700K h; stat -c %s h",
    );
    assert_eq!(allocated.text(), "0\n1638400\n0\n", "{}", allocated.errors());
    let refused: Vec<_> =
        allocated.errors().lines().map(|line| line.rsplit(": ").next().unwrap().to_owned()).collect();
    let (full, over) = ("No space left on device", "Disk quota exceeded");
    assert_eq!(refused, [full, full, over], "{}", allocated.errors());
    assert_eq!(place.cuesta(&["stop", "store"]).status(), 0);
}
