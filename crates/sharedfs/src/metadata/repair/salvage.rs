//! What can still be read of a store of which pages are damaged in every copy, written to a new one.
//!
//! The tree leads from its root to its leaves: a damaged leaf takes its entries along, a damaged branch all below
//! it. Salvage reads the entries beside them by ranges: forwards up to the damage; then from behind it, which it
//! looks for in steps that double, backwards to it. redb works on nothing that once failed, so it is opened anew
//! behind each damaged page.

use crate::metadata::codec::Table;
use crate::metadata::files::Files;
use crate::metadata::journal::{self, JournalGeneration};
use crate::metadata::shared::JOURNAL_COUNTER;
use crate::metadata::tree::{Bounds, Direction, Opened, Snapshot, guarded, is_damage_noted};
use crate::metadata::{MetadataError, MetadataStore};
use cuesta_media::Medium;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

/// Entries that are committed at once.
const BATCH: usize = 20_000;
/// Pages kept in memory.
const CACHE_BYTES: u64 = 16 << 20;

/// The losses, for people, one line each.
pub type Lost = Vec<String>;

type Pair = (Vec<u8>, Vec<u8>);

/// The damaged store.
struct Damaged<'a> {
    files: &'a Files,
    opened: Option<Opened>,
}

/// How far a range could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    End,
    Damage,
}

impl Damaged<'_> {
    fn opened(&mut self) -> Result<&Opened, MetadataError> {
        match &mut self.opened {
            Some(opened) => Ok(opened),
            none => Ok(none.insert(Opened::new(self.files, CACHE_BYTES)?)),
        }
    }

    /// Reads pairs of a range, until `take` says that it has enough.
    fn read(
        &mut self,
        table: Table,
        (from, to): Bounds<'_>,
        direction: Direction,
        mut take: impl FnMut(&[u8], &[u8]) -> Result<bool, MetadataError>,
    ) -> Result<Reach, MetadataError> {
        let mut taken = Ok(());
        let opened = self.opened()?;
        let read = guarded(|| {
            let tree = opened.read_tree()?;
            let Some(opened) = tree.table(table)? else { return Ok(()) };
            let mut range = opened.range::<&[u8]>((from, to))?;
            loop {
                let next = match direction {
                    Direction::Forwards => range.next(),
                    Direction::Backwards => range.next_back(),
                };
                let Some((key, value)) = next.transpose()?.filter(|_| !is_damage_noted()) else {
                    return Ok(());
                };
                match take(key.value(), value.value()) {
                    Ok(true) => {}
                    Ok(false) => return Ok(()),
                    Err(error) => {
                        taken = Err(error);
                        return Ok(());
                    }
                }
            }
        });
        taken?;
        if read.is_ok() {
            return Ok(Reach::End);
        }
        self.opened = None;
        Ok(Reach::Damage)
    }

    /// The first key that can be read behind the damage at `from`.
    fn behind(&mut self, table: Table, from: &[u8]) -> Result<Option<Vec<u8>>, MetadataError> {
        let mut head = [0; 16];
        let known = from.len().min(head.len());
        head[..known].copy_from_slice(&from[..known]);
        let head = u128::from_be_bytes(head);
        for step in 0..u128::BITS {
            let Some(probe) = head.checked_add(1 << step) else { break };
            let probe = probe.to_be_bytes();
            let mut found = None;
            let bounds: Bounds<'_> = (Bound::Included(&probe), Bound::Unbounded);
            let reach = self.read(table, bounds, Direction::Forwards, |key, _| {
                found = Some(key.to_vec());
                Ok(false)
            })?;
            if reach == Reach::End || found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Reads all of a table that can be read, and says between which keys it cannot.
    fn read_all(
        &mut self,
        table: Table,
        mut put: impl FnMut(Pair) -> Result<(), MetadataError>,
    ) -> Result<Vec<[Option<Vec<u8>>; 2]>, MetadataError> {
        let mut gaps = Vec::new();
        let mut last: Option<Vec<u8>> = None;
        let mut from = Bound::Unbounded;
        loop {
            let bounds = (from.as_ref().map(|key: &Vec<u8>| &key[..]), Bound::Unbounded);
            let reach = self.read(table, bounds, Direction::Forwards, |key, value| {
                last = Some(key.to_vec());
                put((key.to_vec(), value.to_vec()))?;
                Ok(true)
            })?;
            if reach == Reach::End {
                return Ok(gaps);
            }
            let Some(next) = self.behind(table, last.as_deref().unwrap_or_default())? else {
                gaps.push([last, None]);
                return Ok(gaps);
            };
            let first = last.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let mut earliest = next.clone();
            self.read(table, (first, Bound::Excluded(&next)), Direction::Backwards, |key, value| {
                earliest = key.to_vec();
                put((key.to_vec(), value.to_vec()))?;
                Ok(true)
            })?;
            gaps.push([last.take(), Some(earliest)]);
            // Where that was damaged again behind the key, it is met once more from there.
            last = Some(next.clone());
            from = Bound::Included(next);
        }
    }

    /// The generation of the journal behind the tree.
    fn journal_generation(&mut self) -> Result<Option<JournalGeneration>, MetadataError> {
        let opened = self.opened()?;
        let found = guarded(|| Snapshot::new(opened.read_tree()?, Arc::default()).counter(JOURNAL_COUNTER));
        if found.is_err() {
            self.opened = None;
        }
        Ok(found.ok().flatten().map(JournalGeneration))
    }
}

/// A gap of a table in words.
fn words(table: Table, [after, before]: &[Option<Vec<u8>>; 2]) -> String {
    let number = |key: &Option<Vec<u8>>| {
        let head = key.as_ref()?.first_chunk::<8>()?;
        Some(u64::from_be_bytes(*head))
    };
    let (what, unit) = match table {
        Table::Inodes => ("inodes", crate::metadata::codec::CHUNK_INODES),
        Table::Dirents => ("names in directories", 1),
        Table::Extended => ("extended attributes of inodes", 1),
        Table::Extents => ("where the content lies of inodes", 1),
        Table::Symlinks => ("targets of symbolic links", 1),
        table => return format!("entries of the table \"{}\"", table.name()),
    };
    let from = number(after).map_or(0, |number| number * unit);
    match number(before) {
        Some(to) => format!("{what} from {from} to {}", (to + 1) * unit - 1),
        None => format!("{what} from {from} on"),
    }
}

impl MetadataStore {
    /// Writes to a new store, with its files at `to`, what can be read of the one in `files`. Says what cannot.
    ///
    /// # Errors
    /// [`MetadataError::Damaged`] where not even the way to the tables can be read.
    pub fn salvage(files: &Files, to: &Path, medium: Medium) -> Result<(MetadataStore, Lost), MetadataError> {
        let mut damaged = Damaged { files, opened: None };
        damaged.opened()?;
        let mut lost = Lost::new();
        let overlay = match damaged.journal_generation()? {
            Some(generation) => {
                let replayed = journal::replay(&damaged.opened()?.file, generation)?;
                lost.extend(replayed.flaw.map(|flaw| format!("changes that were made last: {flaw}")));
                Some(replayed.overlay)
            }
            None => {
                lost.push("changes that were made last".to_owned());
                None
            }
        };
        let store = MetadataStore::create(to, medium)?;
        for table in Table::ALL {
            let mut batch: Vec<Pair> = Vec::new();
            let gaps = damaged.read_all(table, |pair| {
                if table != Table::Counters || pair.0 != JOURNAL_COUNTER.as_bytes() {
                    batch.push(pair);
                }
                if batch.len() >= BATCH { store.put_raw(table, &mut batch) } else { Ok(()) }
            })?;
            store.put_raw(table, &mut batch)?;
            lost.extend(gaps.iter().map(|gap| words(table, gap)));
            if let Some(overlay) = &overlay {
                store.change_raw(table, overlay.all(table))?;
            }
        }
        Ok((store, lost))
    }

    fn put_raw(&self, table: Table, batch: &mut Vec<Pair>) -> Result<(), MetadataError> {
        self.change_raw(table, batch.iter().map(|(key, value)| (&key[..], Some(&value[..]))))?;
        batch.clear();
        Ok(())
    }

    /// Puts pairs into a table, and removes keys.
    fn change_raw<'a>(
        &self,
        table: Table,
        changes: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
    ) -> Result<(), MetadataError> {
        let mut changes = changes.peekable();
        if changes.peek().is_none() {
            return Ok(());
        }
        self.make_slack((BATCH * 512) as u64)?;
        guarded(|| {
            let tree = self.begin_tree()?;
            let mut opened = tree.open_table(table.definition())?;
            for (key, value) in changes {
                match value {
                    Some(value) => drop(opened.insert(key, value)?),
                    None => drop(opened.remove(key)?),
                }
            }
            drop(opened);
            tree.commit()
        })
    }
}
