//! The table of leases with the rules of the daemon and of sessions around it, in small: sessions ask, are fenced,
//! die; logs are digested; the next daemon recovers. One step at a time, so that every order can be had.
//!
//! An inode's content is the number of the last write to it. Sessions cache it under a lease, and their logs hold what
//! was not digested. The rules are those of `requests::granting`, `ending` and `recovery`, and of LibFS's `client`,
//! `resync` and `resume`; [`Mistake`]s can be made in them.
//!
//! | step | who | what of the real thing it is |
//! |---|---|---|
//! | [`Step::Begin`], [`Step::Go`] | a session | an operation: under its lease; or asked for; then the generation looked at again |
//! | [`Step::Serve`] | the daemon | the next thing to happen for a session's question |
//! | [`Step::Digest`], [`Step::End`] | the daemon | a digest of a log; the end of a session whose process died |
//! | [`Step::Kill`], [`Step::Crash`] | fate | a process dies; the daemon dies, and the next one counts itself in |
//! | [`Step::Recover`] | the next daemon | one log after the other |

mod every_order;
mod many_sessions;

use crate::leases::{Leases, Outcome};
use cuesta_format::wire::LeaseMode;
use cuesta_format::{InodeNumber, LogPosition, SessionId};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

const HOLD: Duration = Duration::from_millis(1);

/// A mistake that a daemon or a session may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    /// A fence voids the fenced session's log without digesting it.
    FenceWithoutDigest,
    /// A fence takes the lease without a new generation: its holder does not notice.
    FenceUnnoticed,
    /// A lease given back is free although the log may still change the inode.
    NothingLingers,
    /// The next daemon goes on with the log as it was, and takes what comes behind the end it found.
    LogGoesOn,
    /// A session keeps its leases when it comes to the next daemon.
    LeasesOutliveTheDaemon,
    /// A session answers without looking at the generation again.
    NoSecondLook,
}

/// An operation of a session, on an inode by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Operation {
    Read(usize),
    Write(usize),
    GiveBack(usize),
}

impl Operation {
    fn inode(self) -> usize {
        match self {
            Operation::Read(inode) | Operation::Write(inode) | Operation::GiveBack(inode) => inode,
        }
    }

    fn mode(self) -> LeaseMode {
        if matches!(self, Operation::Write(_)) { LeaseMode::Write } else { LeaseMode::Read }
    }
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Begin(usize, Operation),
    Go(usize),
    Serve(usize),
    Digest(usize),
    End(usize),
    Kill(usize),
    Crash,
    Recover(usize),
}

/// How far a session is with its operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// About to look at the generation.
    Trying,
    /// The generation stood. About to do it, or to find that it has no lease.
    Ready,
    /// The daemon has its question.
    Asked,
    /// The daemon fences these for it; the generation of the first one was moved.
    Fencing { others: Vec<usize>, moved: bool },
    /// The lease is the session's, and what it brings was not read yet.
    Granted(LeaseMode),
    /// It was done; the generation is looked at again. The write is in the log, or what was read is true.
    Looking { stood: bool },
}

impl Phase {
    /// The session waits for an answer.
    fn is_the_daemons(&self) -> bool {
        matches!(self, Phase::Asked | Phase::Fencing { .. } | Phase::Granted(_))
    }
}

#[derive(Clone, Debug)]
struct Session {
    is_alive: bool,
    /// The daemon knows of it.
    is_known: bool,
    /// As published, and as the log's record has it once a fence is settled.
    generation: u64,
    settled_generation: u64,
    log_generation: u64,
    /// Inodes it lost and was not told of.
    revoked: Vec<usize>,
    /// Inodes it was granted along and was not told of.
    untold: BTreeSet<usize>,
    lingering: VecDeque<(usize, LogPosition)>,
    /// The log: where the digest ended, and what lies behind.
    digested: u64,
    log: Vec<(usize, u64)>,
    // The session's own knowledge.
    knows_generation: u64,
    knows_log_generation: u64,
    knows_daemon: u64,
    cached: Vec<Option<(LeaseMode, u64)>>,
    operation: Option<(Operation, Phase)>,
}

/// The rule that does not hold.
type Wrong = String;
/// The whole.
#[derive(Clone)]
struct World {
    mistake: Option<Mistake>,
    /// Whether what lies ahead is granted along, and given up along.
    ahead: bool,
    leases: Leases,
    now: Duration,
    daemon: u64,
    /// Logs the daemon has recovered. Until all are, it answers no session.
    recovered: usize,
    sessions: Vec<Session>,
    /// The digested write of each inode.
    stored: Vec<u64>,
    /// The last write to each that took effect.
    truth: Vec<u64>,
    writes: u64,
}

fn number(inode: usize) -> InodeNumber {
    InodeNumber(10 + inode as u64)
}

fn id(session: usize) -> SessionId {
    SessionId(1 + session as u64)
}

impl World {
    fn new(sessions: usize, inodes: usize, ahead: bool, mistake: Option<Mistake>) -> World {
        let mut world = World {
            mistake,
            ahead,
            leases: Leases::new(HOLD),
            now: Duration::ZERO,
            daemon: 0,
            recovered: 0,
            sessions: Vec::new(),
            stored: vec![0; inodes],
            truth: vec![0; inodes],
            writes: 0,
        };
        (0..sessions).for_each(|_| world.attach());
        world
    }

    fn attach(&mut self) {
        self.sessions.push(Session {
            is_alive: true,
            is_known: true,
            generation: 1,
            settled_generation: 1,
            log_generation: 1,
            revoked: Vec::new(),
            untold: BTreeSet::new(),
            lingering: VecDeque::new(),
            digested: 0,
            log: Vec::new(),
            knows_generation: 1,
            knows_log_generation: 1,
            knows_daemon: self.daemon,
            cached: vec![None; self.stored.len()],
            operation: None,
        });
        self.recovered += 1;
    }

    fn makes(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    /// The daemon answers.
    fn is_up(&self) -> bool {
        self.recovered == self.sessions.len()
    }

    /// The digester's lock is held: a fence begun for another's question.
    fn is_digesting(&self) -> bool {
        self.sessions
            .iter()
            .any(|session| matches!(session.operation, Some((_, Phase::Fencing { moved: true, .. }))))
    }

    /// Whether the step can be made. Of operations that begin and of fate the caller decides.
    fn is_possible(&self, step: Step) -> bool {
        match step {
            Step::Begin(session, operation) => {
                let it = &self.sessions[session];
                let holds = it.cached[operation.inode()].is_some();
                it.is_alive
                    && it.operation.is_none()
                    && (holds || !matches!(operation, Operation::GiveBack(_)))
            }
            Step::Go(session) => {
                let it = &self.sessions[session];
                let goes = match it.operation {
                    Some((_, Phase::Ready)) => true,
                    Some((_, Phase::Trying | Phase::Looking { .. })) => {
                        self.stands(session) || self.can_resync(session)
                    }
                    _ => false,
                };
                it.is_alive && goes
            }
            Step::Serve(session) => {
                let is_free = match &self.sessions[session].operation {
                    Some((_, Phase::Asked | Phase::Granted(_))) => true,
                    Some((_, Phase::Fencing { moved, .. })) => *moved || !self.is_digesting(),
                    _ => false,
                };
                self.is_up() && is_free
            }
            Step::Digest(session) => {
                self.is_up() && !self.is_digesting() && !self.sessions[session].log.is_empty()
            }
            Step::End(session) => {
                let it = &self.sessions[session];
                self.is_up() && !self.is_digesting() && !it.is_alive && it.is_known && it.operation.is_none()
            }
            Step::Kill(session) => self.sessions[session].is_alive,
            Step::Crash => true,
            Step::Recover(session) => self.recovered == session,
        }
    }

    /// Steps that go on without a new operation and without fate.
    fn going_on(&self) -> Vec<Step> {
        let of = |session| {
            [
                Step::Go(session),
                Step::Serve(session),
                Step::End(session),
                Step::Recover(session),
                Step::Digest(session),
            ]
        };
        (0..self.sessions.len()).flat_map(of).filter(|step| self.is_possible(*step)).collect()
    }

    fn make(&mut self, step: Step) -> Result<(), Wrong> {
        match step {
            Step::Begin(session, operation) => {
                self.sessions[session].operation = Some((operation, Phase::Trying));
            }
            Step::Go(session) => self.go(session)?,
            Step::Serve(session) => self.serve(session),
            Step::Digest(session) => self.digest(session),
            Step::End(session) => {
                self.digest(session);
                self.sessions[session].is_known = false;
                self.sessions[session].untold.clear();
                self.leases.end_session(id(session));
            }
            Step::Kill(session) => {
                let it = &mut self.sessions[session];
                it.is_alive = false;
                // The daemon finishes each step that it does for the session.
                it.operation.take_if(|(_, phase)| !phase.is_the_daemons());
            }
            Step::Crash => self.crash(),
            Step::Recover(session) => self.recover(session),
        }
        self.look_over()
    }

    /// Nothing of what the session knows was taken from it.
    fn stands(&self, session: usize) -> bool {
        let it = &self.sessions[session];
        it.knows_daemon == self.daemon && it.knows_generation == it.generation
    }

    fn can_resync(&self, session: usize) -> bool {
        let it = &self.sessions[session];
        self.is_up() && it.generation == it.settled_generation
    }

    /// The session learns what was taken from it.
    fn resync(&mut self, session: usize) {
        let keeps = self.makes(Mistake::LeasesOutliveTheDaemon);
        let daemon = self.daemon;
        let it = &mut self.sessions[session];
        let is_another = it.knows_daemon != daemon && !keeps;
        for inode in 0..it.cached.len() {
            if is_another || it.revoked.contains(&inode) {
                it.cached[inode] = None;
            }
        }
        it.revoked.clear();
        (it.knows_daemon, it.knows_generation, it.knows_log_generation) =
            (daemon, it.generation, it.log_generation);
    }

    fn go(&mut self, session: usize) -> Result<(), Wrong> {
        let Some((operation, phase)) = self.sessions[session].operation.clone() else { return Ok(()) };
        let stands = self.stands(session);
        let next = match phase {
            Phase::Looking { stood } => {
                let looks = !self.makes(Mistake::NoSecondLook);
                if stands || !looks {
                    if !stood {
                        return Err(format!("session {session}: {operation:?} was answered and is not so"));
                    }
                    None
                } else {
                    self.resync(session);
                    // A write that the fence found in the log stands; a read is made again.
                    let is_done = stood && matches!(operation, Operation::Write(_));
                    (!is_done).then_some(Phase::Trying)
                }
            }
            Phase::Trying if stands => Some(Phase::Ready),
            Phase::Trying => {
                self.resync(session);
                Some(Phase::Trying)
            }
            _ => self.try_operation(session, operation),
        };
        self.sessions[session].operation = next.map(|phase| (operation, phase));
        Ok(())
    }

    fn try_operation(&mut self, session: usize, operation: Operation) -> Option<Phase> {
        let inode = operation.inode();
        let cached = self.sessions[session].cached[inode];
        match (operation, cached) {
            (Operation::GiveBack(_), _) => {
                // A daemon that is gone hears nothing.
                let is_heard = self.is_up() && self.sessions[session].knows_daemon == self.daemon;
                if is_heard {
                    self.give_back(session, inode);
                }
                (!is_heard).then_some(Phase::Trying)
            }
            (_, None) => Some(Phase::Asked),
            (Operation::Read(_), Some((_, value))) => {
                Some(Phase::Looking { stood: value == self.truth[inode] })
            }
            (Operation::Write(_), Some((LeaseMode::Read, _))) => Some(Phase::Asked),
            (Operation::Write(_), Some((LeaseMode::Write, _))) => {
                Some(Phase::Looking { stood: self.append(session, inode) })
            }
        }
    }

    /// Says whether it took effect: the log goes on where the session believes.
    fn append(&mut self, session: usize, inode: usize) -> bool {
        self.writes += 1;
        let value = self.writes;
        let it = &mut self.sessions[session];
        it.cached[inode] = Some((LeaseMode::Write, value));
        let counts = it.knows_log_generation == it.log_generation;
        if counts {
            it.log.push((inode, value));
            self.truth[inode] = value;
        }
        counts
    }

    fn give_back(&mut self, session: usize, inode: usize) {
        let lingers = !self.makes(Mistake::NothingLingers);
        let it = &mut self.sessions[session];
        it.cached[inode] = None;
        it.untold.remove(&inode);
        let completed = LogPosition(it.digested + it.log.len() as u64);
        let until = (!it.log.is_empty() && lingers).then_some(completed);
        if self.leases.give_back(id(session), number(inode), until) {
            it.lingering.extend(until.map(|until| (inode, until)));
        }
    }

    /// The next thing that happens for a session's question.
    fn serve(&mut self, session: usize) {
        let Some((operation, phase)) = self.sessions[session].operation.clone() else { return };
        let (inode, mode) = (operation.inode(), operation.mode());
        let next = match phase {
            Phase::Asked => match self.leases.request(id(session), number(inode), mode, self.now) {
                Outcome::Granted(granted) => {
                    self.sessions[session].untold.remove(&inode);
                    Phase::Granted(granted)
                }
                Outcome::Fence(others) => {
                    let others = others.into_iter().map(|SessionId(other)| other as usize - 1).collect();
                    Phase::Fencing { others, moved: false }
                }
                Outcome::Hold(left) | Outcome::Queue(left) => {
                    self.now += left;
                    Phase::Asked
                }
                Outcome::Drain(SessionId(other), _) => {
                    let other = other as usize - 1;
                    self.digest(other);
                    self.sessions[other].lingering.retain(|&(lingering, _)| lingering != inode);
                    self.leases.digested(id(other), number(inode), LogPosition(u64::MAX));
                    Phase::Asked
                }
            },
            Phase::Fencing { mut others, moved: false } => {
                if self.sessions[others[0]].is_known {
                    let unnoticed = self.makes(Mistake::FenceUnnoticed);
                    self.sessions[others[0]].generation += u64::from(!unnoticed);
                    Phase::Fencing { others, moved: true }
                } else {
                    self.leases.end_session(id(others.remove(0)));
                    if others.is_empty() { Phase::Asked } else { Phase::Fencing { others, moved: false } }
                }
            }
            Phase::Fencing { mut others, moved: true } => {
                match self.settle(others.remove(0), inode, session, mode) {
                    _ if !others.is_empty() => Phase::Fencing { others, moved: false },
                    Some(granted) => Phase::Granted(granted),
                    None => Phase::Asked,
                }
            }
            Phase::Granted(granted) => {
                self.deliver(session, inode, granted);
                Phase::Trying
            }
            phase => phase,
        };
        let it = &mut self.sessions[session];
        it.operation = (it.is_alive || !matches!(next, Phase::Trying)).then_some((operation, next));
    }

    fn deliver(&mut self, session: usize, inode: usize, granted: LeaseMode) {
        self.sessions[session].cached[inode] = Some((granted, self.stored[inode]));
        let near = (inode + 1) % self.stored.len();
        if self.ahead && near != inode {
            let mut granted = Vec::new();
            self.leases.request_ahead(id(session), &[number(near)], LeaseMode::Read, self.now, &mut granted);
            for (_, mode) in granted {
                self.sessions[session].cached[near] = Some((mode, self.stored[near]));
            }
        }
    }

    /// The session that had another one fenced is granted what it claims, and what it lost before, in the same moment.
    fn hand_over(&mut self, to: usize, inode: usize, mode: LeaseMode) -> Option<LeaseMode> {
        if !self.sessions[to].is_known {
            return None;
        }
        let claimed = self.leases.request(id(to), number(inode), mode, self.now);
        let along = self.leases.grant_along(id(to), self.now);
        self.sessions[to].untold.extend(along.iter().map(|number| number.0 as usize - 10));
        if let Outcome::Granted(granted) = claimed { Some(granted) } else { None }
    }

    /// A fence whose generation was moved comes to its end: `to` claims the inode.
    fn settle(&mut self, session: usize, inode: usize, to: usize, mode: LeaseMode) -> Option<LeaseMode> {
        if self.makes(Mistake::FenceWithoutDigest) {
            self.sessions[session].log.clear();
        } else {
            self.digest(session);
        }
        let contended = self.leases.is_contended(number(inode), self.now);
        let it = &mut self.sessions[session];
        it.log_generation += u64::from(it.generation != it.settled_generation);
        it.settled_generation = it.generation;
        let along = self.leases.goes_along(id(session), id(to), self.now);
        for taken in along.into_iter().chain([number(inode)]) {
            let place = taken.0 as usize - 10;
            if it.untold.remove(&place) {
                self.leases.revoke_unasked(id(session), taken, self.now);
            } else {
                it.revoked.push(place);
                self.leases.revoke_directory(id(session), taken, self.now);
            }
        }
        for near in (0..self.stored.len()).filter(|&near| near != inode && self.ahead && !contended) {
            if self.leases.held(id(session), number(near)).is_some() {
                let it = &mut self.sessions[session];
                if !it.untold.remove(&near) {
                    it.revoked.push(near);
                }
                self.leases.revoke_along(id(session), number(near));
            }
        }
        self.hand_over(to, inode, mode)
    }

    fn digest(&mut self, session: usize) {
        let it = &mut self.sessions[session];
        it.digested += it.log.len() as u64;
        for (inode, value) in it.log.drain(..) {
            self.stored[inode] = value;
        }
        let digested = LogPosition(it.digested);
        while let Some((inode, _)) = it.lingering.pop_front_if(|&mut (_, until)| until <= digested) {
            self.leases.digested(id(session), number(inode), digested);
        }
    }

    /// The daemon is gone; the next one has counted itself in.
    fn crash(&mut self) {
        self.daemon += 1;
        self.recovered = 0;
        self.leases = Leases::new(HOLD);
        for it in &mut self.sessions {
            // Questions are asked again.
            if let Some((_, phase)) = &mut it.operation
                && phase.is_the_daemons()
            {
                *phase = Phase::Trying;
            }
            it.operation.take_if(|_| !it.is_alive);
        }
    }

    fn recover(&mut self, session: usize) {
        self.recovered += 1;
        if !self.sessions[session].is_known {
            return;
        }
        self.digest(session);
        let goes_on = self.makes(Mistake::LogGoesOn);
        let it = &mut self.sessions[session];
        it.generation += 1;
        it.settled_generation = it.generation;
        it.log_generation += u64::from(!goes_on);
        it.revoked.clear();
        it.untold.clear();
        it.lingering.clear();
        it.is_known = it.is_alive;
    }

    /// What always holds.
    fn look_over(&self) -> Result<(), Wrong> {
        for inode in 0..self.stored.len() {
            let holders = self.leases.holders(number(inode));
            let writes = holders.iter().any(|(_, mode)| *mode == LeaseMode::Write);
            if writes && holders.len() > 1 {
                return Err(format!("inode {inode} is written and held by others: {holders:?}"));
            }
            let logged = |it: &&Session| it.log.iter().any(|(logged, _)| *logged == inode);
            let mut writers = self.sessions.iter().filter(logged);
            let last = writers.next().and_then(|it| {
                it.log.iter().rev().find(|(logged, _)| *logged == inode).map(|(_, value)| *value)
            });
            if writers.next().is_some() {
                return Err(format!("two logs change inode {inode}: which comes first?"));
            }
            let kept = last.unwrap_or(self.stored[inode]);
            if kept != self.truth[inode] {
                return Err(format!("write {} to inode {inode} is lost: {kept} is there", self.truth[inode]));
            }
        }
        Ok(())
    }

    /// Every session comes to an end, if none begins anything more, fate is kind, and steps that take no time
    /// happen before time passes: a session that holds a lease has its moment.
    fn come_to_an_end(mut self) -> Result<(), Wrong> {
        let steps_max = 60 * self.sessions.len() * (1 + self.sessions.len());
        for turn in 0..steps_max {
            if self.sessions.iter().all(|it| it.operation.is_none()) && self.is_up() {
                return Ok(());
            }
            let steps = self.going_on();
            let at_once = |step: &&Step| match **step {
                Step::Go(_) => true,
                Step::Serve(session) => {
                    matches!(self.sessions[session].operation, Some((_, Phase::Granted(_))))
                }
                _ => false,
            };
            let Some(&step) = steps.iter().find(at_once).or_else(|| steps.get(turn % steps.len().max(1)))
            else {
                break;
            };
            self.make(step)?;
        }
        let waiting: Vec<_> = self.sessions.iter().map(|it| &it.operation).collect();
        Err(format!("a session waits for ever: {waiting:?}"))
    }
}
