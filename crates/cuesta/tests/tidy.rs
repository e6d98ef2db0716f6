//! What keeps the tree readable, checked: lengths, decision numbers, nothing of the machine it was made on; and that
//! documents are true where a machine can tell: links, anchors, commands, options and help texts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file longer than this holds more than one idea.
const LINES_MAX: usize = 600;

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Tracked files with one of `endings`, with their text. Nothing outside a clone.
pub(crate) fn tracked(endings: &[&str]) -> Vec<(PathBuf, String)> {
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
pub(crate) fn none(mistakes: Vec<String>) {
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

/// A document taken apart: its lines outside code blocks, and its code blocks.
#[derive(Default)]
struct Document {
    prose: Vec<String>,
    blocks: Vec<Vec<String>>,
}

impl Document {
    fn parse(text: &str) -> Document {
        let mut document = Document::default();
        let mut is_code = false;
        for line in text.lines() {
            if line.trim_start().starts_with("```") {
                is_code = !is_code;
                if is_code {
                    document.blocks.push(Vec::new());
                }
            } else if is_code {
                document.blocks.last_mut().unwrap().push(line.to_owned());
            } else {
                document.prose.push(line.to_owned());
            }
        }
        document
    }

    /// The prose without its code spans.
    fn plain(&self) -> String {
        self.prose.iter().map(|line| line.split('`').step_by(2).collect::<String>() + "\n").collect()
    }

    /// Every command line that is shown, in a code block or in a code span.
    fn commands(&self) -> impl Iterator<Item = &str> {
        let spans = self.prose.iter().flat_map(|line| line.split('`').skip(1).step_by(2));
        self.blocks.iter().flatten().map(String::as_str).chain(spans)
    }

    /// Targets of links and images.
    fn targets(&self) -> Vec<String> {
        let plain = self.plain();
        let inline = plain.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
        let html = ["src=\"", "href=\""].into_iter().flat_map(|mark| plain.split(mark).skip(1));
        let html = html.filter_map(|rest| rest.split('"').next());
        let definitions = plain.lines().filter(|line| line.starts_with('['));
        let definitions =
            definitions.filter_map(|line| line.split_once("]: ")).map(|(_, target)| target.trim());
        inline.chain(html).chain(definitions).map(str::to_owned).collect()
    }

    /// The anchors of a document, which links name behind `#`: each heading, as forges spell it.
    fn anchors(&self) -> BTreeSet<String> {
        let mut times: BTreeMap<String, u32> = BTreeMap::new();
        let headings = self.prose.iter().filter(|line| line.starts_with('#'));
        let anchors = headings.map(|line| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = title.chars().filter(|&letter| letter.is_alphanumeric() || " -_".contains(letter));
            let anchor: String = kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect();
            let before = times.entry(anchor.clone()).or_default();
            *before += 1;
            if *before == 1 { anchor } else { format!("{anchor}-{}", *before - 1) }
        });
        anchors.collect()
    }
}

/// All documents, by their paths below the root.
fn documents() -> BTreeMap<PathBuf, Document> {
    tracked(&[".md"]).into_iter().map(|(path, text)| (path, Document::parse(&text))).collect()
}

#[test]
fn links_in_documents_resolve() {
    let documents = documents();
    let mut broken = Vec::new();
    for (path, document) in &documents {
        let folder = root().join(path).parent().unwrap().to_path_buf();
        for link in document.targets().iter().filter(|link| !link.contains(':')) {
            let (target, anchor) = link.split_once('#').unwrap_or((link, ""));
            let found = match target {
                "" => Ok(root().join(path)),
                _ => folder.join(target).canonicalize(),
            };
            let Ok(found) = found else {
                broken.push(format!("{}: nothing is at {link}", path.display()));
                continue;
            };
            let other = found.strip_prefix(root()).ok().and_then(|inside| documents.get(inside));
            if !anchor.is_empty() && other.is_some_and(|other| !other.anchors().contains(anchor)) {
                broken.push(format!("{}: no heading is at {link}", path.display()));
            }
        }
    }
    none(broken);
}

/// What `cuesta` says of itself, asked for as in a document, with one space between words.
fn help(arguments: &[&str]) -> String {
    let said = Command::new(env!("CARGO_BIN_EXE_cuesta")).args(arguments).output().unwrap();
    let said = String::from_utf8([said.stdout, said.stderr].concat()).unwrap();
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The arguments of a line that asks for a help text, if it is one.
fn asks_for_help(line: &str) -> Option<Vec<&str>> {
    let mut words = line.trim().trim_start_matches("$ ").split_whitespace();
    let is_cuesta = words.next() == Some("cuesta");
    let arguments: Vec<&str> = words.collect();
    (is_cuesta && matches!(arguments.last(), Some(&("--help" | "-h")))).then_some(arguments)
}

#[test]
fn help_texts_in_documents_are_what_the_command_says() {
    let mut untrue = Vec::new();
    for (path, document) in documents() {
        for block in &document.blocks {
            let mut said = None;
            for line in block {
                if let Some(arguments) = asks_for_help(line) {
                    said = Some(help(&arguments));
                } else if line.starts_with("$ ") {
                    said = None;
                } else if let Some(rest) = &said {
                    // A line of dots stands for lines that the excerpt leaves out.
                    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
                    let line = if line == "…" { "" } else { &line };
                    match rest.find(line) {
                        Some(place) => said = Some(rest[place + line.len()..].to_owned()),
                        None => untrue.push(format!("{}: cuesta does not say: {line}", path.display())),
                    }
                }
            }
        }
    }
    none(untrue);
}

/// A command of `line` that begins with `cuesta`: its subcommand, and its long options before those of a program.
fn subcommand_and_options(command: &str) -> Option<(&str, Vec<&str>)> {
    let is_before = |word: &&str| *word == "$" || *word == "sudo" || word.contains('=');
    let mut words = command.split_whitespace().skip_while(is_before);
    let subcommand = words.next().filter(|word| *word == "cuesta").and_then(|_| words.next())?;
    let is_name = subcommand.bytes().all(|byte| byte.is_ascii_lowercase());
    let options = words.take_while(|word| *word != "--" && !word.starts_with('#'));
    let options = options.filter(|word| word.starts_with("--")).filter_map(|word| word.split('=').next());
    is_name.then(|| (subcommand, options.collect()))
}

#[test]
fn commands_in_documents_have_the_options_they_are_given() {
    let mut helps: BTreeMap<String, String> = BTreeMap::new();
    let mut unknown = Vec::new();
    for (path, document) in documents() {
        let commands = document.commands().flat_map(|line| line.split(['|', ';', '&']));
        for (subcommand, options) in commands.filter_map(subcommand_and_options) {
            let help = helps.entry(subcommand.to_owned()).or_insert_with(|| help(&[subcommand, "--help"]));
            if !help.contains(&format!("Usage: cuesta {subcommand}")) && subcommand != "help" {
                unknown.push(format!("{}: there is no cuesta {subcommand}", path.display()));
                continue;
            }
            for option in options {
                let known = help.split([' ', ',']).any(|word| word == option);
                if !known {
                    unknown.push(format!("{}: cuesta {subcommand} has no {option}", path.display()));
                }
            }
        }
    }
    none(unknown);
}

/// The index of the decisions.
const INDEX: &str = "README.md";

/// The names of all decisions' files.
fn decisions() -> Vec<String> {
    let entries = std::fs::read_dir(root().join("docs/decisions")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name != INDEX).collect()
}

#[test]
fn every_decision_is_in_the_index() {
    let index = std::fs::read_to_string(root().join("docs/decisions").join(INDEX)).unwrap();
    let missing = decisions().into_iter().filter(|name| !index.contains(&format!("]({name})")));
    none(missing.map(|name| format!("docs/decisions/{INDEX} does not name {name}")).collect());
}

#[test]
fn decisions_have_numbers_of_their_own() {
    let mut numbers: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in decisions() {
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
