//! Descriptors that the session keeps from call to call: of files in mapped mode, where opening by name costs
//! more than the call itself, and of the commit file.
//!
//! The descriptors belong to the process, which numbers its descriptors as it likes, forks, and closes those
//! that it does not know. So its door says how to keep one ([`Keeper`]), and which may be used now. Without a
//! door none is kept. They count towards the process's limit, so there are never many.

use crate::sync::{Arc, Mutex, RwLock, RwLockReadGuard};
use rustix::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::mem::ManuallyDrop;
use std::sync::{OnceLock, Weak};

/// How many descriptors are kept at most.
const KEPT_MAX: usize = 64;

/// The functions that a door provides for descriptors.
#[derive(Clone, Copy, Debug)]
pub struct Keeper {
    /// Whether the calling thread has the process's descriptors. The child of a vfork has others.
    pub is_usable: fn() -> bool,
    /// Moves a descriptor out of the program's reach.
    pub keep: fn(BorrowedFd<'_>) -> Option<OwnedFd>,
    /// The descriptor is about to be closed.
    pub let_go: fn(i32),
}

/// The kept descriptors of a session.
#[derive(Debug, Default)]
pub(crate) struct KeptDescriptors {
    keeper: OnceLock<Keeper>,
    kept: Mutex<Vec<Weak<KeptDescriptor>>>,
}

/// One kept descriptor.
#[derive(Debug)]
pub(crate) struct KeptDescriptor {
    file: RwLock<ManuallyDrop<OwnedFd>>,
    keeper: Keeper,
}

impl KeptDescriptors {
    /// Sets the door of the process.
    pub(crate) fn keep_by(&self, keeper: Keeper) {
        // The first setting stays: a process has one door.
        let _ = self.keeper.set(keeper);
    }

    /// Whether the process has a door.
    pub(crate) fn has_keeper(&self) -> bool {
        self.keeper.get().is_some()
    }

    /// Keeps a descriptor of the file, if possible.
    pub(crate) fn keep(&self, file: &OwnedFd) -> Option<Arc<KeptDescriptor>> {
        let keeper = *self.keeper.get().filter(|keeper| (keeper.is_usable)())?;
        let mut kept = self.kept.lock();
        kept.retain(|kept| kept.strong_count() > 0);
        if kept.len() >= KEPT_MAX {
            return None;
        }
        let file = RwLock::new(ManuallyDrop::new((keeper.keep)(file.as_fd())?));
        let new = Arc::new(KeptDescriptor { file, keeper });
        kept.push(Arc::downgrade(&new));
        Some(new)
    }

    /// Replaces the descriptor `number` by `copy`, and answers the old one. If it keeps no such number, it
    /// answers `copy`.
    pub(crate) fn replace(&self, number: i32, copy: OwnedFd) -> OwnedFd {
        for kept in self.kept.lock().iter().filter_map(Weak::upgrade) {
            let mut file = kept.file.write();
            if file.as_raw_fd() == number {
                return std::mem::replace(&mut **file, copy);
            }
        }
        copy
    }
}

impl KeptDescriptor {
    /// The descriptor, if this thread may use it.
    pub(crate) fn get(&self) -> Option<DescriptorInUse<'_>> {
        (self.keeper.is_usable)().then(|| DescriptorInUse(self.file.read()))
    }
}

impl Drop for KeptDescriptor {
    fn drop(&mut self) {
        // Otherwise the descriptor belongs to another process, and stays open there.
        if (self.keeper.is_usable)() {
            let file = self.file.get_mut();
            (self.keeper.let_go)(file.as_raw_fd());
            // SAFETY: this is the last use of the descriptor.
            unsafe { ManuallyDrop::drop(file) };
        }
    }
}

/// A descriptor that the session opened for itself.
#[derive(Debug)]
pub(crate) enum HeldDescriptor {
    /// The program's door keeps it.
    Kept(Arc<KeptDescriptor>),
    /// The process has no door, so its descriptors are its own.
    Own(OwnedFd),
}

impl HeldDescriptor {
    /// Holds a descriptor of the file, if possible.
    pub(crate) fn hold(descriptors: &KeptDescriptors, file: OwnedFd) -> Option<HeldDescriptor> {
        if descriptors.has_keeper() {
            descriptors.keep(&file).map(HeldDescriptor::Kept)
        } else {
            Some(HeldDescriptor::Own(file))
        }
    }

    /// Calls `act` with the descriptor. `None`: this thread has another process's descriptors.
    pub(crate) fn with<R>(&self, act: impl FnOnce(BorrowedFd<'_>) -> R) -> Option<R> {
        match self {
            HeldDescriptor::Own(file) => Some(act(file.as_fd())),
            HeldDescriptor::Kept(kept) => kept.get().map(|file| act(file.as_fd())),
        }
    }
}

/// A descriptor in use.
#[derive(Debug)]
pub(crate) struct DescriptorInUse<'k>(RwLockReadGuard<'k, ManuallyDrop<OwnedFd>>);

impl AsFd for DescriptorInUse<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
