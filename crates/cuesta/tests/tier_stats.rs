//! The figures of tiers, and the moves of files, as commands tell them.

use crate::common::tiered::{TREE, Tiered, bytes_of_tree};
use serde_json::Value;

impl Tiered {
    fn stats(&self) -> Vec<Value> {
        let ended = self.place.cuesta(&["tier", "stats", "--json", "store"]);
        assert_eq!(ended.status(), 0, "{}", ended.errors());
        let stats: Value = serde_json::from_str(&ended.text()).unwrap();
        stats["tiers"].as_array().unwrap().clone()
    }

    fn explanation(&self, name: &str) -> (Value, String) {
        let explain = |more: &[&str]| {
            let ended = self.place.cuesta(&[&["explain", "--store", "store", name], more].concat());
            assert_eq!(ended.status(), 0, "{}", ended.errors());
            ended.text()
        };
        (serde_json::from_str(&explain(&["--json"])).unwrap(), explain(&[]))
    }
}

#[test]
fn the_figures_of_tiers_tell_how_much_came_and_left_and_why() {
    let tiered = Tiered::with_fast_tier_of("64M");
    tiered.ran(&format!("{TREE}make()"));
    let all = bytes_of_tree();
    assert_eq!(tiered.used(), [all, 0]);
    let stats = tiered.stats();
    assert_eq!((&stats[0]["bytes_used"], &stats[0]["bytes_free"]), (&all.into(), &((64 << 20) - all).into()));
    assert!(stats[0]["moves"]["digest"]["bytes_in"].as_u64().unwrap() >= all, "{}", stats[0]);
    assert_eq!((&stats[1]["moves"], &stats[1]["level"]), (&Value::Object(Default::default()), &Value::Null));
    assert_eq!((&stats[0]["level"], &stats[0]["bad_blocks"]), (&"rest".into(), &0.into()));
    assert_eq!(tiered.migrated("/cuesta/tree", "disk")["files"], 40);
    assert_eq!(tiered.migrated("/cuesta/tree/1", "fast")["bytes_stayed"], 0);
    let back = tiered.used()[0];
    assert_eq!(tiered.place.cuesta(&["tier", "drain", "store", "disk"]).status(), 0);
    let (fast, disk) = (&tiered.stats()[0]["moves"], &tiered.stats()[1]["moves"]);
    let moved = |came: u64, left: u64| serde_json::json!({ "bytes_in": came, "bytes_out": left });
    assert_eq!((&fast["by_hand"], &disk["by_hand"]), (&moved(back, all), &moved(all, back)));
    assert_eq!((&fast["drained"], &disk["drained"]), (&moved(all - back, 0), &moved(0, all - back)));
    let text = tiered.place.cuesta(&["tier", "stats", "store"]).text();
    assert!(text.contains("low mark") && text.contains("disk, drained: 0 B in"), "{text}");
    tiered.assert_sound();
}

#[test]
fn a_file_tells_where_it_came_from_and_what_may_move_it() {
    let tiered = Tiered::with_fast_tier_of("64M");
    tiered.ran(
        "
with open('/cuesta/file', 'wb') as file:
    file.write(b'x' * (40 << 20))
    os.fsync(file.fileno())
open('/cuesta/other', 'wb').write(b'y' * 5000)",
    );
    assert_eq!(tiered.migrated("/cuesta/file", "fast")["is_full"], false);
    assert_eq!(tiered.migrated("/cuesta/file", "disk")["bytes_stayed"], 0);
    assert_eq!(tiered.migrated("/cuesta/other", "disk")["files"], 1);
    let (told, text) = tiered.explanation("file");
    // Its three parts count as one move.
    let last = &told["moves"][0];
    assert_eq!((&last["from"], &last["to"]), (&"fast".into(), &"disk".into()));
    assert_eq!((&last["bytes"], &last["cause"]), (&(40 << 20).into(), &"by hand".into()));
    assert!(text.contains("40.0 MiB moved from fast to disk: by hand"), "{text}");
    assert_eq!(told["extents"][0]["rule"], "stays: no tier is below");
    assert!(text.contains("on disk: stays: no tier is below"), "{text}");
    assert_eq!(tiered.explanation("other").0["moves"].as_array().unwrap().len(), 1);
    tiered.ran(
        "os.setxattr('/cuesta/other', 'user.cuesta.tier', b'fast')\nopen('/cuesta/new', 'wb').write(b'z')",
    );
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while tiered.explanation("other").0["moves"][0]["cause"] != "pinned" {
        assert!(std::time::Instant::now() < until);
    }
    assert_eq!(tiered.explanation("other").0["extents"][0]["rule"], "stays: pinned");
    let rule = tiered.explanation("new").0["extents"][0]["rule"].clone();
    assert!(rule.as_str().unwrap().starts_with("may go to disk: policy benefit"), "{rule}");
    // Another daemon knows nothing of it.
    tiered.stop();
    tiered.ran("pass");
    assert_eq!(tiered.explanation("other").0["moves"], Value::Array(Vec::new()));
    tiered.assert_sound();
}
