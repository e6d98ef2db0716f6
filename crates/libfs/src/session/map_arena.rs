//! Mapping an arena read-only, when a read first needs it.

use crate::errno::{Error, unexpected};
use crate::session::session::Session;
use cuesta_format::wire::{Request, Response};
use cuesta_format::{ArenaId, Medium, TierNumber};
use cuesta_media::{Mapping, Protection};

impl Session {
    /// Maps an arena. Call without any inode's lock.
    pub(crate) fn map_arena(&self, arena: ArenaId) -> Result<(), Error> {
        let arenas = &self.arenas;
        let place = arenas
            .place(arena)
            .ok_or_else(|| Error::Daemon(format!("arena {arena} does not fit the store")))?;
        let _mapping = arenas.mapping.lock();
        if place.get().is_some() {
            return Ok(());
        }
        let mut descriptors = Vec::new();
        let answer = self.call(&Request::Arenas { arenas: vec![arena] }, &mut descriptors)?;
        let (Response::Arenas { offsets }, [file]) = (&answer, descriptors.as_slice()) else {
            return Err(unexpected(&answer));
        };
        let [offset] = offsets[..] else { return Err(unexpected(&answer)) };
        let bytes = self.geometry().of_tier(arena.tier()).arena_file_bytes();
        let is_fast = arena.tier() == TierNumber::FAST;
        let medium = if is_fast { arenas.medium } else { Medium::Block };
        let mapping = Mapping::of_file(file, offset, bytes, Protection::ReadOnly, medium, false)?;
        if let Some(emulated) = arenas.emulated.as_ref().filter(|_| is_fast) {
            mapping.emulate(emulated);
        }
        if arenas.played(arena.tier()).is_some() {
            mapping.read_no_more_than_needed();
        }
        let _ = place.set(mapping);
        Ok(())
    }
}
