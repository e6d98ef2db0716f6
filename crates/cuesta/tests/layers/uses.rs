//! Which file of a crate uses which, read from the source text.
//!
//! An edge goes from a file to the file that defines what it names, by a `use` or by a path in the text. A re-export in the
//! file of a folder is followed, and is no edge itself. Tests inside a crate do not count. The parent module knows which
//! circles are allowed.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;
use std::str::Chars;

/// The path of a module inside its crate; empty for the root.
type Module = Vec<String>;

/// The files of a crate, as numbers, and which of them uses which.
pub struct Graph {
    names: Vec<String>,
    edges: Vec<BTreeSet<usize>>,
}

/// The paths that a file names.
#[derive(Default)]
struct Mentions {
    /// Names that the file of a folder re-exports, with the paths they stand for.
    reexports: BTreeMap<String, Module>,
    used: Vec<Module>,
}

#[derive(Clone, PartialEq)]
enum Token {
    Word(String),
    /// `::`
    Colons,
    Mark(char),
}

impl Graph {
    /// The graph of a crate whose files have these paths below `src`, and these texts.
    pub fn new<'a>(files: impl Iterator<Item = (&'a str, &'a str)>) -> Graph {
        let files: Vec<_> = files.filter(|(path, _)| !is_test(path)).collect();
        let modules: BTreeMap<Module, usize> =
            files.iter().enumerate().map(|(number, (path, _))| (module_of(path), number)).collect();
        let mentions: Vec<Mentions> = files
            .iter()
            .map(|(path, text)| Reader { modules: &modules, module: module_of(path) }.read(&tokens(text)))
            .collect();
        let mut edges = vec![BTreeSet::new(); files.len()];
        for (number, file) in mentions.iter().enumerate() {
            let targets = file.used.iter().filter_map(|path| definer(path, &modules, &mentions, 8));
            edges[number].extend(targets.filter(|&target| target != number));
        }
        Graph { names: files.iter().map(|(path, _)| (*path).to_owned()).collect(), edges }
    }

    /// The largest sets of files each of which uses, by steps, each other one.
    pub fn circles(&self) -> Vec<Vec<usize>> {
        let reached: Vec<BTreeSet<usize>> =
            (0..self.names.len()).map(|file| self.reached_from(file)).collect();
        let mut circles: Vec<Vec<usize>> = Vec::new();
        for file in 0..self.names.len() {
            let circle: Vec<usize> =
                reached[file].iter().copied().filter(|&other| reached[other].contains(&file)).collect();
            if circle.first() == Some(&file) {
                circles.push(circle);
            }
        }
        circles
    }

    /// One line for each file of a circle: which others of the circle it uses.
    pub fn describe(&self, circle: &[usize]) -> String {
        let lines = circle.iter().map(|&file| {
            let used = self.edges[file].iter().filter(|target| circle.contains(target));
            let used: Vec<&str> = used.map(|&target| self.names[target].as_str()).collect();
            format!("    {} uses {}", self.names[file], used.join(", "))
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    fn reached_from(&self, file: usize) -> BTreeSet<usize> {
        let mut reached = BTreeSet::new();
        let mut open = vec![file];
        while let Some(next) = open.pop() {
            open.extend(self.edges[next].iter().copied().filter(|&target| reached.insert(target)));
        }
        reached
    }
}

/// Whether a path below `src` holds tests, or a program of its own.
fn is_test(path: &str) -> bool {
    path.starts_with("bin/")
        || path.ends_with("tests.rs") && module_of(path).last().is_some_and(|name| name == "tests")
        || path.split('/').rev().skip(1).any(|folder| folder == "tests")
}

fn module_of(path: &str) -> Module {
    let mut module: Module = path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if module.last().is_some_and(|name| name == "mod") {
        module.pop();
    }
    if module == ["lib"] || module == ["main"] {
        module.clear();
    }
    module
}

/// The file that defines the item at `path`: the longest prefix that is a module, behind any re-exports.
fn definer(
    path: &[String],
    modules: &BTreeMap<Module, usize>,
    mentions: &[Mentions],
    steps: u32,
) -> Option<usize> {
    let (length, &file) = (0..=path.len()).rev().find_map(|n| Some((n, modules.get(&path[..n])?)))?;
    let Some((name, rest)) = path[length..].split_first() else { return Some(file) };
    match mentions[file].reexports.get(name) {
        Some(target) if steps > 0 => definer(&[target, rest].concat(), modules, mentions, steps - 1),
        Some(_) => None,
        None => Some(file),
    }
}

/// Reads the tokens of one file.
struct Reader<'a> {
    modules: &'a BTreeMap<Module, usize>,
    module: Module,
}

impl Reader<'_> {
    fn read(&self, tokens: &[Token]) -> Mentions {
        let mut mentions = Mentions::default();
        let has_children =
            self.modules.keys().any(|other| other.split_last().is_some_and(|(_, up)| up == self.module));
        let mut at = 0;
        while at < tokens.len() {
            let before = at.checked_sub(1).map(|before| &tokens[before]);
            match &tokens[at] {
                Token::Mark('#') if is_test_module(&tokens[at..]) => at = end_of_braces(tokens, at),
                Token::Word(word) if word == "use" && tokens.get(at + 1) != Some(&Token::Mark('<')) => {
                    let is_public = matches!(before, Some(Token::Mark(')'))) || is_word(before, "pub");
                    let mut paths = Vec::new();
                    at = use_tree(tokens, at + 1, &[], &mut paths);
                    for (path, name) in paths {
                        let Some(path) = self.absolute(&path) else { continue };
                        if is_public && (has_children || self.module.is_empty()) {
                            mentions.reexports.insert(name, path);
                        } else {
                            mentions.used.push(path);
                        }
                    }
                }
                Token::Word(word) if before != Some(&Token::Colons) => {
                    let mut path = vec![word.clone()];
                    while let (Some(Token::Colons), Some(Token::Word(next))) =
                        (tokens.get(at + 1), tokens.get(at + 2))
                    {
                        path.push(next.clone());
                        at += 2;
                    }
                    at += 1;
                    if path.len() > 1 {
                        mentions.used.extend(self.absolute(&path));
                    }
                }
                _ => at += 1,
            }
        }
        mentions
    }

    /// `path` from the root of the crate, if it leads into the crate.
    fn absolute(&self, path: &[String]) -> Option<Module> {
        let first = path.first()?.as_str();
        let ups = path.iter().take_while(|word| *word == "super").count();
        let child = || [self.module.as_slice(), &path[..1]].concat();
        match first {
            "crate" => Some(path[1..].to_vec()),
            "self" => Some([&self.module, &path[1..]].concat()),
            "super" => Some([self.module.get(..self.module.len().checked_sub(ups)?)?, &path[ups..]].concat()),
            _ if self.modules.contains_key(&child()) => Some([self.module.as_slice(), path].concat()),
            _ => None,
        }
    }
}

fn is_word(token: Option<&Token>, word: &str) -> bool {
    matches!(token, Some(Token::Word(other)) if other == word)
}

/// Whether `#[cfg(test)] mod … {` begins here.
fn is_test_module(tokens: &[Token]) -> bool {
    let words = tokens.iter().take(7).map(|token| match token {
        Token::Word(word) => word.clone(),
        Token::Mark(mark) => mark.to_string(),
        Token::Colons => "::".to_owned(),
    });
    let head = words.collect::<String>() == "#[cfg(test)]";
    let mut rest = tokens.iter().skip(7).skip_while(|token| !is_word(Some(token), "mod")).skip(2);
    let is_near = tokens.iter().skip(7).take(5).any(|token| is_word(Some(token), "mod"));
    head && is_near && rest.next() == Some(&Token::Mark('{'))
}

/// The place behind the next pair of braces.
fn end_of_braces(tokens: &[Token], mut at: usize) -> usize {
    let mut depth = 0;
    while at < tokens.len() {
        match tokens[at] {
            Token::Mark('{') => depth += 1,
            Token::Mark('}') if depth == 1 => return at + 1,
            Token::Mark('}') => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    at
}

/// Takes the tree of a `use` apart into paths and the names they get here. Answers with the place of its end.
fn use_tree(tokens: &[Token], mut at: usize, prefix: &[String], paths: &mut Vec<(Module, String)>) -> usize {
    let mut path = prefix.to_vec();
    let mut name = None;
    while let Some(token) = tokens.get(at) {
        at += 1;
        match token {
            Token::Word(word) if word == "as" => {
                if let Some(Token::Word(alias)) = tokens.get(at) {
                    name = Some(alias.clone());
                    at += 1;
                }
            }
            Token::Word(word) => path.push(word.clone()),
            Token::Mark('*') => path.push("*".to_owned()),
            Token::Mark('{') => {
                loop {
                    at = use_tree(tokens, at, &path, paths);
                    match tokens.get(at - 1) {
                        Some(Token::Mark(',')) => {}
                        _ => break,
                    }
                }
                path.clear();
            }
            Token::Mark(',' | '}' | ';') => break,
            _ => {}
        }
    }
    // `use a::{self}` names a itself.
    if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    if path.len() > prefix.len() || (!path.is_empty() && path != prefix) {
        let last = path.last().cloned().unwrap_or_default();
        paths.push((path, name.unwrap_or(last)));
    }
    at
}

/// The words and marks of a source text, without comments, strings, characters and lifetimes.
fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text.chars().peekable();
    while let Some(letter) = rest.next() {
        match letter {
            '/' if rest.peek() == Some(&'/') => while rest.next().is_some_and(|next| next != '\n') {},
            '/' if rest.peek() == Some(&'*') => skip_comment(&mut rest),
            '"' => skip_string(&mut rest),
            '\'' => skip_character(&mut rest),
            ':' if rest.peek() == Some(&':') => {
                rest.next();
                tokens.push(Token::Colons);
            }
            _ if letter.is_alphanumeric() || letter == '_' => {
                let mut word = letter.to_string();
                while let Some(next) = rest.next_if(|next| next.is_alphanumeric() || *next == '_') {
                    word.push(next);
                }
                let is_raw =
                    matches!(word.as_str(), "r" | "br" | "cr") && matches!(rest.peek(), Some('"' | '#'));
                if !(is_raw && skip_raw_string(&mut rest)) {
                    tokens.push(Token::Word(word));
                }
            }
            _ if letter.is_whitespace() => {}
            _ => tokens.push(Token::Mark(letter)),
        }
    }
    tokens
}

fn skip_comment(rest: &mut Peekable<Chars>) {
    let mut depth = 1;
    let mut last = rest.next();
    while depth > 0 {
        let Some(next) = rest.next() else { return };
        depth += match (last, next) {
            (Some('/'), '*') => 1,
            (Some('*'), '/') => -1,
            _ => 0,
        };
        last = Some(next);
    }
}

fn skip_string(rest: &mut Peekable<Chars>) {
    while let Some(next) = rest.next() {
        match next {
            '\\' => drop(rest.next()),
            '"' => return,
            _ => {}
        }
    }
}

/// Skips `"…"` or `#"…"#`. False for a raw identifier, whose `#` alone is taken.
fn skip_raw_string(rest: &mut Peekable<Chars>) -> bool {
    let mut hashes = 0;
    while rest.next_if_eq(&'#').is_some() {
        hashes += 1;
    }
    if rest.next_if_eq(&'"').is_none() {
        return false;
    }
    while let Some(next) = rest.next() {
        if next == '"' {
            let mut seen = 0;
            while seen < hashes && rest.next_if_eq(&'#').is_some() {
                seen += 1;
            }
            if seen == hashes {
                break;
            }
        }
    }
    true
}

/// Skips a character, or the mark of a lifetime.
fn skip_character(rest: &mut Peekable<Chars>) {
    let mut ahead = rest.clone();
    match ahead.next() {
        Some('\\') => {
            rest.next();
            rest.next();
            while rest.next().is_some_and(|next| next != '\'') {}
        }
        Some(_) if ahead.next() == Some('\'') => {
            rest.next();
            rest.next();
        }
        _ => {}
    }
}
