//! Programs that work side by side in one store.

use crate::common::disk::Disk;
use crate::common::{TestFolder, can_mount};
use cuesta_format::event::Step;
use cuesta_format::geometry::SOCKET_FILE;
use cuesta_format::wire::{Request, Response};
use cuesta_libfs::{Link as _, SocketLink};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const FILES: usize = 2000;

fn status(place: &TestFolder) -> Value {
    serde_json::from_str(&place.cuesta(&["status", "--json", "store"]).text()).unwrap()
}

/// Two programs share the directories above their own ones, and only those: they must not take them from each
/// other again and again.
#[test]
fn programs_in_directories_of_their_own_leave_each_other_alone() {
    let place = TestFolder::with_store();
    let made = place.cuesta(&["run", "--store", "store", "--", "mkdir", "/cuesta/a", "/cuesta/b"]);
    assert_eq!(made.status(), 0, "{}", made.errors());
    let before = status(&place)["fences"].as_u64().unwrap();
    let programs = ["a", "b"].map(|directory| {
        let script = format!(
            "i=0; while [ $i -lt {FILES} ]; do : >/cuesta/{directory}/$i; i=$((i+1)); done; ls /cuesta/{directory} | wc -l"
        );
        let mut command = place.command(&["run", "--store", "store", "--", "sh", "-c", &script]);
        command.stdout(Stdio::piped()).spawn().unwrap()
    });
    for program in programs {
        let ended = program.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&ended.stdout).trim(), FILES.to_string());
    }
    let status = status(&place);
    let fences = status["fences"].as_u64().unwrap() - before;
    assert!(fences < 20, "{fences} fences for {FILES} files each; {}", status["requests"]);
}

/// Two processes write one file in turns, say so, and wait.
const TURNS: &str = "
import os, sys
fd = os.open('/cuesta/f', os.O_RDWR | os.O_CREAT)
there, back = os.pipe(), os.pipe()
child = os.fork() == 0
theirs, ours = (there[0], back[1]) if child else (back[0], there[1])
for turn in range(20):
    if child: os.read(theirs, 1)
    os.pwrite(fd, b'%d' % turn, 100 * child)
    os.write(ours, b'.')
    if not child: os.read(theirs, 1)
if not child:
    print('done', flush=True)
sys.stdin.read()
";

/// Whoever takes turns does not tell that there is something in its log: it is looked after all the same.
#[test]
fn what_was_written_in_turns_leaves_the_logs_when_it_is_quiet() {
    let place = TestFolder::with_store();
    let mut command = place.command(&["run", "--store", "store", "--", "python3", "-c", TURNS]);
    let mut program = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(program.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "done\n");
    let patience = Instant::now() + Duration::from_secs(60);
    loop {
        let status = status(&place);
        let sessions = status["sessions"].as_array().unwrap();
        if sessions.iter().all(|session| session["log_bytes"] == 0) {
            assert!(sessions.len() >= 2, "{status}");
            break;
        }
        assert!(Instant::now() < patience, "{status}");
        std::thread::yield_now();
    }
    drop(program.stdin.take());
    assert!(program.wait().unwrap().success());
}

/// How often programs attached a session.
fn attached(place: &TestFolder) -> u64 {
    let status = status(place);
    let requests = status["requests"].as_array().unwrap();
    let attach = requests.iter().find(|request| request["kind"] == "attach");
    attach.map_or(0, |attach| attach["count"].as_u64().unwrap())
}

#[test]
fn programs_that_only_name_files_attach_no_session() {
    let place = TestFolder::with_store();
    let run = |script: &str| {
        let ran = place.cuesta(&["run", "--store", "store", "--", "sh", "-c", script]);
        assert_eq!(ran.status(), 0, "{script}: {}", ran.errors());
        ran.text()
    };
    // SharedFS attaches a session of its own with the first call that it does.
    run("echo content >/cuesta/f && /bin/mkdir /cuesta/d");
    let before = attached(&place);
    // Each of these is a program of its own. The shell opens nothing, and moves nowhere.
    let script = "/bin/mkdir /cuesta/d/e && /bin/mv /cuesta/f /cuesta/d/g && /bin/ln /cuesta/d/g /cuesta/h && \
        /bin/ln -s h /cuesta/s && /bin/chmod 640 /cuesta/h && /bin/rm /cuesta/d/g && /bin/rmdir /cuesta/d/e && \
        /usr/bin/stat -c '%a %h %s' /cuesta/h && /bin/readlink /cuesta/s && ! /bin/mkdir /cuesta/d/none/e 2>/dev/null";
    assert_eq!(run(script), "640 1 8\nh\n");
    assert_eq!(attached(&place), before);
    assert_eq!(run("cat /cuesta/h"), "content\n");
    assert!(attached(&place) > before);
}

/// `mv` renames one file and ends. `cuesta status` counts that as a first call, and `mv` as a process that never attached.
#[test]
fn a_shells_mv_counts_as_a_program_that_never_attached() {
    let place = TestFolder::with_store();
    let run = |script: &str| {
        let ran = place.cuesta(&["run", "--store", "store", "--", "sh", "-c", script]);
        assert_eq!(ran.status(), 0, "{script}: {}", ran.errors());
    };
    run("echo content >/cuesta/f");
    let counts = || {
        let status = status(&place);
        ["first_calls", "never_attached"].map(|field| status[field].as_u64().unwrap())
    };
    let before = counts();
    run("/bin/mv /cuesta/f /cuesta/g");
    // The daemon sees the end of a process a moment after the process has ended.
    let patience = Instant::now() + Duration::from_secs(60);
    let after = loop {
        let after = counts();
        if after[1] > before[1] || Instant::now() > patience {
            break after;
        }
        std::thread::yield_now();
    };
    assert!(after[0] > before[0] && after[1] == before[1] + 1, "{before:?} {after:?}");
    let trace = place.cuesta(&["trace", "store"]).text();
    let events: Vec<Value> = trace.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ended = events.iter().rfind(|event| event["event"] == "never_attached").expect(&trace);
    assert!(ended["calls"].as_u64().unwrap() > 0, "{ended}");
    let process = |event: &&Value| event["pid"] == ended["pid"];
    let of_mv: Vec<&str> =
        events.iter().filter(process).map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(of_mv, ["first_calls", "never_attached"]);
    let told = place.cuesta(&["status", "store"]).text();
    assert!(told.contains("first calls of programs without a session"), "{told}");
    // A program that opens a file does not count: it attaches.
    run("/bin/cat /cuesta/g >/dev/null");
    assert_eq!(counts()[1], after[1]);
}

/// The first call of a program is a rename in the working directory, and then it does all the rest.
#[test]
fn a_program_goes_on_with_a_session_where_its_first_calls_were_served() {
    let place = TestFolder::with_store();
    let script = "
import os
os.mkdir('d')
os.rename('d', 'e')
open('e/f', 'w').write('content')
assert os.stat('e/f').st_size == 7
for number in range(600):
    os.rename('e/f', 'e/g')
    os.rename('e/g', 'e/f')
child = os.fork()
if child == 0:
    os.rename('e/f', 'e/child')
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert os.listdir('e') == ['child'] and open('e/child').read() == 'content'
print('done')
";
    let made = place.cuesta(&["run", "--store", "store", "--", "sh", "-c", "mkdir /cuesta/here"]);
    assert_eq!(made.status(), 0, "{}", made.errors());
    let shell = "cd /cuesta/here && exec python3 -c \"$0\"";
    let ran = place.cuesta(&["run", "--store", "store", "--", "sh", "-c", shell, script]);
    assert_eq!(ran.text(), "done\n", "{}", ran.errors());
}

/// Two processes append to one file, and wait for the disk behind each line.
const APPENDS: &str = "
import os
fd = os.open('/cuesta/log', os.O_WRONLY | os.O_CREAT | os.O_APPEND)
child = os.fork() == 0
for line in range(200):
    os.write(fd, b'%d %d\\n' % (child, line))
    os.fdatasync(fd)
if child:
    os._exit(0)
assert os.wait()[1] == 0
lines = open('/cuesta/log').read().splitlines()
for whose in '01':
    assert [line for line in lines if line[0] == whose] == ['%s %d' % (whose, line) for line in range(200)]
print('done')
";

/// SharedFS performs both the appends and the waits: the sender takes no lease to wait.
#[test]
fn an_fsync_of_a_file_that_processes_share_on_a_disk_takes_no_lease() {
    if !can_mount() {
        return;
    }
    let disk = Disk::with_store_of("64M");
    let path = disk.place.path("disk/store/cuesta.toml");
    let configuration = std::fs::read_to_string(&path).unwrap_or_default();
    std::fs::write(path, format!("{configuration}ship = \"always\"\n")).unwrap();
    let ended = crate::common::Ended(disk.program(APPENDS).output().unwrap());
    assert_eq!(ended.text(), "done\n", "{}", ended.errors());
    let status = disk.place.cuesta(&["status", "--json", "disk/store"]).text();
    let status: Value = serde_json::from_str(&status).unwrap();
    let fences = status["fences"].as_u64().unwrap();
    assert!(fences < 60, "{fences} fences for 400 appends");
    disk.place.cuesta(&["stop", "disk/store"]);
}

const LINES: usize = 300;

/// Sessions that SharedFS told to send operations.
fn senders(place: &TestFolder) -> usize {
    let socket = place.path("store").join(SOCKET_FILE);
    let mut link = SocketLink::connect(socket.as_os_str().as_bytes(), 0).unwrap();
    let (mut senders, mut from) = (BTreeSet::new(), 0);
    loop {
        let events = link.call(&Request::Trace { from, wait_ms: 0 }, &mut Vec::new());
        let Ok(Response::Events(events)) = events else { panic!("no trace: {events:?}") };
        let Some(last) = events.last() else { return senders.len() };
        from = last.number + 1;
        senders.extend(events.iter().filter_map(|event| match event.step {
            Step::Ship { session, .. } => Some(session),
            _ => None,
        }));
    }
}

/// A shell under `cuesta run` opens the file once, one by the mount for each line.
#[test]
fn a_file_that_both_doors_append_to_has_each_line_once_and_in_each_writers_order() {
    if !can_mount() {
        return;
    }
    for ship in ["always", "random", "never"] {
        let place = TestFolder::with_store();
        let configuration = place.path("store/cuesta.toml");
        let text = std::fs::read_to_string(&configuration).unwrap_or_default();
        std::fs::write(&configuration, format!("{text}ship = \"{ship}\"\n")).unwrap();
        let log = place.path("files/log");
        std::fs::create_dir(place.path("files")).unwrap();
        let mounted = place.cuesta(&["mount", "store", "files"]);
        assert_eq!(mounted.status(), 0, "{}", mounted.errors());
        let script =
            |echo: &str| format!("i=0; while [ $i -lt {LINES} ]; do {echo} || exit; i=$((i+1)); done");
        let name = log.display();
        let by_run = format!("exec >>{name}; {}", script("echo run $i"));
        let run = place.command(&["run", "--store", "store", "--", "sh", "-c", &by_run]).spawn();
        let by_mount = script(&format!("echo mount $i >>{name}"));
        let shell = Command::new("sh").args(["-c", &by_mount]).spawn();
        for writer in [run, shell] {
            assert!(writer.unwrap().wait().unwrap().success(), "{ship}");
        }
        let content = std::fs::read_to_string(&log).unwrap();
        for writer in ["run", "mount"] {
            let lines: Vec<&str> = content.lines().filter(|line| line.starts_with(writer)).collect();
            let expected: Vec<String> = (0..LINES).map(|line| format!("{writer} {line}")).collect();
            assert_eq!(lines, expected, "{ship}");
        }
        assert_eq!(content.lines().count(), 2 * LINES, "{ship}");
        match (ship, senders(&place)) {
            // The mount's session, and the program's.
            ("always", 2..) | ("never", 0) | ("random", _) => {}
            (_, senders) => panic!("{ship}: {senders} sessions sent operations"),
        }
        place.cuesta(&["unmount", "files"]);
        place.cuesta(&["stop", "store"]);
    }
}
