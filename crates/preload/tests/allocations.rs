//! Through the door the hot paths allocate nothing, either: LibFS's own test counts what LibFS does; here a program puts a break
//! instruction where the library's allocator begins, and makes its calls.
//!
//! Now and then a call has more to do: it takes a report of a digest, or a table grows. So a stretch is short, and one of a few is
//! to be quiet; a call that allocated each time would break in all of them. Behind it the program opens a file, which
//! does allocate: it has to die of that, or else the break is nowhere.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;

use crate::common::{Finish as _, Served, compiled, library, told};

const ATTEMPTS: u32 = 20;

const PROGRAM: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __x86_64__
static const unsigned char BREAK[] = {0xcc};
#else
static const unsigned char BREAK[] = {0x00, 0x00, 0x20, 0xd4};
#endif
static char bytes[4096];
static int fd;
static void call(const char *kind, int turn) {
    struct stat seen;
    long at = turn * 37 % 256 * 4096;
    if (!strcmp(kind, "append")) { write(fd, bytes, 128); fsync(fd); }
    else if (!strcmp(kind, "append-page")) { write(fd, bytes, 4096); fdatasync(fd); }
    else if (!strcmp(kind, "overwrite")) { pwrite(fd, bytes, 4096, at); fsync(fd); }
    else if (!strcmp(kind, "pread")) pread(fd, bytes, 4096, at);
    else if (!strcmp(kind, "read")) { lseek(fd, at, SEEK_SET); read(fd, bytes, 4096); }
    else if (!strcmp(kind, "write")) { lseek(fd, at, SEEK_SET); write(fd, bytes, 100); }
    else if (!strcmp(kind, "fstat")) fstat(fd, &seen);
    else exit(2);
}
static unsigned char *library(void) {
    char line[1000];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps))
        if (strstr(line, "libcuesta_preload.so")) return (unsigned char *)strtoul(line, 0, 16);
    exit(3);
}
int main(int count, char **words) {
    const char *kind = words[1];
    int turn = 0, appends = !strncmp(kind, "append", 6);
    fd = open("/cuesta/file", O_RDWR | O_CREAT | O_TRUNC | (appends ? O_APPEND : 0), 0644);
    for (int page = 0; page < 256 && !appends; page++) pwrite(fd, bytes, 4096, page * 4096);
    unsigned char *text = library();
    while (turn < 6000) call(kind, turn++);
    /* The log is digested, and what is known of it let go. */
    usleep(400000);
    while (turn < 10000) call(kind, turn++);
    for (int word = 2; word < count; word++) {
        unsigned char *at = text + strtoul(words[word], 0, 16);
        void *page = (void *)((unsigned long)at & -4096ul);
        if (mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC)) exit(4);
        memcpy(at, BREAK, sizeof BREAK);
        __builtin___clear_cache((char *)at, (char *)at + sizeof BREAK);
    }
    for (int stretch = turn + 300; turn < stretch; turn++) call(kind, turn);
    write(1, "quiet\n", 6);
    open("/cuesta/another", O_RDWR | O_CREAT, 0644);
    return 0;
}
"#;

/// Where the library's ways to memory begin, from its start on.
fn allocator() -> Vec<String> {
    let names = Command::new("nm").arg(library()).output().expect("nm runs");
    let is_one = |name: &str| {
        ["__rust_alloc", "__rust_alloc_zeroed", "__rust_realloc"].iter().any(|end| name.ends_with(end))
            || ["mi_malloc", "mi_malloc_aligned", "mi_zalloc_aligned", "mi_realloc_aligned"].contains(&name)
    };
    let names = String::from_utf8_lossy(&names.stdout).into_owned();
    let found = names.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (address, kind, name) = (words.next()?, words.next()?, words.next()?);
        (kind.eq_ignore_ascii_case("t") && is_one(name)).then(|| address.to_owned())
    });
    found.collect()
}

#[test]
fn calls_through_the_door_allocate_nothing() {
    let allocator = allocator();
    assert!(allocator.len() >= 3, "{allocator:?}");
    let folder = tempfile::tempdir().expect("folder");
    let program = compiled(folder.path(), "program", PROGRAM, &["-Wno-unused-result"]);
    for kind in ["append", "append-page", "overwrite", "pread", "read", "write", "fstat"] {
        let store = Served::new();
        let is_quiet = || {
            let mut command = store.command(program.to_str().expect("a plain name"));
            let output = command.arg(kind).args(&allocator).finish();
            assert_eq!(output.status.signal(), Some(libc::SIGTRAP), "{kind}: {}", told(&output));
            output.stdout == b"quiet\n"
        };
        assert!((0..ATTEMPTS).any(|_| is_quiet()), "{kind}: each stretch allocates");
    }
}
