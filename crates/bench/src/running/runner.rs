//! The run: each work on all peers in turn, round after round (A B C D A B C D …), so that whatever else goes
//! on on the machine meets all of them alike.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::environment::disk;
use crate::environment::scratch::Scratch;
use crate::error::{BenchError, Context};
use crate::figures::measure::{Figure, Outcome};
use crate::peers::name::PeerName;
use crate::peers::peer::Peer;
use crate::processes::child::{self, Guarded, Role};
use crate::processes::daemon::Daemon;
use crate::running::fio;
use crate::workload::daemons::at_rest::AT_REST;
use crate::works::program::Program;
use crate::works::work::{ROUNDS_QUICK, Work};

/// Beyond its measured time, a work may take this long to prepare, verify and tidy up.
const SLACK: Duration = Duration::from_secs(120);
const LAUNCH_LIMIT: Duration = Duration::from_secs(30);

/// How to run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Shorter phases, fewer rounds.
    pub quick: bool,
    /// The works were asked for by their names.
    pub is_named: bool,
    /// Another number of rounds than the work asks for.
    pub rounds: Option<u32>,
    /// fio, if it shall check our figures.
    pub fio: Option<PathBuf>,
    /// A directory on a tmpfs, for works on files that are not the peer's.
    pub elsewhere: PathBuf,
    /// Before each work the memory it will use is touched, up to so much.
    pub touched_bytes_max: u64,
    /// Our own executable.
    pub own_executable: PathBuf,
}

impl Settings {
    /// How long the measured phases of `work` go on.
    pub fn time(&self, work: &Work) -> Duration {
        Duration::from_secs_f64(if self.quick { work.seconds_quick } else { work.seconds })
    }

    fn rounds(&self, work: &Work) -> u32 {
        self.rounds.unwrap_or(if self.quick { work.rounds.min(ROUNDS_QUICK) } else { work.rounds })
    }
}

/// A peer's outcomes for a work.
#[derive(Debug, Default)]
pub struct PeerResult {
    /// One outcome a round.
    pub outcomes: Vec<Outcome>,
    /// Why there are no more.
    pub failure: Option<String>,
}

/// What all peers gave for a work.
#[derive(Debug)]
pub struct Measured {
    /// The work.
    pub work: &'static Work,
    /// By peer; a peer that the work does not concern is absent.
    pub peers: BTreeMap<PeerName, PeerResult>,
    /// Why it was run on none.
    pub skipped: Option<String>,
}

/// Runs all `works`. Fails only if interrupted, or for want of memory; a peer that fails a work is left out of that work.
pub fn run(
    works: &[&'static Work],
    peers: &mut [Box<dyn Peer>],
    settings: &Settings,
) -> Result<Vec<Measured>, BenchError> {
    let steps: u64 = works.iter().map(|work| u64::from(settings.rounds(work)) * peers.len() as u64).sum();
    let progress = ProgressBar::new(steps).with_style(
        ProgressStyle::with_template("{elapsed_precise} [{bar:30}] {pos}/{len} {wide_msg}")
            .expect("a constant template is valid"),
    );
    let mut all = Vec::new();
    for &work in works {
        let mut measured = Measured { work, peers: BTreeMap::new(), skipped: work.program.lacks() };
        if let Some(reason) = &measured.skipped {
            progress.println(format!("cuesta-bench: {} skipped: {reason}", work.name));
            progress.inc(u64::from(settings.rounds(work)) * peers.len() as u64);
            all.push(measured);
            continue;
        }
        progress.set_message("touching memory");
        let bytes = work.program.memory_max().min(settings.touched_bytes_max);
        Scratch::touch_memory(&settings.elsewhere, bytes)?;
        for round in 0..settings.rounds(work) {
            for peer in peers.iter_mut() {
                child::check_interrupted()?;
                progress.set_message(format!("{} on {}", work.name, peer.name().as_str()));
                step(work, round, peer.as_mut(), settings, &mut measured)?;
                progress.inc(1);
            }
        }
        if progress.is_hidden() {
            eprintln!("{}", one_line(&measured));
        }
        all.push(measured);
    }
    progress.finish_and_clear();
    Ok(all)
}

/// By work: the peers that failed it, and why. `private` is a path that must not show.
pub fn failures(measured: &[Measured], private: &str) -> BTreeMap<&'static str, BTreeMap<PeerName, String>> {
    let of_work = |one: &Measured| {
        let failures = one.peers.iter().filter_map(|(&peer, result)| {
            Some((peer, result.failure.as_ref()?.replace(private, "(scratch)")))
        });
        (one.work.name, failures.collect::<BTreeMap<_, _>>())
    };
    measured.iter().map(of_work).filter(|(_, peers)| !peers.is_empty()).collect()
}

/// By work: why it was run on no peer.
pub fn skipped(measured: &[Measured]) -> BTreeMap<&'static str, String> {
    measured.iter().filter_map(|one| Some((one.work.name, one.skipped.clone()?))).collect()
}

fn step(
    work: &'static Work,
    round: u32,
    peer: &mut dyn Peer,
    settings: &Settings,
    measured: &mut Measured,
) -> Result<(), BenchError> {
    let failed_before = measured.peers.get(&peer.name()).is_some_and(|result| result.failure.is_some());
    if failed_before || !work.concerns(peer.name(), settings.is_named) {
        return Ok(());
    }
    match once(work, round, peer, settings) {
        None => Ok(()),
        Some(Ok(outcome)) => {
            measured.peers.entry(peer.name()).or_default().outcomes.push(outcome);
            Ok(())
        }
        Some(Err(BenchError::Interrupted)) => Err(BenchError::Interrupted),
        Some(Err(error)) => {
            let renewed = peer.renew().err().map(|error| format!("; and it could not be renewed: {error}"));
            child::check_interrupted()?;
            let failure = format!("{error}{}", renewed.unwrap_or_default());
            measured.peers.entry(peer.name()).or_default().failure = Some(failure);
            Ok(())
        }
    }
}

/// One run of a work; `None` if it means nothing on that peer.
fn once(
    work: &Work,
    round: u32,
    peer: &mut dyn Peer,
    settings: &Settings,
) -> Option<Result<Outcome, BenchError>> {
    let daemon = if work.program.is_of_several() { Role::Applications } else { Role::Daemon };
    if let Err(error) = peer.ensure_ready(daemon) {
        return Some(Err(error));
    }
    // Writes that the peer before left to the kernel are not this one's burden.
    rustix::fs::sync();
    match work.program {
        Program::Recovery(_) => peer.recover(work, settings.time(work)),
        Program::Launch { count } => Some(launch(peer, count)),
        Program::AtRest(_) => peer.daemon().map(|daemon| at_rest(work, &daemon, peer, settings)),
        _ => match work.program.user() {
            None => Some(run_program(work, round, peer, settings)),
            Some(user) => {
                let of_user = peer.of_user(user)?;
                Some(of_user.and_then(|mut of_user| run_program(work, round, of_user.as_mut(), settings)))
            }
        },
    }
}

fn run_program(
    work: &Work,
    round: u32,
    peer: &mut dyn Peer,
    settings: &Settings,
) -> Result<Outcome, BenchError> {
    let name = format!("{}-{round}", work.name);
    let dir = if work.program.works_on_peer() { peer.dir(&name) } else { settings.elsewhere.join(&name) };
    let mut command = peer.command(&settings.own_executable);
    command.args(["workload", work.name, "--dir"]).arg(&dir);
    if settings.quick {
        command.arg("--quick");
    }
    if let Some(counters) = peer.on_disk().and_then(disk::counters) {
        command.arg("--disk-counters").arg(counters);
    }
    if let Some(daemon) = peer.daemon() {
        command.arg("--daemon").arg(daemon.process());
    }
    let predicted_before = peer.predictions().transpose()?;
    let time = settings.time(work);
    let role = if work.program.is_of_several() { Role::Applications } else { Role::Application };
    let output = child::run_as(role, &mut command, work.name, SLACK + 10 * time)?;
    let line = output.lines().last().unwrap_or_default();
    let outcome: Outcome = serde_json::from_str(line).context(format!("reading what {} said", work.name))?;
    let outcome = match peer.predictions().transpose()?.zip(predicted_before) {
        Some((predicted, before)) => predicted.since(before).told_in(outcome),
        None => outcome,
    };
    match settings.fio.as_deref().and_then(|fio| fio::rate(fio, peer, work, time)) {
        Some(rate) => Ok(outcome.with(Figure::FioRate, rate?)),
        None => Ok(outcome),
    }
}

/// Has the programs of a work come to rest, and measures the daemon beside them. The store is made anew: the run does not wait
/// until they have ended, and until all they made is removed.
fn at_rest(
    work: &Work,
    daemon: &Daemon,
    peer: &mut dyn Peer,
    settings: &Settings,
) -> Result<Outcome, BenchError> {
    let mut command = peer.command(&settings.own_executable);
    command.args(["workload", work.name, "--dir"]).arg(peer.dir(work.name));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut programs = Guarded::spawn(&mut command, Role::Applications)?;
    child::wait_for_line(&mut programs, AT_REST, SLACK)?;
    let outcome = daemon.at_rest(settings.time(work))?;
    programs.kill();
    child::check_interrupted()?;
    peer.renew()?;
    Ok(outcome)
}

/// Starts /bin/true from outside, `count` times after a first one; the mean, in ms.
fn launch(peer: &dyn Peer, count: u32) -> Result<Outcome, BenchError> {
    let start_one = || child::run(&mut peer.command(Path::new("/bin/true")), "/bin/true", LAUNCH_LIMIT);
    start_one()?;
    let start = Instant::now();
    for _ in 0..count {
        start_one()?;
    }
    let mean_ms = start.elapsed().as_secs_f64() * 1e3 / f64::from(count);
    Ok(Outcome::of(Figure::Start, mean_ms))
}

fn one_line(measured: &Measured) -> String {
    let peers = measured.peers.iter().map(|(name, result)| match &result.failure {
        Some(failure) => format!("{}: {failure}", name.as_str()),
        None => format!("{}: {} rounds", name.as_str(), result.outcomes.len()),
    });
    format!("{}: {}", measured.work.name, peers.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::kernel::Kernel;
    use crate::works::all;

    /// Peers whose programs always fail, to see that the run goes on.
    struct Broken {
        renewed: u32,
    }

    impl Peer for Broken {
        fn name(&self) -> PeerName {
            PeerName::Cuesta
        }
        fn dir(&self, name: &str) -> PathBuf {
            PathBuf::from(name)
        }
        fn command(&self, _: &Path) -> std::process::Command {
            std::process::Command::new("/bin/false")
        }
        fn ensure_ready(&mut self, _daemon: Role) -> Result<(), BenchError> {
            assert_eq!(self.renewed, 0, "a peer that failed a work is left out of it");
            Ok(())
        }
        fn renew(&mut self) -> Result<(), BenchError> {
            self.renewed += 1;
            Ok(())
        }
        fn daemon(&self) -> Option<Daemon> {
            None
        }
        fn recover(&mut self, _: &Work, _: Duration) -> Option<Result<Outcome, BenchError>> {
            None
        }
    }

    #[test]
    fn a_failing_peer_does_not_end_the_run() {
        let dir = tempfile::tempdir().unwrap();
        let settings = Settings {
            quick: true,
            is_named: false,
            rounds: Some(2),
            fio: None,
            elsewhere: dir.path().to_owned(),
            touched_bytes_max: 0,
            own_executable: PathBuf::from("/bin/false"),
        };
        let mut peers: Vec<Box<dyn Peer>> = vec![
            Box::new(Broken { renewed: 0 }),
            Box::new(Kernel::new(PeerName::Tmpfs, dir.path().to_owned())),
        ];
        let launch = all::find("launch").unwrap();
        let measured = run(&[launch], &mut peers, &settings).unwrap();
        let peers = &measured[0].peers;
        assert!(peers[&PeerName::Cuesta].failure.is_some());
        assert_eq!(peers[&PeerName::Cuesta].outcomes.len(), 0);
        assert_eq!(peers[&PeerName::Tmpfs].outcomes.len(), 2);
    }
}
