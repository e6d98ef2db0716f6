//! `cuesta quota`.

use super::explain::below;
use super::run::DEFAULT_AT;
use crate::daemon::Daemon;
use crate::failure::{Failure, WRONG_USAGE};
use crate::output;
use crate::size::{Size, human};
use crate::start;
use crate::store::Store;
use crate::user_names;
use cuesta_format::BLOCK_BYTES;
use cuesta_format::quota::{Amounts, Limited, Payer, Quota};
use cuesta_format::wire::{Refusal, Request, Response};
use serde_json::{Value, json};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(
    long_about = "Show what users, groups and directories own in a store, and limit what they may own.\n\n\
                  A user's or a group's bytes are those of the blocks of all files that belong to them, wherever they lie; inodes are \
                  files, directories and links. What would make them own more than the limit is refused (EDQUOT), and is not \
                  begun. Root, and who else has CAP_SYS_RESOURCE, passes limits.\n\n\
                  A directory's are those of everything in it, whoever it belongs to, from the first time that limits are set on it \
                  (0: none) until --no-limits. Its limits hold everybody, and are its size to programs (statfs): what would exceed \
                  them is refused as on a full disk (ENOSPC). Renames and links across its border answer EXDEV, so that mv copies. \
                  What lies in a directory with limits of its own does not count for those around it.",
    after_help = "\
Examples:
  cuesta quota ~/store                                     what everybody owns and may own
  cuesta quota ~/store --user anna --bytes 2G --inodes 100000
  cuesta quota ~/store --user anna --bytes 4G              the limit of inodes stays
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
    /// The same of a directory with all that is in it, as a program under `cuesta run` names it, or relative to the
    /// store's root
    #[arg(long, value_name = "PATH")]
    directory: Option<PathBuf>,
    /// The path under which programs find the store
    #[arg(long, value_name = "PATH", default_value = DEFAULT_AT, requires = "directory")]
    at: PathBuf,
    /// The most bytes: 512M, 4G, …; 0: no limit
    #[arg(long, value_name = "SIZE", requires = "whose")]
    bytes: Option<Size>,
    /// The most inodes; 0: no limit
    #[arg(long, value_name = "NUMBER", requires = "whose")]
    inodes: Option<u64>,
    /// Take the limits away; of a directory, nothing is counted any more
    #[arg(long, requires = "whose", conflicts_with_all = ["bytes", "inodes"])]
    no_limits: bool,
    /// For programs
    #[arg(long)]
    json: bool,
}

pub fn execute(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let limited = limited(arguments)?;
    let store = Store::find(&arguments.store)?;
    start::ensure(&store)?;
    let mut daemon = Daemon::expect(&store)?;
    if let Some(limited) = &limited {
        set(&mut daemon, limited, arguments)?;
    }
    let mut quotas = list(&mut daemon)?;
    quotas.retain(|quota| limited.as_ref().is_none_or(|limited| is_of(quota, limited)));
    let shown =
        if arguments.json { as_json(&quotas).to_string() + "\n" } else { as_text(&quotas, &arguments.at) };
    output::print(&shown)?;
    Ok(ExitCode::SUCCESS)
}

/// Who is named.
fn limited(arguments: &Arguments) -> Result<Option<Limited>, Failure> {
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
    let inner = below(path, &arguments.at).ok_or_else(|| {
        let why = format!("is not under {} (--at says where the store appears)", arguments.at.display());
        Failure::on(path, why).exiting(WRONG_USAGE)
    })?;
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

fn set(daemon: &mut Daemon, limited: &Limited, arguments: &Arguments) -> Result<(), Failure> {
    let limits = if arguments.no_limits {
        None
    } else if arguments.bytes.is_some() || arguments.inodes.is_some() {
        let known = list(daemon)?.into_iter().find(|quota| is_of(quota, limited));
        let known = known.map_or(Amounts::NONE, |quota| quota.limits);
        Some(Amounts {
            blocks: arguments.bytes.map_or(known.blocks, |bytes| bytes.0.div_ceil(BLOCK_BYTES)),
            inodes: arguments.inodes.unwrap_or(known.inodes),
        })
    } else {
        return Ok(());
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

/// A limit that is none is null.
fn as_json(quotas: &[Quota]) -> Value {
    let limit = |most: u64, unit: u64| (most > 0).then(|| most.saturating_mul(unit));
    let amounts = |quota: &Quota, mut who: Value| {
        who["bytes"] = (quota.used.blocks * BLOCK_BYTES).into();
        who["bytes_limit"] = limit(quota.limits.blocks, BLOCK_BYTES).into();
        who["inodes"] = quota.used.inodes.into();
        who["inodes_limit"] = limit(quota.limits.inodes, 1).into();
        who
    };
    let (mut users, mut groups, mut directories) = (Vec::new(), Vec::new(), Vec::new());
    for quota in quotas {
        match quota.payer {
            Payer::User(uid) => {
                users.push(amounts(quota, json!({ "uid": uid, "name": user_names::name(uid) })));
            }
            Payer::Group(gid) => {
                groups.push(amounts(quota, json!({ "gid": gid, "name": user_names::group_name(gid) })));
            }
            Payer::Tree(_) => {
                directories.push(amounts(quota, json!({ "path": String::from_utf8_lossy(&quota.path) })));
            }
        }
    }
    json!({ "users": users, "groups": groups, "directories": directories })
}

/// Groups are shown if one of them has limits, or is alone.
fn as_text(quotas: &[Quota], at: &Path) -> String {
    let limit = |most: u64, shown: fn(u64) -> String| if most == 0 { "none".into() } else { shown(most) };
    let bytes = |blocks: u64| human(blocks.saturating_mul(BLOCK_BYTES));
    let is_limited = |quota: &&Quota| matches!(quota.payer, Payer::Group(_)) && quota.limits != Amounts::NONE;
    let shows_groups = quotas.len() == 1 || quotas.iter().any(|quota| is_limited(&quota));
    let mut tables: Vec<(&str, Vec<Vec<String>>)> = Vec::new();
    for quota in quotas {
        let (kind, name) = match quota.payer {
            Payer::User(uid) => ("user", user_names::name(uid)),
            Payer::Group(_) if !shows_groups => continue,
            Payer::Group(gid) => ("group", user_names::group_name(gid)),
            Payer::Tree(_) => {
                let path = String::from_utf8_lossy(&quota.path);
                (
                    "directory",
                    if path.is_empty() {
                        at.display().to_string()
                    } else {
                        at.join(&*path).display().to_string()
                    },
                )
            }
        };
        if tables.last().is_none_or(|(last, _)| *last != kind) {
            tables.push((kind, Vec::new()));
        }
        if let Some((_, rows)) = tables.last_mut() {
            rows.push(vec![
                name,
                bytes(quota.used.blocks),
                limit(quota.limits.blocks, bytes),
                quota.used.inodes.to_string(),
                limit(quota.limits.inodes, |inodes| inodes.to_string()),
            ]);
        }
    }
    let tables =
        tables.iter().map(|(kind, rows)| output::table(&[kind, "owns", "limit", "inodes", "limit"], rows));
    tables.collect::<Vec<_>>().join("\n")
}
