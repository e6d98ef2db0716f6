//! A client dies in a call, the daemon digests what it left in its log, and power is lost meanwhile: an entry the digest
//! saw, for the client had stored it, may be gone from the log, for the client never made it durable.
//!
//! As in [`deaths`](crate::explorer::crashes::deaths) the client is a thread that stops behind some store, flush or fence of its own. What
//! the daemon does then, ending the session, is explored as any other run: what shows is what some number of the calls
//! leave, all that were acknowledged among them, and no half of one.

use crate::explorer::crashes::deaths::{Death, follow, live};
use crate::explorer::crashes::store::{
    Prepared, StoreSubject, WorkloadFailure, accounted, crashed, explored, prepare,
};
use crate::explorer::{Bounds, Coverage, Memory};
use crate::operations::tree::Tree;
use cuesta_media::recorder::Recorder;
use std::sync::mpsc::channel;

/// Dies at every instant, and loses power at every instant behind it. What else `death` has to say is not looked at.
pub fn crash(
    death: &Death,
    memory: &mut Memory<Tree>,
    bounds: &Bounds,
    seed: u64,
) -> Result<Coverage, WorkloadFailure> {
    let mut coverage = Coverage::default();
    for events in 1.. {
        let (died, explored) = die_behind(death, events, memory, bounds, seed)?;
        coverage.add(explored);
        if !died {
            break;
        }
    }
    Ok(coverage)
}

/// Says whether it died: it may have come to its end before.
fn die_behind(
    death: &Death,
    events: u64,
    memory: &mut Memory<Tree>,
    bounds: &Bounds,
    seed: u64,
) -> Result<(bool, Coverage), WorkloadFailure> {
    let run = |reason: String| WorkloadFailure::Run(format!("behind event {events}: {reason}"));
    let Prepared { directory, mut worlds, mut model } = prepare(&death.setup, 2).map_err(run)?;
    let root = directory.path();
    let gone = || run("it is gone before".to_owned());
    let mut victim = worlds[death.dies].take().ok_or_else(gone)?;
    let daemon = worlds[1 - death.dies].as_ref().ok_or_else(gone)?;
    let mut trees = vec![crashed(&model)];
    for call in &death.calls {
        // Another test checks its answer.
        let _ = model.apply(call);
        trees.push(crashed(&model));
    }
    let (tells, told) = channel();
    let (lets_go, waits) = channel();
    let recorder = Recorder::install(&[root]).map_err(|error| run(error.to_string()))?;
    let outcome = std::thread::scope(|scope| {
        let session = victim.session();
        let victim = &mut victim;
        scope.spawn(move || live(victim, &death.calls, events, &tells, waits));
        let outcome = follow(&told).and_then(|reached| {
            daemon.end(session)?;
            Ok(reached.died)
        });
        let recording = recorder.take();
        let outcome = outcome.map_err(run).and_then(|died| {
            accounted(&recording, root)?;
            Ok((died, recording))
        });
        drop(lets_go);
        outcome
    });
    drop((victim, worlds));
    let (died, recording) = outcome?;
    let mut subject = StoreSubject::of(trees);
    Ok((died, explored(recording, root, &mut subject, memory, bounds, seed)?))
}
