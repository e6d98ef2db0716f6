//! Sessions of LibFS in threads of this process, each a client of one SharedFS: what processes do in the campaign, where
//! bugs can be planted.

use super::calls::calls;
use super::history::History;
use super::ledger::Ledger;
use super::{calls, worker};
use crate::programs::doors::{Door, Doors};
use crate::world::{self, World};
use cuesta_format::Geometry;
use std::sync::atomic::{AtomicBool, Ordering};

/// Has so many sessions make so many calls each on a new store, and one look at everything at the end.
pub fn run(geometry: Geometry, seed: u64, sessions: usize, count: usize) -> Result<History, String> {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let tier = directory.path().join("tier");
    std::fs::create_dir(&tier).map_err(|error| error.to_string())?;
    world::create(&tier, geometry)?;
    let ledger = Ledger::create(&directory.path().join("ledger")).map_err(|error| error.to_string())?;
    let mut first = World::open(&tier)?;
    worker::prepare(&mut |call| first.apply(call))?;
    first.digest()?;
    let (digests, over) = (first.digests(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        // The daemon's digest thread.
        scope.spawn(|| {
            while !over.load(Ordering::Acquire) {
                digests();
                std::thread::yield_now();
            }
        });
        let work = |lane| {
            let mut world = first.another()?;
            let (ledger, made) = (ledger.clone(), calls(seed, lane, Doors::Run).take(count));
            Ok(scope
                .spawn(move || worker::work(made, &ledger, (lane, Door::Run), &mut |call| world.apply(call))))
        };
        let working: Vec<_> = (0..sessions).map(work).collect::<Result<_, String>>()?;
        let worked = working.into_iter().map(|working| match working.join() {
            Ok(worked) => worked,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        let worked = worked.collect::<Vec<Result<(), String>>>();
        over.store(true, Ordering::Release);
        worked.into_iter().collect::<Result<(), String>>()
    })?;
    let mut last = first.another()?;
    worker::work(calls::looks().into_iter(), &ledger, (sessions, Door::Run), &mut |call| last.apply(call))?;
    History::collect(&ledger, seed, Doors::Run, &vec![None; sessions])
        .map_err(|incomplete| incomplete.to_string())
}
