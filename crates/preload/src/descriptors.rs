//! Which descriptors are ours.
//!
//! A descriptor of ours is a real one of the kernel's: a duplicate of one O_PATH *marker*, so that dup,
//! close-on-exec, dup2 over it and close keep their meaning, and code we do not serve gets EBADF from
//! it and nothing else. The table maps its number to an open file description.
//!
//! Look-up takes no lock: descriptions live in memory that is only ever reused for descriptions, carry
//! a count, and are released when the table and every thread that pinned them have let go. A thread
//! pins, then checks that the table still says the same; so a close while another thread reads is safe.
//!
//! A vfork child has the parent's memory and its own kernel descriptors: its changes go to a
//! [`Delta`], which only it sees, until it is gone.

use std::cell::UnsafeCell;
use std::ops::Deref;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use crate::calls::ExecImage;
use crate::filter::{ACTIVE, DESCRIPTOR_LIMIT, DESCRIPTORS, HOLDS, own_class};
use crate::open_file::Description;
use crate::process::ChildSession;
use crate::thread;
use crate::working_directory::Current;

/// Class of a descriptor with an entry in the table.
const CLASS_OURS: u8 = 1;
/// Class of a descriptor this library uses for itself.
const CLASS_HIDDEN: u8 = 2;

static TABLE: [AtomicPtr<Slot>; DESCRIPTOR_LIMIT] =
    [const { AtomicPtr::new(ptr::null_mut()) }; DESCRIPTOR_LIMIT];
static FREE: Mutex<Vec<Free>> = Mutex::new(Vec::new());
/// One past the highest descriptor that was ever ours.
static HIGHEST: AtomicUsize = AtomicUsize::new(0);

/// Room for one description, never given back to the allocator.
struct Slot {
    count: AtomicU32,
    description: UnsafeCell<Option<Description>>,
}

struct Free(*mut Slot);

// SAFETY: a free slot is referred to by nobody else.
unsafe impl Send for Free {}

/// A counted reference to a description.
#[derive(Debug)]
pub struct Pin(*mut Slot);

// SAFETY: the count is atomic and descriptions are shared between threads by design.
unsafe impl Send for Pin {}
// SAFETY: as above.
unsafe impl Sync for Pin {}

impl std::fmt::Debug for Slot {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Slot").field("count", &self.count).finish_non_exhaustive()
    }
}

impl Pin {
    /// The first reference to a new description.
    pub fn new(description: Description) -> Self {
        let free = FREE.lock().ok().and_then(|mut free| free.pop());
        let slot = match free {
            Some(Free(slot)) => slot,
            None => {
                Box::into_raw(Box::new(Slot { count: AtomicU32::new(0), description: UnsafeCell::new(None) }))
            }
        };
        // SAFETY: a slot whose count is zero is touched by nobody: pinning refuses it.
        unsafe {
            *(*slot).description.get() = Some(description);
            (*slot).count.store(1, Ordering::Release);
        }
        Self(slot)
    }

    /// Whether both refer to the same open file description.
    pub fn is_same(&self, other: &Pin) -> bool {
        ptr::eq(self.0, other.0)
    }
}

impl Clone for Pin {
    fn clone(&self) -> Self {
        // SAFETY: this reference keeps the slot's count above zero.
        unsafe { (*self.0).count.fetch_add(1, Ordering::Relaxed) };
        Self(self.0)
    }
}

impl Deref for Pin {
    type Target = Description;

    fn deref(&self) -> &Description {
        // SAFETY: with a count above zero the description is present and only shared.
        match unsafe { &*(*self.0).description.get() } {
            Some(description) => description,
            None => crate::arch::abort(),
        }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        // SAFETY: the slot's memory stays valid for good; who brings the count to zero is alone with it.
        unsafe {
            if (*self.0).count.fetch_sub(1, Ordering::Release) == 1 {
                std::sync::atomic::fence(Ordering::Acquire);
                drop((*(*self.0).description.get()).take());
                if let Ok(mut free) = FREE.lock() {
                    free.push(Free(self.0));
                }
            }
        }
    }
}

/// What a vfork child changed: of its descriptors the last change for a number counts, `None` is closed.
#[derive(Debug, Default)]
pub struct Delta {
    changes: Vec<(usize, Option<Pin>)>,
    /// Memory the child's exec needs, kept until the child is gone.
    pub exec: Option<ExecImage>,
    /// The session the child attached, if its parent had none.
    pub session: Option<ChildSession>,
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

/// Whether `fd` is one of this library's own.
pub fn is_hidden(fd: i32) -> bool {
    DESCRIPTORS.get(fd as u32 as usize).is_some_and(|class| class.load(Ordering::Relaxed) == CLASS_HIDDEN)
}

/// One past the highest descriptor that was ever this library's own.
static HIGHEST_HIDDEN: AtomicUsize = AtomicUsize::new(0);

/// This library's own descriptors.
pub fn hidden() -> impl Iterator<Item = i32> {
    (0..HIGHEST_HIDDEN.load(Ordering::Relaxed) as i32).filter(|fd| is_hidden(*fd))
}

/// Declares `fd` this library's own, or no longer.
pub fn hide(fd: i32, hidden: bool) {
    HIGHEST_HIDDEN.fetch_max(fd as u32 as usize + 1, Ordering::Relaxed);
    if let Some(class) = DESCRIPTORS.get(fd as u32 as usize) {
        class.store(if hidden { CLASS_HIDDEN } else { own_class() }, Ordering::Relaxed);
    }
}

/// The description behind `fd`, if it is ours.
#[inline]
pub fn pin(fd: i32) -> Option<Pin> {
    let fd = fd as u32 as usize;
    let entry = TABLE.get(fd)?;
    if thread::is_vforked()
        // SAFETY: the reference ends within this expression.
        && let Some(change) = unsafe { thread::delta() }.as_ref().and_then(|delta| delta.find(fd))
    {
        return change.clone();
    }
    loop {
        let slot = entry.load(Ordering::Acquire);
        if slot.is_null() {
            return None;
        }
        // SAFETY: slots are never freed; a count of zero means it is being released, and refused.
        unsafe {
            let mut count = (*slot).count.load(Ordering::Relaxed);
            while count != 0 {
                match (*slot).count.compare_exchange_weak(
                    count,
                    count + 1,
                    Ordering::Acquire,
                    Ordering::Relaxed,
                ) {
                    Ok(_) => {
                        let pin = Pin(slot);
                        if entry.load(Ordering::Acquire) == slot {
                            return Some(pin);
                        }
                        break;
                    }
                    Err(now) => count = now,
                }
            }
        }
    }
}

/// Puts `pin` behind `fd` and answers what was there before.
pub fn install(fd: i32, pin: Pin) -> Option<Pin> {
    let fd = fd as u32 as usize;
    let (Some(entry), Some(class)) = (TABLE.get(fd), DESCRIPTORS.get(fd)) else { return None };
    HIGHEST.fetch_max(fd + 1, Ordering::Relaxed);
    ACTIVE.store(1, Ordering::Release);
    HOLDS.store(1, Ordering::Release);
    if thread::is_vforked() {
        class.store(CLASS_OURS, Ordering::Release);
        return change(fd, Some(pin));
    }
    let slot = pin.0;
    std::mem::forget(pin);
    let before = entry.swap(slot, Ordering::AcqRel);
    class.store(CLASS_OURS, Ordering::Release);
    (!before.is_null()).then(|| Pin(before))
}

/// Takes away what is behind `fd`.
pub fn remove(fd: i32) -> Option<Pin> {
    let fd = fd as u32 as usize;
    let (Some(entry), Some(class)) = (TABLE.get(fd), DESCRIPTORS.get(fd)) else { return None };
    if thread::is_vforked() {
        return change(fd, None);
    }
    // The class goes first: between the two a call of another thread reaches the placeholder (EBADF).
    let _ = class.compare_exchange(CLASS_OURS, own_class(), Ordering::AcqRel, Ordering::Relaxed);
    let before = entry.swap(ptr::null_mut(), Ordering::AcqRel);
    (!before.is_null()).then(|| Pin(before))
}

fn change(fd: usize, to: Option<Pin>) -> Option<Pin> {
    let before = pin(fd as i32);
    // SAFETY: `pin` has returned; the reference ends with this function.
    let delta = unsafe { thread::delta() }.get_or_insert_default();
    delta.changes.push((fd, to));
    before
}

/// Forgets what a vfork child changed, now that its parent runs again.
#[cold]
pub fn drop_delta(delta: Delta) {
    if let Some(exec) = delta.exec {
        exec.let_go();
    }
    for (fd, _) in &delta.changes {
        let empty = TABLE[*fd].load(Ordering::Acquire).is_null();
        if empty {
            let _ = DESCRIPTORS[*fd].compare_exchange(
                CLASS_OURS,
                own_class(),
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
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
