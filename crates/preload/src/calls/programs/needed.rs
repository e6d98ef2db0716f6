//! The libraries a program needs from its start on, where they lie in the store: the dynamic loader maps them before
//! this library is there to serve it.
//!
//! So the exec looks for them where the loader would (the run paths of the object that needs them, `LD_LIBRARY_PATH`), and they are
//! handed over as memory files, which links in folders of the kernel's lead to; `LD_LIBRARY_PATH` begins with those
//! folders until the program starts. A library found in the kernel's tree first is left to the loader. A file of the store that
//! needs one by a path in the store is copied as if it needed one of that name.

use crate::call::Failure;
use crate::calls::paths::{links, store_path};
use crate::calls::programs::copies;
use crate::calls::programs::library_search::{
    FoundLibrary, dynamic_of, dynamic_of_kernels, look_at, look_by_path,
};
use crate::calls::programs::program_file::{Location, ProgramFile};
use crate::calls::programs::variables::Variable;
use crate::memory::user_memory;
use crate::patch::binaries::elf::Dynamic;
use crate::process::inheritance::written::Library;
use crate::starting::handed_over::HandedOver;
use crate::{patch, process};
use std::ffi::CString;
use std::os::fd::{AsRawFd as _, OwnedFd};

/// Most libraries of one program.
const LIBRARIES_MAX: usize = 256;

/// The variable with the folders the loader searches.
pub const VARIABLE: &[u8] = b"LD_LIBRARY_PATH";

const VALUE_BYTES_MAX: usize = 1 << 16;

/// The loader puts this for `$LIB`.
const LIBRARY_FOLDER: &[u8] = b"lib/x86_64-linux-gnu";

/// A file that names what it needs.
struct Object {
    dynamic: Dynamic,
    /// Its folder.
    origin: Vec<u8>,
    /// The run paths of the object that needs it, and of those that need that one, as far as they hold for others.
    inherited: Vec<Vec<u8>>,
}

/// Copies of the libraries in the store that `program` needs, to survive the exec; `variables` are those it will have.
pub fn libraries(program: &ProgramFile, variables: &[Variable]) -> Result<Vec<Library>, Failure> {
    let library_path = library_path(variables);
    let leads_to_store = |folder: &Vec<u8>| {
        let folder = below(folder, b".");
        store_path::locate_bytes(libc::AT_FDCWD, &folder).is_ok()
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
                // A file of the kernel's is not copied, and says where its libraries are.
                false if next == 0 && !is_copied => continue,
                false => look_by_path(&library.name)?,
            };
            if let FoundLibrary::Store(file, path) = found {
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
    /// The folders that the loader searches for the libraries this one needs, after their own.
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
fn look_for(needs: &Object, library_path: &[Vec<u8>], name: &[u8]) -> Result<FoundLibrary, Failure> {
    let behind = needs.dynamic.runpath.as_deref().map(|list| needs.folders(list));
    let before = if behind.is_none() { needs.for_others() } else { Vec::new() };
    for folder in before.iter().chain(library_path).chain(behind.iter().flatten()) {
        let path = below(folder, name);
        match look_at(path.clone())? {
            FoundLibrary::Nowhere => {}
            FoundLibrary::Store(file, _) => return Ok(FoundLibrary::Store(file, path)),
            FoundLibrary::Kernel => return Ok(FoundLibrary::Kernel),
        }
    }
    Ok(FoundLibrary::Nowhere)
}

fn folder_of(path: &[u8]) -> Vec<u8> {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(0) => b"/".to_vec(),
        Some(end) => path[..end].to_vec(),
        None => b".".to_vec(),
    }
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
