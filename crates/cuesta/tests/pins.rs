//! Content that is pinned to a tier goes there, and stays there.

use crate::common::can_mount;
use crate::common::tiered::{TREE, Tiered, bytes_of_tree};
use serde_json::Value;
use std::process::Command;
use std::time::{Duration, Instant};

impl Tiered {
    #[track_caller]
    fn pins(&self, arguments: &[&str]) -> String {
        let ended = self.place.cuesta(&[&["pin", "--store", "store"], arguments].concat());
        assert_eq!(ended.status(), 0, "{}", ended.errors());
        ended.text()
    }

    #[track_caller]
    fn explained(&self, name: &str) -> Value {
        let ended = self.place.cuesta(&["explain", "--store", "store", "--json", name]);
        assert_eq!(ended.status(), 0, "{}", ended.errors());
        serde_json::from_str(&ended.text()).unwrap()
    }

    /// The tiers that parts of a file lie on.
    fn places(&self, name: &str) -> Vec<String> {
        let explained = self.explained(name);
        let extents = explained["extents"].as_array().unwrap();
        let mut tiers: Vec<String> =
            extents.iter().map(|extent| extent["tier"].as_str().unwrap().to_owned()).collect();
        tiers.dedup();
        tiers
    }

    /// Content moves by itself, until it is so.
    #[track_caller]
    fn wait_until(&self, is_so: impl Fn(&Tiered) -> bool) {
        let until = Instant::now() + Duration::from_secs(60);
        while !is_so(self) {
            let listed = self.place.cuesta(&["tier", "list", "store"]).text();
            assert!(Instant::now() < until, "{listed}");
            std::thread::yield_now();
        }
    }

    fn has_cold_seconds(&self, seconds: u32) {
        let configuration = self.place.path("store/cuesta.toml");
        let text = std::fs::read_to_string(&configuration).unwrap();
        std::fs::write(&configuration, format!("cold_seconds = {seconds}\n{text}")).unwrap();
    }
}

#[test]
fn a_pinned_tree_goes_to_its_tier_and_what_is_made_or_renamed_there_later_follows() {
    let tiered = Tiered::with_fast_tier_of("64M");
    tiered.ran(&format!(
        "{TREE}make()\nos.mkdir('/cuesta/other')\nopen('/cuesta/other/a', 'wb').write(b'a' * 9000)"
    ));
    let mut program = tiered.begin(
        "
check()
files = [open(name(n), 'rb') for n in range(40)]
print('there', flush=True)
input()
assert all(os.pread(file.fileno(), 1 << 20, 0) == data(n) for n, file in enumerate(files))
open('/cuesta/tree/1/new', 'wb').write(b'n' * 50_000)
os.rename('/cuesta/other/a', '/cuesta/tree/2/a')
os.rename('/cuesta/tree/1/2/7', '/cuesta/other/7')
print('made', flush=True)
input()",
    );
    tiered.pins(&["/cuesta/tree", "--to", "disk"]);
    tiered.wait_until(|tiered| tiered.used() == [3 * 4096, bytes_of_tree()]);
    let rule = &tiered.explained("tree/0/0/30")["pin"];
    assert_eq!((&rule["rule"], &rule["tier"], &rule["at"]), (&"disk".into(), &1.into(), &"tree".into()));
    let told = tiered.place.cuesta(&["explain", "--store", "store", "tree/0/0/30"]).text();
    assert!(told.contains("pinned to disk: rule disk of tree"), "{told}");
    program.go_on();
    assert_eq!(program.line().trim(), "made");
    tiered.wait_until(|tiered| {
        tiered.places("tree/1/new") == ["disk"] && tiered.places("tree/2/a") == ["disk"]
    });
    // The file left the tree, so it stays on the tier that a user moves it to.
    assert_eq!(tiered.explained("other/7")["pin"], Value::Null);
    assert_eq!(tiered.migrated("/cuesta/other/7", "fast")["files"], 1);
    program.succeeds();
    tiered.stop();
    // The next daemon finds the pins.
    tiered.ran("open('/cuesta/tree/0/later', 'wb').write(b'l' * 50_000)");
    tiered.wait_until(|tiered| tiered.places("tree/0/later") == ["disk"]);
    assert_eq!(tiered.places("other/7"), ["fast"]);
    tiered.pins(&["/cuesta/tree", "--none"]);
    assert_eq!(tiered.pins(&["/cuesta/tree/0/later"]), "not pinned\n");
    tiered.ran("assert open('/cuesta/other/7', 'rb').read() == random.Random(7).randbytes(49_007)");
    tiered.assert_sound();
}

#[test]
fn what_is_pinned_to_the_fast_tier_comes_up_and_stays_when_it_cools() {
    let tiered = Tiered::with_fast_tier_of("64M");
    tiered.has_cold_seconds(1);
    let write = |names: &str| {
        format!(
            "
for n in {names}:
    with open(f'/cuesta/{{n}}', 'wb') as file:
        file.write(random.Random(n).randbytes(600_000))
        os.fsync(file.fileno())
"
        )
    };
    tiered.ran(&write("range(10)"));
    assert_eq!(tiered.migrated("/cuesta", "disk")["files"], 10);
    for n in 0..10 {
        tiered.pins(&[&format!("/cuesta/{n}"), "--to", "0"]);
    }
    tiered.wait_until(|tiered| (0..10).all(|n| tiered.places(&n.to_string()) == ["fast"]));
    // The others are younger, and have to go.
    tiered.ran(&write("range(10, 85)"));
    tiered.wait_until(|tiered| tiered.used()[0] <= 33 << 20);
    for n in 0..10 {
        assert_eq!(tiered.places(&n.to_string()), ["fast"], "{n}");
    }
    tiered.ran(
        "
for n in range(85):
    assert open(f'/cuesta/{n}', 'rb').read() == random.Random(n).randbytes(600_000)",
    );
    tiered.assert_sound();
}

#[test]
fn the_nearest_rule_counts_and_patterns_are_about_names() {
    let tiered = Tiered::with_fast_tier_of("64M");
    tiered.ran(
        "
os.makedirs('/cuesta/db/sub/deep')
for name in ['1.sst', '2.log', 'sub/3.sst', 'sub/deep/4.sst', 'sub/deep/5', 'own.sst']:
    open('/cuesta/db/' + name, 'wb').write(b'x' * 70_000)
os.mkdir('/cuesta/links')
os.link('/cuesta/db/sub/3.sst', '/cuesta/links/three')",
    );
    tiered.pins(&["/cuesta/db", "--glob", "*.sst", "--to", "disk"]);
    tiered.pins(&["/cuesta/db/sub/deep", "--to", "fast"]);
    tiered.pins(&["/cuesta/db/own.sst", "--to", "fast"]);
    tiered.wait_until(|tiered| {
        tiered.places("db/1.sst") == ["disk"] && tiered.places("db/sub/3.sst") == ["disk"]
    });
    for name in ["db/2.log", "db/sub/deep/4.sst", "db/sub/deep/5", "db/own.sst"] {
        assert_eq!(tiered.places(name), ["fast"], "{name}");
    }
    assert_eq!(tiered.explained("db/2.log")["pin"], Value::Null);
    assert_eq!(tiered.explained("db/sub/3.sst")["pin"]["rule"], "*.sst=disk");
    // A file with two names stays on the faster one of the tiers.
    tiered.pins(&["/cuesta/links", "--to", "0"]);
    tiered.wait_until(|tiered| tiered.places("db/sub/3.sst") == ["fast"]);
    tiered.pins(&["/cuesta/db", "--to", "fast"]);
    assert_eq!(tiered.pins(&["/cuesta/db"]), "*.sst=disk\nfast\n");
    tiered.pins(&["/cuesta/db", "--glob", "*.sst", "--none"]);
    assert_eq!(tiered.pins(&["/cuesta/db"]), "fast\n");
    tiered.wait_until(|tiered| tiered.places("db/1.sst") == ["fast"]);
    for (arguments, status, why) in [
        (&["/cuesta/db", "--to", "tape"][..], 1, "tape: the store has no such tier"),
        (&["/cuesta/db/1.sst", "--glob", "*", "--to", "1"], 1, "only a directory"),
        (&["/cuesta/db", "--glob", "a/b", "--to", "1"], 1, "a pattern has no /"),
        (&["/cuesta/nothing", "--to", "1"], 1, "no such file"),
        (&["/cuesta/db", "--glob", "*"], 2, "--glob needs"),
    ] {
        tiered.place.cuesta(&[&["pin", "--store", "store"], arguments].concat()).refused(status, &[why]);
    }
    tiered.assert_sound();
}

#[test]
fn both_doors_set_the_attribute_and_refuse_a_tier_that_the_store_lacks() {
    let tiered = Tiered::with_fast_tier_of("64M");
    let script = "
def refused(path, value):
    try:
        os.setxattr(path, 'user.cuesta.tier', value)
    except OSError as error:
        return error.errno == errno.EINVAL
for value in [b'tape', b'7', b'', b'a b', b'*.x=tape', b'\\xff', b'1\\n2']:
    assert refused(at, value), value
    assert refused(at + '/file', value), value
assert refused(at + '/file', b'*.x=disk')
os.setxattr(at, 'user.cuesta.tier', b'*.sst=disk')
os.setxattr(at + '/file', 'user.cuesta.tier', b'disk')
assert os.getxattr(at + '/file', 'user.cuesta.tier') == b'disk'
";
    let prepare = "os.makedirs(at)\nopen(at + '/file', 'wb').write(b'x' * 50_000)\nopen(at + '/a.sst', 'wb').write(b'y' * 50_000)\n";
    tiered.ran(&format!("at = '/cuesta/preloaded'\n{prepare}{script}"));
    let is_there = |at: &str| {
        tiered.wait_until(|tiered| {
            tiered.places(&format!("{at}/file")) == ["disk"]
                && tiered.places(&format!("{at}/a.sst")) == ["disk"]
        });
    };
    is_there("preloaded");
    if can_mount() {
        std::fs::create_dir(tiered.place.path("files")).unwrap();
        assert_eq!(tiered.place.cuesta(&["mount", "store", "files"]).status(), 0);
        let at = tiered.place.path("files/mounted");
        let script = format!("import errno, os\nat = '{}'\n{prepare}{script}", at.display());
        let ended = Command::new("python3").args(["-c", &script]).output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        is_there("mounted");
        std::fs::remove_dir_all(at).unwrap();
        assert_eq!(tiered.place.cuesta(&["unmount", "files"]).status(), 0);
    }
    // The attribute goes as any other, and the pin with it.
    tiered.ran("os.removexattr('/cuesta/preloaded/file', 'user.cuesta.tier')");
    assert_eq!(tiered.explained("preloaded/file")["pin"], Value::Null);
    tiered.assert_sound();
}

#[test]
fn what_the_tier_has_no_room_for_stays_below_and_that_is_told() {
    let tiered = Tiered::with_fast_tier_of("32M");
    tiered.ran(
        "
os.mkdir('/cuesta/tree')
for n in range(50):
    open(f'/cuesta/tree/{n}', 'wb').write(random.Random(n).randbytes(1 << 20))
    os.sync()",
    );
    assert_eq!(tiered.migrated("/cuesta/tree", "disk")["files"], 50);
    tiered.pins(&["/cuesta/tree", "--to", "fast"]);
    let listed = || {
        let listed = tiered.place.cuesta(&["tier", "list", "--json", "store"]).text();
        serde_json::from_str::<Value>(&listed).unwrap()["tiers"][0].clone()
    };
    tiered.wait_until(|_| listed()["bytes_pinned_outside"].as_u64().unwrap() > 0);
    let (used, outside) = (tiered.used(), listed()["bytes_pinned_outside"].as_u64().unwrap());
    assert_eq!((used[0] + used[1], used[1]), (50 << 20, outside));
    assert!(used[0] > 24 << 20 && used[0] < 31 << 20, "{used:?}");
    let text = tiered.place.cuesta(&["tier", "list", "store"]).text();
    assert!(text.contains("pinned to fast lie elsewhere: it has no room"), "{text}");
    // Programs go on. Files that they remove make room.
    tiered.ran(
        "
for n in range(50):
    assert open(f'/cuesta/tree/{n}', 'rb').read() == random.Random(n).randbytes(1 << 20)
for n in range(30):
    os.unlink(f'/cuesta/tree/{n}')",
    );
    tiered.wait_until(|tiered| tiered.used() == [20 << 20, 0] && listed()["bytes_pinned_outside"] == 0);
    tiered.assert_sound();
}
