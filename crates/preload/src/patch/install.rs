//! Writing the stubs and the jumps to them, where no copy of the library that has them can be mapped.
//!
//! Runs in the constructor, before the program's own code. Other libraries' constructors may have
//! started threads, so the code stays executable while it is written, and nothing but plain stores
//! happens in between.

use std::mem::ManuallyDrop;

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect};

use super::cache::{Cache, CacheOnDemand};
use super::copy::{Copies, Mapping};
use super::image::{Image, Loaded};
use super::layout::{Layout, PAGE_BYTES, area_bytes};
use super::page_map::PageMap;
use super::whole::Mark;
use super::{Site, UNKNOWN_NUMBER, namesake, whole};
use crate::arch::{self, REACH, Slots};
use crate::filter::{self, CLASS_NEVER};

const SYSCALL: [u8; 2] = [0x0f, 0x05];

/// What was done, for diagnosis and tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Libraries looked at.
    pub images: usize,
    /// Sites patched.
    pub patched: usize,
    /// Sites left alone because their number is known and of no interest.
    pub left: usize,
    /// Sites of interest that cannot be patched.
    pub missed: usize,
    /// Libraries that had to be swept, because no valid cache was found.
    pub swept: usize,
    /// Libraries replaced by a copy patched before.
    pub mapped: usize,
    /// Sites patched in the program and in libraries outside the family.
    pub patched_elsewhere: usize,
    /// Sites there that cannot be patched.
    pub missed_elsewhere: usize,
}

/// What is known of the program, the first of what is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// Nothing.
    IsToBeSearched,
    /// Who started it knows that it makes no system calls itself.
    IsWithoutSites,
}

/// Patches the C library family. `forked` is set to 1 in the child of a fork. With `every`, sites
/// whose number is of no interest are patched too, which only a test of the patcher wants.
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
    super::foreign::patch_loaded(loaded.others.get(known..).unwrap_or_default(), cache, &mut report);
    report
}

/// The image is a whole file of ours: its stubs are there, and wait for their slots.
fn become_whole(loaded: &Loaded, image: &Image, mark: Mark, report: &mut Report) {
    // SAFETY: the loader has mapped the file that has this mark, all of it, and nobody loads a library meanwhile.
    unsafe {
        if whole::fill(mark, image.base, true).is_none() {
            // Who starts programs looks whether this library is the one that wrote the stubs.
            crate::report(format_args!(
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

/// Whether a site can make calls that concern us.
pub fn is_wanted(site: &Site) -> bool {
    site.number == UNKNOWN_NUMBER || filter::class_of(i64::from(site.number)) != CLASS_NEVER
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

/// Whether a remembered site is one in this image.
pub fn is_site(image: &Image, site: &Site) -> bool {
    let (start, length, syscall) = (site.start as usize, usize::from(site.length), usize::from(site.syscall));
    let inside = image
        .executable
        .iter()
        .any(|segment| segment.start <= start && start + length <= segment.start + segment.length);
    inside
        && length >= 5
        && syscall + 2 <= length
        && site.relative.iter().all(|offset| usize::from(*offset) + 4 <= length)
        && image.code(start + syscall, 2) == SYSCALL
}

/// Patches the image where it is mapped.
///
/// # Safety
/// Every site must be a true instruction sequence of the image.
pub unsafe fn patch_image(image: &Image, sites: &[Site], slots: Slots) -> Option<()> {
    if sites.is_empty() {
        return Some(());
    }
    let bytes = area_bytes(sites.len());
    let area = map_near(image, bytes)?;
    let layout = Layout::new(image, sites, area);
    let writable = MprotectFlags::READ | MprotectFlags::WRITE | MprotectFlags::EXEC;
    let executable = MprotectFlags::READ | MprotectFlags::EXEC;
    // SAFETY: the stub area is ours; the image's segments keep their contents but for the sites, which
    // the caller vouches for, and get their protection back.
    unsafe {
        (area as *mut Slots).write(slots);
        let stubs = (area + PAGE_BYTES) as *mut u8;
        core::ptr::copy_nonoverlapping(layout.stubs.as_ptr(), stubs, layout.stubs.len());
        mprotect(area as *mut _, bytes, executable).ok()?;
        for segment in &image.executable {
            let (start, length) = whole_pages(image.base + segment.start, segment.length);
            mprotect(start as *mut _, length, writable).ok()?;
        }
        for (offset, jump) in &layout.jumps {
            let address = (image.base + offset) as *mut u8;
            core::ptr::copy_nonoverlapping(jump.as_ptr(), address, jump.len());
        }
        for segment in &image.executable {
            let (start, length) = whole_pages(image.base + segment.start, segment.length);
            let _ = mprotect(start as *mut _, length, executable);
        }
    }
    Some(())
}

/// The whole pages that hold a range.
pub fn whole_pages(address: usize, length: usize) -> (usize, usize) {
    let start = address / PAGE_BYTES * PAGE_BYTES;
    (start, (address + length - start).next_multiple_of(PAGE_BYTES))
}

/// Maps `bytes` within reach of the whole image.
fn map_near(image: &Image, bytes: usize) -> Option<usize> {
    let reachable = |address: usize| {
        address.abs_diff(image.base) < REACH && (address + bytes).abs_diff(image.end) < REACH
    };
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // Mostly the kernel's own choice is near; else ask for places ever further below and above.
    let steps = (0..64).map(|step| (step + 1) * (REACH / 128));
    let hints = core::iter::once(0)
        .chain(steps.clone().map(|step| image.base.saturating_sub(step)))
        .chain(steps.map(|step| image.end + step));
    for hint in hints {
        let hint = hint / PAGE_BYTES * PAGE_BYTES;
        // SAFETY: a new private mapping; without MAP_FIXED the hint cannot hit anything mapped.
        let Ok(address) = (unsafe { mmap_anonymous(hint as *mut _, bytes, protection, MapFlags::PRIVATE) })
        else {
            continue;
        };
        if reachable(address as usize) {
            return Some(address as usize);
        }
        // SAFETY: the mapping just made, unused.
        let _ = unsafe { rustix::mm::munmap(address, bytes) };
    }
    None
}
