//! The client: one session, what is known under its leases, and how an operation runs.
//!
//! An operation is an attempt that is made again until it stands:
//!
//! 1. under the open gate, with the generation everything cached holds under;
//! 2. it resolves names, prepares what it will append (log space, credit, an inode number) before any lock,
//! 3. locks inodes, appends, changes what is cached;
//! 4. the generation is read again. Moved: the session resynchronises, and the attempt stands only if its entry was
//!    accepted; a moved generation voids every answer that rests on cached state, also an error.
//!
//! Whatever must wait (for a digest, credit, numbers) waits outside the gate, and the attempt starts over.

use crate::accesses::Accesses;
use crate::ahead::Ahead;
use crate::attempts::{Attempts, GivingUp, NO_LEASE, NO_SENSE, OPERATION_ATTEMPTS};
use crate::cache::Cache;
use crate::call_tags::is_withdrawn;
use crate::commit_file::CommitFile;
use crate::dependencies::Dependencies;
use crate::errno::Error;
use crate::instant::NameChanges;
use crate::kernel::Kernel;
use crate::link::{Link, SocketLink};
use crate::mapped_descriptors::{Keeper, MappedDescriptors};
use crate::programs::Programs;
use crate::quotas::Payers;
use crate::resume::{RESUME_WAIT, Starter, patiently};
use crate::resync::Fences;
use crate::retire::Retiring;
use crate::session::Session;
use crate::shipping::Shipping;
use crate::sync::{Arc, AtomicBool, AtomicU32, AtomicU64, Mutex, Ordering, RwLock};
use cuesta_format::quota::{Amounts, Payer};
use cuesta_format::wire::Request;
use cuesta_format::{
    CallTag, FILE_BYTES_MAX, InodeNumber, LeaseGeneration, LogPosition, Operation, StoreId, Timestamp,
};
use cuesta_media::{Fault, UserSlice, clock};
use cuesta_oplog::{Admission, Appended, Stamp};
use rustix::fd::OwnedFd;
use std::collections::VecDeque;
use std::time::Duration;

/// One session of a process.
pub struct Client {
    pub(crate) session: Session,
    pub(crate) cache: Cache,
    pub(crate) ahead: Ahead,
    pub(crate) retiring: Mutex<Retiring>,
    /// Truncations and clearings in the log that overlays know of. Locked under an inode's lock, never over one.
    pub(crate) truncations: Mutex<VecDeque<(LogPosition, InodeNumber)>>,
    /// `retiring` is within a round.
    pub(crate) in_round: AtomicBool,
    pub(crate) fences: Mutex<Fences>,
    /// Open: operations run. Closed: none does, and what is cached may be thrown away.
    pub(crate) gate: RwLock<()>,
    /// Held while a directory moves to another parent: the tree above holds still.
    pub(crate) moving: Mutex<()>,
    pub(crate) next_passed: AtomicU64,
    /// No file grows beyond this.
    file_limit: AtomicU64,
    pub(crate) programs: Programs,
    pub(crate) mapped_descriptors: MappedDescriptors,
    pub(crate) commit_file: CommitFile,
    pub(crate) dependencies: Dependencies,
    /// Which daemon it talks to.
    pub(crate) connection: AtomicU32,
    /// How long to wait for the next one; held by who does.
    pub(crate) patience: Mutex<Duration>,
    abandoned: AtomicU32,
    pub(crate) giving_up: GivingUp,
    pub(crate) starter: Starter,
    /// What it is called by `cuesta status`.
    pub(crate) program: Box<str>,
    pub(crate) kernel: Kernel,
    /// When reads move times of last access.
    pub(crate) access_times: AtomicU32,
    pub(crate) accesses: Accesses,
    pub(crate) shipping: Shipping,
    /// Threads may execute calls of others ([`crate::tagged`]).
    pub(crate) has_callers: AtomicBool,
    pub(crate) names: NameChanges,
}

/// Why an attempt did not come to an end.
#[derive(Debug)]
pub(crate) enum Halt {
    /// The operation's answer.
    Failed(Error),
    /// Something changed between looking and locking.
    Again,
    /// The log must reach this position.
    LogFull(LogPosition),
    /// Credit for this many blocks is missing.
    Credit(u64),
    /// Inode numbers are used up.
    Numbers,
    /// The log holds as many entries as may lie undigested.
    Entries,
    /// What the log holds of an inode must be digested.
    Undigested,
    /// The log must say first what it depends on.
    Dependencies,
    /// Somebody with limits must have room to own more.
    Room { payer: Payer, needed: Amounts },
    /// The inode's extended attributes, of which access control lists are, must be known.
    Extended(InodeNumber),
}

impl From<Error> for Halt {
    fn from(error: Error) -> Self {
        Halt::Failed(error)
    }
}

/// What one attempt holds.
pub(crate) struct Turn<'c> {
    pub(crate) client: &'c Client,
    generation: u64,
    admission: Option<Admission<'c>>,
    debited: u64,
    /// What was charged to whom.
    pub(crate) charged: Option<(Payers, Amounts)>,
    appended: Option<LogPosition>,
    /// What the prepared entry carries.
    pub(crate) tag: Option<CallTag>,
    /// The entry says what those behind it depend on.
    pub(crate) is_dependency: bool,
    /// The operation's time.
    pub(crate) now: Timestamp,
}

impl Client {
    /// Attaches to SharedFS over `link`. `program` is shown by `cuesta status`.
    pub fn attach(link: Box<dyn Link>, program: &str) -> Result<Arc<Client>, Error> {
        Client::attach_at(link, program, InodeNumber::NONE)
    }

    /// [`Client::attach`] with leases on the inode that is looked at first and on the directories above it, which saves
    /// questions.
    pub fn attach_at(link: Box<dyn Link>, program: &str, first: InodeNumber) -> Result<Arc<Client>, Error> {
        let mut session = Session::attach(link, program, first)?;
        let ahead = std::mem::take(&mut session.welcome.ahead);
        let client = Arc::new(Client {
            retiring: Mutex::new(Retiring::new(session.retired())),
            truncations: Mutex::new(VecDeque::new()),
            in_round: AtomicBool::new(false),
            session,
            cache: Cache::new(),
            ahead: Ahead::default(),
            fences: Mutex::new(Fences::default()),
            gate: RwLock::new(()),
            moving: Mutex::new(()),
            next_passed: AtomicU64::new(0),
            file_limit: AtomicU64::new(FILE_BYTES_MAX),
            programs: Programs::default(),
            mapped_descriptors: MappedDescriptors::default(),
            commit_file: CommitFile::default(),
            dependencies: Dependencies::default(),
            connection: AtomicU32::new(0),
            patience: Mutex::new(RESUME_WAIT),
            abandoned: AtomicU32::new(0),
            giving_up: GivingUp::default(),
            starter: Starter::default(),
            program: program.into(),
            kernel: Kernel::default(),
            access_times: AtomicU32::new(0),
            accesses: Accesses::default(),
            shipping: Shipping::default(),
            has_callers: AtomicBool::new(false),
            names: NameChanges::default(),
        });
        // What a fence took away meanwhile goes with the first operation, which sees the generation moved.
        client.session.parcels.add(ahead)?;
        Ok(client)
    }

    /// Attaches to the daemon that listens at `path`, or will in a moment: it waits for one as long as a session does whose
    /// daemon is gone. Every descriptor the session keeps is `descriptor_floor` or higher.
    pub fn attach_to(
        path: &[u8],
        descriptor_floor: i32,
        program: &str,
        first: InodeNumber,
    ) -> Result<Arc<Client>, Error> {
        patiently(RESUME_WAIT, || {
            let link = SocketLink::connect(path, descriptor_floor)?;
            Client::attach_at(Box::new(link), program, first)
        })
    }

    /// Ends the session in order; later calls fail. What was written is safe without it, too.
    pub fn detach(&self) {
        if self.abandoned.swap(1, Ordering::AcqRel) == 0 {
            let _closed = self.gate.write();
            if let Some(accesses) = self.last_accesses() {
                let _ = self.session.ask(&accesses);
            }
            // A daemon that is gone recovers the log all the same.
            let _ = self.session.ask(&Request::Detach);
        }
    }

    /// [`Client::detach`] as the process ends, which does not wait until SharedFS has done its part.
    pub fn part(&self) {
        if self.abandoned.swap(1, Ordering::AcqRel) == 0 {
            let _closed = self.gate.write();
            if let Some(accesses) = self.last_accesses() {
                self.session.asking.part(&accesses);
            }
            self.session.asking.part(&Request::Detach);
        }
    }

    /// In a child of fork, before anything else: this session is the parent's. Every later call on it fails and
    /// nothing is sent or stored; open files are opened again by [`Client::reopen`] on a client of the child's own.
    /// Its mappings and descriptors go with the last reference to it.
    pub fn after_fork_in_child(&self) {
        self.abandoned.store(1, Ordering::Release);
        self.session.open_slots.abandon();
    }

    /// The descriptors this session keeps open, by their numbers: nobody else may close them.
    pub fn descriptors(&self) -> impl Iterator<Item = i32> {
        self.session.descriptors()
    }

    /// Goes on with `copy` in the place of the descriptor `number`, which is answered and may be closed; `copy` is, if
    /// `number` is none of this session's. No operation runs meanwhile.
    pub fn replace_descriptor(&self, number: i32, copy: OwnedFd) -> OwnedFd {
        self.session.replace_descriptor(number, self.mapped_descriptors.replace(number, copy))
    }

    /// How descriptors are kept that are opened while it runs.
    pub fn keep_descriptors(&self, keeper: Keeper) {
        self.mapped_descriptors.keep_by(keeper);
    }

    /// From now on no file grows beyond `bytes` (the process's `RLIMIT_FSIZE`).
    pub fn limit_files(&self, bytes: u64) {
        self.file_limit.store(bytes.min(FILE_BYTES_MAX), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn file_limit(&self) -> u64 {
        self.file_limit.load(Ordering::Relaxed)
    }

    /// The store this session is attached to.
    #[must_use]
    pub fn store(&self) -> StoreId {
        self.session.welcome.store
    }

    /// Where the kernel has what stands in for a named pipe or a socket of this number, once somebody made it there:
    /// an absolute path. It is taken away with the inode.
    #[must_use]
    pub fn stand_in(&self, inode: InodeNumber) -> Vec<u8> {
        let mut path = self.session.welcome.stand_ins.clone();
        path.extend_from_slice(format!("/{}", inode.0).as_bytes());
        path
    }

    /// Counts a system call that was refused because it is not served.
    pub fn count_unserved(&self, system_call: usize) {
        self.session.count_unserved(system_call);
    }

    #[inline]
    pub(crate) fn check_alive(&self) -> Result<(), Error> {
        if self.abandoned.load(Ordering::Relaxed) != 0 {
            return Err(Error::Disconnected);
        }
        Ok(())
    }

    /// Runs an operation until it stands.
    pub(crate) fn operate<T>(
        &self,
        mut attempt: impl FnMut(&mut Turn<'_>) -> Result<T, Halt>,
    ) -> Result<T, Error> {
        self.check_alive()?;
        let (mut unknown, mut attempts) = (None, Attempts::new(OPERATION_ATTEMPTS));
        loop {
            let gate = self.gate.read();
            let generation = self.session.generation.load(Ordering::Acquire);
            if self.session.shown_generation() != generation {
                drop(gate);
                self.asking(|| self.resync())?;
                self.again(&mut attempts, NO_LEASE)?;
                continue;
            }
            let connection = self.connection();
            let mut turn = Turn {
                client: self,
                generation,
                admission: None,
                debited: 0,
                charged: None,
                appended: None,
                tag: None,
                is_dependency: false,
                now: clock::now(),
            };
            let learned = match unknown.take().map_or(Ok(()), |inode| self.learn_extended_of(inode)) {
                // It is gone: the attempt looks anew at what the path names now.
                Err(Halt::Failed(Error::NotFound)) => Ok(()),
                learned => learned,
            };
            self.begin_instant();
            let mut result = learned.and_then(|()| attempt(&mut turn));
            // What the attempt read, it read before this.
            std::sync::atomic::fence(Ordering::Acquire);
            let moved = self.session.shown_generation() != generation;
            if turn.appended.is_none()
                && matches!(result, Ok(_) | Err(Halt::Failed(_)))
                && !self.is_one_instant()
            {
                result = Err(Halt::Again);
            }
            let Turn { admission, debited, charged, appended, .. } = turn;
            drop(admission);
            if appended.is_none() {
                self.session.give_back_debit(debited);
                self.session.give_back_charge(charged);
            }
            drop(gate);
            let mut stands = !moved;
            if moved {
                self.asking(|| self.resync())?;
                stands = appended.is_some_and(|end| self.was_accepted(generation, end));
            }
            let reached = result.as_ref().is_err_and(Halt::is_wait).then(|| self.session.reached());
            match result {
                Ok(value) if stands => {
                    self.after_operation(appended);
                    return Ok(value);
                }
                Err(Halt::Failed(Error::Disconnected)) => self.resume(connection)?,
                Err(Halt::Failed(error)) if !moved => {
                    self.after_operation(appended);
                    return Err(error);
                }
                Ok(_) | Err(Halt::Failed(_) | Halt::Again) => {}
                Err(Halt::LogFull(needed)) => self.asking(|| self.make_room(needed))?,
                Err(Halt::Credit(blocks)) => self.asking(|| self.make_credit(blocks))?,
                Err(Halt::Numbers) => self.asking(|| self.session.ask_numbers())?,
                Err(Halt::Entries) => self.asking(|| self.await_digest_of_entries())?,
                Err(Halt::Undigested) => self.digest()?,
                Err(Halt::Dependencies) => self.log_dependencies()?,
                Err(Halt::Room { payer, needed }) => self.asking(|| self.make_room_of(payer, needed))?,
                Err(Halt::Extended(inode)) => unknown = Some(inode),
            }
            self.again_behind(reached, &mut attempts, if moved { NO_LEASE } else { NO_SENSE })?;
        }
    }
}

impl<'c> Turn<'c> {
    /// Log space for an entry with a body of `body_bytes`, and credit; before any lock.
    #[inline]
    pub(crate) fn prepare(&mut self, body_bytes: usize, blocks: u64) -> Result<(), Halt> {
        let session = &self.client.session;
        if session.holds_too_many() {
            return Err(Halt::Entries);
        }
        let admission = session.appender.admit(body_bytes).map_err(|full| Halt::LogFull(full.needed))?;
        if !session.debit(blocks) {
            return Err(Halt::Credit(blocks));
        }
        self.debited = blocks;
        self.admission = Some(admission);
        Ok(())
    }

    /// The entry costs `blocks` at worst, as is known now that its place in the file is. It takes no more than is at hand.
    #[inline]
    pub(crate) fn settle(&mut self, blocks: u64) -> Result<(), Halt> {
        let session = &self.client.session;
        if blocks > self.debited && !session.debit(blocks - self.debited) {
            return Err(Halt::Credit(blocks));
        }
        session.give_back_debit(self.debited.saturating_sub(blocks));
        self.debited = blocks;
        Ok(())
    }

    /// A fresh inode number; before any lock.
    #[inline]
    pub(crate) fn number(&mut self) -> Result<InodeNumber, Halt> {
        self.client.session.take_number().ok_or(Halt::Numbers)
    }

    pub(crate) fn session(&self) -> &'c Session {
        &self.client.session
    }

    fn stamp(&self) -> Stamp<'_> {
        Stamp {
            lease_generation: LeaseGeneration(self.generation),
            debit_blocks: self.debited.min(u64::from(u32::MAX)) as u32,
            time: self.now,
            tag: self.tag.as_ref(),
        }
    }

    /// The room of the prepared entry, unless it is the effect of a call that is wanted no more. Called with the inodes' locks held.
    #[inline]
    fn admitted(&mut self) -> Result<Admission<'c>, Halt> {
        if self.tag.is_some() && is_withdrawn() {
            return Err(Error::Withdrawn.into());
        }
        if self.client.lacks_dependencies() && !self.is_dependency {
            return Err(Halt::Dependencies);
        }
        self.admission.take().ok_or_else(|| Error::Daemon("an entry was not prepared".into()).into())
    }

    /// Appends the prepared entry. Called with the inodes' locks held, and nothing changed yet.
    pub(crate) fn append(&mut self, operation: &Operation<'_>) -> Result<Appended, Halt> {
        let admission = self.admitted()?;
        let _instant = self.client.at_one_instant(operation)?;
        let appender = &self.client.session.appender;
        let appended = appender.append(appender.reserve(admission), operation, self.stamp());
        self.appended = Some(appended.end);
        if appender.is_lost(appended.end) { Err(Error::LogLost.into()) } else { Ok(appended) }
    }

    /// Appends a prepared write of application memory.
    #[inline]
    pub(crate) fn append_write(
        &mut self,
        inode: InodeNumber,
        offset: u64,
        data: &[UserSlice<'_>],
    ) -> Result<Result<Appended, Fault>, Halt> {
        let admission = self.admitted()?;
        let appender = &self.client.session.appender;
        let reservation = appender.reserve(admission);
        let (void, behind) = (reservation.position(), reservation.body());
        let outcome = appender.append_write(reservation, inode, offset, data, self.stamp());
        self.appended = Some(outcome.map_or(void, |appended| appended.end));
        if appender.is_lost(outcome.map_or(behind, |appended| appended.end)) {
            Err(Error::LogLost.into())
        } else {
            Ok(outcome)
        }
    }
}
