//! Programs of the store that a shell starts again and again: from some start on they have a loader and a C library of
//! ours, and are to notice nothing of it.

use std::process::Command;

use crate::common::{Finish as _, PREFIX, Served, compare, compiled, told};

/// Says what it sees of its C library, and what becomes of calls from inside it, in a folder.
const LOOKS: &str = r#"
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
static const char *folder;
static int whole;

static int look(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size; (void)data;
    if (!strstr(info->dlpi_name, "libc.so") && !strstr(info->dlpi_name, "ld-linux")) return 0;
    printf("library %s\n", info->dlpi_name);
    for (int at = 0; at < info->dlpi_phnum; at++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[at];
        whole += header->p_type == 0x63756573;
        if (header->p_type != PT_NOTE) continue;
        const unsigned char *note = (const unsigned char *)info->dlpi_addr + header->p_vaddr;
        if (header->p_filesz >= 36 && note[8] == 3)
            for (int byte = 16; byte < 36; byte++) printf("%02x%c", note[byte], byte < 35 ? ' ' : '\n');
    }
    return 0;
}

/// Opened by stdio: the call is the library's own.
static void note(FILE *(*open)(const char *, const char *), int (*put)(const char *, FILE *), int (*end)(FILE *),
                 const char *name) {
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = open(path, "w");
    if (!file || put(name, file) < 0 || end(file)) { printf("cannot write %s\n", name); exit(1); }
    char seen[100] = "", expected[100];
    file = fopen(path, "r");
    if (!file || !fgets(seen, sizeof seen, file)) { printf("%s is not there\n", name); exit(1); }
    fclose(file);
    snprintf(expected, sizeof expected, "%s", name);
    printf("%s: %s\n", name, strcmp(seen, expected) ? "other content" : "written");
}

static void *thread(void *name) { note(fopen, fputs, fclose, name); return 0; }

int main(int count, char **arguments) {
    (void)count;
    folder = arguments[1];
    if (arguments[2]) { note(fopen, fputs, fclose, arguments[2]); return 0; }
    dl_iterate_phdr(look, 0);
    Dl_info told;
    printf("printf is in %s\n", dladdr((void *)printf, &told) ? told.dli_fname : "nothing");
    const char *paths[] = {"libc.so.6", "/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/x86_64-linux-gnu/libc.so.6"};
    for (int at = 0; at < 3; at++) {
        void *library = dlopen(paths[at], RTLD_NOW);
        printf("%s: %s\n", paths[at], library && dlsym(library, "getenv") == (void *)getenv ? "the same" : "another");
    }
    char path[200];
    snprintf(path, sizeof path, "%s/own.so", folder);
    void *own = dlopen(path, RTLD_NOW);
    printf("own.so: %d\n", own ? ((int (*)(void))dlsym(own, "forty_two"))() : 0);
    note(fopen, fputs, fclose, "main");
    pthread_t other;
    pthread_create(&other, 0, thread, "thread");
    pthread_join(other, 0);
    fflush(stdout);
    int status;
    if (fork() == 0) { note(fopen, fputs, fclose, "child"); exit(0); }
    wait(&status);
    char *again[] = {arguments[0], (char *)folder, "spawned", 0};
    pid_t spawned;
    posix_spawn(&spawned, arguments[0], 0, 0, again, environ);
    waitpid(spawned, &status, 0);
    printf("spawned ended with %d\n", status);
    fflush(stdout);
    if (vfork() == 0) { execve("/proc/self/exe", again, environ); _exit(9); }
    wait(&status);
    printf("executed ended with %d\n", status);
    void *apart = dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW);
    note((FILE *(*)(const char *, const char *))dlsym(apart, "fopen"), (int (*)(const char *, FILE *))dlsym(apart, "fputs"),
         (int (*)(FILE *))dlsym(apart, "fclose"), "apart");
    printf("LD_LIBRARY_PATH %s\n", getenv("LD_LIBRARY_PATH") ? getenv("LD_LIBRARY_PATH") : "is not set");
    fflush(stdout);
    if (whole == 2) dprintf(2, "whole\n");
    return 0;
}
"#;

#[test]
fn a_program_that_is_started_often_notices_nothing_of_the_library_it_has() {
    let store = Served::new();
    let folder = tempfile::tempdir().expect("folder");
    let program = compiled(folder.path(), "looks", LOOKS, &["-ldl"]);
    let library =
        compiled(folder.path(), "own.so", "int forty_two(void) { return 42; }", &["-shared", "-fPIC"]);
    let plain = Command::new(&program).arg(folder.path()).finish();
    assert!(plain.status.success(), "{}", told(&plain));
    let script = format!(
        "cp {} {PREFIX}/looks && cp {} {PREFIX} && cd {PREFIX} || exit; n=0\n\
         while [ $n -lt 30 ]; do ./looks {PREFIX} >told.$n 2>kind.$n || exit; n=$((n+1)); done\n\
         cat told.29; cat kind.0 kind.29 >&2",
        program.display(),
        library.display()
    );
    let ours = store.command("sh").args(["-c", &script]).finish();
    assert!(ours.status.success(), "{}", told(&ours));
    compare(&String::from_utf8_lossy(&plain.stdout), &String::from_utf8_lossy(&ours.stdout));
    assert_eq!(String::from_utf8_lossy(&ours.stderr), "whole\n", "only once it is started often");
}

/// Says what a file begins with, and how many of its own files are whole ones of ours, if any is.
const FIRST_LINE: &str = r#"
#include <link.h>
#include <stdio.h>
static int look(struct dl_phdr_info *info, size_t size, void *whole) {
    for (int at = 0; at < info->dlpi_phnum; at++) *(int *)whole += info->dlpi_phdr[at].p_type == 0x63756573;
    return 0;
}
int main(int count, char **arguments) {
    char line[100];
    int whole = 0;
    FILE *file = fopen(arguments[count - 1], "r");
    if (!file || !fgets(line, sizeof line, file)) return 1;
    fputs(line, stdout);
    dl_iterate_phdr(look, &whole);
    if (whole) fprintf(stderr, "%d\n", whole);
    return 0;
}
"#;

/// A cleaner of old files may come by at any time.
#[test]
fn programs_start_when_what_was_provided_for_them_is_gone() {
    let store = Served::new();
    let folder = tempfile::tempdir().expect("folder");
    let program = compiled(folder.path(), "first_line", FIRST_LINE, &[]);
    let script = format!(
        "cp {} {PREFIX} && cd {PREFIX} && echo content >file && n=0\n\
         while [ $n -lt 60 ]; do\n\
           [ $n = 25 ] && rm -f $XDG_RUNTIME_DIR/cuesta/libraries-*\n\
           [ $n = 40 ] && rm -f $XDG_RUNTIME_DIR/cuesta/libc.so.6-*\n\
           ./first_line file >seen.$n 2>whole.$n || exit; n=$((n+1))\n\
         done; cat seen.* | sort | uniq -c; grep . whole.24 whole.39 whole.59",
        program.display()
    );
    let output = store.command("sh").args(["-c", &script]).finish();
    // A file that is gone is provided anew.
    let again = "whole.24:2\nwhole.39:2\nwhole.59:2\n";
    assert_eq!(told(&output).trim_start(), format!("60 content\n{again}exit status: 0\n"));
}

/// Reads a file by calls of its own, not the C library's.
const OWN_CALLS: &str = r#"
#include <fcntl.h>
#include <sys/syscall.h>
static long call(long number, long one, long two, long three) {
    long answer;
    __asm__ volatile("syscall" : "=a"(answer) : "a"(number), "D"(one), "S"(two), "d"(three) : "rcx", "r11", "memory");
    return answer;
}
int main(int count, char **arguments) {
    char bytes[100];
    long file = call(SYS_open, (long)arguments[count - 1], O_RDONLY, 0);
    long length = file < 0 ? file : call(SYS_read, file, (long)bytes, sizeof bytes);
    return length < 0 || call(SYS_write, 1, (long)bytes, length) != length;
}
"#;

/// Of a program that makes no calls itself the next start is told so; of this one it must not be.
#[test]
fn a_program_that_makes_its_own_calls_is_served_however_often_it_starts() {
    let store = Served::new();
    let folder = tempfile::tempdir().expect("folder");
    let program = compiled(folder.path(), "own_calls", OWN_CALLS, &[]);
    let script = format!(
        "cp {} {PREFIX} && cd {PREFIX} && echo content >file && n=0\n\
         while [ $n -lt 40 ]; do ./own_calls {PREFIX}/file || exit; n=$((n+1)); done",
        program.display()
    );
    let ours = store.command("sh").args(["-c", &script]).finish();
    assert!(ours.status.success(), "{}", told(&ours));
    assert_eq!(String::from_utf8_lossy(&ours.stdout), "content\n".repeat(40));
}
