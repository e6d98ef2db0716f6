//! Content against its checksums: reads every block of every file, so only on request.

use super::problem::Problem;
use super::report::{Finding, Verdict};
use crate::Error;
use crate::metadata::MetadataStore;
use crate::store::read_superblock;
use crate::tiers::{LowerTier, Parts, medium_of_files, open_arenas};
use cuesta_format::geometry::METADATA_FILE;
use cuesta_format::{BLOCK_BYTES, Extent, FileKind, InodeNumber};
use std::path::Path;
use std::sync::Arc;

/// Looks at all content of a store that no daemon has open, after its logs were digested. `lower` are its lower tiers.
/// Content without checksums, as in the fast tier of some stores, is not looked at; nor is that of missing tiers.
pub fn check_content(tier: &Path, lower: &[LowerTier]) -> Result<Vec<Finding>, Error> {
    let superblock = read_superblock(tier)?;
    let geometry = superblock.geometry;
    let mut findings = Vec::new();
    if !geometry.checks_content && lower.is_empty() {
        return Ok(findings);
    }
    let metadata = MetadataStore::open(&tier.join(METADATA_FILE), medium_of_files(tier, superblock.medium))?;
    let parts = Parts::open(tier, superblock.store, &geometry)?;
    let snapshot = metadata.read()?;
    let arenas = open_arenas(&parts, &superblock, &snapshot, lower, &Arc::default(), None)?;
    let mut files: Vec<InodeNumber> = Vec::new();
    snapshot.visit_inodes(|stored| {
        // The content of a file in mapped mode is the kernel's.
        if stored.record.kind() == FileKind::File && !stored.record.mapped {
            files.push(stored.record.inode);
        }
    })?;
    for inode in files {
        let mut blocks = 0;
        let is_checked = |extent: &Extent| {
            let tier = extent.address.tier();
            geometry.of_tier(tier).checks_content && arenas.tier(tier).is_ok()
        };
        for extent in snapshot.extents(inode, 0..u64::MAX)?.into_iter().filter(is_checked) {
            for block in 0..u64::from(extent.blocks) {
                blocks += u64::from(!arenas.is_intact(extent.address.plus(block * BLOCK_BYTES))?);
            }
        }
        if blocks > 0 {
            let problem = Problem::Content { inode, blocks };
            findings.push(Finding { problem, verdict: Verdict::Damaged });
        }
    }
    Ok(findings)
}
