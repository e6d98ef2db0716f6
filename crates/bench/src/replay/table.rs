//! A replay as tables of Markdown, one of each trace.

use super::report::{Goal, PolicyReport, Report, TierReport, TraceReport};
use crate::figures::units::{GIB, MIB};
use crate::report::table::number;

const NOTHING: &str = "–";

/// The tables.
pub fn render(report: &Report) -> String {
    let mut text = format!(
        "Pieces of {} KiB; policies see one read in {}; the disk moves {} MB/s; seed {}.\n\
         Goals: reads by Zipf's law miss at most {}× as often as the best fixed placement and {}× as often as mtime order (where the \
         best fixed placement does); a scan costs hot files at most {} of their hits; at most {}× as many bytes move as are due. \
         Figures in **bold** miss their goal.\n",
        report.piece_bytes >> 10,
        report.sample,
        report.mb_per_second,
        report.seed,
        Goal::ToFixed.most(),
        Goal::ToMtime.most(),
        percent(Goal::LostByScan.most()),
        Goal::ToBytesDue.most(),
    );
    report.traces.iter().for_each(|trace| text += &table(trace));
    text
}

fn table(trace: &TraceReport) -> String {
    let mut text = format!(
        "\n{}: {} reads of {}, {} writes of {}, {} s; {} at once\n\n",
        trace.name,
        number(trace.reads.reads as f64),
        bytes(trace.reads.bytes),
        number(trace.writes.reads as f64),
        bytes(trace.writes.bytes),
        number(trace.seconds),
        bytes(trace.footprint_bytes),
    );
    text += "| fast tier | by | misses | to optimum | to fixed | to mtime | lost by scan | down | up | dropped | to bytes due |\n";
    text += "|---|---|---|---|---|---|---|---|---|---|---|\n";
    for tier in &trace.tiers {
        let size = match tier.share {
            Some(share) => format!("{share} %, {}", bytes(tier.fast_bytes)),
            None => bytes(tier.fast_bytes),
        };
        for (name, misses) in [("optimum", tier.optimum_misses), ("fixed", tier.fixed_misses)] {
            let cells = [
                if name == "optimum" { size.clone() } else { String::new() },
                name.to_owned(),
                part(misses, tier.reads),
                times(misses, tier.optimum_misses),
                times(misses, tier.fixed_misses),
                times(misses, tier.mtime_misses),
            ];
            text += &format!("| {} | | | | | |\n", cells.join(" | "));
        }
        tier.policies.iter().for_each(|policy| text += &row(tier, policy));
    }
    text
}

fn row(tier: &TierReport, policy: &PolicyReport) -> String {
    let misses = policy.misses.reads;
    let goal = |goal: Goal, text: String| match policy.value_of(goal) {
        Some(value) if !value.is_met => format!("**{text}**"),
        _ => text,
    };
    let value = |goal: Goal, written: &dyn Fn(f64) -> String| {
        policy.value_of(goal).map_or(NOTHING.to_owned(), |value| written(value.value))
    };
    let cells = [
        String::new(),
        policy.policy.to_owned(),
        part(misses, tier.reads),
        times(misses, tier.optimum_misses),
        goal(Goal::ToFixed, times(misses, tier.fixed_misses)),
        goal(Goal::ToMtime, times(misses, tier.mtime_misses)),
        goal(Goal::LostByScan, value(Goal::LostByScan, &percent)),
        bytes(policy.down_bytes),
        bytes(policy.up_bytes),
        bytes(policy.dropped_bytes),
        goal(Goal::ToBytesDue, value(Goal::ToBytesDue, &|ratio| format!("{ratio:.2}×"))),
    ];
    format!("| {} |\n", cells.join(" | "))
}

fn part(of: u64, all: u64) -> String {
    if all == 0 { NOTHING.to_owned() } else { percent(of as f64 / all as f64) }
}

fn percent(part: f64) -> String {
    format!("{} %", number((part * 1e4).round() / 1e2))
}

fn times(value: u64, to: u64) -> String {
    if to == 0 { NOTHING.to_owned() } else { format!("{:.2}×", value as f64 / to as f64) }
}

fn bytes(bytes: u64) -> String {
    match bytes {
        0 => "0".to_owned(),
        _ if bytes >= 10 * GIB => format!("{} GiB", number(bytes as f64 / GIB as f64)),
        _ => format!("{} MiB", number(bytes as f64 / MIB as f64)),
    }
}
