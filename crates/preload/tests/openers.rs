//! Files without a name that several processes have open, as programs make them: shells, python, sort, git.

use crate::common::{Finish as _, Served, told};
use std::time::{Duration, Instant};

/// Runs a script that leaves nothing behind; waits for its last process to be gone and everything to be digested.
fn run(program: &str, script: &str) -> String {
    let store = Served::new();
    let told = told(&store.command(program).args(["-c", script]).finish());
    let deadline = Instant::now() + Duration::from_secs(60);
    while store.inodes() > 1 && Instant::now() < deadline {
        std::thread::yield_now();
    }
    assert_eq!(store.inodes(), 1, "files nobody has open are left: {told}");
    told
}

fn shell(script: &str) -> String {
    // The shell itself has nothing open any more: the root is left.
    let full = format!(
        "used() {{ echo $(($(stat -f -c '%c - %d' /cuesta))); }}; {script}
cd /; i=0; while [ $(used) != 1 ] && [ $i -lt 1200 ]; do sleep 0.05; i=$((i+1)); done; used; ls -A /cuesta"
    );
    run("bash", &full)
}

/// `used()` is the number of inodes there are, `empty()` waits for there to be none but the root.
fn python(script: &str) {
    let counting = "
import os, time
def used():
    totals = os.statvfs('/cuesta')
    return totals.f_files - totals.f_ffree
def empty():
    for _ in range(3000):
        if used() == 1: return True
        time.sleep(0.02)
    return False
assert used() == 1
";
    let told = run("python3", &format!("{counting}{script}"));
    assert!(told.starts_with("done\n"), "{told}");
}

const WELL: &str = "1\nexit status: 0\n";

#[test]
fn a_shell_reads_and_writes_a_file_that_rm_removed() {
    let script = "cd /cuesta; exec 3<>f; echo one >&3; rm f; echo two >&3; ls;
        stat -L -c '%h %s' /dev/fd/3; readlink /proc/self/fd/3; cat /dev/fd/3; cat <&3; exec 3>&-";
    assert_eq!(shell(script), format!("0 8\n/cuesta/f (deleted)\none\ntwo\n{WELL}"));
}

#[test]
fn a_here_document_longer_than_a_pipe_reaches_every_reader() {
    let script =
        "mkdir /cuesta/tmp; export TMPDIR=/cuesta/tmp; text=$(head -c 300000 /dev/zero | tr '\\0' x);
        cat <<END | wc -c\n$text\nEND
        wc -c <<END\n$text\nEND
        (cat | wc -c) <<END\n$text\nEND
        wc -c <<<\"$text\"; exec 5<<END\n$text\nEND
        head -c 10 <&5; echo; cat <&5 | wc -c; exec 5<&-; rmdir /cuesta/tmp";
    let text = "300001\n300001\n300001\n300001\nxxxxxxxxxx\n299991\n";
    assert_eq!(shell(script), format!("{text}{WELL}"));
}

#[test]
fn a_log_is_rotated_under_its_writer() {
    let script = "cd /cuesta; (while read -r line; do echo \"$line\"; done) >log < <(
            echo 1; mv log log.1; echo 2; echo new >log.2; mv log.2 log.1; echo 3; rm log.1; echo 4) &
        wait; (exec 4>>log; echo a >&4; echo other >new; mv new log; echo b >&4; stat -L -c %h /dev/fd/4; cat log);
        rm log";
    assert_eq!(shell(script), format!("0\nother\n{WELL}"));
}

#[test]
fn background_children_keep_what_their_shell_removed_and_left() {
    let script = "cd /cuesta; mkfifo /tmp/cuesta-openers-$$ || exit; fifo=/tmp/cuesta-openers-$$
        echo content >f
        # The child has the file and no session when everybody else is gone from it.
        (exec 3<f; (read -r go <$fifo; cat <&3; wc -c <&3; echo done >$fifo.out) >out 2>&1 &) 
        rm f; sync; echo go >$fifo; while [ ! -e $fifo.out ]; do sleep 0.02; done; cat out; rm out $fifo $fifo.out";
    assert_eq!(shell(script), format!("content\n0\n{WELL}"));
}

#[test]
fn exec_in_the_same_process_keeps_files_without_names() {
    let script = "cd /cuesta; echo text >f; exec 3<f 4<>g; rm f g; echo kept >&4
        (exec sh -c 'exec sh -c \"cat <&3; cat /dev/fd/4; exec 3<&-; exec cat /proc/self/fd/4\"')
        exec 3<&- 4<&-";
    assert_eq!(shell(script), format!("text\nkept\nkept\n{WELL}"));
}

#[test]
fn sort_and_git_work_with_their_temporary_files_in_the_store() {
    let script = "cd /cuesta; mkdir tmp; export TMPDIR=/cuesta/tmp HOME=/cuesta
        seq 40000 | sort -R -S 64K --parallel=1 | sort -n -S 64K -T /cuesta/tmp | md5sum; seq 40000 | md5sum
        git init -q r; cd r; seq 1000 >a; git add a; git -c user.name=n -c user.email=e commit -qm m
        git gc -q; git fsck; git log --format=%s | cat; cd ..; rm -rf r tmp .gitconfig";
    let told = shell(script);
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines[0], lines[1], "{told}");
    assert_eq!(lines[2..], ["m", "1", "exit status: 0"], "{told}");
}

#[test]
fn a_child_goes_on_with_a_temporary_file_of_its_parent() {
    python(
        "
import subprocess, tempfile
tempfile.tempdir = '/cuesta'
# posix_spawn and exec, with the parent's copy closed before the child looks.
with tempfile.TemporaryFile() as file:
    file.write(b'x' * 100000 + b'end'); file.flush(); file.seek(0)
    fd = file.fileno()
    child = subprocess.Popen(['bash', '-c', f'read go; cat <&{fd} | tail -c 3'], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, pass_fds=[fd])
assert child.communicate(b'go\\n')[0] == b'end'
spawned = tempfile.TemporaryFile()
spawned.write(b'spawned'); spawned.flush(); spawned.seek(0)
out = os.pipe()
pid = os.posix_spawn('/bin/cat', ['cat'], os.environ, file_actions=[
    (os.POSIX_SPAWN_DUP2, spawned.fileno(), 0), (os.POSIX_SPAWN_DUP2, out[1], 1)])
spawned.close()
os.waitpid(pid, 0)
assert os.read(out[0], 100) == b'spawned'
# A file the child of a spawn opens itself, and its name removed before it is used.
open('/cuesta/named', 'w').write('named')
ready, go = os.pipe(), os.pipe()
pid = os.posix_spawn('/bin/sh', ['sh', '-c', 'echo >&%d; read go <&%d; cat' % (ready[1], go[0])], os.environ,
    file_actions=[(os.POSIX_SPAWN_OPEN, 0, '/cuesta/named', os.O_RDONLY, 0), (os.POSIX_SPAWN_DUP2, out[1], 1),
        (os.POSIX_SPAWN_DUP2, ready[1], ready[1]), (os.POSIX_SPAWN_DUP2, go[0], go[0])])
os.read(ready[0], 1)
os.unlink('/cuesta/named')
os.write(go[1], b'go\\n')
os.waitpid(pid, 0)
assert os.read(out[0], 100) == b'named'
assert empty(), used()
print('done')",
    );
}

#[test]
fn forked_processes_share_a_file_that_one_of_them_removed() {
    python(
        "
fd = os.open('/cuesta/f', os.O_RDWR | os.O_CREAT)
os.write(fd, b'first ')
turn = [os.pipe() for _ in range(4)]
def wait(n): assert os.read(turn[n][0], 1) == b'.'
def tell(n): os.write(turn[n][1], b'.')
if os.fork() == 0:
    # The child removes it: it has the descriptor, and no session yet.
    os.unlink('/cuesta/f')
    tell(0); wait(1)
    os.write(fd, b'child ')
    # A daemon: the grandchild has it alone in the end.
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            wait(2)
            assert os.fstat(fd).st_nlink == 0
            assert os.pread(fd, 100, 0) == b'first child parent ', os.pread(fd, 100, 0)
            os.write(fd, b'daemon')
            assert os.pread(fd, 100, 19) == b'daemon'
            tell(3)
        os._exit(0)
    os._exit(0)
wait(0)
assert os.fstat(fd).st_nlink == 0 and os.listdir('/cuesta') == []
tell(1)
os.wait()
os.write(fd, b'parent ')
os.close(fd)
assert used() == 2
tell(2); wait(3)
assert empty(), used()
print('done')",
    );
}

#[test]
fn a_process_killed_before_it_used_what_it_inherited_keeps_nothing() {
    python(
        "
import signal
fd = os.open('/cuesta/f', os.O_RDWR | os.O_CREAT)
os.write(fd, b'x' * 100000)
pid = os.fork()
if pid == 0:
    time.sleep(100)
    os._exit(0)
os.unlink('/cuesta/f')
os.close(fd)
# Digested when nothing happens for a while, and kept then.
for _ in range(6000):
    if used() == 2: break
    time.sleep(0.01)
time.sleep(0.1)
assert used() == 2
os.kill(pid, signal.SIGKILL)
os.waitpid(pid, 0)
assert used() == 1
print('done')",
    );
}

#[test]
fn threads_that_open_and_close_while_others_fork_lose_no_descriptor() {
    python(
        "
import subprocess, threading
stop = False
wrong = []
def work(n):
    name = '/cuesta/%d' % n
    while not stop:
        fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        os.write(fd, b'%d' % n)
        os.unlink(name)
        null = os.open('/etc/passwd', os.O_RDONLY)
        if os.pread(fd, 10, 0) != b'%d' % n or not os.read(null, 4) == b'root': wrong.append(n)
        os.close(null)
        os.close(fd)
threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
for thread in threads: thread.start()
for turn in range(40):
    if turn % 2:
        assert subprocess.run(['true']).returncode == 0
    else:
        pid = os.fork()
        if pid == 0: os._exit(0)
        os.waitpid(pid, 0)
stop = True
for thread in threads: thread.join()
assert not wrong and os.listdir('/cuesta') == []
print('done')",
    );
}
