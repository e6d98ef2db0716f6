//! Crash exploration of sessions whose operations go two ways: into their own logs, and by way of SharedFS into the log of the session
//! in the daemon ([`crate::world::SendingWorld`]).
//!
//! Two sessions take turns. Each has a directory and a file of its own; they share two files, and a directory in which they make, move
//! and remove names. Mostly they send what they do to these. Now and then a session takes the lease and does it itself, so that files
//! become shipped and are shipped no more, and any of the three logs is digested.
//!
//! [`History`] says which states a crash may leave: a prefix of each session, with everything that was seen.

use crate::explorer::crashes::histories::{History, Log, SESSIONS};
use crate::explorer::crashes::store::{WorkloadFailure, accounted, explored, is_one_of, new_store, recover};
use crate::explorer::{Bounds, Coverage, Memory, Progress, Subject, acknowledged, issued};
use crate::model::Model;
use crate::operations::operation::{OpenFlags, Operation, PathText, Pattern, Slot, answers_agree};
use crate::operations::random::Random;
use crate::operations::tree::Tree;
use crate::world::{SendingWorld, Service, World, small_geometry};
use cuesta_format::{Geometry, Medium};
use cuesta_media::recorder::Recorder;
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

/// Room enough for what each session asks for: where it is short, SharedFS digests the logs of the others again and again.
pub(super) const STORE_BYTES: u64 = 128 << 20;
/// Steps of a run.
const STEPS: usize = 10;
/// The most bytes of a write.
const WRITE_BYTES_MAX: u64 = 600;
/// Where writes go.
const OFFSET_MAX: u64 = 5000;
/// The slots of a session: its own file, the two shared ones (the second is appended to), and a file it makes.
const SLOTS: Slot = 4;
const OWN: Slot = 0;
const SHARED: Slot = 1;
const APPENDED: Slot = 2;
const MADE: Slot = 3;

/// The media that are explored: memory, which keeps flushed and fenced stores, and a disk.
pub const MEDIA: [Medium; 2] = [Medium::Memory, Medium::Block];

/// The states that are tried: any log may be there without the others.
pub fn bounds() -> Bounds {
    Bounds { whole_files: true, ..Bounds::quick() }
}

/// How a call is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By the session, which takes the leases for it.
    Own,
    /// By SharedFS, or the run is wrong.
    Sent,
    /// By SharedFS, unless the session has the lease.
    Either,
}

/// A step of a workload.
#[derive(Clone, Debug)]
pub enum Step {
    /// A session's call.
    Call(usize, Operation, Way),
    /// Everything in a log is digested.
    Digest(Log),
}

/// The workload that is run and crashed.
#[derive(Clone, Debug)]
pub struct Workload {
    /// On what the store is.
    pub medium: Medium,
    /// Sent calls go by rings, else by sockets.
    pub by_rings: bool,
    /// The steps that are recorded.
    pub steps: Vec<Step>,
}

impl Workload {
    fn of(steps: Vec<Step>) -> Workload {
        Workload { medium: Medium::Memory, by_rings: false, steps }
    }

    /// The same on this medium.
    #[must_use]
    pub fn on(self, medium: Medium) -> Workload {
        Workload { medium, ..self }
    }
}

fn path(text: &str) -> PathText {
    PathText::from(text)
}

fn folder(session: usize) -> &'static str {
    ["/a", "/b"][session]
}

fn open(session: usize, slot: Slot, name: &str) -> Operation {
    let append = slot == APPENDED;
    let flags = OpenFlags { read: true, write: true, create: true, append, ..OpenFlags::default() };
    Operation::Open { slot: session as Slot * SLOTS + slot, path: path(name), flags, mode: 0o666 }
}

/// The steps before, which leave SharedFS the lease of the shared files.
pub(super) fn setup() -> Vec<Step> {
    let own = |session, call| Step::Call(session, call, Way::Own);
    let mkdir = |name: &str| Operation::Mkdir { path: path(name), mode: 0o777 };
    let mut steps: Vec<_> = ["/shared", folder(0), folder(1)].map(|name| own(0, mkdir(name))).into();
    steps.extend(["/shared/x", "/shared/y"].map(|name| own(0, open(0, MADE, name))));
    for session in 0..SESSIONS {
        steps.push(own(session, open(session, OWN, &format!("{}/own", folder(session)))));
        steps.push(own(session, open(session, SHARED, "/shared/pages")));
        steps.push(own(session, open(session, APPENDED, "/shared/lines")));
    }
    steps.extend([Log::Own(0), Log::Own(1)].map(Step::Digest));
    // A session that has the lease of a shared file loses it when the other one sends.
    for (round, way) in [Way::Either, Way::Either, Way::Sent].into_iter().enumerate() {
        for session in 0..SESSIONS {
            steps.push(own(session, write(session, OWN)));
            let made = mkdir(&format!("/shared/{session}{round}"));
            let calls = [made, write(session, SHARED), write(session, APPENDED)];
            steps.extend(calls.map(|call| Step::Call(session, call, way)));
        }
    }
    steps
}

fn slot(session: usize, slot: Slot) -> Slot {
    session as Slot * SLOTS + slot
}

fn write(session: usize, to: Slot) -> Operation {
    Operation::Write {
        slot: slot(session, to),
        data: Pattern { seed: u64::from(slot(session, to)), length: 300 },
    }
}

/// A run for each rule, in which little happens besides.
pub fn scenarios() -> Vec<(&'static str, Workload)> {
    let own = |session| Step::Call(session, write(session, OWN), Way::Own);
    let sent = |session| Step::Call(session, write(session, APPENDED), Way::Sent);
    let held = |session| Step::Call(session, write(session, APPENDED), Way::Own);
    let either = |session| Step::Call(session, write(session, APPENDED), Way::Either);
    let reads = |session| {
        let read = Operation::Pread { slot: slot(session, APPENDED), offset: 0, length: 5000 };
        Step::Call(session, read, Way::Either)
    };
    let syncs = |session, file| {
        let way = if file == OWN { Way::Own } else { Way::Either };
        Step::Call(session, Operation::Fsync { slot: slot(session, file) }, way)
    };
    let made = |session| Step::Call(session, open(session, MADE, "/shared/made"), Way::Sent);
    let moved = |session, from: &str, to: &str| {
        Step::Call(session, Operation::Rename { from: path(from), to: path(to) }, Way::Sent)
    };
    let digest = Step::Digest(Log::Service);
    let all = [
        ("own behind sent", vec![sent(0), own(0)]),
        ("sent behind own", vec![own(0), sent(0), digest.clone()]),
        ("own behind what was seen", vec![sent(0), reads(1), own(1)]),
        ("own behind what was done before what was seen", vec![own(0), sent(0), reads(1), own(1)]),
        ("sent behind what was done before what was seen", vec![own(0), sent(0), sent(1), digest.clone()]),
        ("two that saw nothing of each other", vec![own(0), own(1), own(0), syncs(1, OWN)]),
        ("synced behind sent", vec![sent(0), own(0), syncs(0, OWN)]),
        ("synced where all was sent", vec![sent(0), syncs(0, OWN)]),
        ("synced behind what was seen", vec![sent(0), reads(1), syncs(1, OWN)]),
        ("a shared file is synced", vec![own(0), sent(0), reads(1), syncs(1, APPENDED)]),
        ("shipped no more, and again", vec![sent(0), held(1), own(1), sent(0), own(0), either(1)]),
        (
            "names",
            vec![
                made(0),
                own(0),
                moved(1, "/shared/made", "/shared/x"),
                own(1),
                moved(0, "/shared/x", "/shared/y"),
            ],
        ),
        (
            "a file that is made and filled",
            vec![made(1), Step::Call(1, write(1, MADE), Way::Sent), own(1), digest],
        ),
    ];
    all.map(|(name, steps)| (name, Workload::of(steps))).into()
}

/// A drawn workload.
pub fn drawn(seed: u64) -> Workload {
    let mut drawing = Drawing {
        random: Random::new(seed),
        names: ["/shared/x", "/shared/y"].map(str::to_owned).into(),
        made: 0,
        has_made: [false; SESSIONS],
    };
    let logs = [Log::Own(0), Log::Own(1), Log::Service];
    let mut steps = Vec::new();
    while steps.len() < STEPS {
        match drawing.random.below(12) {
            0 => steps.push(Step::Digest(*drawing.random.pick(&logs))),
            _ => steps.push(drawing.call()),
        }
    }
    Workload { by_rings: drawing.random.one_in(2), ..Workload::of(steps) }
}

struct Drawing {
    random: Random,
    /// Files in the shared directory that may lose their names.
    names: Vec<String>,
    /// How many names were made.
    made: u64,
    has_made: [bool; SESSIONS],
}

impl Drawing {
    fn data(&mut self) -> Pattern {
        Pattern { seed: self.random.next(), length: 1 + self.random.below(WRITE_BYTES_MAX) as u32 }
    }

    fn name(&mut self, folder: &str) -> String {
        self.made += 1;
        format!("{folder}/n{}", self.made)
    }

    fn call(&mut self) -> Step {
        let session = self.random.below(SESSIONS as u64) as usize;
        let slot = |file| slot(session, file);
        if self.random.one_in(7) {
            let synced = *self.random.pick(&[OWN, SHARED, APPENDED]);
            let way = if synced == OWN { Way::Own } else { Way::Either };
            return Step::Call(session, Operation::Fsync { slot: slot(synced) }, way);
        }
        let call = match self.random.below(12) {
            0..3 => {
                return Step::Call(
                    session,
                    Operation::Write { slot: slot(OWN), data: self.data() },
                    Way::Own,
                );
            }
            3 => {
                let made = Operation::Mkdir { path: path(&self.name(folder(session))), mode: 0o777 };
                return Step::Call(session, made, Way::Own);
            }
            4 | 5 => {
                let offset = self.random.below(OFFSET_MAX);
                Operation::Pwrite { slot: slot(SHARED), offset, data: self.data() }
            }
            6 => Operation::Write { slot: slot(APPENDED), data: self.data() },
            7 => Operation::Pread { slot: slot(SHARED), offset: 0, length: 2 * OFFSET_MAX as u32 },
            8 => Operation::Pread { slot: slot(APPENDED), offset: 0, length: 2 * OFFSET_MAX as u32 },
            9 if self.has_made[session] => Operation::Write { slot: slot(MADE), data: self.data() },
            9 => {
                self.has_made[session] = true;
                let name = self.name("/shared");
                self.names.push(name.clone());
                open(session, MADE, &name)
            }
            10 if !self.names.is_empty() => {
                let which = self.random.below(self.names.len() as u64) as usize;
                let name = self.names.swap_remove(which);
                match self.random.one_in(2) {
                    true => Operation::Unlink { path: path(&name) },
                    false => {
                        let to = self.name("/shared");
                        self.names.push(to.clone());
                        Operation::Rename { from: path(&name), to: path(&to) }
                    }
                }
            }
            _ => Operation::Mkdir { path: path(&self.name("/shared")), mode: 0o777 },
        };
        let way = if self.random.one_in(8) { Way::Own } else { Way::Either };
        Step::Call(session, call, way)
    }
}

/// The two sessions and the service.
pub(super) struct Sessions {
    pub(super) worlds: Vec<SendingWorld>,
    service: Service,
}

impl Sessions {
    pub(super) fn start(first: World, by_rings: bool) -> Result<Sessions, String> {
        let service = Service::start(&first)?;
        let second = first.another()?;
        let worlds = [first, second].into_iter().map(|world| world.sends_to(&service));
        let worlds: Vec<SendingWorld> = worlds.collect::<Result<_, _>>()?;
        if by_rings {
            worlds.iter().try_for_each(SendingWorld::ask_for_ring)?;
        }
        Ok(Sessions { worlds, service })
    }

    /// Makes a call on both sides, and says which log it went to.
    fn call(&mut self, model: &mut Model, session: usize, call: &Operation, way: Way) -> Result<Log, String> {
        let (found, was_sent) = self.worlds[session].apply(call, way != Way::Own);
        let expected = model.apply(call);
        let told = |what: &str| format!("session {session}, {call:?}: {what}");
        match answers_agree(&found, &expected) {
            false => Err(told(&format!("{found:?}, expected {expected:?}"))),
            true if was_sent => Ok(Log::Service),
            true if way == Way::Sent => Err(told("it is not sent")),
            true => Ok(Log::Own(session)),
        }
    }

    /// Takes a step. `marks`: the recording of this process is of it. Before, it may be of another test's sessions.
    pub(super) fn take(
        &mut self,
        step: &Step,
        model: &mut Model,
        history: &mut History,
        marks: bool,
    ) -> Result<(), String> {
        match step {
            Step::Digest(Log::Own(session)) => self.worlds[*session].world().digest(),
            Step::Digest(Log::Service) => self.service.digest(),
            Step::Call(session, call, way) => {
                let before = model.clone();
                if marks {
                    issued(*session as u64);
                }
                let log = self.call(model, *session, call, *way)?;
                if marks {
                    acknowledged(*session as u64);
                }
                history.note(*session, call, log, &before, model);
                Ok(())
            }
        }
    }
}

/// Runs `workload` on a new small store and crashes it.
pub fn crash(
    workload: &Workload,
    memory: &mut Memory<Tree>,
    bounds: &Bounds,
    seed: u64,
) -> Result<Coverage, WorkloadFailure> {
    let geometry = Geometry { nvm_bytes: STORE_BYTES, ..small_geometry() };
    let directory = new_store(workload.medium, geometry).map_err(WorkloadFailure::Run)?;
    let root = directory.path();
    let mut sessions = World::open_shipping(root)
        .and_then(|first| Sessions::start(first, workload.by_rings))
        .map_err(WorkloadFailure::Run)?;
    let mut model = Model::new();
    let is_durable_at_once = workload.medium != Medium::Block;
    let mut before = History::new(model.clone(), is_durable_at_once);
    for step in setup() {
        sessions.take(&step, &mut model, &mut before, false).map_err(WorkloadFailure::Run)?;
    }
    let mut history = History::new(model.clone(), is_durable_at_once);
    let recorder = Recorder::install(&[root]).map_err(|error| WorkloadFailure::Run(error.to_string()))?;
    let mut steps = workload.steps.iter();
    let outcome = steps.try_for_each(|step| sessions.take(step, &mut model, &mut history, true));
    let recording = recorder.take();
    outcome.map_err(WorkloadFailure::Run)?;
    accounted(&recording, root)?;
    drop(sessions);
    let mut subject = ShippingSubject { history, waits: !is_durable_at_once, allowed: RefCell::default() };
    explored(recording, root, &mut subject, memory, bounds, seed)
}

/// A tree, and of which operations.
type Allowed = (String, Tree);

/// The states that the store may show when the sessions had come so far.
struct ShippingSubject {
    history: History,
    /// On a disk.
    waits: bool,
    allowed: RefCell<BTreeMap<Vec<Progress>, Rc<[Allowed]>>>,
}

impl Subject for ShippingSubject {
    type RecoveredState = Tree;

    fn recover(&mut self, directory: &Path) -> Result<Tree, String> {
        recover(directory, &[]).map(|tree| tree.without_times().without_owners())
    }

    fn reads_are_seen(&self) -> bool {
        true
    }

    fn writes_wait(&self) -> bool {
        self.waits
    }

    fn lanes(&self) -> usize {
        SESSIONS
    }

    fn judge(&self, found: &Tree, progress: &[Progress]) -> Result<(), String> {
        let mut known = self.allowed.borrow_mut();
        let allowed = known.entry(progress.to_vec()).or_insert_with(|| self.history.allowed(progress).into());
        let allowed = allowed.iter().map(|(name, tree)| (name.clone(), Cow::Borrowed(tree)));
        is_one_of(found, allowed)
            .map_err(|nearest| self.history.what_is_broken(found, progress).unwrap_or(nearest))
    }
}
