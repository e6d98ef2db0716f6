//! Which sessions are optimistic, and whether the store goes by epochs.
//!
//! While any session is optimistic the store goes by epochs, and every session logs them: also one that waits for the
//! disk, because others may see what it does.

use crate::{Error, SharedFs};
use cuesta_format::durability::{DurabilityWish, OPTIMISTIC_MS};
use cuesta_format::wire::Welcome;
use cuesta_format::{Durability, Epoch, Medium, SessionId};
use std::time::Duration;

/// A cut begins at the latest when this part of the bound is over. The rest is for the disk.
const BOUND_PART: u32 = 2;

impl SharedFs {
    /// A session has said when its calls that ask for durability are to return. Tells it what they do.
    pub(crate) fn choose_durability(&self, welcome: &mut Welcome, wish: DurabilityWish) {
        let (least, most) = (*OPTIMISTIC_MS.start(), *OPTIMISTIC_MS.end());
        let bound = wish.optimistic_ms_max.unwrap_or(self.options.optimistic_ms_max).clamp(least, most);
        welcome.optimistic_ms_max = bound;
        welcome.durability = match self.superblock.medium {
            Medium::Block => wish.durability.unwrap_or(self.options.durability),
            // Operations that returned are as durable as they get.
            Medium::Memory | Medium::Pmem => Durability::Pessimistic,
        };
        if welcome.durability == Durability::Pessimistic {
            return;
        }
        self.set_bound(welcome.session, Some(bound));
        if let Err(error) = self.go_by_epochs() {
            tracing::error!(%error, "a session that asks for optimistic mode waits for the disk instead");
            welcome.durability = Durability::Pessimistic;
            self.set_bound(welcome.session, None);
        }
    }

    fn set_bound(&self, session: SessionId, bound: Option<u32>) {
        if let Some(session) = self.core.lock().sessions.get_mut(&session) {
            session.optimistic_ms_max = bound;
        }
    }

    /// From now on the store goes by epochs.
    pub(crate) fn go_by_epochs(&self) -> Result<(), Error> {
        let mut cutting = self.epochs.cutting.lock();
        if self.epochs.present() == Epoch(0) { self.epochs.first(&mut cutting) } else { Ok(()) }
    }

    /// No session is optimistic any more: the store goes by epochs no longer. Entries that name one survive all the same.
    pub(super) fn leave_epochs(&self) -> Result<(), Error> {
        // Before another session can become optimistic.
        let mut cutting = self.epochs.cutting.lock();
        if self.shortest_bound().is_some() {
            return Ok(());
        }
        self.epochs.show_none();
        self.cut(&mut cutting)
    }

    /// In which time the disk must have what optimistic sessions did, if any is.
    pub(crate) fn shortest_bound(&self) -> Option<Duration> {
        let is_configured = self.options.durability == Durability::Optimistic;
        let configured = is_configured.then_some(self.options.optimistic_ms_max);
        let core = self.core.lock();
        let bounds = core.sessions.values().filter_map(|session| session.optimistic_ms_max);
        bounds.chain(configured).min().map(|bound| Duration::from_millis(bound.into()))
    }

    /// From one cut to the next.
    pub(super) fn time_between_cuts(&self) -> Option<Duration> {
        self.shortest_bound().map(|bound| bound / BOUND_PART)
    }
}
