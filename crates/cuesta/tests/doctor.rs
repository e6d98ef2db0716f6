//! `cuesta doctor`: what became of a program's calls, across everything it starts, however that ends.

use crate::common::TestFolder;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The doctor's report on a program, and the program's status.
fn report(place: &TestFolder, program: &[&str]) -> (Value, i32) {
    let arguments = ["doctor", "--store", "store", "--json", "--output", "report.json", "--"];
    let ended = place.cuesta(&[&arguments[..], program].concat());
    let text = std::fs::read_to_string(place.path("report.json")).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    (serde_json::from_str(&text).unwrap(), ended.status())
}

#[track_caller]
fn find(list: &Value, wanted: impl Fn(&Value) -> bool) -> &Value {
    list.as_array().unwrap().iter().find(|one| wanted(one)).unwrap_or_else(|| panic!("{list:#}"))
}

/// A static program that says a word.
fn static_program(place: &TestFolder) -> PathBuf {
    let (source, program) = (place.path("alone.c"), place.path("alone"));
    let text = "#include <unistd.h>\nint main(void) { return write(1, \"alone\\n\", 6) != 6; }\n";
    std::fs::write(&source, text).unwrap();
    let compiled = Command::new("gcc").args(["-static", "-o"]).arg(&program).arg(&source).status().unwrap();
    assert!(compiled.success());
    program
}

/// Makes calls that no other program makes in threads, forked children (one is killed) and programs it executes.
const FAMILY: &str = "
import os, signal, subprocess, sys, threading
file = os.open('/cuesta/file', os.O_RDWR | os.O_CREAT)
def write(times, onto=file):
    for turn in range(times): os.pwrite(onto, b'x' * 4096, turn * 4096)
if sys.argv[1:] == ['child']:
    write(10)
    sys.exit()
write(100)
thread = threading.Thread(target=write, args=(25,))
thread.start()
thread.join()
for ending in 'exit', 'kill':
    child = os.fork()
    if child == 0:
        write(50)
        if ending == 'exit': os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
subprocess.run([sys.executable, __file__, 'child'], check=True, env={})
write(7, os.open('elsewhere', os.O_RDWR | os.O_CREAT))
for turn in range(5): os.fsync(file)
for turn in range(6):
    try: os.truncate('nowhere', 0)
    except FileNotFoundError: pass
reader = os.open('/cuesta/file', os.O_RDONLY)
for turn in range(3):
    try: write(1, reader)
    except OSError: pass
folder, null = os.open('/cuesta', os.O_RDONLY), os.open('/dev/null', os.O_WRONLY)
try: os.sendfile(null, folder, 0, 10)
except OSError: pass
for turn in range(4):
    try: os.chroot('/cuesta')
    except OSError: pass
sys.exit(9)
";

#[test]
fn calls_of_all_threads_children_and_programs_are_counted_by_what_became_of_them() {
    let place = TestFolder::with_store();
    std::fs::write(place.path("family.py"), FAMILY).unwrap();
    let (report, status) = report(&place, &["python3", "family.py"]);
    assert_eq!(
        (status, &report["status"], &report["signal"]),
        (9, &Value::from(9), &Value::Null),
        "{report:#}"
    );
    let truncated = find(&report["calls"], |call| call["call"] == "truncate");
    assert_eq!((&truncated["served"], &truncated["passed_on"]), (&0.into(), &6.into()), "{report:#}");
    let writes = find(&report["calls"], |call| call["call"] == "pwrite64");
    let counts =
        ["served", "failed", "unserved", "passed_on"].map(|outcome| writes[outcome].as_u64().unwrap());
    assert_eq!(counts, [100 + 25 + 50 + 50 + 10, 3, 0, 7], "{report:#}");
    let syncs = find(&report["calls"], |call| call["call"] == "fsync");
    assert_eq!((&syncs["served"], &syncs["passed_on"]), (&5.into(), &0.into()), "{report:#}");
    let chroot = find(&report["unserved_calls"], |call| call["call"] == "chroot");
    assert_eq!((&chroot["error"], &chroot["count"]), (&"ENOSYS".into(), &4.into()));
    let [example] = &chroot["examples"].as_array().unwrap()[..] else { panic!("{chroot:#}") };
    assert_eq!(example["on"].as_str().unwrap().trim_end_matches('/'), "/cuesta");
    assert!(example["program"].as_str().unwrap().contains("python3"), "{example:#}");
    let failed = find(&report["failed_calls"], |call| call["call"] == "pwrite64");
    assert_eq!((&failed["error"], &failed["count"]), (&"EBADF".into(), &3.into()));
    let sent = find(&report["failed_calls"], |call| call["call"] == "sendfile");
    assert_eq!(sent["examples"][0]["on"].as_str().unwrap().trim_end_matches('/'), "/cuesta", "{report:#}");
    assert!(report["verdict"].as_str().unwrap().contains(
        "4 calls about the store are not served yet: chroot; the store is no place of the kernel's"
    ));
    for program in report["programs"].as_array().unwrap() {
        assert_eq!(program["started"], program["watched"], "{report:#}");
    }
    assert!(!place.path("elsewhere").metadata().unwrap().len().eq(&0));
}

#[test]
fn programs_the_library_cannot_be_loaded_into_are_named() {
    let place = TestFolder::with_store();
    let program = static_program(&place);
    let alone = program.to_str().unwrap();
    let script = format!("{alone} && {alone} && echo x >/cuesta/x; {alone} /cuesta/x; true");
    let (report, status) = report(&place, &["sh", "-c", &script]);
    assert_eq!(status, 0, "{report:#}");
    let found = find(&report["programs"], |one| one["path"] == alone);
    let counts = ["started", "watched", "refused"].map(|count| found[count].as_u64().unwrap());
    assert_eq!((counts, &found["barrier"]), ([2, 0, 1], &"statically linked".into()), "{report:#}");
    let refused = find(&report["unserved_calls"], |call| call["call"] == "execve");
    assert_eq!(refused["error"], "EOPNOTSUPP");
    assert_eq!(refused["examples"][0]["on"], alone);
    assert!(report["verdict"].as_str().unwrap().contains("was refused"), "{report:#}");
}

#[test]
fn a_program_that_a_static_one_starts_is_one_of_its_own() {
    let place = TestFolder::with_store();
    let starter = place.path("starter");
    let text = "#include <unistd.h>\nint main(void) { return execl(\"/bin/cat\", \"cat\", \"/cuesta/kept\", (char *)0); }\n";
    std::fs::write(place.path("starter.c"), text).unwrap();
    let compiled = Command::new("gcc")
        .args(["-static", "-o"])
        .arg(&starter)
        .arg(place.path("starter.c"))
        .status()
        .unwrap();
    assert!(compiled.success());
    let (report, _) =
        report(&place, &["sh", "-c", &format!("echo kept >/cuesta/kept; {}", starter.display())]);
    let counts = |path: &str| {
        let found = find(&report["programs"], |one| one["path"].as_str().unwrap().ends_with(path));
        ["started", "watched"].map(|count| found[count].as_u64().unwrap())
    };
    assert_eq!((counts("/starter"), counts("/cat")), ([1, 0], [1, 1]), "{report:#}");
}

#[test]
fn a_program_that_the_kernel_refuses_was_not_started() {
    let place = TestFolder::with_store();
    let script = "printf 'echo read by the shell' >text; chmod +x text; ./text";
    let (report, status) = report(&place, &["sh", "-c", script]);
    assert_eq!(status, 0, "{report:#}");
    for program in report["programs"].as_array().unwrap() {
        assert!(
            !program["path"].as_str().unwrap().ends_with("text") || program["started"] == 0,
            "{report:#}"
        );
    }
}

#[test]
fn a_person_reads_a_table_and_what_to_do() {
    let place = TestFolder::with_store();
    let script = "echo kept >/cuesta/kept; cat /cuesta/kept /cuesta/none; exit 5";
    let ended = place.cuesta(&["doctor", "--store", "store", "--", "sh", "-c", script]);
    assert_eq!((ended.status(), &ended.text()[..]), (5, "kept\n"), "{}", ended.errors());
    let errors = ended.errors();
    let line = |start: &str| -> Vec<String> {
        let found = errors.lines().find(|line| line.trim_start().starts_with(start));
        found.unwrap_or_else(|| panic!("{start}: {errors}")).split_whitespace().map(str::to_owned).collect()
    };
    assert!(errors.contains("cuesta doctor: sh exited with status 5\n"), "{errors}");
    assert_eq!(line("call "), ["call", "served", "failed", "not", "served", "passed", "on"]);
    assert!(errors.contains("1 failed, 0 not served;"), "{errors}");
    let failed: Vec<String> = ["openat", "1", "ENOENT", "cat", "/cuesta/none"].map(str::to_owned).into();
    assert!(errors.lines().any(|line| line.split_whitespace().eq(failed.iter())), "{errors}");
    assert_eq!(
        line("Verdict:").join(" "),
        "Verdict: everything it did on the store was served; what failed is listed above."
    );
}

#[test]
fn what_has_nothing_to_do_with_the_store_is_told_apart() {
    let place = TestFolder::with_store();
    let script = "umask 7; cd /; cat /etc/passwd >/dev/null; (exit 1); trap : USR1; env";
    let mut command = place.command(&["doctor", "--store", "store", "--json", "--output", "out", "--"]);
    let ended = crate::common::Ended(command.args(["sh", "-c", script]).output().unwrap());
    // The program's environment is that of `cuesta run`.
    assert!(
        ended.text().contains("CUESTA_AT=/cuesta\n") && !ended.text().contains("DOCTOR"),
        "{}",
        ended.text()
    );
    let report: Value = serde_json::from_str(&std::fs::read_to_string(place.path("out")).unwrap()).unwrap();
    for outcome in ["served", "failed", "unserved", "lost"] {
        assert_eq!(report[outcome], 0, "{report:#}");
    }
    assert!(report["passed_on"].as_u64() > Some(0));
    assert!(report["verdict"].as_str().unwrap().contains("nothing was done on the store"));
}

#[test]
fn each_call_is_counted_once_for_what_it_was_about() {
    let place = TestFolder::with_store();
    let program = "
import ctypes, os, socket
os.open('/cuesta/file', os.O_RDWR | os.O_CREAT)
for number in range(os.sysconf('SC_OPEN_MAX'))[3:1 << 16]:
    try: os.close(number)
    except OSError: pass
map = ctypes.CDLL(None).mmap
for turn in range(2000): map(None, ctypes.c_size_t(4096), 3, 0x22, 0, ctypes.c_long(0))
os.symlink('/nowhere/at-all', '/cuesta/out')
for turn in range(5):
    try: os.truncate('/cuesta/out', 0)
    except FileNotFoundError: pass
one, two = socket.socketpair()
file = os.open('/cuesta/file', os.O_RDWR | os.O_CREAT)
for turn in range(3):
    socket.send_fds(one, [b'x'], [file])
    os.close(socket.recv_fds(two, 1, 1)[1][0])
    socket.send_fds(one, [b'x'], [one.fileno()])
    os.close(socket.recv_fds(two, 1, 1)[1][0])
";
    let (report, status) = report(&place, &["python3", "-c", program]);
    assert_eq!(status, 0, "{report:#}");
    let counts = |name: &str| {
        let found = find(&report["calls"], |call| call["call"] == name);
        ["served", "failed", "passed_on"].map(|outcome| found[outcome].as_u64().unwrap())
    };
    // The library's own descriptors are not there to be closed.
    let [closed, failed, _] = counts("close");
    assert!(closed >= 3 && failed == 0, "{report:#}");
    assert!(counts("mmap")[2] < 1000, "memory of no file: {report:#}");
    assert_eq!(counts("truncate"), [0, 5, 0], "a link that leads out: {report:#}");
    assert_eq!(counts("recvmsg")[..2], [3, 0], "{report:#}");
}

#[test]
fn the_end_of_the_program_is_passed_on() {
    let place = TestFolder::with_store();
    let (report, status) = report(&place, &["sh", "-c", "echo x >/cuesta/x; kill -KILL $$"]);
    assert_eq!((status, &report["signal"]), (128 + 9, &9.into()));
    assert_eq!(find(&report["calls"], |call| call["call"] == "openat")["served"], 1, "{report:#}");
    let doctor = |arguments: &[&str]| place.cuesta(&[&["doctor", "--store", "store"], arguments].concat());
    doctor(&["--", "no-such-program"]).refused(127, &["no-such-program"]);
    let program = static_program(&place);
    doctor(&["--", program.to_str().unwrap()]).refused(126, &["statically linked"]);
    doctor(&["--output", "no/such/folder", "--", "true"]).refused(125, &["no/such/folder", "report"]);
    assert_eq!(doctor(&[]).status(), 125);
}

#[test]
fn a_signal_to_the_doctor_reaches_the_program_and_is_reported() {
    let place = TestFolder::with_store();
    let script = "trap 'exit 4' TERM; echo ready; turn=0; while [ $turn -lt 3000 ]; do sleep 0.02; turn=$((turn+1)); done";
    let mut doctor = place
        .command(&["doctor", "--store", "store", "--", "sh", "-c", script])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(doctor.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    assert!(
        Command::new("sh")
            .args(["-c", "kill -TERM $0", &doctor.id().to_string()])
            .status()
            .unwrap()
            .success()
    );
    let ended = crate::common::Ended(doctor.wait_with_output().unwrap());
    assert_eq!(ended.status(), 4, "{}", ended.errors());
    assert!(ended.errors().contains("sh exited with status 4"), "{}", ended.errors());
}
