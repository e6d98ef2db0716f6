//! Crash exploration of the real store: SharedFS and LibFS in one process, recorded.

use super::{Bounds, Coverage, Failure, Progress, Subject, acknowledged, explore, issued, unaccounted};
use crate::model::Model;
use crate::operation::{Operation, answers_agree};
use crate::tree::Tree;
use crate::world::{self, World};
use cuesta_media::recorder::Recorder;
use std::path::Path;

/// A step of a workload.
#[derive(Clone, Debug)]
pub enum Step {
    /// A call.
    Call(Operation),
    /// Everything so far is digested.
    Digest,
}

/// What is run and crashed.
#[derive(Clone, Debug, Default)]
pub struct Workload {
    /// Calls before recording starts.
    pub setup: Vec<Step>,
    /// What is recorded.
    pub steps: Vec<Step>,
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
struct StoreSubject {
    trees: Vec<Tree>,
}

impl Subject for StoreSubject {
    type Found = Tree;

    fn recover(&mut self, directory: &Path) -> Result<Tree, String> {
        let world = World::open(directory)?;
        let tree = world.tree()?;
        drop(world);
        world::fsck(directory)?;
        Ok(tree)
    }

    fn judge(&self, found: &Tree, progress: Progress) -> Result<(), String> {
        let mut nearest: Option<(u64, Vec<String>)> = None;
        for count in progress.acknowledged..=progress.issued {
            let differences = found.differences(&self.trees[count as usize]);
            if differences.is_empty() {
                return Ok(());
            }
            if nearest.as_ref().is_none_or(|(_, fewest)| differences.len() < fewest.len()) {
                nearest = Some((count, differences));
            }
        }
        let (count, differences) = nearest.unwrap_or_default();
        Err(format!("nearest is what {count} operations leave: {}", differences.join("; ")))
    }
}

/// Runs `workload` on a new small store and crashes it.
pub fn crash(workload: &Workload, bounds: &Bounds, seed: u64) -> Result<Coverage, WorkloadFailure> {
    let directory = tempfile::Builder::new()
        .prefix("cuesta-recorded-")
        .tempdir_in("/dev/shm")
        .map_err(|error| WorkloadFailure::Run(error.to_string()))?;
    let root = directory.path();
    world::create(root, world::small_geometry()).map_err(WorkloadFailure::Run)?;
    let mut world = World::open(root).map_err(WorkloadFailure::Run)?;
    let mut model = Model::new();
    for step in &workload.setup {
        take(step, &mut world, &mut model).map_err(WorkloadFailure::Run)?;
    }
    let mut trees = vec![crashed(&model)];
    let recorder = Recorder::install(&[root]).map_err(|error| WorkloadFailure::Run(error.to_string()))?;
    let outcome = run(&workload.steps, &mut world, &mut model, &mut trees);
    let recording = recorder.take();
    outcome.map_err(WorkloadFailure::Run)?;
    let unaccounted = unaccounted(&recording, root);
    if !unaccounted.is_empty() {
        return Err(WorkloadFailure::Run(format!("stores nobody recorded: {}", unaccounted.join("; "))));
    }
    drop(world);
    let coverage = explore(recording, root, &mut StoreSubject { trees }, bounds, seed)
        .map_err(|failure| WorkloadFailure::Crash(Box::new(failure)))?;
    if coverage.complete() { Ok(coverage) } else { Err(WorkloadFailure::Incomplete(coverage)) }
}

/// Takes the steps under the recorder; after each call, adds what a crash would leave.
fn run(steps: &[Step], world: &mut World, model: &mut Model, trees: &mut Vec<Tree>) -> Result<(), String> {
    for step in steps {
        let is_call = matches!(step, Step::Call(_));
        if is_call {
            issued();
        }
        take(step, world, model)?;
        if is_call {
            acknowledged();
            trees.push(crashed(model));
        }
    }
    Ok(())
}

/// Takes a step on both sides.
fn take(step: &Step, world: &mut World, model: &mut Model) -> Result<(), String> {
    let Step::Call(operation) = step else {
        return world.digest();
    };
    let found = world.helped(|world| world.apply(operation));
    let expected = model.apply(operation);
    match answers_agree(&found, &expected) {
        true => Ok(()),
        false => Err(format!("{operation:?}: {found:?}, expected {expected:?}")),
    }
}

fn crashed(model: &Model) -> Tree {
    let mut model = model.clone();
    model.crash();
    Tree::from(&model)
}
