//! The subcommands as the command line has them, and which function executes each.

use super::daemons::{serve, status, stop, trace};
use super::files::{explain, migrate, pin, quota};
use super::programs::{doctor, mount, run, unmount};
use super::stores::{calibrate, destroy, dsync, fsck, mkfs, scrub, tier};
use crate::messages::failure::Failure;
use clap::Subcommand;
use std::process::ExitCode;

#[derive(Debug, Subcommand)]
pub enum Command {
    #[command(about = "Make a store")]
    Mkfs(mkfs::Arguments),
    #[command(about = "Run a program with its files under /cuesta on a store")]
    Run(run::Arguments),
    #[command(about = "Run a program, then tell which of its calls were served")]
    Doctor(doctor::Arguments),
    #[command(about = "Mount a store, for every program to see")]
    Mount(mount::Arguments),
    #[command(about = "Take a mount away", visible_alias = "umount")]
    Unmount(unmount::Arguments),
    #[command(about = "Serve a store in the foreground")]
    Serve(serve::Arguments),
    #[command(about = "Digest everything, then stop the daemon of a store")]
    Stop(stop::Arguments),
    #[command(about = "Wait until the disk has everything that was done in a store")]
    Dsync(dsync::Arguments),
    #[command(about = "Remove a store and all that is in it")]
    Destroy(destroy::Arguments),
    #[command(about = "Show what a store holds and who uses it")]
    Status(status::Arguments),
    #[command(about = "Check a store, and repair what can be")]
    Fsck(fsck::Arguments),
    #[command(about = "Read all content, and compare it with its checksums")]
    Scrub(scrub::Arguments),
    #[command(about = "Show the tiers of a store")]
    Tier(tier::Arguments),
    #[command(about = "Move the content of files to a tier")]
    Migrate(migrate::Arguments),
    #[command(about = "Pin the content of files to a tier")]
    Pin(pin::Arguments),
    #[command(about = "Show what users own, and limit it")]
    Quota(quota::Arguments),
    #[command(about = "Measure a medium, and how exactly it plays a slower one")]
    Calibrate(calibrate::Arguments),
    #[command(about = "Show where the blocks of a file lie, and which programs hold the file")]
    Explain(explain::Arguments),
    #[command(about = "Print what the daemon does, as JSON lines")]
    Trace(trace::Arguments),
}

impl Command {
    /// Executes the command. Answers the exit status.
    pub fn execute(&self) -> Result<ExitCode, Failure> {
        match self {
            Command::Mkfs(arguments) => mkfs::execute(arguments),
            Command::Run(arguments) => run::execute(arguments),
            Command::Doctor(arguments) => doctor::execute(arguments),
            Command::Mount(arguments) => mount::execute(arguments),
            Command::Unmount(arguments) => unmount::execute(arguments),
            Command::Serve(arguments) => serve::execute(arguments),
            Command::Stop(arguments) => stop::execute(arguments),
            Command::Dsync(arguments) => dsync::execute(arguments),
            Command::Destroy(arguments) => destroy::execute(arguments),
            Command::Status(arguments) => status::execute(arguments),
            Command::Fsck(arguments) => fsck::execute(arguments),
            Command::Scrub(arguments) => scrub::execute(arguments),
            Command::Tier(arguments) => tier::execute(arguments),
            Command::Migrate(arguments) => migrate::execute(arguments),
            Command::Pin(arguments) => pin::execute(arguments),
            Command::Quota(arguments) => quota::execute(arguments),
            Command::Calibrate(arguments) => calibrate::execute(arguments),
            Command::Explain(arguments) => explain::execute(arguments),
            Command::Trace(arguments) => trace::execute(arguments),
        }
    }
}
