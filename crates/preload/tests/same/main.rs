//! Real programs, unmodified: a script does on the store what it does on a directory of the kernel's.
//!
//! Each script runs twice, in an empty directory of the same name: once on this machine's disk, once on a
//! store that appears there. Its output, its end and the files that it leaves behind must be the same, entry by
//! entry: content, kind, mode, owner, size, links, the times it set, extended attributes.
//!
//! The scripts are in `scripts`, one idea each; `prelude.sh` comes before each, `describe.py` says what is left.
//! A script that needs minutes is marked long: `make programs` runs those, too.

#[path = "../common/mod.rs"]
mod common;
mod comparing;

use std::path::Path;
use std::process::Command;

use common::Served;
use comparing::{FOLDER, compare, run};

fn is_the_same(name: &str) {
    let script = Path::new(FOLDER).join(format!("scripts/{name}.sh"));
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("folder");
    let at = folder.path().join("at");
    let directory = at.join("d");
    let empty = |path: &Path| {
        let _ = std::fs::remove_dir_all(path);
        std::fs::create_dir(path).expect("a directory");
    };
    let outside = folder.path().join("outside");
    empty(&outside);
    empty(&at);
    let on_disk = run(&script, &directory, &outside, &|program| Command::new(program));
    empty(&at);
    empty(&outside);
    let store = Served::new();
    let on_store = run(&script, &directory, &outside, &|program| store.command_at(program, &at));
    // Where the store appeared there is a directory on the disk, too: nothing got there.
    assert_eq!(std::fs::read_dir(&at).expect("a directory").count(), 0, "{name}");
    // To be read with --nocapture.
    print!("{name}:\n{}", on_store.said);
    compare(name, "on the store", &on_disk, &on_store);
}

macro_rules! scripts {
    ($($(#[$attribute:meta])* $name:ident,)*) => {
        $(
            #[test]
            $(#[$attribute])*
            fn $name() {
                is_the_same(stringify!($name));
            }
        )*

        #[test]
        fn every_script_is_run() {
            let mut run = vec![$(stringify!($name)),*];
            run.sort();
            assert_eq!(comparing::scripts_in(&format!("{FOLDER}/scripts")), run);
        }
    };
}

scripts! {
    access_lists,
    archive,
    bash,
    cargo,
    commands,
    copy,
    edit,
    #[ignore = "long: make programs"]
    fio,
    follow,
    git,
    #[ignore = "long: make programs"]
    git_packs,
    landlock,
    list,
    locks,
    #[ignore = "long: make programs"]
    make,
    mapping,
    node,
    owners,
    perl,
    #[ignore = "long: make programs"]
    python,
    #[ignore = "long: make programs"]
    redis,
    remove,
    rename,
    #[ignore = "long: make programs"]
    rocksdb,
    rsync,
    search,
    shell,
    #[ignore = "long: make programs"]
    sqlite,
    stdio,
    synced,
}
