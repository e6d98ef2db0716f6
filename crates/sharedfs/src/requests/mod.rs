//! Requests: everything LibFS and the command may ask (`format::wire`), answered without sockets.

mod accesses;
mod ahead;
mod commit_file;
mod explanation;
mod first;
mod granting;
mod holding;
mod packed;
mod passing;
mod quotas;
mod written;

pub(crate) use ahead::Ahead;
pub(crate) use explanation::find;
pub(crate) use packed::Packed;

use crate::ending::{Ending, Loses};
use crate::lost::unreadable;
use crate::metadata::{Entry, MetadataError};
use crate::observe::Counters;
use crate::sessions::{Presence, Segment, Session, copies, offsets, remove_segment};
use crate::store::Core;
use crate::{Error, SharedFs};
use cuesta_format::event::Step;
use cuesta_format::wire::{
    DEPENDENCIES_MAX, DESCRIPTORS_MAX, DirectoryEntry, PROTOCOL_VERSION, Refusal, Request, Response,
    Resynced, SessionStatus, Status, StoreTotals,
};
use cuesta_format::{ArenaId, InodeNumber, Medium, SessionId};
use cuesta_media::Node;
use cuesta_media::planted::{self, Bug};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Most names or extents that come with a grant.
const GRANT_ITEMS: usize = 1024;
/// Most names or extents of one answer.
const ANSWER_ITEMS: usize = 16 << 10;
/// Most events of one answer.
const ANSWER_EVENTS: usize = 4096;
/// Most bytes of extended attributes that come with a grant.
const GRANT_EXTENDED_BYTES: u32 = 512;
/// What a new inode and its name take in the metadata store, generously.
const METADATA_BYTES_OF_INODE: u64 = 1024;
/// Most inode numbers granted at once.
const NUMBERS_MAX: u32 = 1 << 16;
/// Most segments made for one request: each takes a millisecond, and others wait. Spare ones are not counted.
const SEGMENTS_MADE_MAX: u32 = 4;
/// Fewer blocks than these are only promised to who asks for no more: 2 MiB, one step of an arena.
const CREDIT_LEAST_BLOCKS: u64 = 512;
/// Longest wait of a trace request.
const TRACE_WAIT_MS: u32 = 10_000;

/// Why a request is not answered as asked.
pub(crate) enum Trouble {
    Refused(Refusal),
    Failed(Error),
}

impl<E: Into<Error>> From<E> for Trouble {
    fn from(error: E) -> Trouble {
        Trouble::Failed(error.into())
    }
}

pub(crate) fn invalid(what: &str) -> Trouble {
    Trouble::Refused(Refusal::Invalid(what.to_owned()))
}

impl SharedFs {
    /// Answers a request of a session; [`SessionId::NOBODY`] stands for a caller that is not attached, which may ask for
    /// what concerns the store as a whole. Descriptors that go with the answer are appended to `descriptors`.
    pub fn handle(&self, session: SessionId, request: &Request, descriptors: &mut Vec<OwnedFd>) -> Response {
        let asked = Instant::now();
        let answer = self.answer(session, request, descriptors);
        self.request_times.note(request, asked.elapsed());
        match answer {
            Ok(response) => response,
            Err(Trouble::Refused(refusal)) => Response::Failed(refusal),
            Err(Trouble::Failed(error)) => Response::Failed(error.into()),
        }
    }

    fn answer(
        &self,
        session: SessionId,
        request: &Request,
        descriptors: &mut Vec<OwnedFd>,
    ) -> Result<Response, Trouble> {
        if self.is_left() {
            return Err(MetadataError::Left.into());
        }
        match request {
            Request::Statfs { tree } => return Ok(Response::Statfs(self.totals_in(session, *tree)?)),
            Request::Quotas => return Ok(self.list_quotas()?),
            Request::SetQuota { of, limits } => return self.set_quota(of, *limits),
            Request::Status => return Ok(Response::Status(Box::new(self.status()?))),
            Request::Explain { path } => return self.explain(path),
            Request::Scrub { from } => return self.scrub(*from),
            Request::Trace { from, wait_ms } => {
                let wait = Duration::from_millis(u64::from((*wait_ms).min(TRACE_WAIT_MS)));
                return Ok(Response::Events(self.events.read(*from, ANSWER_EVENTS, wait)));
            }
            Request::Stop => {
                self.digest_everything()?;
                return Ok(Response::Done);
            }
            Request::Attach { version, pid, program, first, resume } => {
                if *version != PROTOCOL_VERSION {
                    return Err(Trouble::Refused(Refusal::Version { daemon: PROTOCOL_VERSION }));
                }
                let (_, mut welcome, handed) = match *resume {
                    SessionId::NOBODY => self.attach(*pid, program)?,
                    session => self.resume(session, *pid, program)?,
                };
                welcome.ahead = self.grant_first(welcome.session, *first);
                descriptors.extend(handed);
                return Ok(Response::Attached(welcome));
            }
            _ => {}
        }
        if !self.core.lock().sessions.contains_key(&session) {
            return Err(Trouble::Refused(Refusal::SessionEnded));
        }
        match request {
            Request::CommitFile => self.commit_file(session, descriptors),
            Request::GrowLog { have, slots } => self.grow_log(session, *have, *slots, descriptors),
            Request::Acquire { inode, mode, ahead, beside, kept, sends } => {
                let ahead = Ahead::of(*inode, *ahead, beside);
                self.acquire(session, *inode, *mode, ahead, kept.as_ref(), *sends)
            }
            Request::Ahead { near, count } => Ok(self.ahead(session, *near, *count)?),
            Request::Lookup { parent, name } => self.lookup(session, *parent, name),
            Request::List { parent, after } => self.list(session, *parent, after),
            Request::Extents { inode, from_block } => self.extents(session, *inode, *from_block),
            Request::Extended { inode } => self.extended(session, *inode),
            Request::Map { inode } => self.map(session, *inode),
            Request::IsWritten { inode } => Ok(Response::Written(self.is_written(*inode))),
            Request::Pass { number, inode, description } => {
                self.pass(*number, *inode, description, descriptors)
            }
            Request::Passed { number } => self.passed(*number, descriptors),
            Request::NothingInKernel => {
                self.keep_nothing_in_kernel(session);
                Ok(Response::Done)
            }
            Request::GiveBack { inodes } => self.give_back(session, inodes),
            Request::Verify { inode, address } => {
                self.check_held(session, *inode)?;
                self.verify(*inode, *address)
            }
            Request::InodeNumbers { count } => {
                let count = (*count).clamp(1, NUMBERS_MAX);
                // Numbers are credit for metadata: what is made with them must find room there.
                self.metadata.ensure_slack(u64::from(count) * METADATA_BYTES_OF_INODE)?;
                let (first, count) = self.grant_numbers(&mut self.core.lock(), session, count)?;
                Ok(Response::InodeNumbers { first, count })
            }
            Request::Credit { blocks } => self.credit(session, *blocks),
            Request::Room { payer, needed } => self.room_of(session, *payer, *needed),
            Request::Report { from, skip } => self.with_session(session, |found| {
                self.reclaim(found, None);
                Response::Report(found.report(*from, *skip))
            }),
            Request::Arenas { arenas } => self.hand_out_arenas(arenas, descriptors),
            Request::Digest => {
                self.digest_completed(session)?;
                // One whose log proves wrong is ended by that.
                self.with_session(session, |_| Response::Done)
            }
            Request::Resync => self.resync(session),
            Request::Stands => self.stands(),
            Request::Marks => self.marks_of(session, descriptors),
            Request::MakeDurable { logs } => {
                if logs.len() > DEPENDENCIES_MAX {
                    return Err(invalid("too many logs at once"));
                }
                self.make_durable(logs.iter().copied())?;
                Ok(Response::Done)
            }
            Request::Accessed { accesses } => {
                if let Err(error) = self.move_accesses(session, accesses) {
                    tracing::debug!(%error, "times of last access stay as they were");
                }
                Ok(Response::Done)
            }
            Request::Call { slot } => self.last_call(*slot),
            Request::Detach => {
                self.end_session(session, Ending::Gone)?;
                Ok(Response::Done)
            }
            Request::Attach { .. }
            | Request::Statfs { .. }
            | Request::Status
            | Request::Quotas
            | Request::SetQuota { .. }
            | Request::Explain { .. }
            | Request::Scrub { .. }
            | Request::Trace { .. }
            | Request::KeepInKernel
            | Request::Stop
            | Request::Unheard => Err(invalid("not a session's request")),
        }
    }

    pub(super) fn with_session<R>(
        &self,
        session: SessionId,
        act: impl FnOnce(&mut Session) -> R,
    ) -> Result<R, Trouble> {
        let mut core = self.core.lock();
        core.sessions.get_mut(&session).map(act).ok_or(Trouble::Refused(Refusal::SessionEnded))
    }

    /// Gives the session more segments, as many as can be had and sent, behind the `have` it has mapped. The table
    /// knows them before it does. Segments granted before that did not reach it are sent again, and only they.
    fn grow_log(
        &self,
        session: SessionId,
        have: u32,
        slots: u32,
        descriptors: &mut Vec<OwnedFd>,
    ) -> Result<Response, Trouble> {
        let (granted, missing) = self.with_session(session, |found| {
            let missing = found.segments.get(have as usize..).unwrap_or_default();
            (found.segments.len(), missing[..missing.len().min(DESCRIPTORS_MAX)].to_vec())
        })?;
        if !missing.is_empty() {
            descriptors.extend(copies(&missing)?);
            return Ok(Response::Grown { offsets: offsets(&missing) });
        }
        if granted != have as usize {
            return Err(invalid("more slots mapped than granted"));
        }
        let wanted = slots.min(self.geometry().ring_slots) as usize;
        let wanted = wanted.saturating_sub(granted).min(DESCRIPTORS_MAX);
        let node = self.look_for_node(session)?;
        let added = match self.find_segments(wanted, node) {
            // Fewer segments make a shorter log, not an error.
            (added, None) => added,
            (added, Some(_)) if !added.is_empty() || granted >= 2 => added,
            (_, Some(error)) => return Err(error.into()),
        };
        if added.is_empty() {
            return Ok(Response::Grown { offsets: Vec::new() });
        }
        let slots = match self.add_segments(session, granted, &added, descriptors) {
            Ok(slots) => slots,
            Err(trouble) => {
                let mut core = self.core.lock();
                added.iter().for_each(|segment| core.pool.add(segment));
                return Err(trouble);
            }
        };
        self.events.record(Step::Grow { session, slots });
        Ok(Response::Grown { offsets: offsets(&added) })
    }

    /// The memory node the session's process runs on now, if the machine has several.
    fn look_for_node(&self, session: SessionId) -> Result<Option<Node>, Trouble> {
        if !self.nodes.are_several() {
            return Ok(None);
        }
        let pid = self.with_session(session, |found| found.pid)?;
        let node = self.nodes.of_process(pid);
        self.with_session(session, |found| found.node = node)?;
        Ok(node)
    }

    /// Up to `wanted` segments nobody uses, on `node` if they can be had there, and what kept them from being more.
    pub(super) fn find_segments(&self, wanted: usize, node: Option<Node>) -> (Vec<Segment>, Option<Error>) {
        let mut found = Vec::with_capacity(wanted);
        let mut made = 0;
        let mut has_room = true;
        while found.len() < wanted {
            let mut core = self.core.lock();
            let segment = match core.pool.take_spare(node, has_room) {
                Some(segment) => segment,
                None if made == SEGMENTS_MADE_MAX => break,
                None => {
                    made += 1;
                    let id = core.pool.next_id();
                    let surplus = core.pool.take_surplus(node, self.spare_segments_kept());
                    // It takes its time: nobody else waits meanwhile.
                    drop(core);
                    if let Some(surplus) = surplus
                        && let Err(error) = remove_segment(&self.parts, surplus)
                    {
                        return (found, Some(error));
                    }
                    match self.make_segment(id, node) {
                        // There may be some of another node.
                        Err(Error::NoSpace) if node.is_some() && has_room => {
                            has_room = false;
                            continue;
                        }
                        made => made,
                    }
                }
            };
            match segment {
                Ok(segment) => found.push(segment),
                Err(error) => return (found, Some(error)),
            }
        }
        (found, None)
    }

    /// Makes segments the session's, behind the `granted` ones it has. Answers how many slots it has then.
    fn add_segments(
        &self,
        session: SessionId,
        granted: usize,
        added: &[Segment],
        descriptors: &mut Vec<OwnedFd>,
    ) -> Result<u32, Trouble> {
        let files = copies(added)?;
        let mut core = self.core.lock();
        let Core { sessions, table, .. } = &mut *core;
        let found = sessions.get_mut(&session).ok_or(Trouble::Refused(Refusal::SessionEnded))?;
        if found.segments.len() != granted {
            return Err(invalid("the log grows already"));
        }
        found.record.segments.extend(added.iter().map(|segment| segment.id));
        if let Err(error) = table.write(found.slot, &found.record) {
            found.record.segments.truncate(granted);
            return Err(error.into());
        }
        found.segments.extend_from_slice(added);
        let slots = found.segments.len() as u32;
        found.control.publish_slots(slots);
        descriptors.extend(files);
        Ok(slots)
    }

    fn check_held(&self, session: SessionId, inode: InodeNumber) -> Result<(), Trouble> {
        match self.core.lock().leases.held(session, inode) {
            Some(_) => Ok(()),
            None => Err(invalid("the session holds no lease on the inode")),
        }
    }

    fn list(&self, session: SessionId, parent: InodeNumber, after: &[u8]) -> Result<Response, Trouble> {
        self.check_held(session, parent)?;
        let entries = self.metadata.read()?.list(parent, after, ANSWER_ITEMS)?;
        let complete = entries.len() < ANSWER_ITEMS;
        Ok(Response::Entries { entries: entries.into_iter().map(directory_entry).collect(), complete })
    }

    fn extents(&self, session: SessionId, inode: InodeNumber, from_block: u64) -> Result<Response, Trouble> {
        self.check_held(session, inode)?;
        let snapshot = self.metadata.read()?;
        let Some(stored) = snapshot.inode(inode)? else {
            return Err(Trouble::Refused(Refusal::NotFound));
        };
        if let Some(lost) = self.lost.size_of(inode) {
            let extents = unreadable(&self.geometry(), stored.record.size.max(lost), from_block);
            return Ok(Response::Extents { extents, complete: true });
        }
        let extents = snapshot.extents(inode, from_block..u64::MAX)?;
        let complete = extents.len() <= ANSWER_ITEMS;
        let extents = self.split(extents.into_iter().take(ANSWER_ITEMS));
        Ok(Response::Extents { extents, complete })
    }

    fn extended(&self, session: SessionId, inode: InodeNumber) -> Result<Response, Trouble> {
        self.check_held(session, inode)?;
        Ok(Response::Extended(self.metadata.read()?.extended(inode)?))
    }

    /// Takes leases back. Where the log may still change their inodes, they stay until it is digested.
    fn give_back(&self, session: SessionId, inodes: &[InodeNumber]) -> Result<Response, Trouble> {
        let _wanted = self.await_names(session, inodes);
        self.doubt_in_kernel(session, inodes.iter().copied());
        let mut core = self.core.lock();
        let Core { sessions, leases, .. } = &mut *core;
        let found = sessions.get_mut(&session).ok_or(Trouble::Refused(Refusal::SessionEnded))?;
        // What a digest is under way with can still change it, whatever the session says by now.
        let completed = found.completed().max(found.digesting);
        let lingers = completed > found.digested && !planted::active(Bug::GivenBackAtOnce);
        let until = lingers.then_some(completed);
        for &inode in inodes {
            if leases.give_back(session, inode, until) {
                found.lingering.extend(until.map(|until| (inode, until)));
            }
        }
        Ok(Response::Done)
    }

    /// Promises more blocks, as many as asked for or, rather than let the caller wait, those there are: it asks
    /// again. When there is no room otherwise, digests what is waiting, and then takes back what others were promised and
    /// do not use, and what they freed and have not let go of: a session that does nothing never would.
    fn credit(&self, session: SessionId, blocks: u64) -> Result<Response, Trouble> {
        self.check_medium()?;
        self.reclaim_all();
        if self.promise(session, blocks)? {
            return Ok(Response::Done);
        }
        self.digest_everything()?;
        self.look_for_closed()?;
        if self.promise(session, blocks)? {
            return Ok(Response::Done);
        }
        let keeping = self.space.lock().allocator.keeping();
        let others: Vec<SessionId> = {
            let core = self.core.lock();
            let has_some = |found: &&Session| found.promised() > 0 || keeping.contains(&found.id);
            core.sessions
                .values()
                .filter(has_some)
                .map(|found| found.id)
                .filter(|&other| other != session)
                .collect()
        };
        for other in others {
            self.take_back_space(other)?;
        }
        if self.promise(session, blocks)? {
            return Ok(Response::Done);
        }
        Err(Trouble::Refused(Refusal::NoSpace))
    }

    /// Promises blocks if they can be had.
    fn promise(&self, session: SessionId, blocks: u64) -> Result<bool, Trouble> {
        let least = blocks.min(CREDIT_LEAST_BLOCKS);
        while self.room() < least {
            let node = self.with_session(session, |found| found.node)?;
            if !self.grow(node, || self.room() >= least)? {
                return Ok(false);
            }
        }
        let beyond = self.mapped.beyond();
        let mut core = self.core.lock();
        let found = core.sessions.get_mut(&session).ok_or(Trouble::Refused(Refusal::SessionEnded))?;
        let mut space = self.space.lock();
        let available = self.room_in(&space, beyond);
        if available < least {
            return Ok(false);
        }
        let granted = blocks.min(available);
        space.credits.grant(granted);
        found.credit_limit += granted;
        found.control.publish_credit(found.credit_limit);
        Ok(true)
    }

    fn reclaim_all(&self) {
        let mut core = self.core.lock();
        for session in core.sessions.values_mut() {
            self.reclaim(session, None);
        }
    }

    pub(crate) fn digest_everything(&self) -> Result<(), Error> {
        let sessions: Vec<SessionId> = self.core.lock().sessions.keys().copied().collect();
        for session in sessions {
            self.digest_completed(session)?;
        }
        self.reclaim_all();
        Ok(())
    }

    fn hand_out_arenas(
        &self,
        arenas: &[ArenaId],
        descriptors: &mut Vec<OwnedFd>,
    ) -> Result<Response, Trouble> {
        if arenas.len() > DESCRIPTORS_MAX {
            return Err(invalid("too many arenas at once"));
        }
        let first = descriptors.len();
        let mut offsets = Vec::with_capacity(arenas.len());
        for &arena in arenas {
            if arena.0 >= self.arenas.count() {
                descriptors.truncate(first);
                return Err(Trouble::Refused(Refusal::NotFound));
            }
            let (file, offset) = self.arenas.descriptor(arena)?;
            descriptors.push(file);
            offsets.push(offset);
        }
        Ok(Response::Arenas { offsets })
    }

    /// Tells a fenced session what became of its log; waits for the fence, if it is going on. Looked at and answered in one
    /// breath: a further fence that begins between the two would pass off the log's old end as its own.
    fn resync(&self, session: SessionId) -> Result<Response, Trouble> {
        loop {
            let settled = self.with_session(session, |found| {
                (!found.is_unsettled())
                    .then(|| self.resynced(found))
                    .inspect(|_| found.presence = Presence::Here)
            })?;
            if let Some(resynced) = settled {
                return Ok(Response::Resynced(resynced));
            }
            self.settle_fence(&mut self.digester.lock(), session, Loses::Nothing)?;
        }
    }

    fn resynced(&self, found: &mut Session) -> Resynced {
        let revoked = std::mem::take(&mut found.revoked);
        let retired = found.retired(self.geometry().ring_bytes());
        Resynced {
            accepted: found.record.start,
            resume: found.record.start,
            log_generation: found.record.log_generation,
            lease_generation: found.lease_generation,
            versions: revoked.iter().filter_map(|(&inode, &version)| Some((inode, version?))).collect(),
            revoked: revoked.into_keys().collect(),
            revoked_all: std::mem::take(&mut found.revoked_all),
            report: found.report(retired, 0),
        }
    }

    /// Totals for `statfs`.
    pub fn totals(&self) -> Result<StoreTotals, Error> {
        // On a full medium, or where nothing is written any more, what is closed stays until that can be said.
        match self.look_for_closed() {
            Err(Error::NoSpace) => {}
            Err(_) if self.metadata.is_read_only() => {}
            looked => drop(looked?),
        }
        self.reclaim_all();
        let counters = self.metadata.read()?.counters()?;
        let beyond = self.mapped.beyond();
        let (free, promised) = {
            let space = self.space.lock();
            (space.credits.for_sessions(self.free_at_most(&space, beyond)), space.credits.outstanding())
        };
        Ok(StoreTotals {
            blocks: self.blocks_at_most(),
            blocks_free: free,
            blocks_promised: promised.min(free),
            inodes: counters.inodes,
            inodes_free: free,
        })
    }

    fn status(&self) -> Result<Status, Error> {
        let totals = self.totals()?;
        let core = self.core.lock();
        let geometry = self.geometry();
        let sessions = core.sessions.values().map(|session| SessionStatus {
            session: session.id,
            pid: session.pid,
            program: session.program.clone(),
            log_bytes: session.undigested_bytes(),
            log_capacity_bytes: session.segments.len() as u64 * geometry.segment_bytes,
            leases: core.leases.count(session.id),
            operations: session.control.operations(),
            node: session.node.map(|node| node.0),
        });
        let Counters { digested_entries, coalesced_entries, digested_bytes, .. } = &self.counters;
        Ok(Status {
            store: self.superblock.store,
            medium: self.superblock.medium,
            emulated: self.profile(),
            persistence_domain: (self.superblock.medium == Medium::Pmem)
                .then(|| self.options.persistence_domain.of(self.region)),
            node: self.region.and_then(|region| region.node),
            free_on_nodes: {
                let space = self.space.lock();
                space.allocator.nodes().free().iter().map(|(node, &free)| (node.0, free)).collect()
            },
            bad_blocks: self.space.lock().allocator.bad_blocks(),
            geometry,
            pid: std::process::id(),
            uptime_ms: self.opened.elapsed().as_millis() as u64,
            recovery_ms: self.recovered.milliseconds,
            recovered_entries: self.recovered.entries,
            totals,
            healed: self.metadata.healed(),
            refuses_writes: self.metadata.read_only().map(|why| why.to_string()),
            metadata_bytes: self.metadata.allocated_bytes(),
            digested_entries: digested_entries.load(Ordering::Relaxed),
            coalesced_entries: coalesced_entries.load(Ordering::Relaxed),
            digested_bytes: digested_bytes.load(Ordering::Relaxed),
            fences: self.counters.fences.load(Ordering::Relaxed),
            shipped: core.leases.shipped(self.opened.elapsed()),
            requests: self.request_times.summary(),
            sessions: sessions.collect(),
            unserved: self.counters.unserved(core.sessions.values().map(|found| found.control.unserved())),
        })
    }
}

fn directory_entry(entry: Entry) -> DirectoryEntry {
    DirectoryEntry { name: entry.name, inode: entry.dirent.inode, kind: entry.dirent.kind as u8 }
}
