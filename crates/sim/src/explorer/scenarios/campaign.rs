//! A whole campaign, cut into cases that can be run in any order, by any process.

use crate::explorer::crashes::deaths::{self, Death};
use crate::explorer::crashes::lanes::{self, Overlapping};
use crate::explorer::crashes::lost_entries;
use crate::explorer::crashes::optimistic;
use crate::explorer::crashes::restarts;
use crate::explorer::crashes::shipping;
use crate::explorer::crashes::store::{self, On, Workload, WorkloadFailure};
use crate::explorer::crashes::tiered::{self, FastTier};
use crate::explorer::scenarios::hand_overs::{Digests, deaths_of, ended, given_back, hand_over, scenarios};
use crate::explorer::scenarios::mapped::{self, in_and_out, mapped, touches};
use crate::explorer::scenarios::staged::{STAGED_ON, lost_staged, staged};
use crate::explorer::scenarios::tiers;
use crate::explorer::scenarios::workloads::{
    DigestAt, calls, calls_beside_open_files, death, details, growing, lost_overwrites, outliving,
    overlapping, overwriting, overwriting_overlapping, passed_on, workload, wrapping,
};
use crate::explorer::{Bounds, Coverage, Memory};
use crate::operations::tree::Tree;
use clap::ValueEnum;
use cuesta_format::Medium;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Calls of a run that goes around its log.
const WRAPPING_CALLS: usize = 60;
/// Drawn runs of sessions that send operations, each on both media.
const SHIPPING_SEEDS: u64 = 100;
/// Drawn runs of stores with a lower tier, each over all fast tiers.
const TIERED_SEEDS: u64 = 60;

/// A part of the campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Each call alone, very thoroughly.
    Single,
    /// Every pair of calls.
    Pairs,
    /// Runs that go around the log.
    Wrapping,
    /// Files of the store are made meanwhile.
    Growing,
    /// A crash while an earlier one is recovered from.
    Recovery,
    /// Two clients take turns: the second works on what the first was just told had happened.
    Clients,
    /// Two clients outlive the daemon, with what they have open.
    Outliving,
    /// One of two clients dies.
    Deaths,
    /// Two clients take turns on runs that go around their logs.
    ClientsWrapping,
    /// Calls of two threads, or two clients, that overlap.
    Overlapping,
    /// Committed blocks are overwritten, in whole and in part, and digested.
    Overwriting,
    /// Writes whose blocks are written where they stay.
    Staged,
    /// A file is in mapped mode: stores through mappings, msync, and calls on it by two programs.
    Mapped,
    /// One of two clients dies in a call on a file in mapped mode.
    MappedDeaths,
    /// Two clients take turns on the same things: everything crashes at every step of each hand-over of a lease, or one of
    /// the two dies.
    HandOvers,
    /// SharedFS is killed and restarted under clients that go on.
    Restarts,
    /// The store is on a disk, and programs sync behind each call, or now and then.
    Disk,
    /// Sessions that send operations to SharedFS, and log others themselves.
    Shipping,
    /// Two sessions in optimistic mode on a disk. The second sees what the first did, by a lease that changes hands or
    /// by operations that are sent.
    Optimistic,
    /// The store has a lower tier: memory over a disk, or a disk over another disk.
    Tiers,
}

/// One workload of the campaign.
#[derive(Clone, Debug)]
pub struct Case {
    part: Part,
    /// Its place in the part.
    number: usize,
    what: What,
    bounds: Bounds,
}

#[derive(Clone, Debug)]
enum What {
    InTurn(Workload, String),
    Overlapping(Overlapping),
    Death(Death),
    LostEntry(Death),
    Restart(Workload, String),
    Shipping(shipping::Workload),
    Optimistic(shipping::Workload),
    Tiered(tiered::Workload, String),
}

impl Part {
    /// All of them.
    pub const ALL: [Part; 20] = [
        Part::Single,
        Part::Pairs,
        Part::Wrapping,
        Part::Growing,
        Part::Recovery,
        Part::Clients,
        Part::Outliving,
        Part::Deaths,
        Part::ClientsWrapping,
        Part::Overlapping,
        Part::Overwriting,
        Part::Staged,
        Part::Mapped,
        Part::MappedDeaths,
        Part::HandOvers,
        Part::Restarts,
        Part::Disk,
        Part::Shipping,
        Part::Optimistic,
        Part::Tiers,
    ];

    /// Its name as a program asks for it.
    pub fn key(self) -> String {
        self.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned())
    }

    /// Its name as it is shown.
    pub fn name(self) -> &'static str {
        match self {
            Part::Single => "single calls",
            Part::Pairs => "pairs of calls",
            Part::Wrapping => "wrapping log",
            Part::Growing => "growing store",
            Part::Recovery => "recovery",
            Part::Clients => "two clients",
            Part::Outliving => "clients that outlive the daemon",
            Part::Deaths => "a client that dies",
            Part::ClientsWrapping => "two wrapping logs",
            Part::Overlapping => "overlapping calls",
            Part::Overwriting => "overwritten blocks",
            Part::Staged => "staged writes",
            Part::Mapped => "mapped files",
            Part::MappedDeaths => "a client that dies in a mapped file",
            Part::HandOvers => "hand-overs of leases",
            Part::Restarts => "a daemon that is restarted",
            Part::Disk => "a store on a disk",
            Part::Shipping => "operations that are sent",
            Part::Optimistic => "optimistic mode",
            Part::Tiers => "a store with a lower tier",
        }
    }

    /// How many cases that follow each other begin with the same call.
    fn family_size(self) -> usize {
        match self {
            Part::Pairs => calls().len() * DigestAt::ALL.len(),
            Part::Clients => calls().len(),
            Part::Outliving => calls_beside_open_files().len(),
            _ => 1,
        }
    }

    /// All cases of it; random choices are drawn from `seed`.
    pub fn cases(self, seed: u64) -> Vec<Case> {
        let quick = Bounds::quick();
        let in_turn = |workload: Workload, bounds: &Bounds| {
            let shown = format!("{:?}", workload.steps);
            (What::InTurn(workload, shown), bounds.clone())
        };
        let calls = calls();
        let cases: Vec<(What, Bounds)> = match self {
            Part::Single => {
                let digests = [DigestAt::Never, DigestAt::First, DigestAt::Last];
                let singles: Vec<_> = calls.into_iter().chain(details()).collect();
                let all = singles.iter().flat_map(|call| digests.map(|digest| (call, digest)));
                all.map(|(call, digest)| {
                    in_turn(workload(std::slice::from_ref(call), digest), &Bounds::thorough())
                })
                .collect()
            }
            Part::Pairs => {
                let pairs = calls.iter().flat_map(|first| calls.iter().map(move |second| (first, second)));
                let all = pairs.flat_map(|pair| DigestAt::ALL.map(|digest| (pair, digest)));
                all.map(|((first, second), digest)| {
                    in_turn(workload(&[first.clone(), second.clone()], digest), &quick)
                })
                .collect()
            }
            Part::Wrapping => {
                (seed..seed + 20).map(|seed| in_turn(wrapping(seed, WRAPPING_CALLS, 1), &quick)).collect()
            }
            Part::Growing => vec![in_turn(growing(), &quick)],
            Part::Recovery => {
                let bounds = Bounds { recoveries_one_in: 1, ..quick };
                calls.windows(2).map(|pair| in_turn(workload(pair, DigestAt::First), &bounds)).collect()
            }
            Part::Clients => {
                let pairs = calls.iter().flat_map(|first| calls.iter().map(move |second| (first, second)));
                let all = pairs.enumerate().map(|(number, pair)| (pair, number % 2 == 0));
                all.map(|((first, second), digest)| in_turn(passed_on(first, second, digest), &quick))
                    .collect()
            }
            Part::Outliving => {
                let calls = calls_beside_open_files();
                let pairs = calls.iter().flat_map(|first| calls.iter().map(move |second| (first, second)));
                let all = pairs.enumerate().map(|(number, pair)| (pair, number % 2 == 0));
                all.map(|((first, second), digest)| in_turn(outliving(first, second, digest), &quick))
                    .collect()
            }
            Part::Deaths => {
                let all = calls.iter().flat_map(|call| [0, 1].map(|dies| (call, dies)));
                let all = all.enumerate().map(|(number, of)| (of, number / 2 % 2 == 0));
                all.map(|((call, dies), digest)| (What::Death(death(call, dies, digest)), quick.clone()))
                    .collect()
            }
            Part::ClientsWrapping => {
                (seed..seed + 20).map(|seed| in_turn(wrapping(seed, WRAPPING_CALLS, 2), &quick)).collect()
            }
            Part::Overlapping => {
                (seed..seed + 400).map(|seed| (What::Overlapping(overlapping(seed)), quick.clone())).collect()
            }
            Part::Overwriting => {
                let in_turn = overwriting().into_iter().map(|workload| in_turn(workload, &quick));
                let lost = lost_overwrites().into_iter().map(|death| (What::LostEntry(death), quick.clone()));
                let beside = (seed..seed + 100)
                    .map(|seed| (What::Overlapping(overwriting_overlapping(seed)), quick.clone()));
                in_turn.chain(lost).chain(beside).collect()
            }
            Part::Staged => {
                let in_turns = staged().into_iter().flat_map(|workload| {
                    STAGED_ON.map(|on| in_turn(Workload { on, ..workload.clone() }, &quick))
                });
                let lost = lost_staged().into_iter().map(|death| (What::LostEntry(death), quick.clone()));
                in_turns.chain(lost).collect()
            }
            Part::HandOvers => {
                let all = scenarios()
                    .into_iter()
                    .flat_map(|(_, turns)| Digests::ALL.map(|digests| (turns.clone(), digests)));
                let mut cases = Vec::new();
                for (turns, digests) in all {
                    cases.push(in_turn(hand_over(&turns, digests), &quick));
                    cases.push(in_turn(given_back(&turns, digests), &quick));
                    cases.extend(ended(&turns, digests).into_iter().map(|it| in_turn(it, &quick)));
                    for unnoticed in [false, true] {
                        let deaths = deaths_of(&turns, digests, unnoticed).into_iter();
                        cases.extend(deaths.map(|death| (What::Death(death), quick.clone())));
                    }
                }
                cases
            }
            Part::Restarts => {
                let all = scenarios()
                    .into_iter()
                    .flat_map(|(_, turns)| Digests::ALL.map(|digests| (turns.clone(), digests)));
                all.map(|(turns, digests)| {
                    let workload = hand_over(&turns, digests);
                    let shown = format!("{:?}", workload.steps);
                    (What::Restart(workload, shown), quick.clone())
                })
                .collect()
            }
            Part::Disk => {
                let on_disk = |on: On| move |workload: Workload| Workload { on, ..workload };
                let digests = [DigestAt::Never, DigestAt::First, DigestAt::Last];
                let singles: Vec<_> = calls.iter().cloned().chain(details()).collect();
                let singles = singles
                    .iter()
                    .flat_map(|call| digests.map(|digest| workload(std::slice::from_ref(call), digest)));
                let pairs = calls.windows(2).map(|pair| workload(pair, DigestAt::Last));
                let wraps = (seed..seed + 10).map(|seed| wrapping(seed, WRAPPING_CALLS, 1));
                let in_turns = (seed..seed + 10).map(|seed| wrapping(seed, WRAPPING_CALLS, 2));
                let turns = scenarios()
                    .into_iter()
                    .flat_map(|(_, turns)| Digests::ALL.map(|digests| hand_over(&turns, digests)));
                let touches = touches();
                let mapped = touches.windows(2).map(|pair| mapped([&pair[0], &pair[1]], true, false));
                let each = singles.chain(overwriting()).chain(in_turns).chain(turns).chain(mapped);
                let rarely = pairs.map(on_disk(On::Disk(usize::MAX)));
                let rarely = rarely.chain(overwriting().into_iter().map(on_disk(On::Disk(usize::MAX))));
                let now_and_then = wraps.map(on_disk(On::Disk(7)));
                let all = each.map(on_disk(On::Disk(1))).chain(rarely).chain(now_and_then);
                all.map(|workload| in_turn(workload, &quick)).collect()
            }
            Part::Shipping => {
                let drawn = (seed..seed + SHIPPING_SEEDS).map(shipping::drawn);
                let all = shipping::scenarios().into_iter().map(|(_, workload)| workload).chain(drawn);
                let all = all.flat_map(|workload| shipping::MEDIA.map(|medium| workload.clone().on(medium)));
                all.map(|workload| (What::Shipping(workload), shipping::bounds())).collect()
            }
            Part::Optimistic => {
                let waits = [1, 3, usize::MAX];
                let turns = scenarios()
                    .into_iter()
                    .flat_map(|(_, turns)| Digests::ALL.map(|digests| hand_over(&turns, digests)));
                let wraps = (seed..seed + 10).map(|seed| wrapping(seed, WRAPPING_CALLS, 2));
                let in_turns = turns
                    .flat_map(|workload| waits.map(|calls| (workload.clone(), calls)))
                    .chain(wraps.map(|workload| (workload, 7)))
                    .map(|(workload, calls)| {
                        in_turn(Workload { on: On::Optimistic(calls), ..workload }, &quick)
                    });
                let drawn = (seed..seed + SHIPPING_SEEDS).map(shipping::drawn);
                let sent = shipping::scenarios().into_iter().map(|(_, workload)| workload).chain(drawn);
                let sent = sent.map(|workload| workload.on(Medium::Block));
                let sent = sent.map(|workload| (What::Optimistic(workload), shipping::bounds()));
                in_turns.chain(sent).collect()
            }
            Part::Tiers => {
                let over = |fast: FastTier| {
                    move |(name, setup, steps)| (tiered::Workload { fast, setup, steps }, name)
                };
                let scenarios =
                    FastTier::PESSIMISTIC.map(|fast| tiers::scenarios().into_iter().map(over(fast)));
                let handed_over = [FastTier::Memory, FastTier::Disk(1), FastTier::OptimisticDisk]
                    .map(|fast| tiers::handed_over().into_iter().map(over(fast)));
                let scenarios = scenarios.into_iter().flatten().chain(handed_over.into_iter().flatten());
                let drawn = (seed..seed + TIERED_SEEDS).flat_map(|seed| {
                    FastTier::ALL.map(|fast| (tiers::drawn(seed, fast), format!("seed {seed}")))
                });
                let all = scenarios.chain(drawn);
                all.map(|(workload, name)| {
                    let bounds = tiers::bounds(workload.fast);
                    (What::Tiered(workload, name), bounds)
                })
                .collect()
            }
            Part::MappedDeaths => {
                mapped::deaths().into_iter().map(|death| (What::Death(death), quick.clone())).collect()
            }
            Part::Mapped => {
                let touches = touches();
                let pairs =
                    touches.iter().flat_map(|first| touches.iter().map(move |second| [&**first, second]));
                let all = pairs.enumerate().map(|(number, pair)| {
                    in_turn(mapped(pair, number / 2 % 2 == 0, number % 2 == 0), &quick)
                });
                let runs = (seed..seed + 40).map(|seed| in_turn(in_and_out(seed, 3), &quick));
                all.chain(runs).collect()
            }
        };
        let number = |(number, (what, bounds))| Case { part: self, number, what, bounds };
        cases.into_iter().enumerate().map(number).collect()
    }
}

impl Case {
    /// Which part it is of.
    pub fn part(&self) -> Part {
        self.part
    }

    /// Its place in it.
    pub fn number(&self) -> usize {
        self.number
    }

    /// With other bounds on what is tried at each instant.
    #[must_use]
    pub fn bounded(mut self, change: impl FnOnce(&mut Bounds)) -> Case {
        change(&mut self.bounds);
        self
    }

    /// Cases of the same family begin alike: a process that runs one after the other, with one memory, does less.
    pub fn family(&self) -> (Part, usize) {
        (self.part, self.number / self.part.family_size())
    }

    /// Runs it and crashes it.
    pub fn run(&self, seed: u64, memory: &mut Memory<Tree>) -> Result<Coverage, WorkloadFailure> {
        match &self.what {
            What::InTurn(workload, _) => store::crash(workload, memory, &self.bounds, seed),
            What::Overlapping(workload) => {
                lanes::crash(workload, memory, &self.bounds, seed + self.number as u64)
            }
            What::Death(death) => deaths::crash(death),
            What::Restart(workload, _) => {
                restarts::crash(workload, memory, &self.bounds, seed + self.number as u64)
            }
            What::Shipping(workload) => shipping::crash(workload, memory, &self.bounds, seed),
            What::Optimistic(workload) => optimistic::crash(workload, memory, &self.bounds, seed),
            What::Tiered(workload, _) => tiered::crash(workload, memory, &self.bounds, seed),
            What::LostEntry(death) => lost_entries::crash(death, memory, &self.bounds, seed),
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}: ", self.part.name(), self.number)?;
        match &self.what {
            What::InTurn(_, steps) | What::Restart(_, steps) => formatter.write_str(steps),
            What::Death(Death { dies, calls, .. }) | What::LostEntry(Death { dies, calls, .. }) => {
                write!(formatter, "client {dies} in {calls:?}")
            }
            What::Shipping(shipping::Workload { medium, by_rings, steps })
            | What::Optimistic(shipping::Workload { medium, by_rings, steps }) => {
                write!(formatter, "{medium:?}, rings {by_rings}, {steps:?}")
            }
            What::Tiered(tiered::Workload { fast, steps, .. }, name) => {
                write!(formatter, "{name}, fast tier {fast:?}: {steps:?}")
            }
            What::Overlapping(Overlapping { lanes, clients, digests, .. }) => {
                write!(formatter, "clients {clients}, digests {digests}, {lanes:?}")
            }
        }
    }
}
