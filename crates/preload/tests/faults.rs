//! Buffers whose pages another thread of the program brings when they are missed (`userfaultfd`), with calls of its own; and
//! paths that are not there.

use crate::common::{Finish as _, PREFIX, Served, compiled, told};
use std::process::Command;

/// Writes from, and reads into, pages that are not there. The thread that brings them writes to the same file first, and to another.
const PROGRAM: &str = r#"
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 24 };
static int faults, file, journal;
static _Atomic int brought;
static char *memory;

static void *serve(void *unused) {
    static char page[PAGE] __attribute__((aligned(4096)));
    struct uffd_msg message;
    while (read(faults, &message, sizeof message) == sizeof message) {
        unsigned long at = message.arg.pagefault.address / PAGE * PAGE;
        char line[40];
        int number = (at - (unsigned long)memory) / PAGE;
        int length = snprintf(line, sizeof line, "page %d\n", number);
        if (pwrite(file, line, length, 1 << 20) != length || write(journal, line, length) != length) abort();
        if (fsync(journal) || ftruncate(file, 2 << 20)) abort();
        close(open("made", O_CREAT | O_WRONLY, 0600)); unlink("made");
        memset(page, 'a' + number, PAGE);
        struct uffdio_copy copy = {.dst = at, .src = (unsigned long)page, .len = PAGE};
        brought++;
        // The thread that misses the page goes on before this returns.
        if (ioctl(faults, UFFDIO_COPY, &copy) && errno != EEXIST) abort();
    }
    return 0;
}

int main(int count, char **arguments) {
    pthread_t thread;
    char seen[3 * PAGE];
    if (chdir(arguments[1])) return 1;
    faults = syscall(SYS_userfaultfd, O_CLOEXEC);
    struct uffdio_api api = {.api = UFFD_API};
    if (faults < 0 || ioctl(faults, UFFDIO_API, &api)) { puts("not allowed"); return 0; }
    memory = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register whole = {{(unsigned long)memory, PAGES * PAGE}, UFFDIO_REGISTER_MODE_MISSING};
    if (ioctl(faults, UFFDIO_REGISTER, &whole)) return 2;
    file = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);
    journal = open("journal", O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);
    pthread_create(&thread, 0, serve, 0);
    printf("%zd", write(file, memory + 100, 2 * PAGE));
    printf(" %zd", pwrite(file, memory + 4 * PAGE, PAGE, 3 * PAGE));
    struct iovec from[2] = {{memory + 5 * PAGE, 10}, {memory + 7 * PAGE - 5, 10}};
    printf(" %zd", writev(file, from, 2));
    printf(" %zd", pread(file, memory + 9 * PAGE, 2 * PAGE, 50));
    struct iovec into[2] = {{memory + 12 * PAGE, 20}, {memory + 13 * PAGE, 20}};
    printf(" %zd", preadv(file, into, 2, 0));
    lseek(file, 0, SEEK_SET);
    printf(" %zd", read(file, memory + 15 * PAGE, 30));
    printf(" %zd\n", write(journal, memory + 17 * PAGE + 9, 9));
    printf("%d %c %c\n", brought, memory[9 * PAGE], memory[13 * PAGE]);
    printf("%zd", pread(file, seen, sizeof seen, 0));
    for (int at = 0; at < sizeof seen; at += 1000) printf(" %d", seen[at]);
    seen[pread(journal, seen, sizeof seen - 1, 0)] = 0;
    printf("\n%s\n", seen);
}"#;

/// Pages in the order in which they are missed. The kernel's file systems hold the file's lock meanwhile, and wait for
/// themselves.
#[test]
fn a_thread_that_brings_the_pages_of_a_buffer_may_work_with_the_same_file() {
    let folder = tempfile::tempdir().expect("folder");
    let program = compiled(folder.path(), "faults", PROGRAM, &["-Wno-unused-result"]);
    let store = Served::new();
    let said = told(&store.command("timeout").arg("30").arg(program).arg(PREFIX).finish());
    if said.starts_with("not allowed") {
        println!("{said}");
        return;
    }
    let pages = [0, 1, 2, 4, 5, 6, 7, 9, 10, 12, 13, 15, 17].map(|page| format!("page {page}\n")).concat();
    let expected = "8192 4096 20 8192 40 30 9\n13 a a\n12288 97 97 97 97 98 98 98 98 98 0 0 0 0\n";
    assert_eq!(said, format!("{expected}{pages}rrrrrrrrr\nexit status: 0\n"));
}

/// Paths that cannot be read, or only in part, by the calls that are served by their symbols.
const PATHS: &str = r#"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/// An answer is printed where it differs from the one before.
static void tried(const char *path) {
    static char before[200];
    char line[200];
    struct stat found;
    struct statx extended;
    int files[] = {open(path, O_RDONLY), open64(path, O_RDONLY), openat(AT_FDCWD, path, O_RDONLY)};
    int answers[] = {stat(path, &found), lstat(path, &found), fstatat(AT_FDCWD, path, &found, 0),
        statx(AT_FDCWD, path, 0, STATX_SIZE, &extended), access(path, R_OK), unlink(path), mkdir(path, 0700)};
    int error = errno;
    for (int at = 0; at < 3; at++) { if (files[at] >= 0) close(files[at]), files[at] = 0; }
    snprintf(line, sizeof line, "%d %d %d, %d %d %d %d %d %d %d: %s", files[0], files[1], files[2], answers[0], answers[1],
        answers[2], answers[3], answers[4], answers[5], answers[6], strerror(error));
    if (strcmp(line, before)) puts(strcpy(before, line));
}

int main(int count, char **arguments) {
    char *memory = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *end = memory + 4096;
    munmap(end, 4096);
    const char *name = arguments[1];
    size_t length = strlen(name) + 1;
    for (int inside = 0; inside < 2; inside++) {
        if (inside && chdir(arguments[2])) return 1;
        tried(0);
        tried((char *)1);
        tried(end);
        // All of it, and ever less, in front of the end.
        for (size_t less = 0; less < length; less++) {
            memcpy(end - (length - less), name, length - less);
            tried(end - (length - less));
        }
        memcpy(end - 3, "dir", 3);
        tried(end - 3);
    }
    return count - 3;
}
"#;

#[test]
fn paths_that_cannot_be_read_are_answered_as_the_kernel_does() {
    let store = Served::new();
    let folder = tempfile::tempdir().expect("folder");
    let program = compiled(folder.path(), "paths", PATHS, &[]);
    let place = folder.path().to_str().expect("a plain name");
    let run =
        |mut command: Command, place: &str| told(&command.args([&format!("{place}/file"), place]).finish());
    let kernel = run(Command::new(&program), place);
    let ours = run(store.command(program.to_str().expect("a plain name")), PREFIX);
    assert!(kernel.contains("Bad address") && kernel.ends_with("exit status: 0\n"), "{kernel}");
    assert_eq!(ours, kernel);
}
