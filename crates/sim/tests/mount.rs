//! The FUSE door against the reference model: random calls on a mount, and on a mount and a session of LibFS by turns;
//! the same answers and the same tree by both doors.
//!
//! The mount's side runs in a thread whose root it is, so that absolute symlinks and `..` mean the same everywhere. Needs
//! root and FUSE; skipped visibly otherwise. `CUESTA_SIM_SEED` repeats one seed, `CUESTA_SIM_SEEDS` says how many.

use cuesta_format::InodeNumber;
use cuesta_format::durability::DurabilityWish;
use cuesta_libfs::Client;
use cuesta_sharedfs::SharedFs;
use cuesta_sharedfs::server::{Server, StopReason};
use cuesta_sim::doors::why_no_mount;
use cuesta_sim::generate::{Generator, Repertoire};
use cuesta_sim::model::Model;
use cuesta_sim::operation::{FallocateMode, Operation, Slot, answers_agree};
use cuesta_sim::random::Random;
use cuesta_sim::tree::Tree;
use cuesta_sim::visitor::{Answer, Visitor};
use cuesta_sim::world::{self, World};
use rustix::io::Errno;
use std::collections::{BTreeMap, VecDeque};
use std::os::unix::ffi::OsStrExt as _;

const OPERATIONS: usize = 400;
const SEEDS: u64 = 25;
/// Calls that a failure tells of.
const LATELY: usize = 30;

/// By which door a call is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Door {
    Mount,
    Session,
}

/// A store with a mount and a session, and what they should show.
struct Both {
    model: Model,
    session: Option<World>,
    visitor: Option<Visitor>,
    mount: Option<cuesta_fuse::Server>,
    daemon: Option<Server<SharedFs>>,
    place: tempfile::TempDir,
    folder: tempfile::TempDir,
    /// By which door a slot was opened last.
    opened_by: BTreeMap<Slot, Door>,
    /// The last operations, for the reader of a failure.
    lately: VecDeque<String>,
}

impl Both {
    fn new() -> Both {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let geometry = cuesta_format::Geometry { nvm_bytes: 16 << 20, ..world::small_geometry() };
        world::create(folder.path(), geometry).unwrap();
        let session = World::open(folder.path()).unwrap();
        let socket = folder.path().join("sock");
        let daemon = session.listen(&socket).unwrap();
        let client = Client::attach_to(
            socket.as_os_str().as_bytes(),
            0,
            "mount",
            InodeNumber::NONE,
            DurabilityWish::NONE,
        )
        .unwrap();
        let place = tempfile::tempdir().unwrap();
        let options =
            cuesta_fuse::Options { source: "a test".into(), allow_other: true, ..Default::default() };
        let device = cuesta_fuse::mount(place.path(), &options).unwrap();
        let mount = cuesta_fuse::Server::start(client, device, place.path()).unwrap();
        let visitor = Some(Visitor::new(place.path()));
        Both {
            model: Model::new(),
            session: Some(session),
            visitor,
            mount: Some(mount),
            daemon: Some(daemon),
            place,
            folder,
            opened_by: BTreeMap::new(),
            lately: VecDeque::new(),
        }
    }

    fn visitor(&self) -> &Visitor {
        self.visitor.as_ref().expect("it is there until the end")
    }

    /// One call by one door. Its answer must be the model's. An open file belongs to the door that opened it.
    fn apply(&mut self, door: Door, operation: &Operation) -> Result<(), String> {
        let mut operation = operation.clone();
        let opens = matches!(operation, Operation::Open { .. } | Operation::OpenUnnamed { .. });
        let slot = operation.slot_mut().copied();
        let mut door = door;
        if let Some(slot) = slot {
            let before = self.opened_by.get(&slot).copied();
            if opens {
                if let Some(before) = before.filter(|before| *before != door) {
                    // Whatever becomes of an opening, the slot's file is closed.
                    self.call(before, &Operation::Close { slot }).ok();
                }
                self.opened_by.insert(slot, door);
            } else {
                door = before.unwrap_or(door);
            }
        }
        let found = self.call(door, &operation);
        self.lately.push_back(format!("{operation:?} by {door:?}: {found:?}"));
        if self.lately.len() > LATELY {
            self.lately.pop_front();
        }
        if door == Door::Mount && is_refused_by_linux(&operation) && found == Err(Errno::OPNOTSUPP) {
            return Ok(());
        }
        let expected = self.model.apply(&operation);
        match answers_agree(&found, &expected) {
            true => Ok(()),
            false => {
                let tree = Tree::from(&self.model);
                let lately = self.lately.make_contiguous().join("\n");
                Err(format!("expected {expected:?} of the last of\n{lately}\n{tree:?}"))
            }
        }
    }

    fn call(&mut self, door: Door, operation: &Operation) -> Answer {
        match door {
            Door::Session => self.session.as_mut().expect("it is there until the end").apply(operation),
            Door::Mount => self.visitor().apply(operation),
        }
    }

    /// Both doors show what the model does.
    fn agree(&mut self) -> Result<(), String> {
        let expected = Tree::from(&self.model);
        let session = self.session.as_ref().expect("it is there until the end");
        let trees = [(Door::Mount, self.visitor().tree()?), (Door::Session, session.tree()?)];
        for (door, found) in trees {
            let differences = found.differences(&expected);
            if !differences.is_empty() {
                let lately = self.lately.make_contiguous().join("\n");
                return Err(format!("by {door:?}: {}, after\n{lately}", differences.join("\n")));
            }
        }
        Ok(())
    }

    /// Ends both sessions in order and looks at what is left.
    fn end(mut self) -> Result<(), String> {
        self.unmount();
        self.session.take().expect("it is there until now").detach();
        self.stop_daemon();
        self.model.crash();
        world::fsck(self.folder.path())?;
        let again = World::open(self.folder.path())?;
        let differences = again.tree()?.differences(&Tree::from(&self.model));
        if differences.is_empty() { Ok(()) } else { Err(format!("at last: {}", differences.join("\n"))) }
    }

    fn stop_daemon(&mut self) {
        if let Some(daemon) = self.daemon.take() {
            daemon.stop_sender().send(StopReason::Signal(0)).unwrap();
            daemon.wait();
        }
    }

    fn unmount(&mut self) {
        self.visitor = None;
        if let Some(mount) = self.mount.take() {
            cuesta_fuse::unmount(self.place.path(), true).unwrap();
            mount.wait();
        }
    }
}

impl Drop for Both {
    fn drop(&mut self) {
        self.unmount();
        self.session = None;
        self.stop_daemon();
    }
}

/// Linux does not ask file systems behind FUSE to move content.
fn is_refused_by_linux(operation: &Operation) -> bool {
    use FallocateMode::{CollapseRange, InsertRange};
    matches!(operation, Operation::Fallocate { mode: CollapseRange | InsertRange, .. })
}

/// `choose`: by which door the next call goes.
fn run_seed(seed: u64, choose: impl Fn(&mut Random) -> Door) -> Result<(), String> {
    let mut both = Both::new();
    let repertoire = Repertoire { extended_bytes_max: 6000, ..Repertoire::default() };
    let mut generator = Generator::new(repertoire, seed);
    let mut chance = Random::new(!seed);
    for step in 0..OPERATIONS {
        let (operation, door) = (generator.next_operation(), choose(&mut chance));
        both.apply(door, &operation).map_err(|reason| format!("step {step}: {reason}"))?;
        if chance.one_in(25) {
            both.agree().map_err(|reason| format!("after step {step}: {reason}"))?;
        }
    }
    both.agree()?;
    both.end()
}

fn run_seeds(choose: impl Fn(&mut Random) -> Door) {
    if let Some(why) = why_no_mount() {
        println!("skipped: {why}");
        return;
    }
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let first = number("CUESTA_SIM_SEED");
    let count = number("CUESTA_SIM_SEEDS").unwrap_or(if first.is_some() { 1 } else { SEEDS });
    let first = first.unwrap_or(0);
    for seed in first..first + count {
        if let Err(reason) = run_seed(seed, &choose) {
            panic!("seed {seed}: {reason}");
        }
    }
}

#[test]
fn a_mount_answers_as_the_model_does() {
    run_seeds(|_| Door::Mount);
}

#[test]
fn a_mount_and_a_session_answer_as_one_file_system() {
    run_seeds(|chance| if chance.one_in(2) { Door::Mount } else { Door::Session });
}
