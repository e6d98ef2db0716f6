//! Real processes that work on one store at once, the faults they meet, and the verdict.
//!
//! In a round some processes, under `cuesta run`, by a mount or some at each door, make calls in the same few places, while
//! faults follow one another: a process is killed, and another takes its place; a process is stopped for longer than any
//! holder of a lease is waited for, and goes on; the daemon is killed or replaced, sometimes while a process is stopped. The
//! mount's process is stopped as well, or killed with all who work by it. At the end a process
//! that comes last looks at everything, and the history of each place is checked. The faults follow from the
//! seed; their moments, from the machine.

use super::history::{Contradiction, Counted, History, Incomplete};
use super::ledger::{Instant, Ledger};
use crate::kill::Programs;
use crate::kill::served::{Served, told};
use crate::operations::random::Random;
use crate::programs::doors::{Door, Doors};
use clap::ValueEnum as _;
use rustix::process::{Pid, Signal, kill_process};
use std::fmt;
use std::io::{self, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The line that a process prints once it is the program that makes calls.
pub const STARTED: &[u8] = b"started\n";

/// How long a process may take to end once everybody is to: far longer than it takes to find the next daemon.
const END_SECONDS: u64 = 60;
/// Between two looks whether one ended.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// Until the next fault.
const QUIET_MILLISECONDS: u64 = 60;
/// How long a process stays stopped: this, and up to as much again. No holder of a lease is waited for as long.
const STOPPED_MILLISECONDS: u64 = 150;
/// How long there is no daemon, at most.
const AWAY_MILLISECONDS: u64 = 40;

/// The size of one round.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// Processes at once.
    pub processes: usize,
    /// Faults, one after the other.
    pub faults: u64,
}

/// A fault, and its victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Kill,
    Stop,
    KillDaemon,
    ReplaceDaemon,
    StopAndKillDaemon,
    StopMount,
    KillMount,
}

const FAULTS: [Fault; 7] = [
    Fault::Kill,
    Fault::Kill,
    Fault::Stop,
    Fault::Stop,
    Fault::KillDaemon,
    Fault::ReplaceDaemon,
    Fault::StopAndKillDaemon,
];
const FAULTS_OF_MOUNTS: [Fault; 2] = [Fault::StopMount, Fault::KillMount];

/// Why a campaign ended.
#[derive(Debug, thiserror::Error)]
#[error("seed {seed}, round {round}: {reason}{}", Listed(.faults))]
pub struct RoundFailure {
    /// Repeats the campaign, as far as processes can be made to do the same again.
    pub seed: u64,
    /// The round, from 0.
    pub round: u64,
    /// The fault.
    pub reason: Reason,
    /// The injected faults, and when.
    pub faults: Vec<Injected>,
}

/// A fault that was injected.
#[derive(Clone, Copy, Debug)]
pub struct Injected {
    fault: Fault,
    /// The process it was about, if it was about one.
    lane: Option<usize>,
    from: Instant,
    to: Instant,
}

struct Listed<'a>(&'a [Injected]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = |at: Instant| at.0 as f64 / 1_000_000.0;
        for Injected { fault, lane, from, to } in self.0 {
            let whom = lane.map_or(String::new(), |lane| format!(" of process {lane}"));
            let (from, to) = (milliseconds(*from), milliseconds(*to));
            write!(formatter, "\n  {fault:?}{whom}, {from:.3} to {to:.3} ms")?;
        }
        Ok(())
    }
}

/// The fault.
#[derive(Debug, thiserror::Error)]
pub enum Reason {
    /// The processes could not be run.
    #[error("{0}")]
    Run(#[from] io::Error),
    /// A process ended before it should, or did not end.
    #[error("process {lane}: {what}")]
    Process {
        /// Which one.
        lane: usize,
        /// What became of it.
        what: String,
    },
    /// There is no history to check.
    #[error(transparent)]
    Incomplete(#[from] Incomplete),
    /// Calls contradict one another.
    #[error(transparent)]
    Contradiction(#[from] Box<Contradiction>),
}

/// A process at work.
struct Working {
    lane: usize,
    child: Child,
}

/// A store that processes work on, round after round.
pub struct Campaign {
    served: Served,
    random: Random,
    seed: u64,
    doors: Doors,
    rounds: u64,
    counted: Counted,
}

impl Campaign {
    /// A campaign on a new store.
    pub fn new(programs: Programs, seed: u64, doors: Doors) -> io::Result<Campaign> {
        let served = Served::new(programs)?;
        served.ship_by(seed)?;
        let random = Random::new(seed);
        Ok(Campaign { served, random, seed, doors, rounds: 0, counted: Counted::default() })
    }

    /// One round: processes at work, faults, a last look, the check.
    pub fn round(&mut self, round: Round) -> Result<(), RoundFailure> {
        let number = self.rounds;
        self.rounds += 1;
        let mut faults = Vec::new();
        let outcome = self.work_and_check(number, round, &mut faults);
        outcome.map_err(|reason| RoundFailure { seed: self.seed, round: number, reason, faults })
    }

    /// What all rounds came to.
    pub fn counted(&self) -> Counted {
        self.counted
    }

    /// Leaves the store and its ledgers where they are, for people to look at.
    pub fn keep(self) -> io::Result<PathBuf> {
        self.served.keep()
    }

    fn work_and_check(
        &mut self,
        number: u64,
        round: Round,
        injected: &mut Vec<Injected>,
    ) -> Result<(), Reason> {
        let seed = self.random.next();
        let path = self.served.beside(&format!("ledger-{number}"));
        let ledger = Ledger::create(&path)?;
        let here = Here { folder: format!("round-{number}"), ledger: path, seed, doors: self.doors };
        self.served.ensure_daemon()?;
        if self.doors.has_mount() {
            self.served.ensure_mount()?;
        }
        told(here.command(&self.served, "prepare", None))?;
        let mut team = Team::start(&here, &self.served, round.processes)?;
        let of_mounts: &[Fault] = if self.doors.has_mount() { &FAULTS_OF_MOUNTS } else { &[] };
        let faults = [&FAULTS[..], of_mounts].concat();
        for _ in 0..round.faults {
            sleep_up_to(&mut self.random, QUIET_MILLISECONDS);
            let fault = *self.random.pick(&faults);
            let from = Instant::now();
            let lane = team.suffer(fault, &here, &mut self.served, &mut self.random)?;
            injected.push(Injected { fault, lane, from, to: Instant::now() });
        }
        ledger.end()?;
        let ends = team.end()?;
        let last = ends.len();
        told(here.command(&self.served, "look", Some(last)))?;
        let history = History::collect(&ledger, seed, self.doors, &ends)?;
        self.counted += history.counted();
        history.check().map_err(Box::new)?;
        std::fs::remove_file(&here.ledger)?;
        Ok(())
    }
}

/// The arguments of the processes of a round.
struct Here {
    folder: String,
    ledger: PathBuf,
    seed: u64,
    doors: Doors,
}

impl Here {
    fn door(&self, lane: Option<usize>) -> Door {
        self.doors.of(lane.unwrap_or(0) as u64)
    }

    fn command(&self, served: &Served, action: &str, lane: Option<usize>) -> Command {
        let door = self.door(lane);
        let mut command = served.writer(door, action);
        command.args(["--root", &format!("{}/{}", served.root(door), self.folder)]);
        if let Some(lane) = lane {
            command.args(["--seed", &self.seed.to_string(), "--lane", &lane.to_string()]);
            let doors = self.doors.to_possible_value().expect("each has a name");
            command.args(["--doors", doors.get_name()]).arg("--ledger").arg(&self.ledger);
        }
        command
    }
}

/// The processes of a round.
struct Team {
    working: Vec<Working>,
    /// When each lane's process was seen dead, if it was killed.
    ends: Vec<Option<Instant>>,
}

impl Team {
    fn start(here: &Here, served: &Served, processes: usize) -> Result<Team, Reason> {
        let mut team = Team { working: Vec::new(), ends: Vec::new() };
        for _ in 0..processes {
            team.add(here, served)?;
        }
        Ok(team)
    }

    /// The child is the process that makes the calls: `cuesta run` becomes it. It says when it is that far: before,
    /// `cuesta run` would start a daemon of its own where it meets none.
    fn add(&mut self, here: &Here, served: &Served) -> Result<(), Reason> {
        let lane = self.ends.len();
        let mut command = here.command(served, "work", Some(lane));
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let said = child.stdout.take().map(|mut stdout| stdout.read_exact(&mut [0; STARTED.len()]));
        self.working.push(Working { lane, child });
        self.ends.push(None);
        match said {
            Some(Ok(())) => Ok(()),
            _ => Err(Reason::Process { lane, what: "does not start".to_owned() }),
        }
    }

    /// Waits for one that was killed.
    fn bury(&mut self, mut killed: Working) -> io::Result<()> {
        killed.child.wait()?;
        self.ends[killed.lane] = Some(Instant::now());
        Ok(())
    }

    /// Says which process it was about.
    fn suffer(
        &mut self,
        fault: Fault,
        here: &Here,
        served: &mut Served,
        random: &mut Random,
    ) -> Result<Option<usize>, Reason> {
        let victim = random.below(self.working.len() as u64) as usize;
        let lane = self.working[victim].lane;
        match fault {
            Fault::Kill => {
                let mut killed = self.working.swap_remove(victim);
                killed.child.kill()?;
                self.bury(killed)?;
                self.add(here, served)?;
            }
            Fault::StopMount => {
                served.signal_mount(Signal::STOP)?;
                std::thread::sleep(Duration::from_millis(STOPPED_MILLISECONDS));
                sleep_up_to(random, STOPPED_MILLISECONDS);
                served.signal_mount(Signal::CONT)?;
            }
            Fault::KillMount => {
                let is_by_mount = |working: &mut Working| here.door(Some(working.lane)) == Door::Mount;
                let mut killed: Vec<Working> = self.working.extract_if(.., is_by_mount).collect();
                // They are not to see that the mount is gone: a call of theirs that is under way does not return.
                killed.iter_mut().try_for_each(|working| working.child.kill())?;
                served.kill_mount()?;
                served.ensure_mount()?;
                for working in killed {
                    self.bury(working)?;
                    self.add(here, served)?;
                }
            }
            Fault::Stop | Fault::StopAndKillDaemon => {
                self.working[victim].signal(Signal::STOP)?;
                std::thread::sleep(Duration::from_millis(STOPPED_MILLISECONDS));
                if fault == Fault::StopAndKillDaemon {
                    served.kill_daemon()?;
                    served.ensure_daemon()?;
                }
                sleep_up_to(random, STOPPED_MILLISECONDS);
                self.working[victim].signal(Signal::CONT)?;
            }
            Fault::KillDaemon => {
                served.kill_daemon()?;
                sleep_up_to(random, AWAY_MILLISECONDS);
                served.ensure_daemon()?;
            }
            Fault::ReplaceDaemon => {
                served.stop_daemon()?;
                sleep_up_to(random, AWAY_MILLISECONDS);
                served.ensure_daemon()?;
            }
        }
        let is_about_one = matches!(fault, Fault::Kill | Fault::Stop | Fault::StopAndKillDaemon);
        Ok(is_about_one.then_some(lane))
    }

    /// Waits until everybody has come to an end. Says when each lane's process was seen dead, if it was killed.
    fn end(mut self) -> Result<Vec<Option<Instant>>, Reason> {
        let patience = std::time::Instant::now() + Duration::from_secs(END_SECONDS);
        for Working { lane, child } in &mut self.working {
            let failed = |what: String| Reason::Process { lane: *lane, what };
            let status = loop {
                match child.try_wait()? {
                    Some(status) => break status,
                    None if std::time::Instant::now() > patience => {
                        return Err(failed("does not come to an end".to_owned()));
                    }
                    None => std::thread::sleep(LOOK_EVERY),
                }
            };
            if !status.success() {
                return Err(failed(status.to_string()));
            }
        }
        Ok(std::mem::take(&mut self.ends))
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        for Working { child, .. } in &mut self.working {
            // One that has ended cannot be killed.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Working {
    fn signal(&self, signal: Signal) -> io::Result<()> {
        let pid = Pid::from_child(&self.child);
        Ok(kill_process(pid, signal)?)
    }
}

fn sleep_up_to(random: &mut Random, milliseconds: u64) {
    std::thread::sleep(Duration::from_micros(random.below(milliseconds * 1000)));
}
