//! The stores that are damaged, their model, and the command as it is installed.

use super::content::{Readings, Stage};
use super::part::Part;
use crate::programs::processes::{end, process};
use crate::programs::stores;
use rustix::process::Signal;
use std::fs;
use std::io::{self, BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Where the store shows up in programs.
const ROOT: &str = "/cuesta";
/// A command that takes longer hangs.
const SECONDS_MAX: &str = "60";
/// A folder that is on a disk wherever there is one.
const DISK: &str = "/var/tmp";
/// The status that a shell gives to a command that was killed.
const KILLED: i32 = 128;
/// The store's folder of files.
const TIER: &str = "nvm";

/// The command under test and this campaign's own program, as they were built.
#[derive(Clone, Debug)]
pub struct Installed {
    /// `cuesta`; the library lies beside it.
    pub cuesta: PathBuf,
    /// `damage-campaign`.
    pub campaign: PathBuf,
    /// Where copies are damaged, if not in memory.
    pub stores: Option<PathBuf>,
}

/// How the programs and the daemon ended before the damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// Everything is digested.
    Stopped,
    /// The daemon and a program were killed: what that program wrote and synced lies in its log.
    Killed,
}

impl Before {
    fn name(self) -> &'static str {
        match self {
            Before::Stopped => "stopped",
            Before::Killed => "killed",
        }
    }
}

/// A command that ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) status: i32,
    pub(super) text: String,
    pub(super) errors: String,
    /// A forbidden outcome of the command, if there was one.
    pub(super) crime: Option<String>,
}

fn ended(what: &str, output: &Output) -> Ended {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let status = output.status.code().unwrap_or(KILLED);
    let crime = if output.status.signal().is_some() || status >= KILLED {
        Some(format!("{what} was killed, or hangs ({}): {errors}", output.status))
    } else if errors.contains("panicked") {
        Some(format!("{what} panicked: {errors}"))
    } else {
        None
    };
    Ended { status, text, errors, crime }
}

/// A folder with the stores to damage.
#[derive(Debug)]
pub(super) struct DamageFolder {
    installed: Installed,
    folder: tempfile::TempDir,
    /// Where the store is made before it is copied: a store of medium `block` is made on no other place.
    disk: tempfile::TempDir,
    seed: u64,
}

impl DamageFolder {
    /// Makes the stores and the models.
    pub(super) fn new(installed: Installed, seed: u64) -> io::Result<DamageFolder> {
        let folder = stores::folder(installed.stores.as_deref(), "cuesta-damage-")?;
        let disk = stores::folder(Some(Path::new(DISK)), "cuesta-damage-")?;
        let place = DamageFolder { installed, folder, disk, seed };
        let store = place.store();
        let mut mkfs = Command::new(&place.installed.cuesta);
        mkfs.args(["mkfs", "--medium", "block", "--nvm", "24M"]).arg(&store);
        told(&mut mkfs)?;
        // Entries in a log stay there.
        let configuration = store.join("cuesta.toml");
        let text = fs::read_to_string(&configuration)? + "digest_idle_ms = 600000\n";
        fs::write(&configuration, text)?;
        for stage in [Stage::Older, Stage::Newer] {
            told(place.run(&store).args(place.fill(Path::new(ROOT), stage)))?;
            told(place.cuesta("stop").arg(&store))?;
            let copy = if stage == Stage::Older { "old" } else { Before::Stopped.name() };
            place.copy(&store, &place.beside(copy))?;
        }
        place.fill_and_kill(&store)?;
        place.copy(&store, &place.beside(Before::Killed.name()))?;
        let model = place.beside("model");
        fs::create_dir(&model)?;
        for stage in Stage::ALL {
            if stage == Stage::Last {
                place.copy(&model, &place.model(Before::Stopped))?;
            }
            let mut fill = Command::new(&place.installed.campaign);
            told(fill.args(&place.fill(&model, stage)[1..]))?;
        }
        fs::rename(&model, place.model(Before::Killed))?;
        Ok(place)
    }

    fn store(&self) -> PathBuf {
        self.disk.path().join("store")
    }

    fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn model(&self, before: Before) -> PathBuf {
        self.beside(&format!("model-{}", before.name()))
    }

    /// The readings that a store must give.
    pub(super) fn expected(&self, before: Before) -> Readings {
        Readings::of(&self.model(before))
    }

    /// The arguments that make a stage of the content.
    fn fill(&self, root: &Path, stage: Stage) -> Vec<String> {
        let program = self.installed.campaign.display().to_string();
        let root = root.display().to_string();
        vec![program, "fill".into(), root, self.seed.to_string(), stage.name().into()]
    }

    /// The last stage by a program that is killed with the daemon once it has synced everything.
    fn fill_and_kill(&self, store: &Path) -> io::Result<()> {
        let mut command = self.run(store);
        command.args(self.fill(Path::new(ROOT), Stage::Last)).arg("--stay");
        let mut program = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        if let Some(output) = program.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        let status = self.cuesta("status").arg("--json").arg(store).output()?;
        let status: serde_json::Value = serde_json::from_slice(&status.stdout)?;
        let daemon = process(&status["pid"]).ok_or_else(|| io::Error::other("there is no daemon"))?;
        end(daemon, Some(Signal::KILL))?;
        program.kill()?;
        program.wait()?;
        if line.trim() == "filled" { Ok(()) } else { Err(io::Error::other("the content was not made")) }
    }

    /// Copies a folder; zeros take no room.
    fn copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        told(Command::new("cp").args(["-a", "--sparse=always", "--"]).arg(from).arg(to)).map(drop)
    }

    /// A new copy of a store to damage.
    pub(super) fn trial(&self, before: Before) -> io::Result<PathBuf> {
        let (store, trial) = (self.beside(before.name()), self.beside("trial"));
        self.remove_trial()?;
        self.copy(&store, &trial)?;
        Ok(trial)
    }

    /// Leaves everything where it is, for people to look at.
    pub(super) fn keep(mut self) -> io::Result<PathBuf> {
        self.folder.disable_cleanup(true);
        Ok(self.beside("trial"))
    }

    fn remove_trial(&self) -> io::Result<()> {
        match fs::remove_dir_all(self.beside("trial")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Where a file of the tier lies in an earlier copy of the store, if it was there then.
    pub(super) fn older(&self, file: &str) -> Option<PathBuf> {
        let path = self.beside("old").join(TIER).join(file);
        path.exists().then_some(path)
    }

    /// The files of a store by what they are for, in order.
    pub(super) fn files(&self, before: Before) -> io::Result<Vec<(Part, String)>> {
        let tier = self.beside(before.name()).join(TIER);
        let (mut files, mut folders) = (Vec::new(), vec![String::new()]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(tier.join(&folder))? {
                let entry = entry?;
                let name = format!("{folder}{}", entry.file_name().to_string_lossy());
                let metadata = entry.metadata()?;
                if metadata.is_dir() {
                    folders.push(name + "/");
                } else if metadata.is_file()
                    && let Some(part) = Part::of(&name)
                {
                    files.push((part, name));
                }
            }
        }
        files.sort();
        Ok(files)
    }

    /// Where a file of the tier of a trial lies.
    pub(super) fn tier(trial: &Path) -> PathBuf {
        trial.join(TIER)
    }

    fn cuesta(&self, action: &str) -> Command {
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", SECONDS_MAX]).arg(&self.installed.cuesta).arg(action);
        command.stdin(Stdio::null()).env_remove("CUESTA_STORE").env("RUST_BACKTRACE", "0");
        command
    }

    fn run(&self, store: &Path) -> Command {
        let mut command = self.cuesta("run");
        command.arg("--store").arg(store).args(["--at", ROOT, "--"]);
        command
    }

    /// `cuesta ACTION … STORE`
    pub(super) fn operate(&self, trial: &Path, action: &str, options: &[&str]) -> io::Result<Ended> {
        let output = self.cuesta(action).args(options).arg(trial).output()?;
        Ok(ended(&format!("cuesta {action}"), &output))
    }

    /// How everything reads to a program; none: it did not start.
    pub(super) fn read(&self, trial: &Path) -> io::Result<(Ended, Option<Readings>)> {
        let output = self.run(trial).arg(&self.installed.campaign).args(["look", ROOT]).output()?;
        let ended = ended("the program", &output);
        let readings = serde_json::from_str(&ended.text).ok();
        Ok((ended, readings))
    }
}

/// Runs a command to its end, which is success.
fn told(command: &mut Command) -> io::Result<String> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{command:?}: {}: {errors}", output.status)))
}

impl Drop for DamageFolder {
    fn drop(&mut self) {
        for store in [self.store(), self.beside("trial")].iter().filter(|store| store.exists()) {
            // One without a daemon has nothing to stop.
            let _ = self.cuesta("stop").arg(store).output();
        }
    }
}
