//! Crash exploration of optimistic mode where operations go two ways ([`super::shipping`]).
//!
//! Steps of both sessions follow each other. So a crash leaves the result of some number of them, at least of those
//! before the last time that a session waited for the disk. A session does that where the workload has it call fsync.
//! Time is logical: the background's cut is such a wait.

use super::histories::History;
use super::shipping::{STORE_BYTES, Sessions, Step, Workload, setup};
use super::store::{WorkloadFailure, accounted, crashed, explored, is_one_of, new_store, recover_with};
use crate::explorer::{Bounds, Coverage, Memory, Progress, Subject, acknowledged, issued};
use crate::model::Model;
use crate::operations::operation::Operation;
use crate::operations::tree::Tree;
use crate::world::{World, small_geometry};
use cuesta_format::{Geometry, Medium};
use cuesta_media::recorder::Recorder;
use std::borrow::Cow;
use std::path::Path;

/// Runs `workload` on a new small store in optimistic mode and crashes it.
pub fn crash(
    workload: &Workload,
    memory: &mut Memory<Tree>,
    bounds: &Bounds,
    seed: u64,
) -> Result<Coverage, WorkloadFailure> {
    let geometry = Geometry { nvm_bytes: STORE_BYTES, ..small_geometry() };
    let directory = new_store(Medium::Block, geometry).map_err(WorkloadFailure::Run)?;
    let root = directory.path();
    let mut sessions = World::open_optimistic_shipping(root)
        .and_then(|first| Sessions::start(first, workload.by_rings))
        .map_err(WorkloadFailure::Run)?;
    let mut model = Model::new();
    let mut history = History::new(model.clone(), false);
    let prepared = setup().iter().try_for_each(|step| sessions.take(step, &mut model, &mut history, false));
    prepared.and_then(|()| sessions.worlds[0].world().dsync()).map_err(WorkloadFailure::Run)?;
    let shown = |model: &Model| crashed(model).without_times().without_owners();
    let mut subject = OptimisticSubject { trees: vec![shown(&model)] };
    let recorder = Recorder::install(&[root]).map_err(|error| WorkloadFailure::Run(error.to_string()))?;
    let mut unwritten = 0;
    let outcome = workload.steps.iter().try_for_each(|step| {
        let Step::Call(session, call, _) = step else {
            return sessions.take(step, &mut model, &mut history, false);
        };
        issued(0);
        sessions.take(step, &mut model, &mut history, false)?;
        unwritten += 1;
        if matches!(call, Operation::Fsync { .. }) {
            sessions.worlds[*session].world().dsync()?;
            (0..std::mem::take(&mut unwritten)).for_each(|_| acknowledged(0));
        }
        subject.trees.push(shown(&model));
        Ok(())
    });
    let recording = recorder.take();
    outcome.map_err(WorkloadFailure::Run)?;
    accounted(&recording, root)?;
    drop(sessions);
    explored(recording, root, &mut subject, memory, bounds, seed)
}

/// The states that the store may show after each number of calls.
struct OptimisticSubject {
    trees: Vec<Tree>,
}

impl Subject for OptimisticSubject {
    type RecoveredState = Tree;

    fn recover(&mut self, directory: &Path) -> Result<Tree, String> {
        let tree = recover_with(World::open_optimistic, directory, &[])?;
        Ok(tree.without_times().without_owners())
    }

    fn reads_are_seen(&self) -> bool {
        true
    }

    fn writes_wait(&self) -> bool {
        true
    }

    fn judge(&self, found: &Tree, progress: &[Progress]) -> Result<(), String> {
        let Progress { acknowledged, issued } = progress[0];
        let allowed = (acknowledged..=issued)
            .map(|count| (format!("{count} calls"), Cow::Borrowed(&self.trees[count as usize])));
        is_one_of(found, allowed)
    }
}
