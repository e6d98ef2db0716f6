//! Writing: a digest batch is gathered here, sees itself, and is committed as a whole.
//!
//! Nothing is written before `commit`: changes lie in ordered maps over a snapshot of the last commit. So a change
//! that a later one undoes costs nothing, and changes are written in the order of their keys. An inode chunk is
//! decoded and encoded once, however many of its inodes change. A transaction that is dropped changes nothing.

use super::name_changes::{NameChange, NameChanges, NewNames};
use super::spare::Spare;
use super::usage::UsageChanges;
use super::watch::Changed;
use crate::metadata::MetadataError;
use crate::metadata::codec::calls::{self, CallChanges};
use crate::metadata::codec::windows::{self, WindowChanges};
use crate::metadata::codec::{
    Chunk, Counters, Dirent, ExtentList, ExtentWrite, INLINE_EXTENTS_MAX, SessionRecord, StoredInode, Table,
    chunk_of, close_together, differences, encode_allowance, encode_amounts, encode_extent_place, name_in,
    name_key, number_key, owner_and_name, pair_key, payer_key, splice, written_in_key,
};
use crate::metadata::journal::Redo;
use crate::metadata::shared::{Shared, Writing};
use crate::metadata::tree::{Entry, Snapshot, guarded};
use cuesta_format::quota::{Allowance, Amounts, Payer};
use cuesta_format::{ArenaId, BlockAddress, Extent, InodeNumber, InodeRecord, SessionId};
use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::sync::Arc;

/// The one transaction that writes.
pub struct Transaction {
    store: Arc<Shared>,
    writing: Writing,
    base: Snapshot,
    chunks: BTreeMap<u64, Box<Chunk>>,
    names: NameChanges,
    extents: BTreeMap<(u64, u64), Option<(u64, u32)>>,
    symlinks: BTreeMap<u64, Option<Vec<u8>>>,
    extended: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    pub(super) arenas: BTreeMap<u32, Option<Vec<u8>>>,
    pub(super) bad: BTreeMap<u32, Option<Vec<u8>>>,
    sessions: BTreeMap<u64, Option<SessionRecord>>,
    orphans: BTreeMap<(u64, u64), bool>,
    usage: UsageChanges,
    counters: Counters,
    pub(super) written_in: BTreeMap<u32, Option<u64>>,
    pub(super) windows: WindowChanges,
    pub(super) calls: CallChanges,
    /// Where they will be gathered.
    redo: Redo,
}

impl Transaction {
    pub(crate) fn new(
        store: Arc<Shared>,
        writing: Writing,
        base: Snapshot,
    ) -> Result<Transaction, MetadataError> {
        let counters = base.counters()?;
        let spare = store.spare();
        Ok(Transaction {
            store,
            writing,
            base,
            chunks: BTreeMap::new(),
            names: spare.names,
            extents: BTreeMap::new(),
            symlinks: BTreeMap::new(),
            extended: BTreeMap::new(),
            arenas: BTreeMap::new(),
            bad: BTreeMap::new(),
            sessions: BTreeMap::new(),
            orphans: BTreeMap::new(),
            usage: UsageChanges::default(),
            counters,
            written_in: BTreeMap::new(),
            windows: WindowChanges::new(),
            calls: CallChanges::new(),
            redo: spare.redo,
        })
    }

    /// The store before this transaction.
    pub fn base(&self) -> &Snapshot {
        &self.base
    }

    /// An inode, as this transaction leaves it.
    pub fn inode(&self, inode: InodeNumber) -> Result<Option<StoredInode>, MetadataError> {
        let (chunk, slot) = chunk_of(inode);
        match self.chunks.get(&chunk) {
            Some(chunk) => Ok(chunk.inodes[slot].clone()),
            None => self.base.inode(inode),
        }
    }

    fn slot(&mut self, inode: InodeNumber) -> Result<&mut Option<StoredInode>, MetadataError> {
        use std::collections::btree_map::Entry;
        let (number, slot) = chunk_of(inode);
        let chunk = match self.chunks.entry(number) {
            Entry::Occupied(chunk) => chunk.into_mut(),
            Entry::Vacant(place) => place.insert(Box::new(self.base.chunk(number)?)),
        };
        Ok(&mut chunk.inodes[slot])
    }

    /// Adds an inode, or changes what `stat` tells of one. Its extents stay, and `blocks` with them: those are
    /// [`Transaction::write_extents`]'s to change.
    pub fn put_inode(&mut self, record: &InodeRecord) -> Result<(), MetadataError> {
        let slot = self.slot(record.inode)?;
        match slot {
            Some(stored) => {
                let before = stored.record;
                stored.record = InodeRecord { blocks: before.blocks, ..*record };
                let after = stored.record;
                self.usage.change(&before, &after);
            }
            None => {
                *slot = Some(StoredInode {
                    record: InodeRecord { blocks: 0, ..*record },
                    extents: ExtentList::Inline(Vec::new()),
                });
                self.usage.come(&InodeRecord { blocks: 0, ..*record });
                self.counters.inodes += 1;
            }
        }
        Ok(())
    }

    /// As [`Transaction::put_inode`] and then [`Transaction::write_all_extents`]. Most inodes of a digest are new and have
    /// few extents: these are made at once.
    pub fn put_inode_writing(
        &mut self,
        record: &InodeRecord,
        writes: &[ExtentWrite<'_>],
    ) -> Result<Vec<Extent>, MetadataError> {
        let slot = self.slot(record.inode)?;
        if slot.is_none() {
            let spliced = splice(&[], writes);
            if spliced.kept.len() <= INLINE_EXTENTS_MAX {
                let record = InodeRecord { blocks: blocks_of(&spliced.kept), ..*record };
                *slot = Some(StoredInode { record, extents: ExtentList::Inline(spliced.kept) });
                self.usage.come(&record);
                self.counters.inodes += 1;
                self.counters.used_blocks += record.blocks;
                return Ok(spliced.freed);
            }
        }
        self.put_inode(record)?;
        if writes.is_empty() { Ok(Vec::new()) } else { self.write_all_extents(record.inode, writes) }
    }

    /// Removes an inode and whatever belongs to it; answers the extents it had.
    pub fn remove_inode(&mut self, inode: InodeNumber) -> Result<Vec<Extent>, MetadataError> {
        let freed = self.write_extents(inode, 0..u64::MAX, &[])?;
        if self.inode(inode)?.is_some_and(|stored| stored.record.extended > 0) {
            self.remove_all_extended(inode)?;
        }
        if let Some(gone) = self.slot(inode)?.take() {
            self.usage.go(&gone.record);
        }
        if self.symlink(inode)?.is_some() {
            self.symlinks.insert(inode.0, None);
        }
        self.counters.inodes = self.counters.inodes.saturating_sub(1);
        Ok(freed)
    }

    /// The extents of a file that meet `blocks`, in order, as this transaction leaves them.
    pub fn extents(&self, inode: InodeNumber, blocks: Range<u64>) -> Result<Vec<Extent>, MetadataError> {
        match self.inode(inode)?.ok_or(MetadataError::NoInode(inode))?.extents {
            ExtentList::Inline(extents) => Ok(extents
                .into_iter()
                .filter(|extent| extent.file_block < blocks.end && extent.end_block() > blocks.start)
                .collect()),
            ExtentList::Table => self.table_extents(inode, blocks),
        }
    }

    fn table_extents(&self, inode: InodeNumber, blocks: Range<u64>) -> Result<Vec<Extent>, MetadataError> {
        if blocks.is_empty() {
            return Ok(Vec::new());
        }
        if self.extents.range((inode.0, 0)..=(inode.0, u64::MAX)).next().is_none() {
            return self.base.table_extents(inode, blocks);
        }
        let from = self.reaching_start(inode, blocks.start)?;
        let mut found: BTreeMap<u64, Extent> = self
            .base
            .table_extents(inode, from..blocks.end)?
            .into_iter()
            .filter(|extent| extent.file_block >= from)
            .map(|extent| (extent.file_block, extent))
            .collect();
        for (&(_, file_block), change) in self.extents.range((inode.0, from)..(inode.0, blocks.end)) {
            match *change {
                Some((address, blocks)) => {
                    let address = BlockAddress(address);
                    found.insert(file_block, Extent { file_block, blocks, address });
                }
                None => {
                    found.remove(&file_block);
                }
            }
        }
        Ok(found.into_values().filter(|extent| extent.end_block() > blocks.start).collect())
    }

    /// Where the last extent starts that starts before `block`; `block` if there is none.
    fn reaching_start(&self, inode: InodeNumber, block: u64) -> Result<u64, MetadataError> {
        let mut changes = self.extents.range((inode.0, 0)..(inode.0, block)).rev();
        let changed = changes.find(|(_, change)| change.is_some()).map(|(&(_, start), _)| start);
        let standing = self
            .base
            .last_table_start_before(inode, block, |start| !self.extents.contains_key(&(inode.0, start)))?;
        Ok(changed.max(standing).unwrap_or(block))
    }

    /// Makes `new` the content of `range`, and answers the extents it had before: a write (`new` covers the
    /// range), a hole (`new` is empty), a truncation (`range` is open-ended). Keeps `blocks` of the inode.
    ///
    /// `new` is in order and lies inside `range`.
    pub fn write_extents(
        &mut self,
        inode: InodeNumber,
        range: Range<u64>,
        new: &[Extent],
    ) -> Result<Vec<Extent>, MetadataError> {
        self.write_all_extents(inode, &[ExtentWrite { blocks: range, new }])
    }

    /// As [`Transaction::write_extents`], of many ranges in order, which do not overlap.
    pub fn write_all_extents(
        &mut self,
        inode: InodeNumber,
        writes: &[ExtentWrite<'_>],
    ) -> Result<Vec<Extent>, MetadataError> {
        debug_assert!(writes.is_sorted_by(|a, b| a.blocks.end <= b.blocks.start));
        debug_assert!(writes.iter().all(|it| it.new.is_sorted_by(|a, b| a.end_block() <= b.file_block)));
        let stored = self.inode(inode)?.ok_or(MetadataError::NoInode(inode))?;
        let (freed, extents) = match stored.extents {
            ExtentList::Inline(existing) => {
                let spliced = splice(&existing, writes);
                (spliced.freed, self.settle(inode, spliced.kept))
            }
            ExtentList::Table => {
                let existing = self.extents_around(inode, writes)?;
                let spliced = splice(&existing, writes);
                let whole = matches!(writes, [one] if one.blocks == (0..u64::MAX));
                let fits = whole && spliced.kept.len() <= INLINE_EXTENTS_MAX;
                let in_table = if fits { &[][..] } else { &spliced.kept[..] };
                for (file_block, change) in differences(&existing, in_table) {
                    let change = change.map(|extent| (extent.address.0, extent.blocks));
                    self.extents.insert((inode.0, file_block), change);
                }
                (spliced.freed, if fits { ExtentList::Inline(spliced.kept) } else { ExtentList::Table })
            }
        };
        let added = writes.iter().map(|write| blocks_of(write.new)).sum::<u64>();
        let removed = blocks_of(&freed);
        let apply = |blocks: u64| (blocks + added).saturating_sub(removed);
        self.counters.used_blocks = apply(self.counters.used_blocks);
        if let Some(stored) = self.slot(inode)? {
            let before = stored.record;
            stored.record.blocks = apply(before.blocks);
            stored.extents = extents;
            let after = stored.record;
            self.usage.change(&before, &after);
        }
        Ok(freed)
    }

    /// Makes `moved`, with `writes` applied to it, all that a file holds. Answers what the writes took away of it; what
    /// the file held and `moved` does not is the caller's to free.
    pub fn replace_extents(
        &mut self,
        inode: InodeNumber,
        moved: &[Extent],
        writes: &[ExtentWrite<'_>],
    ) -> Result<Vec<Extent>, MetadataError> {
        let spliced = splice(moved, writes);
        let stored = self.inode(inode)?.ok_or(MetadataError::NoInode(inode))?;
        let blocks_before = stored.record.blocks;
        let blocks = blocks_of(&spliced.kept);
        if stored.extents == ExtentList::Table {
            for extent in self.table_extents(inode, 0..u64::MAX)? {
                self.extents.insert((inode.0, extent.file_block), None);
            }
        }
        let extents = self.settle(inode, spliced.kept);
        self.counters.used_blocks = (self.counters.used_blocks + blocks).saturating_sub(blocks_before);
        if let Some(stored) = self.slot(inode)? {
            let before = stored.record;
            stored.record.blocks = blocks;
            stored.extents = extents;
            let after = stored.record;
            self.usage.change(&before, &after);
        }
        Ok(spliced.freed)
    }

    /// The extents in the table that meet the writes or their neighbours, so that these join. Writes that lie close
    /// together are served by one look at the table.
    fn extents_around(
        &self,
        inode: InodeNumber,
        writes: &[ExtentWrite<'_>],
    ) -> Result<Vec<Extent>, MetadataError> {
        let mut existing: Vec<Extent> = Vec::new();
        for blocks in close_together(writes.iter().map(|write| write.blocks.clone())) {
            let around = blocks.start.saturating_sub(1)..blocks.end.saturating_add(1);
            let end = existing.last().map_or(0, Extent::end_block);
            let found = self.table_extents(inode, around)?;
            existing.extend(found.into_iter().filter(|extent| extent.file_block >= end));
        }
        Ok(existing)
    }

    /// All extents of a file, where they fit.
    fn settle(&mut self, inode: InodeNumber, extents: Vec<Extent>) -> ExtentList {
        if extents.len() <= INLINE_EXTENTS_MAX {
            ExtentList::Inline(extents)
        } else {
            self.spread(inode, &extents)
        }
    }

    fn spread(&mut self, inode: InodeNumber, extents: &[Extent]) -> ExtentList {
        for extent in extents {
            self.extents.insert((inode.0, extent.file_block), Some((extent.address.0, extent.blocks)));
        }
        ExtentList::Table
    }

    /// The inode a name stands for, as this transaction leaves it.
    pub fn lookup(&self, parent: InodeNumber, name: &[u8]) -> Result<Option<Dirent>, MetadataError> {
        let key = name_key(parent, name);
        match self.names.get(&key) {
            Some(change) => Ok(change.now),
            None => self.base.dirent(&key),
        }
    }

    /// Makes a name stand for an inode, whatever it stood for.
    pub fn put_dirent(&mut self, parent: InodeNumber, name: &[u8], dirent: Dirent) {
        self.names.insert(parent, name, NameChange { now: Some(dirent), must_be_new: false });
    }

    /// As [`Transaction::put_dirent`], of a name the caller takes to be new without having looked: should it be there
    /// after all, the commit fails with [`MetadataError::NameTaken`] and changes nothing. Looking costs as much.
    pub fn put_new_dirent(&mut self, parent: InodeNumber, name: &[u8], dirent: Dirent) {
        self.names.insert(parent, name, NameChange { now: Some(dirent), must_be_new: true });
    }

    /// Removes a name, if it is there.
    pub fn remove_dirent(&mut self, parent: InodeNumber, name: &[u8]) {
        self.names.insert(parent, name, NameChange { now: None, must_be_new: false });
    }

    /// Up to `limit` names that sort behind `after`, as this transaction leaves them.
    pub fn list(&self, parent: InodeNumber, after: &[u8], limit: usize) -> Result<Vec<Entry>, MetadataError> {
        let from = name_key(parent, after);
        let mut changes = self
            .names
            .behind(&from)
            .map_while(|(key, change)| Some((name_in(parent, key)?, change.now)))
            .peekable();
        let mut entries = Vec::new();
        let mut after = after.to_vec();
        loop {
            let page = self.base.list(parent, &after, limit)?;
            let last_page = page.len() < limit;
            for entry in page {
                while let Some((name, change)) = changes.next_if(|(name, _)| *name < &entry.name[..]) {
                    entries.extend(change.map(|dirent| Entry { name: name.to_vec(), dirent }));
                }
                after.clone_from(&entry.name);
                match changes.next_if(|(name, _)| *name == &entry.name[..]) {
                    Some((_, change)) => {
                        entries.extend(change.map(|dirent| Entry { name: entry.name, dirent }));
                    }
                    None => entries.push(entry),
                }
            }
            if last_page {
                let rest = changes.by_ref();
                entries.extend(
                    rest.filter_map(|(name, change)| Some(Entry { name: name.to_vec(), dirent: change? })),
                );
            }
            if last_page || entries.len() >= limit {
                entries.truncate(limit);
                return Ok(entries);
            }
        }
    }

    /// The target of a symbolic link, as this transaction leaves it.
    pub fn symlink(&self, inode: InodeNumber) -> Result<Option<Vec<u8>>, MetadataError> {
        match self.symlinks.get(&inode.0) {
            Some(change) => Ok(change.clone()),
            None => self.base.symlink(inode),
        }
    }

    /// Sets the target of a symbolic link.
    pub fn put_symlink(&mut self, inode: InodeNumber, target: &[u8]) {
        self.symlinks.insert(inode.0, Some(target.to_vec()));
    }

    /// Gives an inode an extended attribute, or one it has another value. How many bytes they take in all is in the
    /// inode's record: the caller's to keep.
    pub fn put_extended(&mut self, inode: InodeNumber, name: &[u8], value: &[u8]) {
        self.extended.insert(name_key(inode, name), Some(value.to_vec()));
    }

    /// Takes an extended attribute from an inode, if it has it.
    pub fn remove_extended(&mut self, inode: InodeNumber, name: &[u8]) {
        self.extended.insert(name_key(inode, name), None);
    }

    /// Takes all extended attributes from an inode, whether it exists or not.
    pub fn remove_all_extended(&mut self, inode: InodeNumber) -> Result<(), MetadataError> {
        for attribute in self.base.extended(inode)? {
            self.remove_extended(inode, &attribute.name);
        }
        let from = name_key(inode, b"");
        let behind = (Bound::Included(&from[..]), Bound::Unbounded);
        let changes = self.extended.range_mut::<[u8], _>(behind);
        let changes = changes.take_while(|(key, _)| name_in(inode, key).is_some());
        changes.for_each(|(_, change)| *change = None);
        Ok(())
    }

    /// Takes all extents of an inode from the table, whether it exists or not; for the checker.
    pub fn remove_stray_extents(&mut self, inode: InodeNumber) -> Result<(), MetadataError> {
        for extent in self.table_extents(inode, 0..u64::MAX)? {
            self.extents.insert((inode.0, extent.file_block), None);
        }
        Ok(())
    }

    /// Notes how far a session is.
    pub fn put_session(&mut self, session: SessionId, record: SessionRecord) {
        self.sessions.insert(session.0, Some(record));
    }

    /// Forgets a session.
    pub fn remove_session(&mut self, session: SessionId) {
        self.sessions.insert(session.0, None);
    }

    /// Notes that a session holds an inode without a name.
    pub fn put_orphan(&mut self, inode: InodeNumber, session: SessionId) {
        self.orphans.insert((inode.0, session.0), true);
    }

    /// Forgets that a session holds an inode without a name.
    pub fn remove_orphan(&mut self, inode: InodeNumber, session: SessionId) {
        self.orphans.insert((inode.0, session.0), false);
    }

    /// Corrects the kept amounts of a payer, which are wrong; for the checker.
    pub fn correct_usage(&mut self, payer: Payer, kept: Amounts, right: Amounts) {
        self.usage.correct(payer, kept, right);
    }

    /// Sets a payer's limits; `None`: it has none.
    pub fn put_limits(&mut self, payer: Payer, allowance: Option<Allowance>) {
        self.usage.limit(payer, allowance);
    }

    /// Sets what is counted, where that was found wrong.
    pub fn put_totals(&mut self, inodes: u64, used_blocks: u64) {
        (self.counters.inodes, self.counters.used_blocks) = (inodes, used_blocks);
    }

    /// The store's numbers, as this transaction leaves them.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Changes nothing, and writes to the tree what was committed and is not there yet.
    pub(crate) fn write_out(self) -> Result<(), MetadataError> {
        let Transaction { store, writing, base, .. } = self;
        guarded(|| store.write_out_all(&writing, base))
    }

    /// Commits everything; once this returns, it survives.
    pub fn commit(self) -> Result<(), MetadataError> {
        let store = Arc::clone(&self.store);
        let watch = store.watch.get().map(|watch| (watch, self.changed()));
        let written = guarded(|| self.write());
        if let Some((watch, changed)) = watch {
            watch.changed(&changed);
        }
        written
    }

    fn changed(&self) -> Changed {
        let of_links = self.symlinks.keys().map(|&inode| chunk_of(InodeNumber(inode)).0);
        let mut directories: Vec<InodeNumber> = Vec::new();
        for (owner, _) in self.names.all().filter_map(|(key, _)| owner_and_name(key)) {
            if directories.last() != Some(&owner) {
                directories.push(owner);
            }
        }
        Changed { chunks: self.chunks.keys().copied().chain(of_links).collect(), directories }
    }

    fn write(mut self) -> Result<(), MetadataError> {
        let mut redo = std::mem::take(&mut self.redo);
        self.gather(&mut redo)?;
        let Transaction { store, writing, base, names, .. } = self;
        let committed = store.commit(&writing, base, &redo, &NewNames(Some(&names)));
        store.keep(Spare { redo, names });
        committed
    }

    /// All that changes, in order.
    fn gather(&mut self, redo: &mut Redo) -> Result<(), MetadataError> {
        let mut encoded = Vec::new();
        for (&number, chunk) in &self.chunks {
            chunk.encode(&mut encoded);
            redo.push(Table::Inodes, &number_key(number), (!chunk.is_empty()).then_some(&encoded));
        }
        for (key, change) in self.names.all() {
            redo.push(Table::Dirents, key, change.now.map(Dirent::encode).as_ref().map(|value| &value[..]));
        }
        for (key, value) in &self.extended {
            redo.push(Table::Extended, key, value.as_deref());
        }
        for (&(inode, file_block), change) in &self.extents {
            let place = change.map(|(address, blocks)| encode_extent_place(BlockAddress(address), blocks));
            redo.push(Table::Extents, &pair_key(inode, file_block), place.as_ref().map(|place| &place[..]));
        }
        for (&inode, target) in &self.symlinks {
            redo.push(Table::Symlinks, &number_key(inode), target.as_deref());
        }
        for (&arena, bitmap) in &self.arenas {
            redo.push(Table::Arenas, &number_key(arena.into()), bitmap.as_deref());
        }
        for (&session, record) in &self.sessions {
            let record = record.as_ref().map(encode_session).transpose()?;
            redo.push(Table::Sessions, &number_key(session), record.as_deref());
        }
        for (&(inode, session), &held) in &self.orphans {
            redo.push(Table::Orphans, &pair_key(inode, session), held.then_some(&[]));
        }
        // Nothing is kept of a payer that owns nothing, or has no limits.
        for (payer, amounts) in self.usage.after(&self.base)? {
            let value = (amounts != Amounts::NONE).then(|| encode_amounts(amounts));
            redo.push(Table::Usage, &payer_key(payer.key()), value.as_ref().map(|value| &value[..]));
        }
        for (payer, allowance) in self.usage.limits() {
            let value = allowance.as_ref().map(encode_allowance);
            redo.push(Table::Limits, &payer_key(payer.key()), value.as_ref().map(|value| &value[..]));
        }
        for (&arena, bitmap) in &self.bad {
            redo.push(Table::Bad, &number_key(arena.into()), bitmap.as_deref());
        }
        // Their names come before those of the counters.
        for (&arena, generation) in &self.written_in {
            let (key, value) = (written_in_key(ArenaId(arena)), generation.map(u64::to_le_bytes));
            redo.push(Table::Counters, key.as_bytes(), value.as_ref().map(|value| &value[..]));
        }
        let before = self.base.counters()?.named();
        for (before, now) in before.into_iter().zip(self.counters.named()) {
            if before != now {
                redo.push(Table::Counters, now.0.as_bytes(), Some(&now.1.to_le_bytes()));
            }
        }
        calls::gather(&self.calls, redo);
        windows::gather(&self.windows, redo);
        Ok(())
    }
}

fn blocks_of(extents: &[Extent]) -> u64 {
    extents.iter().map(|extent| u64::from(extent.blocks)).sum()
}

fn encode_session(record: &SessionRecord) -> Result<Vec<u8>, MetadataError> {
    postcard::to_stdvec(record).map_err(|error| MetadataError::Damaged(error.to_string()))
}
