//! The killer and its oracle: two programs at once on one store.
//!
//! Each has a directory of its own, where its operations are checked against the model as those of a single program
//! are, and both publish notes in a third one ([`super::shared`]), so that leases change hands all the time.

use super::history::{History, Round, Survived};
use super::served::{Programs, ROOT, Served, Steps, Writer, told};
use crate::operations::random::Random;
use crate::programs::doors::{Door, Doors};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAMS: u64 = 2;
/// The folder that both publish in.
const SHARED: &str = "shared";

/// The first victim. Programs left alive go on for a while, as far as they get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairVictim {
    /// One of the programs.
    One,
    /// Both programs.
    Programs,
    /// The daemon.
    Daemon,
    /// The process of the mount.
    Mount,
    /// Everything.
    All,
}

/// Victims of a campaign where there is no mount, and where there is one.
const VICTIMS: [PairVictim; 5] =
    [PairVictim::One, PairVictim::One, PairVictim::Programs, PairVictim::Daemon, PairVictim::All];
const VICTIMS_OF_MOUNTS: [PairVictim; 5] =
    [PairVictim::One, PairVictim::Programs, PairVictim::Daemon, PairVictim::Mount, PairVictim::All];

/// Something survived that must not, or did not that must.
#[derive(Debug, thiserror::Error)]
#[error("two programs, seed {seed}, round {round}, {victim:?} killed: {reason}")]
pub struct PairFailure {
    /// Repeats the campaign, as far as two programs can be made to do the same again.
    pub seed: u64,
    /// The round, from 0.
    pub round: u64,
    /// The first victim of the round.
    pub victim: PairVictim,
    /// The fault.
    pub reason: String,
}

/// A store on which two programs are killed, round after round.
pub struct PairCampaign {
    served: Served,
    random: Random,
    seed: u64,
    doors: Doors,
    round: u64,
    operations_max: u64,
    histories: Vec<History>,
    /// Notes of each program that survived so far.
    notes: Vec<u64>,
    acknowledged: u64,
}

impl PairCampaign {
    /// A campaign on a new store, to which programs come by `doors`; the first one is killed after at most `operations_max`
    /// operations of its own.
    pub fn new(programs: Programs, seed: u64, doors: Doors, operations_max: u64) -> io::Result<PairCampaign> {
        let served = Served::new(programs)?;
        served.ship_by(seed)?;
        let mut campaign = PairCampaign {
            served,
            random: Random::new(seed),
            seed,
            doors,
            round: 0,
            operations_max,
            histories: vec![History::default(); PROGRAMS as usize],
            notes: vec![0; PROGRAMS as usize],
            acknowledged: 0,
        };
        campaign.served.ensure_daemon()?;
        let mut mkdir = campaign.served.run(Path::new("mkdir"));
        mkdir
            .args(["-m", "755"])
            .arg(format!("{ROOT}/{SHARED}"))
            .args((0..PROGRAMS).map(|program| format!("{ROOT}/{}", folder(program))));
        told(mkdir)?;
        for program in 0..PROGRAMS {
            campaign.save(program)?;
        }
        Ok(campaign)
    }

    /// One round: write, kill, recover, verify.
    pub fn round(&mut self) -> Result<(), PairFailure> {
        let victims = if self.doors.has_mount() { &VICTIMS_OF_MOUNTS } else { &VICTIMS };
        let victim = victims[self.round as usize % victims.len()];
        let seeds: Vec<u64> = (0..PROGRAMS).map(|_| self.random.next()).collect();
        let outcome = self.write_and_kill(victim, &seeds).map_err(|error| error.to_string());
        let verdict = outcome.and_then(|steps| self.verify(victim, &seeds, &steps));
        self.round += 1;
        verdict.map_err(|reason| PairFailure { seed: self.seed, round: self.round - 1, victim, reason })
    }

    fn write_and_kill(&mut self, victim: PairVictim, seeds: &[u64]) -> io::Result<Vec<Steps>> {
        self.served.ensure(self.doors)?;
        let mut writers = Vec::new();
        for (program, seed) in (0..PROGRAMS).zip(seeds) {
            let door = self.door(program);
            let mut command = self.writer("write", program, *seed, door);
            command.args(["--operations", &(self.operations_max * 4).to_string()]);
            let first = self.notes[program as usize];
            let shared = format!("{}/{SHARED}", self.served.root(door));
            command.args(["--shared", &shared, "--notes", &format!("{program}-{first}")]);
            writers.push(Writer::start(command)?);
        }
        let kill_after = self.random.below(self.operations_max);
        let (first, second) = match self.random.one_in(2) {
            true => (0, 1),
            false => (1, 0),
        };
        writers[first].step_to(kill_after)?;
        writers.iter_mut().try_for_each(Writer::before_the_kill)?;
        if !matches!(victim, PairVictim::Daemon | PairVictim::Mount) {
            writers[first].kill()?;
        }
        if matches!(victim, PairVictim::Programs | PairVictim::All) {
            writers[second].kill()?;
        }
        if matches!(victim, PairVictim::Daemon | PairVictim::All) {
            self.served.kill_daemon()?;
        }
        if matches!(victim, PairVictim::Mount | PairVictim::All) {
            self.served.kill_mount()?;
        }
        // The campaign may start the next daemon, and a program that waits in a call goes on.
        if self.random.one_in(2) {
            self.served.ensure_daemon()?;
        }
        for writer in &mut writers {
            let more = writer.steps.acknowledged + self.random.below(40);
            writer.step_to_or_silence(more)?;
            writer.kill()?;
        }
        if self.doors.has_mount() {
            // A program that is killed in a call by a mount stays until the call is answered.
            self.served.ensure_daemon()?;
        }
        writers.into_iter().map(Writer::finish).collect()
    }

    fn verify(&mut self, victim: PairVictim, seeds: &[u64], steps: &[Steps]) -> Result<(), String> {
        for (program, steps) in (0..PROGRAMS).zip(steps) {
            let lost_mount = matches!(victim, PairVictim::Mount | PairVictim::All);
            if let Some(reason) = steps.wrong(lost_mount && self.door(program) == Door::Mount) {
                return Err(format!("program {program}: {reason}"));
            }
        }
        self.served.ensure(self.doors).map_err(|error| error.to_string())?;
        for ((program, seed), steps) in (0..PROGRAMS).zip(seeds).zip(steps) {
            let mut survived: Option<Survived> = None;
            for &door in self.doors.all() {
                let mut command = self.writer("verify", program, *seed, door);
                command.args(["--acknowledged", &steps.acknowledged.to_string()]);
                command.args(["--issued", &steps.issued.to_string()]);
                let told = told(command)
                    .map_err(|error| format!("program {program}, seen by the door {door}: {error}"))?;
                let found: Survived = told.parse().map_err(|()| format!("the verifier said {told:?}"))?;
                if survived.is_some_and(|before| before != found) {
                    return Err(format!("{found} seen by the door {door}, {survived:?} by the other"));
                }
                survived = Some(found);
            }
            let survived = survived.ok_or("nobody looked")?;
            let round = Round { seed: *seed, door: self.door(program), survived };
            self.histories[program as usize].push(round);
            self.save(program).map_err(|error| error.to_string())?;
        }
        let mut seen: Option<Vec<u64>> = None;
        for &door in self.doors.all() {
            let mut command = self.served.writer(door, "verify-shared");
            command.args(["--root", &format!("{}/{SHARED}", self.served.root(door))]);
            for (steps, before) in steps.iter().zip(&self.notes) {
                let (least, most) = (before + steps.shared_acknowledged, before + steps.shared_issued);
                command.args(["--published", &format!("{least}-{most}")]);
            }
            let told = told(command).map_err(|error| format!("seen by the door {door}: {error}"))?;
            let notes: Result<Vec<u64>, _> = told.split(' ').map(str::parse).collect();
            let notes = notes.map_err(|_| format!("the verifier said {told:?}"))?;
            if seen.as_ref().is_some_and(|before| *before != notes) {
                return Err(format!("notes {notes:?} seen by the door {door}, {seen:?} by the other"));
            }
            seen = Some(notes);
        }
        self.notes = seen.unwrap_or_default();
        self.acknowledged += steps.iter().map(|steps| steps.acknowledged).sum::<u64>();
        Ok(())
    }

    /// A program's door in this round.
    fn door(&self, program: u64) -> Door {
        self.doors.of(program + self.round)
    }

    /// The writer, or verifier, by a door, for what a program does in this round.
    fn writer(&self, action: &str, program: u64, seed: u64, door: Door) -> Command {
        let mut command = self.served.writer(door, action);
        command.args(["--root", &format!("{}/{}", self.served.root(door), folder(program))]);
        command.args(["--seed", &seed.to_string(), "--door", &self.door(program).to_string()]);
        command.arg("--history").arg(self.history_path(program));
        command
    }

    fn save(&self, program: u64) -> io::Result<()> {
        self.histories[program as usize].save(&self.history_path(program))
    }

    fn history_path(&self, program: u64) -> PathBuf {
        self.served.beside(&format!("history-{program}.json"))
    }

    /// Notes that were published and survived so far.
    pub fn notes(&self) -> u64 {
        self.notes.iter().sum()
    }

    /// Operations of the programs' own that had returned when these died.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Leaves the store and its histories where they are, for people to look at.
    pub fn keep(self) -> io::Result<PathBuf> {
        self.served.keep()
    }
}

/// A program's own folder on the store.
fn folder(program: u64) -> String {
    format!("program-{program}")
}
