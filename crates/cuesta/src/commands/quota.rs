//! `cuesta quota`.

use crate::daemon::Daemon;
use crate::failure::{Failure, WRONG_USAGE};
use crate::output;
use crate::size::{Size, human};
use crate::start;
use crate::store::Store;
use crate::user_names;
use cuesta_format::BLOCK_BYTES;
use cuesta_format::quota::{Amounts, UserQuota};
use cuesta_format::wire::{Request, Response};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(
    long_about = "Show what users own in a store, and limit what they may own.\n\n\
                  A user's bytes are those of the blocks of all files that belong to them, wherever they lie; inodes are \
                  files, directories and links. What would make a user own more than the limit is refused (EDQUOT), and is not \
                  begun. Root, and who else has CAP_SYS_RESOURCE, passes limits.",
    after_help = "\
Examples:
  cuesta quota ~/store                                     what everybody owns and may own
  cuesta quota ~/store --user anna --bytes 2G --inodes 100000
  cuesta quota ~/store --user anna --bytes 4G              the limit of inodes stays
  cuesta quota ~/store --user anna --no-limits
  cuesta quota --json ~/store

Exit status: 0 done, 1 failed, 2 wrong usage."
)]
pub struct Arguments {
    /// The store's directory
    store: PathBuf,
    /// Whose limits are set: a name or a number; alone, who is shown
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// The most bytes: 512M, 4G, …; 0: no limit
    #[arg(long, value_name = "SIZE", requires = "user")]
    bytes: Option<Size>,
    /// The most inodes; 0: no limit
    #[arg(long, value_name = "NUMBER", requires = "user")]
    inodes: Option<u64>,
    /// Take the limits away
    #[arg(long, requires = "user", conflicts_with_all = ["bytes", "inodes"])]
    no_limits: bool,
    /// For programs
    #[arg(long)]
    json: bool,
}

pub fn execute(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let user = arguments.user.as_deref().map(|user| {
        let unknown = || Failure::new(format!("{user}: no such user")).exiting(WRONG_USAGE);
        user_names::number(user).ok_or_else(unknown)
    });
    let user = user.transpose()?;
    let store = Store::find(&arguments.store)?;
    start::ensure(&store)?;
    let mut daemon = Daemon::expect(&store)?;
    if let Some(uid) = user {
        set(&mut daemon, uid, arguments)?;
    }
    let mut quotas = list(&mut daemon)?;
    quotas.retain(|quota| user.is_none_or(|uid| quota.uid == uid));
    output::print(&if arguments.json { as_json(&quotas).to_string() + "\n" } else { as_text(&quotas) })?;
    Ok(ExitCode::SUCCESS)
}

fn list(daemon: &mut Daemon) -> Result<Vec<UserQuota>, Failure> {
    match daemon.ask(&Request::Quotas)? {
        Response::Quotas(quotas) => Ok(quotas),
        other => Err(daemon.unexpected(&other)),
    }
}

fn set(daemon: &mut Daemon, uid: u32, arguments: &Arguments) -> Result<(), Failure> {
    let limits = if arguments.no_limits {
        Amounts::NONE
    } else if arguments.bytes.is_some() || arguments.inodes.is_some() {
        let known = list(daemon)?.into_iter().find(|quota| quota.uid == uid);
        let known = known.map_or(Amounts::NONE, |quota| quota.limits);
        Amounts {
            blocks: arguments.bytes.map_or(known.blocks, |bytes| bytes.0.div_ceil(BLOCK_BYTES)),
            inodes: arguments.inodes.unwrap_or(known.inodes),
        }
    } else {
        return Ok(());
    };
    match daemon.ask(&Request::SetQuota { uid, limits })? {
        Response::Done => Ok(()),
        other => Err(daemon.unexpected(&other)),
    }
}

/// A limit that is none is null.
fn as_json(quotas: &[UserQuota]) -> Value {
    let limit = |most: u64, unit: u64| (most > 0).then(|| most.saturating_mul(unit));
    let users = quotas.iter().map(|quota| {
        json!({
            "uid": quota.uid,
            "name": user_names::name(quota.uid),
            "bytes": quota.used.blocks * BLOCK_BYTES,
            "bytes_limit": limit(quota.limits.blocks, BLOCK_BYTES),
            "inodes": quota.used.inodes,
            "inodes_limit": limit(quota.limits.inodes, 1),
        })
    });
    json!({ "users": users.collect::<Vec<_>>() })
}

fn as_text(quotas: &[UserQuota]) -> String {
    let limit = |most: u64, shown: fn(u64) -> String| if most == 0 { "none".into() } else { shown(most) };
    let bytes = |blocks: u64| human(blocks.saturating_mul(BLOCK_BYTES));
    let rows: Vec<Vec<String>> = quotas
        .iter()
        .map(|quota| {
            vec![
                user_names::name(quota.uid),
                bytes(quota.used.blocks),
                limit(quota.limits.blocks, bytes),
                quota.used.inodes.to_string(),
                limit(quota.limits.inodes, |inodes| inodes.to_string()),
            ]
        })
        .collect();
    output::table(&["user", "owns", "limit", "inodes", "limit"], &rows)
}
