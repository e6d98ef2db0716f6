//! Real programs, unmodified, by a mount, and under `cuesta run` on it: a script does there what it does on a directory of
//! the kernel's. The scripts are those of the preload door's test, and some that only a mount can serve.
//!
//! Needs root and FUSE; skipped visibly otherwise.

#[path = "../common/mod.rs"]
mod common;
#[path = "../../../preload/tests/same/comparing.rs"]
mod comparing;

use common::TestFolder;
use comparing::{FOLDER, Outcome, compare, run};
use std::path::Path;
use std::process::Command;

/// Scripts that only a mount can serve.
const OWN_FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/scripts");

/// What Linux does otherwise with any file system behind FUSE: lines of a script with this in them are not compared.
const OF_THE_KERNEL: [(&str, &str); 3] = [
    // An access list longer than a page is refused with an error of its own.
    ("access_lists", "too many E"),
    // Bytes stored behind the end of a mapped file are seen when the file grows.
    ("mapping", "\\x00end'"),
    ("mapping", "written file"),
];

/// Scripts of what `cuesta run` does not do, and says so: loop devices, `inotify`.
const BY_THE_MOUNT_ALONE: [&str; 2] = ["image", "notifying"];

/// The part of an outcome that is compared.
fn compared(script: &str, outcome: Outcome) -> Outcome {
    let is_compared =
        |line: &&str| !OF_THE_KERNEL.iter().any(|(of, part)| *of == script && line.contains(part));
    let kept = |text: &str| text.split_inclusive('\n').filter(is_compared).collect();
    Outcome { said: kept(&outcome.said), left: kept(&outcome.left) }
}

/// A store that is mounted where the disk had a directory.
struct Mounted<'p> {
    place: &'p TestFolder,
    at: &'p str,
}

impl<'p> Mounted<'p> {
    fn new(place: &'p TestFolder, at: &'p str) -> Mounted<'p> {
        let made = place.cuesta(&["mkfs", "store", "--medium", "memory", "--nvm", "1G"]);
        assert_eq!(made.status(), 0, "{}", made.errors());
        let mounted = place.cuesta(&["mount", "--allow-other", "-o", "dev", "store", at]);
        assert_eq!((mounted.status(), mounted.errors()), (0, String::new()));
        Mounted { place, at }
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = self.place.command(&["unmount", "--lazy", self.at]).output();
        let _ = self.place.command(&["stop", "store"]).output();
        let _ = std::fs::remove_dir_all(self.place.path("store"));
    }
}

fn is_the_same(name: &str) {
    if !common::can_mount() {
        return;
    }
    let own = Path::new(OWN_FOLDER).join(format!("{name}.sh"));
    let script = if own.exists() { own } else { Path::new(FOLDER).join(format!("scripts/{name}.sh")) };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (at, outside) = (folder.path().join("at"), folder.path().join("outside"));
    let place = TestFolder::new();
    let try_it = |start: &dyn Fn(&str) -> Command| {
        for folder in [&at, &outside] {
            let _ = std::fs::create_dir(folder);
        }
        let outcome = run(&script, &at.join("d"), &outside, start);
        std::fs::remove_dir_all(&outside).unwrap();
        compared(name, outcome)
    };
    let on_disk = try_it(&|program| Command::new(program));
    std::fs::remove_dir_all(&at).unwrap();
    std::fs::create_dir(&at).unwrap();
    for (way, is_run) in [("by the mount", false), ("under cuesta run on the mount", true)] {
        if is_run && BY_THE_MOUNT_ALONE.contains(&name) {
            continue;
        }
        let _mounted = Mounted::new(&place, at.to_str().unwrap());
        let there = try_it(&|program| {
            let mut command = Command::new(program);
            if is_run {
                command = Command::new(place.path("bin/cuesta"));
                command.arg("run").arg("--store").arg(place.path("store")).args(["--", program]);
            }
            command
        });
        // To be read with --nocapture.
        print!("{name} {way}:\n{}", there.said);
        compare(name, way, &on_disk, &there);
    }
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
            let common = comparing::scripts_in(&format!("{FOLDER}/scripts"));
            let mut all = [common, comparing::scripts_in(OWN_FOLDER)].concat();
            all.sort();
            let mut run = vec![$(stringify!($name)),*];
            run.sort();
            assert_eq!(all, run);
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
    #[ignore = "long: make programs"]
    go,
    image,
    kinds,
    large,
    landlock,
    list,
    locks,
    #[ignore = "long: make programs"]
    make,
    mapping,
    #[ignore = "long: make programs"]
    million_names,
    node,
    notifying,
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
    running,
    search,
    shell,
    #[ignore = "long: make programs"]
    sqlite,
    static_programs,
    stdio,
    synced,
}
