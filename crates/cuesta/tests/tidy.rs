//! What keeps the tree readable, checked: lengths, links, decision numbers, nothing of the machine it was made on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file longer than this holds more than one idea.
const LINES_MAX: usize = 600;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Tracked files with one of `endings`, with their text. Nothing outside a clone.
fn tracked(endings: &[&str]) -> Vec<(PathBuf, String)> {
    let listed = Command::new("git").arg("-C").arg(root()).args(["ls-files", "-z"]).output();
    let Ok(listed) = listed else { return Vec::new() };
    String::from_utf8(listed.stdout)
        .unwrap()
        .split('\0')
        .filter(|name| endings.iter().any(|ending| name.ends_with(ending)))
        .filter_map(|name| Some((PathBuf::from(name), std::fs::read_to_string(root().join(name)).ok()?)))
        .collect()
}

#[track_caller]
fn none(mistakes: Vec<String>) {
    assert!(mistakes.is_empty(), "\n{}", mistakes.join("\n"));
}

#[test]
fn files_are_short() {
    let long = tracked(&[".rs", ".py", ".sh"]).into_iter().filter_map(|(path, text)| {
        let lines = text.lines().count();
        (lines > LINES_MAX).then(|| format!("{}: {lines} lines, more than {LINES_MAX}", path.display()))
    });
    none(long.collect());
}

#[test]
fn links_in_documents_resolve() {
    let mut broken = Vec::new();
    for (path, text) in tracked(&[".md"]) {
        let folder = root().join(&path).parent().unwrap().to_path_buf();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = link.split('#').next().unwrap_or_default();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            if !folder.join(target).exists() {
                broken.push(format!("{}: {link}", path.display()));
            }
        }
    }
    none(broken);
}

#[test]
fn decisions_have_numbers_of_their_own() {
    let mut numbers: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for entry in std::fs::read_dir(root().join("docs/decisions")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        numbers.entry(name.chars().take(4).collect()).or_default().push(name);
    }
    let wrong = numbers.into_iter().filter_map(|(number, names)| {
        let is_number = number.len() == 4 && number.bytes().all(|byte| byte.is_ascii_digit());
        (!is_number || names.len() > 1).then(|| names.join(", "))
    });
    none(wrong.collect());
}

#[test]
fn nothing_tells_of_the_machine_it_was_made_on() {
    // Put together here, so that this file does not find itself.
    let traces = [["/work/", "main"].concat(), ["/root", "/"].concat(), ["/home", "/"].concat()];
    let mut found = Vec::new();
    for (path, text) in tracked(&[".rs", ".md", ".toml", ".py", ".sh", ".lock", "Makefile", ".svg", "/run"]) {
        for (number, line) in text.lines().enumerate() {
            let registry = line.trim_start().starts_with("source = \"")
                && !line.contains("registry+https://github.com/rust-lang/crates.io-index");
            if registry || traces.iter().any(|trace| line.contains(trace.as_str())) {
                found.push(format!("{}:{}: {line}", path.display(), number + 1));
            }
        }
    }
    none(found);
}

#[test]
fn every_file_of_tests_is_in_a_test_program() {
    let files = tracked(&[".rs"]);
    let mut left_out = Vec::new();
    for (path, _) in &files {
        let Some((name, folder)) = path.file_stem().zip(path.parent()) else { continue };
        let suite = root().join(folder).join("suite.rs");
        let manifest = root().join(folder).join("../Cargo.toml");
        if !folder.ends_with("tests") || name == "suite" || !suite.exists() {
            continue;
        }
        let name = name.to_str().unwrap();
        let module = format!("mod {name};");
        let program = format!("path = \"tests/{name}.rs\"");
        let named = |file: PathBuf, words: &str| std::fs::read_to_string(file).unwrap().contains(words);
        if !named(suite, &module) && !named(manifest, &program) {
            left_out.push(format!("{}: neither in suite.rs nor in Cargo.toml", path.display()));
        }
    }
    none(left_out);
}
