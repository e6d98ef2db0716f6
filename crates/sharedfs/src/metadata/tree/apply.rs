//! Writing a sorted batch into a table of byte strings.
//!
//! redb can insert through a cursor without descending the tree for each key, as long as the keys fall into the gap
//! the cursor stands in. New inodes and time-stamped names do, and cost a third of a put. A cursor that has to be
//! seated again for each key costs twice a put. So the cursor is used while it pays.

use crate::metadata::MetadataError;
use redb::{CursorError, Table};
use std::borrow::Borrow;
use std::ops::Bound;

/// A cursor pays if it takes this many keys between two seatings.
const RUN_PAYING: usize = 8;
/// After one that did not pay, this many keys are put one by one before the next try.
const PUTS_BETWEEN_TRIES: usize = 128;

/// Puts or removes pairs, which are in the order of their keys; `replaced` is told of each put over an existing key.
pub(crate) fn apply_sorted<K, V>(
    table: &mut Table<'_, &'static [u8], &'static [u8]>,
    pairs: impl Iterator<Item = Result<(K, Option<V>), MetadataError>>,
    mut replaced: impl FnMut(&K) -> Result<(), MetadataError>,
) -> Result<(), MetadataError>
where
    K: Borrow<[u8]>,
    V: Borrow<[u8]>,
{
    let mut pairs = pairs.peekable();
    let mut puts_before_try = 0usize;
    while let Some(pair) = pairs.next() {
        let (key, value) = pair?;
        let Some(value) = value else {
            table.remove(key.borrow())?;
            continue;
        };
        if puts_before_try > 0 || pairs.peek().is_none() {
            puts_before_try = puts_before_try.saturating_sub(1);
            if table.insert(key.borrow(), value.borrow())?.is_some() {
                replaced(&key)?;
            }
            continue;
        }
        let mut cursor = table.lower_bound_mut(Bound::Included(key.borrow()))?;
        let mut run = 0;
        let mut refused = Some((key, value));
        while let Some((key, value)) = refused.take() {
            match cursor.insert_before(key.borrow(), value.borrow()) {
                Ok(()) => run += 1,
                Err(CursorError::UnorderedKey) => {
                    refused = Some((key, value));
                    break;
                }
                Err(error) => return Err(error.into()),
            }
            refused = match pairs.next_if(|next| matches!(next, Ok((_, Some(_))))) {
                Some(Ok((key, Some(value)))) => Some((key, value)),
                _ => None,
            };
        }
        cursor.close()?;
        if let Some((key, value)) = refused
            && table.insert(key.borrow(), value.borrow())?.is_some()
        {
            replaced(&key)?;
        }
        if run < RUN_PAYING {
            puts_before_try = PUTS_BETWEEN_TRIES;
        }
    }
    Ok(())
}
