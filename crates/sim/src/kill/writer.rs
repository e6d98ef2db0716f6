//! The program that gets killed, and the one that looks afterwards. Both run on the store by
//! nothing but libc calls, whichever door these come by.

use super::history::{History, Survived, first_part, operations};
use super::shared::Note;
use crate::operations::operation::answers_agree;
use crate::operations::posix::Posix;
use crate::operations::tree::Tree;
use crate::programs::doors::Door;
use rustix::io::Errno;
use std::io::{self, Write};

/// The writer is about to issue an operation.
pub const ISSUED: u8 = b'i';
/// The operation returned, with the model's answer.
pub const ACKNOWLEDGED: u8 = b'a';
/// The writer is about to publish a note in the shared directory.
pub const SHARED_ISSUED: u8 = b'I';
/// The note is published.
pub const SHARED_ACKNOWLEDGED: u8 = b'A';
/// The operation returned with another answer; text follows, then nothing.
pub const DISAGREED: u8 = b'x';
/// It failed as every call does by a mount without a server; text follows, then nothing.
pub const CUT_OFF: u8 = b'c';

/// The kernel's errors of a mount whose process died: for a call, for one under way, and for a page it does not have.
const OF_A_DEAD_CONNECTION: [Errno; 3] = [Errno::NOTCONN, Errno::CONNABORTED, Errno::IO];

/// A note is published every so many operations.
const OPERATIONS_A_NOTE: usize = 4;

/// Issues operations until it is killed, an answer is wrong, or `count` are done; with `notes` it publishes notes in a
/// directory as well, from the one given.
///
/// On `report` come the process id as a line, then a byte for every step.
pub fn write(
    root: &str,
    history: &History,
    (seed, door): (u64, Door),
    count: u64,
    mut notes: Option<(&str, Note)>,
    report: &mut dyn Write,
) -> io::Result<()> {
    writeln!(report, "{}", std::process::id())?;
    report.flush()?;
    let mut model = history.model();
    let mut store = Posix::new(root);
    for (step, operation) in operations(seed, door).take(count as usize).enumerate() {
        report.write_all(&[ISSUED])?;
        report.flush()?;
        let (found, expected) = (store.apply(&operation), model.apply(&operation));
        if !answers_agree(&found, &expected) {
            report.write_all(&[disagreement(found.as_ref().err().copied())])?;
            write!(report, "step {step}, {operation:?}: {found:?}, expected {expected:?}")?;
            return report.flush();
        }
        report.write_all(&[ACKNOWLEDGED])?;
        report.flush()?;
        if let Some((directory, note)) = notes.as_mut().filter(|_| step % OPERATIONS_A_NOTE == 0) {
            report.write_all(&[SHARED_ISSUED])?;
            report.flush()?;
            if let Err(error) = note.publish(directory) {
                report.write_all(&[disagreement(Errno::from_io_error(&error))])?;
                write!(report, "note {note}: {error}")?;
                return report.flush();
            }
            note.number += 1;
            report.write_all(&[SHARED_ACKNOWLEDGED])?;
            report.flush()?;
        }
    }
    Ok(())
}

/// The byte that reports a wrong answer with this error, if it is one.
fn disagreement(errno: Option<Errno>) -> u8 {
    if errno.is_some_and(|errno| OF_A_DEAD_CONNECTION.contains(&errno)) { CUT_OFF } else { DISAGREED }
}

/// How many of the round's operations the store shows, which must be at least `acknowledged` and
/// at most `issued`.
pub fn verify(
    root: &str,
    history: &History,
    (seed, door): (u64, Door),
    acknowledged: u64,
    issued: u64,
) -> Result<Survived, String> {
    let found = Posix::new(root).tree().map_err(|errno| format!("the store cannot be walked: {errno}"))?;
    let mut model = history.model();
    let mut nearest: Option<(usize, String)> = None;
    let mut operations = operations(seed, door);
    for survived in 0..=issued {
        let next = operations.next().filter(|_| survived < issued);
        let part = next.as_ref().filter(|_| door == Door::Mount).and_then(|next| first_part(&model, next));
        let candidates = [Some(None), part.map(Some)];
        for part in candidates.into_iter().flatten().filter(|_| survived >= acknowledged) {
            let mut expected = model.clone();
            let and_a_part = part.is_some_and(|part| expected.apply(&part).is_ok());
            expected.crash();
            let differences = found.differences(&Tree::from(&expected));
            if differences.is_empty() {
                return Ok(Survived { operations: survived, and_a_part });
            }
            if nearest.as_ref().is_none_or(|(count, _)| differences.len() < *count) {
                nearest = Some((
                    differences.len(),
                    format!("nearest after {survived}: {}", differences.join("; ")),
                ));
            }
        }
        if let Some(operation) = next {
            // An error is an outcome like any other: the writer compared it.
            let _ = model.apply(&operation);
        }
    }
    Err(nearest.map_or(String::new(), |(_, text)| text))
}
