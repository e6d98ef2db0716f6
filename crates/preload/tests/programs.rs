//! Real programs, unmodified: on the store they say what they say on a directory of the kernel's, and
//! away from the store nothing tells them that they run under the library.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::common::{Finish as _, PREFIX, Served, compare, preloaded, told};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs.sh");
const CALLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/calls.py");
const NAMES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/names.py");
/// What `statfs` calls ext4.
const EXT4: i64 = 0xef53;
const STAND_INS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stand_ins.py");
const CREDENTIALS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/credentials.py");
const EXTENDED_PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/extended.sh");
const EXTENDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/extended.py");
const NAMED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/named_descriptors.sh");
const NAMED_CALLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/named_descriptors.py");
const LINKS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/links.sh");
const ASYNCHRONOUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/asynchronous.py");
const SHARED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/shared_files.py");
const MAPPED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mapped_descriptors.py");
const EVERY_CALL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/every_call.py");
const PASSING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/passing.py");
const USERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/users.sh");
const ON_STORE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs_on_store.sh");
const ELSEWHERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/elsewhere.sh");

/// A script says on a store what it says in a directory of the kernel's that all may enter, as the store's root.
fn compare_on_both(program: &str, script: &str) {
    let store = Served::new();
    let folder = tempfile::tempdir().expect("folder");
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).expect("its owner");
    let directory = folder.path().to_str().expect("a plain name").to_owned();
    let kernel = Command::new(program).args([script, &directory]).finish();
    let ours = store.command(program).args([script, PREFIX]).finish();
    assert!(kernel.status.success(), "{}", told(&kernel));
    compare(&told(&kernel).replace(&directory, "D"), &told(&ours).replace(PREFIX, "D"));
}

#[test]
fn a_mapped_file_is_read_and_written_whatever_becomes_of_descriptors() {
    compare_on_both("python3", MAPPED);
}

#[test]
fn programs_do_on_the_store_what_they_do_on_a_directory() {
    let store = Served::new();
    let folder = tempfile::tempdir().expect("folder");
    let directory = folder.path().to_str().expect("a plain name").to_owned();
    let kernel = Command::new("bash").args([SCRIPT, &directory]).finish();
    let ours = store.command("bash").args([SCRIPT, PREFIX]).finish();
    compare(&told(&kernel).replace(&directory, "D"), &told(&ours).replace(PREFIX, "D"));
}

#[test]
fn a_program_on_the_store_is_started_as_it_is_now() {
    for shell in ["dash", "bash"] {
        let store = Served::new();
        let folder = tempfile::tempdir().expect("folder");
        let directory = folder.path().to_str().expect("a plain name").to_owned();
        let kernel = Command::new(shell).args([ON_STORE, &directory]).finish();
        let ours = store.command(shell).args([ON_STORE, PREFIX]).finish();
        compare(&told(&kernel).replace(&directory, "D"), &told(&ours).replace(PREFIX, "D"));
    }
}

#[test]
fn seldom_calls_answer_on_the_store_what_they_answer_on_a_directory() {
    compare_on_both("python3", CALLS);
}

#[test]
fn what_processes_share_of_open_files_is_on_the_store_what_it_is_in_a_directory() {
    compare_on_both("python3", SHARED);
}

#[test]
fn every_call_about_files_answers_as_in_a_directory() {
    let folder = tempfile::tempdir().expect("folder");
    let is_ext4 = rustix::fs::statfs(folder.path()).is_ok_and(|found| found.f_type == EXT4);
    if !is_ext4 || !rustix::process::geteuid().is_root() || linux_version() < (6, 17) {
        println!("skipped: asks root, ext4 and a Linux that has all the calls");
        return;
    }
    compare_on_both("python3", EVERY_CALL);
}

#[test]
fn open_files_are_sent_to_other_processes_as_in_a_directory() {
    compare_on_both("python3", PASSING);
}

#[test]
fn a_receiver_without_the_library_gets_errors() {
    let receiver = "
import errno, os, socket, sys
def said(call, *arguments):
    try: return call(*arguments)
    except OSError as error: return errno.errorcode[error.errno]
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1])
server.listen()
print('ready', flush=True)
_, (fd,), _, _ = socket.recv_fds(server.accept()[0], 10, 1)
print(said(os.read, fd, 5), said(os.write, fd, b'x'), said(os.readv, fd, [bytearray(5)]))";
    let sender = "
import os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect(sys.argv[1])
fd = os.open('/cuesta/file', os.O_RDWR | os.O_CREAT)
os.write(fd, b'content')
socket.send_fds(server, [b'x'], [fd])
server.recv(1)
print(os.pread(fd, 20, 0))";
    let store = Served::new();
    let folder = tempfile::tempdir().expect("folder");
    let socket = folder.path().join("socket");
    let mut receiving = Command::new("python3");
    let receiving = receiving.args(["-c", receiver]).arg(&socket).stdout(std::process::Stdio::piped());
    let mut receiving = receiving.spawn().expect("starts");
    let mut lines = BufReader::new(receiving.stdout.take().expect("a pipe")).lines();
    assert_eq!(lines.next().expect("a line").expect("readable"), "ready");
    let sent = told(&store.command("python3").args(["-c", sender]).arg(&socket).finish());
    compare("b'content'\nexit status: 0\n", &sent);
    assert_eq!(lines.next().expect("a line").expect("readable"), "EINVAL EINVAL EINVAL");
    assert!(receiving.wait().expect("ends").success());
}

#[test]
fn symbolic_links_outside_lead_into_the_store() {
    let folders = [(); 3].map(|()| tempfile::tempdir().expect("folder"));
    let [directory, beside, taken] = folders.each_ref().map(|it| it.path().to_str().expect("a plain name"));
    let kernel = Command::new("bash").args([LINKS, directory, beside]).finish();
    assert!(kernel.status.success(), "{}", told(&kernel));
    let plain =
        |told: String, store: &str, outside: &str| told.replace(store, "STORE").replace(outside, "OUTSIDE");
    // Files that the kernel has at the store's place are not seen.
    std::fs::write(Path::new(taken).join("file"), "of the kernel's\n").expect("a file");
    std::fs::create_dir(Path::new(taken).join("made")).expect("a folder");
    for prefix in [PREFIX, taken] {
        let (store, outside) = (Served::new(), tempfile::tempdir().expect("folder"));
        let outside = outside.path().to_str().expect("a plain name");
        let ours = store.command_at("bash", Path::new(prefix)).args([LINKS, prefix, outside]).finish();
        compare(&plain(told(&kernel), directory, beside), &plain(told(&ours), prefix, outside));
    }
    assert_eq!(std::fs::read(Path::new(taken).join("file")).expect("it is there"), b"of the kernel's\n");
    assert_eq!(std::fs::read_dir(taken).expect("a folder").count(), 2);
}

#[test]
fn asynchronous_requests_end_as_in_a_directory() {
    compare_on_both("python3", ASYNCHRONOUS);
}

/// Submitted again after a full queue, they would append twice.
#[test]
fn calls_that_are_not_served_say_so() {
    let calls = "
import ctypes, errno, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
folder = sys.argv[1].encode()
name = folder + b'/file'
fd = os.open(name, os.O_RDWR | os.O_CREAT)
here = os.open(folder, os.O_RDONLY)
os.chdir(folder)
room = ctypes.create_string_buffer(256)
watch = libc.inotify_init1(0)
handle = struct.pack('Ii8x', 8, 1)
for number, arguments in ((443, (fd, 0, 0, room)), (313, (fd, b'', 0)), (168, (name,)),
        (433, (-100, folder, 0)), (442, (here, b'file', 0, room, 32)), (467, (here, b'file', 0, room, 32)), (468, (-100, name, room, 24, 0)),
        (469, (here, b'file', room, 24, 0)), (429, (-100, b'/nowhere', here, b'file', 0)),
        (301, (-1, 1, 2, here, b'file')), (301, (-1, 1, 2, -100, name)), (254, (watch, name, 2)), (428, (here, b'file', 1)),
        (165, (b'none', folder, b'tmpfs', 0, 0)), (431, (-1, 3, b'key', name, -100)),
        (254, (watch, b'file', 2)), (16, (fd, 0x40086602, b'\\x10' + bytes(7))), (16, (fd, 0xc020660b, room)), (303, (here, b'file', room, room, 0)), (304, (here, handle, 0))):
    libc.syscall(number, *arguments)
    print(number, errno.errorcode[ctypes.get_errno()])";
    let store = Served::new();
    let said = told(&store.command("python3").args(["-c", calls, PREFIX]).finish());
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 21, "{said}");
    assert!(lines[..16].iter().all(|line| line.ends_with("ENOSYS")), "{said}");
    assert!(lines[16..20].iter().all(|line| line.ends_with("ENOTSUP")), "{said}");
}

#[test]
fn a_placeholder_taken_from_a_process_that_did_not_send_it_is_refused_and_closed() {
    let script = "
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
ready, go = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    os.write(ready[1], b'%d' % os.open(sys.argv[1] + '/file', os.O_RDWR | os.O_CREAT))
    os.read(go[0], 1)
    os._exit(0)
number, pid = int(os.read(ready[0], 9)), os.pidfd_open(child)
for turn in range(3):
    free = os.open('/dev/null', os.O_RDONLY)
    os.close(free)
    print(libc.syscall(438, pid, number, 0), errno.errorcode[ctypes.get_errno()], os.open('/dev/null', os.O_RDONLY) == free)
    os.close(free)
os.write(go[1], b'x')
os.wait()";
    let store = Served::new();
    let said = told(&store.command("python3").args(["-c", script, PREFIX]).finish());
    assert_eq!(said, format!("{}exit status: 0\n", "-1 ENOTSUP True\n".repeat(3)));
}

#[test]
fn a_path_that_may_not_cross_file_systems_does_not_come_into_the_store() {
    let script = "
import ctypes, errno, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def opened(directory, path):
    fd = libc.syscall(437, directory, path.encode(), struct.pack('QQQ', os.O_RDONLY, 0, 1), 24)
    return 'opened' if fd >= 0 else errno.errorcode[ctypes.get_errno()]
store = sys.argv[1]
os.mkdir(store + '/folder')
inside, outside = os.open(store, os.O_RDONLY), os.open('/', os.O_RDONLY)
print(opened(inside, 'folder'), opened(inside, 'folder/../folder'), opened(inside, '..'), opened(inside, store + '/folder'))
print(opened(outside, store[1:]), opened(outside, store[1:] + '/folder'), opened(outside, store), opened(-100, store + '/folder'))
os.chdir(store)
print(opened(-100, 'folder'), opened(-100, store))";
    let store = Served::new();
    let said = told(&store.command("python3").args(["-c", script, PREFIX]).finish());
    assert_eq!(said, "opened opened EXDEV EXDEV\nEXDEV EXDEV EXDEV EXDEV\nopened EXDEV\nexit status: 0\n");
}

#[test]
fn asynchronous_appends_are_refused() {
    let store = Served::new();
    let appended = store.command("python3").args([ASYNCHRONOUS, PREFIX, "append"]).finish();
    let refused = "('ENOTSUP', True, [])";
    assert!(told(&appended).contains(&format!("{refused} {refused} 0")), "{}", told(&appended));
}

#[test]
fn names_flags_and_ranges_are_what_they_are_on_ext4() {
    let store = Served::new();
    let folder = tempfile::tempdir().expect("folder");
    let directory = folder.path().to_str().expect("a plain name").to_owned();
    let is_ext4 = rustix::fs::statfs(folder.path()).is_ok_and(|found| found.f_type == EXT4);
    if !is_ext4 || !rustix::process::geteuid().is_root() || linux_version() < (6, 10) {
        println!("skipped: asks root, ext4 and a Linux that has all the calls");
        return;
    }
    let kernel = Command::new("python3").args([NAMES, &directory]).finish();
    let ours = store.command("python3").args([NAMES, PREFIX]).finish();
    assert!(kernel.status.success(), "{}", told(&kernel));
    compare(&told(&kernel), &told(&ours));
}

fn linux_version() -> (u32, u32) {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

#[test]
fn calls_are_judged_by_what_their_thread_is_at_the_time() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root becomes somebody else");
        return;
    }
    compare_on_both("python3", CREDENTIALS);
}

#[test]
fn extended_attributes_answer_on_the_store_as_on_a_directory() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root becomes somebody else");
        return;
    }
    compare_on_both("python3", EXTENDED);
}

#[test]
fn named_pipes_and_sockets_join_processes() {
    let store = Served::new();
    let folder = tempfile::tempdir().expect("folder");
    let directory = folder.path().to_str().expect("a plain name").to_owned();
    let kernel = Command::new("python3").args([STAND_INS, &directory]).finish();
    let ours = store.command("python3").args([STAND_INS, PREFIX]).finish();
    assert!(kernel.status.success(), "{}", told(&kernel));
    compare(&told(&kernel), &told(&ours));
}

#[test]
fn programs_keep_extended_attributes_on_the_store_as_on_a_directory() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root sees all attributes");
        return;
    }
    let store = Served::new();
    let folders = [(); 3].map(|()| tempfile::tempdir().expect("folder"));
    let [directory, outside, beside] = folders.each_ref().map(|it| it.path().to_str().expect("a plain name"));
    let kernel = Command::new("bash").args([EXTENDED_PROGRAMS, directory, outside]).finish();
    let ours = store.command("bash").args([EXTENDED_PROGRAMS, PREFIX, beside]).finish();
    assert!(kernel.status.success(), "{}", told(&kernel));
    compare(&told(&kernel), &told(&ours));
}

#[test]
fn a_path_that_names_a_descriptor_leads_to_its_file() {
    compare_on_both("bash", NAMED);
    compare_on_both("python3", NAMED_CALLS);
}

#[test]
fn programs_of_another_user_may_do_what_they_may_on_ext4() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root becomes somebody else");
        return;
    }
    compare_on_both("bash", USERS);
}

#[test]
fn away_from_the_store_every_site_can_be_patched_unnoticed() {
    let folder = tempfile::tempdir().expect("folder");
    let plain = Command::new("bash").arg(ELSEWHERE).finish();
    for patch in ["all", ""] {
        let mut command = preloaded("bash", Path::new("/nonexistent"), folder.path());
        let ours = command.env("CUESTA_PATCH", patch).arg(ELSEWHERE).finish();
        compare(&told(&plain), &told(&ours));
    }
}

#[test]
fn every_site_of_the_c_library_is_found_and_none_missed() {
    let folder = tempfile::tempdir().expect("folder");
    let report = |patch: &str| {
        let mut command = preloaded("/bin/true", Path::new("/nonexistent"), folder.path());
        told(&command.env("CUESTA_PATCH", patch).finish())
    };
    let swept = report("report");
    assert!(swept.contains("missed: 0"), "{swept}");
    assert!(swept.contains("swept: 2") || swept.contains("swept: 1"), "{swept}");
    let cached = report("report");
    assert!(cached.contains("swept: 0"), "the second run reads the cache: {cached}");
    assert!(cached.contains("mapped: 2"), "the second run maps the copies of libc and ld.so: {cached}");
    let counts = |text: &str| {
        text.split("images").nth(1).and_then(|rest| rest.split("swept").next()).map(str::to_owned)
    };
    assert_eq!(counts(&swept), counts(&cached), "a copy has the sites this process would have patched");
}

#[test]
fn the_heap_may_be_started_by_a_thread_that_ends_first() {
    let store = Served::new();
    let script = "
import threading
def work(name, turns):
    for turn in range(turns):
        data = bytes([turn % 256]) * (turn % 5000)
        with open(f'/cuesta/{name}-{turn}', 'wb') as file: file.write(data)
        with open(f'/cuesta/{name}-{turn}', 'rb') as file: assert file.read() == data
def together(first, count, turns):
    threads = [threading.Thread(target=work, args=(first + index, turns)) for index in range(count)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
together(0, 1, 100); together(10, 1, 100); together(20, 6, 100); work(30, 100); together(40, 6, 100)
print('done')";
    let told = told(&store.command("python3").args(["-c", script]).finish());
    assert!(told.starts_with("done\n"), "{told}");
}

#[test]
fn a_bad_pointer_is_efault_and_harms_nothing() {
    let store = Served::new();
    let script = "
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
bad = ctypes.c_void_p(8)
fd = os.open('/cuesta/file', os.O_RDWR | os.O_CREAT)
assert os.write(fd, b'kept') == 4
def fails(answer): return answer == -1 and ctypes.get_errno() == 14
assert fails(libc.pread(fd, bad, 4, 0)) and fails(libc.syscall(17, fd, bad, 4, 0))
assert fails(libc.pwrite(fd, bad, 4, 0)) and fails(libc.syscall(18, fd, bad, 4, 0))
assert fails(libc.read(os.open('/cuesta/file', os.O_RDONLY), bad, 4)) and fails(libc.write(fd, bad, 4))
assert fails(libc.syscall(5, fd, bad)) and fails(libc.syscall(4, b'/cuesta/file', bad))
for number in (2, 4, 83, 84, 87): assert fails(libc.syscall(number, bad, bad, 0)), number
assert fails(libc.syscall(82, b'/cuesta/file', bad)) and fails(libc.syscall(257, -100, bad, 0, 0))
assert os.pread(fd, 9, 0) == b'kept' and os.lseek(fd, 0, 1) == 4
print('done')";
    let told = told(&store.command("python3").args(["-c", script]).finish());
    assert!(told.starts_with("done\n"), "{told}");
}

#[test]
fn a_debuggers_breakpoints_in_the_c_library_survive() {
    let folder = tempfile::tempdir().expect("folder");
    preloaded("/bin/true", Path::new("/nonexistent"), folder.path()).finish();
    // The first stop is before the constructors run; the second must still be there after them.
    let mut command = Command::new("gdb");
    command.args(["-nx", "-batch", "-ex", "set breakpoint pending on", "-ex", "set startup-with-shell off"]);
    for (name, value) in preloaded("/bin/true", Path::new("/nonexistent"), folder.path()).get_envs() {
        if let Some(value) = value {
            let set = format!("set environment {} {}", name.to_string_lossy(), value.to_string_lossy());
            command.args(["-ex", &set]);
        }
    }
    command.args(["-ex", "set environment CUESTA_PATCH report"]);
    let output = command.args(["-ex", "break _exit", "-ex", "run", "-ex", "backtrace", "/bin/true"]).output();
    let Ok(output) = output else { return };
    let told = told(&output);
    assert!(told.contains("mapped: 0"), "a written text is patched in place: {told}");
    assert!(told.contains("#0") && told.contains("_exit"), "{told}");
}

#[test]
fn a_damaged_or_foreign_cache_is_not_believed() {
    let folder = tempfile::tempdir().expect("folder");
    let run = || {
        let mut command = preloaded("/bin/true", Path::new("/nonexistent"), folder.path());
        told(&command.env("CUESTA_PATCH", "report").finish())
    };
    run();
    let cache = folder.path().join("cuesta");
    for entry in std::fs::read_dir(&cache).expect("the cache") {
        let path = entry.expect("an entry").path();
        let mut bytes = std::fs::read(&path).expect("sites");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&path, bytes).expect("damage");
    }
    let after = run();
    assert!(!after.contains("swept: 0") && after.contains("exit status: 0"), "{after}");
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(&cache, std::fs::Permissions::from_mode(0o777)).expect("opened to all");
    let open = run();
    assert!(!open.contains("swept: 0") && open.contains("exit status: 0"), "{open}");
}

#[test]
fn without_a_daemon_the_store_is_one_clear_line_and_an_error() {
    let folder = tempfile::tempdir().expect("folder");
    let mut command = preloaded("cat", Path::new("/nonexistent"), folder.path());
    let output = command.arg("/cuesta/file").finish();
    let told = told(&output);
    assert!(told.contains("cuesta: cannot attach to the store at /nonexistent"), "{told}");
    assert!(told.contains("Input/output error") && told.contains("exit status: 1"), "{told}");
}
