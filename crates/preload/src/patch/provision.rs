//! A loader of ours gives the programs it starts the C library as a whole file (`whole`), by a list of libraries
//! (`library_list`) that leads there. Both lie in the cache's folder, and stay there for the processes to come. The
//! loader itself is a whole file then, too.

use std::ffi::{CStr, CString};

use rustix::fs::{Mode, OFlags, open};

use crate::patch::binaries::elf::Elf;
use crate::patch::binaries::image::{Image, Loaded};
use crate::patch::binaries::{library_list, namesake};
use crate::patch::cache::own_file::Descriptor;
use crate::patch::cache::sites::read_exactly;
use crate::patch::{remembered_cache, whole};
use crate::process;

/// The first part of the name of a list of libraries.
const LIST: &[u8] = b"libraries";
/// The library that is whole.
const LIBRARY: &[u8] = b"libc.so.6";

/// A list of libraries, and what it was made of.
#[derive(Debug)]
pub struct Provision {
    /// Where the list is.
    pub list: CString,
    /// Files that must be what they are for the list to be good.
    pub relied_on: Vec<CString>,
}

impl Provision {
    /// Makes what is not there; `None` if it cannot be, or if it would not be understood.
    pub fn make() -> Option<Self> {
        let cache = remembered_cache()?;
        let loaded = Loaded::now();
        let library = loaded.images.iter().find(|image| file_name(image.path.to_bytes()) == LIBRARY)?;
        let own_path = CString::new(process::preload_path()?).ok()?;
        // The next program has the one that lies there.
        if build_id_of(&own_path)? != loaded.own_build_id {
            return None;
        }
        let original = whole::read_original(library.path)?;
        if !is_understood(&loaded, library, &original) {
            return None;
        }
        let copy = original.in_its_place(&cache, loaded.own_build_id)?;
        let before = whole::read_file(library_list::PATH)?.0;
        let list = library_list::with_library_at(&before, library.path.to_bytes(), copy.to_bytes())?;
        let list = cache.provide(LIST, &list)?;
        let relied_on = vec![library_list::PATH.to_owned(), library.path.to_owned(), own_path, copy];
        Some(Self { list, relied_on })
    }
}

/// The loader `original`, of which `answering` is a copy that answers itself, as a whole file; `None` if it cannot be.
/// Programs that have it must be given a whole library, too: one owner looks after both.
pub fn whole_loader(answering: &[u8], original: &[u8]) -> Option<Vec<u8>> {
    whole::loader(answering, original, &remembered_cache()?, Loaded::now().own_build_id)
}

/// Whether this process's loader has noted its library the way that programs to come will look for.
fn is_understood(loaded: &Loaded, library: &Image, original: &whole::Original<'_>) -> bool {
    let number = (original.stat.st_dev, original.stat.st_ino);
    namesake::notes_number(loaded.dynamic, library.base, number)
}

fn build_id_of(path: &CStr) -> Option<Vec<u8>> {
    let file = Descriptor::new(open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?);
    let read = |offset: u64, bytes: &mut [u8]| read_exactly(&file, bytes, offset);
    Elf::of_file(&read)?.build_id(&read)
}

fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}
