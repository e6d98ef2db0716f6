//! How far a log may be written: space is admitted before any lock is taken, and given back if unused.

use crate::sync::{AtomicU64, Ordering};
use cuesta_format::{Geometry, LogPosition};

/// There is no room: the caller grows the log, retires what was digested, or waits for a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the operation log is full: it would have to reach {needed}")]
pub struct LogFull {
    /// The position the limit must reach for the admission to succeed.
    pub needed: LogPosition,
}

/// The account of a log's bytes.
#[derive(Debug)]
pub(crate) struct Space {
    /// Every byte below was admitted. A mere count: what orders memory is the limit.
    admitted: AtomicU64,
    /// No byte at or above may be admitted.
    limit: AtomicU64,
}

/// The right to reserve this many bytes; given back when dropped.
#[derive(Debug)]
#[must_use]
pub struct Admission<'a> {
    space: &'a Space,
    pub(crate) bytes: u64,
}

impl Space {
    pub(crate) fn new(start: LogPosition) -> Space {
        Space { admitted: AtomicU64::new(start.0), limit: AtomicU64::new(start.0) }
    }

    /// Until every slot of the ring is granted the log ends with the last granted one; then it wraps, and ends
    /// one ring behind what was retired.
    pub(crate) fn set_limit(&self, geometry: &Geometry, granted_slots: u32, retired: LogPosition) {
        let limit = if granted_slots < geometry.ring_slots {
            u64::from(granted_slots) * geometry.segment_bytes
        } else {
            retired.0 + geometry.ring_bytes()
        };
        self.limit.fetch_max(limit, Ordering::Release);
    }

    #[inline]
    pub(crate) fn admit(&self, bytes: u64) -> Result<Admission<'_>, LogFull> {
        let mut admitted = self.admitted.load(Ordering::Relaxed);
        loop {
            let needed = admitted + bytes;
            // The limit is read with each try: the room that it allows was retired before it moved.
            if needed > self.limit.load(Ordering::Acquire) {
                return Err(LogFull { needed: LogPosition(needed) });
            }
            match self.admitted.compare_exchange_weak(admitted, needed, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return Ok(Admission { space: self, bytes }),
                Err(moved) => admitted = moved,
            }
        }
    }

    pub(crate) fn admitted(&self) -> LogPosition {
        LogPosition(self.admitted.load(Ordering::Relaxed))
    }

    pub(crate) fn limit(&self) -> LogPosition {
        LogPosition(self.limit.load(Ordering::Acquire))
    }

    /// Starts again at `position`; nothing is admitted or reserved meanwhile.
    pub(crate) fn restart(&self, position: LogPosition) {
        self.admitted.store(position.0, Ordering::Relaxed);
    }
}

impl Admission<'_> {
    /// Turns the right into a reservation: the bytes are not given back.
    pub(crate) fn consume(self) {
        std::mem::forget(self);
    }
}

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        self.space.admitted.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry() -> Geometry {
        Geometry { segment_bytes: 16 << 10, ring_slots: 4, ..Geometry::default() }
    }

    #[test]
    fn the_limit_follows_grants_then_laps() {
        let space = Space::new(LogPosition(0));
        assert!(space.admit(64).is_err());
        space.set_limit(&geometry(), 1, LogPosition(0));
        assert_eq!(space.limit(), LogPosition(16 << 10));
        space.set_limit(&geometry(), 4, LogPosition(640));
        assert_eq!(space.limit(), LogPosition((64 << 10) + 640));
        space.set_limit(&geometry(), 4, LogPosition(0));
        assert_eq!(space.limit(), LogPosition((64 << 10) + 640), "a late caller cannot pull it back");
    }

    #[test]
    fn unused_admissions_are_given_back() {
        let space = Space::new(LogPosition(0));
        space.set_limit(&geometry(), 1, LogPosition(0));
        let whole = space.admit(16 << 10).unwrap();
        assert_eq!(space.admit(64).err(), Some(LogFull { needed: LogPosition((16 << 10) + 64) }));
        drop(whole);
        space.admit(64).unwrap().consume();
        assert_eq!(space.admitted(), LogPosition(64));
    }
}
