//! Rounds on one store. The programs look for all that the last cut left, then they work, and the power goes.

use super::disk::Cut;
use super::image::Spared;
use super::machine::Machine;
use super::postgres::Postgres;
use super::records::{Counts, PESSIMISTIC, Record, Round, Survived, Violation};
use crate::operations::random::Random;
use crate::programs::doors::Door;
use rustix::process::{Pid, Signal};
use std::io::{self, BufRead as _, BufReader, Lines, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// The bound that a store has by default.
const BOUND_NS: u64 = 50_000_000;
/// A cut of the store has each log written, blocks beside the logs, and the record: no more flushes than this.
const FLUSHES_PER_CUT: usize = 12;
/// How long a flush takes.
const FLUSH_MS: [u64; 4] = [0, 0, 1, 5];
/// From the first records to the cut: so long at most, or so many requests of the disk.
const WORK_MS: u64 = 600;
const REQUESTS: u64 = 400;
/// Far longer than a program takes to begin.
const PATIENCE: Duration = Duration::from_secs(60);
/// Journals of SQLite, in turn.
const JOURNALS: [&str; 2] = ["wal", "delete"];
const POSTGRES: &str = "postgres";
/// Streams that begin anew in each round.
const OF_A_ROUND: [&str; 2] = ["turns", PESSIMISTIC];

/// Why a campaign ended.
#[derive(Debug, thiserror::Error)]
#[error("seed {seed}, round {round}, {spared:?} of the disk's cache spared: {reason}")]
pub struct Failure {
    /// Repeats the store, as far as the machine's timing lets it.
    pub seed: u64,
    /// The round, from 0, that found it.
    pub round: u64,
    /// The part of the disk's cache that the last cut spared.
    pub spared: Option<Spared>,
    /// The fault.
    pub reason: Reason,
}

/// The fault.
#[derive(Debug, thiserror::Error)]
pub enum Reason {
    /// Something of the campaign's own could not be done, or a command failed that must not.
    #[error("{0}")]
    Run(#[from] io::Error),
    /// The store lacks a record, or has one too many.
    #[error("{0}")]
    Store(#[from] Violation),
    /// A program of the campaign finds that.
    #[error("{0}")]
    Program(String),
}

/// A store whose power goes, round after round.
pub struct PowerCampaign {
    machine: Machine,
    postgres: Option<Postgres>,
    random: Random,
    seed: u64,
    rounds: u64,
    /// The records that the last look has found.
    before: Counts,
    /// The last round, which nothing has verified yet.
    last: Option<(Round, Spared)>,
}

impl PowerCampaign {
    /// A new store, with PostgreSQL on it if that is wished and installed.
    pub fn new(cuesta: &Path, seed: u64, with_postgres: bool) -> io::Result<PowerCampaign> {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        let mut random = Random::new(seed);
        let machine = Machine::new(cuesta, random.next())?;
        let postgres = Postgres::installed().filter(|_| with_postgres);
        if let Some(postgres) = &postgres {
            postgres.make(&machine)?;
        }
        let (rounds, before, last) = (0, Counts::new(), None);
        Ok(PowerCampaign { machine, postgres, random, seed, rounds, before, last })
    }

    /// Whether PostgreSQL is at work.
    #[must_use]
    pub fn has_postgres(&self) -> bool {
        self.postgres.is_some()
    }

    /// Verifies the last cut, works, and cuts again. Answers the loss of the last cut.
    pub fn round(&mut self) -> Result<Option<Survived>, Failure> {
        let spared = self.last.as_ref().map(|(_, spared)| *spared);
        let (seed, round) = (self.seed, self.rounds);
        let outcome = self.work_and_cut();
        self.rounds += 1;
        outcome.map_err(|reason| Failure { seed, round, spared, reason })
    }

    /// Verifies the last cut, and leaves the store in order.
    pub fn end(&mut self) -> Result<Option<Survived>, Failure> {
        let spared = self.last.as_ref().map(|(_, spared)| *spared);
        let (seed, round) = (self.seed, self.rounds);
        let outcome = self.look_and_leave();
        outcome.map_err(|reason| Failure { seed, round, spared, reason })
    }

    /// Leaves the disk as a file.
    pub fn keep(self) -> io::Result<PathBuf> {
        self.machine.keep()
    }

    fn look_and_leave(&mut self) -> Result<Option<Survived>, Reason> {
        self.machine.start_anew()?;
        self.machine.fsck(&[])?;
        let (found, survived) = self.look(Door::Run, JOURNALS[0], &[])?;
        let Found { worker: Worker { mut process, .. }, server } = found;
        drop(process.stdin.take());
        process.wait()?;
        if let Some(mut server) = server {
            rustix::process::kill_process(Pid::from_child(&server), Signal::INT).map_err(io::Error::from)?;
            server.wait()?;
        }
        self.machine.stop_daemon()?;
        self.machine.fsck(&["--content"])?;
        Ok(survived)
    }

    /// Starts the programs of a round: they look first. Answers the loss of the last cut.
    fn look(
        &mut self,
        door: Door,
        journal: &str,
        options: &[&str],
    ) -> Result<(Found, Option<Survived>), Reason> {
        let mut command = self.machine.work(door, &[]);
        command.arg(self.rounds.to_string()).arg(journal).args(options).stdin(Stdio::piped());
        let mut worker = Worker::start(command)?;
        let mut counts = worker.found()?;
        let mut server = None;
        if let Some(postgres) = &self.postgres {
            server = Some(postgres.start(&self.machine)?);
            counts.insert(POSTGRES.to_owned(), postgres.count(&self.machine)?);
        }
        let survived = self.last.take().map(|(round, _)| round.verify(&counts)).transpose()?;
        counts.retain(|stream, _| !OF_A_ROUND.contains(&stream.as_str()));
        self.before = counts;
        Ok((Found { worker, server }, survived))
    }

    fn work_and_cut(&mut self) -> Result<Option<Survived>, Reason> {
        let journal = JOURNALS[self.rounds as usize % JOURNALS.len()];
        let mut options = Vec::new();
        if self.random.one_in(3) {
            options.push("shared");
        }
        if self.random.one_in(3) {
            options.push("dsync");
        }
        let has_pessimistic = self.random.one_in(4);
        let door = if self.random.one_in(4) { Door::Mount } else { Door::Run };
        self.machine.disk.set_flush_time(Duration::from_millis(*self.random.pick(&FLUSH_MS)));
        if self.last.is_some() {
            self.machine.start_anew()?;
            self.machine.fsck(&[])?;
        }
        if door == Door::Mount {
            self.machine.mount_store()?;
        }
        let (Found { mut worker, server: _server }, survived) = self.look(door, journal, &options)?;
        let mut awaited = vec!["turns".to_owned(), format!("sqlite-{journal}")];
        worker.process.stdin.take().expect("stdin is a pipe").write_all(b"go\n")?;
        let (sender, lines) = channel();
        worker.listen(&sender);
        if has_pessimistic {
            let mut command = self.machine.work(Door::Run, &["--durability", "pessimistic"]);
            command.arg(self.rounds.to_string()).arg(PESSIMISTIC).stdin(Stdio::null());
            Worker::start(command)?.listen(&sender);
            awaited.push(PESSIMISTIC.to_owned());
        }
        if let Some(postgres) = &self.postgres {
            let count = self.before.get(POSTGRES).copied().unwrap_or(0);
            Worker::start(postgres.insert(&self.machine, count))?.listen(&sender);
            awaited.push(POSTGRES.to_owned());
        }
        drop(sender);
        let mut said = await_first(&lines, awaited)?;
        let spared = *self.random.pick(&Spared::ALL);
        let limit = Duration::from_millis(1 + self.random.below(WORK_MS));
        let cut = self.machine.disk.cut_power(1 + self.random.below(REQUESTS), limit, spared);
        self.machine.end_everything()?;
        said.extend(lines);
        let ended = said.iter().find_map(|line| ended_before(line, &cut));
        if let Some(line) = ended {
            return Err(Reason::Program(line.to_owned()));
        }
        let round = Round {
            before: self.before.clone(),
            said: said.iter().filter_map(|line| Record::read(line)).collect(),
            cut_ns: cut.at_ns,
            bound_ns: BOUND_NS,
            disk_ns: cut.slowest_ns(FLUSHES_PER_CUT),
        };
        self.last = Some((round, spared));
        Ok(survived)
    }
}

/// Programs that have looked.
struct Found {
    worker: Worker,
    server: Option<Child>,
}

/// A script at work.
struct Worker {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    fn start(mut command: Command) -> io::Result<Worker> {
        let mut process = command.stdout(Stdio::piped()).spawn()?;
        let lines = BufReader::new(process.stdout.take().expect("stdout is a pipe")).lines();
        Ok(Worker { process, lines })
    }

    /// Takes in the counts of streams that the script has found.
    fn found(&mut self) -> Result<Counts, Reason> {
        let mut counts = Counts::new();
        for line in self.lines.by_ref() {
            let line = line?;
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["found", stream, count] => {
                    let count = count.parse().map_err(|_| Reason::Program(line.clone()))?;
                    counts.insert(stream.to_owned(), count);
                }
                ["looked"] => return Ok(counts),
                _ => return Err(Reason::Program(line)),
            }
        }
        Err(Reason::Program("the program that looks has ended".to_owned()))
    }

    /// Sends on every line, until the last process ends that can say something.
    fn listen(self, to: &Sender<String>) {
        let (lines, to) = (self.lines, to.clone());
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| to.send(line)));
    }
}

/// Returns when each of these streams has a record.
fn await_first(lines: &Receiver<String>, mut awaited: Vec<String>) -> Result<Vec<String>, Reason> {
    let mut said = Vec::new();
    while !awaited.is_empty() {
        let line = lines.recv_timeout(PATIENCE);
        let line = line.map_err(|_| Reason::Program(format!("no record of {}", awaited.join(", "))))?;
        if line.starts_with("ended ") {
            return Err(Reason::Program(line));
        }
        awaited.retain(|stream| !line.starts_with(&format!("{stream} ")));
        said.push(line);
    }
    Ok(said)
}

/// The line, if a program says that it ended while the disk had power: `ended TIME WHY`.
fn ended_before<'a>(line: &'a str, cut: &Cut) -> Option<&'a str> {
    let at_ns: u64 = line.strip_prefix("ended ")?.split(' ').next()?.parse().ok()?;
    (at_ns < cut.at_ns).then_some(line)
}
