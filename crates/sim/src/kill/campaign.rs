//! The killer and its oracle: one program at a time.

use super::history::{History, Round};
use super::served::{Programs, ROOT, Served, Steps, Writer, told};
use crate::random::Random;
use std::io;
use std::path::PathBuf;

/// What is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// The writer.
    Program,
    /// The daemon; the writer goes on as far as it gets.
    Daemon,
    /// The writer, then at once the daemon.
    Both,
}

/// Something survived that must not, or did not that must.
#[derive(Debug, thiserror::Error)]
#[error(
    "seed {seed}, round {round}, {victim:?} killed after {acknowledged} of {issued} operations: {reason}"
)]
pub struct KillFailure {
    /// Repeats the campaign.
    pub seed: u64,
    /// The round, from 0.
    pub round: u64,
    /// The seed of its operations.
    pub round_seed: u64,
    /// What was killed in it.
    pub victim: Victim,
    /// Operations that had returned.
    pub acknowledged: u64,
    /// Operations that had been issued.
    pub issued: u64,
    /// What is wrong.
    pub reason: String,
}

/// A store that is written, killed and checked, round after round.
pub struct Campaign {
    served: Served,
    history: History,
    random: Random,
    seed: u64,
    round: u64,
    operations_max: u64,
}

impl Campaign {
    /// A campaign on a new store; a writer is killed after at most `operations_max` operations.
    pub fn new(programs: Programs, seed: u64, operations_max: u64) -> io::Result<Campaign> {
        let (served, history) = (Served::new(programs)?, History::default());
        let random = Random::new(seed);
        let campaign = Campaign { served, history, random, seed, round: 0, operations_max };
        campaign.history.save(&campaign.history_path())?;
        Ok(campaign)
    }

    /// One round: write, kill, recover, verify.
    pub fn round(&mut self) -> Result<(), KillFailure> {
        let victim = *self.random.pick(&[Victim::Program, Victim::Program, Victim::Daemon, Victim::Both]);
        let seed = self.random.next();
        let kill_after = self.random.below(self.operations_max);
        let mut steps = Steps::default();
        let outcome = self.write_and_kill(victim, seed, kill_after, &mut steps);
        let verdict = outcome.map_err(|error| error.to_string()).and_then(|()| match &steps.disagreement {
            Some(reason) if victim == Victim::Program => Err(reason.clone()),
            _ => self.verify(seed, &steps),
        });
        match verdict {
            Ok(survived) => {
                self.history.push(Round { seed, survived });
                self.round += 1;
                self.history.save(&self.history_path()).expect("the history can be written");
                Ok(())
            }
            Err(reason) => Err(KillFailure {
                seed: self.seed,
                round: self.round,
                round_seed: seed,
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
        seed: u64,
        kill_after: u64,
        steps: &mut Steps,
    ) -> io::Result<()> {
        self.served.ensure_daemon()?;
        let mut command = self.served.run_writer("write");
        command.args(["--root", ROOT, "--seed", &seed.to_string()]).arg("--history").arg(self.history_path());
        command.args(["--operations", &(self.operations_max * 2).to_string()]);
        let mut writer = Writer::start(command)?;
        writer.step_to(kill_after)?;
        if victim != Victim::Daemon {
            writer.kill()?;
        }
        if victim != Victim::Program {
            self.served.kill_daemon()?;
        }
        if victim == Victim::Daemon {
            writer.step_to_or_silence(kill_after + self.random.below(20))?;
            writer.kill()?;
        }
        *steps = writer.finish()?;
        Ok(())
    }

    fn verify(&mut self, seed: u64, steps: &Steps) -> Result<u64, String> {
        self.served.ensure_daemon().map_err(|error| error.to_string())?;
        let mut command = self.served.run_writer("verify");
        command.args(["--root", ROOT, "--seed", &seed.to_string()]).arg("--history").arg(self.history_path());
        command.args(["--acknowledged", &steps.acknowledged.to_string()]);
        command.args(["--issued", &steps.issued.to_string()]);
        let told = told(command).map_err(|error| error.to_string())?;
        told.parse().map_err(|_| format!("the verifier said {told:?}"))
    }

    fn history_path(&self) -> PathBuf {
        self.served.beside("history.json")
    }

    /// Leaves the store and its history where they are, for somebody to look at.
    pub fn keep(self) -> io::Result<PathBuf> {
        self.served.keep()
    }
}
