//! Makes a store's fast tier. The superblock comes last and is read first: without it there is no
//! store.

use super::core::SharedFs;
use super::folders::sync_folder;
use super::superblocks;
use crate::Error;
use crate::metadata::MetadataStore;
use crate::sessions::{MarksFile, SessionTable, make_segment};
use crate::tiers::{Parts, claim_device, medium_of_files};
use cuesta_format::geometry::{
    ARENAS_FOLDER, LOGS_FOLDER, METADATA_COPY_FILE, METADATA_FILE, SESSIONS_COPY_FILE, SESSIONS_FILE,
};
use cuesta_format::superblock::{Opening, Superblock};
use cuesta_format::{FileKind, InodeNumber, InodeRecord, Medium, SegmentId};
use cuesta_media::clock;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

/// Segments of logs a new store on a disk has besides a whole log: they are written in full, which its first programs need not wait for.
const SPARE_SEGMENTS_ON_DISK: u32 = 16;

impl SharedFs {
    /// Makes a store's fast tier in `tier`, a folder that holds none.
    pub fn create(tier: &Path, superblock: Superblock) -> Result<(), Error> {
        if superblocks::exists(tier) {
            return Err(Error::Exists(tier.display().to_string()));
        }
        let Superblock { medium, geometry, .. } = superblock;
        let medium_of_files = medium_of_files(tier, medium);
        for folder in [LOGS_FOLDER, ARENAS_FOLDER] {
            let folder = tier.join(folder);
            if folder.exists() {
                std::fs::remove_dir_all(&folder).map_err(Error::io("remove what an unfinished mkfs left"))?;
            }
            let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
            made.map_err(Error::io("create a folder"))?;
        }
        for file in [SESSIONS_FILE, SESSIONS_COPY_FILE, METADATA_FILE, METADATA_COPY_FILE] {
            match std::fs::remove_file(tier.join(file)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::io("remove what an unfinished mkfs left")(error));
                }
                _ => {}
            }
        }
        SessionTable::create(tier, geometry.ring_slots, superblock.store, medium_of_files)?;
        let metadata = MetadataStore::create(&tier.join(METADATA_FILE), medium_of_files)?;
        let mut transaction = metadata.begin()?;
        let mode = FileKind::Directory.mode_bits() | 0o755;
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let mut root = InodeRecord::new(InodeNumber::ROOT, mode, uid, gid, clock::now());
        root.parent = InodeNumber::ROOT;
        transaction.put_inode(&root)?;
        transaction.commit()?;
        drop(metadata);
        claim_device(tier, &superblock)?;
        if medium == Medium::Block {
            let parts = Parts::open(tier, superblock.store, &geometry)?;
            for id in (0..geometry.ring_slots + SPARE_SEGMENTS_ON_DISK).map(SegmentId) {
                make_segment(&parts, geometry.segment_bytes, medium, id, None)?;
            }
        }
        MarksFile::of(tier).provide(medium)?;
        sync_folder(tier)?;
        superblocks::write(tier, &superblock, Opening::default())?;
        sync_folder(tier)
    }
}
