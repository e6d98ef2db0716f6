//! Threads that are cancelled, end or jump away in the middle of a call: the calls of the others go on, and what is
//! shared is whole.

use crate::common::{Finish as _, Served, compiled, told};

const HEAD: &str = r#"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#define CHECK(what) do { if (!(what)) { printf("line %d: %s (%s)\n", __LINE__, #what, strerror(errno)); exit(1); } } while (0)
static volatile int cleaned, working;
static void clean(void *unused) { cleaned++; }
/* The store works, in this thread and in another. */
static void *use(void *name) {
    char data[5000], seen[5000];
    memset(data, 'd', sizeof data);
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
    CHECK(fd >= 0 && write(fd, data, sizeof data) == sizeof data && pread(fd, seen, sizeof seen, 0) == sizeof seen);
    CHECK(!memcmp(data, seen, sizeof data) && !fsync(fd) && !close(fd) && !unlink(name));
    return 0;
}
static void works(void) {
    pthread_t thread;
    use("/cuesta/here");
    CHECK(!pthread_create(&thread, 0, use, "/cuesta/there") && !pthread_join(thread, 0));
}
"#;

fn says_done(body: &str) {
    let store = Served::new();
    let folder = tempfile::tempdir().expect("folder");
    let program = compiled(
        folder.path(),
        "program",
        &format!("{HEAD}{body}"),
        &["-Wno-unused-result", "-Wno-unused-function"],
    );
    let output = store.command(program.to_str().expect("a plain name")).finish();
    assert_eq!(told(&output), "done\nexit status: 0\n");
}

#[test]
fn a_thread_cancelled_among_its_calls_ends_and_leaves_everything_whole() {
    says_done(
        r#"
static int fd;
static void *calls(void *kind) {
    char bytes[4096] = "";
    FILE *stream = 0;
    pthread_cleanup_push(clean, 0);
    working = 1;
    for (long turn = 0;; turn++) switch ((long)kind) {
        case 0: pwrite(fd, bytes, sizeof bytes, turn % 100 * 4096); break;
        case 1: pread(fd, bytes, sizeof bytes, 0); break;
        case 2: fsync(fd); break;
        case 3: if (turn % 1000 == 0) lseek(fd, 0, SEEK_SET); write(fd, bytes, sizeof bytes); break;
        case 4: if (!stream) stream = fopen("/cuesta/stream", "w"); fputc('x', stream); fflush(stream); break;
        case 5: { int one = open("/cuesta/opened", O_RDWR | O_CREAT, 0600); if (one >= 0) close(one); } break;
        case 6: { struct pollfd one = { fd, POLLIN }; poll(&one, 1, -1); } break;
        case 7: rename("/cuesta/a", "/cuesta/b"); rename("/cuesta/b", "/cuesta/a"); pthread_testcancel(); break;
    }
    pthread_cleanup_pop(0);
    return 0;
}
int main(void) {
    fd = open("/cuesta/file", O_RDWR | O_CREAT, 0644);
    close(open("/cuesta/a", O_WRONLY | O_CREAT, 0644));
    for (long turn = 0; turn < 160; turn++) {
        pthread_t thread;
        void *answer;
        cleaned = working = 0;
        CHECK(!pthread_create(&thread, 0, calls, (void *)(turn % 8)));
        while (!working);
        if (turn % 3) usleep(turn * 7 % 300);
        CHECK(!pthread_cancel(thread) && !pthread_join(thread, &answer));
        CHECK(answer == PTHREAD_CANCELED && cleaned == 1);
        works();
    }
    puts("done");
}"#,
    );
}

#[test]
fn a_thread_that_waits_for_a_lock_can_be_cancelled_and_the_lock_still_works() {
    says_done(
        r#"
static int waiting;
static void *wait_for(void *kind) {
    struct flock lock = { .l_type = F_WRLCK };
    waiting = open("/cuesta/lock", O_RDWR | O_CREAT, 0644);
    pthread_cleanup_push(clean, 0);
    working = 1;
    CHECK(fcntl(waiting, F_OFD_SETLKW, &lock) == 0);
    pthread_cleanup_pop(0);
    return 0;
}
int main(void) {
    int fd = open("/cuesta/lock", O_RDWR | O_CREAT, 0644);
    for (int turn = 0; turn < 1000; turn++) {
        struct flock lock = { .l_type = F_WRLCK }, unlock = { .l_type = F_UNLCK };
        pthread_t thread;
        void *answer;
        cleaned = working = 0;
        CHECK(!fcntl(fd, F_OFD_SETLK, &lock) && !pthread_create(&thread, 0, wait_for, 0));
        while (!working);
        /* Wherever it is on its way; where it waits, too. */
        for (volatile int wait = turn * 7 % 4001; wait; wait--);
        if (turn % 200 == 0) usleep(2000);
        CHECK(!pthread_cancel(thread) && !pthread_join(thread, &answer) && answer == PTHREAD_CANCELED && cleaned == 1);
        CHECK(!fcntl(fd, F_OFD_SETLK, &unlock) && !close(waiting));
        int other = open("/cuesta/lock", O_RDWR);
        CHECK(!fcntl(other, F_OFD_SETLK, &lock) && !close(other));
        if (turn % 100 == 0) works();
    }
    puts("done");
}"#,
    );
}

#[test]
fn a_thread_that_waits_for_the_other_end_of_a_pipe_can_be_cancelled() {
    says_done(
        r#"
static void *opens(void *unused) {
    working = 1;
    open("/cuesta/pipe", O_RDONLY);
    return 0;
}
int main(void) {
    CHECK(!mkfifo("/cuesta/pipe", 0600));
    for (int round = 0; round < 20; round++) {
        pthread_t thread;
        void *answer;
        working = 0;
        CHECK(!pthread_create(&thread, 0, opens, 0));
        while (!working) sched_yield();
        for (int turn = 0; turn < round * 20; turn++) sched_yield();
        CHECK(!pthread_cancel(thread) && !pthread_join(thread, &answer) && answer == PTHREAD_CANCELED);
    }
    works();
    printf("done\n");
    return 0;
}
"#,
    );
}

#[test]
fn a_thread_that_was_cancelled_goes_on_to_its_next_cancellation_point() {
    says_done(
        r#"
static volatile int cancelled;
static int fd;
static void *goes_on(void *unused) {
    struct flock lock = { .l_type = F_WRLCK };
    struct stat stat;
    pthread_cleanup_push(clean, 0);
    working = 1;
    while (!cancelled);
    /* None of these is one. */
    CHECK(!fcntl(fd, F_OFD_SETLK, &lock) && !flock(fd, LOCK_EX) && !fstat(fd, &stat) && !ftruncate(fd, 9));
    CHECK(!rename("/cuesta/a", "/cuesta/b") && !link("/cuesta/b", "/cuesta/a") && !unlink("/cuesta/b"));
    CHECK(!mkdir("/cuesta/d", 0700) && !rmdir("/cuesta/d") && !truncate("/cuesta/a", 100) && !chmod("/cuesta/a", 0600));
    CHECK(dup2(fd, 40) == 40 && dup2(1, 40) == 40 && lseek(fd, 0, SEEK_END) == 9);
    CHECK(!cleaned);
    pthread_testcancel();
    pthread_cleanup_pop(0);
    return 0;
}
int main(void) {
    close(open("/cuesta/a", O_WRONLY | O_CREAT, 0644));
    for (int turn = 0; turn < 20; turn++) {
        pthread_t thread;
        void *answer;
        cleaned = working = cancelled = 0;
        CHECK((fd = open("/cuesta/file", O_RDWR | O_CREAT, 0644)) >= 0 && !pthread_create(&thread, 0, goes_on, 0));
        while (!working);
        CHECK(!pthread_cancel(thread));
        cancelled = 1;
        CHECK(!pthread_join(thread, &answer) && answer == PTHREAD_CANCELED && cleaned == 1 && !close(fd));
        works();
    }
    puts("done");
}"#,
    );
}

#[test]
fn a_thread_that_forbids_it_is_not_cancelled() {
    says_done(
        r#"
static int fd;
static void *forbids(void *unused) {
    int before;
    char bytes[4096] = "";
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    working = 1;
    for (int turn = 0; turn < 20000; turn++) CHECK(pwrite(fd, bytes, sizeof bytes, 0) == sizeof bytes);
    cleaned = 1;
    pthread_setcancelstate(before, 0);
    pwrite(fd, "z", 1, 0);
    return 0;
}
int main(void) {
    pthread_t thread;
    void *answer;
    fd = open("/cuesta/file", O_RDWR | O_CREAT, 0644);
    CHECK(!pthread_create(&thread, 0, forbids, 0));
    while (!working);
    char first = 'a';
    CHECK(!pthread_cancel(thread) && !pthread_join(thread, &answer) && answer == PTHREAD_CANCELED && cleaned);
    CHECK(pread(fd, &first, 1, 0) == 1 && first == 0);
    works();
    puts("done");
}"#,
    );
}

#[test]
fn a_handler_for_one_signal_is_called_once() {
    says_done(
        r#"
static volatile int called;
static void once(int signal) { called++; }
int main(void) {
    int kinds[] = { SIGUSR1, SIGSEGV, SIGBUS, SIGXFSZ };
    for (int at = 0; at < 4; at++) {
        struct sigaction action = { .sa_handler = once, .sa_flags = SA_RESETHAND | (at % 2 ? SA_NODEFER : 0) }, seen;
        CHECK(!sigaction(kinds[at], &action, 0));
        use("/cuesta/before");
        called = 0;
        CHECK(!raise(kinds[at]) && called == 1);
        CHECK(!sigaction(kinds[at], 0, &seen) && seen.sa_handler == SIG_DFL);
        int status, child = fork();
        if (!child) { use("/cuesta/child"); raise(kinds[at]); _exit(0); }
        CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == kinds[at] && called == 1);
        works();
    }
    puts("done");
}"#,
    );
}

#[test]
fn a_handler_may_jump_out_of_a_call() {
    says_done(
        r#"
static sigjmp_buf place;
static volatile sig_atomic_t armed, jumps;
static void jump(int signal) { if (armed) { armed = 0; jumps++; siglongjmp(place, 1); } }
int main(void) {
    struct sigaction action = { .sa_handler = jump };
    char block[8192], seen[8192];
    int fd = open("/cuesta/file", O_RDWR | O_CREAT, 0644);
    sigaction(SIGALRM, &action, 0);
    for (volatile int turn = 0; turn < 1500; turn++) {
        memset(block, 'a' + turn % 26, sizeof block);
        struct itimerval soon = { .it_value = { 0, 1 + turn % 90 } }, never = { 0 };
        if (!sigsetjmp(place, 1)) {
            armed = 1;
            setitimer(ITIMER_REAL, &soon, 0);
            for (;;) switch (turn % 4) {
                case 0: pwrite(fd, block, sizeof block, 0); break;
                case 1: pread(fd, seen, sizeof seen, 0); break;
                case 2: close(open("/cuesta/other", O_RDWR | O_CREAT, 0600)); break;
                case 3: { struct stat stat; fstat(fd, &stat); stat.st_size += rename("/cuesta/file", "/cuesta/file"); } break;
            }
        }
        setitimer(ITIMER_REAL, &never, 0);
        CHECK(pwrite(fd, block, sizeof block, 0) == sizeof block && pread(fd, seen, sizeof seen, 0) == sizeof seen);
        CHECK(!memcmp(block, seen, sizeof block));
        if (turn % 100 == 0) works();
    }
    CHECK(jumps == 1500);
    puts("done");
}"#,
    );
}

#[test]
fn a_thread_may_end_in_a_handler_that_interrupted_its_call() {
    says_done(
        r#"
static int fd;
static void end(int signal) { pthread_exit((void *)7); }
static void *calls(void *kind) {
    char bytes[4096] = "";
    pthread_cleanup_push(clean, 0);
    working = 1;
    for (int turn = 0;; turn++) {
        if (kind) { char name[40]; snprintf(name, sizeof name, "/cuesta/t%d", turn % 9); close(creat(name, 0600)); }
        else pwrite(fd, bytes, sizeof bytes, turn % 1000 * 4096);
    }
    pthread_cleanup_pop(0);
    return 0;
}
int main(void) {
    fd = open("/cuesta/file", O_RDWR | O_CREAT, 0644);
    signal(SIGUSR1, end);
    for (long turn = 0; turn < 60; turn++) {
        pthread_t thread;
        void *answer;
        cleaned = working = 0;
        CHECK(!pthread_create(&thread, 0, calls, (void *)(turn % 2)));
        while (!working);
        usleep(turn * 13 % 400);
        CHECK(!pthread_kill(thread, SIGUSR1) && !pthread_join(thread, &answer) && answer == (void *)7 && cleaned == 1);
        works();
    }
    puts("done");
}"#,
    );
}

#[test]
fn handlers_may_work_on_files_of_the_store_wherever_they_interrupt() {
    says_done(
        r#"
static int log_file;
static volatile sig_atomic_t hits;
static void note(int signal) {
    int saved = errno;
    char line[16];
    snprintf(line, sizeof line, "%08d\n", (int)hits++);
    CHECK(write(log_file, line, 9) == 9);
    int fd = open("/cuesta/of-handler", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && write(fd, line, 9) == 9 && !close(fd));
    errno = saved;
}
static void *calls(void *number) {
    char name[40], data[3000];
    snprintf(name, sizeof name, "/cuesta/work%ld", (long)number);
    for (int turn = 0; turn < 3000; turn++) {
        FILE *file = fopen(name, "w+");
        memset(data, turn, sizeof data);
        CHECK(file && fwrite(data, 1, sizeof data, file) == sizeof data && !fseek(file, 0, SEEK_SET));
        CHECK(fread(data, 1, sizeof data, file) == sizeof data && data[7] == (char)turn && !fclose(file) && !unlink(name));
    }
    return 0;
}
int main(void) {
    static char stack[1 << 16];
    stack_t alternate = { .ss_sp = stack, .ss_size = sizeof stack };
    struct sigaction action = { .sa_handler = note, .sa_flags = SA_RESTART | SA_ONSTACK };
    struct itimerval often = { { 0, 400 }, { 0, 400 } }, never = { 0 };
    pthread_t threads[2];
    log_file = open("/cuesta/log", O_RDWR | O_CREAT | O_APPEND, 0644);
    sigaltstack(&alternate, 0);
    sigaction(SIGALRM, &action, 0);
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm, 0);
    for (long one = 0; one < 2; one++) pthread_create(&threads[one], 0, calls, (void *)(one + 1));
    pthread_sigmask(SIG_UNBLOCK, &alarm, 0);
    setitimer(ITIMER_REAL, &often, 0);
    calls(0);
    for (int one = 0; one < 2; one++) pthread_join(threads[one], 0);
    setitimer(ITIMER_REAL, &never, 0);
    struct stat stat;
    CHECK(hits > 10 && !fstat(log_file, &stat) && stat.st_size == hits * 9);
    puts("done");
}"#,
    );
}

/// git looks at many files with a thread for five hundred: their calls come to the library's heap for the first time all at
/// once, and the thread that starts it waits for the kernel meanwhile.
#[test]
fn a_program_with_real_time_priority_and_more_threads_than_processors_ends() {
    // A user who may not have that priority tests less.
    let script = "
        cd \"$0\" && mkdir tree && i=0
        while [ $i -lt 3000 ]; do : >tree/file-$i; i=$((i+1)); done
        git init -q . && git add . && first= && if chrt -f 10 true 2>/dev/null; then first='chrt -f 10'; fi
        for i in 1 2 3 4 5 6 7 8; do $first git status --porcelain | wc -l; done";
    let store = Served::new();
    let output = store.command("sh").args(["-c", script, crate::common::PREFIX]).finish();
    assert_eq!(told(&output), format!("{}exit status: 0\n", "3000\n".repeat(8)));
}
