//! A client dies, at every instant at which its process can, while the daemon and another client live on.
//!
//! The client that dies is a thread that stops behind some store, flush or fence of its own, and goes on only when all is
//! over; never while it is in the daemon, which does not die with it. The daemon ends its session, as when a socket closes;
//! or it learns of the death too late, and takes from the dead what the other asks for.
//! What shows then is what some number of its calls leave, all that were acknowledged among them. The other client keeps
//! its open files, even if the dead one took their names; it goes on, and once it has closed everything no inode without a name is left,
//! nor a block that no file has.

use crate::explorer::crashes::store::{Prepared, Step, WorkloadFailure, prepare, take};
use crate::explorer::{Coverage, acknowledged, issued};
use crate::model::Model;
use crate::operations::operation::{Operation, Slot};
use crate::operations::tree::Tree;
use crate::world::{self, World, in_daemon};
use cuesta_format::SessionId;
use cuesta_media::recorder::{self, Recorder};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// A client that makes no progress for so long never will.
const STUCK_AFTER: Duration = Duration::from_secs(60);

/// A client that dies and one that does not.
#[derive(Clone, Debug, Default)]
pub struct Death {
    /// What both did before.
    pub setup: Vec<Step>,
    /// Which of them dies: 0 or 1.
    pub dies: usize,
    /// The first slot of the one that lives, and the first that is not its own.
    pub kept: (Slot, Slot),
    /// The calls it dies in.
    pub calls: Vec<Operation>,
    /// The calls of the other client after that.
    pub then: Vec<Operation>,
    /// The daemon learns of the death only when the other has done that, and fences the dead client.
    pub unnoticed: bool,
}

/// A message of the client that is to die.
pub(in crate::explorer) enum Told {
    Issued,
    Acknowledged,
    /// It stands where it dies.
    Stands,
    /// It came to its end alive.
    Ended,
}

/// How far it came.
pub(in crate::explorer) struct Reached {
    issued: usize,
    acknowledged: usize,
    pub(in crate::explorer) died: bool,
}

/// Dies at every instant.
pub fn crash(death: &Death) -> Result<Coverage, WorkloadFailure> {
    let mut coverage = Coverage::default();
    for events in 1.. {
        let died = die_behind(death, events)
            .map_err(|reason| WorkloadFailure::Run(format!("behind event {events}: {reason}")))?;
        coverage.states += 1;
        coverage.states_distinct += 1;
        if !died {
            break;
        }
    }
    Ok(coverage)
}

/// Says whether it died: it may have come to its end before.
fn die_behind(death: &Death, events: u64) -> Result<bool, String> {
    let Prepared { directory, mut worlds, model } = prepare(&death.setup, 2)?;
    let mut victim = worlds[death.dies].take().ok_or("it is gone before")?;
    let (tells, told) = channel();
    let (lets_go, waits) = channel();
    let recorder = Recorder::install(&[directory.path()]).map_err(|error| error.to_string())?;
    let outcome = std::thread::scope(|scope| {
        let session = victim.session();
        let victim = &mut victim;
        scope.spawn(move || live(victim, &death.calls, events, &tells, waits));
        let outcome = follow(&told).and_then(|reached| {
            if reached.died && !death.unnoticed {
                worlds[1 - death.dies].as_ref().ok_or("it is gone before")?.end(session)?;
            }
            survive(death, session, &mut worlds, model, &reached)?;
            Ok(reached.died)
        });
        drop(lets_go);
        outcome
    });
    drop((recorder, victim, worlds));
    let died = outcome?;
    world::fsck(directory.path())?;
    Ok(died)
}

/// The life of the client that dies.
pub(in crate::explorer) fn live(
    world: &mut World,
    calls: &[Operation],
    events: u64,
    tells: &Sender<Told>,
    waits: Receiver<()>,
) {
    let mut left = events;
    let stands = tells.clone();
    let is_dead = Rc::new(Cell::new(false));
    let dies = Rc::clone(&is_dead);
    recorder::follow_each_event(Some(Box::new(move || {
        if in_daemon() || left == 0 {
            return;
        }
        left -= 1;
        if left == 0 {
            dies.set(true);
            // The receiver is gone if all has failed already; and it waits until all senders are gone.
            let _ = stands.send(Told::Stands);
            let _ = waits.recv();
        }
    })));
    // By then the recorder may be another run's.
    let mark = |mark: fn(u64)| {
        if !is_dead.get() {
            mark(0);
        }
    };
    for call in calls {
        mark(issued);
        let _ = tells.send(Told::Issued);
        // The model says what it must have done; after its death the answer is not used.
        let _ = world.apply(call);
        let _ = tells.send(Told::Acknowledged);
        mark(acknowledged);
    }
    recorder::follow_each_event(None);
    let _ = tells.send(Told::Ended);
}

/// Waits until it dies or ends.
pub(in crate::explorer) fn follow(told: &Receiver<Told>) -> Result<Reached, String> {
    let mut reached = Reached { issued: 0, acknowledged: 0, died: false };
    loop {
        match told.recv_timeout(STUCK_AFTER) {
            Ok(Told::Issued) => reached.issued += 1,
            Ok(Told::Acknowledged) => reached.acknowledged += 1,
            Ok(Told::Stands) => return Ok(Reached { died: true, ..reached }),
            Ok(Told::Ended) => return Ok(reached),
            Err(RecvTimeoutError::Timeout) => return Err("the client does not get on".to_owned()),
            Err(RecvTimeoutError::Disconnected) => return Err("the client panicked".to_owned()),
        }
    }
}

/// The other client goes on.
fn survive(
    death: &Death,
    dead: SessionId,
    worlds: &mut [Option<World>],
    mut model: Model,
    reached: &Reached,
) -> Result<(), String> {
    let mut models = Vec::new();
    for (number, call) in std::iter::once(None).chain(death.calls.iter().map(Some)).enumerate() {
        if let Some(call) = call {
            // Another test checks its answer.
            let _ = model.apply(call);
        }
        if (reached.acknowledged..=reached.issued).contains(&number) {
            models.push(model.clone());
        }
    }
    let (first, end) = death.kept;
    let other = 1 - death.dies;
    let survivor = worlds[other].as_ref().ok_or("it is gone before")?;
    // Times of mapped files are the kernel's.
    let maps = death.setup.iter().any(Step::is_of_mappings);
    let timed = |tree: Tree| if maps { tree.without_times() } else { tree };
    let found = timed(survivor.tree_and_open_files()?);
    let mut differences = Vec::new();
    let mut went_on = None;
    for mut model in models {
        if reached.died {
            model.keep_open(|slot| (first..end).contains(&slot));
        }
        let mut seen = model.clone();
        seen.keep_open(|slot| (first..end).contains(&slot));
        match found.differences(&timed(Tree::with_open_files(&seen))) {
            none if none.is_empty() => went_on = Some(model),
            some => differences.push(some.join("; ")),
        }
    }
    let mut model = went_on.ok_or_else(|| differences.join(" or "))?;
    for call in &death.then {
        take(&Step::Call(other, call.clone()), worlds, &mut model)?;
    }
    let survivor = worlds[other].as_mut().ok_or("it is gone before")?;
    let seen = timed(survivor.tree_and_open_files()?);
    let mut closed = model.clone();
    closed.keep_open(|slot| (first..end).contains(&slot));
    match seen.differences(&timed(Tree::with_open_files(&closed))) {
        none if none.is_empty() => {}
        some => return Err(format!("when the other has gone on: {}", some.join("; "))),
    }
    if reached.died && death.unnoticed {
        survivor.end(dead)?;
    }
    survivor.close_all()?;
    survivor.digest()?;
    if reached.died {
        let (found, expected) = (survivor.inodes()?, {
            model.crash();
            model.inode_count()
        });
        if found != expected {
            return Err(format!("{found} inodes, expected {expected}"));
        }
        survivor.nothing_nameless()?;
    }
    Ok(())
}
