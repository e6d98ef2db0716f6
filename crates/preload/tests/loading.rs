//! Libraries of the store that a program loads by name as it runs, and what it is told of them, and of those it was
//! started with: as on ext4.

use std::path::Path;
use std::process::Command;

use crate::common::{Finish as _, PREFIX, Served, compare, compiled, told};

/// Loads what it is told to, says what it got, and where the loader says it is.
const LOADER: &str = r#"
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
int needed(void);
void *load(const char *);
static int tell(struct dl_phdr_info *map, size_t size, void *data) {
    if (strstr(map->dlpi_name, "needed") || strstr(map->dlpi_name, "plug") || strstr(map->dlpi_name, "inner"))
        printf("  %s\n", map->dlpi_name);
    return 0;
}
int main(int count, char **names) {
    Dl_info of;
    char origin[4096];
    for (int at = 1; at < count; at++) {
        void *library = names[at][0] == '@' ? load(names[at] + 1) : dlopen(names[at], RTLD_NOW);
        if (!library) { printf("%s: %s\n", names[at], dlerror()); continue; }
        int (*plug)(void) = dlsym(library, "plug");
        if (!plug) plug = dlsym(library, "inner");
        dladdr(plug, &of);
        dlinfo(library, RTLD_DI_ORIGIN, origin);
        printf("%s: %d %s %s\n", names[at], plug(), of.dli_fname, origin);
        dl_iterate_phdr(tell, 0);
        dlclose(library);
    }
    if (!needed) return 0;
    dladdr(needed, &of);
    void *byName = dlopen("libneeded.so", RTLD_NOW), *byPath = dlopen(of.dli_fname, RTLD_NOW);
    dlinfo(byName, RTLD_DI_ORIGIN, origin);
    printf("needed %d %s %s %d\n", needed(), of.dli_fname, origin, byName == byPath);
}
"#;

/// A tree of libraries and programs that may lie anywhere.
fn tree(folder: &Path) {
    for name in ["bin", "lib", "plug", "inner"] {
        std::fs::create_dir(folder.join(name)).expect("a directory");
    }
    let shared = |name: &str, source: &str, flags: &[&str]| {
        compiled(folder, name, source, &[&["-shared", "-fPIC"], flags].concat());
    };
    let at = |name: &str| format!("-L{}", folder.join(name).display());
    let (inner, lib) = (at("inner"), at("lib"));
    let plug = |adds: u32| format!("int inner(void);\nint plug(void) {{ return inner() + {adds}; }}");
    shared("inner/libinner.so", "int inner(void) { return 1; }", &["-Wl,-soname,libinner.so"]);
    let from_origin = "-Wl,-rpath,$ORIGIN/../inner";
    let inner = [&inner[..], "-linner"];
    let with = |flags: &[&'static str]| [&inner[..], flags].concat();
    shared("plug/runpath.so", &plug(10), &with(&[from_origin, "-Wl,--enable-new-dtags"]));
    shared("plug/rpath.so", &plug(20), &with(&[from_origin, "-Wl,--disable-new-dtags"]));
    shared("plug/plain.so", &plug(30), &with(&[]));
    let needed = "#include <dlfcn.h>\nint needed(void) { return 7; }\n\
                  void *load(const char *name) { return dlopen(name, RTLD_NOW); }";
    shared("lib/libneeded.so", needed, &["-Wl,-soname,libneeded.so", "-Wl,-rpath,$ORIGIN/../plug"]);
    let weak = "#pragma weak needed\n#pragma weak load\n";
    let programs: [(&str, &[&str]); 4] = [
        ("bin/none", &[]),
        ("bin/runpath", &["-Wl,-rpath,$ORIGIN/../plug", "-Wl,--enable-new-dtags"]),
        ("bin/rpath", &["-Wl,-rpath,$ORIGIN/../plug:$ORIGIN/../inner", "-Wl,--disable-new-dtags"]),
        ("bin/needs", &[&lib, "-lneeded", "-Wl,-rpath,$ORIGIN/../lib", "-Wl,--no-as-needed"]),
    ];
    for (name, flags) in programs {
        let weak = if name == "bin/needs" { "" } else { weak };
        compiled(folder, name, &format!("{weak}{LOADER}"), flags);
    }
}

const SCRIPT: &str = r#"
    exec 2>&1; P=$1 O=$3; cp -r $2/. $P; cp $P/bin/* $O
    ln -s $P/plug $O/link; ln -s $P/plug/runpath.so $O/linked.so; ln -s plug/rpath.so $P/linked.so
    for program in $P/bin/none $P/bin/runpath $P/bin/rpath $P/bin/needs $O/none $O/runpath; do
        for folder in $P $P/lib $O; do
            echo "== $program in $folder"; cd $folder
            $program $P/plug/runpath.so $P/plug/rpath.so $P/plug/plain.so
            $program plug/runpath.so ./plug/rpath.so ../plug/runpath.so runpath.so libinner.so ../plug/plain.so
            $program ./linked.so $P/linked.so $O/linked.so $O/link/rpath.so link/runpath.so
            LD_LIBRARY_PATH=$P/inner:$P/lib $program $P/plug/plain.so libinner.so
            LD_LIBRARY_PATH=inner:lib $program $P/plug/plain.so libinner.so
            LD_LIBRARY_PATH=../inner: $program libinner.so $P/plug/plain.so
            LD_LIBRARY_PATH=/nowhere:$P/plug:$P/nowhere $program runpath.so rpath.so plain.so linked.so
            LD_LIBRARY_PATH=$O/link:$O $program linked.so rpath.so
        done
    done
    cd $P; bin/needs @runpath.so @libinner.so; cd bin; ./needs @rpath.so; cd ..
    rm -r lib/libneeded.so; LD_LIBRARY_PATH=lib:$P/lib $P/bin/needs
    mkdir late; cat > late.py <<< 'import ctypes, os, sys
ctypes.CDLL(None)
try: print(ctypes.CDLL("late.so").plug())
except OSError as error: print(error)
os.rename(sys.argv[1], "late/late.so")
try: print(ctypes.CDLL("late.so").plug())
except OSError as error: print(error)'
    LD_LIBRARY_PATH=$P/late python3 late.py plug/runpath.so
"#;

#[test]
fn libraries_loaded_by_name_are_found_where_ext4_has_them() {
    let built = tempfile::tempdir().expect("folder");
    tree(built.path());
    let (store, apart) = (Served::new(), [(); 3].map(|()| tempfile::tempdir().expect("folder")));
    let [place, outside, beside] = apart.each_ref().map(|it| it.path().to_str().expect("a plain name"));
    let built = built.path().to_str().expect("a plain name");
    let kernel = Command::new("bash").args(["-c", SCRIPT, "bash", place, built, outside]).finish();
    let ours = store.command("bash").args(["-c", SCRIPT, "bash", PREFIX, built, beside]).finish();
    let plain =
        |said: String, place: &str, outside: &str| said.replace(place, "STORE").replace(outside, "OUTSIDE");
    let kernel = plain(told(&kernel), place, outside);
    assert!(kernel.contains("runpath.so: 11 STORE/bin/../plug/runpath.so STORE/bin/../plug\n"), "{kernel}");
    compare(&kernel, &plain(told(&ours), PREFIX, beside));
}
