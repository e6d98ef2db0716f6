//! Answers of `cuesta explain` and `cuesta tier stats`: the rule for the content of a file, its last moves, and the sums of each tier.

use crate::SharedFs;
use cuesta_format::wire::{FileMove, Response, TierStats};
use cuesta_format::{InodeNumber, InodeRecord, TierNumber};

impl SharedFs {
    /// The last moves of a file, the latest first.
    pub(crate) fn moves_of(&self, inode: InodeNumber) -> Vec<FileMove> {
        self.migration.history.of_file(inode)
    }

    /// The rule for content of a file that lies on a tier.
    pub(crate) fn rule_for_content(
        &self,
        record: &InodeRecord,
        pin: Option<TierNumber>,
        tier: TierNumber,
    ) -> String {
        let name = |tier: TierNumber| self.tier_name(tier);
        if record.mapped {
            return "stays: programs map the file".into();
        }
        match pin {
            Some(to) if to == tier => return "stays: pinned".into(),
            Some(to) if self.migration.pins.outside(to) > 0 => {
                return format!("goes to {} when it has room: pinned", name(to));
            }
            Some(to) => return format!("goes to {}: pinned", name(to)),
            None => {}
        }
        let Some(policy) = self.options.migration.policy() else { return "stays: migration is off".into() };
        let (_, low_mark) = self.migration.level(tier);
        match self.arenas.numbers().find(|&below| below > tier) {
            None => "stays: no tier is below".into(),
            Some(below) => format!(
                "may go to {}: policy {policy}, while more than {} % of {} is used",
                name(below),
                low_mark / 10,
                name(tier)
            ),
        }
    }

    /// The figures of all tiers.
    pub(crate) fn tier_stats(&self) -> Response {
        let stats = self.tiers().into_iter().map(|tier| {
            let number = tier.number;
            let (level, low_mark) = self.migration.level(number);
            let is_last = self.arenas.numbers().all(|other| other <= number);
            let space = self.space.lock();
            TierStats {
                level: (!is_last && self.migrates()).then(|| format!("{level:?}").to_lowercase()),
                low_mark_percent: (!is_last && self.migrates()).then_some(low_mark as u32 / 10),
                bad_blocks: space.allocator.bad_blocks_in(number),
                moves: self.migration.history.of_tier(number),
                tier,
            }
        });
        Response::TierStats(stats.collect())
    }

    fn tier_name(&self, tier: TierNumber) -> String {
        let called = self.options.tier.iter().find(|(_, lower)| lower.number == tier.0);
        match called {
            _ if tier == TierNumber::FAST => "fast".into(),
            Some((name, _)) => name.clone(),
            None => tier.to_string(),
        }
    }
}
