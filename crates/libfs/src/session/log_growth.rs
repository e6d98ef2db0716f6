//! Growing the log by segments, up to the whole ring. Only a fully grown log wraps.

use crate::errno::{Error, unexpected};
use crate::session::session::Session;
use crate::sync::Ordering;
use cuesta_format::LogPosition;
use cuesta_format::wire::{Request, Response};
use cuesta_media::Protection;

impl Session {
    /// Whether the log should get more segments: the session has used more than a quarter of them. It asks
    /// early, because a fully grown log never waits for a segment again.
    #[inline]
    pub(crate) fn wants_to_grow(&self) -> bool {
        let slots = self.slots.load(Ordering::Relaxed);
        let admitted = self.appender.admitted().0;
        slots < self.geometry().ring_slots
            && admitted * 4 > u64::from(slots) * self.geometry().segment_bytes
            && admitted >= self.grow_again.load(Ordering::Relaxed)
    }

    /// Doubles the log ahead of need, unless another thread does.
    pub(crate) fn grow_ahead(&self) -> Result<(), Error> {
        if self.growing.is_locked() || self.grow_towards(LogPosition(0))? {
            return Ok(());
        }
        let admitted_again = self.appender.admitted().0 + self.geometry().segment_bytes / 4;
        self.grow_again.store(admitted_again, Ordering::Relaxed);
        Ok(())
    }

    /// Whether every slot of the ring is granted: only then does the log wrap.
    pub(crate) fn is_fully_grown(&self) -> bool {
        self.slots.load(Ordering::Acquire) >= self.geometry().ring_slots
    }

    /// Doubles the log, or more if `needed` must fit below the limit. `false`: nothing was added.
    pub(crate) fn grow_towards(&self, needed: LogPosition) -> Result<bool, Error> {
        let slots = self.slots.load(Ordering::Acquire);
        let for_need = needed.0.div_ceil(self.geometry().segment_bytes).min(u64::from(u32::MAX)) as u32;
        self.grow(for_need.max(slots.saturating_mul(2)))
    }

    fn grow(&self, wanted: u32) -> Result<bool, Error> {
        let _growing = self.growing.lock();
        let geometry = *self.geometry();
        let have = self.slots.load(Ordering::Acquire);
        let wanted = wanted.min(geometry.ring_slots);
        if wanted <= have {
            return Ok(false);
        }
        let mut segments = Vec::new();
        let offsets = match self.call(&Request::GrowLog { have, slots: wanted }, &mut segments) {
            Ok(Response::Grown { offsets }) => offsets,
            Ok(other) => return Err(unexpected(&other)),
            Err(Error::NoSpace) => Vec::new(),
            Err(error) => return Err(error),
        };
        // Fewer segments arrive if the process has no descriptors left. The next request gets the rest.
        let added = offsets.len();
        if added > (geometry.ring_slots - have) as usize || segments.len() > added {
            return Err(Error::Daemon("more log segments than were asked for".into()));
        }
        if segments.is_empty() && added > 0 {
            return Err(Error::Descriptors);
        }
        let bytes = geometry.segment_bytes;
        let window = self.appender.ring().window();
        for (slot, (segment, &offset)) in (have..).zip(segments.iter().zip(&offsets)) {
            let at = u64::from(slot) * bytes;
            // The first segment is not prefaulted: a short program touches little of it.
            window.map(segment, offset, bytes, at, Protection::ReadWrite, slot > 0)?;
            if slot < geometry.overlap_slots() {
                let behind = geometry.ring_bytes() + at;
                // Only entries that cross the ring's end touch this copy. They are too few to prefault it at
                // every start.
                window.map(segment, offset, bytes, behind, Protection::ReadWrite, false)?;
            }
            self.slots.store(slot + 1, Ordering::Release);
        }
        self.appender.set_limit(self.slots.load(Ordering::Acquire), self.retired());
        Ok(added > 0)
    }
}
