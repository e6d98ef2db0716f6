//! `cuesta trace`.

use crate::daemons::daemon::Daemon;
use crate::messages::failure::Failure;
use crate::messages::output;
use crate::stores::store::Store;
use cuesta_format::event::Event;
use cuesta_format::wire::{Request, Response};
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::process::ExitCode;

/// How long one question for news waits, in milliseconds.
const WAIT_MS: u32 = 1000;

#[derive(Debug, clap::Args)]
#[command(
    long_about = "Print what the daemon does, as JSON lines.\n\n\
                  Each line is one event: its number, its time in nanoseconds since 1970, its name, and what \
                  belongs to it. A gap in the numbers means that the reader was too slow.",
    after_help = "\
Examples:
  cuesta trace ~/store                         what the daemon still remembers
  cuesta trace --follow ~/store                and what happens from now on
  cuesta trace ~/store | grep '\"digest\"'       digests only

Exit status: 0 done, 1 failed, 3 no daemon serves the store."
)]
pub struct Arguments {
    /// The store's directory
    store: PathBuf,
    /// Keep printing as things happen, until the daemon stops
    #[arg(long, short)]
    follow: bool,
}

pub fn execute(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let store = Store::find(&arguments.store)?;
    let mut daemon = Daemon::expect(&store)?;
    let mut from = 0;
    loop {
        let wait_ms = if arguments.follow { WAIT_MS } else { 0 };
        let events = match daemon.ask(&Request::Trace { from, wait_ms }) {
            Ok(Response::Events(events)) => events,
            Ok(other) => return Err(daemon.unexpected(&other)),
            // The daemon stopped while we listened: the trace is complete.
            Err(_) if arguments.follow && from > 0 => return Ok(ExitCode::SUCCESS),
            Err(failure) => return Err(failure),
        };
        let Some(last) = events.last() else {
            if arguments.follow {
                continue;
            }
            return Ok(ExitCode::SUCCESS);
        };
        from = last.number + 1;
        let text: String = events.iter().map(|event| json_line(event) + "\n").collect();
        if !output::print(&text)? {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// The event as one flat object: what belongs to the step lies beside its name.
fn json_line(event: &Event) -> String {
    let mut line = Map::new();
    line.insert("number".into(), event.number.into());
    line.insert("time_ns".into(), event.time_ns.into());
    if let Ok(Value::Object(step)) = serde_json::to_value(&event.step) {
        for (name, details) in step {
            line.insert("event".into(), name.into());
            if let Value::Object(details) = details {
                line.extend(details);
            }
        }
    }
    Value::Object(line).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuesta_format::ArenaId;
    use cuesta_format::event::Step;

    #[test]
    fn an_event_is_one_flat_line() {
        let event = Event { number: 4, time_ns: 5, step: Step::Allocate { arena: ArenaId(6) } };
        let line: Value = serde_json::from_str(&json_line(&event)).unwrap();
        assert_eq!(line, serde_json::json!({"number": 4, "time_ns": 5, "event": "allocate", "arena": 6}));
    }
}
