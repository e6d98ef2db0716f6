//! `cuesta quota`.

mod grace;
mod listing;

use crate::daemons::daemon::Daemon;
use crate::daemons::start;
use crate::messages::failure::{Failure, WRONG_USAGE};
use crate::messages::output;
use crate::messages::size::{Size, human};
use crate::messages::user_names;
use crate::stores::mounts::{self, DEFAULT_AT};
use crate::stores::store::Store;
use cuesta_format::BLOCK_BYTES;
use cuesta_format::quota::{Amounts, Limited, Limits, Payer, Quota};
use cuesta_format::wire::{Refusal, Request, Response};
use grace::Grace;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(
    long_about = "Show what users, groups and directories own in a store, and limit what they may own.\n\n\
                  A user's or a group's bytes are those of the blocks of all files that belong to them, wherever they lie; inodes are \
                  files, directories and links. What would make them own more than the limit is refused (EDQUOT), and is not \
                  begun. Root, and who else has CAP_SYS_RESOURCE, passes limits.\n\n\
                  A soft limit may be exceeded for a time, its grace: a week, unless --grace says otherwise. Once that has run out, \
                  it is as the limit, until less is owned again. Blocks and inodes have a grace each.\n\n\
                  A directory's are those of everything in it, whoever it belongs to, from the first time that limits are set on it \
                  (0: none) until --no-limits. Its limits hold everybody, and are its size to programs (statfs): what would exceed \
                  them is refused as on a full disk (ENOSPC). Renames and links across its border answer EXDEV, so that mv copies. \
                  What lies in a directory with limits of its own does not count for those around it.",
    after_help = "\
Examples:
  cuesta quota ~/store                                     what everybody owns and may own
  cuesta quota ~/store --user anna --bytes 2G --inodes 100000
  cuesta quota ~/store --user anna --bytes 4G              the limit of inodes stays
  cuesta quota ~/store --user anna --soft-bytes 3G --grace 14d
  cuesta quota ~/store --directory /cuesta/project --bytes 10G
  cuesta quota ~/store --group staff --no-limits
  cuesta quota --json ~/store

Exit status: 0 done, 1 failed, 2 wrong usage."
)]
#[command(group(clap::ArgGroup::new("whose").args(["user", "group", "directory"])))]
pub struct Arguments {
    /// The store's directory
    store: PathBuf,
    /// Whose limits are set: a name or a number; alone, who is shown
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// The same of a group
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// The same of a directory with all that is in it, as a program under `cuesta run` names it, by the store's mount, or
    /// relative to the store's root
    #[arg(long, value_name = "PATH")]
    directory: Option<PathBuf>,
    /// The path under which programs find the store [default: where it is mounted, and /cuesta]
    #[arg(long, value_name = "PATH", requires = "directory")]
    at: Option<PathBuf>,
    /// The most bytes: 512M, 4G, …; 0: no limit
    #[arg(long, value_name = "SIZE", requires = "whose")]
    bytes: Option<Size>,
    /// The most inodes; 0: no limit
    #[arg(long, value_name = "NUMBER", requires = "whose")]
    inodes: Option<u64>,
    /// The most bytes for longer than the grace; 0: no such limit
    #[arg(long, value_name = "SIZE", requires = "whose")]
    soft_bytes: Option<Size>,
    /// The same of inodes
    #[arg(long, value_name = "NUMBER", requires = "whose")]
    soft_inodes: Option<u64>,
    /// How long soft limits may be exceeded: 7d, 12h, 30m, 90s; 0: not at all
    #[arg(long, value_name = "TIME", requires = "whose")]
    grace: Option<Grace>,
    /// Take the limits away; of a directory, nothing is counted any more
    #[arg(long, requires = "whose", conflicts_with_all = ["bytes", "inodes", "soft_bytes", "soft_inodes", "grace"])]
    no_limits: bool,
    /// For programs
    #[arg(long)]
    json: bool,
}

pub fn execute(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let store = Store::find(&arguments.store)?;
    let limited = limited(arguments, &store)?;
    start::ensure(&store)?;
    let mut daemon = Daemon::expect(&store)?;
    if let Some(limited) = &limited {
        set(&mut daemon, limited, arguments)?;
    }
    let mut quotas = list(&mut daemon)?;
    quotas.retain(|quota| limited.as_ref().is_none_or(|limited| is_of(quota, limited)));
    let shown = if arguments.json {
        listing::as_json(&quotas).to_string() + "\n"
    } else {
        {
            let mount = || mounts::place_of(&store);
            let at = arguments.at.clone().or_else(mount).unwrap_or_else(|| DEFAULT_AT.into());
            listing::as_text(&quotas, &at)
        }
    };
    output::print(&shown)?;
    Ok(ExitCode::SUCCESS)
}

/// The owner that the arguments name.
fn limited(arguments: &Arguments, store: &Store) -> Result<Option<Limited>, Failure> {
    let unknown = |name: &str, what| Failure::new(format!("{name}: no such {what}")).exiting(WRONG_USAGE);
    if let Some(user) = &arguments.user {
        let uid = user_names::number(user).ok_or_else(|| unknown(user, "user"))?;
        return Ok(Some(Limited::User(uid)));
    }
    if let Some(group) = &arguments.group {
        let gid = user_names::group_number(group).ok_or_else(|| unknown(group, "group"))?;
        return Ok(Some(Limited::Group(gid)));
    }
    let Some(path) = &arguments.directory else { return Ok(None) };
    let inner = mounts::inside(store, path, arguments.at.as_deref())?;
    let names: Vec<&[u8]> = inner.components().map(|name| name.as_os_str().as_bytes()).collect();
    if names.contains(&&b".."[..]) {
        return Err(Failure::on(path, "a path without `..` is needed").exiting(WRONG_USAGE));
    }
    let names: Vec<&[u8]> = names.into_iter().filter(|&name| name != b".").collect();
    Ok(Some(Limited::Directory(names.join(&b'/'))))
}

fn is_of(quota: &Quota, limited: &Limited) -> bool {
    match (quota.payer, limited) {
        (Payer::User(uid), Limited::User(of)) => uid == *of,
        (Payer::Group(gid), Limited::Group(of)) => gid == *of,
        (Payer::Tree(_), Limited::Directory(path)) => quota.path == *path,
        _ => false,
    }
}

fn list(daemon: &mut Daemon) -> Result<Vec<Quota>, Failure> {
    match daemon.ask(&Request::Quotas)? {
        Response::Quotas(quotas) => Ok(quotas),
        other => Err(daemon.unexpected(&other)),
    }
}

/// A soft limit above the limit would never be reached, and its grace would protect from nothing.
fn refuse_soft_above_hard(limits: &Limits) -> Result<(), Failure> {
    let is_above = |soft: u64, hard: u64| hard != 0 && soft > hard;
    let why = if is_above(limits.soft.blocks, limits.hard.blocks) {
        let [soft, hard] = [limits.soft, limits.hard].map(|of| human(of.blocks * BLOCK_BYTES));
        format!(
            "the soft limit of {soft} is above the limit of {hard}: give a lower --soft-bytes or a higher --bytes"
        )
    } else if is_above(limits.soft.inodes, limits.hard.inodes) {
        let [soft, hard] = [limits.soft, limits.hard].map(|of| of.inodes);
        format!(
            "the soft limit of {soft} inodes is above the limit of {hard}: give a lower --soft-inodes or a higher --inodes"
        )
    } else {
        return Ok(());
    };
    Err(Failure::new(why).exiting(WRONG_USAGE))
}

fn set(daemon: &mut Daemon, limited: &Limited, arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { bytes, inodes, soft_bytes, soft_inodes, grace, no_limits, .. } = arguments;
    let limits = if *no_limits {
        None
    } else {
        let known = list(daemon)?.into_iter().find(|quota| is_of(quota, limited));
        let known = known.map_or(Limits::NONE, |quota| quota.allowance.limits);
        let amounts = |bytes: &Option<Size>, inodes: &Option<u64>, known: Amounts| Amounts {
            blocks: bytes.as_ref().map_or(known.blocks, |bytes| bytes.0.div_ceil(BLOCK_BYTES)),
            inodes: inodes.unwrap_or(known.inodes),
        };
        let is_said = bytes.is_some()
            || inodes.is_some()
            || soft_bytes.is_some()
            || soft_inodes.is_some()
            || grace.is_some();
        if !is_said {
            return Ok(());
        }
        let limits = Limits {
            hard: amounts(bytes, inodes, known.hard),
            soft: amounts(soft_bytes, soft_inodes, known.soft),
            grace_seconds: grace.map_or(known.grace_seconds, |grace| grace.seconds),
        };
        if grace.is_some() && limits.soft == Amounts::NONE {
            let why = "--grace: there is no soft limit to be exceeded (--soft-bytes, --soft-inodes)";
            return Err(Failure::new(why).exiting(WRONG_USAGE));
        }
        refuse_soft_above_hard(&limits)?;
        Some(limits)
    };
    match daemon.ask(&Request::SetQuota { of: limited.clone(), limits })? {
        Response::Done => Ok(()),
        Response::Failed(Refusal::NotFound) => {
            let path = arguments.directory.as_deref().unwrap_or(Path::new(""));
            Err(Failure::on(path, "no such directory in the store"))
        }
        other => Err(daemon.unexpected(&other)),
    }
}
