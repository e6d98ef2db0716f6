//! Rounds: lanes at work, faults, the end of everything, re-reading.

use super::job::{Ended, Heard, Job, Post, Said, lock};
use super::lanes::{Lane, User, lanes};
use super::manifest::{Manifest, Violation};
use super::place::{Installed, SEARCH_PATH, SoakFolder};
use crate::operations::random::Random;
use crate::programs::doors::{Door, Doors};
use rustix::process::{Pid, Signal};
use std::fmt;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Lanes at work at once, at most.
const LANES_AT_ONCE: usize = 6;
/// Until the next fault, at most: one of these in a round.
const QUIET_MILLISECONDS: [u64; 3] = [100, 400, 1500];
/// How long something stays stopped: this, and up to as much again. No holder of a lease is waited for as long.
const STOPPED_MILLISECONDS: u64 = 150;
/// How long there is no daemon, at most, if no program brings one up.
const AWAY_MILLISECONDS: u64 = 60;
/// How long a daemon that is killed while it comes up has had, at most.
const COMING_UP_MILLISECONDS: u64 = 30;
/// Far longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);
const LOOK_EVERY: Duration = Duration::from_millis(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    KillProgram,
    KillGroup,
    StopProgram,
    StopGroup,
    StopGroupAndKillDaemon,
    KillDaemon,
    KillDaemonTwice,
    ReplaceDaemon,
    StopDaemon,
    KillEverything,
}

const FAULTS: [Fault; 14] = [
    Fault::KillProgram,
    Fault::KillProgram,
    Fault::KillProgram,
    Fault::KillGroup,
    Fault::KillGroup,
    Fault::StopProgram,
    Fault::StopGroup,
    Fault::StopGroupAndKillDaemon,
    Fault::KillDaemon,
    Fault::KillDaemon,
    Fault::KillDaemonTwice,
    Fault::ReplaceDaemon,
    Fault::StopDaemon,
    Fault::KillEverything,
];

/// A fault: its kind, its victim, and its moment in the round.
#[derive(Clone, Copy, Debug)]
pub struct Injected {
    fault: Fault,
    lane: Option<&'static str>,
    from: Duration,
    to: Duration,
}

/// Why a soak ended.
#[derive(Debug, thiserror::Error)]
#[error("seed {seed}, round {round}: {reason}{}", Listed(.faults))]
pub struct Failure {
    /// Repeats it, as far as processes can be made to do the same again.
    pub seed: u64,
    /// The round, from 0.
    pub round: u64,
    /// The fault.
    pub reason: Reason,
    /// The faults of the round.
    pub faults: Vec<Injected>,
}

/// The fault.
#[derive(Debug, thiserror::Error)]
pub enum Reason {
    /// Something of the soak's own could not be done, or a command failed that must not.
    #[error("{0}")]
    Run(#[from] io::Error),
    /// A lane is not as it must be.
    #[error("{lane}: {violation}")]
    Lane {
        /// Its name.
        lane: &'static str,
        /// The violation.
        violation: Violation,
    },
    /// A program failed, and nothing was done to it.
    #[error("{lane}: {what}")]
    Program {
        /// Its lane's name.
        lane: &'static str,
        /// How it ended.
        what: String,
    },
    /// The checker finds something.
    #[error("cuesta fsck: {0}")]
    Fsck(io::Error),
}

struct Listed<'a>(&'a [Injected]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Injected { fault, lane, from, to } in self.0 {
            let whom = lane.map_or(String::new(), |lane| format!(" of {lane}"));
            write!(formatter, "\n  {fault:?}{whom}, {:.3} to {:.3} s", from.as_secs_f64(), to.as_secs_f64())?;
        }
        Ok(())
    }
}

/// The counts of a round, or of all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Faults injected.
    pub faults: u64,
    /// Programs started.
    pub programs: u64,
    /// Steps acknowledged.
    pub acknowledged: u64,
}

/// A store that is worked on, round after round.
pub struct Soak {
    place: SoakFolder,
    lanes: Vec<Lane>,
    heard: Heard,
    random: Random,
    seed: u64,
    rounds: u64,
    doors: Doors,
    /// The process that serves the mount, while there is one.
    mount: Option<Pid>,
    /// How often the daemon went away or came back, as far as programs were started meanwhile.
    outages: u64,
    counted: Counted,
}

impl Soak {
    /// A soak on a new store. Its programs come to it by `doors`.
    pub fn new(installed: &Installed, seed: u64, doors: Doors) -> io::Result<Soak> {
        // We wait for processes that a killed program leaves behind.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        let place = SoakFolder::new(installed, seed)?;
        let lanes: Vec<Lane> = lanes().into_iter().filter(can_be_had).collect();
        let names = lanes.iter().map(|lane| lane.name.to_owned()).collect();
        let manifest = Manifest::create(&place.beside("manifest"), names)?;
        place.ensure_daemon()?;
        place.make_folders(&lanes)?;
        let heard = Arc::new(Mutex::new(Said { manifest, wrong: None }));
        let (random, counted) = (Random::new(seed), Counted::default());
        Ok(Soak { place, lanes, heard, random, seed, rounds: 0, doors, mount: None, outages: 0, counted })
    }

    /// Where the store and all that belongs to it lie.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        self.place.folder()
    }

    /// The lanes of this machine: not all programs and users can be had everywhere.
    pub fn lanes(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.lanes.iter().map(|lane| lane.name)
    }

    /// One round: work and faults for so long, the end of everything, re-reading.
    pub fn round(&mut self, work: Duration) -> Result<(), Failure> {
        let mut faults = Vec::new();
        let outcome = self.work(work, &mut faults).and_then(|()| self.read_again());
        let round = self.rounds;
        self.rounds += 1;
        outcome.map_err(|reason| Failure { seed: self.seed, round, reason, faults })
    }

    /// What all rounds came to.
    #[must_use]
    pub fn counted(&self) -> Counted {
        Counted { acknowledged: lock(&self.heard).manifest.acknowledged(), ..self.counted }
    }

    /// Leaves store and manifest where they are, for people to look at.
    pub fn keep(self) -> io::Result<PathBuf> {
        self.place.keep()
    }

    fn work(&mut self, work: Duration, faults: &mut Vec<Injected>) -> Result<(), Reason> {
        self.ensure_mount()?;
        let began = Instant::now();
        let mut jobs = self.start_some()?;
        let quiet_milliseconds = *self.random.pick(&QUIET_MILLISECONDS);
        while began.elapsed() < work {
            let quiet = Instant::now() + self.some_time(quiet_milliseconds);
            while Instant::now() < quiet {
                std::thread::sleep(LOOK_EVERY);
                self.restart_ended(&mut jobs)?;
            }
            let fault = *self.random.pick(&FAULTS);
            let from = began.elapsed();
            let lane = self.inject(fault, &mut jobs)?;
            self.counted.faults += 1;
            faults.push(Injected { fault, lane, from, to: began.elapsed() });
        }
        match self.random.below(3) {
            0 => self.end_kindly(jobs)?,
            1 => self.kill_all(jobs)?,
            _ => {
                self.outages += 1;
                self.place.kill_daemon()?;
                self.kill_all(jobs)?;
            }
        }
        self.end_mount()?;
        // A program that died just now may have brought one up.
        match self.random.one_in(2) {
            true => self.place.kill_daemon()?,
            false => self.place.stop_daemon()?,
        }
        self.nothing_wrong()
    }

    fn start_some(&mut self) -> Result<Vec<Job>, Reason> {
        let mut chosen: Vec<usize> = (0..self.lanes.len()).collect();
        while chosen.len() > LANES_AT_ONCE {
            chosen.swap_remove(self.random.below(chosen.len() as u64) as usize);
        }
        let mut jobs = Vec::new();
        for lane in chosen {
            for user in self.lanes[lane].users {
                jobs.push(self.start(Post { lane, user: *user })?);
            }
        }
        Ok(jobs)
    }

    fn start(&mut self, post: Post) -> Result<Job, Reason> {
        let lane = &self.lanes[post.lane];
        let number = self.counted.programs;
        self.counted.programs += 1;
        let errors = self.place.beside("errors").join(format!("{}-{number}", lane.name));
        let command = self.place.script(lane, post.user, self.door(post.lane, self.rounds), "work");
        Ok(Job::start(post, command, &self.heard, self.outages, errors)?)
    }

    /// Others take the places of those that died.
    fn restart_ended(&mut self, jobs: &mut Vec<Job>) -> Result<(), Reason> {
        self.nothing_wrong()?;
        for at in 0..jobs.len() {
            if jobs[at].has_ended()? {
                let job = jobs.swap_remove(at);
                let post = job.post;
                self.judge(job, false)?;
                jobs.push(self.start(post)?);
            }
        }
        Ok(())
    }

    /// Ends a job, and says whether it may have ended like that. Only a job with an injected fault may end before the end was asked for: a
    /// program of the store's user goes on when the daemon dies. Of another user's, a call under way may have failed then.
    fn judge(&mut self, job: Job, was_asked_to: bool) -> Result<(), Reason> {
        let Job { post, is_hurt, outages_before, .. } = job;
        let Ended { status, errors } = job.end()?;
        self.nothing_wrong()?;
        let met_outage = self.outages != outages_before;
        let is_excused = is_hurt
            || was_asked_to && status.success()
            || met_outage && post.user != User::Owner && may_be_of_outage(&errors)
            || met_outage && errors.contains("the daemon died while it started");
        if is_excused {
            return Ok(());
        }
        let what = format!("a program of user {:?} ended with {status}: {errors}", post.user);
        Err(Reason::Program { lane: self.lanes[post.lane].name, what })
    }

    fn nothing_wrong(&self) -> Result<(), Reason> {
        match lock(&self.heard).wrong.take() {
            Some((lane, violation)) => Err(Reason::Lane { lane: self.lanes[lane].name, violation }),
            None => Ok(()),
        }
    }

    fn some_time(&mut self, milliseconds: u64) -> Duration {
        Duration::from_micros(self.random.below(milliseconds * 1000))
    }

    fn sleep_stopped(&mut self) {
        std::thread::sleep(
            Duration::from_millis(STOPPED_MILLISECONDS) + self.some_time(STOPPED_MILLISECONDS),
        );
    }

    /// Says which lane it was about.
    fn inject(&mut self, fault: Fault, jobs: &mut Vec<Job>) -> Result<Option<&'static str>, Reason> {
        let victim = self.random.below(jobs.len() as u64) as usize;
        let chosen = self.random.next();
        let lane = self.lanes[jobs[victim].post.lane].name;
        match fault {
            Fault::KillProgram => jobs[victim].signal_one(Signal::KILL, chosen)?,
            Fault::KillGroup => jobs[victim].signal(Signal::KILL)?,
            Fault::StopProgram => {
                jobs[victim].signal_one(Signal::STOP, chosen)?;
                self.sleep_stopped();
                jobs[victim].signal(Signal::CONT)?;
            }
            Fault::StopGroup => {
                jobs[victim].signal(Signal::STOP)?;
                self.sleep_stopped();
                jobs[victim].signal(Signal::CONT)?;
            }
            Fault::StopGroupAndKillDaemon => {
                jobs[victim].signal(Signal::STOP)?;
                self.sleep_stopped();
                self.lose_daemon(SoakFolder::kill_daemon)?;
                self.sleep_stopped();
                jobs[victim].signal(Signal::CONT)?;
            }
            Fault::KillDaemon => self.lose_daemon(SoakFolder::kill_daemon)?,
            Fault::ReplaceDaemon => self.lose_daemon(SoakFolder::stop_daemon)?,
            Fault::KillDaemonTwice => self.lose_daemon(SoakFolder::kill_daemon).and_then(|()| {
                self.outages += 1;
                self.place.kill_daemon()?;
                let mut coming = self.place.begin_daemon()?;
                std::thread::sleep(self.some_time(COMING_UP_MILLISECONDS));
                coming.kill()?;
                coming.wait()?;
                self.place.ensure_daemon()
            })?,
            Fault::StopDaemon => {
                let stopped = self.place.signal_daemon(Signal::STOP)?;
                self.sleep_stopped();
                if let Some(daemon) = stopped {
                    rustix::process::kill_process(daemon, Signal::CONT).map_err(io::Error::from)?;
                }
            }
            Fault::KillEverything => {
                let posts: Vec<Post> = jobs.iter().map(|job| job.post).collect();
                self.outages += 1;
                let daemon_first = self.random.one_in(2);
                if daemon_first {
                    self.place.kill_daemon()?;
                }
                self.kill_all(std::mem::take(jobs))?;
                self.place.kill_daemon()?;
                // They find none; the first of the store's user brings one up.
                for post in posts {
                    jobs.push(self.start(post)?);
                }
                self.place.ensure_daemon()?;
                self.outages += 1;
            }
        }
        let is_about_one = matches!(
            fault,
            Fault::KillProgram
                | Fault::KillGroup
                | Fault::StopProgram
                | Fault::StopGroup
                | Fault::StopGroupAndKillDaemon
        );
        Ok(is_about_one.then_some(lane))
    }

    /// A lane's door: all its programs have the same, for they share mappings, and another one in the next round.
    fn door(&self, lane: usize, round: u64) -> Door {
        self.doors.of(lane as u64 + round)
    }

    fn ensure_mount(&mut self) -> io::Result<()> {
        if self.doors.has_mount() && self.mount.is_none() {
            self.mount = Some(self.place.mount()?);
        }
        Ok(())
    }

    /// Nobody works any more.
    fn end_mount(&mut self) -> io::Result<()> {
        self.mount.take().map_or(Ok(()), |server| self.place.unmount(server))
    }

    /// The daemon goes away as `how` says, and there is one again.
    fn lose_daemon(&mut self, how: impl FnOnce(&SoakFolder) -> io::Result<()>) -> io::Result<()> {
        self.outages += 1;
        how(&self.place)?;
        std::thread::sleep(self.some_time(AWAY_MILLISECONDS));
        self.place.ensure_daemon()
    }

    fn kill_all(&mut self, mut jobs: Vec<Job>) -> Result<(), Reason> {
        while !jobs.is_empty() {
            let mut job = jobs.swap_remove(self.random.below(jobs.len() as u64) as usize);
            // One that had failed before fails here.
            if !job.has_ended()? {
                job.signal(Signal::KILL)?;
            }
            self.judge(job, false)?;
        }
        Ok(())
    }

    /// Everybody comes to an end without being killed.
    fn end_kindly(&mut self, jobs: Vec<Job>) -> Result<(), Reason> {
        File::create(self.place.stop_file())?;
        let deadline = Instant::now() + PATIENCE;
        for job in jobs {
            while !job.has_ended()? {
                if Instant::now() > deadline {
                    let what = format!("a program of user {:?} does not come to an end", job.post.user);
                    return Err(Reason::Program { lane: self.lanes[job.post.lane].name, what });
                }
                std::thread::sleep(LOOK_EVERY);
            }
            self.judge(job, true)?;
        }
        Ok(std::fs::remove_file(self.place.stop_file())?)
    }

    /// Everything is read by new processes from a new daemon.
    fn read_again(&mut self) -> Result<(), Reason> {
        // One daemon or the other recovers the killed programs.
        if self.random.one_in(2) {
            self.place.fsck().map_err(Reason::Fsck)?;
        }
        self.place.ensure_daemon()?;
        self.ensure_mount()?;
        for (at, lane) in self.lanes.iter().enumerate() {
            // By the other door than the one they worked by, where there are two.
            let door = self.door(at, self.rounds + 1);
            let looked = told_in_time(&self.place, self.place.script(lane, lane.users[0], door, "look"));
            let said = looked.map_err(|what| Reason::Program { lane: lane.name, what })?;
            let compared = lock(&self.heard).manifest.compare(at, &said, lane.users.len());
            compared.map_err(|violation| Reason::Lane { lane: lane.name, violation })?;
        }
        self.end_mount()?;
        self.place.stop_daemon()?;
        self.place.fsck().map_err(Reason::Fsck)?;
        lock(&self.heard).manifest.save()?;
        Ok(self.place.ensure_daemon()?)
    }
}

/// Whether a program of another user may end like that when the daemon dies: of EIO, or without saying of what, as some do.
fn may_be_of_outage(errors: &str) -> bool {
    const OUTAGE: [&str; 3] = ["Input/output error", "I/O error", "is not served to others now"];
    const OTHERWISE: [&str; 9] = [
        "No such file or directory",
        "Permission denied",
        "Operation not permitted",
        "File exists",
        "Bad file descriptor",
        "No space left on device",
        "Invalid argument",
        "Directory not empty",
        "corrupt",
    ];
    let says = |words: &[&str]| words.iter().any(|words| errors.contains(words));
    says(&OUTAGE) || !says(&OTHERWISE)
}

fn can_be_had(lane: &Lane) -> bool {
    let has_users = rustix::process::geteuid().is_root() || lane.users.iter().all(|user| user.id().is_none());
    let has_module = |module: &str| {
        let mut command = Command::new("python3");
        command.env("PATH", SEARCH_PATH).args(["-c", &format!("import {module}")]);
        command.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    has_users && lane.needs.is_none_or(has_module)
}

/// The output of a program that is to succeed before long; otherwise its failure.
fn told_in_time(place: &SoakFolder, mut command: Command) -> Result<String, String> {
    let text = |error: io::Error| error.to_string();
    let (said, errors) = (place.beside("said"), place.beside("errors/looking"));
    command.stdin(Stdio::null()).stdout(File::create(&said).map_err(text)?);
    let mut child = command.stderr(File::create(&errors).map_err(text)?).spawn().map_err(text)?;
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        match child.try_wait().map_err(text)? {
            Some(status) => break status,
            None if Instant::now() > deadline => {
                child.kill().and_then(|()| child.wait()).map_err(text)?;
                return Err("reading it again does not come to an end".to_owned());
            }
            None => std::thread::sleep(LOOK_EVERY),
        }
    };
    if !status.success() {
        let errors = std::fs::read_to_string(&errors).map_err(text)?;
        return Err(format!("reading it again ended with {status}: {}", errors.trim()));
    }
    std::fs::read_to_string(&said).map_err(text)
}
