//! Charts as tables of Markdown, one of each group of peers.

use std::collections::BTreeMap;

use super::chart::Chart;
use super::report::Report;
use super::table::{Along, GROUPS, Group};
use crate::peers::name::PeerName;

const NOTHING: &str = "–";

/// The tables, with what was measured on above and what went wrong below.
pub fn render(report: &Report) -> String {
    let machine = &report.machine;
    let mut text = format!(
        "{}, {} cores, {} MiB; Linux {}\n",
        machine.cpu, machine.cores, machine.memory_mib, machine.kernel
    );
    if report.quick {
        text += "A quick run: figures are rough.\n";
    }
    for group in GROUPS {
        text += &table(group, &report.charts);
    }
    for (peer, reason) in &report.skipped {
        text += &format!("\n{} skipped: {reason}\n", peer.as_str());
    }
    for (work, peers) in &report.failures {
        for (peer, reason) in peers {
            text += &format!("\n{work} failed on {}: {reason}\n", peer.as_str());
        }
    }
    text
}

/// The table of a group; nothing if none of its peers was measured.
fn table(group: &Group, charts: &[Chart]) -> String {
    let is_measured = |peer: &&PeerName| {
        charts.iter().any(|chart| chart.peers.get(peer).is_some_and(|points| !points.is_empty()))
    };
    let peers: Vec<PeerName> = group.peers.iter().filter(is_measured).copied().collect();
    if peers.is_empty() {
        return String::new();
    }
    let names: Vec<&str> = peers.iter().map(|peer| peer.as_str()).collect();
    let mut text =
        format!("\n| {} | {} |\n|---|{}\n", group.title, names.join(" | "), "---|".repeat(peers.len()));
    for of_curve in charts.chunk_by(|one, next| std::ptr::eq(one.curve, next.curve)) {
        for at in points_of(of_curve, &peers) {
            let cells = peers.iter().map(|&peer| cell(of_curve, peer, at));
            let cells: Vec<String> = cells.collect();
            text += &format!("| {} | {} |\n", label(&of_curve[0], at), cells.join(" | "));
        }
    }
    text
}

/// The points that any of the peers has, from left to right.
fn points_of<'a>(charts: &'a [Chart], peers: &[PeerName]) -> Vec<&'a str> {
    let points =
        charts.iter().flat_map(|chart| peers.iter().filter_map(|peer| chart.peers.get(peer)).flatten());
    // Positions are not negative, so that their bits are in their order.
    let by_position: BTreeMap<u64, &str> =
        points.map(|point| (point.position.to_bits(), &*point.at)).collect();
    by_position.into_values().collect()
}

fn label(chart: &Chart, at: &str) -> String {
    let title = chart.title;
    match chart.curve.along {
        Along::Sizes => format!("{title}, {at}"),
        Along::Percentiles => format!("{title}: {at} take at most"),
        Along::Threads if at == "1" => format!("{title}: 1 thread"),
        Along::Threads => format!("{title}: {at} threads"),
    }
}

/// A peer's values at a point, from the charts of a curve.
fn cell(charts: &[Chart], peer: PeerName, at: &str) -> String {
    let values = charts.iter().filter_map(|chart| {
        let point = chart.peers.get(&peer)?.iter().find(|point| point.at == at)?;
        Some(chart.quantity.written(point.value))
    });
    let values: Vec<String> = values.collect();
    if values.is_empty() { NOTHING.to_owned() } else { values.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curves::chart::tests::two_peers;

    #[test]
    fn a_group_that_was_measured_has_a_table_with_a_row_for_each_point() {
        let charts = two_peers();
        let memory = table(&GROUPS[0], &charts);
        let rows: Vec<&str> = memory.trim().lines().collect();
        assert_eq!(rows[..2], ["| in memory | cuesta | tmpfs |", "|---|---|---|"]);
        assert_eq!(rows[2], "| append and fsync, 64 B | 1.00 µs, 64.0 MB/s | 2.00 µs, 32.0 MB/s |");
        assert!(rows.contains(&"| append 4 KiB and fsync: 99 % take at most | 10.0 µs | 20.0 µs |"));
        assert!(rows.last().unwrap().ends_with(": 8 threads | 2.50 M op/s | 1.25 M op/s |"), "{rows:?}");
        assert_eq!(rows.len(), 2 + 3 * 3 + 2 * 3 + 4);
        assert_eq!(table(&GROUPS[1], &charts), "");
    }
}
