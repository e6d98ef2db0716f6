//! The dynamic loader's memory of the program, of the libraries it was started with, and of the folders it searched,
//! put right where it could not know better: it did all that before this library was there to serve it.
//!
//! | what the loader takes for granted | what it is told |
//! |---|---|
//! | a folder that was not there when the program started never will be | look again |
//! | run paths without any folder that was there lead nowhere | look again |
//! | a program of the store lies where its copy does (`$ORIGIN`) | where it lies |
//! | a library of the store is the copy it was handed over as | its path, its folder, its identity |
//!
//! The first part of its records (`struct link_map` in `<link.h>`) is public. The rest differs from version to version, so
//! it is found by what it says of this library, and a word is changed only where everything around it is what it must be.
//! A loader in which nothing is found is left as it is: it finds what lies in the kernel's tree, and no more.

use crate::calls::attributes::device;
use crate::descriptors::working_directory;
use crate::memory::user_memory::{self, Plain};
use crate::starting::handed_over::HandedOver;
use crate::{arch, process};
use std::ffi::{CStr, CString, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::atomic::{AtomicUsize, Ordering};

const WORD: usize = size_of::<usize>();

const PAGE_BYTES: usize = 4096;

/// Most words of a link map, or of the loader's variables, that are looked at.
const WORDS_MAX: usize = 1024;

/// Most libraries, or folders.
const RECORDS_MAX: usize = 4096;

const STRING_BYTES_MAX: usize = 4096;

/// No folders, for good.
const NOWHERE: usize = usize::MAX;

/// The loader's knowledge of a folder.
const UNKNOWN: i32 = 0;

const MISSING: i32 = 1;

const EXISTING: i32 = 2;

/// A folder has one state for each kind of processor whose libraries may have folders of their own.
const STATES_MAX: usize = 64;

const DT_NULL: usize = 0;

const DT_RPATH: usize = 15;

const DT_RUNPATH: usize = 29;

const DT_VERSYM: usize = 0x6fff_fff0;

/// Puts right what the loader knows. `is_told_folders` says whether it was started with `LD_LIBRARY_PATH`. Call in the
/// constructor: no other thread uses the loader then.
pub fn correct(libraries: &[HandedOver], is_told_folders: bool) {
    if !is_told_folders && libraries.is_empty() && !program_has_run_path() {
        return;
    }
    let maps = maps();
    look_at_folders_again(libraries);
    let Some(layout) = maps.iter().find_map(Layout::of) else { return };
    for (index, map) in maps.iter().enumerate() {
        if !layout.fits(map) {
            continue;
        }
        let name = map.name().unwrap_or_default();
        let handed_over = libraries.iter().find(|library| {
            let rest = name.strip_prefix(&library.folder[..]);
            rest.is_some_and(|rest| rest.first() == Some(&b'/') && !rest[1..].contains(&b'/'))
        });
        let is_moved = match (handed_over, process::program()) {
            (Some(library), _) => layout.rename(map, library),
            (None, Some(program)) if index == 0 => layout.set_origin(map, folder_of(program)),
            _ => false,
        };
        layout.search_again(map, is_moved);
    }
}

/// One file the loader has mapped.
#[derive(Clone, Copy)]
struct LinkMap(usize);

impl LinkMap {
    fn word(&self, place: usize) -> Option<usize> {
        read(self.0 + place * WORD)
    }

    fn set_word(&self, place: usize, value: usize) {
        // The word that was read there is memory of the loader's that it writes, too.
        let _ = user_memory::write(self.0 + place * WORD, &value);
    }

    fn name(&self) -> Option<Vec<u8>> {
        string(self.word(1)?)
    }

    /// The value of an entry of its dynamic section.
    fn dynamic(&self, tag: usize) -> Option<usize> {
        let section = self.word(2)?;
        let entries = (0..WORDS_MAX).map_while(|index| read::<[usize; 2]>(section + index * 2 * WORD));
        let mut entries = entries.take_while(|[found, _]| *found != DT_NULL);
        entries.find(|[found, _]| *found == tag).map(|[_, value]| value)
    }
}

/// Whether the program has run paths. Every start asks: so this one thing is read where the loader tells it is.
fn program_has_run_path() -> bool {
    extern "C" fn visit(info: *mut libc::dl_phdr_info, _size: usize, found: *mut c_void) -> i32 {
        const LAST: i32 = 1;
        // SAFETY: the loader hands over headers of the program it has mapped; `found` is the caller's.
        unsafe {
            let headers = std::slice::from_raw_parts((*info).dlpi_phdr, usize::from((*info).dlpi_phnum));
            let dynamic = headers.iter().find(|header| header.p_type == libc::PT_DYNAMIC);
            let section = dynamic.map_or(&[][..], |header| {
                let start = ((*info).dlpi_addr + header.p_vaddr) as *const [usize; 2];
                std::slice::from_raw_parts(start, header.p_memsz as usize / size_of::<[usize; 2]>())
            });
            let entries = section.iter().map(|[tag, _]| *tag);
            let mut entries = entries.take_while(|tag| *tag != DT_NULL);
            *found.cast::<bool>() = entries.any(|tag| matches!(tag, DT_RPATH | DT_RUNPATH));
        }
        LAST
    }
    let mut found = false;
    // SAFETY: visited before this returns, which is before anything is unloaded. The program comes first.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut found).cast()) };
    found
}

/// All files that are mapped, the program first.
fn maps() -> Vec<LinkMap> {
    let first = symbol(c"_r_debug").and_then(|(debug, _)| read::<usize>(debug + WORD));
    let next = |map: &LinkMap| map.word(3).filter(|next| *next != 0).map(LinkMap);
    std::iter::successors(first.filter(|map| *map != 0).map(LinkMap), next).take(RECORDS_MAX).collect()
}

/// Where a variable of the loader's is, and how long.
fn symbol(name: &CStr) -> Option<(usize, usize)> {
    /// `dladdr1` answers with the symbol's entry.
    const RTLD_DL_SYMENT: i32 = 1;
    unsafe extern "C" {
        fn dladdr1(
            address: *const c_void,
            info: *mut libc::Dl_info,
            extra: *mut *mut c_void,
            flags: i32,
        ) -> i32;
    }
    // SAFETY: a valid name.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if address.is_null() {
        return None;
    }
    // SAFETY: made of pointers, for which zero is valid.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    let mut entry: *mut c_void = std::ptr::null_mut();
    // SAFETY: both places are of the kinds that are written.
    let is_found = unsafe { dladdr1(address, &raw mut info, &raw mut entry, RTLD_DL_SYMENT) } != 0;
    if !is_found || entry.is_null() {
        return None;
    }
    // SAFETY: the loader's own entry for the symbol.
    let length = unsafe { (*entry.cast::<libc::Elf64_Sym>()).st_size };
    Some((address as usize, length as usize))
}

/// Where a link map has what is not public, in words.
#[derive(Clone, Copy)]
struct Layout {
    /// `l_file_id`: device and inode. Behind it stand the folders of the file's `DT_RUNPATH`, and whether they are to be freed.
    identity: usize,
    /// `l_origin`: the folder of the file. Before it stand the folders of its `DT_RPATH`, whether they are to be freed, what is
    /// kept of relocations, and where its versions are.
    origin: usize,
}

/// Where the folders of run paths stand, from the identity and from the origin.
const RUNPATH_BEHIND_IDENTITY: usize = 2;

const RPATH_BEFORE_ORIGIN: usize = 4;

impl Layout {
    /// As it is found in the map of a file of the kernel's that has a path, and versions.
    fn of(map: &LinkMap) -> Option<Self> {
        let name = map.name().filter(|name| name.first() == Some(&b'/'))?;
        let stat = rustix::fs::stat(&name[..]).ok()?;
        let words: Vec<usize> = (0..WORDS_MAX / 4).map_while(|place| map.word(place)).collect();
        let identity = words.windows(2).position(|pair| pair == [stat.st_dev as usize, stat.st_ino as usize]);
        let base = map.word(0)?;
        let versions = map.dynamic(DT_VERSYM)?;
        let is_versions = |word: &usize| *word == versions || *word == base.wrapping_add(versions);
        let has_origin = |place: &usize| string(words[*place]).is_some_and(|it| it == folder_of(&name));
        let origins =
            words.iter().enumerate().filter(|(_, word)| is_versions(word)).map(|(place, _)| place + 1);
        let origin = origins.filter(|place| *place < words.len()).find(has_origin)?;
        Some(Self { identity: identity?, origin })
    }

    /// Whether `map` is of this layout.
    fn fits(&self, map: &LinkMap) -> bool {
        let has_versions = match (map.dynamic(DT_VERSYM), map.word(self.origin - 1), map.word(0)) {
            (Some(versions), Some(word), Some(base)) => {
                word == versions || word == base.wrapping_add(versions)
            }
            (None, Some(word), _) => word == 0,
            _ => false,
        };
        has_versions && self.run_paths().into_iter().all(|place| is_list_of_folders(map, place))
    }

    fn run_paths(&self) -> [usize; 2] {
        [self.identity + RUNPATH_BEHIND_IDENTITY, self.origin - RPATH_BEFORE_ORIGIN]
    }

    /// The map gets the path of the file in the store, and is that file.
    fn rename(&self, map: &LinkMap, library: &HandedOver) -> bool {
        let Ok(path) = CString::new(&library.path[..]) else { return false };
        map.set_word(1, path.into_raw() as usize);
        map.set_word(self.identity, device::device() as usize);
        map.set_word(self.identity + 1, library.inode as usize);
        let path = match library.path.first() {
            Some(b'/') => library.path.clone(),
            _ => [&working_folder()[..], b"/", &library.path].concat(),
        };
        self.set_origin(map, folder_of(&path))
    }

    fn set_origin(&self, map: &LinkMap, folder: &[u8]) -> bool {
        let Ok(folder) = CString::new(folder) else { return false };
        map.set_word(self.origin, folder.into_raw() as usize);
        true
    }

    /// Run paths without any folder, or with folders beside another place, are taken apart again when they are needed.
    fn search_again(&self, map: &LinkMap, is_moved: bool) {
        for (place, tag) in self.run_paths().into_iter().zip([DT_RUNPATH, DT_RPATH]) {
            let is_stale = is_moved || map.word(place) == Some(NOWHERE);
            if is_stale && map.dynamic(tag).is_some() {
                map.set_word(place, 0);
            }
        }
    }
}

/// Whether a word is none, for good or not, or leads to folders.
fn is_list_of_folders(map: &LinkMap, place: usize) -> bool {
    match map.word(place) {
        Some(0 | NOWHERE) => true,
        Some(list) => read::<usize>(list).is_some_and(|first| first == 0 || Folder::at(first).is_some()),
        None => false,
    }
}

/// A folder that libraries are looked for in: `struct r_search_path_elem`.
struct Folder {
    next: usize,
    /// Its path, with a slash behind it.
    path: Vec<u8>,
    states: Vec<usize>,
}

impl Folder {
    /// The one whose record is at `address`, if one is.
    fn at(address: usize) -> Option<Self> {
        const HEAD_WORDS: usize = 5;
        const REASONS: [&[u8]; 4] = [b"LD_LIBRARY_PATH", b"RPATH", b"RUNPATH", b"system search path"];
        if !address.is_multiple_of(WORD) {
            return None;
        }
        let [next, why, _, name, length]: [usize; HEAD_WORDS] = read(address)?;
        if !REASONS.contains(&&string(why)?[..]) {
            return None;
        }
        let path = string(name)?;
        if path.len() != length || path.last().is_some_and(|byte| *byte != b'/') {
            return None;
        }
        let states = address + HEAD_WORDS * WORD;
        // The name stands behind them, but for folders the loader knows by itself.
        let count = name.checked_sub(states).map_or(0, |bytes| bytes / size_of::<i32>());
        let count = if count > STATES_MAX { 0 } else { count };
        Some(Self { next, path, states: (0..count).map(|index| states + index * size_of::<i32>()).collect() })
    }

    /// Puts `to` in the place of `from`.
    fn change_states(&self, from: i32, to: i32) {
        let known = |state: &usize| read::<i32>(*state).is_some_and(|it| (UNKNOWN..=EXISTING).contains(&it));
        if self.states.iter().all(known) {
            for state in self.states.iter().filter(|state| read(**state) == Some(from)) {
                let _ = user_memory::write(*state, &to);
            }
        }
    }
}

/// Folders that were missing are looked for again; those that were there for the sake of `libraries` alone are not.
fn look_at_folders_again(libraries: &[HandedOver]) {
    let Some((variables, length)) = symbol(c"_rtld_global") else { return };
    let words = (0..(length / WORD).min(WORDS_MAX)).filter_map(|index| read(variables + index * WORD));
    let all = words.filter_map(|word: usize| if word == 0 { None } else { chain(word) });
    for folder in all.max_by_key(Vec::len).unwrap_or_default() {
        let path = folder.path.strip_suffix(b"/").unwrap_or(&folder.path);
        match libraries.iter().any(|library| library.folder == path) {
            true => folder.change_states(EXISTING, MISSING),
            false => folder.change_states(MISSING, UNKNOWN),
        }
    }
}

/// The folders from the one at `first` on, if that is one, and all others are.
fn chain(first: usize) -> Option<Vec<Folder>> {
    let mut folders = vec![Folder::at(first)?];
    while let Some(next) = folders.last().map(|folder| folder.next).filter(|next| *next != 0) {
        folders.push(Folder::at(next)?);
        if folders.len() > RECORDS_MAX {
            return None;
        }
    }
    Some(folders)
}

/// The value at `address`, if that can be read.
fn read<T: Plain>(address: usize) -> Option<T> {
    let last = address.checked_add(size_of::<T>() - 1)?;
    if is_readable(address) && is_readable(last) { user_memory::read(address).ok() } else { None }
}

fn string(address: usize) -> Option<Vec<u8>> {
    let page_end = address.checked_add(1)?.checked_next_multiple_of(PAGE_BYTES)?;
    let limit = if is_readable(page_end) { STRING_BYTES_MAX } else { page_end - address };
    if is_readable(address) { user_memory::read_string(address, limit).ok()? } else { None }
}

/// Whether the page at `address` can be read. Reading it would tell, too, but debuggers stop at faults. Of the last page
/// that could be read it does not ask again: the loader's records lie close together, and it takes none of them away meanwhile.
fn is_readable(address: usize) -> bool {
    static LAST: AtomicUsize = AtomicUsize::new(0);
    const NO_CHANGE: usize = usize::MAX;
    let page = address / PAGE_BYTES * PAGE_BYTES;
    if page == 0 || page == LAST.load(Ordering::Relaxed) {
        return page != 0;
    }
    let arguments = [NO_CHANGE, page, 0, size_of::<u64>(), 0, 0];
    // SAFETY: the mask is read, and then nothing is changed, since no change has this number.
    let answer = unsafe { arch::syscall(libc::SYS_rt_sigprocmask as usize, arguments) };
    let is_readable = answer == -(libc::EINVAL as isize);
    if is_readable {
        LAST.store(page, Ordering::Relaxed);
    }
    is_readable
}

fn folder_of(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(0) | None => b"/",
        Some(end) => &path[..end],
    }
}

/// Where the program was started.
fn working_folder() -> Vec<u8> {
    match (working_directory::name(), process::configuration()) {
        (Some(name), Ok(configuration)) => [&configuration.prefix[..], &name].concat(),
        _ => std::env::current_dir().map(|path| path.as_os_str().as_bytes().to_vec()).unwrap_or_default(),
    }
}
