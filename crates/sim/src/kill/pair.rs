//! The killer and its oracle: two programs at once on one store.
//!
//! Each has a directory of its own, where its operations are checked against the model as those of a single program
//! are, and both publish notes in a third one ([`super::shared`]), so that leases change hands all the time.

use super::history::{History, Round};
use super::served::{Programs, ROOT, Served, Steps, Writer, told};
use crate::random::Random;
use std::io;
use std::path::{Path, PathBuf};

const PROGRAMS: u64 = 2;

/// What is killed first. Programs left alive go on for a while, as far as they get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairVictim {
    /// One of the programs.
    One,
    /// Both programs.
    Programs,
    /// The daemon.
    Daemon,
    /// Everything.
    All,
}

/// Something survived that must not, or did not that must.
#[derive(Debug, thiserror::Error)]
#[error("two programs, seed {seed}, round {round}, {victim:?} killed: {reason}")]
pub struct PairFailure {
    /// Repeats the campaign, as far as two programs can be made to do the same again.
    pub seed: u64,
    /// The round, from 0.
    pub round: u64,
    /// What was killed first in it.
    pub victim: PairVictim,
    /// What is wrong.
    pub reason: String,
}

/// A store on which two programs are killed, round after round.
pub struct PairCampaign {
    served: Served,
    random: Random,
    seed: u64,
    round: u64,
    operations_max: u64,
    histories: Vec<History>,
    /// Notes of each program that survived so far.
    notes: Vec<u64>,
}

impl PairCampaign {
    /// A campaign on a new store; the first program is killed after at most `operations_max` operations of its own.
    pub fn new(programs: Programs, seed: u64, operations_max: u64) -> io::Result<PairCampaign> {
        let mut campaign = PairCampaign {
            served: Served::new(programs)?,
            random: Random::new(seed),
            seed,
            round: 0,
            operations_max,
            histories: vec![History::default(); PROGRAMS as usize],
            notes: vec![0; PROGRAMS as usize],
        };
        campaign.served.ensure_daemon()?;
        let mut mkdir = campaign.served.run(Path::new("mkdir"));
        mkdir.args(["-m", "755"]).arg(shared_folder()).args((0..PROGRAMS).map(folder));
        told(mkdir)?;
        for program in 0..PROGRAMS {
            campaign.save(program)?;
        }
        Ok(campaign)
    }

    /// One round: write, kill, recover, verify.
    pub fn round(&mut self) -> Result<(), PairFailure> {
        use PairVictim::*;
        let victim = *self.random.pick(&[One, One, Programs, Daemon, All]);
        let seeds: Vec<u64> = (0..PROGRAMS).map(|_| self.random.next()).collect();
        let outcome = self.write_and_kill(victim, &seeds).map_err(|error| error.to_string());
        let verdict = outcome.and_then(|steps| self.verify(victim, &seeds, &steps));
        self.round += 1;
        verdict.map_err(|reason| PairFailure { seed: self.seed, round: self.round - 1, victim, reason })
    }

    fn write_and_kill(&mut self, victim: PairVictim, seeds: &[u64]) -> io::Result<Vec<Steps>> {
        self.served.ensure_daemon()?;
        let mut writers = Vec::new();
        for (program, seed) in (0..PROGRAMS).zip(seeds) {
            let mut command = self.served.run_writer("write");
            command.args(["--root", &folder(program), "--seed", &seed.to_string()]);
            command.arg("--history").arg(self.history_path(program));
            command.args(["--operations", &(self.operations_max * 4).to_string()]);
            let first = self.notes[program as usize];
            command.args(["--shared", &shared_folder(), "--notes", &format!("{program}-{first}")]);
            writers.push(Writer::start(command)?);
        }
        let kill_after = self.random.below(self.operations_max);
        let (first, second) = match self.random.one_in(2) {
            true => (0, 1),
            false => (1, 0),
        };
        writers[first].step_to(kill_after)?;
        if victim != PairVictim::Daemon {
            writers[first].kill()?;
        }
        if matches!(victim, PairVictim::Programs | PairVictim::All) {
            writers[second].kill()?;
        }
        if matches!(victim, PairVictim::Daemon | PairVictim::All) {
            self.served.kill_daemon()?;
        }
        for writer in &mut writers {
            let more = writer.steps.acknowledged + self.random.below(40);
            writer.step_to_or_silence(more)?;
            writer.kill()?;
        }
        writers.into_iter().map(Writer::finish).collect()
    }

    fn verify(&mut self, victim: PairVictim, seeds: &[u64], steps: &[Steps]) -> Result<(), String> {
        let daemon_lived = matches!(victim, PairVictim::One | PairVictim::Programs);
        if let Some(reason) =
            steps.iter().find_map(|steps| steps.disagreement.clone().filter(|_| daemon_lived))
        {
            return Err(reason);
        }
        self.served.ensure_daemon().map_err(|error| error.to_string())?;
        for ((program, seed), steps) in (0..PROGRAMS).zip(seeds).zip(steps) {
            let mut command = self.served.run_writer("verify");
            command.args(["--root", &folder(program), "--seed", &seed.to_string()]);
            command.arg("--history").arg(self.history_path(program));
            command.args(["--acknowledged", &steps.acknowledged.to_string()]);
            command.args(["--issued", &steps.issued.to_string()]);
            let told = told(command).map_err(|error| format!("program {program}: {error}"))?;
            let survived = told.parse().map_err(|_| format!("the verifier said {told:?}"))?;
            self.histories[program as usize].push(Round { seed: *seed, survived });
            self.save(program).map_err(|error| error.to_string())?;
        }
        let mut command = self.served.run_writer("verify-shared");
        command.args(["--root", &shared_folder()]);
        for (steps, before) in steps.iter().zip(&self.notes) {
            let (least, most) = (before + steps.shared_acknowledged, before + steps.shared_issued);
            command.args(["--published", &format!("{least}-{most}")]);
        }
        let told = told(command).map_err(|error| error.to_string())?;
        let notes: Result<Vec<u64>, _> = told.split(' ').map(str::parse).collect();
        self.notes = notes.map_err(|_| format!("the verifier said {told:?}"))?;
        Ok(())
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

    /// Leaves the store and its histories where they are, for somebody to look at.
    pub fn keep(self) -> io::Result<PathBuf> {
        self.served.keep()
    }
}

fn folder(program: u64) -> String {
    format!("{ROOT}/program-{program}")
}

fn shared_folder() -> String {
    format!("{ROOT}/shared")
}
