//! Answers of `cuesta pin`, `setxattr` and `cuesta explain` about pins.

use super::resolving::rules_of;
use crate::metadata::Snapshot;
use crate::requests::{Trouble, invalid};
use crate::{Error, SharedFs};
use cuesta_format::pin::{PinRule, TIER_ATTRIBUTE, parse_pin, pin_value, rule_for};
use cuesta_format::wire::{ExplainedPin, PinChange, Refusal, Response};
use cuesta_format::{EXTENDED_BYTES_MAX, FileKind, InodeNumber, TierNumber};
use cuesta_media::clock;

/// So often a pin is set anew, because a program took the inode meanwhile.
const TRIES_MAX: usize = 16;

impl SharedFs {
    /// The tier with that name or number.
    pub(super) fn tier_called(&self, name: &str) -> Option<TierNumber> {
        let numbered = name.parse().ok().map(TierNumber);
        let called = match name {
            "fast" => Some(TierNumber::FAST),
            _ => self.options.tier.get(name).map(|tier| TierNumber(tier.number)),
        };
        called.or(numbered).filter(|&tier| self.arenas.has(tier))
    }

    /// Whether a value is a pin to tiers that the store has.
    pub(crate) fn check_pin(&self, value: &[u8]) -> Result<Response, Trouble> {
        match self.judge_pin(value) {
            Ok(()) => Ok(Response::Done),
            Err(_) => Err(Trouble::Refused(Refusal::NotFound)),
        }
    }

    fn judge_pin(&self, value: &[u8]) -> Result<(), String> {
        let rules = parse_pin(value).map_err(|error| error.to_string())?;
        match rules.iter().find(|rule| self.tier_called(&rule.tier).is_none()) {
            Some(PinRule { tier, .. }) => Err(format!("{tier}: the store has no such tier")),
            None => Ok(()),
        }
    }

    /// Changes the pin of a file or a directory.
    pub(crate) fn pin(&self, path: &[u8], change: &PinChange) -> Result<Response, Trouble> {
        self.digest_everything()?;
        for _ in 0..TRIES_MAX {
            let inode = crate::requests::find(&self.metadata.read()?, path)?;
            // No session has the attributes in its cache then, and no log says anything of them.
            let changed = self
                .alone_with(&[inode], |held| Ok((held == [true]).then(|| self.change_pin(inode, change))));
            if let Some(changed) = changed? {
                changed?;
                self.migration.pins.note_change(inode);
                return Ok(Response::Done);
            }
        }
        Err(Trouble::Refused(Refusal::Internal("programs change it all the time".into())))
    }

    fn change_pin(&self, inode: InodeNumber, change: &PinChange) -> Result<(), Trouble> {
        let mut transaction = self.metadata.begin()?;
        let stored = transaction.inode(inode)?.ok_or(Trouble::Refused(Refusal::NotFound))?;
        let kind = stored.record.kind();
        if !matches!(kind, FileKind::File | FileKind::Directory) {
            return Err(invalid("only files and directories can be pinned"));
        }
        if change.pattern.is_some() && kind != FileKind::Directory {
            return Err(invalid("only a directory can have rules for names"));
        }
        let before = transaction.base().extended_length(inode, TIER_ATTRIBUTE)?;
        let mut rules = rules_of(transaction.base(), inode)?.unwrap_or_default();
        match (&change.tier, &change.pattern) {
            (Some(tier), pattern) => {
                match rules.iter_mut().find(|rule| rule.pattern == *pattern) {
                    Some(rule) => rule.tier.clone_from(tier),
                    None => rules.push(PinRule { pattern: pattern.clone(), tier: tier.clone() }),
                }
                self.judge_pin(&pin_value(&rules)).map_err(|why| invalid(&why))?;
            }
            (None, Some(_)) => rules.retain(|rule| rule.pattern != change.pattern),
            (None, None) => rules.clear(),
        }
        let value = (!rules.is_empty()).then(|| pin_value(&rules));
        let bytes = |value: Option<usize>| value.map_or(0, |value| (TIER_ATTRIBUTE.len() + value) as u32);
        let mut record = stored.record;
        record.extended = record.extended.saturating_sub(bytes(before)) + bytes(value.as_ref().map(Vec::len));
        if record.extended > EXTENDED_BYTES_MAX {
            return Err(Trouble::Refused(Refusal::NoSpace));
        }
        record.changed = clock::now();
        transaction.put_inode(&record).map_err(Error::from)?;
        match &value {
            Some(value) => transaction.put_extended(inode, TIER_ATTRIBUTE, value),
            None => transaction.remove_extended(inode, TIER_ATTRIBUTE),
        }
        Ok(transaction.commit().map_err(Error::from)?)
    }

    /// The rule that pins what a path names, and the rules of a directory itself.
    pub(crate) fn explain_pin(
        &self,
        snapshot: &Snapshot,
        path: &[u8],
    ) -> Result<Option<ExplainedPin>, Trouble> {
        let names: Vec<&[u8]> =
            path.split(|&byte| byte == b'/').filter(|name| ![&b""[..], b"."].contains(name)).collect();
        let explained = |rules: Vec<PinRule>, is_own: bool, above: usize| {
            let name = if is_own { b"".as_slice() } else { names.last().copied().unwrap_or_default() };
            let rule = rule_for(&rules, name).cloned();
            let own = if is_own { rules } else { Vec::new() };
            let tier = rule.as_ref().and_then(|rule| self.tier_called(&rule.tier));
            let rule = rule.map(|rule| rule.to_string());
            ExplainedPin {
                rule,
                tier,
                at: names[..above].join(&b'/'),
                rules: own.iter().map(PinRule::to_string).collect(),
            }
        };
        for above in (0..=names.len()).rev() {
            let inode = crate::requests::find(snapshot, &names[..above].join(&b'/'))?;
            let Some(rules) = rules_of(snapshot, inode)? else { continue };
            let is_own = above == names.len();
            let found = explained(rules, is_own, above);
            if is_own || found.rule.is_some() {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}
