//! Reading: what was committed when the snapshot was taken, undisturbed by the writer.

use super::extents::close_together;
use super::guard::guarded;
use super::keys::{
    ARENAS, CHUNK_INODES, COUNTERS, DIRENTS, EXTENDED, EXTENTS, INODES, LIMITS, ORPHANS, SESSIONS, SYMLINKS,
    USAGE, chunk_key, chunk_of, name_in, name_key,
};
use super::records::{Chunk, walk};
use super::{Counters, Dirent, ExtentList, MetadataError, RawInode, SessionRecord, StoredInode};
use cuesta_format::quota::{Amounts, Payer};
use cuesta_format::wire::ExtendedAttribute;
use cuesta_format::{ArenaId, BlockAddress, Extent, InodeNumber, SessionId};
use redb::{Key, ReadOnlyTable, ReadTransaction, ReadableTable, TableDefinition, Value};
use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::sync::OnceLock;

type Bytes = &'static [u8];

/// The store at one commit. Tables are opened as they are looked at: most questions look at one or two.
pub struct Snapshot {
    reading: ReadTransaction,
    inodes: Table<Bytes, Bytes>,
    dirents: Table<Bytes, Bytes>,
    extents: Table<(u64, u64), (u64, u32)>,
    symlinks: Table<u64, Bytes>,
    extended: Table<Bytes, Bytes>,
    arenas: Table<u32, Bytes>,
    sessions: Table<u64, Bytes>,
    orphans: Table<(u64, u64), ()>,
    usage: Table<(u8, u64), (u64, u64)>,
    limits: Table<(u8, u64), (u64, u64)>,
    counters: Table<&'static str, u64>,
}

/// A table that may not be open yet.
struct Table<K: Key + 'static, V: Value + 'static> {
    definition: TableDefinition<'static, K, V>,
    /// Boxed: a snapshot lies on the stack of each thread that answers, and some moves of it deep.
    opened: OnceLock<Box<ReadOnlyTable<K, V>>>,
}

impl<K: Key + 'static, V: Value + 'static> Table<K, V> {
    fn new(definition: TableDefinition<'static, K, V>) -> Table<K, V> {
        Table { definition, opened: OnceLock::new() }
    }

    fn of(&self, reading: &ReadTransaction) -> Result<&ReadOnlyTable<K, V>, MetadataError> {
        if let Some(table) = self.opened.get() {
            return Ok(table);
        }
        let table = reading.open_table(self.definition)?;
        Ok(self.opened.get_or_init(|| Box::new(table)))
    }
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name.
    pub name: Vec<u8>,
    /// What it stands for.
    pub dirent: Dirent,
}

impl Snapshot {
    pub(super) fn new(reading: ReadTransaction) -> Snapshot {
        Snapshot {
            reading,
            inodes: Table::new(INODES),
            dirents: Table::new(DIRENTS),
            extents: Table::new(EXTENTS),
            symlinks: Table::new(SYMLINKS),
            extended: Table::new(EXTENDED),
            arenas: Table::new(ARENAS),
            sessions: Table::new(SESSIONS),
            orphans: Table::new(ORPHANS),
            usage: Table::new(USAGE),
            limits: Table::new(LIMITS),
            counters: Table::new(COUNTERS),
        }
    }

    /// Whether every table is there.
    pub(super) fn check_tables(&self) -> Result<(), MetadataError> {
        guarded(|| {
            self.inodes.of(&self.reading)?;
            self.dirents.of(&self.reading)?;
            self.extents.of(&self.reading)?;
            self.symlinks.of(&self.reading)?;
            self.extended.of(&self.reading)?;
            self.arenas.of(&self.reading)?;
            self.sessions.of(&self.reading)?;
            self.orphans.of(&self.reading)?;
            self.usage.of(&self.reading)?;
            self.limits.of(&self.reading)?;
            self.counters.of(&self.reading)?;
            Ok(())
        })
    }

    /// An inode.
    pub fn inode(&self, inode: InodeNumber) -> Result<Option<StoredInode>, MetadataError> {
        guarded(|| {
            let (chunk, slot) = chunk_of(inode);
            match self.inodes.of(&self.reading)?.get(&chunk_key(chunk)[..])? {
                Some(bytes) => Chunk::decode_one(chunk, bytes.value(), slot),
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
                (chunk_key(numbers.start / CHUNK_INODES), chunk_key((numbers.end - 1) / CHUNK_INODES));
            for pair in self.inodes.of(&self.reading)?.range::<&[u8]>(&first[..]..=&last[..])? {
                let (key, bytes) = pair?;
                let damaged = || MetadataError::Damaged("the key of an inode chunk".into());
                let chunk = u64::from_be_bytes(key.value().try_into().map_err(|_| damaged())?);
                let mut goes_on = Ok(true);
                walk(chunk, bytes.value(), |_, raw| {
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
            let last = self
                .inodes
                .of(&self.reading)?
                .last()?
                .and_then(|(key, _)| Some(u64::from_be_bytes(key.value().try_into().ok()?)));
            Ok(InodeNumber(last.map_or(0, |chunk| chunk.saturating_add(1).saturating_mul(CHUNK_INODES))))
        })
    }

    pub(super) fn chunk(&self, chunk: u64) -> Result<Chunk, MetadataError> {
        guarded(|| match self.inodes.of(&self.reading)?.get(&chunk_key(chunk)[..])? {
            Some(bytes) => Chunk::decode(chunk, bytes.value()),
            None => Ok(Chunk::default()),
        })
    }

    /// What a name in a directory stands for.
    pub fn lookup(&self, parent: InodeNumber, name: &[u8]) -> Result<Option<Dirent>, MetadataError> {
        self.dirent(&name_key(parent, name))
    }

    pub(super) fn dirent(&self, key: &[u8]) -> Result<Option<Dirent>, MetadataError> {
        guarded(|| {
            self.dirents.of(&self.reading)?.get(key)?.map(|bytes| Dirent::decode(bytes.value())).transpose()
        })
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
            for pair in self
                .dirents
                .of(&self.reading)?
                .range::<&[u8]>((Bound::Excluded(&from[..]), Bound::Unbounded))?
            {
                let (key, value) = pair?;
                let Some(name) = name_in(parent, key.value()) else { break };
                if !visit(name, Dirent::decode(value.value())?) {
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

    /// As [`Snapshot::extents`], of many ranges in order, with some of what lies between them.
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
    pub(super) fn table_extents(
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
            if let Some(pair) =
                self.extents.of(&self.reading)?.range((inode.0, 0)..(inode.0, blocks.start))?.next_back()
            {
                let (key, value) = pair?;
                found.extend(
                    Some(extent(key.value(), value.value())?).filter(|it| it.end_block() > blocks.start),
                );
            }
            for pair in
                self.extents.of(&self.reading)?.range((inode.0, blocks.start)..(inode.0, blocks.end))?
            {
                let (key, value) = pair?;
                found.push(extent(key.value(), value.value())?);
            }
            Ok(found)
        })
    }

    /// Where the last extent in the table starts that starts before `block` and is `wanted`.
    pub(super) fn last_table_start_before(
        &self,
        inode: InodeNumber,
        block: u64,
        wanted: impl Fn(u64) -> bool,
    ) -> Result<Option<u64>, MetadataError> {
        guarded(|| {
            for pair in self.extents.of(&self.reading)?.range((inode.0, 0)..(inode.0, block))?.rev() {
                let (_, start) = pair?.0.value();
                if wanted(start) {
                    return Ok(Some(start));
                }
            }
            Ok(None)
        })
    }

    /// The target of a symbolic link.
    pub fn symlink(&self, inode: InodeNumber) -> Result<Option<Vec<u8>>, MetadataError> {
        guarded(|| Ok(self.symlinks.of(&self.reading)?.get(inode.0)?.map(|target| target.value().to_vec())))
    }

    /// All extended attributes of an inode, with their values, in name order.
    pub fn extended(&self, inode: InodeNumber) -> Result<Vec<ExtendedAttribute>, MetadataError> {
        guarded(|| {
            let mut found = Vec::new();
            for pair in self.extended.of(&self.reading)?.range::<&[u8]>(&name_key(inode, b"")[..]..)? {
                let (key, value) = pair?;
                let Some(name) = name_in(inode, key.value()) else { break };
                found.push(ExtendedAttribute { name: name.to_vec(), value: value.value().to_vec() });
            }
            Ok(found)
        })
    }

    /// Length of the value of an extended attribute, in bytes, if the inode has it.
    pub fn extended_length(&self, inode: InodeNumber, name: &[u8]) -> Result<Option<usize>, MetadataError> {
        guarded(|| {
            let found = self.extended.of(&self.reading)?.get(&name_key(inode, name)[..])?;
            Ok(found.map(|value| value.value().len()))
        })
    }

    /// The bitmap of an arena's used blocks.
    pub fn arena(&self, arena: ArenaId) -> Result<Option<Vec<u8>>, MetadataError> {
        guarded(|| Ok(self.arenas.of(&self.reading)?.get(arena.0)?.map(|bitmap| bitmap.value().to_vec())))
    }

    /// All arenas and their bitmaps.
    pub fn arenas(&self) -> Result<Vec<(ArenaId, Vec<u8>)>, MetadataError> {
        guarded(|| {
            let mut arenas = Vec::new();
            for pair in self.arenas.of(&self.reading)?.range::<u32>(..)? {
                let (arena, bitmap) = pair?;
                arenas.push((ArenaId(arena.value()), bitmap.value().to_vec()));
            }
            Ok(arenas)
        })
    }

    /// What is known of a session.
    pub fn session(&self, session: SessionId) -> Result<Option<SessionRecord>, MetadataError> {
        guarded(|| {
            self.sessions
                .of(&self.reading)?
                .get(session.0)?
                .map(|bytes| session_record(session, bytes.value()))
                .transpose()
        })
    }

    /// All sessions.
    pub fn sessions(&self) -> Result<Vec<(SessionId, SessionRecord)>, MetadataError> {
        guarded(|| {
            let mut sessions = Vec::new();
            for pair in self.sessions.of(&self.reading)?.range::<u64>(..)? {
                let (session, bytes) = pair?;
                let session = SessionId(session.value());
                sessions.push((session, session_record(session, bytes.value())?));
            }
            Ok(sessions)
        })
    }

    /// Whether the inode, which has no name, is kept for the session.
    pub fn is_kept(&self, inode: InodeNumber, session: SessionId) -> Result<bool, MetadataError> {
        guarded(|| Ok(self.orphans.of(&self.reading)?.get((inode.0, session.0))?.is_some()))
    }

    /// All inodes that have no name, each with the session it is kept for.
    pub fn orphans(&self) -> Result<Vec<(InodeNumber, SessionId)>, MetadataError> {
        guarded(|| {
            let mut orphans = Vec::new();
            for pair in self.orphans.of(&self.reading)?.range::<(u64, u64)>(..)? {
                let (inode, session) = pair?.0.value();
                orphans.push((InodeNumber(inode), SessionId(session)));
            }
            Ok(orphans)
        })
    }

    /// What somebody owns.
    pub fn usage(&self, payer: Payer) -> Result<Amounts, MetadataError> {
        guarded(|| {
            let found = self.usage.of(&self.reading)?.get(payer.key())?.map(|value| value.value());
            Ok(found.map_or(Amounts::NONE, |(blocks, inodes)| Amounts { blocks, inodes }))
        })
    }

    /// What each owns who owns something.
    pub fn usages(&self) -> Result<BTreeMap<Payer, Amounts>, MetadataError> {
        guarded(|| all_amounts(self.usage.of(&self.reading)?))
    }

    /// What they may own at most, as far as they have limits.
    pub fn limits(&self) -> Result<BTreeMap<Payer, Amounts>, MetadataError> {
        guarded(|| all_amounts(self.limits.of(&self.reading)?))
    }

    /// The store's numbers.
    pub fn counters(&self) -> Result<Counters, MetadataError> {
        guarded(|| {
            let number = |name: &'static str| -> Result<u64, MetadataError> {
                let value = self.counters.of(&self.reading)?.get(name)?;
                value
                    .map(|value| value.value())
                    .ok_or_else(|| MetadataError::Damaged(format!("counter {name} is missing")))
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
            for pair in self.inodes.of(&self.reading)?.range::<&[u8]>(..)? {
                let (key, value) = pair?;
                let chunk = <[u8; 8]>::try_from(key.value())
                    .map_err(|_| MetadataError::Damaged("an inode chunk's key is unreadable".into()))?;
                let chunk = Chunk::decode(u64::from_be_bytes(chunk), value.value())?;
                chunk.inodes.into_iter().flatten().for_each(&mut visit);
            }
            Ok(())
        })
    }

    /// Shows every name to `visit`, by parent: for the checker.
    pub fn visit_entries(&self, mut visit: impl FnMut(InodeNumber, Entry)) -> Result<(), MetadataError> {
        guarded(|| {
            for pair in self.dirents.of(&self.reading)?.range::<&[u8]>(..)? {
                let (key, value) = pair?;
                let (parent, name) = key
                    .value()
                    .split_first_chunk::<8>()
                    .ok_or_else(|| MetadataError::Damaged("a directory entry's key is unreadable".into()))?;
                let dirent = Dirent::decode(value.value())?;
                visit(InodeNumber(u64::from_be_bytes(*parent)), Entry { name: name.to_vec(), dirent });
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
            for pair in self.extended.of(&self.reading)?.range::<&[u8]>(..)? {
                let (key, value) = pair?;
                let damaged = || MetadataError::Damaged("the key of an extended attribute".into());
                let (inode, name) = key.value().split_first_chunk::<8>().ok_or_else(damaged)?;
                let bytes = (name.len() + value.value().len()) as u64;
                visit(InodeNumber(u64::from_be_bytes(*inode)), name, bytes);
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
            for pair in self.extents.of(&self.reading)?.range::<(u64, u64)>(..)? {
                let (key, value) = pair?;
                visit(InodeNumber(key.value().0), extent(key.value(), value.value())?);
            }
            Ok(())
        })
    }
}

fn all_amounts(
    table: &ReadOnlyTable<(u8, u64), (u64, u64)>,
) -> Result<BTreeMap<Payer, Amounts>, MetadataError> {
    let mut all = BTreeMap::new();
    for pair in table.range::<(u8, u64)>(..)? {
        let (key, value) = pair?;
        let damaged = || MetadataError::Damaged(format!("nobody is charged as {:?}", key.value()));
        let payer = Payer::from_key(key.value()).ok_or_else(damaged)?;
        let (blocks, inodes) = value.value();
        all.insert(payer, Amounts { blocks, inodes });
    }
    Ok(all)
}

fn extent(key: (u64, u64), value: (u64, u32)) -> Result<Extent, MetadataError> {
    let ((inode, file_block), (address, blocks)) = (key, value);
    if blocks == 0 || file_block.checked_add(u64::from(blocks)).is_none() {
        return Err(MetadataError::Damaged(format!("inode {inode}: extent of {blocks} blocks")));
    }
    Ok(Extent { file_block, blocks, address: BlockAddress(address) })
}

fn session_record(session: SessionId, bytes: &[u8]) -> Result<SessionRecord, MetadataError> {
    postcard::from_bytes(bytes)
        .map_err(|error| MetadataError::Damaged(format!("session {session}: its record: {error}")))
}
