//! A daemon that dies or is replaced under programs: they go on.

use crate::common::TestFolder;
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

/// Appends numbered lines, each synced, makes and renames files, and has one open that lost its name. Tells of every
/// hundredth line, and goes on when it is told to; at the end of its input it checks everything.
const WRITER: &str = r"
import os, sys
log = os.open('/cuesta/log', os.O_CREAT | os.O_RDWR | os.O_APPEND)
held = os.open('/cuesta/held', os.O_CREAT | os.O_RDWR)
os.write(held, b'secret')
os.unlink('/cuesta/held')
count = 0
while True:
    for _ in range(100):
        os.write(log, b'%08d\n' % count)
        os.fsync(log)
        count += 1
    with open('/cuesta/part', 'w') as part:
        part.write(str(count))
    os.rename('/cuesta/part', '/cuesta/%d' % count)
    print(count, flush=True)
    if not sys.stdin.readline():
        break
assert os.pread(held, 10, 0) == b'secret'
os.write(held, b' kept')
assert os.pread(held, 20, 0) == b'secret kept'
assert open('/cuesta/log').read().split() == ['%08d' % line for line in range(count)]
for done in range(100, count + 1, 100):
    assert open('/cuesta/%d' % done).read() == str(done)
assert len(os.listdir('/cuesta')) == count // 100 + 1
print('whole', flush=True)
";

/// A program that says something, and goes on when it is told to.
struct Talking {
    child: Child,
    input: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Talking {
    fn start(place: &TestFolder, source: &str) -> Talking {
        let mut command = place.command(&["run", "--store", "store", "--", "python3", "-c", source]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Talking { input: child.stdin.take(), child, lines }
    }

    fn hear(&mut self) -> String {
        self.lines.next().expect("it says something").unwrap()
    }

    fn tell_to_go_on(&mut self) {
        self.input.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    fn end(mut self) -> (Vec<String>, bool) {
        drop(self.input.take());
        let said = self.lines.map(Result::unwrap).collect();
        (said, self.child.wait().unwrap().success())
    }
}

fn start_daemon(place: &TestFolder) {
    let started = place.cuesta(&["run", "--store", "store", "--", "true"]);
    assert_eq!(started.status(), 0, "{}", started.errors());
}

#[test]
fn a_program_goes_on_when_its_daemon_is_killed_or_replaced() {
    let place = TestFolder::with_store();
    let mut writer = Talking::start(&place, WRITER);
    for round in 0..6 {
        assert_eq!(writer.hear(), (100 * (round + 1)).to_string());
        if round % 2 == 0 {
            // While it goes on.
            writer.tell_to_go_on();
            place.kill_daemon();
        } else {
            assert_eq!(place.cuesta(&["stop", "store"]).status(), 0);
            writer.tell_to_go_on();
        }
        start_daemon(&place);
    }
    assert_eq!(writer.hear(), "700");
    assert_eq!(writer.end(), (vec!["whole".to_owned()], true));
}

/// Counts up in a database, each step a transaction; tells of every tenth, and goes on when it is told to.
const COUNTER: &str = r"
import sqlite3, sys
database = sqlite3.connect('/cuesta/counts', timeout=60, isolation_level=None)
database.execute('create table if not exists counts(count)')
done = 0
while True:
    for _ in range(10):
        database.execute('begin immediate')
        count, = database.execute('select coalesce(max(count), 0) from counts').fetchone()
        database.execute('insert into counts values(?)', (count + 1,))
        database.execute('commit')
        done += 1
    print(done, flush=True)
    if not sys.stdin.readline():
        break
print(done, flush=True)
";

#[test]
fn two_programs_on_one_database_go_on_while_daemons_are_killed() {
    let place = TestFolder::with_store();
    let mut counters = [Talking::start(&place, COUNTER), Talking::start(&place, COUNTER)];
    for _ in 0..4 {
        counters.iter_mut().for_each(|counter| drop(counter.hear()));
        counters.iter_mut().for_each(Talking::tell_to_go_on);
        place.kill_daemon();
        start_daemon(&place);
    }
    let done = counters.map(|counter| {
        let (said, succeeded) = counter.end();
        assert!(succeeded);
        said.last().unwrap().parse::<u32>().unwrap()
    });
    let select = "select count(*), max(count), count(distinct count) from counts; pragma integrity_check;";
    let found = place.cuesta(&["run", "--store", "store", "--", "sqlite3", "/cuesta/counts", select]);
    let all = done.iter().sum::<u32>();
    assert_eq!(found.text(), format!("{all}|{all}|{all}\nok\n"), "{}", found.errors());
}

#[test]
fn a_program_that_is_started_while_there_is_no_daemon_waits_for_it() {
    let place = TestFolder::with_store();
    let source = "import subprocess, sys\nprint('ready', flush=True)\nsys.stdin.readline()\n\
                  subprocess.run(['sh', '-c', 'echo made > /cuesta/f; cat /cuesta/f'], check=True)\n";
    let mut shell = Talking::start(&place, source);
    assert_eq!(shell.hear(), "ready");
    place.kill_daemon();
    shell.tell_to_go_on();
    start_daemon(&place);
    assert_eq!(shell.end(), (vec!["made".to_owned()], true));
}

#[test]
fn what_a_program_left_that_died_before_it_came_back_is_put_in_order() {
    let place = TestFolder::with_store();
    let source = "import os, sys\nf = os.open('/cuesta/held', os.O_CREAT | os.O_RDWR)\nos.write(f, b'x' * 9000)\n\
                  os.unlink('/cuesta/held')\nopen('/cuesta/kept', 'w').write('kept')\nprint('ready', flush=True)\n\
                  sys.stdin.readline()\nos.kill(os.getpid(), 9)\n";
    let mut idle = Talking::start(&place, source);
    assert_eq!(idle.hear(), "ready");
    place.kill_daemon();
    start_daemon(&place);
    let inodes = || {
        let status = place.cuesta(&["status", "store", "--json"]).text();
        let inodes = status.split("\"inodes\":").nth(1).and_then(|rest| rest.split([',', '}']).next());
        inodes.unwrap_or_else(|| panic!("{status}")).trim().to_owned()
    };
    assert_eq!(inodes(), "3", "the root, what has a name and what it has open");
    assert!(!idle.end().1);
    // The daemon sees its end a moment later.
    let began = std::time::Instant::now();
    while inodes() != "2" {
        assert!(began.elapsed().as_secs() < 60, "it is kept for nobody");
        std::thread::yield_now();
    }
    let read = place.cuesta(&["run", "--store", "store", "--", "cat", "/cuesta/kept"]);
    assert_eq!(read.text(), "kept", "{}", read.errors());
}

/// Sends an open file, receives it when it is told to, and does with it what it can.
const SENDER: &str = r"
import errno, os, socket, sys
def said(call, *arguments):
    try: return call(*arguments)
    except OSError as error: return errno.errorcode[error.errno]
left, right = socket.socketpair()
sent = os.open('/cuesta/sent', os.O_CREAT | os.O_RDWR)
os.write(sent, b'content')
socket.send_fds(left, [b'x'], [sent])
os.close(sent)
print('sent', flush=True)
sys.stdin.readline()
_, (fd,), _, _ = socket.recv_fds(right, 10, 1)
print(said(os.pwrite, fd, b'lost', 0), said(os.write, fd, b'lost'), said(os.ftruncate, fd, 1), said(os.pread, fd, 9, 0),
      said(os.posix_fallocate, fd, 0, 9), said(os.close, fd), open('/cuesta/sent').read(), flush=True)
";

/// Nobody knows any more what it was.
#[test]
fn an_open_file_that_was_sent_before_its_daemon_died_takes_nothing_that_would_be_lost() {
    let place = TestFolder::with_store();
    let mut program = Talking::start(&place, SENDER);
    assert_eq!(program.hear(), "sent");
    place.kill_daemon();
    start_daemon(&place);
    program.tell_to_go_on();
    assert_eq!(program.end(), (vec!["EBADF EBADF EBADF EBADF EBADF None content".to_owned()], true));
}

/// Has a session and does nothing until it is told to go on; then it opens a file that was made meanwhile, and does nothing
/// again until it reads that.
const IDLER: &str = r"
import os, sys
held = os.open('/cuesta/held', os.O_CREAT | os.O_RDWR)
os.write(held, b'secret')
print('idle', flush=True)
sys.stdin.readline()
late = os.open('/cuesta/late', os.O_RDONLY)
print('idle again', flush=True)
sys.stdin.readline()
print(os.pread(held, 10, 0), os.pread(late, 10, 0), flush=True)
";

/// Makes and removes files, in all several times as large as the store.
fn make_and_remove(place: &TestFolder) {
    for _ in 0..8 {
        let script = "head -c 2M /dev/zero > /cuesta/large && rm /cuesta/large";
        let made = place.cuesta(&["run", "--store", "store", "--", "sh", "-c", script]);
        assert_eq!(made.status(), 0, "{}", made.errors());
    }
}

/// A shell that waits for its user since before an upgrade cannot say what it has open, but nothing that is newer.
#[test]
fn an_idle_program_does_not_keep_what_is_removed_after_its_daemon_died() {
    let place = TestFolder::with_store();
    let mut idler = Talking::start(&place, IDLER);
    assert_eq!(idler.hear(), "idle");
    place.kill_daemon();
    make_and_remove(&place);
    // Made under one daemon, and removed under the next.
    for _ in 0..8 {
        let run = |script| place.cuesta(&["run", "--store", "store", "--", "sh", "-c", script]);
        let made =
            run("rm -f /cuesta/kept && head -c 2M /dev/zero > /cuesta/kept && echo content > /cuesta/late");
        assert_eq!(made.status(), 0, "{}", made.errors());
        place.kill_daemon();
    }
    start_daemon(&place);
    idler.tell_to_go_on();
    assert_eq!(idler.hear(), "idle again");
    place.kill_daemon();
    let removed = place.cuesta(&[
        "run",
        "--store",
        "store",
        "--",
        "rm",
        "/cuesta/held",
        "/cuesta/late",
        "/cuesta/kept",
    ]);
    assert_eq!(removed.status(), 0, "{}", removed.errors());
    make_and_remove(&place);
    idler.tell_to_go_on();
    assert_eq!(idler.end(), (vec![r"b'secret' b'content\n'".to_owned()], true));
}

/// Each of them begins with whatever daemon there is, and may find it gone with its second question.
#[test]
fn programs_that_are_started_while_daemons_are_replaced_find_what_is_there() {
    let place = TestFolder::with_store();
    start_daemon(&place);
    let stop = place.path("stop");
    let script = format!(
        "mkdir /cuesta/$0 && cd /cuesta/$0 && while [ ! -e {} ]; do mkdir new && rmdir new || exit; done",
        stop.display()
    );
    let start = |name: &str| {
        let mut command = place.command(&["run", "--store", "store", "--", "sh", "-c", &script, name]);
        command.stderr(Stdio::piped()).spawn().unwrap()
    };
    let workers = ["one", "two", "three"].map(start);
    for _ in 0..40 {
        assert_eq!(place.cuesta(&["stop", "store"]).status(), 0);
        start_daemon(&place);
    }
    std::fs::write(&stop, "").unwrap();
    for worker in workers {
        let ended = worker.wait_with_output().unwrap();
        assert!(ended.status.success(), "{}: {}", ended.status, String::from_utf8_lossy(&ended.stderr));
    }
}
