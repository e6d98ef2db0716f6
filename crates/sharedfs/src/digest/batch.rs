//! One batch: a log prefix is read, checked, applied in memory, placed, and committed.

use super::orphans::Orphans;
use super::place::{OutOfBlocks, Placements, Placer};
use crate::Error;
use crate::catching_up::CatchingUp;
use crate::leases::LoggedChange;
use crate::lost::Lost;
use crate::mapped::MappedFiles;
use crate::metadata::{Dirent, MetadataError, MetadataStore, Snapshot, StoredInode, Transaction};
use crate::namespace::{Applied, Lookup, Rejection, Resolver, Stop, View};
use crate::sessions::{LogFiles, Openers};
use crate::stand_ins::StandIns;
use crate::tiers::{Allocator, Arenas, ContentWriter, Credits, Grown, Reservation};
use cuesta_format::entry::{Salt, VerifiedHeader};
use cuesta_format::{
    CallSlot, CallTag, Caller, Extent, Geometry, InodeNumber, LeaseGeneration, LogGeneration, LogPosition,
    Medium, Operation, SessionId,
};
use cuesta_media::Node;
use cuesta_media::planted::{self, Bug};
use cuesta_oplog::{ScanStep, Scanner};
use hashbrown::HashSet;
use parking_lot::Mutex;
use std::cell::{LazyCell, OnceCell, RefCell};
use std::io::ErrorKind;
use std::ops::Range;

/// A session's log, as a digest needs to know it.
#[derive(Clone, Debug)]
pub struct LogView {
    /// Whose it is.
    pub session: SessionId,
    /// Its segments.
    pub files: LogFiles,
    /// What its checksums are salted with.
    pub salt: Salt,
    /// The generation of the log.
    pub log_generation: LogGeneration,
    /// The lease generation its entries carry.
    pub lease_generation: LeaseGeneration,
    /// Where the digest goes on.
    pub from: LogPosition,
    /// What the session says is complete: a hint.
    pub completed: LogPosition,
    /// What lies before this was acknowledged: a log that ends earlier was damaged.
    pub whole: LogPosition,
    /// Nothing from here on is digested: it depends on what another log lost.
    pub cut: Option<LogPosition>,
    /// What lies before this is on the disk, as the session says, in its log or its commit file (medium `block`).
    pub durable: LogPosition,
    /// Inode numbers its new inodes may have.
    pub numbers: Range<u64>,
    /// Blocks promised to the session and not digested.
    pub promised: u64,
    /// Blocks debited by everything digested so far.
    pub debited: u64,
    /// Blocks it may debit in all.
    pub credit_limit: u64,
    /// The memory node its process was on when the log last grew, on a machine with several.
    pub node: Option<Node>,
}

/// How far a digest goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Up to what is on the disk, if there is any of it: what is written over in place by that needs no wait before it. Else as far as
    /// the next.
    Durable,
    /// Up to what the session says is complete.
    Completed,
    /// Up to the first break: a fence, a recovery or the end of a session.
    Break,
}

/// What a batch did.
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

/// The digest's working memory, reused from batch to batch, and what it knows of the store. One digest runs at
/// a time.
#[derive(Debug, Default)]
pub struct Digester {
    /// The copied log, at the start of a buffer that only grows.
    buffer: Vec<u8>,
    copied: usize,
    view: View,
    resolver: Resolver,
    /// What the last batch placed.
    pub placements: Placements,
    reservation: Reservation,
    /// What the log of the batch says something of, and must not.
    foreign: HashSet<InodeNumber>,
    /// Inodes without a name.
    pub orphans: Orphans,
    /// Sessions that are over, whose rows the next transaction removes.
    pub ended: Vec<SessionId>,
}

/// Blocks and promises; taken for placing and for committing, never while a log is read.
#[derive(Debug)]
pub struct Space {
    /// Blocks.
    pub allocator: Allocator,
    /// Promises.
    pub credits: Credits,
}

/// What a digest works on.
pub struct Storage<'a> {
    /// Sizes.
    pub geometry: Geometry,
    /// How what is stored becomes durable.
    pub medium: Medium,
    /// Metadata.
    pub metadata: &'a MetadataStore,
    /// Arenas.
    pub arenas: &'a Arenas,
    /// Blocks and promises.
    pub space: &'a Mutex<Space>,
    /// What the kernel has in the place of pipes and sockets.
    pub stand_ins: &'a StandIns,
    /// What the kernel has in the place of files in mapped mode.
    pub mapped: &'a MappedFiles,
    /// What changed in directories that sessions change in turns.
    pub(crate) catching_up: &'a CatchingUp,
    /// What damaged logs lost.
    pub(crate) lost: &'a Lost,
    /// Who else has something to do with an inode.
    pub others: &'a dyn Others,
    /// Promises were made by a daemon that is gone, and what it had allocated for them is found by growing.
    pub recovering: bool,
}

/// What sessions other than the one whose log is digested have to do with inodes.
pub(crate) trait Others {
    /// What is open in sessions but `session`, and by descriptors.
    fn openers(&self, session: SessionId) -> Openers<'_>;

    /// Whether a session but `session` has a lease on the inode, or its log may still say something of it.
    fn have_lease(&self, inode: InodeNumber, session: SessionId) -> bool;

    /// The disk has what the batch depends on of other logs when this returns.
    fn make_durable(&self, batch: &View) -> Result<(), Error>;

    /// Adds to `foreign` each inode that `session` may not change in what its log says is done to it.
    fn add_foreign(
        &self,
        session: SessionId,
        changes: &mut dyn Iterator<Item = LoggedChange>,
        foreign: &mut HashSet<InodeNumber>,
    );
}

impl Storage<'_> {
    /// Gives the arenas a step of memory more, from the memory node `wanted` if it has some; `None`: there is no more to be had.
    pub fn grow(&self, wanted: Option<Node>) -> Result<Option<Grown>, Error> {
        let grown = match self.arenas.grow(wanted) {
            Err(Error::NoSpace) => return Ok(None),
            grown => grown?,
        };
        self.space.lock().allocator.grow(&grown);
        Ok(Some(grown))
    }
}

struct Before<'a> {
    snapshot: &'a Snapshot,
    inodes_end: InodeNumber,
    orphans: &'a Orphans,
    session: SessionId,
    storage: &'a Storage<'a>,
    /// Numbers that no inode had, as the last look for a new one showed: a session's new inodes have numbers behind each other.
    free_numbers: RefCell<Range<u64>>,
    /// Looked for when it is first asked for, after the log was read.
    openers: OnceCell<Openers<'a>>,
}

impl Lookup for Before<'_> {
    fn inode(&self, inode: InodeNumber) -> Result<Option<StoredInode>, Error> {
        // New files have numbers behind all others, most of the time.
        if inode >= self.inodes_end || self.free_numbers.borrow().contains(&inode.0) {
            return Ok(None);
        }
        let found = self.snapshot.inode(inode)?;
        if found.is_none()
            && let Some(free) = self.snapshot.numbers_free_from(inode)?
        {
            *self.free_numbers.borrow_mut() = free;
        }
        Ok(found)
    }

    fn table_extents(&self, inode: InodeNumber) -> Result<Vec<Extent>, Error> {
        Ok(self.snapshot.extents(inode, 0..u64::MAX)?)
    }

    fn name(&self, parent: InodeNumber, name: &[u8]) -> Result<Option<Dirent>, Error> {
        Ok(self.snapshot.lookup(parent, name)?)
    }

    fn extended(&self, inode: InodeNumber, name: &[u8]) -> Result<Option<u32>, Error> {
        Ok(self.snapshot.extended_length(inode, name)?.map(|bytes| bytes as u32))
    }

    fn holder(&self, inode: InodeNumber) -> Option<SessionId> {
        self.orphans.holder(inode)
    }

    fn is_open_elsewhere(&self, inode: InodeNumber) -> bool {
        self.openers.get_or_init(|| self.storage.others.openers(self.session)).have(inode)
    }

    fn is_in_logs_elsewhere(&self, inode: InodeNumber) -> bool {
        self.storage.recovering || self.storage.others.have_lease(inode, self.session)
    }

    fn call_slots(&self, caller: Caller) -> Result<Vec<CallSlot>, Error> {
        Ok(self.snapshot.call_slots(caller)?)
    }
}

/// Bytes read behind what a session says is complete, to find the break.
const BREAK_BYTES: u64 = 8 << 10;

/// A batch ends when it has touched so many inodes and names, which cost a microsecond or two each: somebody may wait
/// for its end. Nobody waits for a part of a recovery.
const TOUCHED_MAX: usize = 64 << 10;

/// So often a batch is done again without blocks that the medium did not take; then it is the medium that has failed.
const SET_ASIDE_MAX: usize = 64;

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
        for _ in 0..SET_ASIDE_MAX {
            let digested = self.try_digest(storage, log, until, bytes_max);
            let Err(error) = digested else { return digested };
            let allocator = &mut storage.space.lock().allocator;
            allocator.abandon(&mut self.reservation);
            let Error::Unwritable(run) = error else { return Err(error) };
            tracing::error!(%error, "they are not used any more");
            allocator.set_aside(run);
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
            // Who did nothing loses nothing: only what cannot be kept is an error.
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
                    if storage.recovering && storage.grow(log.node)?.is_some() {
                        continue;
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
            // Nobody is left to say how much there is.
            Until::Break if recovering => bytes_max,
            Until::Break => hinted.saturating_add(BREAK_BYTES),
        }
        .min(bytes_max.max(geometry.entry_bytes_max()));
        // An entry longer than what was read: once more, with all of it.
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

    /// Finds blocks for what is left of the batch's content and copies it there.
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
        let mut standing = self.view.nodes().iter().filter(|node| node.has_pieces() && !node.removed);
        if storage.medium == Medium::Block && to > log.durable && standing.any(|node| node.record.mapped) {
            log.files.sync(log.from, to)?;
        }
        let is_kept = LazyCell::new(|| is_kept(storage, log, to));
        let mut placer = Placer {
            batch: &self.buffer[..self.copied],
            arenas: storage.arenas,
            writer: ContentWriter::new(storage.geometry, storage.arenas),
            before,
            space: storage.space,
            reservation: &mut self.reservation,
            promised: log.promised,
            near: log.node,
            may_overwrite: &|| to <= log.whole && *is_kept || planted::active(Bug::OverwriteUnacknowledged),
            recovering: storage.recovering,
            has_bad: storage.space.lock().allocator.bad_blocks() > 0,
            checks_content: storage.geometry.checks_content,
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
        if !planted::active(Bug::MappedAfterCommit) {
            self.placements.mapped.carry_out(storage.mapped, copied)?;
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
            self.placements.mapped.carry_out(storage.mapped, &self.buffer[..self.copied])?;
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

    pub(super) fn parts(&mut self) -> (&View, &mut Reservation, &Placements, &[u8]) {
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
    applied.apply(view, &operation, fields.time)?;
    if let Some(tag) = CallTag::of(fields, body) {
        view.calls.note(&tag, &operation);
    }
    Ok(())
}

/// Has the disk take the log, unless it has: a batch is about to write over what the store has, and the log is all there is to do it
/// again from. Says whether it is there.
fn is_kept(storage: &Storage<'_>, log: &LogView, to: LogPosition) -> bool {
    storage.medium != Medium::Block
        || to <= log.durable
        || planted::active(Bug::OverwriteUnwritten)
        || log.files.sync(log.from, to).is_ok()
}
