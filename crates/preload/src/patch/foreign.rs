//! Programs and libraries outside the C library's family that make system calls themselves: those loaded with the
//! program, and each one that is mapped later, before any of its code can run.
//!
//! Nearly none has a site. Their build-ids are kept in one file of the cache, so that a start or a `dlopen` costs a
//! look into it; the sites of the others are kept as those of the C library are.

use std::sync::{Mutex, PoisonError};

use crate::arch::{Slots, sweep_sparse};
use crate::patch::binaries::elf::{Elf, Functions, Read};
use crate::patch::binaries::image::{Image, Segment};
use crate::patch::cache::remembered::remembered_cache;
use crate::patch::cache::sites::{Cache, CacheOnDemand};
use crate::patch::writing::{is_site, is_wanted, patch_image};
use crate::patch::{Report, Site, whole};
use crate::process;

/// The part of a build-id that is kept.
type Key = [u8; 16];

/// Builds known to have no site.
static KNOWN: Mutex<Option<Vec<Key>>> = Mutex::new(None);

/// Patches what was loaded with the program.
pub fn patch_loaded(images: &[Image], cache: &CacheOnDemand<'_>, report: &mut Report) {
    for image in images {
        let cache = cache.get();
        let read = |address: u64, bytes: &mut [u8]| image.read(address, bytes);
        let mut table = None;
        let function = |address: u64| {
            let functions = || Functions::read(image.exception_header? as u64, &read);
            table.get_or_insert_with(functions).as_ref()?.find(address, &read)
        };
        patch(image, image.build_id, cache, report, function);
    }
}

/// Patches code just mapped, `length` bytes at `start`, from `offset` of the file that `read` reads.
pub fn patch_mapped(read: Read<'_>, start: usize, length: usize, offset: u64) -> Option<()> {
    let elf = Elf::of_file(read)?;
    let (address, available) = elf.code_at(offset)?;
    let base = start.wrapping_sub(usize::try_from(address).ok()?);
    if let Some(mark) = elf.mark {
        // A second C library, which the loader has from where it has the first. Its stubs are mapped last.
        let is_there = (start..start + length).contains(&(base + mark.identity?));
        // SAFETY: the mapping is code of the file that has this mark, and its variables were mapped before.
        return unsafe { whole::fill(mark, base, is_there) };
    }
    let length = length.min(usize::try_from(available).ok()?);
    let image = Image {
        base,
        end: start + length,
        executable: vec![Segment { start: start.wrapping_sub(base), length, in_file: offset as usize }],
        path: c"",
        build_id: &[],
        exception_header: None,
        mark: None,
    };
    let build_id = elf.build_id(read).unwrap_or_default();
    let mut table = None;
    let function = |address: u64| {
        let functions = table.get_or_insert_with(|| elf.functions(read)).as_ref()?;
        let (from, to) = elf.function(functions, address.wrapping_sub(base as u64), read)?;
        Some((from.wrapping_add(base as u64), to.wrapping_add(base as u64)))
    };
    patch(&image, &build_id, remembered_cache().as_ref(), &mut Report::default(), function);
    Some(())
}

fn patch(
    image: &Image,
    build_id: &[u8],
    cache: Option<&Cache>,
    report: &mut Report,
    function: impl FnMut(u64) -> Option<(u64, u64)>,
) {
    let cache = cache.filter(|_| build_id.len() >= size_of::<Key>());
    if cache.is_some_and(|cache| is_known(cache, build_id)) {
        return;
    }
    let sites = cache.and_then(|cache| cache.load(build_id));
    let sites = match sites.filter(|sites| sites.iter().all(|site| is_site(image, site))) {
        Some(sites) => sites,
        None => find(image, build_id, cache, report, function),
    };
    let wanted: Vec<Site> = sites.into_iter().filter(is_wanted).collect();
    // SAFETY: the sites were found in this image, or are those of its build and verified.
    match unsafe { patch_image(image, &wanted, Slots::new(process::forked_flag())) } {
        Some(()) => report.patched_elsewhere += wanted.len(),
        None => report.missed_elsewhere += wanted.len(),
    }
}

fn find(
    image: &Image,
    build_id: &[u8],
    cache: Option<&Cache>,
    report: &mut Report,
    function: impl FnMut(u64) -> Option<(u64, u64)>,
) -> Vec<Site> {
    let mut function = function;
    let (mut sites, mut missed) = (Vec::new(), 0);
    for segment in &image.executable {
        let code = image.code(segment.start, segment.length);
        let (found, unpatchable) = sweep_sparse(code, (image.base + segment.start) as u64, &mut function);
        sites.extend(found.into_iter().map(|site| Site { start: site.start + segment.start as u32, ..site }));
        missed += unpatchable;
    }
    report.missed_elsewhere += missed;
    match cache {
        Some(cache) if sites.is_empty() && missed == 0 => know(cache, build_id),
        Some(cache) => cache.store(build_id, &sites),
        None => {}
    }
    sites
}

fn key(build_id: &[u8]) -> Key {
    let mut key = Key::default();
    key.copy_from_slice(&build_id[..size_of::<Key>()]);
    key
}

/// Whether a program or library of this build is known to have no site, perhaps from another process.
pub fn is_known_without_sites(build_id: &[u8]) -> bool {
    if build_id.len() < size_of::<Key>() {
        return false;
    }
    let Some(cache) = remembered_cache() else { return false };
    if is_known(&cache, build_id) {
        return true;
    }
    let now = cache.load_known();
    let is_known_now = now.contains(&key(build_id));
    *KNOWN.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
    is_known_now
}

fn is_known(cache: &Cache, build_id: &[u8]) -> bool {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known.get_or_insert_with(|| cache.load_known()).contains(&key(build_id))
}

fn know(cache: &Cache, build_id: &[u8]) {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known.get_or_insert_with(Vec::new).push(key(build_id));
    cache.add_known(&key(build_id));
}
