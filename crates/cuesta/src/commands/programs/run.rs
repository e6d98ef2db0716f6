//! `cuesta run`: becomes the program, with the preload door in it.

use crate::commands::programs::durability::DurabilityArguments;
use crate::commands::programs::program::{self, ProgramError};
use crate::daemons::start;
use crate::messages::failure::{CANNOT_EXECUTE, Failure, NOT_FOUND, RUN_FAILED};
use crate::stores::device;
use crate::stores::mounts::{self, DEFAULT_AT};
use crate::stores::places::normal;
use crate::stores::store::{STORE_VARIABLE, Store};
use cuesta_format::durability::DurabilityWish;
use cuesta_fuse::Mounted;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Where no store can appear: programs and the door itself need what the kernel has there.
const NEEDED_OF_KERNEL: [&str; 3] = ["/proc", "/sys", "/dev"];
/// In there, a folder is one as any other.
const SHARED_MEMORY: &str = "/dev/shm";
/// The preload door's file.
const LIBRARY: &str = "libcuesta_preload.so";

#[derive(Debug, clap::Args)]
#[command(
    long_about = "Run a program with every file under /cuesta on a store.\n\n\
                  The program is unmodified; its calls on such files are served inside its own process. \
                  Everything else behaves as always. A daemon is started if none serves the store, and stays. \
                  If the store is mounted, its files are where the mount is, for this program as for all others.",
    after_help = "\
Examples:
  cuesta run --store ~/store -- bash
  cuesta run --store ~/store -- sqlite3 /cuesta/my.db 'create table t(x)'
  cuesta run --store ~/store --at /data -- python3 job.py     files under /data
  CUESTA_STORE=~/store cuesta run -- cp -r ~/music /cuesta/
  cuesta run --store ~/store --durability optimistic -- make test     fsync returns at once
  cuesta mount ~/store ~/files; cuesta run -- make -C ~/files/project     the mounted store, faster

Exit status: the program's own; 125 cuesta failed, 126 it cannot be run, 127 it was not found."
)]
pub struct Arguments {
    #[command(flatten)]
    target: Target,
}

/// A program, and the store it is to run on.
#[derive(Debug, clap::Args)]
pub struct Target {
    /// The store's directory [default: $CUESTA_STORE, or the one that is mounted]
    #[arg(long, value_name = "STORE")]
    store: Option<PathBuf>,
    /// The path under which the program finds the store [default: where it is mounted, or /cuesta]
    #[arg(long, value_name = "PATH")]
    at: Option<PathBuf>,
    #[command(flatten)]
    durability: DurabilityArguments,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    command: Vec<OsString>,
}

pub fn execute(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let (mut command, _) = arguments.target.prepare()?;
    let error = command.exec();
    Err(not_executed(&command, &error))
}

/// The failure of a prepared command that could not be executed.
pub fn not_executed(command: &Command, error: &std::io::Error) -> Failure {
    Failure::on(Path::new(command.get_program()), format!("cannot be executed: {error}"))
        .exiting(CANNOT_EXECUTE)
}

/// Where a program finds its store.
#[derive(Debug)]
pub struct StorePath {
    /// The path.
    pub at: PathBuf,
    /// It is mounted there: programs that the door cannot be in find it, too.
    pub is_mounted: bool,
}

impl Target {
    /// The program with the preload door in it, and a daemon that serves its store; and where it finds that.
    pub fn prepare(&self) -> Result<(Command, StorePath), Failure> {
        let run_failed = |failure: Failure| failure.exiting(RUN_FAILED);
        let Some((name, rest)) = self.command.split_first() else {
            return Err(run_failed(Failure::new("no program to run")));
        };
        let search_path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
        let mounts = mounts::believed();
        let found = self.find(&mounts);
        let wish = match &found {
            Ok((store, _)) => self.durability.wish(store).map_err(run_failed)?,
            Err(_) => DurabilityWish::NONE,
        };
        // A fault of the program is told first: it may be the store in the wrong place.
        let at = found.as_ref().map_or_else(|_| PathBuf::from(DEFAULT_AT), |(_, at)| at.clone());
        if !mounts.is_empty()
            && let Ok((store, _)) = &found
        {
            // Looking for the program may lead there.
            start::ensure(store).map_err(run_failed)?;
        }
        // Files of the store are there only for a program that has the door: env has it, and executes the rest, in the
        // folder on the mount that this process is in.
        let on_store = normal(Path::new(name)).is_some_and(|path| path.starts_with(&at));
        let folder = std::env::current_dir().ok().filter(|folder| folder.starts_with(&at));
        let mut prefix = Vec::new();
        if let Some(folder) = &folder {
            prefix.extend([OsStr::new("-C"), folder.as_os_str()]);
        }
        let has_sanitizer =
            program::find(name, &search_path).is_ok_and(|program| program::needs_sanitizer(&program));
        let starter = if on_store || folder.is_some() || has_sanitizer {
            prefix.push(name);
            OsStr::new("env")
        } else {
            name.as_os_str()
        };
        let mounted = found.as_ref().ok().and_then(|(store, at)| device_of_mount(&mounts, store, at));
        let is_mounted = mounted.is_some();
        let program = program::find(starter, &search_path)
            .and_then(|program| match program::check(&program) {
                // By the mount these see the store, too.
                Err(ProgramError::Static { .. } | ProgramError::SetId { .. }) if is_mounted => Ok(program),
                checked => checked.map(|()| program),
            })
            .map_err(|error| self.cannot_run(Path::new(starter), &error))?;
        let library = library().map_err(run_failed)?;
        let (store, at) = found?;
        start::ensure(&store).map_err(run_failed)?;
        let mut command = Command::new(&program);
        command
            .arg0(starter)
            .args(prefix)
            .args(rest)
            .env("LD_PRELOAD", preload_list(&library))
            .env("CUESTA_SOCKET", store.socket())
            .env("CUESTA_AT", &at);
        // Within a program that was told something, one that is told nothing does the same.
        if wish != DurabilityWish::NONE {
            command.env(DurabilityWish::VARIABLE, wish.to_string());
        }
        // The number of a mount anywhere is what other programs are shown, and else the store's own.
        let shown = mounted.or_else(|| device_of_any_mount(&mounts, &store)).or_else(|| device::read(&store));
        for (name, number) in [("CUESTA_MOUNTED", mounted), ("CUESTA_DEVICE", shown)] {
            match number {
                Some(number) => command.env(name, number.to_string()),
                None => command.env_remove(name),
            };
        }
        Ok((command, StorePath { at, is_mounted }))
    }

    /// The store, and the path under which the program finds it: from the arguments, or else from `mounts`.
    fn find(&self, mounts: &[Mounted]) -> Result<(Store, PathBuf), Failure> {
        let run_failed = |failure: Failure| failure.exiting(RUN_FAILED);
        let at = self.at.as_ref().map(|at| {
            let what = "--at needs an absolute path other than /";
            let normal = normal(at).ok_or_else(|| run_failed(Failure::on(at, what)))?;
            let is_needed = |folder: &&&str| normal.starts_with(folder) && !normal.starts_with(SHARED_MEMORY);
            let Some(needed) = NEEDED_OF_KERNEL.iter().find(is_needed) else { return Ok(normal) };
            let why = format!("--at: programs need the kernel's own files under {needed}; give another path, as /cuesta or /data");
            Err(run_failed(Failure::on(at, why)))
        });
        let at = at.transpose()?;
        let variable = std::env::var_os(STORE_VARIABLE).filter(|folder| !folder.is_empty());
        let is_named = self.store.is_some() || variable.is_some();
        let us = rustix::process::geteuid().as_raw();
        let own = mounts.iter().filter(|mounted| mounted.user == us).map(|mounted| mounted.source.clone());
        let places: Vec<String> = own.collect::<BTreeSet<_>>().into_iter().collect();
        let store = match places.as_slice() {
            [source] if !is_named => Store::find(Path::new(source)),
            [_, _, ..] if !is_named => {
                let why = format!("which store? several are mounted: give --store ({})", places.join(", "));
                return Err(Failure::new(why).exiting(RUN_FAILED));
            }
            _ => Store::find_named(self.store.as_deref()),
        };
        let store = store.map_err(run_failed)?;
        // The one on top, where one was mounted over another.
        let mounted = mounts.iter().rev().find(|mounted| Path::new(&mounted.source) == store.folder());
        let at = at.or_else(|| mounted.map(|mounted| mounted.at.clone()));
        Ok((store, at.unwrap_or_else(|| PathBuf::from(DEFAULT_AT))))
    }

    fn cannot_run(&self, program: &Path, error: &ProgramError) -> Failure {
        let status = if matches!(error, ProgramError::NotFound) { NOT_FOUND } else { CANNOT_EXECUTE };
        let failure = match error {
            ProgramError::Directory if self.store.is_none() => {
                let hint = format!("a store is named by --store {}, before the program", program.display());
                Failure::on(program, format!("{error}; {hint}"))
            }
            _ => Failure::on(program, error),
        };
        failure.exiting(status)
    }

    /// The program as it was named.
    pub fn name(&self) -> &OsStr {
        self.command.first().map_or(OsStr::new(""), OsString::as_os_str)
    }
}

/// If the kernel finds the store there, too, by a mount that answers: its device.
fn device_of_mount(mounts: &[Mounted], store: &Store, at: &Path) -> Option<u64> {
    let on_top = mounts.iter().rev().find(|mounted| mounted.at == at)?;
    let is_of_store = Path::new(&on_top.source) == store.folder();
    at.metadata().ok().filter(|_| is_of_store).map(|root| root.dev())
}

/// The device of a mount of the store that answers, wherever it is.
fn device_of_any_mount(mounts: &[Mounted], store: &Store) -> Option<u64> {
    let is_of_store = |mounted: &&Mounted| Path::new(&mounted.source) == store.folder();
    mounts.iter().rev().filter(is_of_store).find_map(|mounted| device_of_mount(mounts, store, &mounted.at))
}

/// The door beside this command (as cargo builds it), or in the `lib` beside its `bin`.
fn library() -> Result<PathBuf, Failure> {
    let command =
        std::env::current_exe().map_err(|error| Failure::new(format!("cannot find itself: {error}")))?;
    let folder = command.parent().unwrap_or(Path::new("/"));
    let places = [folder.join(LIBRARY), folder.join("../lib").join(LIBRARY)];
    let found = places.iter().find(|place| place.is_file()).ok_or_else(|| {
        Failure::on(&places[0], "the preload library is missing (cargo build --release makes it)")
    })?;
    let found = found.canonicalize().map_err(|error| Failure::on(found, error))?;
    // The dynamic linker separates its list by these and knows no escape.
    if found.as_os_str().as_bytes().iter().any(|byte| b": ".contains(byte)) {
        return Err(Failure::on(&found, "the path of the preload library must not have spaces or colons"));
    }
    Ok(found)
}

/// Ours first, so that it sees calls before other preloaded libraries do.
fn preload_list(library: &Path) -> OsString {
    let mut list = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        list.push(":");
        list.push(others);
    }
    list
}
