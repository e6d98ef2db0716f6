//! Links the unwinder into the library. Loading libgcc_s costs every program that starts 0.1 ms, for
//! panics that never leave this library.

use std::path::PathBuf;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let Some(out) = std::env::var_os("OUT_DIR").map(PathBuf::from) else { return };
    // The standard library asks for -lgcc_s: the linker finds this script first.
    if std::fs::write(out.join("libgcc_s.so"), "INPUT(-lgcc -lgcc_eh)\n").is_ok() {
        println!("cargo:rustc-link-search=native={}", out.display());
    }
}
