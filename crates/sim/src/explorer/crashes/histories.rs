//! What two sessions did, one operation after the other, and what of it a crash may leave (docs/semantics.md, Guarantees).
//!
//! | rule | here |
//! |---|---|
//! | what a session did survives as a prefix | a *cut* counts operations of each session |
//! | if B observed A's effect, A survives whenever B does | each operation *needs* a cut: its session's operations up to it, and what these have seen |
//! | what is durable is there | everything that an acknowledged operation needs, if it is durable when it returns or is a sync |
//!
//! An operation has *seen* every earlier change of what it touches: the content of a file, a name, the names of a directory. Two names
//! that are made in one directory do not see each other.

use crate::explorer::Progress;
use crate::explorer::crashes::store::crashed;
use crate::model::Model;
use crate::operations::operation::{Operation, PathText, Slot};
use crate::operations::tree::Tree;
use std::collections::BTreeMap;
use std::fmt;

/// How many sessions there are.
pub(in crate::explorer) const SESSIONS: usize = 2;

/// How many operations of each session.
type Cut = [usize; SESSIONS];

/// Where an operation is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Log {
    /// In the log of a session.
    Own(usize),
    /// In that of the session in the daemon.
    Service,
}

impl Log {
    fn index(self) -> usize {
        match self {
            Log::Own(session) => session,
            Log::Service => SESSIONS,
        }
    }
}

/// What an operation touches.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Object {
    Content(u64),
    Name(PathText),
    Names(Vec<u8>),
}

/// An operation that was done.
struct Done {
    session: usize,
    call: Operation,
    log: Log,
    needs: Cut,
}

/// The operations of both sessions.
pub(in crate::explorer) struct History {
    initial: Model,
    done: Vec<Done>,
    /// An operation is durable when it returns.
    durable_at_once: bool,
    /// What each session has done and seen.
    seen: [Cut; SESSIONS],
    /// The operations that the changes of an object need.
    changes: BTreeMap<Object, Cut>,
}

fn join(into: &mut Cut, other: Cut) {
    into.iter_mut().zip(other).for_each(|(count, other)| *count = (*count).max(other));
}

fn shown(model: &Model) -> Tree {
    crashed(model).without_times().without_owners()
}

/// The objects that the call sees, and those it changes.
fn touched(call: &Operation, before: &Model, after: &Model) -> (Vec<Object>, Vec<Object>) {
    use Operation::*;
    let content = |slot: &Slot| {
        let open = after.open_files().find(|(open, _)| open == slot);
        Object::Content(open.expect("the call was on an open file").1)
    };
    let folder_of = |path: &PathText| {
        let bytes = path.as_bytes();
        Object::Names(bytes[..bytes.iter().rposition(|byte| *byte == b'/').unwrap_or(0)].to_vec())
    };
    let names = |paths: &[&PathText]| {
        let seen: Vec<Object> = paths.iter().map(|path| Object::Name((*path).clone())).collect();
        let folders = paths.iter().map(|path| folder_of(path));
        (seen.clone(), seen.iter().cloned().chain(folders).collect())
    };
    match call {
        Open { path, .. } if before.inode_count() == after.inode_count() => {
            (vec![Object::Name(path.clone())], Vec::new())
        }
        Open { path, .. } | Mkdir { path, .. } | Unlink { path } => names(&[path]),
        Rename { from, to } => names(&[from, to]),
        Write { slot, .. } | Pwrite { slot, .. } => (vec![content(slot)], vec![content(slot)]),
        Pread { slot, .. } => (vec![content(slot)], Vec::new()),
        Fsync { .. } => (Vec::new(), Vec::new()),
        other => unreachable!("{other:?} is in no workload"),
    }
}

impl History {
    pub(in crate::explorer) fn new(initial: Model, durable_at_once: bool) -> History {
        let seen = [Cut::default(); SESSIONS];
        History { initial, done: Vec::new(), durable_at_once, seen, changes: BTreeMap::new() }
    }

    /// A call has returned, which led from one model to the other.
    pub(in crate::explorer) fn note(
        &mut self,
        session: usize,
        call: &Operation,
        log: Log,
        before: &Model,
        after: &Model,
    ) {
        let (sees, changes) = touched(call, before, after);
        let seen = &mut self.seen[session];
        seen[session] += 1;
        sees.iter().filter_map(|object| self.changes.get(object)).for_each(|needed| join(seen, *needed));
        let needs = *seen;
        changes.into_iter().for_each(|object| join(self.changes.entry(object).or_default(), needs));
        self.done.push(Done { session, call: call.clone(), log, needs });
    }

    /// Each operation with its number in its session, from 1.
    fn numbered(&self) -> impl Iterator<Item = (usize, &Done)> {
        self.done.iter().map(|done| (done.needs[done.session], done))
    }

    /// The operations that must have survived.
    fn durable(&self, progress: &[Progress]) -> Cut {
        let is_durable = |number: usize, done: &Done| {
            let is_sync = matches!(done.call, Operation::Fsync { .. });
            number as u64 <= progress[done.session].acknowledged && (self.durable_at_once || is_sync)
        };
        let durable = self.numbered().filter(|(number, done)| is_durable(*number, done));
        durable.fold(Cut::default(), |mut cut, (_, done)| {
            join(&mut cut, done.needs);
            cut
        })
    }

    /// The tree that the surviving operations leave.
    fn tree_of(&self, survivors: &[bool]) -> Tree {
        let mut model = self.initial.clone();
        for (done, _) in self.done.iter().zip(survivors).filter(|(_, survives)| **survives) {
            // One that lacks what it needs fails, in a tree that is not allowed.
            let _ = model.apply(&done.call);
        }
        shown(&model)
    }

    /// The trees that a crash may leave when the sessions had come so far.
    pub(in crate::explorer) fn allowed(&self, progress: &[Progress]) -> Vec<(String, Tree)> {
        let durable = self.durable(progress);
        let issued = |session: usize| progress[session].issued as usize;
        let cuts = (durable[0]..=issued(0)).flat_map(|a| (durable[1]..=issued(1)).map(move |b| [a, b]));
        let is_closed = |cut: &Cut| {
            let mut survivors = self.numbered().filter(|(number, done)| *number <= cut[done.session]);
            survivors.all(|(_, done)| done.needs.iter().zip(cut).all(|(needed, there)| needed <= there))
        };
        let allowed = cuts.filter(is_closed).map(|cut| {
            let survivors = self.numbered().map(|(number, done)| number <= cut[done.session]);
            (format!("{cut:?} operations"), self.tree_of(&survivors.collect::<Vec<_>>()))
        });
        allowed.collect()
    }

    /// Which rule is broken by `found`, if it is what the three logs leave that end somewhere.
    pub(in crate::explorer) fn what_is_broken(&self, found: &Tree, progress: &[Progress]) -> Option<String> {
        let mut lengths = [0; SESSIONS + 1];
        let mut places = Vec::new();
        for (number, done) in self.numbered() {
            let was_issued = number as u64 <= progress[done.session].issued;
            lengths[done.log.index()] += usize::from(was_issued);
            places.push((done.log.index(), was_issued.then_some(lengths[done.log.index()])));
        }
        let [a, b, service] = lengths;
        let ends = (0..=a).flat_map(|a| (0..=b).map(move |b| [a, b]));
        let mut ends = ends.flat_map(|[a, b]| (0..=service).map(move |service| [a, b, service]));
        ends.find_map(|ends| {
            let survivors = places.iter().map(|&(log, place)| place.is_some_and(|place| place <= ends[log]));
            let survivors: Vec<bool> = survivors.collect();
            (self.tree_of(&survivors) == *found).then(|| self.broken_rule(&survivors, progress))
        })
    }

    /// The rule that is broken if these survive.
    fn broken_rule(&self, survivors: &[bool], progress: &[Progress]) -> String {
        let durable = self.durable(progress);
        let changes: Vec<_> =
            self.numbered().zip(survivors).filter(|((_, done), _)| done.call.is_mutation()).collect();
        let lost = || changes.iter().filter(|(_, survives)| !**survives).map(|(it, _)| *it);
        let kept = changes.iter().filter(|(_, survives)| **survives).map(|(it, _)| *it);
        for (number, done) in kept {
            let missing = lost().find(|(missing, lost)| done.needs[lost.session] >= *missing);
            if let Some((missing, lost)) = missing {
                let rule = if lost.session == done.session { "order of a session" } else { "what was seen" };
                return format!("{rule}: {} survives without {}", Shown(number, done), Shown(missing, lost));
            }
        }
        match lost().find(|(number, lost)| durable[lost.session] >= *number) {
            Some((number, lost)) => format!("durability: {} is lost", Shown(number, lost)),
            None => "something survives that was not done yet".to_owned(),
        }
    }
}

/// An operation as it is told of.
struct Shown<'a>(usize, &'a Done);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shown(number, Done { session, call, log, .. }) = self;
        let way = if *log == Log::Service { "sent" } else { "own" };
        write!(formatter, "{way} operation {number} of session {session} ({call:?})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operations::operation::{OpenFlags, Pattern};

    const A: usize = 0;
    const B: usize = 1;

    fn write(slot: Slot) -> Operation {
        Operation::Write { slot, data: Pattern { seed: slot.into(), length: 10 } }
    }

    fn read(slot: Slot) -> Operation {
        Operation::Pread { slot, offset: 0, length: 100 }
    }

    /// A history behind opening files: the first session its own in slot 0, the second its own in slot 2, and both a shared one
    /// behind that, to which they append.
    fn history(calls: &[(usize, Operation, Log)]) -> History {
        let mut model = Model::new();
        for (slot, name) in [(0, "/a"), (1, "/shared"), (2, "/b"), (3, "/shared")] {
            let flags =
                OpenFlags { read: true, write: true, create: true, append: true, ..OpenFlags::default() };
            model.apply(&Operation::Open { slot, path: PathText::from(name), flags, mode: 0o600 }).unwrap();
        }
        let mut history = History::new(model.clone(), false);
        for (session, call, log) in calls {
            let before = model.clone();
            model.apply(call).unwrap();
            history.note(*session, call, *log, &before, &model);
        }
        history
    }

    fn names(allowed: Vec<(String, Tree)>) -> Vec<String> {
        allowed.into_iter().map(|(name, _)| name).collect()
    }

    fn progress(of: [(u64, u64); SESSIONS]) -> [Progress; SESSIONS] {
        of.map(|(acknowledged, issued)| Progress { acknowledged, issued })
    }

    #[test]
    fn what_was_seen_survives_with_what_follows_upon_it() {
        let calls = [
            (A, write(0), Log::Own(A)),
            (A, write(1), Log::Service),
            (B, write(2), Log::Own(B)),
            (B, read(3), Log::Service),
            (B, write(2), Log::Own(B)),
        ];
        let history = history(&calls);
        let allowed = names(history.allowed(&progress([(2, 2), (3, 3)])));
        let expected = ["[0, 0]", "[0, 1]", "[1, 0]", "[1, 1]", "[2, 0]", "[2, 1]", "[2, 2]", "[2, 3]"];
        assert_eq!(allowed, expected.map(|cut| format!("{cut} operations")));
        let told = |survivors: [bool; 5]| {
            let found = history.tree_of(&survivors);
            history.what_is_broken(&found, &progress([(2, 2), (3, 3)])).unwrap()
        };
        assert!(told([false, true, false, false, false]).starts_with("order of a session: sent operation 2"));
        assert!(told([false, false, true, true, true]).starts_with("what was seen: own operation 3"));
    }

    #[test]
    fn a_sync_makes_durable_what_was_seen() {
        let sync = Operation::Fsync { slot: 2 };
        let calls = [(A, write(1), Log::Service), (B, read(3), Log::Service), (B, sync, Log::Own(B))];
        let history = history(&calls);
        assert_eq!(names(history.allowed(&progress([(1, 1), (2, 2)]))), ["[1, 2] operations"]);
        assert_eq!(history.allowed(&progress([(1, 1), (1, 2)])).len(), 4);
        let nothing = history.tree_of(&[false; 3]);
        let told = history.what_is_broken(&nothing, &progress([(1, 1), (2, 2)])).unwrap();
        assert!(told.starts_with("durability: sent operation 1 of session 0"), "{told}");
    }
}
