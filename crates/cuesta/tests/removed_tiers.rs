//! Tiers are taken out of a store while programs go on, and others come in.

use crate::common::conversation::Conversation;
use crate::common::disk::Loop;
use crate::common::room::room_of;
use crate::common::tiered::{TREE, Tiered, bytes_of_tree};
use crate::common::{TestFolder, can_mount};
use std::fs::File;
use std::path::Path;
use std::process::Stdio;

impl Tiered {
    #[track_caller]
    fn removes(&self, tier: &str) -> String {
        let removed = self.place.cuesta(&["tier", "remove", "store", tier]);
        assert_eq!(removed.status(), 0, "{}", removed.errors());
        removed.text()
    }

    #[track_caller]
    fn adds(&self, name: &str, folder: &str) -> String {
        let asked = format!("{name}={}:256M", self.disk.path().join(folder).display());
        let added = self.place.cuesta(&["tier", "add", "store", &asked]);
        assert_eq!(added.status(), 0, "{}", added.errors());
        added.text()
    }

    fn tiers(&self) -> Vec<String> {
        let listed = self.place.cuesta(&["tier", "list", "--json", "store"]).text();
        let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
        let tiers = listed["tiers"].as_array().unwrap();
        tiers.iter().map(|tier| format!("{} {}", tier["number"], tier["name"].as_str().unwrap())).collect()
    }

    fn configuration(&self) -> String {
        std::fs::read_to_string(self.place.path("store/cuesta.toml")).unwrap()
    }
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
}

#[test]
fn a_tier_is_taken_out_while_a_program_goes_on_and_another_takes_its_folder() {
    let tiered = Tiered::with_fast_tier_of("64M");
    tiered.ran(&format!("{TREE}make()"));
    tiered.migrated("/cuesta/tree", "disk");
    let arenas = tiered.tier().join("arenas");
    let arena = File::open(std::fs::read_dir(&arenas).unwrap().next().unwrap().unwrap().path()).unwrap();
    // It has the tier's arenas mapped, and knows where the files lie.
    let mut program = tiered.begin(
        "
files = {n: os.open(name(n), os.O_RDWR) for n in range(40)}
def look(more=b''):
    assert all(os.pread(files[n], 1 << 20, 0) == data(n) + more for n in range(40))
look()
print('there', flush=True)
input()
look()
for n in range(40):
    os.pwrite(files[n], b'more', len(data(n)))
    os.fsync(files[n])
look(b'more')
print('wrote', flush=True)
input()
look(b'more')",
    );
    let told = tiered.removes("disk");
    assert!(told.contains("disk is no tier of the store any more") && told.contains(" moved"), "{told}");
    assert!(is_empty(&tiered.tier()));
    // The program still has the file mapped, and the disk below has its room back.
    assert_eq!(std::os::unix::fs::MetadataExt::blocks(&arena.metadata().unwrap()), 0);
    assert_eq!(tiered.tiers(), ["0 fast"]);
    program.go_on();
    assert_eq!(program.line().trim(), "wrote");
    // The number is not used again: the program would take what it has mapped for the new tier's.
    assert!(tiered.adds("disk", "tier").contains("tier 2 in"));
    assert_eq!(tiered.tiers(), ["0 fast", "2 disk"]);
    tiered.migrated("/cuesta/tree", "disk");
    let used = tiered.used();
    assert!(used[0] == 0 && used[1] >= bytes_of_tree(), "{used:?}");
    program.succeeds();
    tiered.assert_sound();
    tiered.ran("assert len(open('/cuesta/tree/1/2/7', 'rb').read()) > 7");
    tiered.assert_sound();
}

#[test]
fn the_tier_in_the_middle_leaves_and_large_writes_go_to_the_one_below() {
    let (tiered, _) = Tiered::over(&[("ssd", "ssd", "128M"), ("disk", "tier", "256M")], "64M");
    tiered.ran("open('/cuesta/before', 'wb').write(random.Random(1).randbytes(12 << 20))");
    assert!(tiered.used()[1] > 0, "{:?}", tiered.used());
    tiered.removes("1");
    assert_eq!(tiered.tiers(), ["0 fast", "2 disk"]);
    tiered.ran("open('/cuesta/behind', 'wb').write(random.Random(2).randbytes(12 << 20))");
    let explained = tiered.place.cuesta(&["explain", "--store", "store", "behind"]).text();
    assert!(explained.contains("disk"), "{explained}");
    // Another tier comes below it, and content goes down there.
    assert!(tiered.adds("archive", "archive").contains("tier 3 in"));
    assert_eq!(tiered.migrated("/cuesta", "archive")["files"], 2);
    let used = tiered.used();
    assert!(used[..2] == [0, 0] && used[2] >= 24 << 20, "{used:?}");
    tiered.removes("archive");
    tiered.ran(
        "
assert open('/cuesta/before', 'rb').read() == random.Random(1).randbytes(12 << 20)
assert open('/cuesta/behind', 'rb').read() == random.Random(2).randbytes(12 << 20)",
    );
    assert!(tiered.configuration().contains("removed_tiers = [1, 3]"));
    tiered.assert_sound();
    let unknown = tiered.place.cuesta(&["tier", "remove", "store", "ssd"]);
    unknown.refused(2, &["ssd: the store has no such lower tier; it has disk"]);
    tiered.place.cuesta(&["tier", "remove", "store", "fast"]).refused(2, &["the fast tier"]);
}

#[test]
fn a_tier_with_more_than_the_others_have_room_for_stays() {
    let tiered = Tiered::new();
    tiered.ran("open('/cuesta/file', 'wb').write(random.Random(3).randbytes(30 << 20))");
    let before = tiered.configuration();
    tiered.place.cuesta(&["tier", "remove", "store", "disk"]).refused(1, &["have room for"]);
    assert_eq!(tiered.configuration(), before);
    tiered.ran("assert open('/cuesta/file', 'rb').read() == random.Random(3).randbytes(30 << 20)");
    tiered.assert_sound();
}

/// The command, the daemon or both die at some step.
#[test]
fn a_removal_that_is_broken_off_leaves_a_store_that_opens_and_goes_on_when_it_is_asked_again() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..6 {
        let tiered = Tiered::with_fast_tier_of("64M");
        tiered.ran(&format!("{TREE}make()"));
        tiered.migrated("/cuesta/tree", "disk");
        let mut program = tiered.begin(
            "
file = os.open('/cuesta/file', os.O_RDWR | os.O_CREAT)
os.pwrite(file, data(30), 0)
print('there', flush=True)
input()
check()
os.pwrite(file, b'more', len(data(30)))
os.fsync(file)
assert os.pread(file, 1 << 20, 0) == data(30) + b'more'
print('wrote', flush=True)
input()
check()",
        );
        let daemon = tiered.place.daemon();
        let mut command = tiered.place.command(&["tier", "remove", "store", "disk"]);
        let mut removing = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let is_at = |removing: &mut std::process::Child, step: &dyn Fn() -> bool| {
            while !step() && removing.try_wait().unwrap().is_none() {
                std::thread::yield_now();
            }
        };
        match round % 3 {
            0 => (0..random.u32(..3000)).for_each(|_| std::thread::yield_now()),
            1 => is_at(&mut removing, &|| tiered.configuration().contains("removing = true")),
            _ => is_at(&mut removing, &|| is_empty(&tiered.tier())),
        }
        removing.kill().unwrap();
        removing.wait().unwrap();
        if random.bool() {
            // It may have left in order already, and another one be there.
            TestFolder::kill_to_its_end(&daemon);
        }
        // It starts a daemon, if there is none.
        tiered.ran("pass");
        program.go_on();
        assert_eq!(program.line().trim(), "wrote", "round {round}");
        tiered.ran(&format!("{TREE}check()"));
        if tiered.tiers().len() > 1 {
            tiered.removes("disk");
        } else if tiered.configuration().contains("[tier.disk]") {
            // Nothing lies there, and no daemon opens it.
            assert!(tiered.removes("disk").contains("0 B moved"));
        }
        assert!(is_empty(&tiered.tier()));
        assert_eq!(tiered.tiers(), ["0 fast"]);
        program.succeeds();
        tiered.adds("disk", "tier");
        tiered.migrated("/cuesta", "disk");
        tiered.ran(&format!("{TREE}check()"));
        tiered.assert_sound();
    }
}

#[test]
fn no_content_goes_to_a_tier_that_is_being_taken_out() {
    let tiered = Tiered::with_fast_tier_of("64M");
    tiered.ran(&format!("{TREE}make()"));
    assert_eq!(tiered.migrated("/cuesta/tree", "disk")["files"], 40);
    assert_eq!(tiered.place.cuesta(&["tier", "drain", "store", "disk"]).status(), 0);
    // As the command leaves it that ended there.
    let text = tiered.configuration().replace("[tier.disk]", "[tier.disk]\nremoving = true");
    std::fs::write(tiered.place.path("store/cuesta.toml"), text).unwrap();
    for _ in 0..2 {
        tiered.ran("open('/cuesta/long', 'wb').write(bytes(8 << 20))");
        assert_eq!(tiered.used().get(1).copied().unwrap_or(0), 0);
        tiered.stop();
    }
    tiered.removes("disk");
    assert!(is_empty(&tiered.tier()));
    tiered.assert_sound();
}

#[test]
fn a_disk_without_a_file_system_is_free_for_other_uses_when_it_is_no_tier_any_more() {
    if !can_mount() {
        return;
    }
    let images = tempfile::tempdir_in("/var/tmp").unwrap();
    let image = images.path().join("image");
    let disk = Loop::new(&image, 100 << 20);
    let tiered = Tiered::with_fast_tier_of("64M");
    let asked = format!("raw={}:90M", disk.0);
    for number in [2, 3] {
        // It is taken for one that holds nothing.
        let added = tiered.place.cuesta(&["tier", "add", "store", &asked]);
        assert!(added.text().contains(&format!("added raw: tier {number} in")), "{}", added.errors());
        tiered.ran("open('/cuesta/file', 'wb').write(random.Random(3).randbytes(20 << 20))");
        let mut program = Conversation::with(
            &tiered.place,
            "
import random
content, file = random.Random(3).randbytes(20 << 20), open('/cuesta/file', 'rb')
assert file.read() == content
print('there', flush=True)
input()
file.seek(0)
assert file.read() == content",
        );
        tiered.migrated("/cuesta", "raw");
        assert_eq!(program.line().trim(), "there");
        rustix::fs::fsync(File::open(&disk.0).unwrap()).unwrap();
        assert!(room_of(&image) >= 20 << 20);
        tiered.removes("raw");
        assert!(room_of(&image) < 4 << 20, "{}", room_of(&image));
        program.succeeds();
    }
    tiered.assert_sound();
}
