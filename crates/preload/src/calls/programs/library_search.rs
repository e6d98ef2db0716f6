//! Where the dynamic loader would find a library, and what an ELF file of the store says.

use crate::call::Failure;
use crate::calls::data::mapping;
use crate::calls::paths::{links, store_path};
use crate::patch::binaries::elf::{Dynamic, Elf};
use crate::process;
use crate::store::OpenFile;
use crate::users::credentials;
use cuesta_format::FileKind;
use rustix::fs::{Access, CWD, Mode, OFlags};

/// Where something of that name is.
pub(crate) enum FoundLibrary {
    /// In the store, and the path it was looked for at.
    Store(OpenFile, Vec<u8>),
    /// Left to the loader.
    Kernel,
    Nowhere,
}

/// A path that leads to the store as it stands, from wherever it is looked at.
pub(crate) fn look_by_path(path: &[u8]) -> Result<FoundLibrary, Failure> {
    match path.first() {
        Some(b'/') if store_path::locate_bytes(libc::AT_FDCWD, path).is_ok() => look_at(path.to_vec()),
        _ => Ok(FoundLibrary::Kernel),
    }
}

/// The words that differ in a copy of `file`, so that its loader looks for the libraries that it needs by paths in the
/// store: each word, and where it stands.
pub fn changes_of_copy(file: &OpenFile) -> Vec<(u64, u64)> {
    let needed = dynamic_of(file).unwrap_or_default().needed;
    let is_found = |path: &[u8]| match look_by_path(path) {
        Ok(FoundLibrary::Store(file, _)) => process::client().is_ok_and(|client| client.close(file).is_ok()),
        _ => false,
    };
    needed.iter().filter(|library| is_found(&library.name)).map(|library| library.without_folder()).collect()
}

pub(crate) fn look_at(path: Vec<u8>) -> Result<FoundLibrary, Failure> {
    let place = match store_path::locate_bytes(libc::AT_FDCWD, &path) {
        Ok(place) => place,
        Err(Failure::NotOurs) => {
            let exists =
                rustix::fs::accessat(CWD, &path[..], Access::EXISTS, rustix::fs::AtFlags::empty()).is_ok();
            return match exists {
                true if !links::must_look_first() => Ok(FoundLibrary::Kernel),
                _ => match links::into_store(libc::AT_FDCWD, &path, true) {
                    Some(path) => look_at(path),
                    None if exists => Ok(FoundLibrary::Kernel),
                    None => Ok(FoundLibrary::Nowhere),
                },
            };
        }
        Err(failure) => return Err(failure),
    };
    let (base, below) = place.located()?;
    match process::client()?.open(&credentials::effective(), base, below, libc::O_RDONLY, 0) {
        // The loader ends its search at a folder, too, and says that there is no such library.
        Ok(file) if file.kind() != FileKind::File => {
            process::client()?.close(file)?;
            Ok(FoundLibrary::Kernel)
        }
        Ok(file) => Ok(FoundLibrary::Store(file, path)),
        // The loader could not follow it out of the store, either: a copy of what is there would not be looked for.
        Err(_) => Ok(FoundLibrary::Nowhere),
    }
}

/// The build of a program or library of the store.
pub fn build_id(file: &OpenFile) -> Option<Vec<u8>> {
    let read = |at, bytes: &mut [u8]| mapping::read_exactly(file, at, bytes);
    Elf::of_file(&read)?.build_id(&read)
}

pub(crate) fn dynamic_of(file: &OpenFile) -> Option<Dynamic> {
    let read = |at, bytes: &mut [u8]| mapping::read_exactly(file, at, bytes);
    Elf::of_file(&read)?.dynamic(&read)
}

pub(crate) fn dynamic_of_kernels(path: &[u8]) -> Option<Dynamic> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let read = |at, bytes: &mut [u8]| mapping::read_kernels(&file, at, bytes);
    Elf::of_file(&read)?.dynamic(&read)
}
