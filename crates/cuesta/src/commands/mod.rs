//! The subcommands, one a file.

pub mod calibrate;
pub mod destroy;
pub mod doctor;
pub mod explain;
pub mod fsck;
pub mod mkfs;
pub mod mount;
pub mod quota;
pub mod run;
pub mod scrub;
pub mod serve;
pub mod status;
pub mod stop;
pub mod trace;
pub mod unmount;

use clap::Subcommand;

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
    #[command(about = "Remove a store and all that is in it")]
    Destroy(destroy::Arguments),
    #[command(about = "Show what a store holds and who uses it")]
    Status(status::Arguments),
    #[command(about = "Check a store, and repair what can be")]
    Fsck(fsck::Arguments),
    #[command(about = "Read all content, and compare it with its checksums")]
    Scrub(scrub::Arguments),
    #[command(about = "Show what users own, and limit it")]
    Quota(quota::Arguments),
    #[command(about = "Measure a medium, and what is got of a slower one played on it")]
    Calibrate(calibrate::Arguments),
    #[command(about = "Show where a file lies and who holds it")]
    Explain(explain::Arguments),
    #[command(about = "Print what the daemon does, as JSON lines")]
    Trace(trace::Arguments),
}
