//! Which of the many things a crash may leave behind are tried: all, none, each line alone, each
//! line missing, lines torn, and random mixtures, all bounded and seeded. Where lines wait for several disks, also
//! each disk's alone, each disk's missing, and mixtures of one disk's beside all or none of the others'.

use crate::explorer::states::pending::{LineKey, Survivors};
use crate::operations::random::Random;
use cuesta_media::recorder::RegionKey;
use std::collections::BTreeMap;

/// Bounds on the states tried at one instant.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Lines tried alone, and lines tried missing; more are sampled.
    pub lines_max: usize,
    /// Random mixtures.
    pub mixtures: usize,
    /// One in so many stores is also an instant at which the process dies (1: all of them).
    pub deaths_one_in: u64,
    /// Of each file, everything is tried alone, and everything missing.
    pub whole_files: bool,
    /// One in so many recoveries is itself crashed at every fence (0: none).
    pub recoveries_one_in: u64,
}

impl Bounds {
    /// For a run that is one of very many.
    pub fn quick() -> Bounds {
        Bounds { lines_max: 3, mixtures: 3, deaths_one_in: 4, whole_files: false, recoveries_one_in: 0 }
    }

    /// For a run of its own.
    pub fn thorough() -> Bounds {
        Bounds { lines_max: 24, mixtures: 24, deaths_one_in: 1, whole_files: false, recoveries_one_in: 16 }
    }
}

/// The survivors to try when `all` may survive or not; always begins with nothing and all.
pub(in crate::explorer) fn choose(
    all: &Survivors,
    disk_of: impl Fn(RegionKey) -> u8,
    bounds: &Bounds,
    random: &mut Random,
) -> Vec<Survivors> {
    let mut choices = vec![Survivors::new()];
    if all.is_empty() {
        return choices;
    }
    choices.push(all.clone());
    let lines: Vec<LineKey> = all.keys().copied().collect();
    for key in sample(&lines, bounds.lines_max, random) {
        choices.push(Survivors::from([(key, all[&key])]));
    }
    for key in sample(&lines, bounds.lines_max, random) {
        let mut missing = all.clone();
        let kept = random.below(all[&key] as u64) as usize;
        missing.insert(key, kept);
        choices.push(missing);
    }
    if bounds.whole_files {
        let mut files: Vec<RegionKey> = lines.iter().map(|(file, _)| *file).collect();
        files.dedup();
        for file in files {
            let (of_file, others) = all.iter().partition(|((region, _), _)| *region == file);
            choices.extend([of_file, others]);
        }
    }
    choices.extend((0..bounds.mixtures).map(|_| mixture(all, random)));
    let mut disks: BTreeMap<u8, Survivors> = BTreeMap::new();
    for (key, count) in all {
        disks.entry(disk_of(key.0)).or_default().insert(*key, *count);
    }
    if disks.len() > 1 {
        for (disk, of_disk) in &disks {
            let others =
                || disks.iter().filter(|(other, _)| *other != disk).flat_map(|(_, lines)| lines.clone());
            let part = mixture(of_disk, random);
            let with_others = part.clone().into_iter().chain(others()).collect();
            choices.extend([of_disk.clone(), others().collect(), part, with_others]);
        }
    }
    choices
}

/// Some of the lines, whole or torn.
fn mixture(all: &Survivors, random: &mut Random) -> Survivors {
    let keep_one_in = 1 + random.below(4);
    let whole = random.one_in(2);
    let mixture = all.iter().filter_map(|(key, count)| {
        let kept = if whole { *count } else { random.below(*count as u64 + 1) as usize };
        random.one_in(keep_one_in).then_some((*key, kept))
    });
    mixture.collect()
}

/// All of `lines`, or `max` of them.
fn sample(lines: &[LineKey], max: usize, random: &mut Random) -> Vec<LineKey> {
    if lines.len() <= max {
        return lines.to_vec();
    }
    (0..max).map(|_| *random.pick(lines)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_disk_may_have_taken_all_and_the_others_nothing() {
        let line = |inode, number| ((RegionKey { device: 0, inode }, number), 8);
        let [one, other, below] = [line(1, 0), line(2, 5), line(3, 0)];
        let all = Survivors::from([one, other, below]);
        let disk_of = |region: RegionKey| u8::from(region.inode == 3);
        let bounds = Bounds { lines_max: 0, mixtures: 0, ..Bounds::quick() };
        let tried = choose(&all, disk_of, &bounds, &mut Random::new(1));
        for wanted in [Survivors::new(), all.clone(), Survivors::from([one, other]), Survivors::from([below])]
        {
            assert!(tried.contains(&wanted), "{wanted:?} of {tried:?}");
        }
        let on_one = choose(&all, |_| 0, &bounds, &mut Random::new(1));
        assert_eq!(on_one, [Survivors::new(), all]);
    }
}
