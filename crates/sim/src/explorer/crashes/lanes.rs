//! Crash exploration of calls that overlap: two threads of one client, or two clients, and perhaps a digest beside
//! them.
//!
//! Each lane is a thread that makes its calls one after the other. A seeded schedule holds a lane back after some of
//! the stores, flushes and fences it makes, until others have made some of theirs: so entries are reserved in one
//! order and filled in another, leases change hands in the middle of calls, and an entry that one thread finished waits for
//! one that another began. A lane the others wait for is held back for a moment only; so the schedule of a seed is much
//! the same each time, and not exactly.
//!
//! A crash may leave the result of any sequence of calls that has of each lane everything acknowledged and
//! perhaps the call in flight, keeps the order of calls of which one had returned before the other was issued, and
//! in which each call that had returned answers as it did. A call in flight may yet be fenced and made again
//! with another answer: so its answer says nothing of the state behind a crash.

use crate::explorer::crashes::store::{
    Prepared, Step, WorkloadFailure, accounted, crashed, explored, is_one_of, prepare, recover,
};
use crate::explorer::subject::advance;
use crate::explorer::{Bounds, Coverage, Memory, Progress, Subject, acknowledged, issued};
use crate::model::Model;
use crate::operations::operation::{Operation, Outcome, answers_agree};
use crate::operations::random::Random;
use crate::operations::tree::Tree;
use crate::world::World;
use cuesta_media::recorder::{self, Event, Recorder, Recording};
use rustix::io::Errno;
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

/// How long a lane is held back for others that do not get on: they wait for it.
const PATIENCE: Duration = Duration::from_millis(1);
/// A lane is held back after one in so many events.
const HELD_ONE_IN: u64 = 3;
/// The most events it lets others make meanwhile.
const EVENTS_LET: u64 = 12;

/// The workload that is run and crashed.
#[derive(Clone, Debug, Default)]
pub struct Overlapping {
    /// Steps before recording starts.
    pub setup: Vec<Step>,
    /// The calls of each lane.
    pub lanes: Vec<Vec<Operation>>,
    /// Each lane is a client of its own; else all are threads of one.
    pub clients: bool,
    /// A further thread digests meanwhile.
    pub digests: bool,
}

type Answer = Result<Outcome, Errno>;

/// The lanes' common clock.
struct Schedule {
    /// Events each lane has made; `u64::MAX` once it is done.
    events: Vec<AtomicU64>,
    /// All begin together.
    start: Barrier,
}

impl Schedule {
    fn new(lanes: usize) -> Arc<Schedule> {
        let events = (0..lanes).map(|_| AtomicU64::new(0)).collect();
        Arc::new(Schedule { events, start: Barrier::new(lanes) })
    }

    /// Joins the calling thread as `lane`, held back now and then as `random` has it.
    fn join(self: &Arc<Schedule>, lane: usize, mut random: Random) {
        let schedule = Arc::clone(self);
        recorder::follow_each_event(Some(Box::new(move || {
            schedule.events[lane].fetch_add(1, Ordering::AcqRel);
            if random.one_in(HELD_ONE_IN) {
                schedule.hold(lane, 1 + random.below(EVENTS_LET));
            }
        })));
        self.start.wait();
    }

    /// Lets another lane make `let_pass` events, if it gets on.
    fn hold(&self, lane: usize, let_pass: u64) {
        let others = || self.events.iter().enumerate().filter(|(other, _)| *other != lane);
        let goals: Vec<u64> =
            others().map(|(_, events)| events.load(Ordering::Acquire).saturating_add(let_pass)).collect();
        let reached = || {
            let mut both = others().zip(&goals);
            both.any(|((_, events), goal)| events.load(Ordering::Acquire) >= *goal)
        };
        let patience = Instant::now() + PATIENCE;
        while !reached() && Instant::now() < patience {
            std::thread::yield_now();
        }
    }

    fn leave(&self, lane: usize) {
        recorder::follow_each_event(None);
        self.events[lane].store(u64::MAX, Ordering::Release);
    }
}

/// Runs `workload` on a new small store and crashes it.
pub fn crash(
    workload: &Overlapping,
    memory: &mut Memory<Tree>,
    bounds: &Bounds,
    seed: u64,
) -> Result<Coverage, WorkloadFailure> {
    let prepared = prepare(&workload.setup, 1).map_err(WorkloadFailure::Run)?;
    let Prepared { directory, mut worlds, model } = prepared;
    let Some(Some(mut world)) = worlds.pop() else {
        return Err(WorkloadFailure::Run("the first client is gone".to_owned()));
    };
    let root = directory.path();
    let mut others = Vec::new();
    for lane in 1..workload.lanes.len() {
        let mut other = match workload.clients {
            true => world.another().map_err(WorkloadFailure::Run)?,
            false => world.thread(),
        };
        other.take_slots(&mut world, &slots_of(lane)).map_err(WorkloadFailure::Run)?;
        others.push(other);
    }
    let recorder = Recorder::install(&[root]).map_err(|error| WorkloadFailure::Run(error.to_string()))?;
    let answers = run(workload, &mut world, &mut others, seed);
    let recording = recorder.take();
    accounted(&recording, root)?;
    drop((world, others));
    let before = before(&recording, &workload.lanes);
    let mut subject = OverlappingSubject { model, workload, answers, before, allowed: RefCell::default() };
    let done =
        |calls: &Vec<Operation>| Progress { acknowledged: calls.len() as u64, issued: calls.len() as u64 };
    let done: Vec<Progress> = workload.lanes.iter().map(done).collect();
    if subject.allowed(&done).is_empty() {
        let shown: Vec<_> = workload.lanes.iter().zip(&subject.answers).collect();
        return Err(WorkloadFailure::Run(format!("no sequence of the calls answers so: {shown:?}")));
    }
    explored(recording, root, &mut subject, memory, bounds, seed)
}

/// The slots that are a lane's to use: four each.
fn slots_of(lane: usize) -> std::ops::Range<u8> {
    4 * lane as u8..4 * (lane as u8 + 1)
}

/// Makes the calls; what each lane's answered.
fn run(workload: &Overlapping, first: &mut World, others: &mut [World], seed: u64) -> Vec<Vec<Answer>> {
    let threads = workload.lanes.len() + usize::from(workload.digests);
    let schedule = Schedule::new(threads);
    let digests = first.digests();
    let over = AtomicBool::new(false);
    let mut chance = Random::new(seed);
    std::thread::scope(|scope| {
        let mut lanes = Vec::new();
        for (lane, world) in std::iter::once(first).chain(others).enumerate() {
            let (schedule, random, calls) = (&schedule, Random::new(chance.next()), &workload.lanes[lane]);
            lanes.push(scope.spawn(move || {
                schedule.join(lane, random);
                let answers = calls.iter().map(|call| {
                    issued(lane as u64);
                    let answer = world.apply(call);
                    acknowledged(lane as u64);
                    answer
                });
                let answers: Vec<Answer> = answers.collect();
                schedule.leave(lane);
                answers
            }));
        }
        if workload.digests {
            let (schedule, random, over) = (&schedule, Random::new(chance.next()), &over);
            scope.spawn(move || {
                schedule.join(threads - 1, random);
                while !over.load(Ordering::Acquire) {
                    digests();
                    std::thread::yield_now();
                }
                schedule.leave(threads - 1);
            });
        }
        let answers = lanes.into_iter().map(|lane| match lane.join() {
            Ok(answers) => answers,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        let answers = answers.collect();
        over.store(true, Ordering::Release);
        answers
    })
}

/// For each call of each lane, how many calls of every lane had returned before it was issued.
fn before(recording: &Recording, lanes: &[Vec<Operation>]) -> Vec<Vec<Vec<usize>>> {
    let mut progress = vec![Progress::default(); lanes.len()];
    let mut before = vec![Vec::new(); lanes.len()];
    for recorded in &recording.events {
        let Event::Mark(mark) = recorded.event else { continue };
        if mark % 2 == 0 {
            let returned = progress.iter().map(|lane| lane.acknowledged as usize);
            before[(mark / 2) as usize].push(returned.collect());
        }
        advance(&mut progress, mark);
    }
    before
}

/// A tree, and of how many calls of each lane.
type Allowed = (Vec<usize>, Tree);

/// The states that the store may show when the lanes had come so far.
struct OverlappingSubject<'a> {
    model: Model,
    workload: &'a Overlapping,
    answers: Vec<Vec<Answer>>,
    before: Vec<Vec<Vec<usize>>>,
    allowed: RefCell<BTreeMap<Vec<Progress>, Rc<[Allowed]>>>,
}

impl OverlappingSubject<'_> {
    /// The states that a crash may leave, from the cache or computed now.
    fn allowed(&self, progress: &[Progress]) -> Rc<[Allowed]> {
        let mut known = self.allowed.borrow_mut();
        let entry = known.entry(progress.to_vec());
        entry.or_insert_with(|| self.find_allowed(progress).into()).clone()
    }

    fn find_allowed(&self, progress: &[Progress]) -> Vec<Allowed> {
        let lanes = &self.workload.lanes;
        let mut states = BTreeMap::from([(vec![0; lanes.len()], vec![self.model.clone()])]);
        let mut allowed: Vec<Allowed> = Vec::new();
        // A map in order of its keys: no step leads back.
        while let Some((counts, models)) = states.pop_first() {
            for (lane, calls) in lanes.iter().enumerate() {
                let count = counts[lane];
                let overtakes =
                    |before: &Vec<usize>| before.iter().zip(&counts).any(|(returned, at)| returned > at);
                if count as u64 >= progress[lane].issued || overtakes(&self.before[lane][count]) {
                    continue;
                }
                let returned = (count as u64) < progress[lane].acknowledged;
                let mut next = counts.clone();
                next[lane] += 1;
                for model in &models {
                    let mut model = model.clone();
                    let answer = model.apply(&calls[count]);
                    if !returned || answers_agree(&self.answers[lane][count], &answer) {
                        states.entry(next.clone()).or_default().push(model);
                    }
                }
            }
            if counts.iter().zip(progress).all(|(count, lane)| *count as u64 >= lane.acknowledged) {
                for tree in models.iter().map(crashed) {
                    if !allowed.iter().any(|(_, known)| *known == tree) {
                        allowed.push((counts.clone(), tree));
                    }
                }
            }
        }
        allowed
    }
}

impl Subject for OverlappingSubject<'_> {
    type RecoveredState = Tree;

    fn lanes(&self) -> usize {
        self.workload.lanes.len()
    }

    fn reads_are_seen(&self) -> bool {
        true
    }

    fn recover(&mut self, directory: &Path) -> Result<Tree, String> {
        recover(directory, &[])
    }

    fn judge(&self, found: &Tree, progress: &[Progress]) -> Result<(), String> {
        let allowed = self.allowed(progress);
        is_one_of(
            found,
            allowed.iter().map(|(counts, tree)| (format!("{counts:?} operations"), Cow::Borrowed(tree))),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operations::operation::PathText;

    fn mkdir(path: &str) -> Operation {
        Operation::Mkdir { path: PathText::from(path), mode: 0o755 }
    }

    /// How many trees a crash may leave of `/a`, `/a/b` on one lane and `/a/c` on another.
    fn count(answers: [Vec<Answer>; 2], before: [Vec<Vec<usize>>; 2], progress: [(u64, u64); 2]) -> usize {
        let lanes = vec![vec![mkdir("/a"), mkdir("/a/b")], vec![mkdir("/a/c")]];
        let subject = OverlappingSubject {
            model: Model::new(),
            workload: &Overlapping { lanes, ..Overlapping::default() },
            answers: answers.into(),
            before: before.into(),
            allowed: RefCell::default(),
        };
        subject.allowed(&progress.map(|(acknowledged, issued)| Progress { acknowledged, issued })).len()
    }

    #[test]
    fn calls_that_overlap_come_in_any_order_their_answers_allow() {
        let done = || Ok(Outcome::Done);
        let all = || [vec![done(), done()], vec![done()]];
        let refused = || [vec![done(), done()], vec![Err(Errno::NOENT)]];
        let free = || [vec![vec![0, 0], vec![1, 0]], vec![vec![0, 0]]];
        let late = || [vec![vec![0, 0], vec![1, 0]], vec![vec![1, 0]]];
        assert_eq!(count(all(), free(), [(2, 2), (1, 1)]), 1);
        assert_eq!(count(all(), free(), [(0, 0), (1, 1)]), 0, "it answered that it had a directory to be in");
        assert_eq!(count(refused(), free(), [(2, 2), (1, 1)]), 1);
        assert_eq!(
            count(refused(), late(), [(2, 2), (1, 1)]),
            0,
            "when it was issued the directory was there"
        );
        assert_eq!(count(refused(), late(), [(2, 2), (0, 1)]), 2, "until it has answered anything may be");
        assert_eq!(count(all(), free(), [(0, 1), (0, 1)]), 3, "nothing, the first, both");
    }
}
