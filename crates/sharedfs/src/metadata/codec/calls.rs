//! The last call of each caller that took effect ([`cuesta_format::call_tag`]): a table that older stores get with their first
//! call.
//!
//! A key is user, caller and slot, the numbers big-endian; a value is [`Layout`].

use super::keys::Table;
use crate::metadata::MetadataError;
use crate::metadata::journal::Redo;
use cuesta_format::{CallRecord, CallSlot, Caller, CallerId};
use std::collections::BTreeMap;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

const KEY_BYTES: usize = 22;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Layout {
    number: U64,
    value: U64,
    end: U64,
    process: U32,
}

/// The changes of a transaction to the table, by key.
pub(crate) type CallChanges = BTreeMap<Vec<u8>, Option<CallRecord>>;

pub(crate) fn key(slot: CallSlot) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    key[..4].copy_from_slice(&slot.caller.user.to_be_bytes());
    key[4..20].copy_from_slice(&slot.caller.id.0);
    key[20..].copy_from_slice(&slot.slot.to_be_bytes());
    key
}

pub(crate) fn slot_of(key: &[u8]) -> Option<CallSlot> {
    let (user, rest) = key.split_first_chunk::<4>()?;
    let (id, rest) = rest.split_first_chunk::<16>()?;
    let caller = Caller { user: u32::from_be_bytes(*user), id: CallerId(*id) };
    Some(CallSlot { caller, slot: u16::from_be_bytes(rest.try_into().ok()?) })
}

pub(crate) fn encode(record: &CallRecord) -> Layout {
    let CallRecord { number, process, value, end } = *record;
    Layout { number: number.into(), value: value.into(), end: end.into(), process: process.into() }
}

pub(crate) fn decode(bytes: &[u8]) -> Option<CallRecord> {
    let Layout { number, value, end, process } = Layout::read_from_bytes(bytes).ok()?;
    Some(CallRecord { number: number.get(), process: process.get(), value: value.get(), end: end.get() })
}

pub(crate) fn damaged() -> MetadataError {
    MetadataError::Damaged("the record of a call is unreadable".into())
}

/// Adds the changes to those of the transaction.
pub(crate) fn gather(changes: &CallChanges, redo: &mut Redo) {
    for (key, record) in changes {
        let value = record.as_ref().map(encode);
        redo.push(Table::Calls, key, value.as_ref().map(IntoBytes::as_bytes));
    }
}
