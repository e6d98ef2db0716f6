//! Is there an order of these calls, each at one instant between its beginning and its end, in which the reference
//! model gives the same answers?
//!
//! The search is Wing and Gong's, with Lowe's memory of what was tried: calls are put in order one after the other, any
//! one before whose end no other must come; where none fits, the last one is taken back. What decides about the rest
//! is which calls are in order already and what the model holds then: no such pair is tried twice.
//!
//! A call that was killed with its process has no answer, and took effect before the process was seen dead, or
//! never. A call that can change nothing and fits is never taken back: whatever order there is, it fits there, too. (One
//! that happens to change nothing here, as cutting a file to the size it has, may be needed later.)
//!
//! No crate does this: `stateright`'s tester remembers nothing of what it tried, so that a history of some hundred
//! calls that is wrong keeps it busy for ever, and the others know no call that may not have happened.

use super::answer::Answer;
use super::ledger::Instant;
use super::past::Past;
use crate::model::Model;
use crate::operations::operation::{Operation, PathText};
use crate::operations::random::Random;
use crate::operations::tree::Tree;
use std::collections::HashSet;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Calls shown of the order that came farthest.
const SHOWN: usize = 16;

/// Why a history was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum Violation {
    /// There is no such order.
    #[error("no order of the calls answers so.\n{0}")]
    NoOrder(Farthest),
    /// The search was given up.
    #[error("no order was found in {steps} steps.\n{farthest}")]
    GivenUp {
        /// How long it was.
        steps: u64,
        /// How far it came.
        farthest: Farthest,
    },
}

/// The longest part of the history that could be put in order.
#[derive(Debug)]
pub struct Farthest {
    /// Calls that were put in order, and how many there are.
    pub ordered: usize,
    /// All calls of the history.
    pub calls: usize,
    lines: Vec<String>,
}

impl fmt::Display for Farthest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            formatter,
            "{} of {} calls could be put in order, the last ones:",
            self.ordered, self.calls
        )?;
        self.lines.iter().try_for_each(|line| writeln!(formatter, "  {line}"))
    }
}

/// Checks the history of one place. Gives up after so many steps.
pub fn check(initial: &Model, history: &[Past], steps_max: u64) -> Result<(), Violation> {
    Search::new(initial, history).run(steps_max)
}

/// What becomes of a call that is put in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Done,
    /// It never took effect.
    Dropped,
    /// It found nothing to do where it had to do something.
    MovedNothing,
}

impl Fate {
    fn of(past: &Past) -> &'static [Fate] {
        match past.answer {
            Some(_) if past.may_have_moved_nothing().is_some() => &[Fate::Done, Fate::MovedNothing],
            Some(_) => &[Fate::Done],
            None => &[Fate::Done, Fate::Dropped],
        }
    }
}

/// What happened, in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Begin(usize),
    End(usize),
}

/// The model at some point of the order.
#[derive(Clone)]
struct Point {
    model: Model,
    /// Of all the model shows.
    identity: u64,
    /// Of the calls that are in order.
    ordered: u64,
}

impl Point {
    fn has(&mut self, path: Option<&PathText>) -> bool {
        path.is_some_and(|path| self.model.apply(&Operation::Lstat { path: path.clone() }).is_ok())
    }
}

/// A call that was put in order.
struct Placed {
    call: usize,
    fates_tried: usize,
    before: Point,
    /// Nothing else in its place could lead farther.
    is_certain: bool,
}

struct Search<'a> {
    history: &'a [Past],
    events: Vec<Event>,
    /// Events of calls that are not in order yet, as a ring; the last place stands for its head.
    next: Vec<usize>,
    previous: Vec<usize>,
    begins: Vec<usize>,
    ends: Vec<usize>,
    /// A number for each call: those of calls in order are combined to one.
    marks: Vec<u64>,
    point: Point,
    placed: Vec<Placed>,
    tried: HashSet<(u64, u64)>,
    farthest: Vec<usize>,
    stuck_at: Option<usize>,
}

impl<'a> Search<'a> {
    fn new(initial: &Model, history: &'a [Past]) -> Search<'a> {
        let mut events: Vec<Event> =
            (0..history.len()).flat_map(|call| [Event::Begin(call), Event::End(call)]).collect();
        // Of what happened in the same nanosecond nothing came first.
        events.sort_by_key(|event| match event {
            Event::Begin(call) => (history[*call].begun, false),
            Event::End(call) => (history[*call].ended.max(history[*call].begun), true),
        });
        let (mut begins, mut ends) = (vec![0; history.len()], vec![0; history.len()]);
        for (place, event) in events.iter().enumerate() {
            match event {
                Event::Begin(call) => begins[*call] = place,
                Event::End(call) => ends[*call] = place,
            }
        }
        let head = events.len();
        let mut random = Random::new(head as u64);
        Search {
            history,
            next: (1..=head).chain([0]).collect(),
            previous: [head].into_iter().chain(0..head).collect(),
            events,
            begins,
            ends,
            marks: history.iter().map(|_| random.next()).collect(),
            point: Point { model: initial.clone(), identity: identity(initial), ordered: 0 },
            placed: Vec::new(),
            tried: HashSet::new(),
            farthest: Vec::new(),
            stuck_at: None,
        }
    }

    fn run(mut self, steps_max: u64) -> Result<(), Violation> {
        let head = self.events.len();
        let (mut at, mut fates_tried) = (self.next[head], 0);
        for _ in 0..steps_max {
            if at == head {
                return Ok(());
            }
            let placed = match self.events[at] {
                Event::Begin(call) => self.place(call, fates_tried),
                Event::End(call) => {
                    self.note_stuck(call);
                    let Some(undone) = self.take_back() else {
                        return Err(Violation::NoOrder(self.farthest()));
                    };
                    (at, fates_tried) = (self.begins[undone.call], undone.fates_tried);
                    continue;
                }
            };
            fates_tried = 0;
            at = if placed { self.next[head] } else { self.next[at] };
        }
        Err(Violation::GivenUp { steps: steps_max, farthest: self.farthest() })
    }

    /// Puts the call in order next, if it fits in a way that was not tried.
    fn place(&mut self, call: usize, fates_tried: usize) -> bool {
        let past = &self.history[call];
        for (number, fate) in Fate::of(past).iter().enumerate().skip(fates_tried) {
            let mut after = self.point.clone();
            after.ordered ^= self.marks[call];
            if *fate == Fate::Done {
                let outcome = after.model.apply(&past.operation);
                if past.answer.is_some_and(|answer| answer != Answer::of(&outcome)) {
                    continue;
                }
                after.identity = identity(&after.model);
            }
            if *fate == Fate::MovedNothing && !after.has(past.may_have_moved_nothing()) {
                continue;
            }
            if !self.tried.insert((after.ordered, after.identity)) {
                continue;
            }
            let is_certain = past.changes_nothing();
            let before = std::mem::replace(&mut self.point, after);
            self.placed.push(Placed { call, fates_tried: number + 1, before, is_certain });
            self.unlink(self.begins[call]);
            self.unlink(self.ends[call]);
            return true;
        }
        false
    }

    /// Takes back the last call in whose place another might lead farther.
    fn take_back(&mut self) -> Option<Placed> {
        loop {
            let mut placed = self.placed.pop()?;
            self.link(self.ends[placed.call]);
            self.link(self.begins[placed.call]);
            std::mem::swap(&mut self.point, &mut placed.before);
            if !placed.is_certain {
                return Some(placed);
            }
        }
    }

    fn unlink(&mut self, event: usize) {
        let (previous, next) = (self.previous[event], self.next[event]);
        (self.next[previous], self.previous[next]) = (next, previous);
    }

    /// Undoes the last `unlink`.
    fn link(&mut self, event: usize) {
        let (previous, next) = (self.previous[event], self.next[event]);
        (self.next[previous], self.previous[next]) = (event, event);
    }

    fn note_stuck(&mut self, call: usize) {
        if self.stuck_at.is_none() || self.placed.len() > self.farthest.len() {
            self.farthest = self.placed.iter().map(|placed| placed.call).collect();
            self.stuck_at = Some(call);
        }
    }

    fn farthest(&self) -> Farthest {
        let line = |call: usize| line(&self.history[call]);
        let ordered = &self.farthest;
        let mut lines: Vec<String> = Vec::new();
        lines.extend(ordered[ordered.len().saturating_sub(SHOWN)..].iter().map(|call| line(*call)));
        if let Some(stuck) = self.stuck_at {
            let in_order: HashSet<usize> = ordered.iter().copied().collect();
            let ended = self.history[stuck].ended;
            lines.push(format!("this one fits nowhere before its end: {}", line(stuck)));
            let open = (0..self.history.len()).filter(|call| !in_order.contains(call) && *call != stuck);
            let open = open.filter(|call| self.history[*call].begun <= ended).take(SHOWN);
            lines.extend(open.map(|call| format!("not in order yet: {}", line(call))));
        }
        Farthest { ordered: ordered.len(), calls: self.history.len(), lines }
    }
}

/// Of all a model shows, open files included.
fn identity(model: &Model) -> u64 {
    let mut hasher = DefaultHasher::new();
    Tree::with_open_files(model).hash(&mut hasher);
    hasher.finish()
}

fn line(past: &Past) -> String {
    let milliseconds = |at: Instant| at.0 as f64 / 1_000_000.0;
    let answer = if past.answer.is_some() { past.text.as_str() } else { "killed" };
    let head = match &past.operation {
        Operation::Write { data, .. } | Operation::Pwrite { data, .. } => {
            let bytes = data.bytes();
            let head: Vec<String> = bytes.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
            format!(" [{}]", head.concat())
        }
        _ => String::new(),
    };
    let (begun, ended) = (milliseconds(past.begun), milliseconds(past.ended));
    format!("{begun:.3} to {ended:.3} ms, process {}: {:?}{head} → {answer}", past.lane, past.operation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linearizability::answer::text;
    use crate::linearizability::calls::{calls, initial};
    use crate::operations::operation::{Kind, Outcome, Pattern};
    use crate::programs::doors::{Door, Doors};
    use rustix::io::Errno;

    type Outcomes = Result<Outcome, Errno>;

    const STEPS_MAX: u64 = 100_000;
    /// A place with a file in it, which is open in slot 0 and, for appending, in slot 1.
    const FILE: usize = 0;
    const NAMES: usize = 4;
    const ONE: Pattern = Pattern { seed: 1, length: 3 };
    const OTHER: Pattern = Pattern { seed: 2, length: 3 };
    const WRITTEN: Outcomes = Ok(Outcome::Written(3));

    fn call(
        lane: usize,
        times: std::ops::Range<u64>,
        operation: Operation,
        answer: Option<Outcomes>,
    ) -> Past {
        let (begun, ended) = (Instant(times.start), Instant(times.end));
        let text = answer.as_ref().map(text).unwrap_or_default();
        let answer = answer.as_ref().map(Answer::of);
        Past { lane, door: Door::Run, operation, begun, ended, answer, text }
    }

    fn write(data: Pattern) -> Operation {
        Operation::Pwrite { slot: 0, offset: 0, data }
    }

    fn append(data: Pattern) -> Operation {
        Operation::Write { slot: 1, data }
    }

    fn read(lane: usize, times: std::ops::Range<u64>, parts: &[Pattern]) -> Past {
        let bytes = parts.iter().flat_map(Pattern::bytes).collect();
        let operation = Operation::Pread { slot: 0, offset: 0, length: 100 };
        call(lane, times, operation, Some(Ok(Outcome::Bytes(bytes))))
    }

    fn is_accepted(place: usize, history: &[Past]) -> bool {
        match check(&initial(place), history, STEPS_MAX) {
            Ok(()) => true,
            Err(Violation::NoOrder(_)) => false,
            Err(given_up) => panic!("{given_up}"),
        }
    }

    #[test]
    fn calls_at_once_may_take_effect_in_either_order_and_others_in_theirs() {
        let writes = [call(0, 0..10, write(ONE), Some(WRITTEN)), call(1, 5..15, write(OTHER), Some(WRITTEN))];
        for last in [ONE, OTHER] {
            let history = [&writes[..], &[read(2, 20..30, &[last])]].concat();
            assert!(is_accepted(FILE, &history));
        }
        let after = call(1, 11..15, write(OTHER), Some(WRITTEN));
        let history = [writes[0].clone(), after, read(2, 20..30, &[ONE])];
        assert!(!is_accepted(FILE, &history), "the second write came after the first");
    }

    #[test]
    fn a_stale_read_is_found() {
        let history = [
            call(0, 0..10, write(ONE), Some(WRITTEN)),
            call(0, 20..30, write(OTHER), Some(WRITTEN)),
            read(1, 31..40, &[ONE]),
        ];
        assert!(!is_accepted(FILE, &history));
        let mut at_once = history;
        at_once[2].begun = Instant(29);
        assert!(is_accepted(FILE, &at_once));
    }

    #[test]
    fn a_value_that_was_seen_is_not_older_later() {
        let writing = call(0, 0..100, write(ONE), Some(WRITTEN));
        let back_and_forth = [writing.clone(), read(1, 10..20, &[ONE]), read(2, 30..40, &[])];
        assert!(!is_accepted(FILE, &back_and_forth));
        assert!(is_accepted(FILE, &[writing, read(1, 10..20, &[]), read(2, 30..40, &[ONE])]));
    }

    #[test]
    fn a_lost_update_is_found() {
        let appends =
            [call(0, 0..10, append(ONE), Some(WRITTEN)), call(1, 5..15, append(OTHER), Some(WRITTEN))];
        let with = |parts| [&appends[..], &[read(2, 20..30, parts)]].concat();
        assert!(is_accepted(FILE, &with(&[ONE, OTHER])) && is_accepted(FILE, &with(&[OTHER, ONE])));
        assert!(!is_accepted(FILE, &with(&[OTHER])) && !is_accepted(FILE, &with(&[ONE])));
    }

    #[test]
    fn a_torn_write_is_found() {
        let data = Pattern { seed: 3, length: 8 };
        let torn = data.bytes()[..4].to_vec();
        let read = Operation::Pread { slot: 0, offset: 0, length: 100 };
        let history = [
            call(0, 0..10, write(data), Some(Ok(Outcome::Written(8)))),
            call(1, 5..15, read, Some(Ok(Outcome::Bytes(torn)))),
        ];
        assert!(!is_accepted(FILE, &history));
    }

    /// Here the truncation changes nothing, and later it makes the file longer.
    #[test]
    fn a_change_that_changes_nothing_may_come_later() {
        let cut = |lane, times, length| {
            call(lane, times, Operation::Ftruncate { slot: 0, length }, Some(Ok(Outcome::Done)))
        };
        let append = call(2, 30..40, append(ONE), Some(WRITTEN));
        let zeros = Operation::Pread { slot: 0, offset: 0, length: 9 };
        let answer = [vec![0; 9], ONE.bytes()].concat()[..9].to_vec();
        let read = call(2, 50..60, zeros, Some(Ok(Outcome::Bytes(answer))));
        assert!(is_accepted(FILE, &[cut(0, 0..5, 9), cut(0, 10..25, 9), cut(1, 12..20, 2), append, read]));
    }

    #[test]
    fn a_killed_call_happened_before_its_process_was_seen_dead_or_never() {
        let killed = call(0, 0..10, append(ONE), None);
        let seen =
            |parts| is_accepted(FILE, &[killed.clone(), read(1, 20..30, parts), read(1, 40..50, parts)]);
        assert!(seen(&[ONE]) && seen(&[]));
        assert!(!seen(&[ONE, ONE]));
        let late = [killed.clone(), read(1, 20..30, &[]), read(1, 40..50, &[ONE])];
        assert!(!is_accepted(FILE, &late), "the dead do not write");
    }

    #[test]
    fn a_rename_is_never_seen_half_done() {
        let make = |lane, times, path: &str| {
            let operation =
                Operation::MakeNode { path: path.into(), kind: Kind::File, mode: 0o600, device: 0 };
            call(lane, times, operation, Some(Ok(Outcome::Done)))
        };
        let rename = Operation::Rename { from: "/a/x".into(), to: "/b/y".into() };
        let rename = call(0, 10..100, rename, Some(Ok(Outcome::Done)));
        let missing = |times, path: &str| {
            call(1, times, Operation::Stat { path: path.into() }, Some(Err(Errno::NOENT)))
        };
        let made = make(0, 0..5, "/a/x");
        let gone_and_not_there =
            [made.clone(), rename.clone(), missing(20..30, "/a/x"), missing(40..50, "/b/y")];
        assert!(!is_accepted(NAMES, &gone_and_not_there));
        let in_time = [made, rename, missing(20..30, "/b/y"), missing(40..50, "/a/x")];
        assert!(is_accepted(NAMES, &in_time));
    }

    #[test]
    fn by_a_mount_a_file_that_another_moves_may_be_found_moved() {
        let node = Operation::MakeNode { path: "/a/x".into(), kind: Kind::File, mode: 0o600, device: 0 };
        let made = call(0, 0..5, node.clone(), Some(Ok(Outcome::Done)));
        let moved = |lane, times, door| {
            let operation = Operation::Rename { from: "/a/x".into(), to: "/b/x".into() };
            Past { door, ..call(lane, times, operation, Some(Ok(Outcome::Done))) }
        };
        let twice = |door, times| {
            is_accepted(NAMES, &[made.clone(), moved(0, 10..30, Door::Run), moved(1, times, door)])
        };
        assert!(twice(Door::Mount, 20..40));
        assert!(!twice(Door::Run, 20..40), "there, two names are looked up at one instant");
        let mut model = initial(NAMES);
        model.apply(&node).unwrap();
        let stat = Operation::Stat { path: "/a/x".into() };
        let still_there = call(0, 40..50, stat.clone(), Some(model.apply(&stat)));
        let lost = moved(1, 10..30, Door::Mount);
        assert!(!is_accepted(NAMES, &[made.clone(), lost, still_there]), "nobody has moved it");
    }

    /// A history of processes that take turns in the middle of their calls, as the model answers.
    fn at_random(place: usize, seed: u64, lanes: usize, count: usize) -> Vec<Past> {
        let mut random = Random::new(seed);
        let mut model = initial(place);
        let mut sources: Vec<_> = (0..lanes)
            .map(|lane| {
                calls(seed, lane, Doors::Run).filter(|call| call.place == place).map(|call| call.operation)
            })
            .collect();
        let mut free = vec![0; lanes];
        let mut history = Vec::new();
        for turn in 0..count as u64 {
            let now = 100 * (turn + 1);
            let lane = random.below(lanes as u64) as usize;
            let operation = sources[lane].next().expect("an endless source");
            let begun = Instant(now.saturating_sub(random.below(400)).max(free[lane]));
            let ended = Instant(now + random.below(400));
            free[lane] = ended.0 + 1;
            // Its instant comes behind those of all calls before it: it must still lie between beginning and end.
            let begun = Instant(begun.0.min(now));
            let answer = model.apply(&operation);
            let text = text(&answer);
            let (door, answer) = (Door::Run, Some(Answer::of(&answer)));
            history.push(Past { lane, door, operation, begun, ended, answer, text });
        }
        history
    }

    #[test]
    fn long_histories_are_accepted_and_a_wrong_answer_in_the_middle_is_found() {
        for (place, seed) in [(FILE, 1), (NAMES, 2), (3, 3)] {
            let mut history = at_random(place, seed, 5, 600);
            assert!(is_accepted(place, &history), "place {place}");
            let is_read = |past: &&mut Past| !past.operation.is_mutation();
            let wrong = history[300..].iter_mut().find(is_read).expect("somebody reads");
            wrong.answer = wrong.answer.map(|answer| Answer { hash: !answer.hash, ..answer });
            assert!(!is_accepted(place, &history), "place {place}");
        }
    }
}
