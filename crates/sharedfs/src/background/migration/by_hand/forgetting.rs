//! Forgets a tier that was drained: the metadata says nothing of its arenas any more, and the next daemon does not open it.

use crate::SharedFs;
use crate::digest::put_stamps;
use crate::requests::{Trouble, invalid};
use cuesta_format::wire::{Refusal, Response};
use cuesta_format::{ArenaId, TierNumber};

impl SharedFs {
    /// Forgets a tier that holds nothing. This daemon writes nothing there, and the configuration sees to it that none behind it does.
    pub(crate) fn forget_tier(&self, tier: TierNumber) -> Result<Response, Trouble> {
        if tier == TierNumber::FAST || !self.arenas.has(tier) {
            return Err(invalid("only lower tiers can be taken out"));
        }
        let digester = self.digester.lock();
        {
            let space = self.space.lock();
            let held = space.allocator.used_blocks(tier) + space.windows.held_in(tier);
            if space.allocator.takes_writes(tier) || held > 0 {
                let why = format!("tier {tier} is not drained");
                return Err(Trouble::Refused(Refusal::Internal(why)));
            }
        }
        let arenas = self.metadata.read()?.arenas()?.into_iter().map(|(arena, _)| arena);
        let arenas: Vec<ArenaId> = arenas.filter(|arena| arena.tier() == tier).collect();
        let mut transaction = self.metadata.begin()?;
        // Stamps that are put later would tell of the arenas again.
        put_stamps(&mut transaction, &self.arenas);
        arenas.into_iter().for_each(|arena| transaction.forget_arena(arena));
        transaction.commit()?;
        drop(digester);
        Ok(Response::Done)
    }
}
