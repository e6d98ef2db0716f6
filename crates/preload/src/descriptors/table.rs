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

use crate::call::filter::{ACTIVE, DESCRIPTOR_LIMIT, DESCRIPTORS, HOLDS};
use crate::descriptors::classes::{CLASS_OPEN, CLASS_OURS, declassify, is_of_interest};
use crate::descriptors::description::{Description, Pin};
use crate::thread;
use crate::thread::vfork_delta::Delta;
use cuesta_threads::{EntryChange, Table};
use std::sync::atomic::{AtomicUsize, Ordering};

static TABLE: Table<Description, DESCRIPTOR_LIMIT> = Table::new();

/// One past the highest descriptor that was ever ours.
static HIGHEST: AtomicUsize = AtomicUsize::new(0);

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
    Table(EntryChange<'static, Description>),
    /// Only this child sees it.
    VforkChild,
}

/// Begins a change of what is behind `fd`, unless it can never be ours.
pub fn change(fd: i32) -> Option<Change> {
    let fd = fd as u32 as usize;
    if thread::is_vforked() {
        return (fd < DESCRIPTOR_LIMIT).then_some(Change { fd, by: By::VforkChild });
    }
    Some(Change { fd, by: By::Table(TABLE.turn(fd)?) })
}

impl Change {
    /// Puts `to` behind the descriptor, which is the kernel's placeholder now, or nothing, which is the application's now.
    /// Answers what was there before.
    pub fn finish(self, to: Option<Pin>) -> Option<Pin> {
        match &to {
            Some(pin) => {
                // A vfork child's descriptor is not its parent's, and the parent's other threads go on.
                let is_open = !pin.is_path() && matches!(self.by, By::Table(_));
                let class = if is_open { CLASS_OPEN } else { CLASS_OURS };
                HIGHEST.fetch_max(self.fd + 1, Ordering::Relaxed);
                ACTIVE.store(1, Ordering::Release);
                HOLDS.store(1, Ordering::Release);
                DESCRIPTORS[self.fd].store(class, Ordering::Release);
            }
            None if matches!(self.by, By::Table(_)) => declassify(self.fd),
            None => {}
        }
        match self.by {
            By::Table(turn) => turn.finish(to),
            By::VforkChild => change_in_vfork_child(self.fd, to),
        }
    }

    /// Takes away what is behind the descriptor, and then has the kernel `close` it. `None` if it is not ours.
    pub fn close<T>(self, close: impl FnOnce(&Pin) -> T) -> Option<(T, Pin)> {
        let pin = pin(self.fd as i32)?;
        let close = || close(&pin);
        let (answer, before) = match self.by {
            By::Table(turn) => {
                // Between the two a call of another thread reaches the placeholder (EBADF).
                declassify(self.fd);
                turn.close(close)
            }
            By::VforkChild => (close(), change_in_vfork_child(self.fd, None)),
        };
        Some((answer, before?))
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
