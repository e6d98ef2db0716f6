//! Crash exploration of the real store: SharedFS and one or more clients in one process, recorded.
//!
//! The steps of a workload follow each other: a call has returned, on whichever client, before the next is issued.
//! So a crash leaves the result of some number of the calls, in any of the logs. Calls that overlap
//! are explored by [`crate::explorer::crashes::lanes`].

pub use super::step::{ClientNumber, Step};
use crate::explorer::crashes::unsynced::Unsynced;
use crate::explorer::{
    Bounds, Coverage, Failure, Memory, Progress, Subject, acknowledged, explore, issued, unaccounted,
};
use crate::model::Model;
use crate::operations::operation::answers_agree;
use crate::operations::sparse::Sparse;
use crate::operations::tree::Tree;
use crate::world::{self, LastingFile, LastingFiles, World};
use cuesta_format::{Geometry, Medium};
use cuesta_media::clock::RepeatedClock;
use cuesta_media::recorder::{Recorder, Recording};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

/// Bytes of a page: the kernel maps no less.
const PAGE_BYTES: u64 = 4096;

/// The workload that is run and crashed.
#[derive(Clone, Debug, Default)]
pub struct Workload {
    /// Steps before recording starts.
    pub setup: Vec<Step>,
    /// The steps that are recorded.
    pub steps: Vec<Step>,
    /// Whether the processes outlive the crash, which is the daemon's: files open behind the setup, in slots no step
    /// opens or closes, keep their content, with a name or without, and mapped files stay mapped.
    pub processes_live: bool,
    /// On what the store is.
    pub on: On,
}

/// The medium of a store, which decides when a call must have survived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum On {
    /// Memory that a fence makes durable: a call survives that has returned.
    #[default]
    PersistentMemory,
    /// A disk: a call survives once who made it has synced, which is done behind every so many calls.
    Disk(usize),
    /// A disk in optimistic mode: a call survives once any client has waited for the disk, which is done behind every so many
    /// calls. Beyond that the store is the result of some number of the calls of all clients.
    Optimistic(usize),
}

impl On {
    fn medium(self) -> Medium {
        match self {
            On::PersistentMemory => Medium::Memory,
            On::Disk(_) | On::Optimistic(_) => Medium::Block,
        }
    }

    /// Opens a store, which recovers it.
    fn open(self, directory: &Path) -> Result<World, String> {
        match self {
            On::PersistentMemory | On::Disk(_) => World::open(directory),
            On::Optimistic(_) => World::open_optimistic(directory),
        }
    }
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

/// The states that the store may show after each number of operations.
#[derive(Default)]
pub(in crate::explorer) struct StoreSubject {
    on: On,
    trees: Vec<Tree>,
    /// The unsynced stores through mappings after some of these operations.
    unsynced: BTreeMap<usize, (Model, Unsynced)>,
    /// What processes that live on have open.
    lasting: Vec<LastingFile>,
    /// Whether files were mapped: their times are the kernel's, and no part of what is crashed.
    maps: bool,
    /// Whether what is in mapped mode stays mapped.
    stays_mapped: bool,
}

impl StoreSubject {
    /// These trees and no mappings.
    pub(in crate::explorer) fn of(trees: Vec<Tree>) -> StoreSubject {
        StoreSubject { trees, ..StoreSubject::default() }
    }
}

/// Opens a crashed store while processes have `lasting` open, checks it and says what it shows. Once they close it, no
/// more is left of it than of any other.
pub(in crate::explorer) fn recover(directory: &Path, lasting: &[LastingFile]) -> Result<Tree, String> {
    recover_with(World::open, directory, lasting)
}

/// The same with a way to open it.
pub(in crate::explorer) fn recover_with(
    open: impl FnOnce(&Path) -> Result<World, String>,
    directory: &Path,
    lasting: &[LastingFile],
) -> Result<Tree, String> {
    let held = LastingFiles::hold(directory, lasting)?;
    let mut world = open(directory)?;
    nothing_damaged(&world)?;
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
    world.quotas_hold_all()?;
    drop(world);
    world::fsck(directory)?;
    Ok(tree)
}

/// A crash is no damage: recovery must not take one for the other.
pub(in crate::explorer) fn nothing_damaged(world: &World) -> Result<(), String> {
    match world.recovered().damaged_logs {
        0 => Ok(()),
        logs => Err(format!("recovery takes {logs} logs for damaged, which were only cut off")),
    }
}

/// The same with every file that is in mapped mode mapped by a process, until it is not: then it shows the same.
fn recover_mapped(directory: &Path) -> Result<Tree, String> {
    let pins = world::pin_all(directory)?;
    let world = World::open(directory)?;
    nothing_damaged(&world)?;
    let tree = world.tree()?;
    drop(pins);
    let next = world.another()?;
    world.detach();
    let then = next.tree()?.without_times();
    if next.has_files_in_mapped_mode()? {
        return Err("a file is in mapped mode that nobody has mapped".to_owned());
    }
    drop(next);
    world::fsck(directory)?;
    match then.differences(&tree.clone().without_times()) {
        same if same.is_empty() => Ok(tree),
        some => Err(format!("when nobody has it mapped any more: {}", some.join("; "))),
    }
}

/// Whether `found` is one of the trees `allowed`; else, how it differs from the nearest, which is named.
pub(in crate::explorer) fn is_one_of<'a>(
    found: &Tree,
    allowed: impl Iterator<Item = (String, Cow<'a, Tree>)>,
) -> Result<(), String> {
    let mut nearest: Option<(String, Vec<String>)> = None;
    for (name, tree) in allowed {
        let differences = found.differences(&tree);
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
    type RecoveredState = Tree;

    fn recover(&mut self, directory: &Path) -> Result<Tree, String> {
        let tree = match self.stays_mapped {
            true => recover_mapped(directory)?,
            false => recover_with(|directory| self.on.open(directory), directory, &self.lasting)?,
        };
        Ok(if self.maps { tree.without_times() } else { tree })
    }

    fn reads_are_seen(&self) -> bool {
        true
    }

    fn writes_wait(&self) -> bool {
        self.on.medium() == Medium::Block
    }

    fn circumstances(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.lasting, self.maps, self.stays_mapped).hash(&mut hasher);
        hasher.finish()
    }

    fn judge(&self, found: &Tree, progress: &[Progress]) -> Result<(), String> {
        let Progress { acknowledged, issued } = progress[0];
        let allowed = |count: u64| {
            let tree = &self.trees[count as usize];
            match self.unsynced.get(&(count as usize)) {
                Some((model, unsynced)) => Cow::Owned(unsynced.allowed(model, tree, found)),
                None => Cow::Borrowed(tree),
            }
        };
        let allowed = (acknowledged..=issued).map(|count| (format!("{count} operations"), allowed(count)));
        is_one_of(found, allowed)
    }
}

/// A new small store on which `setup` was done, and its model.
pub(in crate::explorer) struct Prepared {
    pub(in crate::explorer) directory: tempfile::TempDir,
    pub(in crate::explorer) worlds: Vec<Option<World>>,
    pub(in crate::explorer) model: Model,
}

/// Makes a store with so many clients, which take the first steps.
pub(in crate::explorer) fn prepare(setup: &[Step], clients: usize) -> Result<Prepared, String> {
    prepare_with(World::open, On::default(), setup, clients)
}

/// The same with a daemon that can be killed.
pub(in crate::explorer) fn prepare_mortal(setup: &[Step], clients: usize) -> Result<Prepared, String> {
    prepare_with(World::open_mortal, On::default(), setup, clients)
}

/// A new directory, in memory where there is such a place.
pub(in crate::explorer) fn in_memory() -> Result<tempfile::TempDir, String> {
    let builder = |parent: &Path| tempfile::Builder::new().prefix("cuesta-recorded-").tempdir_in(parent);
    builder(Path::new("/dev/shm"))
        .or_else(|_| builder(&std::env::temp_dir()))
        .map_err(|error| error.to_string())
}

/// A new store on `medium`, in memory where there is such a place.
pub(in crate::explorer) fn new_store(
    medium: Medium,
    geometry: Geometry,
) -> Result<tempfile::TempDir, String> {
    let directory = in_memory()?;
    world::create_on(medium, directory.path(), geometry)?;
    Ok(directory)
}

fn prepare_with(
    open: impl FnOnce(&Path) -> Result<World, String>,
    on: On,
    setup: &[Step],
    clients: usize,
) -> Result<Prepared, String> {
    let directory = new_store(on.medium(), world::small_geometry())?;
    let first = open(directory.path())?;
    let others = (1..clients).map(|_| first.another().map(Some)).collect::<Result<Vec<_>, _>>()?;
    let mut worlds: Vec<_> = std::iter::once(Some(first)).chain(others).collect();
    let mut model = Model::new();
    for step in setup {
        take(step, &mut worlds, &mut model)?;
    }
    if matches!(on, On::Optimistic(_)) {
        worlds.iter().flatten().next().map_or(Ok(()), World::dsync)?;
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
    let open = |directory: &Path| workload.on.open(directory);
    let prepared = prepare_with(open, workload.on, &workload.setup, workload.clients());
    let prepared = prepared.map_err(WorkloadFailure::Run)?;
    let Prepared { directory, mut worlds, mut model } = prepared;
    let root = directory.path();
    let maps = workload.setup.iter().chain(&workload.steps).any(Step::is_of_mappings);
    let lasting: Vec<LastingFile> = match workload.processes_live && !maps {
        true => worlds.iter().flatten().flat_map(World::lasting_files).collect(),
        false => Vec::new(),
    };
    let lasts = |slot| lasting.iter().any(|file| file.slot == slot);
    let crashed = |model: &Model| {
        let mut model = model.clone();
        model.keep_open(lasts);
        Tree::with_open_files(&model)
    };
    let mut subject = StoreSubject {
        on: workload.on,
        trees: vec![crashed(&model)],
        maps,
        stays_mapped: maps && workload.processes_live,
        ..StoreSubject::default()
    };
    let mut unsynced = Unsynced::default();
    let recorder = Recorder::install(&[root]).map_err(|error| WorkloadFailure::Run(error.to_string()))?;
    let outcome = run(workload.on, &workload.steps, &mut worlds, &mut model, |step, before, after| {
        unsynced.note(step, before, after);
        if step.is_programs() {
            if !unsynced.is_empty() {
                subject.unsynced.insert(subject.trees.len(), (after.clone(), unsynced.clone()));
            }
            subject.trees.push(crashed(after));
        }
    });
    let recording = recorder.take();
    outcome.map_err(WorkloadFailure::Run)?;
    accounted(&recording, root)?;
    drop(worlds);
    subject.lasting = lasting;
    explored(recording, root, &mut subject, memory, bounds, seed)
}

/// Whether the recording accounts for everything below `root`; asked while the store is still open.
pub(in crate::explorer) fn accounted(recording: &Recording, root: &Path) -> Result<(), WorkloadFailure> {
    match unaccounted(recording, root) {
        stores if stores.is_empty() => Ok(()),
        stores => Err(WorkloadFailure::Run(format!("stores nobody recorded: {}", stores.join("; ")))),
    }
}

/// Explores a recording. Every persist point of it must be crashed at.
pub(in crate::explorer) fn explored<S: Subject>(
    recording: Recording,
    root: &Path,
    subject: &mut S,
    memory: &mut Memory<S::RecoveredState>,
    bounds: &Bounds,
    seed: u64,
) -> Result<Coverage, WorkloadFailure> {
    let coverage = explore(recording, root, subject, memory, bounds, seed)
        .map_err(|failure| WorkloadFailure::Crash(Box::new(failure)))?;
    if coverage.complete() { Ok(coverage) } else { Err(WorkloadFailure::Incomplete(coverage)) }
}

impl Workload {
    pub(in crate::explorer) fn clients(&self) -> usize {
        self.setup.iter().chain(&self.steps).map(Step::client).max().unwrap_or(0) + 1
    }
}

/// Takes the steps under the recorder; `note` is shown each, and the model before and behind it.
pub(in crate::explorer) fn run(
    on: On,
    steps: &[Step],
    worlds: &mut [Option<World>],
    model: &mut Model,
    mut note: impl FnMut(&Step, &Model, &Model),
) -> Result<(), String> {
    let mut unsynced = 0;
    for step in steps {
        let before = model.clone();
        if step.is_programs() {
            issued(0);
        }
        take(step, worlds, model)?;
        if step.is_programs() {
            unsynced += 1;
            let is_due = match on {
                On::PersistentMemory => true,
                On::Disk(calls) | On::Optimistic(calls) => unsynced >= calls,
            };
            if is_due {
                let waits = if matches!(on, On::Optimistic(_)) { World::dsync } else { World::sync };
                worlds[step.client()].as_ref().map_or(Ok(()), waits)?;
                (0..std::mem::take(&mut unsynced)).for_each(|_| acknowledged(0));
            }
        }
        note(step, &before, model);
    }
    Ok(())
}

/// Takes a step on both sides.
pub(in crate::explorer) fn take(
    step: &Step,
    worlds: &mut [Option<World>],
    model: &mut Model,
) -> Result<(), String> {
    let place = &mut worlds[step.client()];
    let world = place.as_mut().ok_or("a client that is gone makes a call")?;
    let model_failed = |errno| format!("{step:?}: in the model, {errno}");
    match step {
        Step::Digest(_) => world.digest(),
        Step::Quota(_, directory, limits) => world.set_quota(directory, *limits),
        Step::Migrate(_, path, tier) => world.migrate(path, *tier),
        Step::CopyUp(_, path) => world.copy_up(path),
        Step::Detach(_) => {
            if let Some(world) = place.take() {
                world.detach();
            }
            Ok(())
        }
        Step::ForgetEarly(_) => {
            world.forget_early();
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
        Step::Map(_, slot, bytes) => {
            model.map(*slot).map_err(model_failed)?;
            world.map(*slot, *bytes)
        }
        Step::StoreMapped(_, slot, offset, data) => {
            // Behind the page with the file's end is nothing to store to.
            let size = model.mapped(*slot).and_then(|inode| model.content(inode)).map_or(0, Sparse::size);
            let reach = size.next_multiple_of(PAGE_BYTES).saturating_sub(*offset);
            let bytes = &data.bytes()[..reach.min(data.length.into()) as usize];
            model.store_mapped(*slot, *offset, bytes).map_err(model_failed)?;
            if bytes.is_empty() { Ok(()) } else { world.store_mapped(*slot, *offset, bytes) }
        }
        Step::SyncMapped(_, slot) => world.sync_mapped(*slot),
        Step::Unmap(_, slot) => {
            model.unmap(*slot);
            world.unmap(*slot)
        }
        Step::FindNoneMapped(_) => match world.has_files_in_mapped_mode()? {
            false => Ok(()),
            true => Err("a file is still in mapped mode".to_owned()),
        },
    }
}

/// What shows of the model once every file is closed.
pub(in crate::explorer) fn crashed(model: &Model) -> Tree {
    let mut model = model.clone();
    model.crash();
    Tree::from(&model)
}
