//! Reading: the committed state as of the moment the snapshot was taken, undisturbed by the writer.

use super::guard::guarded;
use super::layered::{self, Bounds, Direction, EVERYTHING, Merged, Overlay, StoredBytes, TreeAt};
use crate::metadata::MetadataError;
use crate::metadata::codec::{
    CHUNK_INODES, Chunk, Counters, Dirent, ExtentList, RawInode, SessionRecord, StoredInode, Table,
    allowance, amounts, chunk_of, close_together, counter, extent_place, name_in, name_key, number_in,
    number_key, owner_and_name, pair_in, pair_key, payer_in, payer_key, walk, written_in_key,
};
use cuesta_format::quota::{Allowance, Amounts, Payer};
use cuesta_format::wire::ExtendedAttribute;
use cuesta_format::{ArenaId, BlockAddress, Extent, InodeNumber, SessionId, TierNumber};
use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::sync::Arc;

/// The store at one commit: the tree, and the commits since it was written.
pub struct Snapshot {
    tree: Arc<TreeAt>,
    overlay: Arc<Overlay>,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name.
    pub name: Vec<u8>,
    /// The inode it stands for.
    pub dirent: Dirent,
}

/// A session's window at rest: the address of its first block, and the blocks that the session may still name.
pub type KeptWindow = (SessionId, BlockAddress, Vec<u8>);

impl Snapshot {
    pub(crate) fn new(tree: Arc<TreeAt>, overlay: Arc<Overlay>) -> Snapshot {
        Snapshot { tree, overlay }
    }

    /// Whether every table is there.
    pub(crate) fn check_tables(&self) -> Result<(), MetadataError> {
        guarded(|| Table::ALL.into_iter().try_for_each(|table| self.tree.table(table).map(|_| ())))
    }

    pub(crate) fn get(&self, table: Table, key: &[u8]) -> Result<Option<StoredBytes>, MetadataError> {
        layered::get(&self.tree, &self.overlay, table, key)
    }

    /// Commits since the tree was written.
    pub(crate) fn overlay(&self) -> &Arc<Overlay> {
        &self.overlay
    }

    /// The tree, without that.
    pub(crate) fn tree(&self) -> &TreeAt {
        &self.tree
    }

    pub(crate) fn range(&self, table: Table, bounds: Bounds<'_>) -> Result<Merged<'_>, MetadataError> {
        layered::range(&self.tree, &self.overlay, table, bounds, Direction::Forwards)
    }

    /// The same from its end.
    fn range_back(&self, table: Table, bounds: Bounds<'_>) -> Result<Merged<'_>, MetadataError> {
        layered::range(&self.tree, &self.overlay, table, bounds, Direction::Backwards)
    }

    /// An inode.
    pub fn inode(&self, inode: InodeNumber) -> Result<Option<StoredInode>, MetadataError> {
        guarded(|| {
            let (chunk, slot) = chunk_of(inode);
            match self.get(Table::Inodes, &number_key(chunk))? {
                Some(bytes) => Chunk::decode_one(chunk, &bytes, slot),
                None => Ok(None),
            }
        })
    }

    /// Shows the inodes with these numbers to `visit`, in order, until it answers false.
    pub fn visit_numbers(
        &self,
        numbers: Range<u64>,
        mut visit: impl FnMut(RawInode<'_>) -> Result<bool, MetadataError>,
    ) -> Result<(), MetadataError> {
        guarded(|| {
            if numbers.is_empty() {
                return Ok(());
            }
            let (first, last) =
                (number_key(numbers.start / CHUNK_INODES), number_key((numbers.end - 1) / CHUNK_INODES));
            for pair in self.range(Table::Inodes, (Bound::Included(&first), Bound::Included(&last)))? {
                let (key, bytes) = pair?;
                let mut goes_on = Ok(true);
                walk(number_in(&key)?, &bytes, |_, raw| {
                    if numbers.contains(&raw.number.0) {
                        goes_on = visit(raw);
                    }
                    matches!(goes_on, Ok(true))
                })?;
                if !goes_on? {
                    break;
                }
            }
            Ok(())
        })
    }

    /// A number no inode at or above it has.
    pub fn inodes_end(&self) -> Result<InodeNumber, MetadataError> {
        guarded(|| {
            let last = self.range_back(Table::Inodes, EVERYTHING)?.next().transpose()?;
            let last = last.map(|(key, _)| number_in(&key)).transpose()?;
            Ok(InodeNumber(last.map_or(0, |chunk| chunk.saturating_add(1).saturating_mul(CHUNK_INODES))))
        })
    }

    pub(crate) fn chunk(&self, chunk: u64) -> Result<Chunk, MetadataError> {
        guarded(|| match self.get(Table::Inodes, &number_key(chunk))? {
            Some(bytes) => Chunk::decode(chunk, &bytes),
            None => Ok(Chunk::default()),
        })
    }

    /// The inode a name in a directory stands for.
    pub fn lookup(&self, parent: InodeNumber, name: &[u8]) -> Result<Option<Dirent>, MetadataError> {
        self.dirent(&name_key(parent, name))
    }

    pub(crate) fn dirent(&self, key: &[u8]) -> Result<Option<Dirent>, MetadataError> {
        guarded(|| self.get(Table::Dirents, key)?.map(|bytes| Dirent::decode(&bytes)).transpose())
    }

    /// Up to `limit` names of a directory that sort behind `after` (all do behind the empty name), as bytes.
    pub fn list(&self, parent: InodeNumber, after: &[u8], limit: usize) -> Result<Vec<Entry>, MetadataError> {
        let mut entries = Vec::new();
        self.visit_names(parent, after, |name, dirent| {
            if entries.len() < limit {
                entries.push(Entry { name: name.to_vec(), dirent });
            }
            entries.len() < limit
        })?;
        Ok(entries)
    }

    /// Shows the names of a directory that sort behind `after` to `visit`, until it answers false. Says whether it saw
    /// all of them.
    pub fn visit_names(
        &self,
        parent: InodeNumber,
        after: &[u8],
        mut visit: impl FnMut(&[u8], Dirent) -> bool,
    ) -> Result<bool, MetadataError> {
        guarded(|| {
            let from = name_key(parent, after);
            for pair in self.range(Table::Dirents, (Bound::Excluded(&from), Bound::Unbounded))? {
                let (key, value) = pair?;
                let Some(name) = name_in(parent, &key) else { break };
                if !visit(name, Dirent::decode(&value)?) {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }

    /// The extents of a file that meet `blocks`, in order.
    pub fn extents(&self, inode: InodeNumber, blocks: Range<u64>) -> Result<Vec<Extent>, MetadataError> {
        guarded(|| match self.inode(inode)?.ok_or(MetadataError::NoInode(inode))?.extents {
            ExtentList::Inline(extents) => Ok(extents
                .into_iter()
                .filter(|extent| extent.file_block < blocks.end && extent.end_block() > blocks.start)
                .collect()),
            ExtentList::Table => self.table_extents(inode, blocks),
        })
    }

    /// As [`Snapshot::extents`], of many ranges in order, with some extents between them.
    pub fn extents_of_all(
        &self,
        inode: InodeNumber,
        ranges: &[Range<u64>],
    ) -> Result<Vec<Extent>, MetadataError> {
        let mut found: Vec<Extent> = Vec::new();
        for blocks in close_together(ranges.iter().cloned()) {
            let end = found.last().map_or(0, Extent::end_block);
            let extents = self.table_extents(inode, blocks)?;
            found.extend(extents.into_iter().filter(|extent| extent.file_block >= end));
        }
        Ok(found)
    }

    /// As [`Snapshot::extents`], of an inode whose extents are in the table.
    pub(crate) fn table_extents(
        &self,
        inode: InodeNumber,
        blocks: Range<u64>,
    ) -> Result<Vec<Extent>, MetadataError> {
        guarded(|| {
            let mut found = Vec::new();
            if blocks.is_empty() {
                return Ok(found);
            }
            // The one that starts before the range may reach into it.
            let [first, start, end] = [0, blocks.start, blocks.end].map(|block| pair_key(inode.0, block));
            let before = (Bound::Included(&first[..]), Bound::Excluded(&start[..]));
            if let Some(pair) = self.range_back(Table::Extents, before)?.next() {
                let (key, value) = pair?;
                found.extend(Some(extent(&key, &value)?.1).filter(|it| it.end_block() > blocks.start));
            }
            for pair in self.range(Table::Extents, (Bound::Included(&start), Bound::Excluded(&end)))? {
                let (key, value) = pair?;
                found.push(extent(&key, &value)?.1);
            }
            Ok(found)
        })
    }

    /// Where the last extent in the table starts that starts before `block` and is `wanted`.
    pub(crate) fn last_table_start_before(
        &self,
        inode: InodeNumber,
        block: u64,
        wanted: impl Fn(u64) -> bool,
    ) -> Result<Option<u64>, MetadataError> {
        guarded(|| {
            let [first, end] = [0, block].map(|block| pair_key(inode.0, block));
            let before = (Bound::Included(&first[..]), Bound::Excluded(&end[..]));
            for pair in self.range_back(Table::Extents, before)? {
                let (_, start) = pair_in(&pair?.0)?;
                if wanted(start) {
                    return Ok(Some(start));
                }
            }
            Ok(None)
        })
    }

    /// The target of a symbolic link.
    pub fn symlink(&self, inode: InodeNumber) -> Result<Option<Vec<u8>>, MetadataError> {
        guarded(|| Ok(self.get(Table::Symlinks, &number_key(inode.0))?.map(|target| target.to_vec())))
    }

    /// All extended attributes of an inode, with their values, in name order.
    pub fn extended(&self, inode: InodeNumber) -> Result<Vec<ExtendedAttribute>, MetadataError> {
        guarded(|| {
            let mut found = Vec::new();
            let from = name_key(inode, b"");
            for pair in self.range(Table::Extended, (Bound::Included(&from), Bound::Unbounded))? {
                let (key, value) = pair?;
                let Some(name) = name_in(inode, &key) else { break };
                found.push(ExtendedAttribute { name: name.to_vec(), value: value.to_vec() });
            }
            Ok(found)
        })
    }

    /// Length of the value of an extended attribute, in bytes, if the inode has it.
    pub fn extended_length(&self, inode: InodeNumber, name: &[u8]) -> Result<Option<usize>, MetadataError> {
        guarded(|| {
            let found = self.get(Table::Extended, &name_key(inode, name))?;
            Ok(found.map(|value| value.len()))
        })
    }

    /// In which opening of the store each arena of a tier was last written that it counts on; 0: that was not noted. Behind the last one
    /// with a bitmap there may be others, of which nothing is used.
    pub fn arenas_written_in(&self, tier: TierNumber) -> Result<Vec<u64>, MetadataError> {
        let arenas = self.arenas()?;
        let last = arenas.iter().rfind(|(arena, _)| arena.tier() == tier);
        let end = last.map_or(0, |(last, _)| last.index() + 1);
        let written_in = |arena: u32| self.counter(&written_in_key(ArenaId::new(tier, arena.into())));
        (0..end).map(|arena| Ok(written_in(arena)?.unwrap_or_default())).collect()
    }

    /// The bitmap of an arena's used blocks.
    pub fn arena(&self, arena: ArenaId) -> Result<Option<Vec<u8>>, MetadataError> {
        guarded(|| Ok(self.get(Table::Arenas, &number_key(arena.0.into()))?.map(|bitmap| bitmap.to_vec())))
    }

    /// The bitmap of an arena's blocks that the medium does not take.
    pub fn bad_blocks(&self, arena: ArenaId) -> Result<Option<Vec<u8>>, MetadataError> {
        guarded(|| Ok(self.get(Table::Bad, &number_key(arena.0.into()))?.map(|bitmap| bitmap.to_vec())))
    }

    /// All arenas and their bitmaps.
    pub fn arenas(&self) -> Result<Vec<(ArenaId, Vec<u8>)>, MetadataError> {
        guarded(|| {
            let mut arenas = Vec::new();
            for pair in self.range(Table::Arenas, EVERYTHING)? {
                let (arena, bitmap) = pair?;
                let damaged = |_| MetadataError::Damaged("no arena has such a number".into());
                let arena = u32::try_from(number_in(&arena)?).map_err(damaged)?;
                arenas.push((ArenaId(arena), bitmap.to_vec()));
            }
            Ok(arenas)
        })
    }

    /// The record of a session.
    pub fn session(&self, session: SessionId) -> Result<Option<SessionRecord>, MetadataError> {
        guarded(|| {
            let found = self.get(Table::Sessions, &number_key(session.0))?;
            found.map(|bytes| session_record(session, &bytes)).transpose()
        })
    }

    /// All sessions.
    pub fn sessions(&self) -> Result<Vec<(SessionId, SessionRecord)>, MetadataError> {
        guarded(|| {
            let mut sessions = Vec::new();
            for pair in self.range(Table::Sessions, EVERYTHING)? {
                let (session, bytes) = pair?;
                let session = SessionId(number_in(&session)?);
                sessions.push((session, session_record(session, &bytes)?));
            }
            Ok(sessions)
        })
    }

    /// All windows: the session, the address of the first block, and the blocks it may still name, as they are kept.
    pub fn windows(&self) -> Result<Vec<KeptWindow>, MetadataError> {
        guarded(|| {
            let mut windows = Vec::new();
            for pair in self.range(Table::Windows, EVERYTHING)? {
                let (key, blocks) = pair?;
                let (session, address) = pair_in(&key)?;
                windows.push((SessionId(session), BlockAddress(address), blocks.to_vec()));
            }
            Ok(windows)
        })
    }

    /// Whether the inode, which has no name, is kept for the session.
    pub fn is_kept(&self, inode: InodeNumber, session: SessionId) -> Result<bool, MetadataError> {
        guarded(|| Ok(self.get(Table::Orphans, &pair_key(inode.0, session.0))?.is_some()))
    }

    /// All inodes that have no name, each with the session it is kept for.
    pub fn orphans(&self) -> Result<Vec<(InodeNumber, SessionId)>, MetadataError> {
        guarded(|| {
            let mut orphans = Vec::new();
            for pair in self.range(Table::Orphans, EVERYTHING)? {
                let (inode, session) = pair_in(&pair?.0)?;
                orphans.push((InodeNumber(inode), SessionId(session)));
            }
            Ok(orphans)
        })
    }

    /// The amounts a payer owns.
    pub fn usage(&self, payer: Payer) -> Result<Amounts, MetadataError> {
        guarded(|| {
            let found = self.get(Table::Usage, &payer_key(payer.key()))?;
            found.map_or(Ok(Amounts::NONE), |bytes| amounts(&bytes))
        })
    }

    /// The amounts of every payer that owns something.
    pub fn usages(&self) -> Result<BTreeMap<Payer, Amounts>, MetadataError> {
        guarded(|| self.of_payers(Table::Usage, amounts))
    }

    /// The limits of all payers that have some.
    pub fn limits(&self) -> Result<BTreeMap<Payer, Allowance>, MetadataError> {
        guarded(|| self.of_payers(Table::Limits, allowance))
    }

    /// The limits of a payer, if it has some.
    pub fn limits_of(&self, payer: Payer) -> Result<Option<Allowance>, MetadataError> {
        guarded(|| {
            let found = self.get(Table::Limits, &payer_key(payer.key()))?;
            found.map(|bytes| allowance(&bytes)).transpose()
        })
    }

    fn of_payers<V>(
        &self,
        table: Table,
        read: impl Fn(&[u8]) -> Result<V, MetadataError>,
    ) -> Result<BTreeMap<Payer, V>, MetadataError> {
        let mut all = BTreeMap::new();
        for pair in self.range(table, EVERYTHING)? {
            let (key, value) = pair?;
            let key = payer_in(&key)?;
            let damaged = || MetadataError::Damaged(format!("no payer has the key {key:?}"));
            all.insert(Payer::from_key(key).ok_or_else(damaged)?, read(&value)?);
        }
        Ok(all)
    }

    /// One of the store's numbers.
    pub(crate) fn counter(&self, name: &str) -> Result<Option<u64>, MetadataError> {
        guarded(|| self.get(Table::Counters, name.as_bytes())?.map(|value| counter(&value)).transpose())
    }

    /// The store's numbers.
    pub fn counters(&self) -> Result<Counters, MetadataError> {
        guarded(|| {
            let number = |name: &str| {
                let found = self.counter(name)?;
                found.ok_or_else(|| MetadataError::Damaged(format!("counter {name} is missing")))
            };
            Ok(Counters {
                next_inode: InodeNumber(number("next_inode")?),
                next_session: number("next_session")?,
                inodes: number("inodes")?,
                used_blocks: number("used_blocks")?,
            })
        })
    }

    /// Shows every inode to `visit`, by number: for the checker.
    pub fn visit_inodes(&self, mut visit: impl FnMut(StoredInode)) -> Result<(), MetadataError> {
        guarded(|| {
            for pair in self.range(Table::Inodes, EVERYTHING)? {
                let (key, value) = pair?;
                let chunk = Chunk::decode(number_in(&key)?, &value)?;
                chunk.inodes.into_iter().flatten().for_each(&mut visit);
            }
            Ok(())
        })
    }

    /// Shows every name to `visit`, by parent: for the checker.
    pub fn visit_entries(&self, mut visit: impl FnMut(InodeNumber, Entry)) -> Result<(), MetadataError> {
        guarded(|| {
            for pair in self.range(Table::Dirents, EVERYTHING)? {
                let (key, value) = pair?;
                let (parent, name) = owner_and_name(&key)
                    .ok_or_else(|| MetadataError::Damaged("a directory entry's key is unreadable".into()))?;
                let dirent = Dirent::decode(&value)?;
                visit(parent, Entry { name: name.to_vec(), dirent });
            }
            Ok(())
        })
    }

    /// Shows every extended attribute to `visit`, by inode, with its name and the bytes that and its value take: for the
    /// checker.
    pub fn visit_extended(
        &self,
        mut visit: impl FnMut(InodeNumber, &[u8], u64),
    ) -> Result<(), MetadataError> {
        guarded(|| {
            for pair in self.range(Table::Extended, EVERYTHING)? {
                let (key, value) = pair?;
                let damaged = || MetadataError::Damaged("the key of an extended attribute".into());
                let (inode, name) = owner_and_name(&key).ok_or_else(damaged)?;
                let bytes = (name.len() + value.len()) as u64;
                visit(inode, name, bytes);
            }
            Ok(())
        })
    }

    /// Shows every extent that is not inside its inode's record to `visit`, by inode: for the checker.
    pub fn visit_table_extents(
        &self,
        mut visit: impl FnMut(InodeNumber, Extent),
    ) -> Result<(), MetadataError> {
        guarded(|| {
            for pair in self.range(Table::Extents, EVERYTHING)? {
                let (key, value) = pair?;
                let (inode, extent) = extent(&key, &value)?;
                visit(inode, extent);
            }
            Ok(())
        })
    }
}

fn extent(key: &[u8], value: &[u8]) -> Result<(InodeNumber, Extent), MetadataError> {
    let (inode, file_block) = pair_in(key)?;
    let (address, blocks) = extent_place(value)?;
    if blocks == 0 || file_block.checked_add(u64::from(blocks)).is_none() {
        return Err(MetadataError::Damaged(format!("inode {inode}: extent of {blocks} blocks")));
    }
    Ok((InodeNumber(inode), Extent { file_block, blocks, address }))
}

fn session_record(session: SessionId, bytes: &[u8]) -> Result<SessionRecord, MetadataError> {
    postcard::from_bytes(bytes)
        .map_err(|error| MetadataError::Damaged(format!("session {session}: its record: {error}")))
}
