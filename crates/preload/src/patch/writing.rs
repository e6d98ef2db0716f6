//! Writing the stubs and the jumps to them into this process.

use crate::arch::{REACH, Slots};
use crate::call::filter::{self, CLASS_NEVER};
use crate::patch::binaries::image::Image;
use crate::patch::binaries::layout::{Layout, PAGE_BYTES, area_bytes};
use crate::patch::{Site, UNKNOWN_NUMBER};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect};

const SYSCALL: [u8; 2] = [0x0f, 0x05];

/// Whether a site can make calls that concern us.
pub fn is_wanted(site: &Site) -> bool {
    site.number == UNKNOWN_NUMBER || filter::class_of(i64::from(site.number)) != CLASS_NEVER
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
