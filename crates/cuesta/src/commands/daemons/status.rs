//! `cuesta status`.

use crate::daemons::daemon::Daemon;
use crate::messages::failure::Failure;
use crate::messages::output;
use crate::messages::size::human;
use crate::messages::system_calls;
use crate::stores::mounts;
use crate::stores::store::Store;
use cuesta_format::emulation::{Figure, Profile};
use cuesta_format::wire::{PredictorStatus, Request, Response, SessionStatus, Status};
use cuesta_format::{BLOCK_BYTES, Durability, Medium};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(
    long_about = "Show what a store holds and who uses it.\n\n\
                  First what a user wants to know: whether it is served, how full it is, what it survives, where it is mounted, and \
                  how many programs use it. Then what goes on inside.\n\n\
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
            output::print(&as_text(&store, &status))?;
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

/// First what a user wants to know, then what goes on inside.
fn as_text(store: &Store, status: &Status) -> String {
    let totals = &status.totals;
    let used = totals.blocks.saturating_sub(totals.blocks_free);
    let waiting: u64 = status.sessions.iter().map(|session| session.log_bytes).sum();
    let mut text = format!(
        "{}  {}, up {}, process {}\n",
        output::heading(&store.folder().display().to_string()),
        if status.refuses_writes.is_some() { "read only" } else { "served" },
        duration(status.uptime_ms),
        status.pid,
    );
    if let Some(why) = &status.refuses_writes {
        text += &format!("  {} nothing is written any more: {why}\n", output::heading("read only:"));
    }
    if status.bad_blocks > 0 {
        text += &format!("  {}", output::bad_blocks(status.bad_blocks));
    }
    if status.healed > 0 {
        text += &format!(
            "  mended the metadata from its other copy {} times (sharedfs.log says where; look at the disk)\n",
            status.healed
        );
    }
    text += &format!(
        "  {} of {} used by {} files, directories and links\n  medium {}: {}\n{}",
        human(used * BLOCK_BYTES),
        human(totals.blocks * BLOCK_BYTES),
        totals.inodes,
        status.medium,
        survival(status.medium),
        durability(status),
    );
    for tier in status.tiers.iter().filter(|_| status.tiers.len() > 1) {
        text += &match &tier.missing {
            None => format!(
                "  tier {}: {} of {}\n",
                tier.name,
                human(tier.blocks_used * BLOCK_BYTES),
                human(tier.blocks * BLOCK_BYTES)
            ),
            Some(why) => {
                let missing = output::heading("missing:");
                format!("  tier {} {missing} what lies there cannot be read: {why}\n", tier.name)
            }
        };
    }
    if let Some(at) = mounts::place_of(store) {
        text += &format!("  mounted at {}\n", at.display());
    }
    if status.sessions.is_empty() {
        text += "  no programs attached\n";
    } else {
        let programs = status.sessions.len();
        let noun = if programs == 1 { "program" } else { "programs" };
        text += &format!("  {programs} {noun} attached; {} written and not digested yet\n", human(waiting));
    }
    text += &not_served(status);
    text + &inside(status)
}

/// The losses that a store on `medium` survives.
fn survival(medium: Medium) -> &'static str {
    match medium {
        Medium::Memory => "survives the death of programs and of the daemon, not a power loss or reboot",
        Medium::Pmem => "survives a power loss",
        Medium::Block => "what was synced survives a power loss",
    }
}

/// When calls that ask for durability return, if some return at once.
fn durability(status: &Status) -> String {
    if status.has_unwritable_log {
        return format!(
            "  {} the disk does not take the logs: every fsync fails\n",
            output::heading("not durable:")
        );
    }
    let Some(bound) = status.optimistic_ms_max else { return String::new() };
    let who = match status.durability {
        Durability::Optimistic => "fsync returns at once".to_owned(),
        Durability::Pessimistic => {
            let is_optimistic = |session: &&SessionStatus| session.durability == Durability::Optimistic;
            let count = status.sessions.iter().filter(is_optimistic).count();
            format!("fsync returns at once in {count} of the programs")
        }
    };
    let oldest = status.unwritten_ms.map_or_else(
        || "everything is on the disk".to_owned(),
        |age| format!("the oldest change has waited {age} ms"),
    );
    format!("  optimistic: {who}, the disk has it within {bound} ms; {oldest}\n")
}

fn not_served(status: &Status) -> String {
    if status.unserved.is_empty() {
        return String::new();
    }
    let calls = status.unserved.iter();
    let rows: Vec<Vec<String>> =
        calls.map(|&(number, count)| vec![system_calls::name(number), count.to_string()]).collect();
    output::table(&["not served", "calls"], &rows)
}

/// The daemon's counters, for the curious and for reports of faults.
fn inside(status: &Status) -> String {
    let mut text = format!(
        "{}\n  store {}{}, {} more promised to programs, metadata {}\n",
        output::heading("inside"),
        status.store,
        output::persistence(status.persistence_domain, status.node),
        human(status.totals.blocks_promised * BLOCK_BYTES),
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
    text += &predictors(status);
    if status.blocks_demoted > 0 {
        let moved = human(status.blocks_demoted * BLOCK_BYTES);
        text += &format!("  moved {moved} of cold content to lower tiers\n");
    }
    if status.blocks_promoted > 0 {
        let [promoted, copied] =
            [status.blocks_promoted, status.blocks_copied].map(|blocks| human(blocks * BLOCK_BYTES));
        text += &format!(
            "  copied {promoted} of hot content to the fast tier, of which {copied} are there now\n"
        );
    }
    if status.shipped > 0 {
        let shared = format!("{} files and directories", status.shipped);
        text += &format!(
            "  performs operations itself, on {shared} that programs share
"
        );
    }
    if status.first_calls > 0 {
        text += &format!(
            "  performed {} first calls of programs without a session; {} of them ended and never attached one\n",
            status.first_calls, status.never_attached
        );
    }
    if !status.sessions.is_empty() {
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
    text
}

/// How often the predictors were right, once they predicted something.
fn predictors(status: &Status) -> String {
    let PredictorStatus { synchronous_right, synchronous_wrong, large_right, large_wrong } =
        status.predictors;
    let rows = [
        ("a program waits for it soon", synchronous_right, synchronous_wrong),
        ("it is large and stays so", large_right, large_wrong),
    ];
    let told = rows.iter().filter(|(_, right, wrong)| right + wrong > 0).map(|(what, right, wrong)| {
        let percent = *right as f64 * 100.0 / (right + wrong) as f64;
        format!("  predictions of writes that {what}: {percent:.1} % right of {}\n", right + wrong)
    });
    told.collect()
}

/// The figures of a medium that is played.
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
