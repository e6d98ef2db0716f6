//! How often the predictors that steer writes were right, as `cuesta status --json` tells since the daemon's start.

use serde::Deserialize;

use super::measure::{Figure, Outcome};

/// Predictions of which it is known what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Predictions {
    synchronous_right: u64,
    synchronous_wrong: u64,
    large_right: u64,
    large_wrong: u64,
}

#[derive(Deserialize)]
struct Status {
    predictors: Predictions,
}

impl Predictions {
    /// Those of a status.
    pub fn of_status(json: &str) -> serde_json::Result<Predictions> {
        serde_json::from_str(json).map(|status: Status| status.predictors)
    }

    /// Those made after `before`.
    pub fn since(self, before: Predictions) -> Predictions {
        Predictions {
            synchronous_right: self.synchronous_right.saturating_sub(before.synchronous_right),
            synchronous_wrong: self.synchronous_wrong.saturating_sub(before.synchronous_wrong),
            large_right: self.large_right.saturating_sub(before.large_right),
            large_wrong: self.large_wrong.saturating_sub(before.large_wrong),
        }
    }

    /// The outcome with them. Of none, no share was right.
    pub fn told_in(self, outcome: Outcome) -> Outcome {
        let told = |outcome: Outcome, [share, hits, misses]: [Figure; 3], right: u64, wrong: u64| {
            let outcome = outcome.with(hits, right as f64).with(misses, wrong as f64);
            match right + wrong {
                0 => outcome,
                all => outcome.with(share, 100.0 * right as f64 / all as f64),
            }
        };
        let synchronicity =
            [Figure::SynchronicityRight, Figure::SynchronicityHits, Figure::SynchronicityMisses];
        let sizes = [Figure::SizesRight, Figure::SizesHits, Figure::SizesMisses];
        let outcome = told(outcome, synchronicity, self.synchronous_right, self.synchronous_wrong);
        told(outcome, sizes, self.large_right, self.large_wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_of_what_was_predicted_meanwhile() {
        let json = |right| {
            format!(
                "{{\"pid\":7,\"predictors\":{{\"large_right\":0,\"large_wrong\":2,\
                 \"synchronous_right\":{right},\"synchronous_wrong\":1}}}}"
            )
        };
        let [before, now] = [10, 40].map(|right| Predictions::of_status(&json(right)).unwrap());
        let figures = now.since(before).told_in(Outcome::default()).figures;
        assert_eq!(figures[&Figure::SynchronicityRight], 100.0);
        assert_eq!((figures[&Figure::SynchronicityHits], figures[&Figure::SizesMisses]), (30.0, 0.0));
        assert!(!figures.contains_key(&Figure::SizesRight), "nothing was predicted to be large");
        let all = now.told_in(Outcome::default()).figures;
        assert!(all[&Figure::SynchronicityRight] < 98.0 && all[&Figure::SizesRight] == 0.0);
        assert!(Predictions::of_status("{}").is_err());
    }
}
