//! Which descriptors are ours.
//!
//! A descriptor of ours is a real one of the kernel's: a duplicate of one O_PATH *marker*, so that dup,
//! close-on-exec, dup2 over it and close keep their meaning, and code we do not serve gets EBADF from
//! it and nothing else. The table maps its number to an open file description.
//!
//! Look-up takes no lock, and changes of one number take turns ([`cuesta_threads::Table`]).
//!
//! A vfork child has the parent's memory and its own kernel descriptors: its changes go to a
//! [`Delta`], which only it sees, until it is gone.

use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cuesta_libfs::{Confinement, Keeper};
use cuesta_threads::{Pool, Table, Turn};

use crate::calls::ExecImage;
use crate::confinement::Ruleset;
use crate::credentials::Known;
use crate::filter::{ACTIVE, DESCRIPTOR_LIMIT, DESCRIPTORS, HOLDS, own_class};
use crate::open_file::Description;
use crate::process::{self, ChildSession};
use crate::thread;
use crate::working_directory::Current;

/// Class of a descriptor with an entry in the table.
const CLASS_OURS: u8 = 1;
/// The same, of a file that was opened, and not with `O_PATH`.
const CLASS_OPEN: u8 = 8;
/// Class of a descriptor this library uses for itself.
const CLASS_HIDDEN: u8 = 2;
/// The same, and the child of a fork has it as well.
const CLASS_KEPT: u8 = 4;

static TABLE: Table<Description, DESCRIPTOR_LIMIT> = Table::new();
static POOL: Pool<Description> = Pool::new();
/// One past the highest descriptor that was ever ours.
static HIGHEST: AtomicUsize = AtomicUsize::new(0);

/// A counted reference to a description.
pub type Pin = cuesta_threads::Pin<Description>;

/// The first reference to a new description.
pub fn describe(description: Description) -> Pin {
    POOL.pin(description)
}

/// What a vfork child changed: of its descriptors the last change for a number counts, `None` is closed.
#[derive(Debug, Default)]
pub struct Delta {
    changes: Vec<(usize, Option<Pin>)>,
    /// Memory the child's exec needs, kept until the child is gone.
    pub exec: Option<ExecImage>,
    /// The session the child attached, if its parent had none.
    pub session: Option<ChildSession>,
    /// Whose authority the child's calls have, as it asked.
    pub credentials: Option<Known>,
    /// What the child has forbidden itself, with what its parent has.
    pub confinement: Option<Arc<Confinement>>,
    /// The rulesets the child has made.
    pub rulesets: Vec<Ruleset>,
    /// Whether its parent waits until it is gone, as far as that is in doubt.
    pub is_of_suspending_child: bool,
    /// Whether its descriptors are its parent's, so that what it changed of them stays.
    pub is_parents_too: bool,
    /// Whether it has made children, on the same state.
    pub has_children: bool,
    /// Where the child went, if it changed its working directory: `None` within is out of the store.
    pub directory: Option<Option<Current>>,
}

impl Delta {
    fn find(&self, fd: usize) -> Option<&Option<Pin>> {
        self.changes.iter().rev().find(|change| change.0 == fd).map(|change| &change.1)
    }
}

/// Whether a call on `fd` must be looked at.
#[inline(always)]
pub fn is_of_interest(fd: i32) -> bool {
    DESCRIPTORS.get(fd as u32 as usize).is_some_and(|class| class.load(Ordering::Relaxed) != 0)
}

/// Whether `fd` is surely ours, and was not opened with `O_PATH`; of those that a vfork child has it is not told.
#[inline(always)]
pub fn is_open(fd: i32) -> bool {
    DESCRIPTORS.get(fd as u32 as usize).is_some_and(|class| class.load(Ordering::Acquire) == CLASS_OPEN)
}

/// Whether `fd` is one of this library's own.
pub fn is_hidden(fd: i32) -> bool {
    DESCRIPTORS
        .get(fd as u32 as usize)
        .is_some_and(|class| matches!(class.load(Ordering::Relaxed), CLASS_HIDDEN | CLASS_KEPT))
}

/// Whether it is one that the child of a fork goes on with.
pub fn is_kept(fd: i32) -> bool {
    DESCRIPTORS.get(fd as u32 as usize).is_some_and(|class| class.load(Ordering::Relaxed) == CLASS_KEPT)
}

/// One past the highest descriptor that was ever this library's own.
static HIGHEST_HIDDEN: AtomicUsize = AtomicUsize::new(0);

/// This library's own descriptors.
pub fn hidden() -> impl Iterator<Item = i32> {
    (0..HIGHEST_HIDDEN.load(Ordering::Relaxed) as i32).filter(|fd| is_hidden(*fd))
}

/// Declares `fd` this library's own, in the children of forks as well.
pub fn keep_hidden(fd: i32) {
    hide(fd, true);
    if let Some(class) = DESCRIPTORS.get(fd as u32 as usize) {
        class.store(CLASS_KEPT, Ordering::Relaxed);
    }
}

/// Declares `fd` this library's own, or no longer.
pub fn hide(fd: i32, hidden: bool) {
    HIGHEST_HIDDEN.fetch_max(fd as u32 as usize + 1, Ordering::Relaxed);
    if let Some(class) = DESCRIPTORS.get(fd as u32 as usize) {
        class.store(if hidden { CLASS_HIDDEN } else { own_class() }, Ordering::Relaxed);
    }
}

/// How LibFS keeps descriptors.
pub const KEEPER: Keeper = Keeper {
    is_usable: || !thread::is_vforked(),
    keep: |file| {
        let kept = process::set_aside(file).ok()?;
        hide(kept.as_raw_fd(), true);
        Some(kept)
    },
    let_go: |fd| hide(fd, false),
};

/// The description behind `fd`, if it is ours.
#[inline]
pub fn pin(fd: i32) -> Option<Pin> {
    let fd = fd as u32 as usize;
    if thread::is_vforked()
        // SAFETY: the reference ends within this expression.
        && let Some(change) = unsafe { thread::delta() }.as_ref().and_then(|delta| delta.find(fd))
    {
        return change.clone();
    }
    TABLE.pin(fd)
}

/// A change of what is behind one descriptor, here and in the kernel; nothing changes if it is dropped. Until it is made
/// or dropped other changes of the same descriptor wait.
#[derive(Debug)]
#[must_use]
pub struct Change {
    fd: usize,
    by: By,
}

#[derive(Debug)]
enum By {
    Turn(Turn<'static, Description>),
    /// Only this child sees it.
    VforkChild,
}

/// Begins a change of what is behind `fd`, unless it can never be ours.
pub fn change(fd: i32) -> Option<Change> {
    let fd = fd as u32 as usize;
    if thread::is_vforked() {
        return (fd < DESCRIPTOR_LIMIT).then_some(Change { fd, by: By::VforkChild });
    }
    Some(Change { fd, by: By::Turn(TABLE.turn(fd)?) })
}

impl Change {
    /// Puts `to` behind the descriptor, which is the kernel's placeholder now, or nothing, which is the application's now.
    /// Answers what was there before.
    pub fn finish(self, to: Option<Pin>) -> Option<Pin> {
        match &to {
            Some(pin) => {
                // What a vfork child has there is not its parent's, whose other threads go on.
                let is_open = !pin.is_path() && matches!(self.by, By::Turn(_));
                let class = if is_open { CLASS_OPEN } else { CLASS_OURS };
                HIGHEST.fetch_max(self.fd + 1, Ordering::Relaxed);
                ACTIVE.store(1, Ordering::Release);
                HOLDS.store(1, Ordering::Release);
                DESCRIPTORS[self.fd].store(class, Ordering::Release);
            }
            None if matches!(self.by, By::Turn(_)) => declassify(self.fd),
            None => {}
        }
        match self.by {
            By::Turn(turn) => turn.finish(to),
            By::VforkChild => change_in_vfork_child(self.fd, to),
        }
    }

    /// Takes away what is behind the descriptor, and then has the kernel `close` it. `None` if it is not ours.
    pub fn close<T>(self, close: impl FnOnce(&Pin) -> T) -> Option<(T, Pin)> {
        let pin = pin(self.fd as i32)?;
        let close = || close(&pin);
        let (answer, before) = match self.by {
            By::Turn(turn) => {
                // Between the two a call of another thread reaches the placeholder (EBADF).
                declassify(self.fd);
                turn.close(close)
            }
            By::VforkChild => (close(), change_in_vfork_child(self.fd, None)),
        };
        Some((answer, before?))
    }
}

/// This descriptor is the application's own from now on.
fn declassify(fd: usize) {
    for class in [CLASS_OURS, CLASS_OPEN] {
        let _ = DESCRIPTORS[fd].compare_exchange(class, own_class(), Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// Puts `pin` behind a descriptor that the kernel has just given out as a placeholder.
pub fn install(fd: i32, pin: Pin) {
    if let Some(change) = change(fd) {
        drop(change.finish(Some(pin)));
    }
}

/// Takes away what is behind `fd`, as the process ends.
pub fn remove(fd: i32) -> Option<Pin> {
    change(fd)?.finish(None)
}

fn change_in_vfork_child(fd: usize, to: Option<Pin>) -> Option<Pin> {
    let before = pin(fd as i32);
    // SAFETY: `pin` has returned; the reference ends with this function.
    let delta = unsafe { thread::delta() }.get_or_insert_default();
    delta.changes.push((fd, to));
    before
}

/// This is the child of a fork: threads that were changing a descriptor are not here.
pub fn after_fork() {
    TABLE.end_turns(HIGHEST.load(Ordering::Relaxed));
}

/// Forgets what a vfork child changed, now that its parent runs again.
#[cold]
pub fn drop_delta(delta: Delta) {
    if let Some(exec) = delta.exec {
        exec.let_go();
    }
    if delta.is_parents_too {
        for (fd, pin) in delta.changes {
            if let Some(change) = change(fd as i32) {
                drop(change.finish(pin));
            }
        }
        return;
    }
    for (fd, _) in &delta.changes {
        if TABLE.pin(*fd).is_none() {
            declassify(*fd);
        }
    }
}

/// Whether there ever was a descriptor of ours.
pub fn any() -> bool {
    HIGHEST.load(Ordering::Relaxed) != 0
}

/// The descriptions behind the descriptors that `filter` lets through, each with its descriptors.
pub fn grouped(filter: impl Fn(i32) -> bool) -> Vec<(Pin, Vec<i32>)> {
    let mut groups: Vec<(Pin, Vec<i32>)> = Vec::new();
    for (fd, pin) in all().into_iter().filter(|(fd, _)| filter(*fd)) {
        match groups.iter_mut().find(|(known, _)| known.is_same(&pin)) {
            Some((_, fds)) => fds.push(fd),
            None => groups.push((pin, vec![fd])),
        }
    }
    groups
}

/// Every descriptor of ours, as this thread (or the vfork child it is) sees the table.
pub fn all() -> Vec<(i32, Pin)> {
    let highest = HIGHEST.load(Ordering::Relaxed);
    (0..highest as i32).filter(|fd| is_of_interest(*fd)).filter_map(|fd| Some((fd, pin(fd)?))).collect()
}
