//! Writing the stubs and the jumps to them, where no copy of the library that has them can be mapped.
//!
//! Runs in the constructor, before the program's own code. Other libraries' constructors may have
//! started threads, so the code stays executable while it is written, and nothing but plain stores
//! happens in between.

use crate::arch::{self, Slots};
use crate::patch::binaries::image::{Image, Loaded};
use crate::patch::binaries::mark::Mark;
use crate::patch::binaries::namesake;
use crate::patch::cache::sites::{Cache, CacheOnDemand};
use crate::patch::copy::{Copies, Mapping};
use crate::patch::page_map::PageMap;
use crate::patch::report::{Program, Report};
use crate::patch::writing::{is_site, is_wanted, patch_image};
use crate::patch::{Site, whole};
use std::mem::ManuallyDrop;

/// Patches the C library family. `forked` is set to 1 in the child of a fork. With `every`, sites
/// with a number of no interest are patched too: only a test of the patcher wants that.
pub fn install(cache: &CacheOnDemand<'_>, program: Program, forked: *const u32, every: bool) -> Report {
    let loaded = ManuallyDrop::new(Loaded::now());
    if let Some(path) = loaded.own_path {
        crate::process::note_library(path);
    }
    whole::know_own_build(loaded.own_build_id);
    let mut report = Report { images: loaded.images.len(), ..Report::default() };
    let mut pages = None;
    for image in &loaded.images {
        if let Some(mark) = image.mark {
            become_whole(&loaded, image, mark, &mut report);
            continue;
        }
        let cache = cache.get();
        let copies = cache.filter(|_| !every);
        let copies = copies.and_then(|cache| Copies::new(cache, image, loaded.own_build_id));
        let mapping = match (&copies, pages.get_or_insert_with(PageMap::open)) {
            (Some(copies), Some(pages)) => copies.map(pages, Slots::new(forked)),
            _ => Mapping::Impossible,
        };
        if let Mapping::Done(counts) = mapping {
            report.mapped += 1;
            report.patched += counts.patched as usize;
            report.left += counts.left as usize;
            continue;
        }
        let sites = sites_of(image, cache, &mut report);
        let wanted: Vec<Site> = sites
            .iter()
            .copied()
            .filter(|site| every && site.number != libc::SYS_rt_sigreturn as u16 || is_wanted(site))
            .collect();
        let left = sites.len() - wanted.len();
        report.left += left;
        if let (Some(copies), Mapping::Absent) = (&copies, mapping) {
            // Best-effort: without a copy the next process patches its own memory, as this one does.
            let _ = copies.write(&wanted, left);
        }
        // SAFETY: `sites_of` has verified that the sites are those of this image.
        match unsafe { patch_image(image, &wanted, Slots::new(forked)) } {
            Some(()) => report.patched += wanted.len(),
            None => report.missed += wanted.len(),
        }
    }
    let known = usize::from(program == Program::IsWithoutSites);
    crate::patch::foreign::patch_loaded(loaded.others.get(known..).unwrap_or_default(), cache, &mut report);
    report
}

/// The image is a whole file of ours: its stubs are there, and wait for their slots.
fn become_whole(loaded: &Loaded, image: &Image, mark: Mark, report: &mut Report) {
    // SAFETY: the loader has mapped the file that has this mark, all of it, and no thread loads a library meanwhile.
    unsafe {
        if whole::fill(mark, image.base, true).is_none() {
            // The process that starts programs checks that this library is the one that wrote the stubs.
            crate::process::report(format_args!(
                "this program was started by another version of Cuesta: start it again"
            ));
            arch::abort();
        }
        if let Some(identity) = mark.identity {
            let _ = namesake::become_original(loaded.dynamic, image.base, image.base + identity);
        }
    }
    report.mapped += 1;
    report.patched += mark.patched as usize;
    report.left += mark.left as usize;
}

fn sites_of(image: &Image, cache: Option<&Cache>, report: &mut Report) -> Vec<Site> {
    let cache = cache.filter(|_| !image.build_id.is_empty());
    if let Some(sites) = cache.and_then(|cache| cache.load(image.build_id))
        && sites.iter().all(|site| is_site(image, site))
    {
        return sites;
    }
    report.swept += 1;
    let starts = image.function_starts();
    let mut sites = Vec::new();
    for segment in &image.executable {
        let address = (image.base + segment.start) as u64;
        let (found, unpatchable) = arch::sweep(image.code(segment.start, segment.length), address, &starts);
        report.missed += unpatchable;
        let offset = segment.start as u32;
        sites.extend(found.into_iter().map(|site| Site { start: site.start + offset, ..site }));
    }
    if let Some(cache) = cache {
        cache.store(image.build_id, &sites);
    }
    sites
}
