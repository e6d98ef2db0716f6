//! Disks of lower tiers get back the room that removed files had there.

use crate::common::can_mount;
use crate::common::disk::Disk;
use crate::common::room::{room_of, wait_for_room};
use crate::common::tiered::Tiered;
use std::fs::File;

/// Sixty-four megabytes for a lower tier, of which one file is kept.
const REMOVED: &str = "
def content(n):
    return random.Random(n).randbytes(4 << 20)
def write(names):
    for n in names:
        open(f'/cuesta/{n}', 'wb').write(content(n))
def check(names):
    for n in names:
        assert open(f'/cuesta/{n}', 'rb').read() == content(n), n
";

#[test]
fn a_disk_gets_the_room_of_removed_files_back_and_what_is_written_there_then_is_whole() {
    let tiered = Tiered::with_fast_tier_of("64M");
    let python = |script: &str| tiered.ran(&format!("{REMOVED}{script}"));
    let arenas = tiered.tier().join("arenas");
    python("write(range(16))");
    assert!(tiered.used()[1] >= 60 << 20, "{:?}", tiered.used());
    assert!(room_of(&arenas) >= 60 << 20);
    python("for n in range(1, 16): os.unlink(f'/cuesta/{n}')");
    wait_for_room(&arenas, 12 << 20);
    python("check([0])\nwrite(range(20, 36))\ncheck([0] + list(range(20, 36)))");
    assert!(room_of(&arenas) >= 60 << 20);
    tiered.place.kill_daemon();
    tiered.place.wait_until_unused();
    python("check([0] + list(range(20, 36)))\nfor n in range(20, 34): os.unlink(f'/cuesta/{n}')");
    wait_for_room(&arenas, 32 << 20);
    tiered.place.kill_daemon();
    tiered.place.wait_until_unused();
    python("check([0] + list(range(34, 36)))\nwrite(range(40, 60))\ncheck(range(40, 60))");
    tiered.stop();
    let checked = tiered.place.cuesta(&["fsck", "store", "--content"]);
    assert_eq!(checked.status(), 0, "{}{}", checked.text(), checked.errors());
}

/// Room that went back to the disk may be another program's by then.
#[test]
fn a_disk_that_other_files_fill_up_meanwhile_costs_no_content_and_is_no_failed_tier() {
    if !can_mount() {
        return;
    }
    for medium in ["memory", "block"] {
        let disk = Disk::empty();
        let place = &disk.place;
        let fast = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let (fast, tier) =
            (fast.path().join("fast"), format!("disk={}:128M", place.path("disk/tier").display()));
        let arguments = ["mkfs", "store", "--medium", medium, "--nvm", "128M", "--tier", &tier];
        let at: &[&str] = if medium == "block" { &["--nvm-path", fast.to_str().unwrap()] } else { &[] };
        let made = place.cuesta(&[&arguments[..], at].concat());
        assert_eq!(made.status(), 0, "{}", made.errors());
        let python = |script: &str| {
            let script = format!("import errno, os, random\n{REMOVED}{script}");
            let ended = place.cuesta(&["run", "--store", "store", "--", "python3", "-c", &script]);
            assert_eq!(ended.status(), 0, "{}{}", ended.text(), ended.errors());
        };
        let arenas = place.path("disk/tier/arenas");
        python("write(range(16))\nos.sync()\nfor n in range(1, 16): os.unlink(f'/cuesta/{n}')");
        wait_for_room(&arenas, 12 << 20);
        let filler = File::create(place.path("disk/filler")).unwrap();
        let mut bytes = 256 << 20;
        let mut end = 0;
        while bytes >= 4096 {
            match rustix::fs::fallocate(&filler, rustix::fs::FallocateFlags::empty(), end, bytes) {
                Ok(()) => end += bytes,
                Err(_) => bytes /= 2,
            }
        }
        python("write(range(20, 36))\nfor n in range(20, 36): os.fsync(os.open(f'/cuesta/{n}', os.O_RDWR))");
        let listed = place.cuesta(&["tier", "list", "store"]).text();
        assert!(!listed.contains("failed"), "{listed}");
        place.kill_daemon();
        place.wait_until_unused();
        python("check([0] + list(range(20, 36)))");
        std::fs::remove_file(place.path("disk/filler")).unwrap();
        drop(filler);
        python("write(range(40, 52))\ncheck([0] + list(range(20, 36)) + list(range(40, 52)))");
        assert_eq!(place.cuesta(&["stop", "store"]).status(), 0);
        let checked = place.cuesta(&["fsck", "store", "--content"]);
        assert_eq!(checked.status(), 0, "{}{}", checked.text(), checked.errors());
    }
}
