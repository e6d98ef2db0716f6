//! The store, as a digest works on it, and the digest's questions about other sessions.

use super::directory_changes::DirectoryChanges;
use crate::Error;
use crate::background::{History, Pins, Uses, Watched};
use crate::damage::Lost;
use crate::digest::place::PlacementRule;
use crate::kernel::{MappedFiles, StandIns};
use crate::leases::LoggedChange;
use crate::metadata::MetadataStore;
use crate::namespace::View;
use crate::sessions::Openers;
use crate::tiers::{Arenas, Grown, Space};
use cuesta_format::{Geometry, InodeNumber, LogPosition, Medium, SessionId, TierNumber};
use cuesta_media::Node;
use hashbrown::HashSet;
use parking_lot::Mutex;

/// Room is made again for so many blocks at once: 4 MiB, as a window has at first.
const BARE_BLOCKS_MOST: u32 = 1 << 10;

/// The store, as a digest works on it.
pub struct Storage<'a> {
    /// Sizes.
    pub geometry: Geometry,
    /// How stores become durable.
    pub medium: Medium,
    /// Metadata.
    pub metadata: &'a MetadataStore,
    /// Arenas.
    pub arenas: &'a Arenas,
    /// Blocks and promises.
    pub space: &'a Mutex<Space>,
    /// Stand-ins for pipes and sockets.
    pub stand_ins: &'a StandIns,
    /// The kernel's files of files in mapped mode.
    pub mapped: &'a MappedFiles,
    /// Changes of directories that sessions change in turns.
    pub(crate) directory_changes: &'a DirectoryChanges,
    /// What damaged logs lost.
    pub(crate) lost: &'a Lost,
    /// Other sessions, which may have something to do with an inode.
    pub others: &'a dyn Others,
    /// The file of which blocks are being moved.
    pub(crate) watched: &'a Watched,
    /// The changes that digests tell the mover of.
    pub(crate) uses: &'a Uses,
    /// Which inodes have pins.
    pub(crate) pins: &'a Pins,
    /// Where content was placed.
    pub(crate) history: &'a History,
    /// Which content goes to lower tiers.
    pub(crate) placement: PlacementRule,
    /// Promises were made by a daemon that is gone, and the memory it had allocated for them is found by growing.
    pub recovering: bool,
}

/// What sessions other than the one whose log is digested have to do with inodes.
pub(crate) trait Others {
    /// Inodes that are open in sessions but `session`, or by descriptors.
    fn openers(&self, session: SessionId) -> Openers<'_>;

    /// Whether a session but `session` has a lease on the inode, or its log may still say something of it.
    fn have_lease(&self, inode: InodeNumber, session: SessionId) -> bool;

    /// Whether a session's log was acknowledged up to a position, as it says of itself at rest.
    fn is_acknowledged(&self, session: SessionId, position: LogPosition) -> Result<bool, Error>;

    /// The disk has all parts of other logs that the batch depends on when this returns.
    fn make_durable(&self, batch: &View) -> Result<(), Error>;

    /// Adds to `foreign` each inode that `session` may not change in what its log says is done to it.
    fn add_foreign(
        &self,
        session: SessionId,
        changes: &mut dyn Iterator<Item = LoggedChange>,
        foreign: &mut HashSet<InodeNumber>,
    );
}

impl Storage<'_> {
    /// Gives a tier's arenas a step of memory more, from the memory node `wanted` if it has some; `None`: there is no more to be had.
    pub fn grow(&self, tier: TierNumber, wanted: Option<Node>) -> Result<Option<Grown>, Error> {
        if !self.space.lock().allocator.takes_writes(tier) {
            return Ok(None);
        }
        if let Some(grown) = self.make_room_again(tier)? {
            return Ok(Some(grown));
        }
        let grown = match self.arenas.grow(tier, wanted) {
            Err(Error::NoSpace) => return Ok(None),
            Err(error) if tier != TierNumber::FAST => {
                self.fail_tier(tier, &error.to_string());
                return Ok(None);
            }
            grown => grown?,
        };
        self.space.lock().allocator.grow(&grown);
        Ok(Some(grown))
    }

    /// Makes room again for free blocks of a lower tier of which the disk has it back. `None`: there are none, or the disk is full.
    fn make_room_again(&self, tier: TierNumber) -> Result<Option<Grown>, Error> {
        let mut last = None;
        let mut blocks = 0;
        while blocks < BARE_BLOCKS_MOST {
            let most = BARE_BLOCKS_MOST - blocks;
            let Some(run) = self.space.lock().allocator.take_bare(tier, most) else { break };
            let made = self.arenas.tier(tier).and_then(|arenas| arenas.make_room(run));
            self.space.lock().allocator.put_back(run, made.is_ok());
            match made {
                Ok(grown) => last = Some(grown),
                Err(Error::NoSpace) => break,
                Err(error) => {
                    self.fail_tier(tier, &error.to_string());
                    break;
                }
            }
            blocks += run.blocks;
        }
        Ok(last)
    }

    /// A lower tier's disk refused something: nothing is written there any more.
    pub(crate) fn fail_tier(&self, tier: TierNumber, why: &str) {
        self.space.lock().allocator.refuse_writes(tier);
        if self.arenas.fail(tier, why) {
            tracing::error!(tier = tier.0, why, "a lower tier failed: it is only read from now on");
        }
    }

    /// Gives the first tier that can have it a step of memory more. Says whether there was one.
    pub fn grow_any(&self, wanted: Option<Node>) -> Result<bool, Error> {
        for tier in (0..self.arenas.tiers_count()).map(TierNumber) {
            if self.grow(tier, wanted)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
