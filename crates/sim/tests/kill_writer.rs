//! The kill tests' writer and verifier, tried on the kernel's file system: the oracle must accept
//! the writer's result and nothing else.

use cuesta_sim::kill::history::History;
use cuesta_sim::kill::writer::{ACKNOWLEDGED, ISSUED};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

const SEED: &str = "5";

fn writer(directory: &Path, action: &str, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kill-writer"))
        .args([action, "--seed", SEED, "--root"])
        .arg(directory.join("root"))
        .arg("--history")
        .arg(directory.join("history"))
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn the_oracle_accepts_what_was_written_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root");
    std::fs::create_dir(&root).unwrap();
    std::fs::set_permissions(&root, std::fs::Permissions::from_mode(0o755)).unwrap();
    History::default().save(&directory.path().join("history")).unwrap();

    let written = writer(directory.path(), "write", &["--operations", "500"]);
    assert!(written.status.success());
    let report = written.stdout.split(|byte| *byte == b'\n').nth(1).unwrap();
    assert!(report == [ISSUED, ACKNOWLEDGED].repeat(500), "{}", String::from_utf8_lossy(report));

    let verified = writer(directory.path(), "verify", &["--acknowledged", "500", "--issued", "500"]);
    assert!(verified.status.success(), "{verified:?}");
    assert_eq!(verified.stdout, b"500\n");
    let verified = writer(directory.path(), "verify", &["--acknowledged", "0", "--issued", "400"]);
    assert!(!verified.status.success());

    std::fs::write(root.join("stray"), "").unwrap();
    let verified = writer(directory.path(), "verify", &["--acknowledged", "0", "--issued", "500"]);
    assert!(!verified.status.success());
    let reason = String::from_utf8_lossy(&verified.stderr).into_owned();
    assert!(reason.contains("/stray: should not exist"), "{reason}");
}
