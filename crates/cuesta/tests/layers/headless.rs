//! Counts headless clauses in comments: clauses in which a pronoun stands in the place of the actor.

const ACTORS: &[&str] = &["whoever", "whomever", "nobody", "somebody", "anybody", "whose turn", "of whom"];

/// Words after which "who" has no noun to refer to.
const BEFORE_WHO: &str = "and or but that as is by to for of with than where if when so because until while from only \
                          has have had let lets wakes tells knows sees";

/// Words that make a "what" at the head of a clause the actor of that clause.
const AFTER_WHAT: &str = "was is were are has had comes goes lies came went follows stays changes changed others they \
                          it a the one another";

/// How many headless clauses the comments of a source text have.
pub fn count(text: &str) -> usize {
    text.lines().filter_map(comment).map(count_in).sum()
}

/// The comment of a line, if it has one.
fn comment(line: &str) -> Option<&str> {
    if let Some(rest) = line.trim_start().strip_prefix("//") {
        let rest = rest.strip_prefix(['/', '!']).unwrap_or(rest);
        return Some(rest.strip_prefix(' ').unwrap_or(rest));
    }
    line.split_once(" // ").map(|(_, rest)| rest)
}

fn count_in(comment: &str) -> usize {
    let mut count = 0;
    let mut at = 0;
    while at < comment.len() {
        match clause(&comment[..at], &comment[at..]) {
            Some(length) => {
                count += 1;
                at += length;
            }
            None => at += comment[at..].chars().next().map_or(1, char::len_utf8),
        }
    }
    count
}

/// The length of the headless clause's head that begins between `before` and `rest`.
fn clause(before: &str, rest: &str) -> Option<usize> {
    let is_letter = |letter: char| letter.is_alphanumeric() || letter == '_';
    let is_start = !before.ends_with(is_letter);
    let actor = ACTORS.iter().find(|actor| {
        rest.strip_prefix(**actor).is_some_and(|rest| is_start && !rest.starts_with(is_letter))
    });
    if let Some(actor) = actor {
        return Some(actor.len());
    }
    let is_head = before.is_empty();
    let behind = |marks: &[char]| rest.strip_prefix(marks).and_then(|rest| rest.strip_prefix(' '));
    let behind_word = || {
        let (word, rest) = rest.split_once(' ')?;
        (is_start && BEFORE_WHO.split(' ').any(|before| before == word)).then_some(rest)
    };
    let whos = [is_head.then_some(rest), behind(&['.', ':', ';', ',', '(', '–']), behind_word()];
    let whats = [is_head.then_some(rest), behind(&['.', ':', ';', ',', '('])];
    let who = whos.into_iter().flatten().find_map(|rest| {
        let rest = rest.strip_prefix(['W', 'w'])?.strip_prefix("ho")?;
        let rest = rest.strip_prefix("m ").or(rest.strip_prefix("se ")).or(rest.strip_prefix(' '))?;
        rest.starts_with(is_letter).then_some(rest)
    });
    let what = || {
        whats.into_iter().flatten().find_map(|rest| {
            let (word, rest) = rest.strip_prefix(['W', 'w'])?.strip_prefix("hat ")?.split_once(' ')?;
            AFTER_WHAT.split(' ').any(|after| after == word).then_some(rest)
        })
    };
    who.or_else(what).map(|behind| rest.len() - behind.len())
}
