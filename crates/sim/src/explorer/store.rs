//! Crash exploration of the real store: SharedFS and one or more clients in one process, recorded.
//!
//! The steps of a workload follow each other: a call has returned, on whichever client, before the next is issued.
//! So what a crash leaves is what some number of the calls leave, whose logs ever they are in. Calls that overlap
//! are explored by [`super::lanes`].

use super::{
    Bounds, Coverage, Failure, Memory, Progress, Subject, acknowledged, explore, issued, unaccounted,
};
use crate::model::Model;
use crate::operation::{Operation, answers_agree};
use crate::tree::Tree;
use crate::world::{self, LastingFile, LastingFiles, World};
use cuesta_media::clock::RepeatedClock;
use cuesta_media::recorder::{Recorder, Recording};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

/// One of the clients, from 0.
pub type ClientNumber = usize;

/// A step of a workload.
#[derive(Clone, Debug)]
pub enum Step {
    /// A call by one client. Slots are the workload's: no two clients use the same.
    Call(ClientNumber, Operation),
    /// Everything a client did so far is digested.
    Digest(ClientNumber),
    /// A client ends its session; it makes no more calls.
    Detach(ClientNumber),
}

/// What is run and crashed.
#[derive(Clone, Debug, Default)]
pub struct Workload {
    /// Steps before recording starts.
    pub setup: Vec<Step>,
    /// What is recorded.
    pub steps: Vec<Step>,
    /// Whether the processes outlive the crash, which is the daemon's: what is open behind the setup, in slots no step
    /// opens or closes, keeps its content, with a name or without.
    pub processes_live: bool,
}

/// A workload that does not hold what it promises.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadFailure {
    /// It went wrong before any crash.
    #[error("without a crash: {0}")]
    Run(String),
    /// A crash left something wrong behind.
    #[error(transparent)]
    Crash(Box<Failure>),
    /// A persist point was never crashed at.
    #[error("not every persist point was crashed at: {0}")]
    Incomplete(Coverage),
}

/// What the store may show after each number of operations.
pub(super) struct StoreSubject {
    pub(super) trees: Vec<Tree>,
    /// What processes that live on have open.
    pub(super) lasting: Vec<LastingFile>,
}

/// Opens a crashed store while processes have `lasting` open, checks it and says what it shows. Once they close it, no
/// more is left of it than of any other.
pub(super) fn recover(directory: &Path, lasting: &[LastingFile]) -> Result<Tree, String> {
    let held = LastingFiles::hold(directory, lasting)?;
    let mut world = World::open(directory)?;
    world.reopen(&held)?;
    let tree = world.tree_and_open_files()?;
    world.close_all()?;
    drop(held);
    if !lasting.is_empty() {
        world.digest()?;
        // Whoever asks how much there is has it looked what was closed.
        world.inodes()?;
    }
    world.nothing_nameless()?;
    drop(world);
    world::fsck(directory)?;
    Ok(tree)
}

/// Whether `found` is one of the trees `allowed`; else, how it differs from the nearest, which is named.
pub(super) fn is_one_of<'a>(
    found: &Tree,
    allowed: impl Iterator<Item = (String, &'a Tree)>,
) -> Result<(), String> {
    let mut nearest: Option<(String, Vec<String>)> = None;
    for (name, tree) in allowed {
        let differences = found.differences(tree);
        if differences.is_empty() {
            return Ok(());
        }
        if nearest.as_ref().is_none_or(|(_, fewest)| differences.len() < fewest.len()) {
            nearest = Some((name, differences));
        }
    }
    let (name, differences) = nearest.unwrap_or_default();
    Err(format!("nearest is what {name} leave: {}", differences.join("; ")))
}

impl Subject for StoreSubject {
    type Found = Tree;

    fn recover(&mut self, directory: &Path) -> Result<Tree, String> {
        recover(directory, &self.lasting)
    }

    fn reads_are_seen(&self) -> bool {
        true
    }

    fn circumstances(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.lasting.hash(&mut hasher);
        hasher.finish()
    }

    fn judge(&self, found: &Tree, progress: &[Progress]) -> Result<(), String> {
        let Progress { acknowledged, issued } = progress[0];
        let counts = acknowledged..=issued;
        is_one_of(found, counts.map(|count| (format!("{count} operations"), &self.trees[count as usize])))
    }
}

/// A new small store on which `setup` was done, and its model.
pub(super) struct Prepared {
    pub(super) directory: tempfile::TempDir,
    pub(super) worlds: Vec<Option<World>>,
    pub(super) model: Model,
}

/// Makes a store with so many clients, which take the first steps.
pub(super) fn prepare(setup: &[Step], clients: usize) -> Result<Prepared, String> {
    let builder = |parent: &Path| tempfile::Builder::new().prefix("cuesta-recorded-").tempdir_in(parent);
    let directory = builder(Path::new("/dev/shm"))
        .or_else(|_| builder(&std::env::temp_dir()))
        .map_err(|error| error.to_string())?;
    world::create(directory.path(), world::small_geometry())?;
    let first = World::open(directory.path())?;
    let others = (1..clients).map(|_| first.another().map(Some)).collect::<Result<Vec<_>, _>>()?;
    let mut worlds: Vec<_> = std::iter::once(Some(first)).chain(others).collect();
    let mut model = Model::new();
    for step in setup {
        take(step, &mut worlds, &mut model)?;
    }
    Ok(Prepared { directory, worlds, model })
}

/// Runs `workload` on a new small store and crashes it. Workloads that begin alike come to equal states, for the clock
/// shows the same times to each.
pub fn crash(
    workload: &Workload,
    memory: &mut Memory<Tree>,
    bounds: &Bounds,
    seed: u64,
) -> Result<Coverage, WorkloadFailure> {
    let _clock = RepeatedClock::start();
    let prepared = prepare(&workload.setup, workload.clients()).map_err(WorkloadFailure::Run)?;
    let Prepared { directory, mut worlds, mut model } = prepared;
    let root = directory.path();
    let lasting: Vec<LastingFile> = match workload.processes_live {
        true => worlds.iter().flatten().flat_map(World::lasting_files).collect(),
        false => Vec::new(),
    };
    let lasts = |slot| lasting.iter().any(|file| file.slot == slot);
    let crashed = |model: &Model| {
        let mut model = model.clone();
        model.keep_open(lasts);
        Tree::with_open_files(&model)
    };
    let mut trees = vec![crashed(&model)];
    let recorder = Recorder::install(&[root]).map_err(|error| WorkloadFailure::Run(error.to_string()))?;
    let outcome = run(&workload.steps, &mut worlds, &mut model, |model| trees.push(crashed(model)));
    let recording = recorder.take();
    outcome.map_err(WorkloadFailure::Run)?;
    accounted(&recording, root)?;
    drop(worlds);
    explored(recording, root, &mut StoreSubject { trees, lasting }, memory, bounds, seed)
}

/// Whether the recording accounts for everything below `root`; asked while the store is still open.
pub(super) fn accounted(recording: &Recording, root: &Path) -> Result<(), WorkloadFailure> {
    match unaccounted(recording, root) {
        stores if stores.is_empty() => Ok(()),
        stores => Err(WorkloadFailure::Run(format!("stores nobody recorded: {}", stores.join("; ")))),
    }
}

/// Explores a recording, whose every persist point must be crashed at.
pub(super) fn explored<S: Subject>(
    recording: Recording,
    root: &Path,
    subject: &mut S,
    memory: &mut Memory<S::Found>,
    bounds: &Bounds,
    seed: u64,
) -> Result<Coverage, WorkloadFailure> {
    let coverage = explore(recording, root, subject, memory, bounds, seed)
        .map_err(|failure| WorkloadFailure::Crash(Box::new(failure)))?;
    if coverage.complete() { Ok(coverage) } else { Err(WorkloadFailure::Incomplete(coverage)) }
}

impl Workload {
    fn clients(&self) -> usize {
        let client = |step: &Step| match step {
            Step::Call(client, _) | Step::Digest(client) | Step::Detach(client) => *client,
        };
        self.setup.iter().chain(&self.steps).map(client).max().unwrap_or(0) + 1
    }
}

/// Takes the steps under the recorder; `note` is shown what each call leaves.
fn run(
    steps: &[Step],
    worlds: &mut [Option<World>],
    model: &mut Model,
    mut note: impl FnMut(&Model),
) -> Result<(), String> {
    for step in steps {
        let is_call = matches!(step, Step::Call(..));
        if is_call {
            issued(0);
        }
        take(step, worlds, model)?;
        if is_call {
            acknowledged(0);
            note(model);
        }
    }
    Ok(())
}

/// Takes a step on both sides.
pub(super) fn take(step: &Step, worlds: &mut [Option<World>], model: &mut Model) -> Result<(), String> {
    let (Step::Call(client, _) | Step::Digest(client) | Step::Detach(client)) = step;
    let place = &mut worlds[*client];
    let world = place.as_mut().ok_or("a client that is gone makes a call")?;
    match step {
        Step::Digest(_) => world.digest(),
        Step::Detach(_) => {
            if let Some(world) = place.take() {
                world.detach();
            }
            Ok(())
        }
        Step::Call(client, operation) => {
            let found = world.helped(|world| world.apply(operation));
            let expected = model.apply(operation);
            match answers_agree(&found, &expected) {
                true => Ok(()),
                false => Err(format!("client {client}, {operation:?}: {found:?}, expected {expected:?}")),
            }
        }
    }
}

/// What shows of the model once every file is closed.
pub(super) fn crashed(model: &Model) -> Tree {
    let mut model = model.clone();
    model.crash();
    Tree::from(&model)
}
