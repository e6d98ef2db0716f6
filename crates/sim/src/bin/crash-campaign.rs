//! Runs the whole crash campaign, in several processes, telling how far it is and what it covered.
//!
//! The recorder is the process's, so a process explores one case at a time; this one starts as many of itself as it
//! is told to and deals the cases out to them.

use clap::Parser;
use cuesta_sim::explorer::campaign::{Case, Part};
use cuesta_sim::explorer::{Coverage, Memory};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// How often progress is shown.
const SHOW_EVERY: Duration = Duration::from_secs(10);

#[derive(Parser)]
#[command(about = "Crashes the store at every persist point of thousands of short runs, and has it recover")]
struct Arguments {
    /// Processes at once [default: one for each processor]
    #[arg(long)]
    jobs: Option<usize>,
    /// Only this part (may be given more than once)
    #[arg(long)]
    part: Vec<Part>,
    /// Draws what is drawn; repeats a campaign
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where to note what is done: a campaign that was interrupted goes on from there
    #[arg(long)]
    journal: Option<PathBuf>,
    /// Only this case of the part
    #[arg(long, requires = "part")]
    case: Option<usize>,
    /// One process's share, as `2/4`: what the campaign gives its processes
    #[arg(long, hide = true)]
    share: Option<String>,
}

/// A line of the journal, and of what a process says: a case that is done.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Done {
    seed: u64,
    part: Part,
    case: usize,
    coverage: Coverage,
    milliseconds: u64,
}

type Key = (Part, usize);

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match &arguments.share {
        Some(share) => work(&arguments, share),
        None => campaign(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("crash-campaign: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn cases(arguments: &Arguments) -> Vec<Case> {
    let parts = if arguments.part.is_empty() { Part::ALL.to_vec() } else { arguments.part.clone() };
    let cases = parts.into_iter().flat_map(|part| part.cases(arguments.seed));
    cases.filter(|case| arguments.case.is_none_or(|only| only == case.number())).collect()
}

/// The journal's lines about this campaign.
fn journalled(arguments: &Arguments) -> Result<Vec<Done>, String> {
    let Some(path) = &arguments.journal else { return Ok(Vec::new()) };
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(failed("read", path))?,
    };
    // A line that was cut off by a kill is a case to run again.
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Done>(line).ok());
    Ok(lines.filter(|done| done.seed == arguments.seed).collect())
}

fn failed(action: &'static str, path: &Path) -> impl Fn(std::io::Error) -> String {
    let path = path.display().to_string();
    move |error| format!("cannot {action} {path}: {error}")
}

/// Explores one process's share of what is left, a line on standard output for each case.
fn work(arguments: &Arguments, share: &str) -> Result<(), String> {
    let (number, of) = share.split_once('/').ok_or("a share is a number, a slash, a number")?;
    let parse = |text: &str| text.parse::<usize>().map_err(|error| format!("share {text}: {error}"));
    let (number, of) = (parse(number)?, parse(of)?.max(1));
    let done: BTreeSet<Key> = journalled(arguments)?.iter().map(|done| (done.part, done.case)).collect();
    let cases = cases(arguments);
    let families = cases.chunk_by(|one, other| one.family() == other.family());
    let share = families.skip(number).step_by(of).flatten();
    let mut memory = Memory::default();
    let mut failures = 0;
    for case in share.filter(|case| !done.contains(&(case.part(), case.number()))) {
        let started = Instant::now();
        let coverage = match case.run(arguments.seed, &mut memory) {
            Ok(coverage) => coverage,
            Err(failure) => {
                eprintln!("{case}: {failure}");
                failures += 1;
                continue;
            }
        };
        let done = Done {
            seed: arguments.seed,
            part: case.part(),
            case: case.number(),
            coverage,
            milliseconds: started.elapsed().as_millis() as u64,
        };
        let line = serde_json::to_string(&done).map_err(|error| error.to_string())?;
        println!("{line}");
    }
    if failures == 0 { Ok(()) } else { Err(format!("{failures} cases failed")) }
}

/// The processes; killed when it goes out of scope before they ended.
struct Workers(Vec<Child>);

impl Drop for Workers {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // One that ended is gone already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn campaign(arguments: &Arguments) -> Result<(), String> {
    let all = cases(arguments);
    let mut tally = Tally::new(&all);
    journalled(arguments)?.into_iter().for_each(|done| tally.add(&done));
    if tally.done > 0 {
        println!("{} cases are in the journal", tally.done);
    }
    let (said, says) = channel();
    let jobs = arguments.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let mut workers = Workers(Vec::new());
    for number in 0..jobs.max(1) {
        workers.0.push(start(arguments, number, jobs.max(1), said.clone())?);
    }
    drop(said);
    let told = listen(arguments, &says, &mut tally);
    told?;
    for worker in &mut workers.0 {
        worker.wait().map_err(|error| error.to_string())?;
    }
    tally.show();
    match tally.total.complete() && tally.done == all.len() {
        true => Ok(()),
        false => Err(format!("{} of {} cases are done", tally.done, all.len())),
    }
}

/// Starts a process and has a thread hand on what it says.
fn start(arguments: &Arguments, number: usize, of: usize, said: Sender<String>) -> Result<Child, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.args(["--seed", &arguments.seed.to_string(), "--share", &format!("{number}/{of}")]);
    for part in &arguments.part {
        command.args(["--part", &part.key()]);
    }
    if let Some(case) = arguments.case {
        command.args(["--case", &case.to_string()]);
    }
    if let Some(journal) = &arguments.journal {
        command.arg("--journal").arg(journal);
    }
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
    let output = child.stdout.take().ok_or("a process without output")?;
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if said.send(line).is_err() {
                break;
            }
        }
    });
    Ok(child)
}

/// Takes in what the processes say until all have ended.
fn listen(arguments: &Arguments, says: &Receiver<String>, tally: &mut Tally) -> Result<(), String> {
    let mut journal = match &arguments.journal {
        None => None,
        Some(path) => {
            let file = std::fs::File::options().create(true).append(true).open(path);
            Some((file.map_err(failed("open", path))?, path))
        }
    };
    let mut shown = Instant::now();
    loop {
        match says.recv_timeout(SHOW_EVERY) {
            Ok(line) => {
                let done: Done =
                    serde_json::from_str(&line).map_err(|_| format!("a process said {line:?}"))?;
                tally.add(&done);
                if let Some((file, path)) = &mut journal {
                    writeln!(file, "{line}").map_err(failed("write", path))?;
                }
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if shown.elapsed() >= SHOW_EVERY {
            shown = Instant::now();
            println!(
                "{} of {} cases, {:.0} s",
                tally.done,
                tally.cases,
                tally.started.elapsed().as_secs_f64()
            );
        }
    }
}

/// The coverage so far.
struct Tally {
    started: Instant,
    cases: usize,
    done: usize,
    parts: BTreeMap<Part, PartTally>,
    total: Coverage,
}

#[derive(Default)]
struct PartTally {
    cases: usize,
    done: usize,
    coverage: Coverage,
    milliseconds: u64,
}

impl Tally {
    fn new(all: &[Case]) -> Tally {
        let mut parts: BTreeMap<Part, PartTally> = BTreeMap::new();
        for case in all {
            parts.entry(case.part()).or_default().cases += 1;
        }
        let (started, total) = (Instant::now(), Coverage::default());
        Tally { started, cases: all.len(), done: 0, parts, total }
    }

    fn add(&mut self, done: &Done) {
        let Some(part) = self.parts.get_mut(&done.part) else { return };
        part.done += 1;
        part.coverage.add(done.coverage);
        part.milliseconds += done.milliseconds;
        self.done += 1;
        self.total.add(done.coverage);
    }

    fn show(&self) {
        for (part, PartTally { cases, done, coverage, milliseconds }) in &self.parts {
            let seconds = *milliseconds as f64 / 1000.0;
            println!("{}: {done} of {cases} cases, {coverage}, {seconds:.0} s", part.name());
        }
        println!(
            "all: {} of {} cases, {}, in {:.0} s",
            self.done,
            self.cases,
            self.total,
            self.started.elapsed().as_secs_f64()
        );
    }
}
