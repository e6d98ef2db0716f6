//! The steps of a workload.

use crate::operations::operation::{Operation, Pattern, Slot};
use cuesta_format::TierNumber;
use cuesta_format::quota::Amounts;

/// One of the clients, from 0.
pub type ClientNumber = usize;

/// A step of a workload.
#[derive(Clone, Debug)]
pub enum Step {
    /// A call by one client. Slots are the workload's: no two clients use the same.
    Call(ClientNumber, Operation),
    /// Everything a client did so far is digested.
    Digest(ClientNumber),
    /// Limits are set on a directory, or taken away, while a client works.
    Quota(ClientNumber, &'static str, Option<Amounts>),
    /// A client ends its session; it makes no more calls.
    Detach(ClientNumber),
    /// From now on a client forgets what it does not use, and gives leases back.
    ForgetEarly(ClientNumber),
    /// A client's program maps so many bytes of the file open in a slot; the mapping outlasts the open file.
    Map(ClientNumber, Slot, u64),
    /// It stores at an offset of what it mapped by way of a slot.
    StoreMapped(ClientNumber, Slot, u64, Pattern),
    /// It syncs all of that.
    SyncMapped(ClientNumber, Slot),
    /// It unmaps it.
    Unmap(ClientNumber, Slot),
    /// It finds no file in mapped mode.
    FindNoneMapped(ClientNumber),
    /// All content below a path moves to a tier, while a client works.
    Migrate(ClientNumber, &'static str, TierNumber),
    /// All content below a path is copied to the fast tier, while a client works.
    CopyUp(ClientNumber, &'static str),
}

impl Step {
    pub(in crate::explorer) fn client(&self) -> ClientNumber {
        use Step::*;
        match self {
            Call(client, _)
            | Digest(client)
            | Quota(client, ..)
            | Detach(client)
            | ForgetEarly(client)
            | Map(client, ..)
            | StoreMapped(client, ..)
            | SyncMapped(client, _)
            | Unmap(client, _)
            | FindNoneMapped(client)
            | Migrate(client, ..)
            | CopyUp(client, _) => *client,
        }
    }

    /// Whether it is something a program does, which is issued and acknowledged.
    pub(in crate::explorer) fn is_programs(&self) -> bool {
        !matches!(
            self,
            Step::Digest(_)
                | Step::Quota(..)
                | Step::Detach(_)
                | Step::ForgetEarly(_)
                | Step::FindNoneMapped(_)
                | Step::Migrate(..)
                | Step::CopyUp(..)
        )
    }

    pub(in crate::explorer) fn is_of_mappings(&self) -> bool {
        matches!(self, Step::Map(..) | Step::StoreMapped(..) | Step::SyncMapped(..) | Step::Unmap(..))
    }
}
