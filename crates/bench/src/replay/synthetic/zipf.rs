//! Zipf's law: the item of rank i is used as often as 1 / i^θ.

use fastrand::Rng;

/// Draws ranks, the most frequent one is 0.
#[derive(Debug)]
pub struct Zipf {
    /// For each rank the share of the draws of it and all before.
    shares: Vec<f64>,
}

impl Zipf {
    /// Over so many ranks: the first `1 - share` of them get `share` of the draws. A share of 0.5: all get the same.
    pub fn new(ranks: u64, share: f64) -> Zipf {
        let (mut low, mut high) = (0.0, 4.0);
        let first = ((1.0 - share) * ranks as f64).round().max(1.0) as usize;
        for _ in 0..24 {
            let middle = f64::midpoint(low, high);
            if Zipf::with_exponent(ranks, middle).shares[first - 1] < share {
                low = middle;
            } else {
                high = middle;
            }
        }
        Zipf::with_exponent(ranks, low)
    }

    fn with_exponent(ranks: u64, exponent: f64) -> Zipf {
        let mut sum = 0.0;
        let sums = (1..=ranks).map(|rank| {
            sum += (rank as f64).powf(-exponent);
            sum
        });
        let sums: Vec<f64> = sums.collect();
        Zipf { shares: sums.iter().map(|of_rank| of_rank / sum).collect() }
    }

    /// A rank.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        let at = rng.f64();
        self.shares.partition_point(|&share| share < at).min(self.shares.len() - 1) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_ranks_get_their_share() {
        for share in [0.5, 0.6, 0.7, 0.8, 0.9] {
            let zipf = Zipf::new(10_000, share);
            let first = ((1.0 - share) * 10_000.0) as u64;
            let mut rng = Rng::with_seed(3);
            let drawn = (0..100_000).filter(|_| zipf.draw(&mut rng) < first).count() as f64 / 1e5;
            assert!((drawn - share).abs() < 0.02, "{share}: {drawn}");
        }
    }
}
