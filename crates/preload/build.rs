//! How the library is linked, so that a program's start stays cheap: with the unwinder inside (loading
//! libgcc_s costs every program 0.1 ms, for panics that never leave this library), and without the
//! constructor and destructor of mimalloc (0.08 ms; `memory` starts the heap when it is needed).

use std::path::{Path, PathBuf};

/// Read by the linker beside its own script.
const WITHOUT_HEAP_START: &str = "SECTIONS {
  /DISCARD/ : {
    *mimalloc*static.o(.init_array .init_array.* .fini_array .fini_array.*)
    *mimalloc*:*static.o(.init_array .init_array.* .fini_array .fini_array.*)
  }
}
INSERT AFTER .text;
";

fn main() -> std::io::Result<()> {
    println!("cargo:rerun-if-changed=build.rs");
    let Some(out) = std::env::var_os("OUT_DIR").map(PathBuf::from) else { return Ok(()) };
    link_unwinder(&out)?;
    let script = out.join("without-heap-start.ld");
    std::fs::write(&script, WITHOUT_HEAP_START)?;
    println!("cargo:rustc-cdylib-link-arg=-Wl,-T,{}", script.display());
    Ok(())
}

/// The standard library asks for -lgcc_s: the linker finds this script first.
fn link_unwinder(out: &Path) -> std::io::Result<()> {
    std::fs::write(out.join("libgcc_s.so"), "INPUT(-lgcc -lgcc_eh)\n")?;
    println!("cargo:rustc-link-search=native={}", out.display());
    Ok(())
}
