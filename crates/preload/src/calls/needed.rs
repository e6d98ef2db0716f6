//! The libraries a program needs from its start on, where they lie in the store: the dynamic loader maps them before
//! this library is there to serve it.
//!
//! So they are looked for at the exec, where the loader would (the run paths of who needs them, `LD_LIBRARY_PATH`), and
//! handed over as memory files, which links in folders of the kernel's lead to; `LD_LIBRARY_PATH` begins with those
//! folders until the program starts. What is found in the kernel's tree first is left to the loader. A file of the store that
//! needs one by a path in the store is copied as if it needed one of that name.

use std::ffi::CString;
use std::os::fd::{AsRawFd as _, OwnedFd};

use crate::store::OpenFile;
use cuesta_format::FileKind;
use rustix::fs::{Access, CWD, Mode, OFlags};

use super::program_file::{Location, ProgramFile};
use super::variables::Variable;
use super::{Failure, copies, links, memory, path};
use crate::inheritance::Library;
use crate::link_maps::HandedOver;
use crate::patch::elf::{Dynamic, Elf};
use crate::{credentials, patch, process, user_memory};

/// Most libraries of one program.
const LIBRARIES_MAX: usize = 256;
/// The variable with the folders the loader searches.
pub const VARIABLE: &[u8] = b"LD_LIBRARY_PATH";
const VALUE_BYTES_MAX: usize = 1 << 16;
/// What the loader puts for `$LIB`.
const LIBRARY_FOLDER: &[u8] = b"lib/x86_64-linux-gnu";

/// A file that names what it needs.
struct Object {
    dynamic: Dynamic,
    /// Its folder.
    origin: Vec<u8>,
    /// The run paths of who needs it, and of who needs that, as far as they are for others.
    inherited: Vec<Vec<u8>>,
}

/// Where something of that name is.
enum Found {
    /// In the store, and the path it was looked for at.
    Store(OpenFile, Vec<u8>),
    /// Left to the loader.
    Kernel,
    Nowhere,
}

/// Copies of the libraries in the store that `program` needs, to survive the exec; `variables` are those it will have.
pub fn libraries(program: &ProgramFile, variables: &[Variable]) -> Result<Vec<Library>, Failure> {
    let library_path = library_path(variables);
    let leads_to_store = |folder: &Vec<u8>| {
        let folder = below(folder, b".");
        path::locate_bytes(libc::AT_FDCWD, &folder).is_ok()
            || links::into_store(libc::AT_FDCWD, &folder, true).is_some()
    };
    let dynamic = match &program.location {
        Location::Store(file, _) => dynamic_of(file),
        Location::Kernel(path) if library_path.iter().any(leads_to_store) => dynamic_of_kernels(path),
        Location::Kernel(_) => None,
    };
    let Some(dynamic) = dynamic else { return Ok(Vec::new()) };
    let is_copied = matches!(program.location, Location::Store(..));
    let mut objects = vec![Object { dynamic, origin: folder_of(program.path()), inherited: Vec::new() }];
    let (mut seen, mut libraries) = (Vec::new(), Vec::new());
    let mut next = 0;
    while next < objects.len() && libraries.len() < LIBRARIES_MAX {
        let needed = std::mem::take(&mut objects[next].dynamic.needed);
        for library in needed {
            let name = library.file_name().to_vec();
            // These characters divide folders.
            if name.iter().any(|byte| matches!(byte, b':' | b';')) || seen.contains(&name) {
                continue;
            }
            let found = match library.name.len() == name.len() {
                true => look_for(&objects[next], &library_path, &name)?,
                // What is the kernel's is not copied, and says where its libraries are.
                false if next == 0 && !is_copied => continue,
                false => look_by_path(&library.name)?,
            };
            if let Found::Store(file, path) = found {
                let copy = copies::of_library(&file);
                let dynamic = dynamic_of(&file).unwrap_or_default();
                let inode = file.inode().0;
                process::client()?.close(file)?;
                libraries.extend(handed_over(&name, copy?, &path, inode));
                let inherited = objects[next].for_others();
                objects.push(Object { dynamic, origin: folder_of(&path), inherited });
            }
            seen.push(name);
        }
        next += 1;
    }
    Ok(libraries)
}

/// What AddressSanitizer's runtime reads; the first of the libraries must be its own, unless this says otherwise.
pub const SANITIZER_VARIABLE: &[u8] = b"ASAN_OPTIONS";
const SANITIZER_NAMES: [&[u8]; 2] = [b"libasan.so", b"libclang_rt.asan"];
const SANITIZER_OPTION: &[u8] = b"verify_asan_link_order=0";

/// Whether `program` needs AddressSanitizer's runtime, which would refuse to come behind this library.
pub fn needs_sanitizer(program: &ProgramFile) -> bool {
    let dynamic = match &program.location {
        Location::Store(file, _) => dynamic_of(file),
        Location::Kernel(path) => dynamic_of_kernels(path),
    };
    let is_sanitizer = |name: &[u8]| SANITIZER_NAMES.iter().any(|start| name.starts_with(start));
    dynamic.is_some_and(|dynamic| dynamic.needed.iter().any(|library| is_sanitizer(library.file_name())))
}

/// The runtime's variable as it gets it; `before` is the address of the one there was.
pub fn sanitizer_variable(before: Option<usize>) -> Result<CString, Failure> {
    let at =
        |address| user_memory::read_string(address + SANITIZER_VARIABLE.len() + 1, VALUE_BYTES_MAX).ok()?;
    let mut options: Vec<Vec<u8>> = before.and_then(at).into_iter().filter(|text| !text.is_empty()).collect();
    options.push(SANITIZER_OPTION.to_vec());
    let text = [SANITIZER_VARIABLE, b"=", &options.join(&b':')].concat();
    CString::new(text).map_err(|_| Failure::Errno(libc::EINVAL))
}

/// Without a place for the link the loader says what it does not find.
fn handed_over(name: &[u8], copy: OwnedFd, path: &[u8], inode: u64) -> Option<Library> {
    let folder = patch::remembered_cache()?.folder_with_link(name, copy.as_raw_fd())?;
    Some(Library { copy, original: HandedOver { folder, path: path.to_vec(), inode } })
}

/// `LD_LIBRARY_PATH` as the loader gets it; `before` is the address of the one there was.
pub fn variable(libraries: &[Library], before: Option<usize>) -> Result<CString, Failure> {
    let mut folders: Vec<Vec<u8>> = libraries.iter().map(|library| library.original.folder.clone()).collect();
    folders.extend(before.map(|address| value(address).unwrap_or_default()));
    let value = [VARIABLE, b"=", &folders.join(&b':')].concat();
    CString::new(value).map_err(|_| Failure::Errno(libc::EINVAL))
}

/// What stands behind the name of the variable at `address`.
fn value(address: usize) -> Option<Vec<u8>> {
    user_memory::read_string(address + VARIABLE.len() + 1, VALUE_BYTES_MAX).ok()?
}

impl Object {
    /// What the loader searches for those this one needs, after their own.
    fn for_others(&self) -> Vec<Vec<u8>> {
        let own = self.dynamic.rpath.as_deref().filter(|_| self.dynamic.runpath.is_none());
        let mut folders = own.map(|list| self.folders(list)).unwrap_or_default();
        folders.extend(self.inherited.iter().cloned());
        folders
    }

    fn folders(&self, list: &[u8]) -> Vec<Vec<u8>> {
        let expand = |folder: &[u8]| {
            let mut expanded = folder.to_vec();
            for (name, value) in [
                (&b"${ORIGIN}"[..], &self.origin[..]),
                (b"$ORIGIN", &self.origin),
                (b"${LIB}", LIBRARY_FOLDER),
                (b"$LIB", LIBRARY_FOLDER),
            ] {
                expanded = replaced(&expanded, name, value);
            }
            expanded
        };
        list.split(|byte| *byte == b':').map(expand).collect()
    }
}

fn replaced(text: &[u8], name: &[u8], value: &[u8]) -> Vec<u8> {
    match text.windows(name.len()).position(|window| window == name) {
        Some(at) => [&text[..at], value, &replaced(&text[at + name.len()..], name, value)].concat(),
        None => text.to_vec(),
    }
}

/// Looks where the loader does, in its order.
fn look_for(needs: &Object, library_path: &[Vec<u8>], name: &[u8]) -> Result<Found, Failure> {
    let behind = needs.dynamic.runpath.as_deref().map(|list| needs.folders(list));
    let before = if behind.is_none() { needs.for_others() } else { Vec::new() };
    for folder in before.iter().chain(library_path).chain(behind.iter().flatten()) {
        let path = below(folder, name);
        match look_at(path.clone())? {
            Found::Nowhere => {}
            Found::Store(file, _) => return Ok(Found::Store(file, path)),
            Found::Kernel => return Ok(Found::Kernel),
        }
    }
    Ok(Found::Nowhere)
}

/// A path that leads to the store as it stands, from wherever it is looked at.
fn look_by_path(path: &[u8]) -> Result<Found, Failure> {
    match path.first() {
        Some(b'/') if path::locate_bytes(libc::AT_FDCWD, path).is_ok() => look_at(path.to_vec()),
        _ => Ok(Found::Kernel),
    }
}

/// What a copy of `file` has to say otherwise, so that its loader looks for the libraries that it needs by paths in the
/// store: words, and where they stand.
pub fn changes_of_copy(file: &OpenFile) -> Vec<(u64, u64)> {
    let needed = dynamic_of(file).unwrap_or_default().needed;
    let is_found = |path: &[u8]| match look_by_path(path) {
        Ok(Found::Store(file, _)) => process::client().is_ok_and(|client| client.close(file).is_ok()),
        _ => false,
    };
    needed.iter().filter(|library| is_found(&library.name)).map(|library| library.without_folder()).collect()
}

fn look_at(path: Vec<u8>) -> Result<Found, Failure> {
    let place = match path::locate_bytes(libc::AT_FDCWD, &path) {
        Ok(place) => place,
        Err(Failure::NotOurs) => {
            let exists =
                rustix::fs::accessat(CWD, &path[..], Access::EXISTS, rustix::fs::AtFlags::empty()).is_ok();
            return match exists {
                true if !links::must_look_first() => Ok(Found::Kernel),
                _ => match links::into_store(libc::AT_FDCWD, &path, true) {
                    Some(path) => look_at(path),
                    None if exists => Ok(Found::Kernel),
                    None => Ok(Found::Nowhere),
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
            Ok(Found::Kernel)
        }
        Ok(file) => Ok(Found::Store(file, path)),
        // The loader could not follow it out of the store, either: a copy of what is there would not be looked for.
        Err(_) => Ok(Found::Nowhere),
    }
}

fn folder_of(path: &[u8]) -> Vec<u8> {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(0) => b"/".to_vec(),
        Some(end) => path[..end].to_vec(),
        None => b".".to_vec(),
    }
}

/// The build of a program or library of the store.
pub fn build_id(file: &OpenFile) -> Option<Vec<u8>> {
    let read = |at, bytes: &mut [u8]| memory::read_exactly(file, at, bytes);
    Elf::of_file(&read)?.build_id(&read)
}

fn dynamic_of(file: &OpenFile) -> Option<Dynamic> {
    let read = |at, bytes: &mut [u8]| memory::read_exactly(file, at, bytes);
    Elf::of_file(&read)?.dynamic(&read)
}

fn dynamic_of_kernels(path: &[u8]) -> Option<Dynamic> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let read = |at, bytes: &mut [u8]| memory::read_kernels(&file, at, bytes);
    Elf::of_file(&read)?.dynamic(&read)
}

/// The folders of `LD_LIBRARY_PATH`.
fn library_path(variables: &[Variable]) -> Vec<Vec<u8>> {
    let path = variables.iter().find(|variable| variable.is_named(VARIABLE));
    let value = path.and_then(|variable| value(variable.address));
    let value = value.filter(|value| !value.is_empty());
    value
        .map(|value| value.split(|byte| matches!(byte, b':' | b';')).map(<[u8]>::to_vec).collect())
        .unwrap_or_default()
}

/// The path of `name` in a folder of a list, as the loader tells it; a folder without a name is the working directory.
fn below(folder: &[u8], name: &[u8]) -> Vec<u8> {
    let end = folder.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    match folder.is_empty() {
        true => name.to_vec(),
        false => [&folder[..end], name].join(&b'/'),
    }
}
