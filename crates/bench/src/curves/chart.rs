//! From outcomes to charts: one value, of each peer, at each point.

use std::collections::BTreeMap;

use serde::Serialize;

use super::table::{Along, CURVES, Curve, QUANTILES, Step, bytes};
use crate::figures::measure::{Figure, Outcome};
use crate::figures::stats::{Summary, quantiles_us};
use crate::peers::name::PeerName;
use crate::report::table::number;
use crate::running::runner::{Measured, PeerResult};
use crate::workload::pieces::pauses::CROWDS;

/// The quantity that a chart shows of each point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// How long an operation takes.
    Time,
    /// Bytes in a second.
    Bandwidth,
    /// Operations in a second.
    Rate,
}

impl Quantity {
    /// The unit of its values.
    pub fn unit(self) -> &'static str {
        match self {
            Quantity::Time => "µs",
            Quantity::Bandwidth => "MB/s",
            Quantity::Rate => "op/s",
        }
    }

    /// A value as people write it.
    pub fn written(self, value: f64) -> String {
        match self {
            Quantity::Bandwidth if value >= 999.5 => format!("{} GB/s", number(value / 1e3)),
            _ => format!("{} {}", number(value), self.unit()),
        }
    }

    /// What its axis is called.
    pub fn axis(self) -> &'static str {
        match self {
            Quantity::Time => "µs an operation",
            Quantity::Bandwidth => "MB/s (10⁶ bytes a second)",
            Quantity::Rate => "operations a second, of all threads together",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Quantity::Time => "time",
            Quantity::Bandwidth => "bandwidth",
            Quantity::Rate => "rate",
        }
    }
}

impl Along {
    /// The name of the axis.
    pub fn axis(self) -> &'static str {
        match self {
            Along::Sizes => "bytes of a request",
            Along::Percentiles => "part of the operations that took no longer",
            Along::Threads => "threads",
        }
    }

    fn quantities(self) -> &'static [Quantity] {
        match self {
            Along::Sizes => &[Quantity::Time, Quantity::Bandwidth],
            Along::Percentiles => &[Quantity::Time],
            Along::Threads => &[Quantity::Rate],
        }
    }
}

/// A value at a point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Which point, in words.
    pub at: String,
    /// Where that is on a logarithmic axis.
    #[serde(skip)]
    pub position: f64,
    /// The value: the median of the rounds; of percentiles, that of all rounds together.
    pub value: f64,
    /// The values of the rounds, in their order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rounds: Vec<f64>,
}

/// One chart of all peers.
#[derive(Debug, Serialize)]
pub struct Chart {
    /// Its name, also of its files.
    pub name: String,
    /// The title: the operation.
    pub title: &'static str,
    /// The quantity that is shown.
    pub quantity: Quantity,
    /// In which unit.
    pub unit: &'static str,
    /// By peer, from left to right. A peer that failed somewhere has no points there.
    pub peers: BTreeMap<PeerName, Vec<Point>>,
    /// The curve it shows.
    #[serde(skip)]
    pub curve: &'static Curve,
}

/// The charts of all curves. `measured` are the outcomes of `steps`, in their order.
pub fn charts(steps: &[&'static Step], measured: &[Measured]) -> Vec<Chart> {
    let mut charts = Vec::new();
    for curve in CURVES {
        for &quantity in curve.along.quantities() {
            let name = match curve.along.quantities() {
                [_] => curve.name.to_owned(),
                _ => format!("{}-{}", curve.name, quantity.name()),
            };
            let mut chart = Chart {
                name,
                title: curve.title,
                quantity,
                unit: quantity.unit(),
                peers: BTreeMap::new(),
                curve,
            };
            for (step, measured) in steps.iter().zip(measured) {
                if std::ptr::eq(step.curve, curve) {
                    for (&peer, result) in &measured.peers {
                        chart.peers.entry(peer).or_default().extend(points(step, quantity, result));
                    }
                }
            }
            charts.push(chart);
        }
    }
    charts
}

/// The points of one peer's curve that a step gives.
fn points(step: &Step, quantity: Quantity, result: &PeerResult) -> Vec<Point> {
    let samples =
        |value: &dyn Fn(&Outcome) -> Option<f64>| result.outcomes.iter().filter_map(value).collect();
    match step.curve.along {
        Along::Sizes => {
            let value = |outcome: &Outcome| {
                let rate = *outcome.figures.get(&Figure::BurstRate)?;
                Some(match quantity {
                    Quantity::Time => 1e6 / rate,
                    Quantity::Bandwidth => rate * step.size as f64 / 1e6,
                    Quantity::Rate => rate,
                })
            };
            point(bytes(step.size), (step.size as f64).log2(), samples(&value)).into_iter().collect()
        }
        Along::Threads => {
            let of_threads = |&(threads, figure): &(u32, Option<Figure>)| {
                let value = |outcome: &Outcome| {
                    let of_one = *outcome.figures.get(&Figure::Rate)?;
                    let times = figure.map_or(Some(1.0), |figure| outcome.figures.get(&figure).copied())?;
                    Some(of_one * times)
                };
                point(threads.to_string(), f64::from(threads).log2(), samples(&value))
            };
            CROWDS.iter().filter_map(of_threads).collect()
        }
        Along::Percentiles => {
            let latencies = result.outcomes.iter().flat_map(|outcome| outcome.latency.iter().copied());
            let quantiles: Vec<f64> = QUANTILES.iter().map(|&(quantile, _)| quantile).collect();
            let values = quantiles_us(latencies, &quantiles);
            let at = |(&(quantile, name), value): (&(f64, &str), Option<f64>)| {
                let position = -(1.0 - quantile).log10();
                Some(Point { at: name.to_owned(), position, value: value?, rounds: Vec::new() })
            };
            QUANTILES.iter().zip(values).filter_map(at).collect()
        }
    }
}

fn point(at: String, position: f64, rounds: Vec<f64>) -> Option<Point> {
    let summary = Summary::of(rounds)?;
    Some(Point { at, position, value: summary.median, rounds: summary.samples })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::curves::table::steps;

    /// A quick run of two rounds, of tmpfs at two microseconds and of Cuesta at one an operation.
    pub fn two_peers() -> Vec<Chart> {
        let steps: Vec<&'static Step> = steps(true).collect();
        let outcome = |us: f64| {
            let figures = [(Figure::Two, 1.5), (Figure::Four, 2.0), (Figure::Eight, 2.5)];
            let rates = [(Figure::BurstRate, 1e6 / us), (Figure::Rate, 1e6 / us)];
            let latency = vec![((us * 1e3) as u64, 90), ((us * 1e4) as u64, 10)];
            Outcome { figures: figures.into_iter().chain(rates).collect(), latency }
        };
        let result = |us| PeerResult { outcomes: vec![outcome(us), outcome(us)], failure: None };
        let peers = || BTreeMap::from([(PeerName::Cuesta, result(1.0)), (PeerName::Tmpfs, result(2.0))]);
        let measured: Vec<Measured> =
            steps.iter().map(|step| Measured { work: &step.work, peers: peers(), skipped: None }).collect();
        charts(&steps, &measured)
    }

    #[test]
    fn large_bandwidths_have_a_unit_of_their_own() {
        let written = |value| Quantity::Bandwidth.written(value);
        assert_eq!([0.5, 999.0, 11_700.0].map(written), ["0.50 MB/s", "999 MB/s", "11.7 GB/s"]);
    }

    fn values(chart: &Chart, peer: PeerName) -> Vec<(&str, f64)> {
        chart.peers[&peer].iter().map(|point| (&*point.at, point.value)).collect()
    }

    #[test]
    fn each_curve_has_its_charts_and_each_chart_its_points() {
        let charts = two_peers();
        let chart = |name: &str| charts.iter().find(|chart| chart.name == name).unwrap();
        assert_eq!(
            values(chart("append-time"), PeerName::Tmpfs),
            [("64 B", 2.0), ("4 KiB", 2.0), ("1 MiB", 2.0)]
        );
        assert_eq!(values(chart("pread-bandwidth"), PeerName::Cuesta)[1], ("4 KiB", 4096.0));
        assert_eq!(
            values(chart("append-threads"), PeerName::Tmpfs),
            [("1", 5e5), ("2", 7.5e5), ("4", 1e6), ("8", 1.25e6)]
        );
        assert_eq!(charts.len(), 9);
    }

    #[test]
    fn a_percentile_that_too_few_operations_tell_of_has_no_point() {
        let charts = two_peers();
        let latency = charts.iter().find(|chart| chart.name == "append-latency").unwrap();
        let at: Vec<&str> = latency.peers[&PeerName::Cuesta].iter().map(|point| &*point.at).collect();
        assert_eq!(at, ["50 %", "90 %", "99 %"], "of 200 operations");
        assert!((latency.peers[&PeerName::Cuesta][2].value - 10.0).abs() < 0.1);
    }
}
