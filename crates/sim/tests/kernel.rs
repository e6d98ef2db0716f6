//! Holds the reference model against the running kernel: the same random calls on both, the same
//! results and errors, the same tree in the end.
//!
//! The kernel's side runs in a thread with a root directory of its own, so that absolute symlinks
//! and `..` mean the same in both; without the right to chroot, paths do not climb.
//! `CUESTA_SIM_SEED` repeats one seed.

use cuesta_sim::generate::{Generator, Repertoire};
use cuesta_sim::model::Model;
use cuesta_sim::operation::{Operation, answers_agree};
use cuesta_sim::posix::Posix;
use cuesta_sim::tree::Tree;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const OPERATIONS: usize = 400;

/// Runs `operations` on both sides; the error says where they part.
fn compare(operations: &[Operation], kernel: &mut Posix) -> Result<(), String> {
    let mut model = Model::new();
    for (step, operation) in operations.iter().enumerate() {
        let (found, expected) = (kernel.apply(operation), model.apply(operation));
        if !answers_agree(&found, &expected) {
            return Err(format!(
                "step {step}: {operation:?}: kernel {found:?}, model {expected:?}\n{:?}",
                Tree::from(&model)
            ));
        }
    }
    let differences =
        kernel.tree().map_err(|errno| format!("walk: {errno}"))?.differences(&Tree::from(&model));
    if differences.is_empty() { Ok(()) } else { Err(differences.join("\n")) }
}

/// Runs `work` with `directory` as its root; false if that is not permitted.
fn chrooted(directory: &Path, work: impl FnOnce() + Send) -> bool {
    std::thread::scope(|scope| {
        scope
            .spawn(|| {
                // SAFETY: only this thread's root, working directory and umask become its own.
                if unsafe { libc::unshare(libc::CLONE_FS) } != 0
                    || rustix::process::chroot(directory).is_err()
                {
                    return false;
                }
                rustix::process::chdir("/").unwrap();
                // SAFETY: umask cannot fail.
                unsafe { libc::umask(0) };
                work();
                true
            })
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn run_seed(seed: u64, parent: &Path) {
    let directory = tempfile::tempdir_in(parent).unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut generator = Generator::new(Repertoire::default(), seed);
    let operations: Vec<Operation> = (0..OPERATIONS).map(|_| generator.next_operation()).collect();
    let permitted = chrooted(directory.path(), || {
        if let Err(reason) = compare(&operations, &mut Posix::new("")) {
            panic!("seed {seed}: {reason}");
        }
    });
    assert!(permitted, "needs root: chroot was refused");
}

#[test]
fn the_model_answers_as_the_kernel_does() {
    let parent = std::env::temp_dir();
    match std::env::var("CUESTA_SIM_SEED") {
        Ok(seed) => run_seed(seed.parse().unwrap(), &parent),
        Err(_) => (0..300).for_each(|seed| run_seed(seed, &parent)),
    }
}
