//! The layers of the tree, checked: files of a crate use each other in no circle, folders stay small, crates depend on each
//! other as ARCHITECTURE.md says, and comments name their actors.

mod headless;
mod uses;

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::{none, root, tracked};
use uses::Graph;

/// More entries than this in a folder are more than one room.
const ENTRIES_MAX: usize = 15;

/// More headless clauses than this in a crate are no slips of the pen.
const HEADLESS_MAX: usize = 5;

/// Circles that stay, by their sizes. In preload a link of the store may lead to a descriptor of the process: then the path's walk makes
/// the call again from the top, by the table of calls.
const CIRCLES_ALLOWED: &[(&str, usize)] = &[("preload", 10)];

/// The crates that each crate stands on. A crate may also use all crates below these. Tests may use any.
const LAYERS: &[(&str, &[&str])] = &[
    ("format", &[]),
    ("model", &[]),
    ("media", &["format"]),
    ("oplog", &["media", "model"]),
    ("threads", &["model"]),
    ("libfs", &["oplog"]),
    ("placement", &["format"]),
    ("sharedfs", &["oplog", "placement"]),
    ("served", &["libfs"]),
    ("fuse", &["libfs"]),
    ("preload", &["served", "libfs", "threads"]),
    ("cuesta", &["served", "fuse", "sharedfs"]),
    ("sim", &["fuse", "served", "sharedfs"]),
    ("bench", &["fuse", "placement"]),
];

/// The sources of each crate, by their paths below its folder.
fn crates() -> BTreeMap<String, BTreeMap<String, String>> {
    let mut crates: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for (path, text) in tracked(&[".rs"]) {
        let Some(below) = path.to_str().and_then(|path| path.strip_prefix("crates/")) else { continue };
        let (name, path) = below.split_once('/').unwrap();
        crates.entry(name.to_owned()).or_default().insert(path.to_owned(), text);
    }
    crates
}

fn sources(files: &BTreeMap<String, String>) -> impl Iterator<Item = (&str, &str)> {
    files.iter().filter_map(|(path, text)| Some((path.strip_prefix("src/")?, text.as_str())))
}

#[test]
fn no_files_use_each_other_in_a_circle() {
    let mut mistakes = Vec::new();
    for (name, files) in crates() {
        let graph = Graph::new(sources(&files));
        for circle in graph.circles() {
            if CIRCLES_ALLOWED.contains(&(&name, circle.len())) {
                continue;
            }
            mistakes.push(format!("crates/{name}/src: a circle of {} files", circle.len()));
            mistakes.push(graph.describe(&circle));
        }
    }
    none(mistakes);
}

#[test]
fn no_folder_is_crowded() {
    let mut mistakes = Vec::new();
    for (name, files) in crates() {
        let mut entries: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (mut path, _) in sources(&files) {
            while !path.is_empty() {
                let (folder, entry) = path.rsplit_once('/').unwrap_or(("", path));
                entries.entry(folder).or_default().insert(entry);
                path = folder;
            }
        }
        let crowded: Vec<(&str, usize)> = entries
            .iter()
            .map(|(folder, entries)| (*folder, entries.len()))
            .filter(|(_, entries)| *entries > ENTRIES_MAX)
            .collect();
        for (folder, count) in crowded {
            mistakes.push(format!("crates/{name}/src/{folder}: {count} entries, more than {ENTRIES_MAX}"));
        }
    }
    none(mistakes);
}

#[test]
fn comments_name_their_actors() {
    let mut mistakes = Vec::new();
    for (name, files) in crates() {
        let mut counts: Vec<(usize, &str)> =
            files.iter().map(|(path, text)| (headless::count(text), path.as_str())).collect();
        counts.sort_unstable_by(|one, other| other.cmp(one));
        let total: usize = counts.iter().map(|(count, _)| count).sum();
        if total > HEADLESS_MAX {
            let worst: Vec<_> =
                counts.iter().take(5).map(|(count, path)| format!("{count} in {path}")).collect();
            mistakes.push(format!(
                "crates/{name}: {total} headless clauses, more than {HEADLESS_MAX}: {}",
                worst.join(", ")
            ));
        }
    }
    none(mistakes);
}

/// All crates below `name`.
fn below(name: &str) -> BTreeSet<&'static str> {
    let (_, direct) =
        LAYERS.iter().find(|(layer, _)| *layer == name).unwrap_or_else(|| panic!("{name} has no layer"));
    direct.iter().flat_map(|&name| below(name).into_iter().chain([name])).collect()
}

#[test]
fn crates_depend_on_layers_below() {
    let mut mistakes = Vec::new();
    for name in crates().into_keys() {
        let manifest = std::fs::read_to_string(root().join("crates").join(&name).join("Cargo.toml")).unwrap();
        let below = below(&name);
        for dependency in dependencies(&manifest) {
            if !below.contains(dependency.as_str()) {
                mistakes.push(format!("crates/{name} depends on {dependency}, which is not below it"));
            }
        }
    }
    none(mistakes);
}

/// Our crates that a crate needs when it is built, as its manifest says.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let manifest: toml::Table = manifest.parse().unwrap();
    let targets = manifest.get("target").and_then(|targets| targets.as_table());
    let targets = targets.into_iter().flat_map(|targets| targets.values());
    let tables = targets.filter_map(|target| target.as_table()).chain([&manifest]);
    let needed = tables.flat_map(|table| ["dependencies", "build-dependencies"].map(|kind| table.get(kind)));
    let needed = needed.flatten().filter_map(|needed| needed.as_table());
    needed
        .flat_map(|needed| needed.keys())
        .filter_map(|name| Some(name.strip_prefix("cuesta-")?.to_owned()))
        .collect()
}

#[test]
fn a_circle_behind_a_reexport_is_found() {
    let files = [
        ("lib.rs", "mod room; mod door; // use crate::nothing"),
        (
            "door.rs",
            "use crate::room::{Table, key::Key as Other};\nfn text() -> &'static str { \"use crate::room;\" }",
        ),
        ("room/mod.rs", "mod key; mod table;\npub(crate) use table::Table;"),
        (
            "room/table.rs",
            "fn open() { super::key::turn('\\'') }\n#[cfg(test)]\nmod tests { use crate::door::Door; }",
        ),
        ("room/key.rs", "fn turn() { crate::room::Table::new() }"),
    ];
    let graph = Graph::new(files.into_iter());
    let described: Vec<String> = graph.circles().iter().map(|circle| graph.describe(circle)).collect();
    assert_eq!(described, ["    room/table.rs uses room/key.rs\n    room/key.rs uses room/table.rs"]);
}

#[test]
fn headless_clauses_are_counted_in_comments_only() {
    let text = "//! Whoever reads, waits: who writes, too.\nlet who = 1; // and what is written\n/// What was written is \
                read by whom it names, not by nobody.\nlet nobody = \"// nobody\";\n// The writer who waits knows what is there.";
    assert_eq!(headless::count(text), 4);
}
