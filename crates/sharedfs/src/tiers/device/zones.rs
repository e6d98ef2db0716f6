//! Which zones of a device are taken: first fit, in whole zones.

use std::collections::BTreeMap;
use std::ops::Range;

/// A mapping of persistent memory begins and ends at multiples of this, as the kernel has it unless told otherwise.
pub const ZONE_BYTES: u64 = 2 << 20;

/// The taken parts of a device, none of which overlap.
#[derive(Debug)]
pub struct Zones {
    bytes: u64,
    taken: BTreeMap<u64, u64>,
}

impl Zones {
    /// A device of so many bytes, of which nothing is taken.
    pub fn new(bytes: u64) -> Zones {
        Zones { bytes: bytes / ZONE_BYTES * ZONE_BYTES, taken: BTreeMap::new() }
    }

    /// Marks a zone that is known to be taken. `false`: it lies not on the device, or another part has some of
    /// it.
    pub fn mark(&mut self, part: Range<u64>) -> bool {
        let whole = part.start..part.end.next_multiple_of(ZONE_BYTES);
        let before = self.taken.range(..whole.end).next_back().map_or(0, |(_, &end)| end);
        let is_free = whole.start.is_multiple_of(ZONE_BYTES)
            && !part.is_empty()
            && before <= whole.start
            && whole.end <= self.bytes;
        if is_free {
            self.taken.insert(whole.start, whole.end);
        }
        is_free
    }

    /// Takes zones for `len` bytes, the first that are free; answers where.
    pub fn take(&mut self, len: u64) -> Option<u64> {
        let mut at = 0;
        for (&start, &end) in &self.taken {
            if start - at >= len {
                break;
            }
            at = end;
        }
        self.mark(at..at + len).then_some(at)
    }

    /// Gives back what was taken at `start`.
    pub fn free(&mut self, start: u64) {
        self.taken.remove(&start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZONE: u64 = ZONE_BYTES;

    #[test]
    fn a_zone_is_taken_once_and_free_again_when_given_back() {
        let mut zones = Zones::new(5 * ZONE + 4096);
        assert!(zones.mark(0..4096));
        assert_eq!(zones.take(2 * ZONE), Some(ZONE));
        assert_eq!(zones.take(1), Some(3 * ZONE));
        assert_eq!(zones.take(2 * ZONE), None);
        zones.free(ZONE);
        assert_eq!(zones.take(ZONE + 1), Some(ZONE));
        assert_eq!(zones.take(ZONE), Some(4 * ZONE));
        assert_eq!(zones.take(1), None, "the rest is no whole zone");
    }

    #[test]
    fn overlapping_and_foreign_zones_are_not_marked() {
        let mut zones = Zones::new(4 * ZONE);
        assert!(zones.mark(ZONE..2 * ZONE));
        for part in [ZONE..2 * ZONE, 0..ZONE + 1, ZONE / 2..ZONE, 3 * ZONE..4 * ZONE + 1, 2 * ZONE..2 * ZONE]
        {
            assert!(!zones.mark(part.clone()), "{part:?}");
        }
        assert!(zones.mark(2 * ZONE..4 * ZONE));
        assert!(zones.mark(0..1));
    }
}
