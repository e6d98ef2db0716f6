//! Calls of a caller, crashed in: what shows behind a crash is what some number of them leave, and the record of the last one says
//! exactly that number. So a caller that asks again is told the truth, whichever of its calls was under way.

use crate::explorer::crashes::store::{
    Prepared, Step, Workload, WorkloadFailure, accounted, crashed, explored, is_one_of, prepare, recover,
};
use crate::explorer::scenarios::workloads::{DigestAt, workload};
use crate::explorer::{Bounds, Coverage, Memory, Progress, Subject, acknowledged, issued};
use crate::operations::operation::{Kind, Operation, PathText, answers_agree};
use crate::operations::tree::Tree;
use crate::world::World;
use cuesta_media::clock::RepeatedClock;
use cuesta_media::recorder::Recorder;
use std::borrow::Cow;
use std::path::Path;

/// The state behind a crash: the visible tree, and the number of the last call that took effect.
type RecoveredState = (Tree, Option<u64>);

/// What may be left after each number of calls.
struct CallsSubject(Vec<RecoveredState>);

impl Subject for CallsSubject {
    type RecoveredState = RecoveredState;

    fn recover(&mut self, directory: &Path) -> Result<RecoveredState, String> {
        let tree = recover(directory, &[])?;
        Ok((tree, World::open(directory)?.last_call()?))
    }

    fn judge(&self, (tree, number): &RecoveredState, progress: &[Progress]) -> Result<(), String> {
        let Progress { acknowledged, issued } = progress[0];
        let reached = self.0.iter().enumerate().skip(acknowledged as usize);
        let reached = reached.take((issued - acknowledged) as usize + 1);
        let allowed = reached.filter(|(_, (_, said))| said == number);
        let allowed = allowed.map(|(count, (tree, _))| (format!("{count} calls"), Cow::Borrowed(tree)));
        is_one_of(tree, allowed).map_err(|reason| format!("the last call is said to be {number:?}: {reason}"))
    }
}

/// Runs `calls` on a new small store, each with its number, has the caller forgotten, and crashes all that.
pub fn crash(
    calls: &[Operation],
    digest: DigestAt,
    memory: &mut Memory<RecoveredState>,
    bounds: &Bounds,
    seed: u64,
) -> Result<Coverage, WorkloadFailure> {
    let _clock = RepeatedClock::start();
    let Workload { setup, steps, .. } = workload(calls, digest);
    let Prepared { directory, mut worlds, mut model } = prepare(&setup, 1).map_err(WorkloadFailure::Run)?;
    let root = directory.path();
    let mut subject = CallsSubject(vec![(crashed(&model), None)]);
    let recorder = Recorder::install(&[root]).map_err(|error| WorkloadFailure::Run(error.to_string()))?;
    let run = || {
        let world = worlds[0].as_mut().ok_or("there is no client")?;
        for step in steps {
            let Step::Call(_, call) = step else {
                world.digest()?;
                continue;
            };
            issued(0);
            let number = subject.0.len() as u64;
            let (found, expected) = (world.apply_numbered(number, &call), model.apply(&call));
            if !answers_agree(&found, &expected) {
                return Err(format!("{call:?}: {found:?}, expected {expected:?}"));
            }
            world.sync()?;
            acknowledged(0);
            subject.0.push((crashed(&model), Some(number)));
        }
        issued(0);
        world.forget_caller()?;
        world.sync()?;
        acknowledged(0);
        subject.0.push((crashed(&model), None));
        Ok(())
    };
    let outcome = run();
    let recording = recorder.take();
    outcome.map_err(WorkloadFailure::Run)?;
    accounted(&recording, root)?;
    drop(worlds);
    explored(recording, root, &mut subject, memory, bounds, seed)
}

/// Calls that each log one entry.
#[must_use]
pub fn logged_calls() -> Vec<Operation> {
    // A close before the file lost its name is known to the log, and is no call of the caller's.
    crate::explorer::scenarios::workloads::calls()
        .into_iter()
        .filter(|call| !matches!(call, Operation::Close { .. }))
        .collect()
}

/// A file that comes and goes: a digest of all of it leaves the records of the calls, and nothing else.
#[must_use]
pub fn made_and_removed() -> Vec<Operation> {
    let path = PathText::from("/fleeting");
    let node = Operation::MakeNode { path: path.clone(), kind: Kind::File, mode: 0o600, device: 0 };
    vec![node, Operation::Unlink { path }]
}
