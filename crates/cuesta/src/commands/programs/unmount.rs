//! `cuesta unmount`.

use crate::messages::failure::Failure;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(
    long_about = "Take the mount of a store away.\n\n\
                  Everything written is safe already. The daemon stays, for programs under `cuesta run`; \
                  `cuesta stop` ends it.",
    after_help = "\
Examples:
  cuesta unmount ~/files
  cuesta unmount --lazy ~/files        at once, although programs use it: they go on with what they have open

Exit status: 0 unmounted; 1 failed."
)]
pub struct Arguments {
    /// Where it is mounted
    mountpoint: PathBuf,
    /// Take it out of the tree at once, although it is in use
    #[arg(long, short)]
    lazy: bool,
}

pub fn execute(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let at = &arguments.mountpoint;
    cuesta_fuse::unmount(at, arguments.lazy).map_err(|error| Failure::on(at, error))?;
    Ok(ExitCode::SUCCESS)
}
