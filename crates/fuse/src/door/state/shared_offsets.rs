//! Offsets that open files share with processes of the other door.

use cuesta_libfs::SharedOffset;
use hashbrown::HashMap;
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Open files that go on at offsets others share, by their handles.
#[derive(Default)]
pub(in crate::door) struct SharedOffsets {
    count: AtomicUsize,
    of_handles: RwLock<HashMap<u64, Arc<Sharing>>>,
}

/// One of them: the offset that is shared, and the kernel's own.
pub(in crate::door) struct Sharing {
    pub(in crate::door) shared: SharedOffset,
    /// Where the kernel goes on with the open file.
    pub(in crate::door) kernels: Mutex<i64>,
}

impl SharedOffsets {
    pub(in crate::door) fn of(&self, handle: u64) -> Option<Arc<Sharing>> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.of_handles.read().get(&handle).cloned()
    }

    pub(in crate::door) fn begin(&self, handle: u64, sharing: Sharing) {
        let mut of_handles = self.of_handles.write();
        of_handles.insert(handle, Arc::new(sharing));
        self.count.store(of_handles.len(), Ordering::Relaxed);
    }

    /// The handle is another file's from now on, or free.
    pub(in crate::door) fn end(&self, handle: u64) {
        if self.count.load(Ordering::Relaxed) != 0 {
            let mut of_handles = self.of_handles.write();
            of_handles.remove(&handle);
            self.count.store(of_handles.len(), Ordering::Relaxed);
        }
    }
}
