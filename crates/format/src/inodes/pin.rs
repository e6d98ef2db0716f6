//! Pins: the attribute that says on which tier content is to lie.
//!
//! Its value has a line for each rule. A line `PATTERN=TIER` is about files of a directory with such names; a line `TIER` is about a file,
//! or about all files of a directory that no pattern matches. A tier is its number, or the name that the store's configuration gives it.
//! In a pattern `*` stands for any bytes, `?` for one, `[a-z]` and `[!a-z]` for one that is among these, or is not.

/// The name of the attribute.
pub const TIER_ATTRIBUTE: &[u8] = b"user.cuesta.tier";

/// Most rules of one directory.
pub const RULES_MAX: usize = 256;

/// A rule of a pin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinRule {
    /// The names that it is about; `None`: all.
    pub pattern: Option<String>,
    /// The tier, by its name or number.
    pub tier: String,
}

/// Why a value is no pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PinError {
    /// It is not text.
    #[error("it is not UTF-8")]
    Text,
    /// There is no rule.
    #[error("it names no tier")]
    Empty,
    /// Too many lines.
    #[error("it has more than {RULES_MAX} rules")]
    Rules,
    /// A line has no pattern, or no tier.
    #[error("a rule is TIER, or PATTERN=TIER")]
    Rule,
    /// A pattern is about names, not paths.
    #[error("a pattern has no /, and each [ has its ]")]
    Pattern,
    /// Two lines are about all files.
    #[error("two rules are about all files")]
    Twice,
}

impl std::fmt::Display for PinRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.pattern {
            Some(pattern) => write!(f, "{pattern}={}", self.tier),
            None => f.write_str(&self.tier),
        }
    }
}

/// The rules of a value.
pub fn parse_pin(value: &[u8]) -> Result<Vec<PinRule>, PinError> {
    let text = std::str::from_utf8(value).map_err(|_| PinError::Text)?;
    let mut rules: Vec<PinRule> = Vec::new();
    for line in text.trim_end_matches(['\0', '\n']).split('\n') {
        let (pattern, tier) = match line.rsplit_once('=') {
            Some((pattern, tier)) => (Some(pattern), tier),
            None => (None, line),
        };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if tier.is_empty() && pattern.is_none() {
            return Err(PinError::Empty);
        }
        if tier.is_empty() || !tier.bytes().all(is_plain) || pattern.is_some_and(str::is_empty) {
            return Err(PinError::Rule);
        }
        if pattern.is_some_and(|pattern| !is_pattern(pattern.as_bytes())) {
            return Err(PinError::Pattern);
        }
        if pattern.is_none() && rules.iter().any(|rule| rule.pattern.is_none()) {
            return Err(PinError::Twice);
        }
        rules.push(PinRule { pattern: pattern.map(str::to_owned), tier: tier.to_owned() });
    }
    if rules.len() > RULES_MAX { Err(PinError::Rules) } else { Ok(rules) }
}

/// The value that has these rules.
#[must_use]
pub fn pin_value(rules: &[PinRule]) -> Vec<u8> {
    let lines: Vec<String> = rules.iter().map(PinRule::to_string).collect();
    lines.join("\n").into_bytes()
}

/// The rule for a file of that name in a directory with these rules: the first one with a pattern that matches, else the one about all.
#[must_use]
pub fn rule_for<'r>(rules: &'r [PinRule], name: &[u8]) -> Option<&'r PinRule> {
    let matching =
        |rule: &&PinRule| rule.pattern.as_ref().is_some_and(|pattern| matches(pattern.as_bytes(), name));
    rules.iter().find(matching).or_else(|| rules.iter().find(|rule| rule.pattern.is_none()))
}

fn is_pattern(pattern: &[u8]) -> bool {
    let mut rest = pattern;
    while let Some((&first, behind)) = rest.split_first() {
        rest = match first {
            b'/' => return false,
            b'[' => match set_of(behind) {
                Some((_, behind)) => behind,
                None => return false,
            },
            _ => behind,
        };
    }
    true
}

/// The inside of a set, and the rest behind it. A `]` that comes first is one of its bytes.
fn set_of(behind: &[u8]) -> Option<(&[u8], &[u8])> {
    let skipped = 1 + usize::from(behind.first() == Some(&b'!'));
    let end = skipped + behind.get(skipped..)?.iter().position(|&byte| byte == b']')?;
    Some((&behind[..end], &behind[end + 1..]))
}

fn is_in_set(set: &[u8], byte: u8) -> bool {
    let (is_negated, mut set) = match set.split_first() {
        Some((b'!', rest)) => (true, rest),
        _ => (false, set),
    };
    let mut is_found = false;
    while let Some((&first, rest)) = set.split_first() {
        set = match rest {
            [b'-', last, behind @ ..] => {
                is_found |= (first..=*last).contains(&byte);
                behind
            }
            _ => {
                is_found |= first == byte;
                rest
            }
        };
    }
    is_found != is_negated
}

/// Whether a name is one of a pattern's.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut pattern_at, mut at) = (pattern, name);
    // The last star: the pattern behind it, and the rest of the name that it has not taken.
    let mut star: Option<(&[u8], &[u8])> = None;
    loop {
        let step = match (pattern_at.split_first(), at.split_first()) {
            (Some((b'*', behind)), _) => {
                star = Some((behind, at));
                pattern_at = behind;
                continue;
            }
            (None, None) => return true,
            (Some((b'?', behind)), Some((_, rest))) => Some((behind, rest)),
            (Some((b'[', behind)), Some((&byte, rest))) => {
                set_of(behind).filter(|(set, _)| is_in_set(set, byte)).map(|(_, behind)| (behind, rest))
            }
            (Some((&wanted, behind)), Some((&byte, rest))) if wanted == byte => Some((behind, rest)),
            _ => None,
        };
        match (step, star) {
            (Some((behind, rest)), _) => (pattern_at, at) = (behind, rest),
            (None, Some((behind, [_, rest @ ..]))) => {
                star = Some((behind, rest));
                (pattern_at, at) = (behind, rest);
            }
            (None, _) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_is_read_as_it_is_written() {
        for (value, count) in [("1", 1), ("fast\n", 1), ("*.sst=1\n*.log=fast\ndisk", 3), ("a=b=disk", 1)] {
            let rules = parse_pin(value.as_bytes()).unwrap();
            assert_eq!(rules.len(), count, "{value}");
            assert_eq!(parse_pin(&pin_value(&rules)), Ok(rules));
        }
        for (value, error) in [
            ("", PinError::Empty),
            ("a b", PinError::Rule),
            ("*.sst=", PinError::Rule),
            ("=1", PinError::Rule),
            ("1\n2", PinError::Twice),
            ("a/*=1", PinError::Pattern),
            ("[a=1", PinError::Pattern),
        ] {
            assert_eq!(parse_pin(value.as_bytes()), Err(error), "{value}");
        }
        assert_eq!(parse_pin(b"\xff"), Err(PinError::Text));
        assert_eq!(parse_pin("*=1\n".repeat(RULES_MAX + 1).as_bytes()), Err(PinError::Rules));
    }

    #[test]
    fn the_first_pattern_that_matches_counts_and_then_the_rule_about_all() {
        let rules = parse_pin(b"2\n*.sst=1\nold*=3").unwrap();
        let tier = |name: &str| rule_for(&rules, name.as_bytes()).map(|rule| rule.tier.as_str());
        assert_eq!((tier("a.sst"), tier("old.sst"), tier("older")), (Some("1"), Some("1"), Some("3")));
        assert_eq!(tier("other"), Some("2"));
        assert_eq!(rule_for(&rules[1..2], b"other"), None);
    }

    #[test]
    fn patterns_match_as_a_shell_does() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("*.sst", "a.b.sst", true),
            ("*.sst", "a.sst2", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("?", "a", true),
            ("?", "", false),
            ("[a-c]x", "bx", true),
            ("[a-c]x", "dx", false),
            ("[!a-c]x", "dx", true),
            ("[]]", "]", true),
            ("[-a]", "-", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
        assert!(!matches("*a".repeat(50).as_bytes(), "b".repeat(200).as_bytes()));
    }
}
