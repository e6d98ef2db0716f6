//! How things are said: colours only on a terminal, JSON where it was asked for, and a reader that went away is no error.

use crate::messages::failure::Failure;
use cuesta_format::PersistenceDomain;
use serde_json::json;
use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether something was printed: a JSON text is the only one there.
static PRINTED: AtomicBool = AtomicBool::new(false);

const RED: &str = "31";
const YELLOW: &str = "33";
const BOLD: &str = "1";

fn styled(terminal: bool, style: &str, text: &str) -> String {
    if terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) {
        format!("\x1b[{style}m{text}\x1b[0m")
    } else {
        text.to_owned()
    }
}

/// Tells why the command gave up: on standard error, or where JSON was asked for and none was printed yet as an object on standard
/// output, where a program looks for it.
pub fn error(failure: &Failure) {
    if is_json() && !PRINTED.load(Ordering::Relaxed) {
        let object = json!({ "error": failure.to_string(), "exit_status": failure.exit_status() });
        // If even this cannot be written, the exit status is left.
        let _ = print(&format!("{object}\n"));
        return;
    }
    complain(&format!("{} {failure}\n", styled(io::stderr().is_terminal(), RED, "cuesta:")));
}

/// Whether this command's output is for programs.
pub fn is_json() -> bool {
    asks_for_json(std::env::args_os().skip(1))
}

/// Whether these arguments ask for JSON. `run` has no such option: what stands there is its program's.
fn asks_for_json(mut arguments: impl Iterator<Item = OsString>) -> bool {
    let is_of_program = arguments.next().is_none_or(|command| command == "run");
    !is_of_program && arguments.take_while(|argument| argument != "--").any(|argument| argument == "--json")
}

/// A path as a word of a shell's command.
pub fn shell_word(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain =
        |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+=:,@%~".contains(&byte) || !byte.is_ascii();
    if !text.is_empty() && text.bytes().all(is_plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// Tells what the user should know although nothing failed.
pub fn warning(text: impl Display) {
    complain(&format!("{} {text}\n", styled(io::stderr().is_terminal(), YELLOW, "warning:")));
}

/// Writes a report to standard error, where errors and warnings go.
pub fn complain(text: &str) {
    // If even this cannot be written there is no way to tell.
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Of blocks that the medium does not take.
pub fn bad_blocks(count: u64) -> String {
    format!(
        "{} {count} blocks that the medium does not take are not used any more\n",
        heading("failing medium:")
    )
}

/// Where stores to persistent memory are durable, and which node it is on, as it is put behind the medium's name.
pub fn persistence(domain: Option<PersistenceDomain>, node: Option<u32>) -> String {
    let Some(domain) = domain else { return String::new() };
    let way = match domain {
        PersistenceDomain::CpuCache => "durable in the processor's caches: eADR",
        PersistenceDomain::MemoryController => "lines are written back: ADR",
    };
    node.map_or_else(|| format!(" ({way})"), |node| format!(" ({way}, node {node})"))
}

/// A heading on standard output.
pub fn heading(text: &str) -> String {
    styled(io::stdout().is_terminal(), BOLD, text)
}

/// Writes to standard output. `Ok(false)`: the reader has seen enough.
pub fn print(text: &str) -> Result<bool, Failure> {
    PRINTED.store(true, Ordering::Relaxed);
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::new(format!("cannot write the output: {error}"))),
    }
}

/// Rows of cells under a heading, columns aligned; numbers (all but the first column) to the right.
pub fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    aligned_table(headings, rows, &[0])
}

/// As [`table`], where other columns are text as well, and go to the left.
pub fn aligned_table(headings: &[&str], rows: &[Vec<String>], text_columns: &[usize]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain(headings.get(column).map(|cell| cell.len())).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..headings.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut line = String::new();
        for (column, (cell, &width)) in cells.zip(&widths).enumerate() {
            if text_columns.contains(&column) {
                line += &format!("  {cell:<width$}");
            } else {
                line += &format!("  {cell:>width$}");
            }
        }
        line.trim_end().to_owned() + "\n"
    };
    let mut text = line(&mut headings.iter().copied());
    for row in rows {
        text += &line(&mut row.iter().map(String::as_str));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_asked_for_before_a_program() {
        let asks = |line: &str| asks_for_json(line.split(' ').map(OsString::from));
        assert!(
            asks("status --json /store")
                && asks("status /store --json")
                && asks("doctor --store s --json -- true")
        );
        assert!(
            !asks("status /store") && !asks("run -- node --json") && !asks("run node --json") && !asks("")
        );
    }

    #[test]
    fn paths_become_words() {
        let word = |path: &str| shell_word(Path::new(path));
        assert_eq!([word("/a/b-c.d"), word("a b"), word("it's")], ["/a/b-c.d", "'a b'", "'it'\\''s'"]);
    }

    #[test]
    fn columns_align() {
        let rows = [vec!["sqlite3".into(), "7".into()], vec!["x".into(), "1234567".into()]];
        assert_eq!(
            table(&["program", "calls"], &rows),
            "  program    calls\n  sqlite3        7\n  x        1234567\n"
        );
    }
}
