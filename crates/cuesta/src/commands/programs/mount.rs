//! `cuesta mount`: the FUSE door, in a process of its own.

use crate::commands::daemons::serve::allow_descriptors;
use crate::commands::programs::durability::DurabilityArguments;
use crate::daemons::next_daemon::NextDaemon;
use crate::daemons::own_program;
use crate::daemons::start::{self, Outcome, Parent, Told};
use crate::messages::failure::{Failure, WRONG_USAGE};
use crate::messages::log;
use crate::messages::output;
use crate::stores::store::Store;
use cuesta_format::InodeNumber;
use cuesta_format::durability::{DurabilityWish, check_milliseconds};
use cuesta_format::geometry::{SOCKET_FILE, USERS_FOLDER, USERS_SOCKET_FILE};
use cuesta_fuse::{Device, Life, MountError, Mounted, Options, Server};
use cuesta_libfs::Client;
use cuesta_sharedfs::trust::TrustedFolder;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::ffi::OsStr;
use std::os::fd::RawFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What `cuesta status` calls the session.
const PROGRAM: &str = "(mount)";
/// The option that leaves the next daemon to others.
const NO_START: &str = "nostart";
/// The options that say when calls by the mount that ask for durability return.
const DURABILITY: &str = "durability=";
const OPTIMISTIC_MS_MAX: &str = "optimistic_ms_max=";
/// The option that changes those of a mount that is there.
const REMOUNT: &str = "remount";

#[derive(Debug, clap::Args)]
#[command(
    long_about = "Mount a store at a directory.\n\n\
                  Every program sees the files there, by way of the kernel (FUSE); programs under `cuesta run` see the \
                  same files, faster, at the same time. A daemon is started if none serves the store. The mount \
                  lasts until `cuesta unmount`. When the daemon ends, the first call by it that needs one starts the next: \
                  to stop a store for good, unmount it first. With -o nostart such calls wait up to 30 seconds for \
                  one that `cuesta run` or `cuesta serve` starts.",
    after_help = "\
Examples:
  cuesta mount ~/store ~/files
  cuesta mount --allow-other ~/store /srv/files      for all users, with the usual permissions
  cuesta mount -o ro,noexec ~/store /mnt             with options as in /etc/fstab
  cuesta mount -o remount,ro ~/store /mnt            the same mount, read only from now on (root)
  cuesta mount --foreground ~/store /mnt             for service managers

Options behind -o: allow_other, nonempty, nostart, remount, ro, noexec, nosuid, nodev, nosymfollow, noatime, nodiratime,
strictatime, lazytime, sync, dirsync, durability=optimistic, optimistic_ms_max=50; what other file systems have as a default (rw, exec, suid, dev, relatime, async,
defaults, auto, noauto, user, nofail, _netdev, x-...) is accepted. With remount, a mount that is there gets the other options named.

Exit status: 0 mounted (in the foreground: and unmounted again); 1 failed; 2 wrong usage."
)]
pub struct Arguments {
    /// The store's directory
    store: PathBuf,
    /// Where to mount it: a directory
    mountpoint: PathBuf,
    /// Serve the mount here, until it is unmounted
    #[arg(long, short)]
    foreground: bool,
    /// Let all users use it, each with their own permissions
    #[arg(long)]
    allow_other: bool,
    /// Mount although the directory has something in it
    #[arg(long)]
    nonempty: bool,
    #[command(flatten)]
    durability: DurabilityArguments,
    /// Options as in /etc/fstab
    #[arg(short, value_name = "OPTIONS", value_delimiter = ',')]
    options: Vec<String>,
    /// Started by mount(8), which names all options there are to be
    #[arg(long, hide = true)]
    by_mount: bool,
    /// Where to say that it is mounted, or why not: an inherited descriptor
    #[arg(long, hide = true)]
    tell_descriptor: Option<RawFd>,
}

pub fn execute(arguments: &Arguments) -> Result<ExitCode, Failure> {
    if arguments.options.iter().any(|word| word == REMOUNT) {
        return remount(arguments);
    }
    if arguments.foreground || arguments.tell_descriptor.is_some() {
        log::prepare(&arguments.store, arguments.tell_descriptor.is_some())?;
        // Before the descriptor is adopted: a copy inherits it, too.
        own_program::settle();
        return serve(arguments, Told::adopt(arguments.tell_descriptor));
    }
    let wanted = Wanted::of(arguments)?;
    wanted.prepare(Parent::Command)?;
    let words = wanted.words();
    let mut again = vec![
        OsStr::new("mount"),
        wanted.store.folder().as_os_str(),
        wanted.at.as_os_str(),
        OsStr::new("-o"),
        OsStr::new(&words),
    ];
    if wanted.non_empty {
        again.push(OsStr::new("--nonempty"));
    }
    match start::in_background(&wanted.store, Parent::Command, "mount", &again)? {
        Outcome::Ready => Ok(ExitCode::SUCCESS),
        Outcome::InUse(why) | Outcome::Failed(why) => Err(Failure::new(why)),
    }
}

/// Gives the mount other options. The process that serves it sees them in the kernel's list.
fn remount(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let words = || arguments.options.iter().map(String::as_str).filter(|word| !["", REMOUNT].contains(word));
    let mut known = Options::default();
    for word in words().filter(|word| !["nonempty", NO_START].contains(word)) {
        if !known.set(word) {
            return Err(no_such_option(word));
        }
    }
    let words: Vec<&str> = words().collect();
    cuesta_fuse::remount(&arguments.mountpoint, &words, arguments.by_mount)
        .map_err(|error| Failure::on(&arguments.mountpoint, error))?;
    Ok(ExitCode::SUCCESS)
}

fn no_such_option(word: &str) -> Failure {
    Failure::new(format!("-o {word}: there is no such option (cuesta mount --help)")).exiting(WRONG_USAGE)
}

/// Takes up an option about durability. `false`: it is about something else.
fn set_durability(durability: &mut DurabilityArguments, word: &str) -> Result<bool, Failure> {
    let wrong = |why: String| Failure::new(format!("-o {word}: {why}")).exiting(WRONG_USAGE);
    if let Some(mode) = word.strip_prefix(DURABILITY) {
        durability.durability = Some(mode.parse().map_err(wrong)?);
    } else if let Some(bound) = word.strip_prefix(OPTIMISTIC_MS_MAX) {
        let bound = bound.parse().map_err(|_| wrong("no number of milliseconds".into()))?;
        durability.optimistic_ms_max = Some(check_milliseconds(bound).map_err(wrong)?);
    } else {
        return Ok(false);
    }
    Ok(true)
}

/// The mount to make: its store, place and options.
struct Wanted {
    store: Store,
    at: PathBuf,
    options: Options,
    non_empty: bool,
    /// Another process starts the next daemon.
    no_start: bool,
    /// When calls by it that ask for durability return.
    wish: DurabilityWish,
}

impl Wanted {
    fn of(arguments: &Arguments) -> Result<Wanted, Failure> {
        let store = Store::find(&arguments.store)?;
        if store.is_of_another_user() {
            return Err(Failure::on(store.folder(), "only its own user may mount a store"));
        }
        let owner = store.folder().metadata().map_err(|error| Failure::on(store.folder(), error))?.uid();
        if owner != rustix::process::geteuid().as_raw() {
            let why = "it is another user's, who would not get at it any more while root serves it: mount it as that user";
            return Err(Failure::on(store.folder(), why));
        }
        let mut options = Options {
            source: store.folder().to_string_lossy().into_owned(),
            allow_other: arguments.allow_other,
            ..Options::default()
        };
        let (mut non_empty, mut no_start) = (arguments.nonempty, false);
        let mut durability = arguments.durability;
        for word in arguments.options.iter().filter(|word| !word.is_empty()) {
            match word.as_str() {
                "nonempty" => non_empty = true,
                NO_START => no_start = true,
                word if options.set(word) => {}
                word if set_durability(&mut durability, word)? => {}
                word => return Err(no_such_option(word)),
            }
        }
        // The process that serves it in the background has another working directory.
        let at = std::path::absolute(&arguments.mountpoint)
            .map_err(|error| Failure::on(&arguments.mountpoint, error))?;
        let wish = durability.wish(&store)?;
        Ok(Wanted { store, at, options, non_empty, no_start, wish })
    }

    /// The options, for `-o`.
    fn words(&self) -> String {
        let words = self.options.words().into_iter().chain(self.no_start.then_some(NO_START));
        let DurabilityWish { durability, optimistic_ms_max } = self.wish;
        let durability = durability.map(|durability| format!("{DURABILITY}{durability}"));
        let bound = optimistic_ms_max.map(|bound| format!("{OPTIMISTIC_MS_MAX}{bound}"));
        words.map(str::to_owned).chain(durability).chain(bound).collect::<Vec<_>>().join(",")
    }

    /// Makes sure that the store is served and can be mounted there.
    fn prepare(&self, parent: Parent) -> Result<(), Failure> {
        cuesta_fuse::prepare(&self.at, self.non_empty).map_err(|error| self.failure(&error))?;
        let mounts = cuesta_fuse::mounts().map_err(|error| Failure::on(&self.at, error))?;
        let us = rustix::process::geteuid().as_raw();
        let ours = |mounted: &&Mounted| mounted.source == self.options.source && mounted.user == us;
        // Those on top first, where one was mounted over another.
        for other in mounts.iter().rev().filter(ours) {
            let left = match cuesta_fuse::life(other) {
                Life::Gone => Ok(()),
                // A killed process left it: programs would be sent there.
                Life::Dead(remains) => remains.take_away(),
                Life::OutOfReach(errno) => Err(MountError::Place(errno.into())),
                Life::Served | Life::Silent | Life::Covered => {
                    let hint =
                        format!("it is mounted at {} already (cuesta unmount ends that)", other.at.display());
                    return Err(Failure::on(self.store.folder(), hint));
                }
            };
            if let Err(error) = left {
                let what = format!("{}: what is left of a mount there stays: {error}", other.at.display());
                match parent {
                    Parent::Command => output::warning(what),
                    Parent::Server { .. } => tracing::warn!("{what}"),
                }
            }
        }
        start::ensure_by(parent, &self.store)
    }

    fn failure(&self, error: &MountError) -> Failure {
        Failure::on(&self.at, error)
    }

    fn mount(&self) -> Result<(Server, PathBuf), Failure> {
        let on_store = |error: &dyn std::fmt::Display| Failure::on(self.store.folder(), error);
        // Relative paths mean nothing to a process that unmounts.
        let at = self.at.canonicalize().map_err(|error| Failure::on(&self.at, error))?;
        // Whatever has its name later: the daemon is spoken to in the folder that was checked.
        let us = rustix::process::geteuid().as_raw();
        let folder = TrustedFolder::open(self.store.folder(), us).map_err(|error| on_store(&error))?;
        let folder_path = folder.path().to_owned();
        let socket = folder_path.join(SOCKET_FILE);
        // The mount's process does not come to an end before the mount does.
        std::mem::forget(folder);
        let socket = socket.as_os_str().as_bytes();
        let client = Client::attach_to(socket, 0, PROGRAM, InodeNumber::ROOT, self.wish)
            .map_err(|error| on_store(&error))?;
        client.tell_of_giving_up(|why| tracing::error!(why, "a call by the mount fails"));
        if !self.no_start {
            let next = NextDaemon::new(self.store.clone(), at.clone());
            client.start_daemons_by(move || next.start());
        }
        let users_socket = folder_path.join(USERS_FOLDER).join(USERS_SOCKET_FILE);
        cuesta_served::ship_beside(&client, users_socket.into_os_string().into_vec());
        let device: Device = cuesta_fuse::mount(&at, &self.options).map_err(|error| self.failure(&error))?;
        let server = Server::start(client, device, &at).map_err(|error| {
            // A mount without a server would hang every process that looks at it.
            let _ = cuesta_fuse::unmount(&at, true);
            on_store(&error)
        })?;
        Ok((server, at))
    }
}

fn serve(arguments: &Arguments, told: Told) -> Result<ExitCode, Failure> {
    allow_descriptors();
    let mounted = Wanted::of(arguments).and_then(|wanted| {
        wanted.prepare(Parent::staying())?;
        // Before the mount is there, so that a signal then is not lost.
        let signals = Signals::new([SIGTERM, SIGINT]).map_err(|error| Failure::on(&wanted.at, error))?;
        Ok((wanted.mount()?, signals))
    });
    let ((server, at), signals) = match mounted {
        Ok(mounted) => mounted,
        Err(failure) => {
            told.say(&Outcome::Failed(failure.to_string()));
            return Err(failure);
        }
    };
    told.say(&Outcome::Ready);
    unmount_at_signal(at, signals)?;
    server.wait();
    Ok(ExitCode::SUCCESS)
}

fn unmount_at_signal(at: PathBuf, mut signals: Signals) -> Result<(), Failure> {
    let fail = |error: std::io::Error, at: &Path| Failure::on(at, error);
    let place = at.clone();
    let wait = move || {
        for _ in signals.forever() {
            // Programs that are still there keep what they have open until they are done.
            if let Err(error) = cuesta_fuse::unmount(&at, true) {
                output::error(&Failure::on(&at, error));
            }
        }
    };
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(wait)
        .map(drop)
        .map_err(|error| fail(error, &place))
}
