//! One batch: a log prefix is read, checked, applied in memory, placed, and committed.

use super::before::Before;
use super::log_view::{LogView, Until};
use super::orphans::Orphans;
use super::storage::Storage;
use crate::Error;
use crate::digest::place::{FastTier, OutOfBlocks, Placements, Placer};
use crate::leases::LoggedChange;
use crate::metadata::{MetadataError, Snapshot, Transaction};
use crate::namespace::{Applied, Lookup, Rejection, Resolver, Stop, View};
use crate::tiers::{Claims, ContentWriter, Reservation};
use cuesta_format::entry::VerifiedHeader;
use cuesta_format::{CallTag, InodeNumber, LogPosition, Medium, Operation, SessionId, TierNumber};
use cuesta_media::planted::{self, Bug};
use cuesta_oplog::{ScanStep, Scanner};
use hashbrown::HashSet;
use std::cell::{LazyCell, OnceCell, RefCell};
use std::io::ErrorKind;

/// The result of a batch.
#[derive(Debug)]
pub struct Batch {
    /// Where it started.
    pub from: LogPosition,
    /// Everything before is in the shared area now.
    pub to: LogPosition,
    /// Entries in it.
    pub entries: u64,
    /// Entries among them that left no trace.
    pub coalesced: u64,
    /// Blocks they debited.
    pub debits: u64,
    /// Bytes copied into arenas.
    pub bytes_copied: u64,
    /// Blocks freed.
    pub blocks_freed: u64,
    /// Where the log is given up, and why.
    pub rejected: Option<Rejection>,
    /// The log's valid part ends here.
    pub at_break: bool,
}

/// The digest's working memory, reused from batch to batch, and its knowledge of the store. One digest runs at
/// a time.
#[derive(Debug, Default)]
pub struct Digester {
    /// The copied log, at the start of a buffer that only grows.
    buffer: Vec<u8>,
    copied: usize,
    view: View,
    resolver: Resolver,
    /// Everything the last batch placed.
    pub placements: Placements,
    reservation: Reservation,
    /// Inodes that the log of the batch changes, and must not.
    foreign: HashSet<InodeNumber>,
    /// Inodes without a name.
    pub orphans: Orphans,
    /// Ended sessions. The next transaction removes their rows.
    pub ended: Vec<SessionId>,
}

/// Bytes read behind the end that a session says, to find the break.
const BREAK_BYTES: u64 = 8 << 10;
/// A batch ends when it has touched so many inodes and names, which cost a microsecond or two each: a session may
/// wait for its end. No session waits for a part of a recovery.
const TOUCHED_MAX: usize = 64 << 10;
/// A batch ends when it has named so many staged blocks, because their checksums are compared: 64 MiB.
const STAGED_BLOCKS_MAX: u64 = 16 << 10;
/// So often a batch is done again without blocks that the medium did not take; then it is the medium that has failed.
const SET_ASIDE_MAX: usize = 64;
/// The same for blocks of a lower tier: then its disk has failed, and the store goes on without it.
const LOWER_SET_ASIDE_MAX: usize = 8;

/// How the scan of a batch ended.
struct Scanned {
    to: LogPosition,
    entries: u64,
    debits: u64,
    rejected: Option<Rejection>,
    at_break: bool,
}

impl Scanned {
    /// Nothing of the log can be taken.
    fn rejected(log: &LogView, why: Rejection) -> Scanned {
        Scanned { to: log.from, entries: 0, debits: 0, rejected: Some(why), at_break: false }
    }
}

impl Digester {
    /// Digests one batch of at most `bytes_max` bytes (one entry at least). `None`: there was nothing. After an error
    /// everything is as it was.
    pub fn digest(
        &mut self,
        storage: &Storage<'_>,
        log: &LogView,
        until: Until,
        bytes_max: u64,
    ) -> Result<Option<Batch>, Error> {
        for set_aside in 0..SET_ASIDE_MAX {
            let digested = self.try_digest(storage, log, until, bytes_max);
            let Err(error) = digested else { return digested };
            storage.space.lock().allocator.abandon(&mut self.reservation);
            match &error {
                Error::Unwritable(run)
                    if run.address.tier() != TierNumber::FAST && set_aside >= LOWER_SET_ASIDE_MAX =>
                {
                    storage.fail_tier(run.address.tier(), &error.to_string());
                }
                Error::Unwritable(run) => {
                    tracing::error!(%error, "they are not used any more");
                    storage.space.lock().allocator.set_aside(*run);
                }
                Error::TierFailed { tier, why } => storage.fail_tier(*tier, why),
                _ => return Err(error),
            }
        }
        self.try_digest(storage, log, until, bytes_max)
            .inspect_err(|_| storage.space.lock().allocator.abandon(&mut self.reservation))
    }

    fn try_digest(
        &mut self,
        storage: &Storage<'_>,
        log: &LogView,
        until: Until,
        bytes_max: u64,
    ) -> Result<Option<Batch>, Error> {
        let mut entries_max = u64::MAX;
        let mut trusting = true;
        if storage.metadata.is_read_only() {
            // A log without entries loses nothing: only entries that cannot be kept are an error.
            self.forget(trusting);
            let scanned =
                self.scan(storage, &storage.metadata.read()?, log, until, bytes_max, entries_max)?;
            if scanned.entries == 0 && scanned.rejected.is_none() {
                return Ok(None);
            }
        }
        loop {
            self.forget(trusting);
            let transaction = storage.metadata.begin()?;
            let scanned = self.scan(storage, transaction.base(), log, until, bytes_max, entries_max)?;
            if scanned.entries == 0 && scanned.rejected.is_none() {
                return Ok(None);
            }
            if !storage.recovering {
                storage.others.make_durable(&self.view)?;
            }
            match self.place(storage, transaction.base(), log, scanned.to)? {
                Ok(()) => match self.finish(storage, transaction, log, scanned) {
                    Err(Error::Metadata(MetadataError::NameTaken)) if trusting => trusting = false,
                    finished => return finished.map(Some),
                },
                Err(OutOfBlocks) => {
                    storage.space.lock().allocator.abandon(&mut self.reservation);
                    if storage.recovering && storage.grow_any(log.node)? {
                        continue;
                    }
                    if scanned.entries == 1 && storage.arenas.has_failed() {
                        // Promises counted on a tier that failed: the entry stays in its log until there is room.
                        return Err(Error::NoSpace);
                    }
                    if scanned.entries == 1 {
                        // The writer took more than it was granted: nothing of this entry can be kept.
                        self.forget(trusting);
                        let rejected = Scanned::rejected(log, Rejection::Credit);
                        return self.finish(storage, transaction, log, rejected).map(Some);
                    }
                    entries_max = scanned.entries / 2;
                }
            }
        }
    }

    fn forget(&mut self, trusting: bool) {
        self.view.clear(trusting);
        self.placements.clear();
    }

    /// Reads a batch and applies its entries to the view.
    fn scan(
        &mut self,
        storage: &Storage<'_>,
        snapshot: &Snapshot,
        log: &LogView,
        until: Until,
        bytes_max: u64,
        entries_max: u64,
    ) -> Result<Scanned, Error> {
        let geometry = &log.files.geometry;
        let recovering = storage.recovering;
        // Each copy of a log that its session may rewrite is looked at anew.
        self.foreign.clear();
        let hinted = log.completed.0.saturating_sub(log.from.0);
        let mut bytes = match until {
            Until::Durable if log.durable > log.from => log.durable.0 - log.from.0,
            Until::Durable | Until::Completed => hinted,
            // No process is left to say how much there is.
            Until::Break if recovering => bytes_max,
            Until::Break => hinted.saturating_add(BREAK_BYTES),
        }
        .min(bytes_max.max(geometry.entry_bytes_max()));
        // An entry longer than the bytes read: once more, with all of it.
        let whole = loop {
            self.copied = match log.files.copy_out(log.from, bytes, &mut self.buffer) {
                Ok(copied) => copied,
                // Its owner can cut a segment short: that is the end of this log, and of nothing else.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    return Ok(Scanned::rejected(log, Rejection::CutShort));
                }
                Err(error) => return Err(Error::io("read a log")(error)),
            };
            match Scanner::new(&self.buffer[..self.copied], log.from, log.salt, geometry).step() {
                ScanStep::Cut { needed } if until == Until::Break && needed > bytes => bytes = needed,
                ScanStep::Cut { .. } => break false,
                ScanStep::Entry(..) | ScanStep::End(_) => break true,
            }
        };
        if !whole && until != Until::Break && log.from < log.whole {
            return Ok(Scanned::rejected(log, Rejection::Damaged));
        }
        if !whole {
            let at_break = until == Until::Break;
            return Ok(Scanned { to: log.from, entries: 0, debits: 0, rejected: None, at_break });
        }
        let before = Before {
            snapshot,
            inodes_end: snapshot.inodes_end()?,
            orphans: &self.orphans,
            session: log.session,
            storage,
            free_numbers: RefCell::default(),
            openers: OnceCell::new(),
        };
        let copied = &self.buffer[..self.copied];
        let applied =
            Applied { store: &before, batch: copied, session: log.session, numbers: log.numbers.clone() };
        let limits =
            Limits { entries_max, bytes_max, touched_max: if recovering { usize::MAX } else { TOUCHED_MAX } };
        let scanned = apply_all(&applied, &mut self.view, log, &limits, &HashSet::new())?;
        if recovering {
            return Ok(scanned);
        }
        let changed = self.view.nodes().iter().filter(|node| node.changed);
        let mut changes =
            changed.map(|node| LoggedChange { inode: node.record.inode, is_new: node.before.is_none() });
        storage.others.add_foreign(log.session, &mut changes, &mut self.foreign);
        if self.foreign.is_empty() {
            return Ok(scanned);
        }
        self.view.restart();
        apply_all(&applied, &mut self.view, log, &limits, &self.foreign)
    }

    /// Finds blocks for the remaining content of the batch and copies it there.
    fn place(
        &mut self,
        storage: &Storage<'_>,
        before: &Snapshot,
        log: &LogView,
        to: LogPosition,
    ) -> Result<Result<(), OutOfBlocks>, Error> {
        if !self.view.nodes().iter().any(|node| node.has_pieces() && !node.removed) {
            return Ok(Ok(()));
        }
        let failures = storage.arenas.failures();
        let mut standing = self.view.nodes().iter().filter(|node| node.has_pieces() && !node.removed);
        if storage.medium == Medium::Block && to > log.durable && standing.any(|node| node.record.mapped) {
            log.files.sync(log.from, to)?;
            flush_claims(storage, &self.view.claims)?;
        }
        let (has_bad_or_copied, fast) = {
            let space = storage.space.lock();
            let has_copies = space.allocator.copies().blocks() > 0;
            let has_bad_or_copied = has_copies || space.allocator.has_unwritable();
            (has_bad_or_copied, FastTier::of(&space, storage.arenas, storage.placement))
        };
        let is_kept = LazyCell::new(|| is_kept(storage, log, to, &self.view.claims));
        let mut placer = Placer {
            batch: &self.buffer[..self.copied],
            arenas: storage.arenas,
            writer: ContentWriter::new(storage.arenas),
            claims: &self.view.claims,
            before,
            space: storage.space,
            reservation: &mut self.reservation,
            promised: log.promised,
            near: log.node,
            may_overwrite: &|| to <= log.whole && *is_kept || planted::active(Bug::OverwriteUnacknowledged),
            recovering: storage.recovering,
            has_bad_or_copied,
            fast,
            grow: &|tier| Ok(storage.grow(tier, None)?.is_some()),
        };
        for (number, node) in self.view.nodes().iter().enumerate() {
            if node.removed || !node.has_pieces() {
                continue;
            }
            let parts = self.resolver.resolve(self.view.pieces(node));
            if node.record.mapped {
                self.placements.mapped.add(node.record.inode, parts);
                continue;
            }
            if let Err(full) = placer.place(number as u32, node, parts, &mut self.placements)? {
                return Ok(Err(full));
            }
        }
        let writer = placer.writer;
        let copied = &self.buffer[..self.copied];
        let Placements { overwrites, damaged, .. } = &mut self.placements;
        overwrites.carry_out(&writer, copied, damaged)?;
        storage.arenas.fence()?;
        storage.arenas.check_failures(failures)?;
        if !planted::active(Bug::MappedAfterCommit) {
            self.placements.mapped.carry_out(storage.mapped, storage.arenas, copied)?;
        }
        Ok(Ok(()))
    }

    fn finish(
        &mut self,
        storage: &Storage<'_>,
        transaction: Transaction,
        log: &LogView,
        scanned: Scanned,
    ) -> Result<Batch, Error> {
        let coalesced = self.coalesced(scanned.entries);
        let mut batch = Batch {
            from: log.from,
            to: scanned.to,
            entries: scanned.entries,
            coalesced,
            debits: scanned.debits,
            bytes_copied: self.placements.bytes_copied,
            blocks_freed: 0,
            rejected: scanned.rejected,
            at_break: scanned.at_break,
        };
        if batch.entries > 0 {
            batch.blocks_freed = self.commit(storage, transaction, log, &batch)?;
            if storage.lost.has_files() {
                self.note_renewed(storage, log, batch.to);
            }
        }
        if planted::active(Bug::MappedAfterCommit) {
            self.placements.mapped.carry_out(storage.mapped, storage.arenas, &self.buffer[..self.copied])?;
        }
        Ok(batch)
    }

    /// Entries beyond one for each thing that changed were overtaken.
    fn coalesced(&self, entries: u64) -> u64 {
        let names = self.view.names.all().iter().filter(|name| name.before != name.now).count();
        let files = self.placements.changes.len() + self.placements.overwrites.runs();
        let extended = self.view.extended.changed().count();
        entries.saturating_sub((names + files + extended) as u64)
    }

    pub(crate) fn parts(&mut self) -> (&View, &mut Reservation, &Placements, &[u8]) {
        (&self.view, &mut self.reservation, &self.placements, &self.buffer[..self.copied])
    }
}

/// Where a batch ends at the latest.
struct Limits {
    entries_max: u64,
    bytes_max: u64,
    touched_max: usize,
}

/// Applies the entries of a copied log to the view, up to one that cannot be, or changes something `foreign`.
fn apply_all<L: Lookup>(
    applied: &Applied<'_, L>,
    view: &mut View,
    log: &LogView,
    limits: &Limits,
    foreign: &HashSet<InodeNumber>,
) -> Result<Scanned, Error> {
    let mut scanner = Scanner::new(applied.batch, log.from, log.salt, &log.files.geometry);
    let mut scanned = Scanned { to: log.from, entries: 0, debits: 0, rejected: None, at_break: false };
    while scanned.entries < limits.entries_max
        && scanned.to.0 - log.from.0 < limits.bytes_max
        && view.touched() < limits.touched_max
        && view.claims.blocks() < STAGED_BLOCKS_MAX
    {
        if log.cut.is_some_and(|cut| scanned.to >= cut) {
            scanned.at_break = true;
            break;
        }
        let (header, body) = match scanner.step() {
            ScanStep::Entry(header, body) => (header, body),
            ScanStep::Cut { .. } => break,
            ScanStep::End(_) => {
                scanned.at_break = true;
                scanned.rejected = (scanned.to < log.whole).then_some(Rejection::Damaged);
                break;
            }
        };
        match apply(applied, view, log, &header, body, foreign) {
            Ok(()) => {
                scanned.to = scanner.position();
                scanned.entries += 1;
                scanned.debits += u64::from(header.fields().debit_blocks);
            }
            Err(Stop::Rejected(why)) => {
                scanned.rejected = Some(why);
                break;
            }
            Err(Stop::Unwritten) => {
                scanned.at_break = true;
                break;
            }
            Err(Stop::Failed(error)) => return Err(error),
        }
    }
    Ok(scanned)
}

fn apply<'a, L: Lookup>(
    applied: &Applied<'a, L>,
    view: &mut View,
    log: &LogView,
    header: &VerifiedHeader,
    body: &'a [u8],
    foreign: &HashSet<InodeNumber>,
) -> Result<(), Stop> {
    let fields = header.fields();
    if fields.lease_generation != log.lease_generation && !planted::active(Bug::ReusedSalt) {
        let (expected, found) = (log.lease_generation.0, fields.lease_generation.0);
        return Err(Rejection::Generation { expected, found }.into());
    }
    let operation = Operation::decode(fields, body).map_err(Rejection::from)?;
    if !foreign.is_empty()
        && let Some(&inode) = operation.changes().iter().find(|inode| foreign.contains(*inode))
    {
        return Err(Rejection::NotHeld(inode).into());
    }
    if let Operation::WriteStaged { staged, .. } = &operation
        && !applied.store.is_there(staged, fields.end())?
    {
        return Err(Stop::Unwritten);
    }
    applied.apply(view, &operation, fields.time)?;
    if fields.is_synchronous()
        && let Some(file) = view.find(applied.store, fields.inode)?
    {
        view.node_mut(file).is_synchronous = true;
    }
    if let Some(tag) = CallTag::of(fields, body) {
        view.calls.note(&tag, &operation);
    }
    Ok(())
}

/// Has the disk take the log, unless it has. A batch is about to write over committed blocks, and only the log can
/// do that again. Says whether it is there: up to a staged write whose blocks are not, it would not be found.
fn is_kept(storage: &Storage<'_>, log: &LogView, to: LogPosition, claims: &Claims) -> bool {
    if storage.medium != Medium::Block || to <= log.durable || planted::active(Bug::OverwriteUnwritten) {
        return true;
    }
    let flushed = log.files.sync(log.from, to).and_then(|()| flush_claims(storage, claims));
    if let Err(Error::TierFailed { tier, why }) = &flushed {
        storage.fail_tier(*tier, why);
    }
    flushed.is_ok() && claims.runs().all(|run| storage.arenas.takes_writes(run.address.tier()))
}

/// Has the disk take the blocks that a batch names.
fn flush_claims(storage: &Storage<'_>, claims: &Claims) -> Result<(), Error> {
    storage.arenas.flush(claims.runs().map(|run| storage.geometry.arena(run.address)))
}
