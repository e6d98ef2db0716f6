//! Files that processes take turns with, a few operations at a time: SharedFS performs the operations, and no process notices.

use crate::common::Finish as _;
use crate::common::{Served, compiled, told};
use cuesta_format::event::Step;
use cuesta_format::wire::{Request, Response};
use cuesta_libfs::{Link as _, SocketLink};
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt as _;

/// Processes in a ring: the one that has the token makes one change to the file and to a copy in memory, and compares all of both.
const TURNS: &str = r#"
    #define _GNU_SOURCE
    #include <errno.h>
    #include <fcntl.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/mman.h>
    #include <sys/stat.h>
    #include <sys/wait.h>
    #include <unistd.h>
    enum { PROCESSES = 3, ROUNDS = 900, ROOM = 256 << 10 };
    struct model { long size; unsigned seed; char bytes[ROOM]; } *model;
    static int failed(const char *what, int round) {
        fprintf(stderr, "round %d: %s: %s\n", round, what, strerror(errno));
        return 1;
    }
    static void resize(long size) {
        if (size < model->size) memset(model->bytes + size, 0, model->size - size);
        model->size = size;
    }
    static int change(int file, int appending, int round) {
        static char data[ROOM];
        long at = rand_r(&model->seed) % (ROOM / 2), length = 1 + rand_r(&model->seed) % 20000;
        memset(data, 'a' + round % 26, length);
        switch (rand_r(&model->seed) % 8) {
        case 0: case 1:
            if (pwrite(file, data, length, at) != length) return failed("pwrite", round);
            if (at + length > model->size) model->size = at + length;
            memcpy(model->bytes + at, data, length);
            return 0;
        case 2: case 3:
            if (model->size + 200 > ROOM) return ftruncate(file, 0) ? failed("cut", round) : (resize(0), 0);
            if (write(appending, data, 200) != 200) return failed("append", round);
            memcpy(model->bytes + model->size, data, 200);
            model->size += 200;
            if (lseek(appending, 0, SEEK_CUR) != model->size) return failed("offset behind an append", round);
            return 0;
        case 4:
            if (ftruncate(file, at)) return failed("ftruncate", round);
            resize(at);
            return 0;
        case 5:
            if (fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, length)) return failed("punch", round);
            if (at < model->size) memset(model->bytes + at, 0, at + length < model->size ? length : model->size - at);
            return 0;
        case 6:
            if (fallocate(file, 0, at, length)) return failed("fallocate", round);
            if (at + length > model->size) model->size = at + length;
            return 0;
        default:
            if (lseek(file, at, SEEK_SET) != at || write(file, data, 10) != 10) return failed("write", round);
            if (lseek(file, 0, SEEK_CUR) != at + 10) return failed("offset", round);
            if (at + 10 > model->size) model->size = at + 10;
            memcpy(model->bytes + at, data, 10);
            return fsync(file) ? failed("fsync", round) : 0;
        }
    }
    static int is_same(int file, int round) {
        static char found[ROOM + 1];
        struct stat stat;
        if (fstat(file, &stat)) return failed("fstat", round), 0;
        if (stat.st_size != model->size || lseek(file, 0, SEEK_END) != model->size) return failed("size", round), 0;
        if (pread(file, found, sizeof found, 0) != model->size) return failed("short read", round), 0;
        if (memcmp(found, model->bytes, model->size)) return failed("other content", round), 0;
        return 1;
    }
    int main(int count, char **arguments) {
        const char *path = arguments[1];
        int rings[PROCESSES][2];
        model = mmap(NULL, sizeof *model, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        model->seed = atoi(arguments[2]);
        close(open(path, O_CREAT | O_RDWR, 0644));
        for (int each = 0; each < PROCESSES; each++) if (pipe(rings[each])) return 1;
        for (int each = 0; each < PROCESSES; each++) {
            if (fork()) continue;
            int file = open(path, O_RDWR), appending = open(path, O_WRONLY | O_APPEND), round;
            if (file < 0 || appending < 0) _exit(failed("open", -1));
            while (read(rings[each][0], &round, sizeof round) == sizeof round) {
                // From half on the file has no name, but those who have it open.
                if (round == ROUNDS / 2 && unlink(path)) _exit(failed("unlink", round));
                int wrong = round >= 0 && round < ROUNDS && (change(file, appending, round) || !is_same(file, round));
                int next = wrong ? -1 : round < 0 || round >= ROUNDS + PROCESSES ? round : round + 1;
                if (write(rings[(each + 1) % PROCESSES][1], &next, sizeof next) != sizeof next) _exit(1);
                if (next < 0 || round >= ROUNDS) _exit(wrong || round < 0);
            }
            _exit(1);
        }
        int first = 0, bad = 0, status;
        if (write(rings[0][1], &first, sizeof first) != sizeof first) return 1;
        while (wait(&status) > 0) bad |= status;
        return bad ? 1 : 0;
    }"#;

#[test]
fn a_file_that_processes_take_turns_with_is_the_same_to_all_of_them() {
    let store = Served::configured("ship = \"auto\"");
    let folder = tempfile::tempdir().expect("folder");
    let program = compiled(folder.path(), "turns", TURNS, &[]);
    let path = program.to_str().expect("a plain name");
    for seed in 1..4 {
        println!("seed {seed}");
        let ran = store.command(path).args(["/cuesta/shared", &seed.to_string()]).finish();
        assert!(ran.status.success(), "{}", told(&ran));
    }
    // It was not only leases that went around.
    let mut link =
        SocketLink::connect(store.folder().join("sock").as_os_str().as_bytes(), 0).expect("the daemon");
    let (mut senders, mut from) = (BTreeSet::new(), 0);
    loop {
        let events = link.call(&Request::Trace { from, wait_ms: 0 }, &mut Vec::new());
        let Ok(Response::Events(events)) = events else { panic!("no trace: {events:?}") };
        let Some(last) = events.last() else { break };
        from = last.number + 1;
        senders.extend(events.iter().filter_map(|event| match event.step {
            Step::Ship { session, .. } => Some(session),
            _ => None,
        }));
    }
    assert!(senders.len() > 1, "operations were sent by {senders:?}");
}

/// Processes that make files in one directory, and do with them what programs do; of those that want the same name one gets it.
const MAKING: &str = r#"
import os, random, sys
PROCESSES, ROUNDS = 3, 80
seed = int(sys.argv[1])
os.mkdir(f'/cuesta/{seed}')
os.chdir(f'/cuesta/{seed}')
def work(me):
    won, chance = 0, random.Random(seed * 100 + me)
    for turn in range(ROUNDS):
        try:
            os.close(os.open(f'race-{turn}', os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            won += 1
        except FileExistsError:
            pass
        name, text = f'{me}-{turn}', os.urandom(chance.randrange(1, 9000))
        file = os.open(name, os.O_CREAT | os.O_RDWR | os.O_TRUNC, 0o640)
        assert os.write(file, text) == len(text)
        found = os.fstat(file)
        assert (found.st_size, found.st_mode, found.st_nlink) == (len(text), 0o100640, 1), found
        assert os.stat(name).st_ino == found.st_ino
        way = turn % 5
        if way == 0:
            os.rename(name, name + '-moved')
            name += '-moved'
        elif way == 1:
            os.unlink(name)
            assert os.fstat(file).st_nlink == 0
        elif way == 2:
            child = os.fork()
            if child == 0:
                os._exit(os.write(file, b'child') != 5)
            assert os.waitpid(child, 0)[1] == 0
            text += b'child'
        elif way == 3:
            os.fchmod(file, 0o600)
            os.ftruncate(file, len(text) // 2)
            os.lseek(file, 0, os.SEEK_END)
            text = text[:len(text) // 2]
        assert os.write(file, b'more') == 4
        text += b'more'
        assert os.pread(file, 20000, 0) == text
        os.close(file)
        if way == 1:
            assert not os.path.exists(name)
            continue
        with open(name, 'rb') as again:
            assert again.read() == text
    return won
pipes = [os.pipe() for _ in range(PROCESSES)]
for me in range(PROCESSES):
    if os.fork() == 0:
        os.write(pipes[me][1], b'%d ' % work(me))
        os._exit(0)
for _ in range(PROCESSES):
    assert os.wait()[1] == 0
assert sum(int(os.read(pipe[0], 10)) for pipe in pipes) == ROUNDS
left = sorted(os.listdir('.'))
assert len(left) == ROUNDS + PROCESSES * ROUNDS * 4 // 5, left
"#;

#[test]
fn files_that_are_made_in_a_shared_directory_are_as_any() {
    for which in ["always", "random", "auto", "never"] {
        let store = Served::configured(&format!("ship = \"{which}\""));
        for seed in 1..3 {
            let ran = store.command("python3").args(["-c", MAKING, &seed.to_string()]).finish();
            assert!(ran.status.success(), "{which}, seed {seed}: {}", told(&ran));
        }
    }
}
