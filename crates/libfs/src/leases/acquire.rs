//! Acquiring leases: asking for one, and for those that a walk will want next. SharedFS may answer that it
//! performs the operations itself ([`crate::sharing::send`]).

use crate::cache::directory_content::DirectoryContent;
use crate::cache::inode::{Content, Inode, State};
use crate::client::client::Client;
use crate::client::retries::{OPERATION_TRIES, Retries};
use crate::errno::{Error, unexpected};
use crate::leases::parcel_store::ParcelItem;
use crate::session::requests::Subject;
use crate::sharing::terms::sends_of_thread;
use crate::sync::{Arc, RwLockReadGuard, RwLockWriteGuard};
use cuesta_format::InodeNumber;
use cuesta_format::wire::{AHEAD_MAX, Grant, LeaseMode, Request, Response, Sends};

/// A request for this many directories at once shows that a walk enters a tree.
const TREE_DIRECTORIES: usize = 8;

/// A request for the aligned block of inodes around `near`. It is posted, so no thread waits for the answer.
fn ahead_at(near: InodeNumber) -> Request {
    Request::Ahead { near, count: AHEAD_MAX }
}

/// How the session got a lease.
enum Lease {
    Granted(Box<Grant>),
    ParcelItem(ParcelItem),
    /// There is no lease for this term.
    Shipped {
        term_ms: u32,
    },
}

fn contents_if(ships: bool) -> Sends {
    if ships { Sends::Contents } else { Sends::Nothing }
}

impl Client {
    /// Gets a lease on an inode, or turns a read lease into a write lease. Call within an attempt.
    pub(crate) fn acquire(&self, inode: &Inode, mode: LeaseMode) -> Result<(), Error> {
        self.acquire_or_ship(inode, mode, sends_of_thread())
    }

    /// Like [`Client::acquire`], for an operation that can be sent: [`Error::Shipped`] if SharedFS performs
    /// operations of this kind on the inode.
    pub(crate) fn acquire_or_ship(&self, inode: &Inode, mode: LeaseMode, sends: Sends) -> Result<(), Error> {
        let mut state = inode.state.write();
        if state.lease >= Some(mode) {
            return Ok(());
        }
        if let Some(taken) = self.session.parcel_store.take(inode.number) {
            self.note_ahead_used(inode.number);
            inode.fill_taken(&mut state, &taken);
            if state.lease >= Some(mode) {
                return Ok(());
            }
        }
        // Sessions that change a directory in turns read it first. Asking for the write lease at once saves
        // the second request.
        let will_change = state.directory().is_some_and(DirectoryContent::will_change);
        let mode = if will_change { LeaseMode::Write } else { mode };
        let mut retries = Retries::new(OPERATION_TRIES);
        loop {
            if inode.shipped.is_now(sends) {
                return Err(Error::Shipped(inode.number));
            }
            let is_filled = match self.ask_for_lease(inode, &state, mode, sends)? {
                Lease::Shipped { term_ms } => {
                    inode.shipped.set(sends, term_ms);
                    return Err(Error::Shipped(inode.number));
                }
                Lease::ParcelItem(taken) => {
                    inode.fill_taken(&mut state, &taken);
                    true
                }
                Lease::Granted(grant) => self.fill(inode, &mut state, *grant)?,
            };
            // The file left mapped mode meanwhile: ask again.
            if is_filled {
                return Ok(());
            }
            self.retry_silently(&mut retries, "a file is in mapped mode, and its content is missing")?;
        }
    }

    /// Asks for a lease, and for more ahead. The parcel is stored before any thread asks again, so it is
    /// never older than a cached answer.
    fn ask_for_lease(
        &self,
        inode: &Inode,
        state: &State,
        mode: LeaseMode,
        sends: Sends,
    ) -> Result<Lease, Error> {
        let known = || self.session.parcel_store.take(inode.number).map(Lease::ParcelItem);
        // A directory that sessions take from each other is no part of a walk.
        let kept = state.kept();
        let request = || {
            let (mut ahead, mut beside) = (0, Vec::new());
            if kept.is_none() {
                ahead = self.ahead.next(inode.number);
                beside = self.directories_beside(inode.number, state.record.parent);
            }
            if beside.len() >= TREE_DIRECTORIES {
                self.ahead.note_tree();
            }
            Request::Acquire { inode: inode.number, mode, ahead, beside, kept: kept.cloned(), sends }
        };
        let take = |answer| {
            let (grant, ahead) = match answer {
                Response::Granted { grant, ahead } => (grant, ahead),
                Response::Shipped { term_ms } if sends != Sends::Nothing => {
                    return Ok(Lease::Shipped { term_ms });
                }
                other => return Err(unexpected(&other)),
            };
            if grant.record.inode != inode.number || grant.mode < mode {
                return Err(Error::Daemon("the grant does not fit the request".into()));
            }
            self.session.parcel_store.add(ahead)?;
            Ok(Lease::Granted(grant))
        };
        let behind = || self.ahead.behind(inode.number).filter(|_| kept.is_none());
        let then = || Some((Subject::Ahead, ahead_at(behind()?)));
        self.session.requests.call_unless(known, request, take, then, &self.session)
    }

    /// Notes that an operation used a lease on `inode` that was granted ahead: a walk may continue behind it.
    #[inline]
    pub(crate) fn note_ahead_used(&self, inode: InodeNumber) {
        if let Some(behind) = self.ahead.behind_seen(inode) {
            self.session.requests.post(Subject::Ahead, &ahead_at(behind), &self.session);
        }
    }

    /// Directories beside this one that a walk through all of them will want next. The parent is searched
    /// only if no thread changes it, because the caller holds another inode's lock.
    fn directories_beside(&self, inode: InodeNumber, parent: InodeNumber) -> Vec<InodeNumber> {
        let Some(parent) = self.cache.get(parent).filter(|parent| parent.number != inode) else {
            return Vec::new();
        };
        let Some(state) = parent.state.try_read().filter(|state| state.lease.is_some()) else {
            return Vec::new();
        };
        let Some(content) = state.directory() else { return Vec::new() };
        // A locked directory may be one for which another thread is asking.
        let is_known = |it: Arc<Inode>| it.state.try_read().is_some_and(|state| state.lease.is_some());
        content.directories_beside(inode, |directory| {
            !self.cache.get(directory).is_some_and(is_known) && !self.session.parcel_store.has(directory)
        })
    }

    /// Fills an inode with the grant that a lookup brought.
    pub(crate) fn take_grant(&self, inode: &Inode, grant: Grant) {
        // If the grant cannot be used, a later operation asks again.
        let _ = self.fill(inode, &mut inode.state.write(), grant);
    }

    /// Fills an inode with a grant. `false`: the file left mapped mode meanwhile.
    pub(crate) fn fill(&self, inode: &Inode, state: &mut State, grant: Grant) -> Result<bool, Error> {
        if grant.entries_changed && state.lease.is_none() && state.kept().is_none() {
            return Err(Error::Daemon("the grant does not fit the request".into()));
        }
        // The grant is newer than the parcel item.
        drop(self.session.parcel_store.take(inode.number));
        if !grant.record.mapped || state.lease.is_some() {
            inode.fill(state, grant);
            return Ok(true);
        }
        let Some(mapped) = self.pin(inode.number)? else { return Ok(false) };
        inode.fill(state, grant);
        state.content = Content::Mapped(mapped);
        Ok(true)
    }

    /// The inode's state, locked to read. Call within an attempt.
    #[inline]
    pub(crate) fn reading<'i>(&self, inode: &'i Inode) -> Result<RwLockReadGuard<'i, State>, Error> {
        loop {
            let state = inode.state.read();
            if state.lease.is_some() {
                return Ok(state);
            }
            drop(state);
            self.acquire(inode, LeaseMode::Read)?;
        }
    }

    /// Like [`Client::reading`], for an operation that may be sent to SharedFS.
    #[inline]
    pub(crate) fn reading_or_ship<'i>(
        &self,
        inode: &'i Inode,
        ships: bool,
    ) -> Result<RwLockReadGuard<'i, State>, Error> {
        loop {
            let state = inode.state.read();
            if state.lease.is_some() {
                return Ok(state);
            }
            drop(state);
            self.acquire_or_ship(inode, LeaseMode::Read, contents_if(ships))?;
        }
    }

    /// Like [`Client::changing`], for an operation that may be sent to SharedFS.
    #[inline]
    pub(crate) fn changing_or_ship<'i>(
        &self,
        inode: &'i Inode,
        ships: bool,
    ) -> Result<RwLockWriteGuard<'i, State>, Error> {
        loop {
            let state = inode.state.write();
            if state.lease == Some(LeaseMode::Write) {
                return Ok(state);
            }
            drop(state);
            self.acquire_or_ship(inode, LeaseMode::Write, contents_if(ships))?;
        }
    }

    /// The inode's state, locked to change. Call within an attempt.
    #[inline]
    pub(crate) fn changing<'i>(&self, inode: &'i Inode) -> Result<RwLockWriteGuard<'i, State>, Error> {
        loop {
            let state = inode.state.write();
            if state.lease == Some(LeaseMode::Write) {
                return Ok(state);
            }
            drop(state);
            self.acquire(inode, LeaseMode::Write)?;
        }
    }
}
