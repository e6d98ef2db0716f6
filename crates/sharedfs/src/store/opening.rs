//! Which opening of the store this is, and that its files say so ([`cuesta_format::stamp`]).

use super::superblocks::Superblocks;
use crate::{Error, SharedFs};
use cuesta_format::stamp::Stamp;
use cuesta_format::superblock::Opening;

impl SharedFs {
    /// Which opening of the store this is.
    #[must_use]
    pub fn opening(&self) -> Opening {
        self.superblocks.lock().opening
    }

    /// Looks at both copies of the superblock, and mends one from the other.
    pub(crate) fn heal_superblocks(&self) -> Result<(), Error> {
        let mut superblocks = self.superblocks.lock();
        let now = superblocks.opening;
        // Their content is known here, even if both are damaged.
        match Superblocks::read(&self.tier) {
            Ok(found) => found.tell(),
            Err(error) => {
                tracing::error!(%error, "both copies of the superblock are damaged, and written anew")
            }
        }
        superblocks.say(&self.tier, now)
    }

    fn stamp(&self, opening: Opening) -> Stamp {
        Stamp { store: self.superblock.store, what: 0, opening }
    }

    /// From now on each file of the store is of this opening.
    pub(crate) fn say_opened(&self) -> Result<(), Error> {
        let mut superblocks = self.superblocks.lock();
        let generation = superblocks.opening.generation + 1;
        let opening = Opening { generation, is_closed: false };
        self.metadata.stamp(&self.stamp(opening))?;
        superblocks.say(&self.tier, opening)
    }

    /// Nothing of the store is written any more in this opening.
    pub(crate) fn say_closed(&self) -> Result<(), Error> {
        let mut superblocks = self.superblocks.lock();
        let opening = Opening { is_closed: true, ..superblocks.opening };
        self.metadata.stamp(&self.stamp(opening))?;
        superblocks.say(&self.tier, opening)
    }
}
