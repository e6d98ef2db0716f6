//! Stubs and jumps of one library, as bytes: the same whether they are written into this process or
//! into a copy of the library.
//!
//! ```text
//!   area: a page of slots | stubs
//! ```
//!
//! In a library that is a whole file of its own (`whole`) they lie elsewhere.

use crate::arch::{Patcher, STUB_BYTES};
use crate::patch::Site;
use crate::patch::binaries::image::Image;

/// The processor's page.
pub const PAGE_BYTES: usize = 4096;

/// The bytes that have to be written.
#[derive(Debug)]
pub struct Layout {
    /// The stubs, for a page behind the area's start.
    pub stubs: Vec<u8>,
    /// For each site its offset in the image and the bytes it gets.
    pub jumps: Vec<(usize, Vec<u8>)>,
}

impl Layout {
    /// For the area at address `area`.
    pub fn new(image: &Image, sites: &[Site], area: usize) -> Self {
        let original = |site: &Site| image.code(site.start as usize, usize::from(site.length));
        Self::at(image.base, sites, area, area + PAGE_BYTES, original)
    }

    /// For slots and stubs at these addresses; `original` has the bytes of a site of the image at `base`.
    pub fn at<'a>(
        base: usize,
        sites: &[Site],
        slots: usize,
        stubs: usize,
        original: impl Fn(&Site) -> &'a [u8],
    ) -> Self {
        let patcher = Patcher::new(slots);
        let mut layout = Self {
            stubs: Vec::with_capacity(sites.len() * STUB_BYTES),
            jumps: Vec::with_capacity(sites.len()),
        };
        for site in sites {
            let at = stubs + layout.stubs.len();
            layout.stubs.extend_from_slice(&patcher.stub(site, base, original(site), at));
            layout.stubs.resize(layout.stubs.len().next_multiple_of(16), 0xcc);
            layout.jumps.push((site.start as usize, patcher.jump(site, base, at)));
        }
        layout
    }
}

/// Bytes of the area for so many sites, at most.
pub fn area_bytes(sites: usize) -> usize {
    PAGE_BYTES + (sites * STUB_BYTES).next_multiple_of(PAGE_BYTES)
}
