//! `cuesta status`.

use crate::daemon::Daemon;
use crate::failure::Failure;
use crate::output;
use crate::size::human;
use crate::store::Store;
use crate::system_calls;
use cuesta_format::BLOCK_BYTES;
use cuesta_format::emulation::{Figure, Profile};
use cuesta_format::wire::{Request, Response, SessionStatus, Status};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(
    long_about = "Show what a store holds and who uses it.\n\n\
                  Also names the system calls on the store's files that are not served yet and were answered \
                  with ENOSYS or EOPNOTSUPP.",
    after_help = "\
Examples:
  cuesta status ~/store
  cuesta status --json ~/store | python3 -m json.tool
  watch -n1 cuesta status ~/store

Exit status: 0 done, 1 failed, 3 no daemon serves the store."
)]
pub struct Arguments {
    /// The store's directory
    store: PathBuf,
    /// For programs
    #[arg(long)]
    json: bool,
}

pub fn execute(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let store = Store::find(&arguments.store)?;
    let mut daemon = Daemon::expect(&store)?;
    match daemon.ask(&Request::Status)? {
        Response::Status(status) if arguments.json => {
            output::print(&(as_json(&status)?.to_string() + "\n"))?;
        }
        Response::Status(status) => {
            output::print(&as_text(store.folder(), &status))?;
        }
        other => return Err(daemon.unexpected(&other)),
    }
    Ok(ExitCode::SUCCESS)
}

/// The status as the daemon tells it, with names where it has numbers.
fn as_json(status: &Status) -> Result<Value, Failure> {
    let mut value = serde_json::to_value(status)
        .map_err(|error| Failure::new(format!("the status cannot be written as JSON: {error}")))?;
    value["store"] = status.store.to_string().into();
    let unserved = status.unserved.iter().map(
        |&(number, count)| json!({ "call": system_calls::name(number), "number": number, "count": count }),
    );
    value["unserved"] = unserved.collect::<Vec<_>>().into();
    Ok(value)
}

fn as_text(folder: &Path, status: &Status) -> String {
    let totals = &status.totals;
    let used = totals.blocks.saturating_sub(totals.blocks_free);
    let mut text = format!(
        "{}  store {}, daemon {}, up {}\n",
        output::heading(&folder.display().to_string()),
        status.store,
        status.pid,
        duration(status.uptime_ms),
    );
    text += &format!(
        "  medium {}{}, {} of {} used, {} more promised to programs, {} inodes, metadata {}\n",
        status.medium,
        output::persistence(status.persistence_domain, status.node),
        human(used * BLOCK_BYTES),
        human(totals.blocks * BLOCK_BYTES),
        human(totals.blocks_promised * BLOCK_BYTES),
        totals.inodes,
        human(status.metadata_bytes),
    );
    if !status.free_on_nodes.is_empty() {
        let nodes = status.free_on_nodes.iter();
        let nodes = nodes.map(|&(node, free)| format!("{} on {node}", human(free * BLOCK_BYTES)));
        text += &format!("  memory nodes: ready for content {}\n", nodes.collect::<Vec<_>>().join(", "));
    }
    if let Some(profile) = status.emulated {
        text += &format!("  plays {} on it: {}\n", profile, figures(profile));
    }
    text += &format!(
        "  recovered {} log entries in {} ms at start\n  digested {} entries, {} of them overtaken before they were copied, {} copied\n  took leases from programs for others {} times\n",
        status.recovered_entries,
        status.recovery_ms,
        status.digested_entries,
        status.coalesced_entries,
        human(status.digested_bytes),
        status.fences,
    );
    if status.bad_blocks > 0 {
        text += &format!("  {}", output::bad_blocks(status.bad_blocks));
    }
    if let Some(why) = &status.refuses_writes {
        text += &format!("  {} nothing is written any more: {why}\n", output::heading("read only:"));
    }
    if status.sessions.is_empty() {
        text += "  no programs attached\n";
    } else {
        let rows: Vec<Vec<String>> = status
            .sessions
            .iter()
            .map(|session| {
                vec![
                    session.program.clone(),
                    session.pid.to_string(),
                    session.session.to_string(),
                    log_of(session),
                    session.leases.to_string(),
                    session.operations.to_string(),
                ]
            })
            .collect();
        text += &output::table(&["program", "process", "session", "log", "leases", "operations"], &rows);
    }
    if !status.requests.is_empty() {
        let rows: Vec<Vec<String>> = status
            .requests
            .iter()
            .map(|waits| {
                let mean = waits.total_us / waits.count.max(1);
                let times = [mean, waits.p99_us, waits.longest_us].map(microseconds);
                [vec![waits.kind.clone(), waits.count.to_string()], times.to_vec()].concat()
            })
            .collect();
        text += &output::table(&["asked by programs", "times", "mean wait", "99 %", "longest"], &rows);
    }
    if !status.unserved.is_empty() {
        let rows: Vec<Vec<String>> = status
            .unserved
            .iter()
            .map(|&(number, count)| vec![system_calls::name(number), count.to_string()])
            .collect();
        text += &output::table(&["not served", "calls"], &rows);
    }
    text
}

/// What is asked of a medium that is played.
fn figures(profile: Profile) -> String {
    let asked = Figure::ALL.into_iter().filter(|figure| figure.of(&profile) != 0);
    let parts: Vec<String> =
        asked.map(|figure| format!("{} {}", figure.title(), figure.written(figure.of(&profile)))).collect();
    parts.join(", ")
}

fn microseconds(us: u64) -> String {
    match us {
        0..10_000 => format!("{us} µs"),
        _ => format!("{} ms", us / 1000),
    }
}

fn duration(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

fn log_of(session: &SessionStatus) -> String {
    let node = session.node.map_or_else(String::new, |node| format!(", node {node}"));
    format!("{} / {}{node}", human(session.log_bytes), human(session.log_capacity_bytes))
}
