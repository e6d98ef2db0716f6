//! Descriptors that are kept from call to call: of files in mapped mode, where opening one by its name costs more than what is
//! done to it then, and of the commit file.
//!
//! They are the process's, which numbers its descriptors as it likes, forks, and closes what it does not know: so its door
//! says how one is kept ([`Keeper`]), and which may be used just now. Without a door none is kept. There are never many, since
//! they count towards the process's limit.

use crate::sync::{Arc, Mutex, RwLock, RwLockReadGuard};
use rustix::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::mem::ManuallyDrop;
use std::sync::{OnceLock, Weak};

/// Most that are kept.
const KEPT_MAX: usize = 64;

/// What a door does for descriptors.
#[derive(Clone, Copy, Debug)]
pub struct Keeper {
    /// Whether the calling thread has the process's descriptors: one of a vfork child has others.
    pub is_usable: fn() -> bool,
    /// Puts one out of the program's way, and keeps its hands off it.
    pub keep: fn(BorrowedFd<'_>) -> Option<OwnedFd>,
    /// It is about to be closed.
    pub let_go: fn(i32),
}

/// Those of a session.
#[derive(Debug, Default)]
pub(crate) struct KeptDescriptors {
    keeper: OnceLock<Keeper>,
    kept: Mutex<Vec<Weak<KeptDescriptor>>>,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct KeptDescriptor {
    file: RwLock<ManuallyDrop<OwnedFd>>,
    keeper: Keeper,
}

impl KeptDescriptors {
    /// The process's door is this one.
    pub(crate) fn keep_by(&self, keeper: Keeper) {
        // Whoever came first stays: there is one door.
        let _ = self.keeper.set(keeper);
    }

    /// Whether the process has a door.
    pub(crate) fn has_keeper(&self) -> bool {
        self.keeper.get().is_some()
    }

    /// Keeps a descriptor of the file, if that can be.
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

    /// Goes on with `copy` for the descriptor `number`, which is answered; `copy` itself if it is none of these.
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
        // Otherwise it is another process's, and stays open there.
        if (self.keeper.is_usable)() {
            let file = self.file.get_mut();
            (self.keeper.let_go)(file.as_raw_fd());
            // SAFETY: this is the last of it, and it is not looked at again.
            unsafe { ManuallyDrop::drop(file) };
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
