//! Makes control pages, segments and arena memory ready, so that sessions and digests seldom wait for the kernel.

use crate::metadata::MetadataError;
use crate::sessions::{Control, Segment, make_segment};
use crate::tiers::{METADATA_SLACK_BYTES, lacking_memory};
use crate::{Error, SharedFs};
use cuesta_format::SegmentId;
use cuesta_format::superblock::Superblock;
use cuesta_media::Node;
use std::time::{Duration, Instant};

/// Room for metadata that is made at a time: no session waits longer than the medium takes for so much.
const METADATA_STEP_BYTES: u64 = 4 << 20;
/// Control pages made ahead of the sessions that get them: programs come one after the other, or a few at once.
const SPARE_CONTROLS: usize = 4;
/// A session that works lets go of freed blocks sooner than this.
const IDLE_KEEPER: Duration = Duration::from_millis(100);

impl SharedFs {
    /// Makes one thing ready: control pages, a segment or a step of an arena's memory. Says whether there was one to make.
    pub fn prepare(&self) -> Result<bool, Error> {
        self.references.sweep_if_many()?;
        if self.take_back_from_idle_keepers()? {
            return Ok(true);
        }
        if self.controls.lock().len() < SPARE_CONTROLS {
            let control = Control::new()?;
            self.controls.lock().push(control);
            return Ok(true);
        }
        let (ready, kept) = (self.options.spare_segments as usize, self.spare_segments_kept());
        let lacking = self.core.lock().lacking(&self.nodes, ready, kept);
        if let Some(node) = lacking {
            let id = self.core.lock().pool.next_id();
            let segment = self.make_segment(id, node)?;
            self.core.lock().pool.add(&segment);
            return Ok(true);
        }
        let blocks = u64::from(self.superblock.geometry.arena_blocks());
        let spare = blocks * u64::from(self.options.spare_arenas);
        if let Some(node) = self.lacking_memory(spare) {
            return match self.grow(node, || self.lacking_memory(spare).is_none()) {
                // Nothing can be made ready, and the session that needs it is told so.
                Err(Error::NoSpace) => Ok(false),
                grown => grown,
            };
        }
        let slack = self.metadata.slack_bytes();
        let wanted = (slack + METADATA_STEP_BYTES).min(METADATA_SLACK_BYTES);
        Ok(spare > 0 && slack < wanted && self.metadata.make_slack(wanted).is_ok())
    }

    /// Fences idle sessions that keep freed blocks of a tier, if content went to another tier for want of blocks there.
    /// Returns whether there was one. A store of one tier takes such blocks back when it is full.
    fn take_back_from_idle_keepers(&self) -> Result<bool, Error> {
        if self.arenas.tiers_count() == 1 {
            return Ok(false);
        }
        let keepers = self.space.lock().allocator.take_idle_keepers(IDLE_KEEPER);
        for &session in &keepers {
            self.take_back_space(session)?;
        }
        Ok(!keepers.is_empty())
    }

    /// Makes arena memory of small pages into a huge page. Says whether there was any.
    pub(crate) fn collapse_step(&self) -> Result<bool, Error> {
        self.storage().arenas.collapse()
    }

    /// Spare segments that are none too many: each node may have its share.
    pub(crate) fn spare_segments_kept(&self) -> usize {
        self.options.spare_segments as usize * self.nodes.all().count().max(1)
    }

    /// Makes a segment, a file of the tier that has no owner yet.
    pub(crate) fn make_segment(&self, id: SegmentId, node: Option<Node>) -> Result<Segment, Error> {
        if self.is_left() {
            return Err(MetadataError::Left.into());
        }
        let Superblock { medium, geometry, .. } = self.superblock;
        make_segment(&self.parts, geometry.segment_bytes, medium, id, node)
    }

    /// Where memory of arenas is lacking, if `ready` blocks are to be ready: on which node, or on any.
    fn lacking_memory(&self, ready: u64) -> Option<Option<Node>> {
        let in_use = self.core.lock().nodes_in_use(&self.nodes);
        let beyond = self.mapped.beyond();
        let space = self.space.lock();
        let lacks = self.room_in(&space, beyond) < ready;
        let can_be_made = self.unmade_fast(&space) > beyond;
        lacking_memory(&in_use, space.allocator.nodes(), ready, lacks, can_be_made, Instant::now())
    }
}
