//! SharedFS is killed, at every instant at which it can be, while its clients live on; the next one takes its place, and
//! they go on with that: each call answers as if nothing had been, and all they did is there.
//!
//! The daemon serves a call of one client when it is killed; the other finds out when it next asks. Some of the runs are
//! crashed altogether as well, at every persist point before the kill, in the recovery of the next daemon and in what the
//! sessions do to come back.

use crate::explorer::crashes::store::{
    Prepared, StoreSubject, Workload, WorkloadFailure, accounted, crashed, explored, prepare_mortal, run,
};
use crate::explorer::{Bounds, Coverage, Memory};
use crate::model::Model;
use crate::operations::random::Random;
use crate::operations::tree::Tree;
use crate::world::{self, World};
use cuesta_media::recorder::Recorder;
use std::path::Path;

/// One in so many of the runs is crashed, too.
const CRASHED_ONE_IN: u64 = 32;

/// Kills the daemon at every instant, or at one in so many as the bounds have it for deaths.
pub fn crash(
    workload: &Workload,
    memory: &mut Memory<Tree>,
    bounds: &Bounds,
    seed: u64,
) -> Result<Coverage, WorkloadFailure> {
    let mut random = Random::new(seed);
    let mut coverage = Coverage::default();
    let mut events = 0;
    loop {
        events += 1 + random.below(2 * bounds.deaths_one_in - 1);
        let memory = random.one_in(CRASHED_ONE_IN).then_some(&mut *memory);
        let (killed, explored) = kill_behind(workload, events, memory, bounds, seed)?;
        coverage.add(explored);
        coverage.states += 1;
        coverage.states_distinct += 1;
        if !killed {
            return Ok(coverage);
        }
    }
}

/// Says whether it was killed: all may have been done before.
fn kill_behind(
    workload: &Workload,
    events: u64,
    memory: Option<&mut Memory<Tree>>,
    bounds: &Bounds,
    seed: u64,
) -> Result<(bool, Coverage), WorkloadFailure> {
    let failed = |reason: String| WorkloadFailure::Run(format!("killed behind event {events}: {reason}"));
    let Prepared { directory, mut worlds, mut model } =
        prepare_mortal(&workload.setup, workload.clients()).map_err(failed)?;
    let root = directory.path();
    let mut trees = vec![crashed(&model)];
    let recorder = Recorder::install(&[root]).map_err(|error| failed(error.to_string()))?;
    if let Some(world) = worlds.iter().flatten().next() {
        world.kill_daemon_behind(events);
    }
    let outcome = run(workload.on, &workload.steps, &mut worlds, &mut model, |step, _, after| {
        if step.is_programs() {
            trees.push(crashed(after));
        }
    });
    let recording = recorder.take();
    let killed = worlds.iter().flatten().any(World::daemon_was_killed);
    let outcome = outcome.map_err(failed).and_then(|()| {
        accounted(&recording, root)?;
        survived(&mut worlds, &model).map_err(failed)
    });
    outcome?;
    last_look(root, worlds, &model).map_err(failed)?;
    match memory {
        Some(memory) => {
            let mut subject = StoreSubject::of(trees);
            Ok((killed, explored(recording, root, &mut subject, memory, bounds, seed)?))
        }
        None => Ok((killed, Coverage::default())),
    }
}

/// Checks the clients' view, and the state they leave when they are done.
fn survived(worlds: &mut [Option<World>], model: &Model) -> Result<(), String> {
    for (client, world) in worlds.iter().enumerate() {
        let Some(world) = world else { continue };
        match world.tree()?.differences(&Tree::from(model)) {
            none if none.is_empty() => {}
            some => return Err(format!("client {client} sees: {}", some.join("; "))),
        }
    }
    for world in worlds.iter_mut().flatten() {
        world.close_all()?;
        world.digest()?;
    }
    let Some(world) = worlds.iter().flatten().next() else { return Ok(()) };
    // Whoever asks how much there is has it looked what was closed.
    world.inodes()?;
    world.nothing_nameless()
}

/// Checks the store's content when all have gone.
fn last_look(root: &Path, worlds: Vec<Option<World>>, model: &Model) -> Result<(), String> {
    // The threads of a daemon that was killed go on when it goes: no other thread may look at the files then.
    let _daemon = worlds.iter().flatten().next().map(World::hold_daemon);
    for world in worlds.into_iter().flatten() {
        world.detach();
    }
    let world = World::open(root)?;
    let found = world.tree()?;
    drop(world);
    match found.differences(&crashed(model)) {
        none if none.is_empty() => world::fsck(root),
        some => Err(format!("in the end: {}", some.join("; "))),
    }
}
