//! Media that are played on others: the profile is told, an impossible one is refused, and the obtained figures are measured.
//!
//! The figures of the machine's medium are not known here: 1 ns is faster than any, and 50,000 ns slower.

use crate::common::TestFolder;
use serde_json::Value;
use std::fs::File;
use std::path::Path;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn a_store_plays_what_it_was_made_for_until_its_configuration_says_otherwise() {
    let place = TestFolder::new();
    let profile = "read_ns=50000,write_ns=40000";
    let made = place.cuesta(&["mkfs", "store", "--medium", "memory", "--nvm", "8M", "--emulate", profile]);
    assert_eq!(made.status(), 0, "{}", made.errors());
    assert!(made.text().contains(&format!("playing {profile}")), "{}", made.text());
    let used =
        place.cuesta(&["run", "--store", "store", "--", "sh", "-c", "echo x >/cuesta/a; cat /cuesta/a"]);
    assert_eq!((used.status(), used.text().as_str()), (0, "x\n"), "{}", used.errors());
    let status = place.cuesta(&["status", "store"]).text();
    let line = format!("plays {profile} on it: read latency 50000 ns, write latency 40000 ns\n");
    assert!(status.contains(&line), "{status}");
    let status = json(&place.cuesta(&["status", "store", "--json"]).text());
    assert_eq!(status["emulated"]["read_ns"], 50_000);

    assert_eq!(place.cuesta(&["stop", "store"]).status(), 0);
    let path = place.path("store/cuesta.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace(profile, "dram")).unwrap();
    let used = place.cuesta(&["run", "--store", "store", "--", "cat", "/cuesta/a"]);
    assert_eq!((used.status(), used.text().as_str()), (0, "x\n"), "{}", used.errors());
    assert!(!place.cuesta(&["status", "store"]).text().contains("plays"));
}

#[test]
fn mkfs_refuses_a_profile_that_is_none_or_faster_than_the_medium_or_on_a_disk() {
    let place = TestFolder::new();
    let mkfs = |profile: &str, medium: &str, at: &str| {
        place.cuesta(&["mkfs", at, "--medium", medium, "--nvm", "8M", "--emulate", profile])
    };
    mkfs("read_ns=1", "memory", "new")
        .refused(1, &["read latency: asked 1 ns, the medium takes", "calibrate"]);
    let unknown = mkfs("optane", "memory", "new");
    assert_eq!(unknown.status(), 2);
    assert!(unknown.errors().contains("dram, optane-pmm, optane-pmm-x6"), "{}", unknown.errors());
    assert!(!place.path("new").exists());
    let on_disk = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let store = on_disk.path().join("new");
    let refused = mkfs("optane-pmm", "block", store.to_str().unwrap());
    refused.refused(1, &["is on a disk", "memory or pmem"]);
    assert!(!store.exists());
}

#[test]
fn the_daemon_tells_of_an_impossible_configuration() {
    let place = TestFolder::with_store();
    let path = place.path("store/cuesta.toml");
    std::fs::write(&path, "emulate = \"tape\"\n").unwrap();
    let refused = place.cuesta(&["serve", "store"]);
    assert_eq!(refused.status(), 1);
    assert!(refused.errors().contains("\"tape\" is no profile (dram, optane-pmm"), "{}", refused.errors());

    std::fs::write(&path, "emulate = \"read_ns=1\"\n").unwrap();
    assert_eq!(place.cuesta(&["run", "--store", "store", "--", "true"]).status(), 0);
    let log = std::fs::read_to_string(place.path("store/sharedfs.log")).unwrap();
    assert!(log.contains("read latency: asked 1 ns, the medium takes"), "{log}");
}

#[test]
fn calibrate_tells_what_is_asked_and_what_is_obtained() {
    let place = TestFolder::with_store();
    let measured =
        place.cuesta(&["calibrate", "store", "--json", "--emulate", "read_ns=50000,write_mb_s=100"]);
    let told = json(&measured.text());
    assert_eq!(
        (&told["profile"], &told["medium"]),
        (&"read_ns=50000,write_mb_s=100".into(), &"memory".into())
    );
    let figures = told["figures"].as_array().unwrap();
    let names: Vec<&Value> = figures.iter().map(|figure| &figure["figure"]).collect();
    assert_eq!(names, ["read_ns", "write_ns", "read_mb_s", "write_mb_s"]);
    assert_eq!((&figures[0]["asked"], &figures[1]["asked"]), (&50_000.into(), &Value::Null));
    assert!(figures.iter().all(|figure| figure["faster_than_medium"] == false), "{told}");
    assert!(figures[0]["obtained"].as_u64() >= Some(49_000), "it waits: {told}");
    assert!(figures[3]["obtained"].as_u64() <= Some(110), "it waits: {told}");

    let text = place.cuesta(&["calibrate", "store"]).text();
    assert!(text.contains("profile dram, medium memory") && text.contains("obtained"), "{text}");
    let faster = place.cuesta(&["calibrate", "store", "--emulate", "read_ns=1"]);
    faster.refused(1, &["read latency: asked 1 ns, the medium takes", "read_ns=0"]);
    place.cuesta(&["calibrate", "nowhere"]).refused(1, &["nowhere", "no such store"]);
}

/// A store of any medium over a tier that plays a disk; all on a disk.
struct Played {
    place: TestFolder,
    disk: tempfile::TempDir,
}

impl Played {
    fn new(medium: &str, profile: &str) -> Played {
        let (place, disk) = (TestFolder::new(), tempfile::tempdir_in("/var/tmp").unwrap());
        let played = Played { place, disk };
        let tier = format!("disk={}:64M,profile={profile}", played.tier().display());
        let store = played.store();
        let made = played.place.cuesta(&["mkfs", &store, "--medium", medium, "--nvm", "8M", "--tier", &tier]);
        assert_eq!(made.status(), 0, "{}", made.errors());
        played
    }

    fn store(&self) -> String {
        self.disk.path().join("store").display().to_string()
    }

    fn tier(&self) -> std::path::PathBuf {
        self.disk.path().join("tier")
    }

    #[track_caller]
    fn ran(&self, script: &str) {
        let script = format!("import os, random\n{script}");
        let ended = self.place.cuesta(&["run", "--store", &self.store(), "--", "python3", "-c", &script]);
        assert_eq!(ended.status(), 0, "{}{}", ended.text(), ended.errors());
    }

    /// The tier as `cuesta tier list` has it, once all logs are digested.
    fn listed(&self) -> Value {
        assert_eq!(self.place.cuesta(&["explain", "--store", &self.store(), "/cuesta"]).status(), 0);
        json(&self.place.cuesta(&["tier", "list", "--json", &self.store()]).text())["tiers"][1].take()
    }

    /// Reads, writes and flushes that the played disk saw.
    fn used(&self) -> [u64; 3] {
        let listed = self.listed();
        ["reads", "writes", "flushes"].map(|key| listed["disk_use"][key].as_u64().unwrap())
    }

    /// Ends the daemon, and has the kernel forget what it has of the tier.
    fn forget(&self) {
        assert_eq!(self.place.cuesta(&["stop", &self.store()]).status(), 0);
        for arena in std::fs::read_dir(self.tier().join("arenas")).unwrap() {
            let file = File::open(arena.unwrap().path()).unwrap();
            file.sync_all().unwrap();
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        }
    }
}

/// Figures that any disk reaches, and that no test waits for.
const QUICK: &str = "read_ns=2000,write_ns=3000,seek_ns=1000,read_mb_s=100000,write_mb_s=100000";

#[test]
fn a_tier_plays_the_disk_that_it_was_made_for() {
    let played = Played::new("memory", QUICK);
    played.ran("open('/cuesta/large', 'wb').write(random.Random(1).randbytes(20_000_000))");
    let listed = played.listed();
    assert_eq!(listed["profile"], QUICK);
    assert_eq!((&listed["figures"]["seek_ns"], &listed["figures"]["flush_ns"]), (&1000.into(), &0.into()));
    let [_, writes, _] = played.used();
    assert!(writes > 0, "the disk was written");
    let text = played.place.cuesta(&["tier", "list", &played.store()]).text();
    for part in
        ["disk plays read_ns=2000", "random read of 4 KiB 2.0 µs", "sequential read 100.0 GB/s", "it saw"]
    {
        assert!(text.contains(part), "{part:?} is missing: {text}");
    }

    played.forget();
    let [before, ..] = played.used();
    let read = "assert open('/cuesta/large', 'rb').read() == random.Random(1).randbytes(20_000_000)";
    played.ran(read);
    let [cold, ..] = played.used();
    assert!(cold > before, "pages that the cache does not have are read from the disk");
    played.ran(read);
    assert_eq!(played.used()[0], cold, "all is in the page cache");
    played.forget();
    let scrubbed = played.place.cuesta(&["scrub", &played.store()]);
    assert_eq!(scrubbed.status(), 0, "{}{}", scrubbed.text(), scrubbed.errors());
    assert!(played.used()[0] > cold, "SharedFS reads from the disk, too");
}

#[test]
fn a_flush_of_a_tier_is_one_of_the_disk_that_it_plays() {
    let played = Played::new("block", QUICK);
    // The program does not sync the large write. The digest flushes it to the disk before it commits.
    let write = "
with open('/cuesta/large', 'wb') as file:
    file.write(random.Random(2).randbytes(12_000_000))";
    played.ran(write);
    let [_, writes, flushes] = played.used();
    assert!(writes > 0 && flushes > 0, "{:?}", played.used());
    played.ran("open('/cuesta/small', 'wb').write(b'x')");
    assert_eq!(played.used()[1], writes, "the fast tier is no disk that is played");
    played.place.cuesta(&["stop", &played.store()]);
    let checked = played.place.cuesta(&["fsck", &played.store(), "--content"]);
    assert_eq!(checked.status(), 0, "{}{}", checked.text(), checked.errors());
}

#[test]
fn a_profile_that_is_none_is_refused_in_one_line_that_names_those_there_are() {
    let played = Played::new("memory", "hdd");
    let configuration = Path::new(&played.store()).join("cuesta.toml");
    let text = std::fs::read_to_string(&configuration).unwrap();
    assert!(text.contains("\nprofile = \"hdd\"\n"), "{text}");
    std::fs::write(&configuration, text.replace("profile = \"hdd\"", "profile = \"tape\"")).unwrap();
    let refused = played.place.cuesta(&["serve", &played.store()]);
    refused.refused(1, &["\"tape\" is no profile of a disk (nvme, sata-ssd, hdd, optane-ssd)", "line "]);
    assert_eq!(refused.errors().lines().count(), 1, "{}", refused.errors());
    std::fs::write(&configuration, text.replace("\"hdd\"", "{ read_ns = 2000, write_mb_s = 500 }")).unwrap();
    played.ran("open('/cuesta/file', 'wb').write(b'x')");
    assert_eq!(played.listed()["profile"], "read_ns=2000,write_mb_s=500");

    let place = TestFolder::new();
    let mkfs =
        |tier: &str| place.cuesta(&["mkfs", "new", "--medium", "memory", "--nvm", "8M", "--tier", tier]);
    let unknown = mkfs("disk=/var/tmp/none:64M,profile=tape");
    assert_eq!(unknown.status(), 2);
    assert!(unknown.errors().contains("nvme, sata-ssd, hdd, optane-ssd"), "{}", unknown.errors());
    let in_memory = format!("disk={}:64M,profile=hdd", place.path("tier").display());
    mkfs(&in_memory).refused(2, &["is in memory, where no disk is played"]);
    assert!(!place.path("new").exists() && !place.path("tier").exists());
}

#[test]
fn calibrate_measures_a_tier_and_what_it_plays() {
    let played = Played::new("memory", "read_ns=3000000,write_ns=2000000,write_mb_s=50");
    let told = json(&played.place.cuesta(&["calibrate", &played.store(), "--tier", "disk", "--json"]).text());
    assert_eq!(
        (&told["tier"], &told["profile"]),
        (&"disk".into(), &"read_ns=3000000,write_ns=2000000,write_mb_s=50".into())
    );
    let figures = told["figures"].as_array().unwrap();
    let asked: Vec<&Value> = figures.iter().map(|figure| &figure["asked"]).collect();
    assert_eq!(asked, [&3_000_000.into(), &2_000_000.into(), &Value::Null, &50.into()]);
    assert!(figures[0]["obtained"].as_u64() >= Some(3_000_000), "it waits: {told}");
    assert!(figures[1]["obtained"].as_u64() >= Some(2_000_000), "it waits: {told}");
    assert!(figures[3]["obtained"].as_u64() <= Some(51), "it waits: {told}");
    let calibrate =
        |more: &[&str]| played.place.cuesta(&[&["calibrate", &played.store(), "--tier"], more].concat());
    calibrate(&["tape"]).refused(2, &["no lower tier is called so (there are: disk)"]);
    calibrate(&["disk", "--emulate", "optane-pmm"]).refused(2, &["\"optane-pmm\" is no profile of a disk"]);
}
