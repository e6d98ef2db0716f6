//! What processes make of each other: children that go elsewhere, fork from many threads, locks and signals.

use crate::common::{Finish as _, Served, compiled, told};

fn python(store: &Served, script: &str) -> String {
    told(&store.command("python3").args(["-c", script]).finish())
}

fn succeeds(script: &str) {
    let told = python(&Served::new(), script);
    assert!(told.starts_with("done\n"), "{told}");
}

#[test]
fn a_child_that_changes_its_directory_leaves_its_parents_alone() {
    succeeds(
        "
import os, subprocess
os.makedirs('/cuesta/a/b')
def pwd(**more): return subprocess.check_output(['/bin/pwd'], **more).decode().strip()
here = os.getcwd()
assert pwd(cwd='/cuesta/a') == '/cuesta/a' and os.getcwd() == here and pwd() == here
os.chdir('/cuesta/a')
assert pwd(cwd='b') == '/cuesta/a/b' and os.getcwd() == '/cuesta/a' and pwd(cwd='/') == '/'
assert os.getcwd() == '/cuesta/a' and os.listdir('.') == ['b'] and pwd() == '/cuesta/a'
os.chdir('/')
assert pwd(cwd='/cuesta/a/b') == '/cuesta/a/b' and os.getcwd() == '/' and 'cuesta' not in os.listdir('.')
print('done')",
    );
}

#[test]
fn a_signal_ends_the_wait_for_a_lock_or_lets_it_go_on() {
    succeeds(
        "
import fcntl, os, signal, threading
one, other = (os.open('/cuesta/lock', os.O_RDWR | os.O_CREAT) for _ in range(2))
hits = []
def raising(*_):
    # Again and again, as one signal could come before the wait that it is to end.
    global is_waiting
    if is_waiting:
        is_waiting = False
        hits.append(1)
        raise TimeoutError
is_waiting = False
for take in (lambda fd: fcntl.flock(fd, fcntl.LOCK_EX), lambda fd: fcntl.fcntl(fd, fcntl.F_OFD_SETLKW, lock)):
    import struct
    lock = struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 0, 0)
    take(one)
    signal.signal(signal.SIGALRM, raising)
    signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
    for _ in range(5):
        try:
            is_waiting = True
            take(other)
            raise SystemExit('taken')
        except TimeoutError:
            pass
    signal.signal(signal.SIGALRM, lambda *_: hits.append(2))
    signal.siginterrupt(signal.SIGALRM, False)
    # A byte for each signal that was handled.
    handled, said = os.pipe()
    os.set_blocking(said, False)
    signal.set_wakeup_fd(said)
    def give():
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
        for _ in range(5): os.read(handled, 1)
        os.close(one)
    thread = threading.Thread(target=give)
    thread.start()
    take(other)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.set_wakeup_fd(-1)
    thread.join()
    os.close(other)
    one, other = (os.open('/cuesta/lock', os.O_RDWR | os.O_CREAT) for _ in range(2))
# Nothing else ends the wait than that it is given up.
def give_up(held):
    while open('/proc/self/stat').read().rsplit(')')[1][1] != 'S': pass
    os.close(held)
for _ in range(100):
    take(one)
    thread = threading.Thread(target=give_up, args=(one,))
    thread.start()
    take(other)
    thread.join()
    os.close(other)
    one, other = (os.open('/cuesta/lock', os.O_RDWR | os.O_CREAT) for _ in range(2))
assert hits.count(1) == 10 and hits.count(2) > 0, hits
print('done')",
    );
}

#[test]
fn a_storm_of_signals_during_writes_is_not_noticed() {
    succeeds(
        "
import os, signal
hits = 0
def count(*_):
    global hits
    hits += 1
    os.pwrite(side, b'%8d' % hits, 0)
side = os.open('/cuesta/side', os.O_RDWR | os.O_CREAT)
fd = os.open('/cuesta/main', os.O_RDWR | os.O_CREAT)
signal.signal(signal.SIGALRM, count)
signal.setitimer(signal.ITIMER_REAL, 0.0003, 0.0003)
blocks = [bytes([n]) * 4096 for n in range(256)]
for turn in range(20000):
    assert os.pwrite(fd, blocks[turn % 256], turn % 512 * 4096) == 4096
    if turn % 16 == 0: assert os.pread(fd, 4096, turn % 512 * 4096) == blocks[turn % 256]
signal.setitimer(signal.ITIMER_REAL, 0)
assert hits > 10 and os.pread(side, 8, 0) == b'%8d' % hits, hits
for n in range(512): assert os.pread(fd, 4096, n * 4096) == blocks[n % 256]
print('done')",
    );
}

#[test]
fn a_descriptor_closed_under_readers_reads_its_file_or_none() {
    succeeds(
        "
import errno, os, threading
names = ['/cuesta/a', '/cuesta/b']
for name in names:
    with open(name, 'w') as file: file.write(name * 100)
fd = os.dup2(os.open(names[0], os.O_RDONLY), 77)
stop = False
seen = [0, 0, 0]
def read():
    while not stop:
        try:
            data = os.pread(77, 9, 0)
            assert data in (b'/cuesta/a', b'/cuesta/b'), data
            seen[data == b'/cuesta/b'] += 1
        except OSError as error:
            assert error.errno == errno.EBADF
            seen[2] += 1
threads = [threading.Thread(target=read) for _ in range(3)]
for thread in threads: thread.start()
for turn in range(5000):
    new = os.open(names[turn % 2], os.O_RDONLY)
    if turn % 3 == 0: os.close(77)
    os.dup2(new, 77)
    os.close(new)
# Nobody reads as fast as that: now each file stays until it was read.
for turn, name in enumerate(names):
    os.dup2(os.open(name, os.O_RDONLY), 77)
    before = seen[turn]
    while seen[turn] == before and any(thread.is_alive() for thread in threads): os.sched_yield()
    assert seen[turn] > before, seen
stop = True
for thread in threads: thread.join()
print('done')",
    );
}

#[test]
fn children_forked_among_busy_threads_work() {
    succeeds(
        "
import os, threading
stop = False
def work(name):
    turn = 0
    while not stop:
        turn += 1
        path = f'/cuesta/{name}-{turn % 7}'
        with open(path, 'wb') as file: file.write(b'x' * (turn % 9000))
        os.rename(path, path + '.new')
        os.unlink(path + '.new')
threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
for thread in threads: thread.start()
kept = os.open('/cuesta/kept', os.O_RDWR | os.O_CREAT)
for turn in range(150):
    child = os.fork()
    if child == 0:
        os.write(kept, b'%04d' % turn)
        with open(f'/cuesta/child-{turn}', 'w') as file: file.write(str(turn))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
stop = True
for thread in threads: thread.join()
assert os.pread(kept, 10000, 0) == b''.join(b'%04d' % turn for turn in range(150))
for turn in range(150): assert open(f'/cuesta/child-{turn}').read() == str(turn)
print('done')",
    );
}

#[test]
fn no_file_outgrows_its_writers_limit() {
    succeeds(
        "
import errno, os, resource, signal, subprocess, time
hits = []
fd = os.open('/cuesta/f', os.O_RDWR | os.O_CREAT)
os.write(fd, b'x' * 2000)
signal.signal(signal.SIGXFSZ, lambda *_: hits.append(1))
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
def refused(call):
    hits.clear()
    try:
        call()
    except OSError as error:
        assert error.errno == errno.EFBIG, error
    else:
        raise SystemExit('not refused')
    time.sleep(0)
    assert hits == [1], hits
assert os.pwrite(fd, b'y' * 3000, 0) == 1000
refused(lambda: os.pwrite(fd, b'y', 1000))
refused(lambda: os.write(fd, b'y'))
refused(lambda: os.ftruncate(fd, 2001))
refused(lambda: os.truncate('/cuesta/f', 2001))
refused(lambda: os.posix_fallocate(fd, 0, 2001) or [])
assert os.stat('/cuesta/f').st_size == 2000
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
hits.append(1)
try:
    os.pwrite(fd, b'y', 1000)
except OSError as error:
    assert error.errno == errno.EFBIG, error
if os.fork() == 0:
    # The limit is the child's, too, in a session of its own.
    try:
        os.pwrite(fd, b'y', 1000)
    except OSError as error:
        os._exit(error.errno)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.wait()[1]) == errno.EFBIG
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert os.pwrite(fd, b'y', 5000) == 1
limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
ended = subprocess.run(['head', '-c', '5000', '/dev/zero'], stdout=open('/cuesta/g', 'wb'), preexec_fn=limit)
assert ended.returncode == -signal.SIGXFSZ, ended
assert os.stat('/cuesta/g').st_size == 1000
assert os.pwrite(fd, b'y', 6000) == 1
print('done')",
    );
}

#[test]
fn a_program_that_ends_among_busy_threads_ends_without_an_error_in_them() {
    let store = Served::new();
    let folder = tempfile::tempdir().expect("folder");
    let source = r#"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void *work(void *number) {
    char name[64];
    snprintf(name, sizeof name, "/cuesta/f%ld", (long)number);
    for (;;) {
        int fd = open(name, O_RDWR | O_CREAT, 0644);
        if (fd < 0 || write(fd, "x", 1) != 1 || close(fd) != 0 || unlink(name) != 0) { perror("a thread"); _exit(9); }
    }
}
int main(void) {
    pthread_t thread;
    for (long number = 0; number < 4; number++) pthread_create(&thread, 0, work, (void *)number);
    usleep(20000);
    exit(0);
}"#;
    let program = compiled(folder.path(), "busy", source, &[]);
    for _ in 0..20 {
        let output = store.command(program.to_str().expect("a plain name")).finish();
        assert_eq!(told(&output), "exit status: 0\n");
    }
}

#[test]
fn a_call_may_come_from_a_stack_with_little_room() {
    let store = Served::new();
    let folder = tempfile::tempdir().expect("folder");
    // As goroutines do: a stack of 2 KiB, above memory that must not be touched.
    let source = r#"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#define ROOM 1024
static __thread char memory[3 * ROOM] __attribute__((aligned(64)));
static long on_small_stack(long number, long a, long b, long c) {
    long answer;
    __asm__ volatile("mov %%rsp, %%rbx\n mov %5, %%rsp\n syscall\n mov %%rbx, %%rsp"
        : "=a"(answer) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(memory + 2 * ROOM) : "rbx", "rcx", "r11", "memory");
    return answer;
}
static void *work(void *name) {
    memset(memory, 'k', ROOM);
    long fd = on_small_stack(SYS_open, (long)name, O_RDWR | O_CREAT, 0644);
    long wrote = on_small_stack(SYS_write, fd, (long)"x", 1);
    int touched = 0;
    for (int at = 0; at < ROOM; at++) touched += memory[at] != 'k';
    printf("%ld %d\n", wrote, touched);
    return 0;
}
int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, work, "/cuesta/one");
    pthread_join(thread, 0);
    work("/cuesta/two");
}"#;
    let program = compiled(folder.path(), "small", source, &[]);
    let output = store.command(program.to_str().expect("a plain name")).finish();
    assert_eq!(told(&output), "1 0\n1 0\nexit status: 0\n");
}

#[test]
fn a_program_of_the_store_started_by_vfork_leaves_its_parents_descriptors_alone() {
    let store = Served::new();
    // dash makes a child by vfork for a simple command, and by fork for a pipeline.
    let script = "cp /bin/echo /cuesta/own; for i in 1 2 3; do /cuesta/own $i; echo through | cat; done";
    let told = told(&store.command("dash").args(["-c", script]).finish());
    assert_eq!(told, "1\nthrough\n2\nthrough\n3\nthrough\nexit status: 0\n");
}

/// A vfork child and its own child are two processes with ids of their own, in one memory.
#[test]
fn a_vfork_grandchild_that_becomes_another_user_leaves_its_parent_what_it_was() {
    const PROGRAM: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
static int can_read(void) {
    int file = open("/cuesta/secret", O_RDONLY);
    if (file >= 0) close(file);
    return file >= 0;
}
static volatile int child[2], grandchild[2];
int main(void) {
    close(open("/cuesta/secret", O_CREAT | O_WRONLY, 0600));
    if (vfork() == 0) {
        child[0] = can_read();
        if (vfork() == 0) {
            grandchild[0] = can_read();
            syscall(SYS_setresuid, 1234, 1234, 1234);
            grandchild[1] = can_read();
            _exit(0);
        }
        child[1] = can_read();
        _exit(0);
    }
    printf("child %d %d, grandchild %d %d, itself %d\n", child[0], child[1], grandchild[0], grandchild[1], can_read());
}"#;
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root becomes somebody else");
    }
    let store = Served::new();
    let folder = tempfile::tempdir().expect("folder");
    let program = compiled(folder.path(), "ids", PROGRAM, &[]);
    let output = store.command(program.to_str().expect("a plain name")).finish();
    assert_eq!(told(&output), "child 1 1, grandchild 1 0, itself 1\nexit status: 0\n");
}

#[test]
fn the_working_directory_is_where_its_directory_is() {
    succeeds(
        "
import os, subprocess
os.makedirs('/cuesta/a/b/c')
os.symlink('a/b', '/cuesta/link')
os.chdir('/cuesta/link/c')
def where(): return os.getcwd(), subprocess.check_output(['/bin/pwd', '-P']).decode().strip()
assert where() == ('/cuesta/a/b/c',) * 2, where()
os.rename('/cuesta/a', '/cuesta/moved')
assert where() == ('/cuesta/moved/b/c',) * 2, where()
subprocess.check_call(['mv', '/cuesta/moved/b', '/cuesta/b'])
assert where() == ('/cuesta/b/c',) * 2, where()
os.chdir('..')
assert where() == ('/cuesta/b',) * 2 and os.listdir('.') == ['c']
os.chdir('/cuesta/link/../..' if os.path.exists('/cuesta/link') else '/cuesta')
assert where() == ('/cuesta',) * 2, where()
with open('plain', 'w'): pass
for call, error in ((lambda: os.chdir('plain'), 'NotADirectoryError'), (lambda: os.chdir('none'), 'FileNotFoundError')):
    try: call()
    except OSError as found: assert type(found).__name__ == error, found
    else: raise SystemExit('not refused')
os.mkdir('gone')
os.chdir('gone')
os.rmdir('/cuesta/gone')
try: os.getcwd()
except FileNotFoundError: pass
else: raise SystemExit('it is nowhere')
print('done')",
    );
}

#[test]
fn a_program_allowed_few_descriptors_keeps_what_it_inherits() {
    let store = Served::new();
    let script = "cd /cuesta; exec 5> five; ulimit -n 64; /bin/pwd; sh -c 'echo kept >&5'; cat five";
    let told = told(&store.command("bash").args(["-c", script]).finish());
    assert_eq!(told, "/cuesta\nkept\nexit status: 0\n");
}

#[test]
fn a_program_may_take_any_number_for_its_descriptors_and_close_them_all() {
    succeeds(
        "
import os, resource
fd = os.open('/cuesta/file', os.O_RDWR | os.O_CREAT)
null = os.open('/dev/null', os.O_RDWR)
limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
def works(text):
    name = f'/cuesta/{text}'
    with open(name, 'wb') as file: file.write(b'x' * 3000000)
    assert os.path.getsize(name) == 3000000 and os.pwrite(fd, b'y' * 70000, 0) == 70000
works('before')
for number in range(40, 1100):
    if number < limit:
        os.dup2(null if number % 2 else fd, number)
for number in range(40, 1100):
    if number < limit:
        assert os.fstat(number).st_ino == os.fstat(null if number % 2 else fd).st_ino, number
works('taken')
os.closerange(40, 1100)
works('closed')
for number in range(40, 1100):
    try:
        os.close(number)
        raise SystemExit(f'{number} was open')
    except OSError: pass
works('closed again')
for child in range(3):
    if os.fork() == 0:
        works(f'child{child}')
        os._exit(0)
    assert os.wait()[1] == 0
print('done')",
    );
}

#[test]
fn the_limit_of_descriptors_may_fall_and_rise() {
    succeeds(
        "
import os, resource, subprocess
fd = os.open('/cuesta/file', os.O_RDWR | os.O_CREAT)
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
for limit in (64, 200, 32, min(hard, 4096), 48):
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    os.write(fd, b'1')
    if os.fork() == 0:
        os.write(fd, b'2')
        open(f'/cuesta/child{limit}', 'w').write('child')
        os.closerange(3, limit)
        assert open(f'/cuesta/child{limit}').read() == 'child'
        os._exit(0)
    assert os.wait()[1] == 0
    assert subprocess.check_output(['cat', f'/cuesta/child{limit}']) == b'child'
    opened = []
    try:
        while len(opened) < 5000: opened.append(os.open('/cuesta/file', os.O_RDONLY))
    except OSError as error: assert error.errno == 24, error
    assert len(opened) > limit - 30, (limit, len(opened))
    for one in opened: os.close(one)
assert os.pread(fd, 100, 0) == b'12' * 5
print('done')",
    );
}

#[test]
fn a_fork_beside_a_thread_that_waits_for_the_daemon_leaves_the_child_usable() {
    use std::io::{Read as _, Write as _};
    use std::sync::mpsc::channel;
    let folder = tempfile::tempdir().expect("folder");
    let socket = folder.path().join("sock");
    let listener = std::os::unix::net::UnixListener::bind(&socket).expect("socket");
    let (connected, is_connected) = channel();
    // A daemon that never answers the first that asks, and answers all others what makes no sense: the child, and the
    // thread when it asks whether it was heard. It ends with the test: a peer that closes is a daemon that went away.
    std::thread::spawn(move || {
        let (mut first, _) = listener.accept().expect("the thread");
        first.read_exact(&mut [0]).expect("a question");
        connected.send(()).expect("somebody waits");
        let mut answered = vec![first];
        for other in listener.incoming() {
            let mut other = other.expect("a connection");
            if other.read_exact(&mut [0]).is_ok() {
                // A client that only asks whether it was heard may have gone.
                let _ = other.write_all(&[0xff; 4]);
            }
            answered.push(other);
        }
    });
    let script = "
import os, sys, threading
threading.Thread(target=lambda: os.path.exists('/cuesta/a'), daemon=True).start()
sys.stdin.readline()
if os.fork() == 0:
    try: os.stat('/cuesta/b')
    except OSError as error: print('errno', error.errno)
    sys.stdout.flush()
    os._exit(0)
print(os.waitstatus_to_exitcode(os.wait()[1]))
sys.stdout.flush()
os.kill(os.getpid(), 9)";
    let mut command = crate::common::preloaded("timeout", &socket, folder.path());
    command.args(["20", "python3", "-c", script]).stdin(std::process::Stdio::piped());
    let mut program = command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("runs");
    is_connected.recv().expect("the thread asks");
    drop(program.stdin.take());
    let output = program.wait_with_output().expect("ends");
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("errno {}\n0\n", libc::EIO));
}
