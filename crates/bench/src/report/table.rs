//! The report as text.

use super::lines::{Line, Report, counted};
use crate::peers::name::PeerName;
use crate::works::goal::Goal;

/// All of them, in the order of the columns; those that were not asked for have none.
const PEERS: [PeerName; 15] = [
    PeerName::Cuesta,
    PeerName::OnMount,
    PeerName::Mount,
    PeerName::Null,
    PeerName::Bindfs,
    PeerName::Tmpfs,
    PeerName::Ext4Ram,
    PeerName::XfsRam,
    PeerName::Ext4Disk,
    PeerName::XfsDisk,
    PeerName::OnDisk,
    PeerName::MountDisk,
    PeerName::Optimistic,
    PeerName::EatMyData,
    PeerName::Spill,
];
const NOTHING: &str = "–";

/// The table, with what it was measured on above and what went wrong below.
pub fn render(report: &Report) -> String {
    let machine = &report.machine;
    let mut text = format!(
        "{}, {} cores, {} MiB; Linux {}, glibc {}, SQLite {}\n",
        machine.cpu, machine.cores, machine.memory_mib, machine.kernel, machine.glibc, machine.sqlite
    );
    if report.quick {
        text += "A quick run: figures are rough.\n";
    }
    text.push('\n');

    let mut header = vec!["work".to_owned(), "unit".to_owned()];
    let shown: Vec<PeerName> = PEERS.into_iter().filter(|peer| is_shown(report, *peer)).collect();
    header.extend(shown.iter().map(|peer| peer.as_str().to_owned()));
    header.extend(["ratio", "goal", "met?"].map(str::to_owned));
    let mut rows = vec![header];
    rows.extend(report.lines.iter().map(|line| cells(line, &shown)));
    text += &align(&rows);

    for (peer, reason) in &report.skipped {
        text += &format!("\n{} skipped: {reason}", peer.as_str());
    }
    for (work, reason) in &report.skipped_works {
        text += &format!("\n{work} skipped: {reason}");
    }
    for (work, peers) in &report.failures {
        for (peer, reason) in peers {
            text += &format!("\n{work} failed on {}: {reason}", peer.as_str());
        }
    }
    let judged: Vec<bool> = report.lines.iter().filter_map(|line| line.met).collect();
    if !judged.is_empty() {
        let met = judged.iter().filter(|&&met| met).count();
        text += &format!("\n{met} of {} goals met", judged.len());
    }
    text.push('\n');
    text
}

/// Those that give the goals, and those that were measured or should have been.
fn is_shown(report: &Report, peer: PeerName) -> bool {
    let gives_goals =
        matches!(peer, PeerName::Cuesta | PeerName::Tmpfs | PeerName::Ext4Ram | PeerName::Ext4Disk);
    gives_goals
        || report.skipped.contains_key(&peer)
        || report.lines.iter().any(|line| line.peers.contains_key(&peer))
}

fn cells(line: &Line, shown: &[PeerName]) -> Vec<String> {
    let mut cells = vec![line.title.clone(), line.unit.to_owned()];
    let values = shown
        .iter()
        .map(|peer| line.peers.get(peer).map_or(NOTHING.to_owned(), |s| number(counted(line.figure, s))));
    cells.extend(values);
    let compared = match line.compared_by {
        Goal::AddedBelow(_) | Goal::MoreThanBelow { .. } => line.added_of_goal.map(added),
        Goal::Below(_) | Goal::Above(_) | Goal::Least { .. } => None,
        Goal::TimesTmpfs(_)
        | Goal::BelowTimesTmpfs(_)
        | Goal::AtMost { .. }
        | Goal::AtLeast { .. }
        | Goal::Reported => line.ratio_of_goal.map(|ratio| format!("{ratio:.2}×")),
    };
    cells.push(compared.unwrap_or(NOTHING.to_owned()));
    cells.push(line.goal.clone());
    cells.push(match line.met {
        Some(true) => "yes".to_owned(),
        Some(false) => "NO".to_owned(),
        None => String::new(),
    });
    cells
}

/// A difference, always with its sign.
fn added(difference: f64) -> String {
    let text = number(difference.abs());
    if difference < 0.0 && text != number(0.0) { format!("-{text}") } else { format!("+{text}") }
}

/// Three significant digits, thousands and millions as k and M.
pub fn number(value: f64) -> String {
    let (scaled, suffix) = match value.abs() {
        size if size >= 999_500.0 => (value / 1e6, " M"),
        size if size >= 9_995.0 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    let digits = match scaled.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        _ => 2,
    };
    format!("{scaled:.digits$}{suffix}")
}

/// Columns as wide as their widest cell; the first to the left, the others to the right.
fn align(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|c| c.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for (n, row) in rows.iter().enumerate() {
        let padded = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
            if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        text += padded.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
        if n == 0 {
            text += &"─".repeat(widths.iter().sum::<usize>() + 2 * columns.saturating_sub(1));
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::report::lines::tests::{machine, measured};

    #[test]
    fn numbers_keep_three_digits() {
        let cases = [
            (0.0, "0.00"),
            (1.234, "1.23"),
            (12.34, "12.3"),
            (123.4, "123"),
            (1234.0, "1234"),
            (12_340.0, "12.3 k"),
            (520_000.0, "520 k"),
            (999_900.0, "1.00 M"),
            (1_234_000.0, "1.23 M"),
            (-3.456, "-3.46"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn differences_have_a_sign() {
        assert_eq!(added(81.2), "+81.2");
        assert_eq!(added(-15.2), "-15.2");
        assert_eq!(added(-0.001), "+0.00");
    }

    #[test]
    fn the_whole_table() {
        let skipped = BTreeMap::from([(PeerName::Ext4Disk, "needs root".to_owned())]);
        let text = render(&Report::new(machine(), false, skipped, &measured(), "/private"));
        let wanted = "\
a CPU, 2 cores, 1024 MiB; Linux 6.18, glibc 2.36, SQLite 3.40

work                  unit  cuesta  tmpfs  ext4-ram  ext4-disk  ratio                      goal  met?
─────────────────────────────────────────────────────────────────────────────────────────────────────
append 4 KiB + fsync  op/s  1.00 M  200 k         –          –  5.00×                      ≥ 4×   yes
  on a mounted store  op/s  1.00 M  200 k         –          –      –    on-mount ≥ 0.9× cuesta
  on a disk           op/s  1.00 M  200 k         –          –      –  on-disk ≥ 1.3× ext4-disk
  sustained           op/s   500 k  100 k         –          –  5.00×

ext4-disk skipped: needs root
append-4k failed on ext4-ram: no (scratch)/path here
1 of 1 goals met
";
        assert_eq!(text, wanted);
    }
}
