//! Writing the stubs and the jumps to them.
//!
//! Runs in the constructor, before the program's own code. Other libraries' constructors may have
//! started threads, so the code stays executable while it is written, and nothing but plain stores
//! happens in between.

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect};

use super::cache::Cache;
use super::image::Image;
use super::{Site, UNKNOWN_NUMBER};
use crate::arch::{self, Patcher, REACH, STUB_BYTES};
use crate::filter::{self, CLASS_NEVER};

const PAGE_BYTES: usize = 4096;
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
}

/// Patches the C library family. `forked` is set to 1 in the child of a fork. With `every`, sites
/// whose number is of no interest are patched too, which only a test of the patcher wants.
pub fn install(forked: *const u32, every: bool) -> Report {
    let cache = Cache::open();
    let patcher = Patcher::new(forked);
    let mut report = Report::default();
    for image in Image::loaded() {
        report.images += 1;
        let sites = sites_of(&image, cache.as_ref(), &mut report);
        let wanted: Vec<Site> = sites
            .iter()
            .copied()
            .filter(|site| every && site.number != libc::SYS_rt_sigreturn as u16 || is_wanted(site))
            .collect();
        report.left += sites.len() - wanted.len();
        // SAFETY: `sites_of` has verified that the sites are those of this image.
        match unsafe { patch_image(&image, &wanted, &patcher) } {
            Some(()) => report.patched += wanted.len(),
            None => report.missed += wanted.len(),
        }
    }
    report
}

fn is_wanted(site: &Site) -> bool {
    site.number == UNKNOWN_NUMBER || filter::class_of(i64::from(site.number)) != CLASS_NEVER
}

fn sites_of(image: &Image, cache: Option<&Cache>, report: &mut Report) -> Vec<Site> {
    let cache = cache.filter(|_| !image.build_id.is_empty());
    if let Some(sites) = cache.and_then(|cache| cache.load(&image.build_id))
        && sites.iter().all(|site| is_site(image, site))
    {
        return sites;
    }
    report.swept += 1;
    let starts = image.function_starts();
    let mut sites = Vec::new();
    for range in &image.executable {
        let address = (image.base + range.0) as u64;
        let (found, unpatchable) = arch::sweep(image.code(*range), address, &starts);
        report.missed += unpatchable;
        sites.extend(found.into_iter().map(|site| Site { start: site.start + range.0 as u32, ..site }));
    }
    if let Some(cache) = cache {
        cache.store(&image.build_id, &sites);
    }
    sites
}

/// Whether a remembered site is one in this image.
fn is_site(image: &Image, site: &Site) -> bool {
    let (start, length, syscall) = (site.start as usize, usize::from(site.length), usize::from(site.syscall));
    let inside =
        image.executable.iter().any(|(from, bytes)| *from <= start && start + length <= from + bytes);
    inside
        && length >= 5
        && syscall + 2 <= length
        && site.relative.iter().all(|offset| usize::from(*offset) + 4 <= length)
        && image.code((start + syscall, 2)) == SYSCALL
}

/// # Safety
/// Every site must be a true instruction sequence of the image.
unsafe fn patch_image(image: &Image, sites: &[Site], patcher: &Patcher) -> Option<()> {
    if sites.is_empty() {
        return Some(());
    }
    let bytes = (sites.len() * STUB_BYTES).next_multiple_of(PAGE_BYTES);
    let area = map_near(image, bytes)?;
    let mut cursor = area;
    let mut jumps = Vec::with_capacity(sites.len());
    for site in sites {
        let original = image.code((site.start as usize, usize::from(site.length)));
        let stub = patcher.stub(site, image.base, original, cursor);
        // SAFETY: the area has STUB_BYTES for each site and is ours alone.
        unsafe { core::ptr::copy_nonoverlapping(stub.as_ptr(), cursor as *mut u8, stub.len()) };
        jumps.push((image.base + site.start as usize, patcher.jump(site, image.base, cursor)));
        cursor += stub.len().next_multiple_of(16);
    }
    let writable = MprotectFlags::READ | MprotectFlags::WRITE | MprotectFlags::EXEC;
    let executable = MprotectFlags::READ | MprotectFlags::EXEC;
    // SAFETY: the stub area is ours; the image's segments keep their contents but for the sites, which
    // the caller vouches for, and get their protection back.
    unsafe {
        mprotect(area as *mut _, bytes, executable).ok()?;
        for (offset, length) in &image.executable {
            let (start, length) = pages(image.base + offset, *length);
            mprotect(start as *mut _, length, writable).ok()?;
        }
        for (address, jump) in &jumps {
            core::ptr::copy_nonoverlapping(jump.as_ptr(), *address as *mut u8, jump.len());
        }
        for (offset, length) in &image.executable {
            let (start, length) = pages(image.base + offset, *length);
            let _ = mprotect(start as *mut _, length, executable);
        }
    }
    Some(())
}

fn pages(address: usize, length: usize) -> (usize, usize) {
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
