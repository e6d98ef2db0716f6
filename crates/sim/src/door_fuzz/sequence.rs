//! A sequence of calls as text, one call a line: `NAME ARGUMENT…`, by `syscall(2)`, or `NAME! ARGUMENT…`, by libc's function
//! of that name. An argument is a number, `'PATH'`, or `[NUMBER,…]`, which is a pointer to these words.
//!
//! In paths `$D` is the directory the sequence starts in, `$E` one outside the store; `(TEXT*COUNT)` repeats.

use super::place::{self, Number};
use super::table;
use std::fmt;

/// An argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Argument {
    /// As it is.
    Number(u64),
    /// A pointer to a path.
    Path(String),
    /// A pointer to words.
    Words(Vec<u64>),
}

/// A call of a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Which.
    pub entry: &'static table::Entry,
    /// Whether it is made by libc's function of this name.
    pub by_wrapper: bool,
    /// With these.
    pub arguments: Vec<Argument>,
}

impl fmt::Display for Argument {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Argument::Number(number) => write!(formatter, "{}", Number(*number)),
            Argument::Path(path) => write!(formatter, "'{path}'"),
            Argument::Words(words) => {
                let words: Vec<_> = words.iter().map(|word| Number(*word).to_string()).collect();
                write!(formatter, "[{}]", words.join(","))
            }
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = if self.by_wrapper { "!" } else { "" };
        write!(formatter, "{}{by}", self.entry.name)?;
        self.arguments.iter().try_for_each(|argument| write!(formatter, " {argument}"))
    }
}

fn argument(text: &str) -> Option<Argument> {
    if let Some(path) = text.strip_prefix('\'') {
        return Some(Argument::Path(path.strip_suffix('\'')?.to_owned()));
    }
    if let Some(words) = text.strip_prefix('[') {
        let words = words.strip_suffix(']')?;
        let words = words.split(',').filter(|word| !word.is_empty()).map(place::parse);
        return Some(Argument::Words(words.collect::<Option<_>>()?));
    }
    place::parse(text).map(Argument::Number)
}

impl std::str::FromStr for Call {
    type Err = String;

    fn from_str(line: &str) -> Result<Call, String> {
        let mut words = line.split_whitespace();
        let name = words.next().ok_or("an empty line")?;
        let (name, by_wrapper) = name.strip_suffix('!').map_or((name, false), |name| (name, true));
        let entry = table::find(name).ok_or_else(|| format!("no call is named {name}"))?;
        let arguments: Option<Vec<_>> = words.map(argument).collect();
        let arguments = arguments.ok_or_else(|| format!("not a call: {line}"))?;
        if arguments.len() > 6 {
            return Err(format!("more than six arguments: {line}"));
        }
        Ok(Call { entry, by_wrapper, arguments })
    }
}

/// Replaces what stands for names in a path.
#[must_use]
pub fn expand(path: &str, directory: &str, outside: &str) -> Vec<u8> {
    let path = path.replace("$D", directory).replace("$E", outside);
    let mut expanded = Vec::new();
    let mut rest = path.as_str();
    while let Some((before, repeated)) = rest.split_once('(') {
        expanded.extend_from_slice(before.as_bytes());
        let (inside, after) = repeated.split_once(')').unwrap_or((repeated, ""));
        let (text, count) = inside.rsplit_once('*').unwrap_or((inside, "1"));
        expanded.extend(text.repeat(count.parse().unwrap_or(1)).bytes());
        rest = after;
    }
    expanded.extend_from_slice(rest.as_bytes());
    expanded
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::door_fuzz::arguments;

    #[test]
    fn every_sequence_is_its_text() {
        for seed in 0..200 {
            for call in arguments::generate(seed, 40) {
                assert_eq!(call.to_string().parse(), Ok(call.clone()), "{call}");
            }
        }
    }

    #[test]
    fn paths_are_expanded() {
        assert_eq!(expand("$D/(ab*2)c", "/d", "/x/out1"), b"/d/ababc");
        assert_eq!(expand("$E/f", "/d", "/x/out1"), b"/x/out1/f");
    }
}
