//! The killer and its oracle: one program at a time.

use super::history::{History, Round, Survived};
use super::served::{Programs, Served, Steps, Writer, told};
use crate::operations::random::Random;
use crate::programs::doors::{Door, Doors};
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::process::Command;

/// The victim. Processes left alive go on for a while, as far as they get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Victim {
    /// The writer.
    Program,
    /// The daemon.
    Daemon,
    /// The writer and the daemon.
    Both,
    /// The process of the mount.
    Mount,
    /// That and the daemon.
    MountAndDaemon,
    /// All three.
    Everything,
}

/// Victims of a campaign where there is no mount, and where there is one, in turn.
const VICTIMS: [Victim; 4] = [Victim::Program, Victim::Daemon, Victim::Program, Victim::Both];
const VICTIMS_OF_MOUNTS: [Victim; 6] = [
    Victim::Program,
    Victim::Mount,
    Victim::Daemon,
    Victim::MountAndDaemon,
    Victim::Both,
    Victim::Everything,
];

impl Victim {
    fn has_program(self) -> bool {
        matches!(self, Victim::Program | Victim::Both | Victim::Everything)
    }

    fn has_daemon(self) -> bool {
        matches!(self, Victim::Daemon | Victim::Both | Victim::MountAndDaemon | Victim::Everything)
    }

    /// Whether the process of the mount is killed.
    #[must_use]
    pub fn has_mount(self) -> bool {
        matches!(self, Victim::Mount | Victim::MountAndDaemon | Victim::Everything)
    }
}

/// Something survived that must not, or did not that must.
#[derive(Debug, thiserror::Error)]
#[error(
    "seed {seed}, round {round} by the door {door}, {victim:?} killed after {acknowledged} of {issued} operations: {reason}"
)]
pub struct KillFailure {
    /// Repeats the campaign.
    pub seed: u64,
    /// The round, from 0.
    pub round: u64,
    /// The seed of its operations.
    pub round_seed: u64,
    /// The door they came by.
    pub door: Door,
    /// The victim of the round.
    pub victim: Victim,
    /// Operations that had returned.
    pub acknowledged: u64,
    /// Operations that had been issued.
    pub issued: u64,
    /// The fault.
    pub reason: String,
}

/// A store that is written, killed and checked, round after round.
pub struct Campaign {
    served: Served,
    history: History,
    random: Random,
    seed: u64,
    doors: Doors,
    round: u64,
    operations_max: u64,
    acknowledged: u64,
    met: BTreeSet<(Victim, Door)>,
}

impl Campaign {
    /// A campaign on a new store. Its writers come by `doors`; one is killed after at most `operations_max` operations.
    pub fn new(programs: Programs, seed: u64, doors: Doors, operations_max: u64) -> io::Result<Campaign> {
        let (served, history) = (Served::new(programs)?, History::default());
        let random = Random::new(seed);
        let (round, acknowledged, met) = (0, 0, BTreeSet::new());
        let campaign =
            Campaign { served, history, random, seed, doors, round, operations_max, acknowledged, met };
        campaign.history.save(&campaign.history_path())?;
        Ok(campaign)
    }

    /// One round: write, kill, recover, verify.
    pub fn round(&mut self) -> Result<(), KillFailure> {
        let victims: &[Victim] = if self.doors.has_mount() { &VICTIMS_OF_MOUNTS } else { &VICTIMS };
        // Each of them meets a writer by each door.
        let turn = if self.doors == Doors::Both { self.round / 2 } else { self.round };
        let victim = victims[turn as usize % victims.len()];
        let door = self.doors.of(self.round);
        let seed = self.random.next();
        let kill_after = self.random.below(self.operations_max);
        let mut steps = Steps::default();
        let outcome = self.write_and_kill(victim, (seed, door), kill_after, &mut steps);
        let lost_mount = victim.has_mount() && door == Door::Mount;
        let verdict =
            outcome.map_err(|error| error.to_string()).and_then(|()| match steps.wrong(lost_mount) {
                Some(reason) => Err(reason.to_owned()),
                None => self.verify((seed, door), &steps),
            });
        match verdict {
            Ok(survived) => {
                self.history.push(Round { seed, door, survived });
                self.acknowledged += steps.acknowledged;
                self.met.insert((victim, door));
                self.round += 1;
                self.history.save(&self.history_path()).expect("the history can be written");
                Ok(())
            }
            Err(reason) => Err(KillFailure {
                seed: self.seed,
                round: self.round,
                round_seed: seed,
                door,
                victim,
                acknowledged: steps.acknowledged,
                issued: steps.issued,
                reason,
            }),
        }
    }

    fn write_and_kill(
        &mut self,
        victim: Victim,
        (seed, door): (u64, Door),
        kill_after: u64,
        steps: &mut Steps,
    ) -> io::Result<()> {
        self.served.ensure(self.doors)?;
        let mut command = self.writer("write", (seed, door), door);
        command.args(["--operations", &(self.operations_max * 2).to_string()]);
        let mut writer = Writer::start(command)?;
        writer.step_to(kill_after)?;
        writer.before_the_kill()?;
        if victim.has_program() {
            writer.kill()?;
        }
        let mount_first = self.random.one_in(2);
        if victim.has_mount() && mount_first {
            self.served.kill_mount()?;
        }
        if victim.has_daemon() {
            self.served.kill_daemon()?;
        }
        if victim.has_mount() {
            self.served.kill_mount()?;
        }
        if !victim.has_program() {
            // The campaign may start the next daemon, and a program that waits in a call goes on.
            if self.random.one_in(2) {
                self.served.ensure_daemon()?;
            }
            writer.step_to_or_silence(kill_after + self.random.below(20))?;
            writer.kill()?;
        }
        if door == Door::Mount {
            // A program that is killed in a call by a mount stays until the call is answered.
            self.served.ensure_daemon()?;
        }
        *steps = writer.finish()?;
        Ok(())
    }

    /// By each door the store shows the same.
    fn verify(&mut self, (seed, came_by): (u64, Door), steps: &Steps) -> Result<Survived, String> {
        self.served.ensure(self.doors).map_err(|error| error.to_string())?;
        let mut survived: Option<Survived> = None;
        for &door in self.doors.all() {
            let mut command = self.writer("verify", (seed, came_by), door);
            command.args(["--acknowledged", &steps.acknowledged.to_string()]);
            command.args(["--issued", &steps.issued.to_string()]);
            let told = told(command).map_err(|error| format!("seen by the door {door}: {error}"))?;
            let found: Survived = told.parse().map_err(|()| format!("the verifier said {told:?}"))?;
            if survived.is_some_and(|before| before != found) {
                return Err(format!("{found} seen by the door {door}, {survived:?} by the other"));
            }
            survived = Some(found);
        }
        survived.ok_or_else(|| "nobody looked".to_owned())
    }

    /// The writer, or verifier, by a door, for a round whose operations came by `came_by`.
    fn writer(&self, action: &str, (seed, came_by): (u64, Door), door: Door) -> Command {
        let mut command = self.served.writer(door, action);
        command.args(["--root", &self.served.root(door), "--seed", &seed.to_string()]);
        command.args(["--door", &came_by.to_string()]).arg("--history").arg(self.history_path());
        command
    }

    fn history_path(&self) -> PathBuf {
        self.served.beside("history.json")
    }

    /// Operations that had returned when their writers died.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// The victims, and by which door the writer had come.
    pub fn met(&self) -> &BTreeSet<(Victim, Door)> {
        &self.met
    }

    /// Leaves the store and its history where they are, for people to look at.
    pub fn keep(self) -> io::Result<PathBuf> {
        self.served.keep()
    }
}
