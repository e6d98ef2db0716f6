//! Media that are played on others: the profile is told, an impossible one is refused, and the obtained figures are measured.
//!
//! The figures of the machine's medium are not known here: 1 ns is faster than any, and 50,000 ns slower.

use crate::common::TestFolder;
use serde_json::Value;

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
