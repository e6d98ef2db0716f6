//! Statistics over the rounds of a run.

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::figures::measure::latency_histogram;

/// One figure over all rounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The middle value; of an even number, the mean of the two in the middle.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// Every value, in the order of the rounds.
    pub samples: Vec<f64>,
}

impl Summary {
    /// Summarises `samples`; nothing can be said about none.
    pub fn of(samples: Vec<f64>) -> Option<Self> {
        let mut sorted = samples.clone();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let half = sorted.len() / 2;
        let median = if sorted.len().is_multiple_of(2) {
            (sorted[half - 1] + sorted[half]) / 2.0
        } else {
            sorted[half]
        };
        Some(Summary { median, min, max, samples })
    }
}

/// Percentiles of single operations, in µs, over all rounds together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// Operations counted.
    pub count: u64,
    /// Half of them were faster.
    pub p50_us: f64,
    /// 90 % of them were faster.
    pub p90_us: f64,
    /// 99 % of them were faster.
    pub p99_us: f64,
    /// 99.9 % of them were faster.
    pub p999_us: f64,
    /// The slowest.
    pub max_us: f64,
}

impl Latency {
    /// Merges (nanoseconds, count) pairs; `None` if there are none.
    pub fn of(pairs: impl IntoIterator<Item = (u64, u64)>) -> Option<Self> {
        let all = merged(pairs);
        let at = |quantile| all.value_at_quantile(quantile) as f64 / 1e3;
        (!all.is_empty()).then(|| Latency {
            count: all.len(),
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: all.max() as f64 / 1e3,
        })
    }
}

/// What each of these parts of all operations took no longer than, in µs. Nothing where all that were slower are less than one
/// operation, as the value would be the slowest one's.
pub fn quantiles_us(pairs: impl IntoIterator<Item = (u64, u64)>, quantiles: &[f64]) -> Vec<Option<f64>> {
    let all = merged(pairs);
    let at = |&quantile: &f64| {
        let slower = all.len() as f64 * (1.0 - quantile);
        (slower >= 1.0).then(|| all.value_at_quantile(quantile) as f64 / 1e3)
    };
    quantiles.iter().map(at).collect()
}

/// (Nanoseconds, count) pairs together.
fn merged(pairs: impl IntoIterator<Item = (u64, u64)>) -> Histogram<u64> {
    let mut all = latency_histogram();
    for (nanoseconds, count) in pairs {
        all.saturating_record_n(nanoseconds, count);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(Summary::of(vec![3.0, 1.0, 2.0]).unwrap().median, 2.0);
        assert_eq!(Summary::of(vec![4.0, 1.0, 2.0, 3.0]).unwrap().median, 2.5);
        assert_eq!(Summary::of(vec![]), None);
        let one = Summary::of(vec![7.0]).unwrap();
        assert_eq!((one.min, one.median, one.max), (7.0, 7.0, 7.0));
    }

    #[test]
    fn samples_keep_the_order_of_the_rounds() {
        assert_eq!(Summary::of(vec![3.0, 1.0, 2.0]).unwrap().samples, vec![3.0, 1.0, 2.0]);
    }

    #[test]
    fn percentiles_cover_all_rounds() {
        let merged = Latency::of([(1000, 90), (1000, 5), (100_000, 5)]).unwrap();
        assert_eq!(merged.count, 100);
        assert!((merged.p50_us - 1.0).abs() < 0.01, "{merged:?}");
        assert!((merged.p99_us - 100.0).abs() < 0.2, "{merged:?}");
        assert_eq!(Latency::of([]), None);
    }
}
