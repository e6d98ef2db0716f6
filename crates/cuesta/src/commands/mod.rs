//! The subcommands, one a file.

pub mod explain;
pub mod fsck;
pub mod mkfs;
pub mod run;
pub mod serve;
pub mod status;
pub mod stop;
pub mod trace;

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a store
    Mkfs(mkfs::Arguments),
    /// Run a program with its files under /cuesta on a store
    Run(run::Arguments),
    /// Serve a store in the foreground
    Serve(serve::Arguments),
    /// Digest everything, then stop the daemon of a store
    Stop(stop::Arguments),
    /// Show what a store holds and who uses it
    Status(status::Arguments),
    /// Check a store, and repair what can be
    Fsck(fsck::Arguments),
    /// Show where a file lies and who holds it
    Explain(explain::Arguments),
    /// Print what the daemon does, as JSON lines
    Trace(trace::Arguments),
}
