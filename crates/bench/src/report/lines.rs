//! From outcomes to lines: medians, ratios, and whether the goals are met.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::environment::machine::Machine;
use crate::figures::measure::{Figure, Outcome};
use crate::figures::stats::{Latency, Summary};
use crate::peers::name::PeerName;
use crate::running::runner::{self, Measured};
use crate::works::goal::Goal;
use crate::works::work::{Row, row};

/// Lines behind those of a work, if its peers have the figures.
const BESIDE: [Row; 3] = [
    row("  the same by fio", Figure::FioRate, Goal::Reported),
    row("  writes of the disk", Figure::DiskWrites, Goal::Reported),
    row("  flushes of the disk", Figure::DiskFlushes, Goal::Reported),
];

/// Everything a run found out.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Version of this form of JSON.
    pub schema: u32,
    /// The machine it was measured on.
    pub machine: Machine,
    /// Whether it was a quick run.
    pub quick: bool,
    /// Peers that could not be had, and why.
    pub skipped: BTreeMap<PeerName, String>,
    /// Works that could not be done on any peer, and why.
    pub skipped_works: BTreeMap<&'static str, String>,
    /// The lines of the table.
    pub lines: Vec<Line>,
    /// By work: latencies of single operations.
    pub latencies: BTreeMap<&'static str, BTreeMap<PeerName, Latency>>,
    /// By work: peers that failed it, and why.
    pub failures: BTreeMap<&'static str, BTreeMap<PeerName, String>>,
}

/// One line of the table.
#[derive(Debug, Serialize)]
pub struct Line {
    /// The work it comes from.
    pub work: &'static str,
    /// Its title.
    pub title: String,
    /// Which figure.
    pub figure: Figure,
    /// In which unit.
    pub unit: &'static str,
    /// By peer.
    pub peers: BTreeMap<PeerName, Summary>,
    /// Cuesta's median over tmpfs's.
    pub ratio_to_tmpfs: Option<f64>,
    /// Cuesta's median minus tmpfs's.
    pub added_to_tmpfs: Option<f64>,
    /// What counts of the peer that the goal is about over that of the one it is compared with: Cuesta's over tmpfs's unless the
    /// goal names others.
    pub ratio_of_goal: Option<f64>,
    /// The same difference.
    pub added_of_goal: Option<f64>,
    /// The goal, in words.
    pub goal: String,
    /// Whether it is met; nothing if there is no goal, or not the figures to judge it.
    pub met: Option<bool>,
    /// How the table shows the comparison.
    #[serde(skip)]
    pub(super) compared_by: Goal,
}

impl Report {
    /// Sums up a run. `private` is a path that must not show.
    pub fn new(
        machine: Machine,
        quick: bool,
        skipped: BTreeMap<PeerName, String>,
        measured: &[Measured],
        private: &str,
    ) -> Self {
        let mut report = Report {
            schema: 1,
            machine,
            quick,
            skipped,
            skipped_works: runner::skipped(measured),
            lines: Vec::new(),
            latencies: BTreeMap::new(),
            failures: runner::failures(measured, private),
        };
        for one in measured.iter().filter(|one| one.skipped.is_none()) {
            report.lines.extend(one.work.rows.iter().map(|row| Line::new(one, row)));
            let beside = BESIDE.iter().map(|row| Line::new(one, row));
            report.lines.extend(beside.filter(|line| !line.peers.is_empty()));

            let pairs = |outcomes: &[Outcome]| Latency::of(outcomes.iter().flat_map(|o| o.latency.clone()));
            let latencies =
                one.peers.iter().filter_map(|(&peer, result)| Some((peer, pairs(&result.outcomes)?)));
            report.latencies.insert(one.work.name, latencies.collect());
        }
        report.latencies.retain(|_, peers| !peers.is_empty());
        report
    }
}

impl Line {
    fn new(measured: &Measured, row: &Row) -> Self {
        let peers: BTreeMap<_, _> = measured
            .peers
            .iter()
            .filter_map(|(&peer, result)| {
                let samples = result.outcomes.iter().filter_map(|o| o.figures.get(&row.figure).copied());
                Some((peer, Summary::of(samples.collect())?))
            })
            .collect();
        let counted = |peer| peers.get(&peer).map(|summary| counted(row.figure, summary));
        let (cuesta, tmpfs) = (counted(PeerName::Cuesta), counted(PeerName::Tmpfs));
        let ratio = |one: Option<f64>, of: Option<f64>| {
            one.zip(of).filter(|&(_, of)| of > 0.0).map(|(one, of)| one / of)
        };
        let ratio_to_tmpfs = ratio(cuesta, tmpfs);
        let added_to_tmpfs = cuesta.zip(tmpfs).map(|(cuesta, tmpfs)| cuesta - tmpfs);
        let (judged, of) = match row.goal {
            Goal::AtMost { peer, of, .. }
            | Goal::AtLeast { peer, of, .. }
            | Goal::MoreThanBelow { peer, of, .. } => (counted(peer), counted(of)),
            Goal::Least { peer, .. } => (counted(peer), None),
            _ => (cuesta, tmpfs),
        };
        let ratio_of_goal = ratio(judged, of);
        let added_of_goal = judged.zip(of).map(|(judged, of)| judged - of);
        let unit = row.figure.unit();
        Line {
            work: measured.work.name,
            title: row.title.to_owned(),
            figure: row.figure,
            unit,
            ratio_to_tmpfs,
            added_to_tmpfs,
            goal: in_words(row.goal, unit),
            met: is_met(row.goal, judged, ratio_of_goal, added_of_goal),
            added_of_goal,
            ratio_of_goal,
            compared_by: row.goal,
            peers,
        }
    }
}

fn in_words(goal: Goal, unit: &str) -> String {
    match goal {
        Goal::TimesTmpfs(times) => format!("≥ {times}×"),
        Goal::BelowTimesTmpfs(times) => format!("< {times}×"),
        Goal::AddedBelow(limit) => format!("< +{limit} {unit}"),
        Goal::Below(limit) => format!("< {limit} {unit}"),
        Goal::Above(limit) => format!("≥ {limit} {unit}"),
        Goal::AtMost { peer, times, of } => format!("{} ≤ {times}× {}", peer.as_str(), of.as_str()),
        Goal::AtLeast { peer, times, of } => format!("{} ≥ {times}× {}", peer.as_str(), of.as_str()),
        Goal::MoreThanBelow { peer, limit, of } => {
            format!("{} < {} +{limit} {unit}", peer.as_str(), of.as_str())
        }
        Goal::Least { peer, least } => format!("{} ≥ {least} {unit}", peer.as_str()),
        Goal::Reported => String::new(),
    }
}

/// What counts of all rounds.
pub(super) fn counted(figure: Figure, summary: &Summary) -> f64 {
    if figure.is_of_the_worst_round() { summary.max } else { summary.median }
}

fn is_met(goal: Goal, value: Option<f64>, ratio: Option<f64>, added: Option<f64>) -> Option<bool> {
    match goal {
        Goal::TimesTmpfs(times) => ratio.map(|ratio| ratio >= times),
        Goal::BelowTimesTmpfs(times) => ratio.map(|ratio| ratio < times),
        Goal::AddedBelow(limit) | Goal::MoreThanBelow { limit, .. } => added.map(|added| added < limit),
        Goal::Below(limit) => value.map(|value| value < limit),
        Goal::Above(least) | Goal::Least { least, .. } => value.map(|value| value >= least),
        Goal::AtMost { times, .. } => ratio.map(|ratio| ratio <= times),
        Goal::AtLeast { times, .. } => ratio.map(|ratio| ratio >= times),
        Goal::Reported => None,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::running::runner::PeerResult;
    use crate::works::all;

    pub(crate) fn machine() -> Machine {
        Machine {
            cpu: "a CPU".to_owned(),
            cores: 2,
            memory_mib: 1024,
            kernel: "6.18".to_owned(),
            glibc: "2.36".to_owned(),
            sqlite: "3.40".to_owned(),
            cuesta: None,
            fio: None,
        }
    }

    /// `append-4k` in two rounds at 5× tmpfs, and a failure on ext4.
    pub(crate) fn measured() -> Vec<Measured> {
        let result = |rates: [f64; 2]| PeerResult {
            outcomes: rates
                .iter()
                .map(|&rate| Outcome {
                    latency: vec![(1000, 1)],
                    ..Outcome::of(Figure::BurstRate, rate).with(Figure::Rate, rate / 2.0)
                })
                .collect(),
            failure: None,
        };
        let failure = Some("no /private/path here".to_owned());
        let peers = BTreeMap::from([
            (PeerName::Cuesta, result([900_000.0, 1_100_000.0])),
            (PeerName::Tmpfs, result([150_000.0, 250_000.0])),
            (PeerName::Ext4Ram, PeerResult { outcomes: vec![], failure }),
        ]);
        vec![Measured { work: all::find("append-4k").unwrap(), peers, skipped: None }]
    }

    #[test]
    fn goals_are_judged_on_medians() {
        let report = Report::new(machine(), true, BTreeMap::new(), &measured(), "/private");
        let line = &report.lines[0];
        assert_eq!(line.ratio_to_tmpfs, Some(5.0));
        assert_eq!(line.met, Some(true));
        assert_eq!(report.lines[1].met, None, "reported only");
        assert_eq!(report.latencies["append-4k"][&PeerName::Tmpfs].count, 2);
    }

    #[test]
    fn each_kind_of_goal() {
        let judge = |goal, cuesta: f64, tmpfs: f64| {
            is_met(goal, Some(cuesta), Some(cuesta / tmpfs), Some(cuesta - tmpfs)).unwrap()
        };
        assert!(judge(Goal::TimesTmpfs(2.0), 2.0, 1.0) && !judge(Goal::TimesTmpfs(2.0), 1.9, 1.0));
        assert!(judge(Goal::BelowTimesTmpfs(1.5), 1.4, 1.0) && !judge(Goal::BelowTimesTmpfs(1.5), 1.5, 1.0));
        assert!(judge(Goal::AddedBelow(10.0), 19.0, 10.0) && !judge(Goal::AddedBelow(10.0), 20.0, 10.0));
        assert!(judge(Goal::Below(2.0), 1.9, 9.0) && !judge(Goal::Below(2.0), 2.0, 9.0));
        assert!(judge(Goal::Above(2.0), 2.0, 9.0) && !judge(Goal::Above(2.0), 1.9, 9.0));
        assert_eq!(is_met(Goal::TimesTmpfs(2.0), Some(1.0), None, None), None, "no tmpfs, no verdict");
    }

    #[test]
    fn goals_that_name_their_peers_are_judged_on_these() {
        let mut measured = measured();
        let by_mount = |rate| Outcome::of(Figure::BurstRate, rate);
        for (rate, met) in [(1_100_000.0, true), (890_000.0, false)] {
            let on_mount = PeerResult { outcomes: vec![by_mount(rate)], failure: None };
            measured[0].peers.insert(PeerName::OnMount, on_mount);
            let report = Report::new(machine(), true, BTreeMap::new(), &measured, "/private");
            let line = report.lines.iter().find(|line| line.title.contains("mounted")).unwrap();
            assert_eq!(line.ratio_of_goal, Some(rate / 1_000_000.0));
            assert_eq!((line.met, &*line.goal), (Some(met), "on-mount ≥ 0.9× cuesta"));
        }
        measured[0].peers.remove(&PeerName::Cuesta);
        let report = Report::new(machine(), true, BTreeMap::new(), &measured, "/private");
        assert!(report.lines.iter().all(|line| line.met.is_none()), "nobody to compare with, no verdict");
    }

    #[test]
    fn of_the_longest_waits_the_worst_round_counts_beyond_what_the_disk_takes() {
        let result = |waits: [f64; 3]| PeerResult {
            outcomes: waits.iter().map(|&wait| Outcome::of(Figure::LongestWait, wait)).collect(),
            failure: None,
        };
        for (longest, met) in [(69.0, true), (71.0, false)] {
            let peers = BTreeMap::from([
                (PeerName::Cuesta, result([3.0, longest, 2.0])),
                (PeerName::OnDisk, result([3.0, longest, 2.0])),
                (PeerName::Ext4Disk, result([1.0, 1.0, 20.0])),
            ]);
            let work = all::find("mail-2").unwrap();
            let measured = [Measured { work, peers, skipped: None }];
            let report = Report::new(machine(), true, BTreeMap::new(), &measured, "/private");
            let [in_memory, on_disk] = &report.lines[4..] else { panic!("{:?}", report.lines) };
            assert_eq!((in_memory.met, &*in_memory.goal), (Some(false), "< 50 ms"));
            assert_eq!(on_disk.added_of_goal, Some(longest - 20.0));
            assert_eq!((on_disk.met, &*on_disk.goal), (Some(met), "on-disk < ext4-disk +50 ms"));
        }
    }

    #[test]
    fn a_work_that_cannot_be_done_has_a_reason_and_no_lines() {
        let skipped = Some("PostgreSQL is not installed".to_owned());
        let work = all::find("pgbench").unwrap();
        let measured = [Measured { work, peers: BTreeMap::new(), skipped }];
        let report = Report::new(machine(), true, BTreeMap::new(), &measured, "/private");
        assert!(report.lines.is_empty());
        let text = crate::report::table::render(&report);
        assert!(text.contains("\npgbench skipped: PostgreSQL is not installed\n"), "{text}");
    }

    #[test]
    fn private_paths_stay_out_of_the_json() {
        let report = Report::new(machine(), true, BTreeMap::new(), &measured(), "/private");
        let json = serde_json::to_string(&report).unwrap();
        assert!(!json.contains("/private"), "{json}");
        assert!(json.contains("\"ext4-ram\":\"no (scratch)/path here\""), "{json}");
    }
}
