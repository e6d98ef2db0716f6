//! The names that a transaction changes, by key.
//!
//! A digest changes tens of thousands of names, in the order of their keys: such lie one behind the other, without an
//! allocation for each. The few that come in another order have a map of their own.

use crate::metadata::codec::{Dirent, name_key_into};
use cuesta_format::InodeNumber;
use std::collections::BTreeMap;
use std::ops::Bound;

/// What becomes of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NameChange {
    /// The inode it stands for; `None`: it is removed.
    pub(crate) now: Option<Dirent>,
    /// The name must not be there yet.
    pub(crate) must_be_new: bool,
}

#[derive(Debug)]
struct Appended {
    /// Behind its key, which begins where the one before ends.
    end: usize,
    change: NameChange,
}

/// The changes. A key is in one of the two places: one out of order lies before the last that came in order.
#[derive(Debug, Default)]
pub(crate) struct NameChanges {
    keys: Vec<u8>,
    in_order: Vec<Appended>,
    out_of_order: BTreeMap<Vec<u8>, NameChange>,
}

impl NameChanges {
    /// Forgets everything, keeping the memory.
    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.in_order.clear();
        self.out_of_order.clear();
    }

    /// Bytes of memory it keeps.
    pub(crate) fn capacity_bytes(&self) -> usize {
        self.keys.capacity() + self.in_order.capacity() * size_of::<Appended>()
    }

    /// Says what becomes of a name, whatever was said before.
    pub(crate) fn insert(&mut self, parent: InodeNumber, name: &[u8], change: NameChange) {
        let start = self.keys.len();
        let last = self.in_order.len().checked_sub(1).map(|last| self.start(last)..start);
        name_key_into(parent, name, &mut self.keys);
        let key = &self.keys[start..];
        if last.is_none_or(|last| self.keys[last] < *key) {
            self.in_order.push(Appended { end: self.keys.len(), change });
            return;
        }
        match self.place(key) {
            Ok(place) => self.in_order[place].change = change,
            Err(_) => {
                self.out_of_order.insert(key.to_vec(), change);
            }
        }
        self.keys.truncate(start);
    }

    fn start(&self, place: usize) -> usize {
        place.checked_sub(1).map_or(0, |before| self.in_order[before].end)
    }

    fn key(&self, place: usize) -> &[u8] {
        &self.keys[self.start(place)..self.in_order[place].end]
    }

    /// The place of a key among those in order, or where it would be.
    fn place(&self, key: &[u8]) -> Result<usize, usize> {
        let (mut from, mut to) = (0, self.in_order.len());
        while from < to {
            let middle = from.midpoint(to);
            match self.key(middle).cmp(key) {
                std::cmp::Ordering::Less => from = middle + 1,
                std::cmp::Ordering::Equal => return Ok(middle),
                std::cmp::Ordering::Greater => to = middle,
            }
        }
        Err(from)
    }

    /// What becomes of the name with a key, if it is one that changes.
    pub(crate) fn get(&self, key: &[u8]) -> Option<NameChange> {
        match self.place(key) {
            Ok(place) => Some(self.in_order[place].change),
            Err(_) => self.out_of_order.get(key).copied(),
        }
    }

    /// All of them, in the order of their keys.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&[u8], NameChange)> {
        self.merged(0, Bound::Unbounded)
    }

    /// Those behind a key.
    pub(crate) fn behind(&self, key: &[u8]) -> impl Iterator<Item = (&[u8], NameChange)> {
        let first = self.place(key).map_or_else(|place| place, |place| place + 1);
        self.merged(first, Bound::Excluded(key))
    }

    fn merged(&self, first: usize, from: Bound<&[u8]>) -> impl Iterator<Item = (&[u8], NameChange)> {
        let mut start = if first < self.in_order.len() { self.start(first) } else { 0 };
        let in_order = self.in_order[first..].iter().map(move |appended| {
            let key = &self.keys[std::mem::replace(&mut start, appended.end)..appended.end];
            (key, appended.change)
        });
        let mut in_order = in_order.peekable();
        let others = self.out_of_order.range::<[u8], _>((from, Bound::Unbounded));
        let mut others = others.map(|(key, change)| (&key[..], *change)).peekable();
        std::iter::from_fn(move || match (in_order.peek(), others.peek()) {
            (Some((key, _)), Some((other, _))) if other < key => others.next(),
            (None, _) => others.next(),
            _ => in_order.next(),
        })
    }
}

/// The names that must not be there yet.
#[derive(Clone, Copy)]
pub(crate) struct NewNames<'a>(pub(crate) Option<&'a NameChanges>);

impl NewNames<'_> {
    /// No names.
    pub(crate) const NONE: NewNames<'static> = NewNames(None);

    /// Their keys, in order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        let all = self.0.into_iter().flat_map(NameChanges::all);
        all.filter(|(_, change)| change.must_be_new).map(|(key, _)| key)
    }

    /// Whether this is one's key.
    pub(crate) fn contain(&self, key: &[u8]) -> bool {
        self.0.and_then(|names| names.get(key)).is_some_and(|change| change.must_be_new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuesta_format::FileKind;

    #[test]
    fn it_agrees_with_a_map_in_whatever_order_names_come() {
        let seed = 3;
        let mut random = fastrand::Rng::with_seed(seed);
        let mut changes = NameChanges::default();
        for round in 0..200 {
            changes.clear();
            let mut map = BTreeMap::new();
            for step in 0..random.u64(0..60) {
                let parent = InodeNumber(random.u64(1..4));
                let sorted = round % 3 == 0;
                let name = format!("{:03}", if sorted { step } else { random.u64(0..40) });
                let now = random.bool().then_some(Dirent { inode: InodeNumber(step), kind: FileKind::File });
                let change = NameChange { now, must_be_new: random.bool() };
                changes.insert(parent, name.as_bytes(), change);
                map.insert(crate::metadata::codec::name_key(parent, name.as_bytes()), change);
            }
            let all: Vec<_> = changes.all().map(|(key, change)| (key.to_vec(), change)).collect();
            assert_eq!(all, map.clone().into_iter().collect::<Vec<_>>(), "seed {seed}, round {round}");
            for name in 0..40 {
                let parent = InodeNumber(random.u64(1..4));
                let key = crate::metadata::codec::name_key(parent, format!("{name:03}").as_bytes());
                assert_eq!(changes.get(&key), map.get(&key).copied(), "seed {seed}, round {round}");
                let behind: Vec<_> = changes.behind(&key).map(|(key, _)| key.to_vec()).collect();
                let expected = map.range((Bound::Excluded(key), Bound::Unbounded));
                let expected: Vec<_> = expected.map(|(key, _)| key.clone()).collect();
                assert_eq!(behind, expected, "seed {seed}, round {round}");
            }
        }
    }
}
