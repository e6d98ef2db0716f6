//! What `cuesta quota` shows.

use super::grace;
use crate::messages::output;
use crate::messages::size::human;
use crate::messages::user_names;
use cuesta_format::quota::{Amounts, OverSince, Payer, Quota};
use cuesta_format::{BLOCK_BYTES, Timestamp};
use serde_json::{Value, json};
use std::path::Path;
use std::time::SystemTime;

/// The present time, in seconds.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

/// Seconds that a soft limit may still be exceeded; `None`: it is not.
fn left(quota: &Quota, since: Option<Timestamp>) -> Option<u64> {
    let elapsed = u64::try_from(now().saturating_sub(since?.seconds())).unwrap_or(0);
    Some(quota.allowance.limits.grace_seconds.saturating_sub(elapsed))
}

/// A limit that is none is null, as is what is left of a grace that has not begun.
pub(super) fn as_json(quotas: &[Quota]) -> Value {
    let limit = |most: u64, unit: u64| (most > 0).then(|| most.saturating_mul(unit));
    let amounts = |quota: &Quota, mut who: Value| {
        let limits = quota.allowance.limits;
        let OverSince { blocks, inodes } = quota.allowance.over_since;
        who["bytes"] = (quota.used.blocks * BLOCK_BYTES).into();
        who["bytes_soft"] = limit(limits.soft.blocks, BLOCK_BYTES).into();
        who["bytes_limit"] = limit(limits.hard.blocks, BLOCK_BYTES).into();
        who["bytes_grace_left"] = left(quota, blocks).into();
        who["inodes"] = quota.used.inodes.into();
        who["inodes_soft"] = limit(limits.soft.inodes, 1).into();
        who["inodes_limit"] = limit(limits.hard.inodes, 1).into();
        who["inodes_grace_left"] = left(quota, inodes).into();
        who["grace"] = (limits.soft != Amounts::NONE).then_some(limits.grace_seconds).into();
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

/// Groups are shown if one of them has limits, or is alone; soft limits if an owner has one.
pub(super) fn as_text(quotas: &[Quota], at: &Path) -> String {
    let bytes = |blocks: u64| human(blocks.saturating_mul(BLOCK_BYTES));
    let number = |inodes: u64| inodes.to_string();
    let has_limits = |quota: &Quota| !quota.allowance.limits.are_none();
    let is_limited_group = |quota: &Quota| matches!(quota.payer, Payer::Group(_)) && has_limits(quota);
    let shows_groups = quotas.len() == 1 || quotas.iter().any(is_limited_group);
    let shows_soft = quotas.iter().any(|quota| quota.allowance.limits.soft != Amounts::NONE);
    let mut tables: Vec<(&str, Vec<Vec<String>>)> = Vec::new();
    for quota in quotas {
        let (kind, name) = match quota.payer {
            Payer::User(uid) => ("user", user_names::name(uid)),
            Payer::Group(_) if !shows_groups => continue,
            Payer::Group(gid) => ("group", user_names::group_name(gid)),
            Payer::Tree(_) => ("directory", path_of(quota, at)),
        };
        if tables.last().is_none_or(|(last, _)| *last != kind) {
            tables.push((kind, Vec::new()));
        }
        let (limits, over) = (quota.allowance.limits, quota.allowance.over_since);
        let mut row = vec![name];
        let mut add = |used: u64, soft: u64, hard: u64, since, shown: &dyn Fn(u64) -> String| {
            let limit = |most: u64| if most == 0 { "none".into() } else { shown(most) };
            row.push(shown(used));
            if shows_soft {
                row.push(limit(soft));
            }
            row.push(limit(hard));
            if shows_soft {
                row.push(match left(quota, since) {
                    None => "-".into(),
                    Some(0) => "over".into(),
                    Some(seconds) => grace::human(seconds),
                });
            }
        };
        add(quota.used.blocks, limits.soft.blocks, limits.hard.blocks, over.blocks, &bytes);
        add(quota.used.inodes, limits.soft.inodes, limits.hard.inodes, over.inodes, &number);
        if let Some((_, rows)) = tables.last_mut() {
            rows.push(row);
        }
    }
    let tables = tables.iter().map(|(kind, rows)| match shows_soft {
        true => {
            let head = [kind, "owns", "soft", "limit", "grace", "inodes", "soft", "limit", "grace"];
            output::table(&head, rows)
        }
        false => output::table(&[kind, "owns", "limit", "inodes", "limit"], rows),
    });
    tables.collect::<Vec<_>>().join("\n")
}

fn path_of(quota: &Quota, at: &Path) -> String {
    let path = String::from_utf8_lossy(&quota.path);
    let shown = if path.is_empty() { at.to_path_buf() } else { at.join(&*path) };
    shown.display().to_string()
}
