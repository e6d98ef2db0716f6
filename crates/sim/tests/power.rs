//! A slice of the power campaign (`make power-campaign` runs hundreds of cuts): programs work on a store in optimistic mode, the power of
//! its disk goes, and what is left is all they had done at one moment, within the bound.
//!
//! It needs the command and the preload library beside each other, as `make build` leaves them; `CUESTA_BIN` names another command.
//! `CUESTA_SIM_SEED` chooses another slice. The disk needs root and FUSE; skipped visibly otherwise.

use cuesta_sim::doors::why_no_mount;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn cuesta() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_BIN_EXE_power-campaign"));
    let cuesta = std::env::var_os("CUESTA_BIN").map_or_else(|| here.with_file_name("cuesta"), PathBuf::from);
    assert!(Path::new(&cuesta).exists(), "{} is not built; run `make build` first", cuesta.display());
    cuesta
}

/// A process of its own: a cut kills all that descend from it.
fn campaign(cuesta: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_power-campaign"));
    command.arg("--cuesta").arg(cuesta).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_power_cut_leaves_all_that_was_done_at_one_moment_within_the_bound() {
    if let Some(why) = why_no_mount() {
        return println!("skipped: {why}");
    }
    let seed = std::env::var("CUESTA_SIM_SEED").unwrap_or("1".to_owned());
    let ended = campaign(&cuesta(), &["--cuts", "4", "--seed", &seed, "--postgres", "never"]);
    let said = (text(&ended.stdout), text(&ended.stderr));
    assert!(ended.status.success() && said.0.starts_with("4 of 4 cuts survived"), "{said:?}");
    println!("{}", said.0);
}

/// The store's own bound is a hundred times the one that the campaign goes by.
#[test]
fn a_bound_that_is_not_kept_is_found() {
    if let Some(why) = why_no_mount() {
        return println!("skipped: {why}");
    }
    let (cuesta, folder) = (cuesta(), tempfile::tempdir().unwrap());
    let (wrapper, library) = (folder.path().join("cuesta"), "libcuesta_preload.so");
    symlink(cuesta.with_file_name(library), folder.path().join(library)).unwrap();
    let script = format!(
        "#!/bin/bash\nif [ \"$1\" = mkfs ]; then\n\
         {cuesta:?} \"$@\" && echo optimistic_ms_max = 5000 >>\"${{@: -1}}/cuesta.toml\" && sync \"${{@: -1}}/cuesta.toml\"\n\
         else\nexec {cuesta:?} \"$@\"\nfi\n"
    );
    std::fs::write(&wrapper, script).unwrap();
    std::fs::set_permissions(&wrapper, std::fs::Permissions::from_mode(0o755)).unwrap();
    let ended = campaign(&wrapper, &["--cuts", "12", "--seed", "2", "--postgres", "never"]);
    let said = (text(&ended.stdout), text(&ended.stderr));
    assert!(!ended.status.success() && said.1.contains("its session went on"), "{said:?}");
    println!("{}", said.1);
}
