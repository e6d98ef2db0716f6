//! A hash table that grows by one part at a time (linear hashing), so that no insertion pays for the whole
//! table.
//!
//! A single large table doubles at once. At a few hundred thousand names that stops a program for tens of
//! milliseconds. Here an insertion that fills a part splits one part, the next in order. Each part is a table
//! of bounded size.

use hashbrown::HashTable;

/// Average items in a part before a part is split.
const PART_ITEMS: usize = 512;

/// The first bit of a hash that chooses the part. Other bits choose within the part.
const PART_SHIFT: u32 = 20;

/// The items, each found by a hash that the user of the table provides.
#[derive(Clone, Debug)]
pub(crate) struct SplitTable<T> {
    parts: Vec<HashTable<T>>,
    count: usize,
}

impl<T> SplitTable<T> {
    pub(crate) fn new() -> SplitTable<T> {
        SplitTable { parts: Vec::new(), count: 0 }
    }

    /// Reserves memory for `items`, or for those of one part.
    pub(crate) fn expect(&mut self, items: usize) {
        if self.parts.is_empty() && items > 0 {
            self.parts.push(HashTable::with_capacity(items.min(PART_ITEMS)));
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// A part below the last power of two uses one more bit if it has been split.
    #[inline]
    fn part_of(&self, hash: u64) -> usize {
        let bits = (hash >> PART_SHIFT) as usize;
        let all = self.parts.len().next_power_of_two() - 1;
        let part = bits & all;
        if part < self.parts.len() { part } else { bits & (all >> 1) }
    }

    #[inline]
    pub(crate) fn find(&self, hash: u64, is: impl FnMut(&T) -> bool) -> Option<&T> {
        self.parts.get(self.part_of(hash))?.find(hash, is)
    }

    #[inline]
    pub(crate) fn find_mut(&mut self, hash: u64, is: impl FnMut(&T) -> bool) -> Option<&mut T> {
        let part = self.part_of(hash);
        self.parts.get_mut(part)?.find_mut(hash, is)
    }

    /// Adds an item that is not in the table. `hash_of` gives the hash of items that must move.
    #[inline]
    pub(crate) fn insert_new(&mut self, hash: u64, item: T, hash_of: impl Fn(&T) -> u64) {
        if self.count >= self.parts.len() * PART_ITEMS {
            self.add_part(&hash_of);
        }
        let part = self.part_of(hash);
        self.parts[part].insert_unique(hash, item, hash_of);
        self.count += 1;
    }

    #[cold]
    fn add_part(&mut self, hash_of: &impl Fn(&T) -> u64) {
        let new = self.parts.len();
        let mut added = HashTable::new();
        if new > 0 {
            let bit = 1 << new.ilog2();
            let moves = |item: &mut T| (hash_of(item) >> PART_SHIFT) as usize & bit != 0;
            let split = &mut self.parts[new - bit];
            // Half of the items move, or a few more.
            added.reserve(split.len() / 2 + split.len() / 16, hash_of);
            for item in split.extract_if(moves) {
                added.insert_unique(hash_of(&item), item, hash_of);
            }
        }
        self.parts.push(added);
    }

    #[inline]
    pub(crate) fn remove(&mut self, hash: u64, is: impl FnMut(&T) -> bool) -> Option<T> {
        let part = self.part_of(hash);
        let (item, _) = self.parts.get_mut(part)?.find_entry(hash, is).ok()?.remove();
        self.count -= 1;
        Some(item)
    }

    /// All items.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.parts.iter().flatten()
    }

    /// How many parts there are.
    pub(crate) fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Removes the items of one part that fit `which`, and answers them.
    pub(crate) fn take_from_part(&mut self, part: usize, which: impl FnMut(&mut T) -> bool) -> Vec<T> {
        let Some(part) = self.parts.get_mut(part) else { return Vec::new() };
        let taken: Vec<T> = part.extract_if(which).collect();
        self.count -= taken.len();
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    fn check(table: &SplitTable<u64>, model: &HashSet<u64>, state: &impl BuildHasher) {
        assert_eq!(table.len(), model.len());
        assert_eq!(table.iter().copied().collect::<HashSet<_>>(), *model);
        assert!(model.iter().all(|number| table.find(state.hash_one(number), |at| at == number).is_some()));
    }

    #[test]
    fn it_agrees_with_a_set_while_it_grows() {
        let state = hashbrown::DefaultHashBuilder::default();
        let mut random = fastrand::Rng::with_seed(7);
        let (mut table, mut model) = (SplitTable::new(), HashSet::new());
        for step in 0..40_000 {
            let number = random.u64(0..20_000);
            let hash = state.hash_one(number);
            if random.u8(..) < 80 {
                assert_eq!(table.remove(hash, |&at| at == number), model.take(&number));
            } else if model.insert(number) {
                table.insert_new(hash, number, |number| state.hash_one(number));
            } else {
                assert_eq!(table.find_mut(hash, |&at| at == number), Some(&mut { number }));
            }
            if step % 5000 == 0 {
                check(&table, &model, &state);
            }
        }
        check(&table, &model, &state);
        let odd = table.take_from_part(1, |number| *number % 2 == 1);
        assert!(!odd.is_empty() && odd.iter().all(|number| model.remove(number) && number % 2 == 1));
        check(&table, &model, &state);
    }

    #[test]
    fn no_part_holds_many_times_the_average() {
        let state = hashbrown::DefaultHashBuilder::default();
        let mut table = SplitTable::new();
        for number in 0..200_000_u64 {
            table.insert_new(state.hash_one(number), number, |number| state.hash_one(number));
        }
        let largest = table.parts.iter().map(HashTable::len).max();
        assert!(largest.is_some_and(|most| most < 3 * PART_ITEMS), "{largest:?}");
    }
}
