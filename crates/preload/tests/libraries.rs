//! System calls that do not come from the C library: of the program itself, of libraries it is linked with and of
//! those it loads as it runs.

use std::path::Path;
use std::process::Command;

use crate::common::{Finish as _, PREFIX, Served, compare, compiled, told};

/// Opens, writes and reads back a file without the C library, and says what it saw.
const RAW: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
static long raw(long number, long a, long b, long c) {
    long answer;
    __asm__ volatile("syscall" : "=a"(answer) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return answer;
}
static void work(const char *name) {
    char path[200], seen[20] = "";
    snprintf(path, sizeof path, "/cuesta/%s", name);
    long fd = raw(SYS_open, (long)path, O_RDWR | O_CREAT, 0644);
    raw(SYS_write, fd, (long)"content", 7);
    raw(SYS_lseek, fd, 0, SEEK_SET);
    raw(SYS_read, fd, (long)seen, 7);
    raw(SYS_close, fd, 0, 0);
    printf("%s %s %ld\n", name, seen, raw(SYS_io_uring_setup, 4, (long)path, 0));
}
"#;

fn library(folder: &Path, name: &str) {
    let source = format!(
        "{RAW}\n__attribute__((constructor)) static void started(void) {{ work(\"{name}-constructor\"); }}\n\
         void {name}(void) {{ work(\"{name}\"); }}"
    );
    compiled(folder, &format!("lib{name}.so"), &source, &["-shared", "-fPIC", "-Wno-unused-result"]);
}

fn expected(names: &[&str]) -> String {
    let lines = names.iter().map(|name| format!("{name} content -{}\n", libc::ENOSYS));
    lines.chain(["exit status: 0\n".to_owned()]).collect()
}

/// Twice: the second run finds in the cache what the first has left there.
fn runs(store: &Served, program: &Path, names: &[&str]) {
    for _ in 0..2 {
        let output = store.command(program.to_str().expect("a plain name")).finish();
        assert_eq!(told(&output), expected(names));
        for name in names {
            let read = store.command("cat").arg(format!("{PREFIX}/{name}")).finish();
            assert!(told(&read).starts_with("content"), "{name} is on the store");
        }
    }
}

#[test]
fn a_program_and_its_libraries_may_make_system_calls_themselves() {
    let store = Served::new();
    let folder = tempfile::tempdir().expect("folder");
    library(folder.path(), "linked");
    let source = format!("{RAW}\nvoid linked(void);\nint main() {{ work(\"program\"); linked(); }}");
    let place = folder.path().to_str().expect("a plain name");
    let path = format!("-Wl,-rpath,{place}");
    let program = compiled(folder.path(), "program", &source, &["-L", place, "-llinked", &path]);
    // The library's constructor runs before ours: nothing can have been patched then.
    let output = store.command(program.to_str().expect("a plain name")).finish();
    let told = told(&output);
    assert!(told.ends_with(&expected(&["program", "linked"])), "{told}");
}

#[test]
fn libraries_loaded_as_the_program_runs_are_seen_constructors_and_all() {
    let store = Served::new();
    let folder = tempfile::tempdir().expect("folder");
    for name in ["late", "apart"] {
        library(folder.path(), name);
    }
    let place = folder.path().display();
    let source = format!(
        r#"
#include <dlfcn.h>
int main() {{
    for (int turn = 0; turn < 2; turn++) {{
        void *late = dlopen("{place}/liblate.so", RTLD_NOW);
        ((void (*)(void))dlsym(late, "late"))();
        dlclose(late);
    }}
    void *apart = dlmopen(LM_ID_NEWLM, "{place}/libapart.so", RTLD_NOW);
    ((void (*)(void))dlsym(apart, "apart"))();
}}"#
    );
    let program = compiled(folder.path(), "loader", &source, &[]);
    // The second C library does not write what it was told to print.
    let late = ["late-constructor", "late"];
    runs(&store, &program, &[late[0], late[1], late[0], late[1]]);
    for name in ["apart-constructor", "apart"] {
        let read = store.command("cat").arg(format!("{PREFIX}/{name}")).finish();
        assert_eq!(told(&read), "contentexit status: 0\n");
    }
}

/// While a library is loaded no other thread gets an answer of the loader, so no call may need one.
#[test]
fn a_library_may_wait_for_a_thread_while_it_is_loaded() {
    const WAITS: &str = r#"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
static void *work(void *where) {
    (void)where;
    char byte = 'x';
    struct stat found;
    int file = memfd_create("file", 0);
    int failed = write(file, &byte, 1) != 1 || pwrite(file, &byte, 1, 1) != 1 || lseek(file, 0, SEEK_SET)
        || read(file, &byte, 1) != 1 || pread(file, &byte, 1, 0) != 1 || fstat(file, &found) || fsync(file)
        || fdatasync(file) || ftruncate(file, 0) || fcntl(file, F_GETFD) || close(file);
    return failed ? where : 0;
}
__attribute__((constructor)) static void started(void) {
    pthread_t thread;
    struct timespec until;
    pthread_create(&thread, 0, work, &until);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 20;
    void *failed = 0;
    puts(pthread_timedjoin_np(thread, &failed, &until) ? "stuck" : failed ? "failed" : "done");
}"#;
    let store = Served::new();
    let folder = tempfile::tempdir().expect("folder");
    let library = compiled(folder.path(), "libwaits.so", WAITS, &["-shared", "-fPIC", "-lpthread"]);
    let source =
        format!("#include <dlfcn.h>\nint main() {{ return !dlopen(\"{}\", RTLD_NOW); }}", library.display());
    let program = compiled(folder.path(), "loader", &source, &["-ldl"]);
    let output = store.command(program.to_str().expect("a plain name")).finish();
    assert_eq!(told(&output), "done\nexit status: 0\n");
}

#[test]
fn a_library_that_lies_on_the_store_is_loaded_from_there() {
    let store = Served::new();
    let folder = tempfile::tempdir().expect("folder");
    library(folder.path(), "stored");
    let copied = store.command("cp").arg(folder.path().join("libstored.so")).arg(PREFIX).finish();
    assert!(copied.status.success(), "{}", told(&copied));
    let script = "import ctypes; ctypes.CDLL('/cuesta/libstored.so').stored()";
    let output = store.command("python3").args(["-c", script]).finish();
    assert_eq!(told(&output), expected(&["stored-constructor", "stored"]));
}

#[test]
fn away_from_the_store_a_patched_library_does_what_it_did() {
    let store = Served::new();
    let script = "import ssl, hashlib, decimal, zlib, lzma, bz2, sqlite3, ctypes, json, random\n\
                  print(hashlib.sha256(b'x' * 100000).hexdigest(), ssl.OPENSSL_VERSION, decimal.Decimal(2).sqrt(),\n\
                  len(lzma.compress(bytes(100000))), zlib.crc32(b'y' * 9999))";
    let plain = Command::new("python3").args(["-c", script]).finish();
    for _ in 0..2 {
        let ours = store.command("python3").args(["-c", script]).finish();
        assert_eq!(told(&ours), told(&plain));
    }
}

/// Its loader cannot open such a path yet.
#[test]
fn a_program_of_the_store_may_need_a_library_by_its_path_there() {
    let folder = tempfile::tempdir().expect("folder");
    let place = format!("{PREFIX}/some/where");
    let at = |name: &str| folder.path().join(name).to_str().expect("a plain name").to_owned();
    // Without a name of its own a library is needed by the path it was linked by.
    compiled(folder.path(), "inner.so", "int inner(void) { return 4; }", &["-shared", "-fPIC"]);
    let program = "#include <stdio.h>\nint inner(void);\nint main() { printf(\"%d\\n\", inner()); }";
    let store = Served::new();
    // The linker notes what it was given: a path of the length the one in the store has.
    let stand_in = format!("/tmp/{}", "x".repeat(place.len() + "/inner.so".len() - "/tmp/".len()));
    std::fs::copy(at("inner.so"), &stand_in).expect("a copy");
    compiled(folder.path(), "program", program, &[&stand_in]);
    std::fs::remove_file(&stand_in).expect("removed");
    let bytes = std::fs::read(at("program")).expect("the program");
    let (from, to) = (stand_in.as_bytes(), format!("{place}/inner.so"));
    let found = bytes.windows(from.len()).position(|window| window == from).expect("the path");
    let mut bytes = bytes;
    bytes[found..found + from.len()].copy_from_slice(to.as_bytes());
    std::fs::write(at("program"), bytes).expect("the program");
    let script = "mkdir -p $1; cp $2 $1; cp $3 /cuesta; /cuesta/program; /cuesta/program";
    let arguments = ["-c", script, "bash", &place, &at("inner.so"), &at("program")];
    let said = told(&store.command("bash").args(arguments).finish());
    assert!(said.starts_with("4\n4\n"), "{said}");
}

/// The loader maps them before this library could serve it.
#[test]
fn the_libraries_a_program_needs_may_lie_in_the_store() {
    let folder = tempfile::tempdir().expect("folder");
    let here = format!("-L{}", folder.path().display());
    // Each adds something of its own, so that which one was loaded is told.
    let library = |file: &str, name: &str, calls: &str, adds: u32, flags: &[&str]| {
        let called = if calls.is_empty() { String::new() } else { format!("{calls}() + ") };
        let source = format!("int {calls}(void);\nint {name}(void) {{ return {called}{adds}; }}")
            .replace("int (void);", "");
        compiled(folder.path(), file, &source, &[&["-shared", "-fPIC"], flags].concat());
    };
    library("libinner.so", "inner", "", 1, &["-Wl,-soname,libinner.so"]);
    library("libouter.so", "outer", "inner", 10, &[&here, "-linner"]);
    library("inner.elsewhere", "inner", "", 2, &["-Wl,-soname,libinner.so"]);
    library("inner.machine", "inner", "", 4, &["-Wl,-soname,libinner.so"]);
    library("outer.elsewhere", "outer", "inner", 20, &[&here, "-linner"]);
    let program = r#"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int outer(void);
int main(int count, char **arguments) {
    int open = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (readdir(folder)) open++;
    printf("%d %s %d\n", outer(), getenv("LD_LIBRARY_PATH") ? getenv("LD_LIBRARY_PATH") : "none", open);
    fflush(stdout);
    if (count > 1) execv(arguments[0], (char *[]){arguments[0], NULL});
    return 0;
}
"#;
    let program = |name: &str, path: &str| {
        let flags = [&here, "-louter", "-Wl,--allow-shlib-undefined"];
        let path = path.split_whitespace().collect::<Vec<_>>();
        compiled(folder.path(), name, program, &[&flags[..], &path].concat());
    };
    program("program", "-Wl,-rpath,$ORIGIN/../lib");
    program("plain", "");
    // Its run path holds for the libraries of its libraries, too, and comes before the variable.
    program("old", "-Wl,--disable-new-dtags -Wl,-rpath,${ORIGIN}/../lib");
    program("machine", "-Wl,--disable-new-dtags -Wl,-rpath,$ORIGIN/../$LIB:$ORIGIN/../lib");
    let script = r#"
        exec 2>&1; cd $1; B=$2; O=$3; mkdir bin lib inner elsewhere; cp $B/program $B/old $B/machine bin
        cp $B/libouter.so lib; cp $B/libinner.so inner; $1/bin/program
        export LD_LIBRARY_PATH=/nowhere:$1/inner; $1/bin/program again; unset LD_LIBRARY_PATH; bin/old
        cp inner/* lib; $1/bin/program; bin/old; bin/old again
        cp $B/plain $O/plain; LD_LIBRARY_PATH=$1/lib $O/plain
        LD_LIBRARY_PATH= bin/program; LD_LIBRARY_PATH=lib: bin/program; LD_LIBRARY_PATH=lib bin/program
        (cd lib; LD_LIBRARY_PATH=:/nowhere ../bin/program; LD_LIBRARY_PATH=/nowhere:: $O/plain)
        LD_LIBRARY_PATH="/nowhere;lib" bin/program; LD_LIBRARY_PATH="/nowhere;lib" $O/plain
        cp $B/inner.elsewhere elsewhere/libinner.so; cp $B/outer.elsewhere elsewhere/libouter.so
        LD_LIBRARY_PATH=elsewhere bin/program; LD_LIBRARY_PATH=elsewhere bin/old; LD_LIBRARY_PATH=elsewhere:lib $O/plain
        machine=lib/$(basename $(dirname $(ls /lib/*/libc.so.6))); mkdir -p $machine; bin/machine
        cp $B/inner.machine $machine/libinner.so; bin/machine
        ln -s $1/lib $O/link; LD_LIBRARY_PATH=$O/link bin/program; LD_LIBRARY_PATH=$O/link $O/plain
        mkdir $O/first; cp $B/inner.elsewhere $O/first/libinner.so; LD_LIBRARY_PATH=$O/first:lib bin/program
        LD_LIBRARY_PATH=$O/first:lib $O/plain; LD_LIBRARY_PATH=lib:$O/first $O/plain
        mkdir -p folder/libinner.so; LD_LIBRARY_PATH=folder:lib bin/program 2> /dev/null; echo $?"#;
    let (store, apart) = (Served::new(), [(); 3].map(|()| tempfile::tempdir().expect("folder")));
    let [place, outside, beside] = apart.each_ref().map(|it| it.path().to_str().expect("a plain name"));
    let built = folder.path().to_str().expect("a plain name");
    let kernel = Command::new("bash").args(["-c", script, "bash", place, built, outside]).finish();
    let ours = store.command("bash").args(["-c", script, "bash", PREFIX, built, beside]).finish();
    let plain =
        |said: String, place: &str, outside: &str| said.replace(place, "STORE").replace(outside, "OUTSIDE");
    assert!(told(&kernel).contains("\n11 lib "), "{}", told(&kernel));
    compare(&plain(told(&kernel), place, outside), &plain(told(&ours), PREFIX, beside));
}
