//! How the library is linked, so that a program's start stays cheap (see docs/decisions/0004):
//!
//! - with the unwinder inside: loading libgcc_s costs every program 0.1 ms, for panics that never leave
//!   this library;
//! - without the constructor and destructor of mimalloc, which `memory` starts when it is needed, and
//!   without the standard library's, which keeps arguments that this library never asks for, and the C compiler's own
//!   (the script defines the one symbol of its start files that is needed);
//! - without libc's memory: the application may hold its locks (a handler that interrupted malloc, a fork), so
//!   what the standard library takes by malloc comes from `memory`, and it keeps a list of its own of what to
//!   do as a thread ends;
//! - with few functions of libc to be looked up before the program begins: each takes some 600 instructions;
//! - with relocations in a form a twentieth as long: each program reads all of them;
//! - without libc's `close`, which is a cancellation point: a thread must not be cancelled inside the client;
//! - in two segments, so that the dynamic linker maps and protects twice less;
//! - with what the constructor runs and writes side by side, and then what serves calls: every page touched is a page
//!   fault.

use std::path::{Path, PathBuf};

/// Read by the linker beside its own script. A fault maps the 64 KiB around it.
const SCRIPT: &str = "SECTIONS {
  /DISCARD/ : {
    *mimalloc*static.o(.init_array .init_array.* .fini_array .fini_array.*)
    *mimalloc*:*static.o(.init_array .init_array.* .fini_array .fini_array.*)
    *libstd*:*(.init_array.*)
  }
}
INSERT AFTER .text;
SECTIONS {
  .text.start : ALIGN(0x10000) {
    *(.text.*cuesta_preload8starting5start*)
    *(.text.*cuesta_preload8starting11environment11Environment4look*)
    *(.text.*cuesta_preload6memory9allocator*)
    *(.text.*__rust_*alloc*)
    *(.text.*cuesta_preload6thread7signals7prepare*)
    *(.text.*cuesta_preload7process13configuration9configure*)
    *(.text.*cuesta_preload7process8identity13take_identity*)
    *(.text.*cuesta_preload5calls5paths6prefix6normal*)
    *(.text.*cuesta_preload5calls5paths6prefix4Walk*)
    *(.text.cuesta_entry)
    *(.text.*cuesta_preload5patch8binaries5image5visit*)
    *(.text.*cuesta_preload5patch8binaries5image8describe*)
    *(.text.*cuesta_preload5patch8binaries3elf8build_id*)
    *(.text.*cuesta_preload5patch7install*)
    *(.text.*cuesta_preload5patch7writing*)
    *(.text.*cuesta_preload5patch5whole4fill*)
    *(.text.*cuesta_preload5patch7foreign12patch_loaded*)
    *(.text.*cuesta_preload5patch5cache10remembered14remember_cache*)
    *(.text.*cuesta_preload7process11inheritance5table*adopt*)
    *(.text.*cuesta_preload7process11inheritance5table5parse*)
    *(.text.*cuesta_preload7process11inheritance5table5unhex*)
    *(.text.*cuesta_preload11descriptors11description*inherited*)
    *(.text.*cuesta_preload5calls5paths5links10note_place*)
    *(.text.*cuesta_preload11descriptors11description8describe*)
    *(.text.*cuesta_preload8starting9link_maps7correct*)
    *(.text.*cuesta_preload8starting9link_maps*program_has_run_path*)
    *(.text.*c_str*from_bytes_with_nul*)
    *(.text.*cuesta_preload11descriptors17working_directory5write*)
    *(.text.*cuesta_preload11descriptors17working_directory7inherit*)
    *(.text.*cuesta_threads4pool*pin*)
    *(.text.*raw_vec*finish_grow*)
    *(.text.*raw_vec*grow_one*)
    *(.text.*CString*from_vec_unchecked*)
    *(.text.*core*ops*function*FnMut*call_mut*)
    *(.text.*core3ffi5c_str*to_str*)
    *(.text.*core3str8converts9from_utf8*)
    *(.text.*core5slice6memchr*)
    *(.text.*core*str*split_once*)
    *(.text.*core*str*pattern*CharSearcher*)
    *(.text.*core*str*iter*Split*)
    *(.text.*3std3sys4sync4once5futex*call*)
    *(.text.*spec_from_iter*)
    *(.text.*cuesta_preload8starting11environment*)
    *(.text.*cuesta_preload6thread5state*)
    *(.text.*cuesta_preload6thread12client_stack*)
    *(.text.*cuesta_preload6thread7leaving*)
    *(.text.*cuesta_preload6thread7waiting*)
    *(.text.*cuesta_preload6thread7signals*)
    *(.text.*cuesta_preload4call6filter*)
    *(.text.*cuesta_preload5patch8binaries5image*)
    *(.text.*cuesta_preload5patch5cache8own_file*)
    *(.text.*cuesta_preload5patch8page_map*)
    *(.text.*cuesta_preload5patch5cache5sites*)
    *(.text.*cuesta_preload5patch4copy*)
    *(.text.*cuesta_preload5patch7foreign*)
    *(.text.*once_lock*initialize*)
    *(.text.*raw_vec*reserve*)
    *(.text.*raw_vec*drop*)
    *(.text.*Concat*concat*)
    *(.text.*adapters*map*Map*try_fold*)
  }
  .text.client : {
    *(.text.*cuesta_preload*)
    *(.text.*cuesta_threads*)
    *(.text.*cuesta_libfs*)
    *(.text.*cuesta_format*)
    *(.text.*cuesta_media*)
    *(.text.*cuesta_oplog*)
  }
}
INSERT BEFORE .text;
SECTIONS {
  .bss.start (NOLOAD) : {
    PROVIDE_HIDDEN(__dso_handle = .);
    PROVIDE_HIDDEN(__cxa_thread_atexit_impl = 0);
    *(.bss.*cuesta_preload6memory9allocator5STATE*)
    *(.bss.*cuesta_preload6memory9allocator7LASTING*)
    *(.bss.*cuesta_preload6memory9allocator4HEAP*)
    *(.bss.*cuesta_preload6thread5state*)
    *(.bss.*cuesta_preload6thread12client_stack*)
    *(.bss.*cuesta_preload7process13configuration*)
    *(.bss.*cuesta_preload11descriptors6kernel*)
    *(.bss.*cuesta_preload7process9fork_flag*)
    *(.bss.*cuesta_preload7process7session*)
    *(.bss.*cuesta_preload7process8identity*)
    *(.bss.*cuesta_preload6thread7signals8CHANGING*)
    *(.bss.*cuesta_preload4door8counting*)
    *(.bss.*cuesta_preload4call6filter11FIRST_BYTES*)
    *(.bss.*cuesta_preload4call6filter11CWD_VIRTUAL*)
    *(.bss.*cuesta_preload4call6filter6ACTIVE*)
    *(.bss.*cuesta_preload4call6filter5HOLDS*)
    *(.bss.*cuesta_preload4call6filter13PREFIX_LENGTH*)
    *(.bss.*cuesta_preload4call6filter9OWN_CLASS*)
    *(.bss.*cuesta_preload5patch*)
    *(.bss.*cuesta_preload5calls5paths5links8IS_TAKEN*)
    *(.bss.*FIRST_STACK_TAKEN*)
    *(.bss.*GLOBAL_PANIC_COUNT*)
    *(.bss.*cuesta_preload4call6filter6PREFIX*)
    *(.bss.*cuesta_preload5calls*)
    *(.bss.*cuesta_preload9interpose*)
    *(.bss.*cuesta_preload11descriptors9reopening*)
    *(.bss.*cuesta_preload5users18thread_credentials*)
    *(.bss.*cuesta_preload11descriptors*HIGHEST*)
    *(.bss.*cuesta_media4arch*)
    *(.bss.*cuesta_format8checksum*)
    *(.bss.*cuesta_preload6thread7signals*)
    *(.bss.*cuesta_preload6memory9allocator4AREA*)
  }
}
INSERT BEFORE .bss;
";

/// Functions of libc that most programs have no use for, in this library: the dynamic linker looks each one up as it is first
/// called. Such calls go through a table of pointers that it fills as the program starts, unless they come from a
/// function of this library, which jumps there by way of the linker's own table.
const LOOKED_UP_WHEN_CALLED: [&str; 32] = [
    "__libc_free",
    "__pthread_key_create",
    "__x86_get_cpuid_feature_leaf",
    "__xpg_strerror_r",
    "abort",
    "clock_nanosleep",
    "closedir",
    "dirfd",
    "dladdr1",
    "dlsym",
    "getauxval",
    "getcwd",
    "getenv",
    "getpid",
    "getrandom",
    "gettid",
    "memmem",
    "mmap64",
    "munmap",
    "opendir",
    "poll",
    "pthread_key_delete",
    "pthread_setcanceltype",
    "pthread_setspecific",
    "pthread_testcancel",
    "readdir64",
    "readlink",
    "realpath",
    "sched_yield",
    "statx",
    "syscall",
    "writev",
];

const ARGUMENTS: [&str; 12] = [
    "-Wl,-z,pack-relative-relocs",
    "-Wl,-z,lazy",
    "-Wl,-Bsymbolic-functions",
    "-Wl,-z,norelro",
    "-Wl,--no-rosegment",
    "-nostartfiles",
    "-Wl,--wrap=malloc",
    "-Wl,--wrap=calloc",
    "-Wl,--wrap=realloc",
    "-Wl,--wrap=posix_memalign",
    "-Wl,--wrap=free",
    "-Wl,--wrap=close",
];

fn main() -> std::io::Result<()> {
    println!("cargo:rerun-if-changed=build.rs");
    let Some(out) = std::env::var_os("OUT_DIR").map(PathBuf::from) else { return Ok(()) };
    link_unwinder(&out)?;
    let script = out.join("start.ld");
    std::fs::write(&script, SCRIPT)?;
    println!("cargo:rustc-cdylib-link-arg=-Wl,-T,{}", script.display());
    for argument in ARGUMENTS {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
    for name in LOOKED_UP_WHEN_CALLED {
        println!("cargo:rustc-cdylib-link-arg=-Wl,--wrap={name}");
    }
    std::fs::write(out.join("libc_jumps.s"), jumps())
}

/// Where calls of [`LOOKED_UP_WHEN_CALLED`] go.
fn jumps() -> String {
    let jump = match std::env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("x86_64") => |name: &str| format!("jmp __real_{name}@PLT"),
        _ => |name: &str| format!("b __real_{name}"),
    };
    // Where this library is linked into a test there is nothing of that name, and no caller.
    let lines = |name: &&str| {
        let jump = jump(name);
        format!(
            ".weak __real_{name}\n.globl __wrap_{name}\n.hidden __wrap_{name}\n.type __wrap_{name}, %function\n__wrap_{name}:\n{jump}\n"
        )
    };
    LOOKED_UP_WHEN_CALLED.iter().map(lines).collect()
}

/// The standard library asks for -lgcc_s: the linker finds this script first.
fn link_unwinder(out: &Path) -> std::io::Result<()> {
    std::fs::write(out.join("libgcc_s.so"), "INPUT(-lgcc -lgcc_eh)\n")?;
    println!("cargo:rustc-link-search=native={}", out.display());
    Ok(())
}
