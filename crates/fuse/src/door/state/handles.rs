//! The files that the kernel has open, by their handles.

use crate::door::refusal::Refusal;
use cuesta_format::InodeNumber;
use cuesta_libfs::OpenFile;
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;

/// The open files, each at the place its handle says.
#[derive(Default)]
pub(in crate::door) struct Handles {
    places: RwLock<Vec<Option<Arc<OpenFile>>>>,
    free: Mutex<Vec<usize>>,
}

impl Handles {
    /// Keeps a file. Answers its handle.
    pub(in crate::door) fn add(&self, file: Arc<OpenFile>) -> u64 {
        let free = self.free.lock().pop();
        let mut places = self.places.write();
        let place = free.unwrap_or_else(|| {
            places.push(None);
            places.len() - 1
        });
        places[place] = Some(file);
        place as u64
    }

    /// The file of a handle.
    pub(in crate::door) fn get(&self, handle: u64) -> Result<Arc<OpenFile>, Refusal> {
        let places = self.places.read();
        let found = usize::try_from(handle).ok().and_then(|place| places.get(place)?.clone());
        found.ok_or(Refusal(libc::EBADF))
    }

    /// Whether the inode is open to be written.
    pub(in crate::door) fn writes_to(&self, inode: InodeNumber) -> bool {
        let places = self.places.read();
        places.iter().flatten().any(|file| file.inode() == inode && file.check_writable().is_ok())
    }

    /// Takes a file out. Its handle may then be another file's.
    pub(in crate::door) fn take(&self, handle: u64) -> Option<Arc<OpenFile>> {
        let place = usize::try_from(handle).ok()?;
        let file = self.places.write().get_mut(place)?.take()?;
        self.free.lock().push(place);
        Some(file)
    }

    /// Takes all of them out.
    pub(in crate::door) fn take_all(&self) -> Vec<Arc<OpenFile>> {
        std::mem::take(&mut *self.places.write()).into_iter().flatten().collect()
    }
}
