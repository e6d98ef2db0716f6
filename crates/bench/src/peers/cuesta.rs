//! Cuesta as a peer: a store on a tmpfs or on a disk, its daemon as our child, programs started by `cuesta run`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::{BenchError, Context};
use crate::figures::measure::{Figure, Outcome};
use crate::figures::predictions::Predictions;
use crate::peers::name::PeerName;
use crate::peers::peer::{OF_USER, Peer};
use crate::processes::child::{self, Guarded, Role};
use crate::processes::daemon::Daemon;
use crate::processes::user::User;
use crate::workload::daemons::fill::READY;
use crate::works::work::Work;

/// Where programs see the store.
const MOUNT: &str = "/cuesta";
/// The fast tier of a store that lies beside another one.
const NVM_OF_USER: &str = "1G";
const COMMAND_LIMIT: Duration = Duration::from_secs(30);
const STOP_LIMIT: Duration = Duration::from_secs(10);
const STATUS_INTERVAL: Duration = Duration::from_millis(1);
/// How long a writer goes on alone after its daemon was killed, so that the log is as full as it gets.
const ALONE: Duration = Duration::from_millis(300);

/// Where a store lies.
#[derive(Clone, Debug)]
pub struct Place {
    /// A directory that holds the store and the daemon's output.
    pub home: PathBuf,
    /// The size of its fast tier.
    pub nvm: String,
    /// The directory and the size of a tier below, if it has one.
    pub lower: Option<(PathBuf, String)>,
}

/// A store and its daemon.
#[derive(Debug)]
pub struct Cuesta {
    binary: PathBuf,
    own_executable: PathBuf,
    name: PeerName,
    place: Place,
    daemon: Option<Guarded>,
    /// The role that its CPUs belong to.
    role: Role,
    /// The user of the store, if not ours.
    user: Option<User>,
}

impl Cuesta {
    /// Makes a store there, of what its home is on, and serves it.
    pub fn new(
        name: PeerName,
        binary: PathBuf,
        own_executable: PathBuf,
        place: Place,
    ) -> Result<Self, BenchError> {
        let role = Role::Daemon;
        let mut cuesta = Cuesta { binary, own_executable, name, place, daemon: None, role, user: None };
        cuesta.make()?;
        Ok(cuesta)
    }

    /// Where the store is.
    pub fn store(&self) -> PathBuf {
        self.place.home.join("store")
    }

    /// The command's subcommand.
    pub fn tool(&self, subcommand: &str) -> Command {
        let mut command = Command::new(&self.binary);
        if let Some(user) = self.user {
            user.run(&mut command);
        }
        command.arg(subcommand);
        command
    }

    fn on_store(&self, subcommand: &str) -> Command {
        let mut command = self.tool(subcommand);
        command.arg(self.store());
        command
    }

    fn make(&mut self) -> Result<(), BenchError> {
        let mut mkfs = self.on_store("mkfs");
        let is_optimistic = self.name == PeerName::Optimistic;
        let is_on_disk = is_optimistic || matches!(self.name, PeerName::OnDisk | PeerName::MountDisk);
        let medium = if is_on_disk { "block" } else { "memory" };
        mkfs.args(["--medium", medium, "--nvm", &self.place.nvm]);
        if let Some((at, bytes)) = &self.place.lower {
            mkfs.arg("--tier").arg(format!("disk={}:{bytes}", at.display()));
        }
        if is_optimistic {
            mkfs.args(["--durability", "optimistic"]);
        }
        child::run(&mut mkfs, "cuesta mkfs", COMMAND_LIMIT)?;
        self.serve()
    }

    /// Starts the daemon and waits until it answers.
    fn serve(&mut self) -> Result<(), BenchError> {
        let output =
            File::create(self.place.home.join("daemon-output")).context("making the daemon's output")?;
        let errors = output.try_clone().context("making the daemon's output")?;
        let mut serve = self.on_store("serve");
        serve.stdin(Stdio::null()).stdout(output).stderr(errors);
        let deadline = Instant::now() + COMMAND_LIMIT;
        self.daemon = Some(Guarded::spawn(&mut serve, self.role)?);
        loop {
            let daemon = self.daemon.as_mut().expect("it was started");
            if let Some(status) = daemon.ended().context("watching the daemon")? {
                child::check_interrupted()?;
                return Err(BenchError::Child {
                    what: "cuesta serve".to_owned(),
                    status: status.to_string(),
                    words: last_line(&self.place.home.join("daemon-output")),
                });
            }
            match child::run(&mut self.on_store("status"), "cuesta status", COMMAND_LIMIT) {
                Ok(_) => return Ok(()),
                Err(BenchError::Child { .. }) if Instant::now() < deadline => {}
                Err(BenchError::Child { .. }) => {
                    return Err(BenchError::TimedOut {
                        what: "cuesta serve".to_owned(),
                        after: COMMAND_LIMIT,
                    });
                }
                Err(error) => return Err(error),
            }
            std::thread::sleep(STATUS_INTERVAL);
        }
    }

    /// A new store of that user's, served by that user.
    fn store_of(&self, user: User) -> Result<Cuesta, BenchError> {
        let home = self.place.home.join(OF_USER);
        if home.exists() {
            std::fs::remove_dir_all(&home).context("removing an older store of another user")?;
        }
        user.make_dir(&home)?;
        let mut store = Cuesta {
            binary: self.binary.clone(),
            own_executable: self.own_executable.clone(),
            name: self.name,
            place: Place { home, nvm: NVM_OF_USER.to_owned(), lower: None },
            daemon: None,
            role: self.role,
            user: Some(user),
        };
        store.make()?;
        Ok(store)
    }

    /// Ends the daemon: politely, then not.
    fn stop(&mut self) {
        let Some(mut daemon) = self.daemon.take() else { return };
        let running = matches!(daemon.ended(), Ok(None));
        if running && child::run(&mut self.on_store("stop"), "cuesta stop", STOP_LIMIT).is_ok() {
            let deadline = Instant::now() + STOP_LIMIT;
            while matches!(daemon.ended(), Ok(None)) && Instant::now() < deadline {
                std::thread::sleep(STATUS_INTERVAL);
            }
        }
    }

    fn kill_with_full_log(&mut self, work: &Work, filling: Duration) -> Result<Outcome, BenchError> {
        let dir = self.dir(work.name);
        let mut writer = self.command(&self.own_executable);
        writer.args(["workload", work.name, "--dir"]).arg(&dir);
        writer.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut writer = Guarded::spawn(&mut writer, Role::Application)?;
        child::wait_for_line(&mut writer, READY, COMMAND_LIMIT)?;
        std::thread::sleep(filling);
        if let Some(mut daemon) = self.daemon.take() {
            daemon.kill();
        }
        std::thread::sleep(ALONE);
        writer.kill();
        child::check_interrupted()?;

        let start = Instant::now();
        self.serve()?;
        let seconds = start.elapsed().as_secs_f64();

        let mut remove = self.command(Path::new("/bin/rm"));
        child::run(remove.arg("-r").arg(&dir), "rm of what was recovered", COMMAND_LIMIT)?;
        Ok(Outcome::of(Figure::Recovery, seconds))
    }
}

impl Peer for Cuesta {
    fn name(&self) -> PeerName {
        self.name
    }

    fn dir(&self, name: &str) -> PathBuf {
        Path::new(MOUNT).join(name)
    }

    fn on_disk(&self) -> Option<&Path> {
        (self.name == PeerName::OnDisk).then_some(&*self.place.home)
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = self.tool("run");
        command.arg("--store").arg(self.store()).args(["--at", MOUNT, "--"]).arg(program);
        command
    }

    fn ensure_ready(&mut self, daemon: Role) -> Result<(), BenchError> {
        if std::mem::replace(&mut self.role, daemon) != daemon {
            self.stop();
        }
        let running = match &mut self.daemon {
            Some(daemon) => daemon.ended().context("watching the daemon")?.is_none(),
            None => false,
        };
        if running { Ok(()) } else { self.serve() }
    }

    fn renew(&mut self) -> Result<(), BenchError> {
        self.stop();
        let lower = self.place.lower.iter().map(|(at, _)| at.clone());
        for at in lower.chain([self.store()]) {
            std::fs::remove_dir_all(at).context("removing a store that failed")?;
        }
        self.make()
    }

    fn of_user(&self, user: User) -> Option<Result<Box<dyn Peer>, BenchError>> {
        Some(self.store_of(user).map(|store| Box::new(store) as Box<dyn Peer>))
    }

    fn daemon(&self) -> Option<Daemon> {
        self.daemon.as_ref().map(|daemon| Daemon::new(daemon.id()))
    }

    fn predictions(&self) -> Option<Result<Predictions, BenchError>> {
        self.place.lower.as_ref()?;
        let status = child::run(self.on_store("status").arg("--json"), "cuesta status", COMMAND_LIMIT);
        Some(status.and_then(|json| Predictions::of_status(&json).context("reading the status")))
    }

    fn recover(&mut self, work: &Work, filling: Duration) -> Option<Result<Outcome, BenchError>> {
        Some(self.kill_with_full_log(work, filling))
    }
}

impl Drop for Cuesta {
    fn drop(&mut self) {
        self.stop();
    }
}

fn last_line(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("(said nothing)").to_owned()
}
