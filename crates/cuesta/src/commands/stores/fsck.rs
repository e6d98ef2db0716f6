//! `cuesta fsck`.

use crate::commands::daemons::serve::in_use;
use crate::messages::failure::{FSCK_FAILED, Failure};
use crate::messages::output;
use crate::stores::locking;
use crate::stores::store::Store;
use cuesta_format::superblock::SuperblockError;
use cuesta_sharedfs::check::{CheckReport, Mode, Verdict, check_content, check_tiers, told};
use cuesta_sharedfs::trust::Purpose;
use cuesta_sharedfs::{Error, Options};
use serde_json::json;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Something was wrong and is right now.
const REPAIRED: u8 = 1;
/// Something is wrong still.
const DAMAGED: u8 = 2;

#[derive(Debug, clap::Args)]
#[command(
    long_about = "Check a store, and repair what can be.\n\n\
                  First recovers what programs left in their logs when they were killed, as a daemon would; that \
                  is no repair. Then everything the store holds is read and compared. A repair only makes counts, marks \
                  and names agree with what is there; it never drops content.\n\n\
                  Where the journal of the metadata is damaged, the store stays closed. --repair drops the journal from \
                  its first damaged record on, which loses what was committed last, and repairs the rest. Where pages of the \
                  metadata are damaged in every copy, --repair goes on with what can be read of it, says what that \
                  lacks, and keeps the damaged files in the store's folder \"damaged\". Files with what \
                  was stored through mappings that nothing counts on after that are set aside, and told. A file whose \
                  content was stored through mappings and is gone holds what it held before again. Programs that \
                  still run on the store must be started again then. Until all of it is repaired and said the store \
                  stays closed: a repair that was broken off is ended by the next one.",
    after_help = "\
Examples:
  cuesta stop ~/store; cuesta fsck ~/store
  cuesta fsck --dry-run --json ~/store
  cuesta fsck --content ~/store
  cuesta fsck --repair ~/store

Exit status: 0 clean, 1 repaired, 2 damaged (what is listed as damaged is left as it was), 8 could not check."
)]
pub struct Arguments {
    /// The store's directory; no daemon may serve it
    store: PathBuf,
    /// Look only: neither recover logs nor repair anything
    #[arg(long, short = 'n')]
    dry_run: bool,
    /// Read all content, too, and compare it with its checksums, if the store has any (mkfs --checksums)
    #[arg(long)]
    content: bool,
    /// Drop what keeps the store closed, too, and say what was lost
    #[arg(long, conflicts_with = "dry_run")]
    repair: bool,
    /// For programs
    #[arg(long)]
    json: bool,
}

pub fn execute(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let store = Store::find(&arguments.store).map_err(|failure| failure.exiting(FSCK_FAILED))?;
    let purpose = if arguments.dry_run { Purpose::Look } else { Purpose::Repair };
    let trusted = store.open_trusted(purpose).map_err(|failure| failure.exiting(FSCK_FAILED))?;
    let _lock =
        locking::take(&store, &trusted).map_err(|error| in_use(&store, &error).exiting(FSCK_FAILED))?;
    let mode = match arguments {
        Arguments { dry_run: true, .. } => Mode::Report,
        Arguments { repair: true, .. } => Mode::RepairWithLoss,
        _ => Mode::Repair,
    };
    let failed = |error: Error| {
        let failure = Failure::on(store.folder(), trusted.worded(&error.to_string()));
        failure.exiting(if is_damage(&error) { DAMAGED } else { FSCK_FAILED })
    };
    let tier = trusted.tier().path();
    let options = Options::load(&Store::anchored(&trusted).configuration())
        .map_err(|error| Failure::on(store.folder(), error).exiting(FSCK_FAILED))?;
    let mut report = check_tiers(tier, &options.tier, mode).map_err(failed)?;
    if arguments.content {
        report.findings.extend(check_content(tier, &options.lower_tiers()).map_err(failed)?);
    }
    let exit_status = match report.worst() {
        None | Some(Verdict::Noted) => 0,
        Some(Verdict::Repaired) => REPAIRED,
        Some(Verdict::Repairable | Verdict::Damaged) => DAMAGED,
    };
    let text = if arguments.json { as_json(&report, exit_status) } else { as_text(&report) };
    let text = trusted.worded(&text);
    // A reader that went away before the end has not been told.
    if output::print(&text).map_err(|failure| failure.exiting(FSCK_FAILED))? && mode != Mode::Report {
        told(tier).map_err(|error| Failure::on(store.folder(), &error).exiting(FSCK_FAILED))?;
    }
    Ok(ExitCode::from(exit_status))
}

/// Whether the check ended because of what the store holds, not of what the machine could not do.
fn is_damage(error: &Error) -> bool {
    match error {
        Error::Superblock(error) => {
            !matches!(error, SuperblockError::Version { .. } | SuperblockError::Minor { .. })
        }
        Error::SessionTable { .. } | Error::SessionTableHead | Error::Metadata(_) | Error::Damaged(_) => true,
        _ => false,
    }
}

fn verdict_name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Noted => "noted",
        Verdict::Repaired => "repaired",
        Verdict::Repairable => "repairable",
        Verdict::Damaged => "damaged",
    }
}

fn outcome(report: &CheckReport) -> &'static str {
    match report.worst() {
        None | Some(Verdict::Noted) => "clean",
        Some(worst) => verdict_name(worst),
    }
}

fn as_json(report: &CheckReport, exit_status: u8) -> String {
    let findings = report.findings.iter().map(
        |finding| json!({ "problem": finding.problem.to_string(), "verdict": verdict_name(finding.verdict) }),
    );
    let value = json!({
        "outcome": outcome(report),
        "exit_status": exit_status,
        "recovered_entries": report.recovered_entries,
        "inodes": report.inodes,
        "names": report.names,
        "blocks": report.blocks,
        "findings": findings.collect::<Vec<_>>(),
    });
    value.to_string() + "\n"
}

fn as_text(report: &CheckReport) -> String {
    let mut text = String::new();
    for finding in &report.findings {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{:<10}  {}", verdict_name(finding.verdict), finding.problem);
    }
    let _ = writeln!(
        text,
        "{}: {} inodes, {} names, {} blocks; {} log entries recovered",
        output::heading(outcome(report)),
        report.inodes,
        report.names,
        report.blocks,
        report.recovered_entries,
    );
    text
}
