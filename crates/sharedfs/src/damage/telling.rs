//! The daemon's log tells of damaged blocks, files and logs.
//!
//! A block may be written while a reader finds its checksum wrong. So the daemon looks at it once more while no digest runs, and
//! only if it still is the file's block.

use super::log_losses::LogLoss;
use crate::metadata::StoredInode;
use crate::metadata::tree::paths;
use crate::requests::Trouble;
use crate::{Error, SharedFs};
use cuesta_format::wire::Response;
use cuesta_format::{BLOCK_BYTES, BlockAddress, Extent, FileKind, InodeNumber};

/// Files of a damaged log that are told by their paths, each of which costs a look at all names.
const FILES_TOLD_MAX: usize = 16;

impl SharedFs {
    /// Fails if a file's blocks hold something else than was written there. No digest runs, or none writes them.
    pub(crate) fn check_content(&self, inode: InodeNumber, extent: &Extent) -> Result<(), Error> {
        for block in 0..u64::from(extent.blocks) {
            let address = extent.address.plus(block * BLOCK_BYTES);
            if !self.arenas.is_intact(address)? {
                self.tell_damage(inode, extent.file_block + block);
                return Err(Error::Content(inode));
            }
        }
        Ok(())
    }

    /// A log lost acknowledged entries: the daemon's log tells that. It is kept until `cuesta fsck --repair`
    /// told it, too.
    pub(crate) fn tell_log_loss(&self, loss: &LogLoss) -> Result<(), Error> {
        let paths: Vec<String> = loss
            .files
            .iter()
            .take(FILES_TOLD_MAX)
            .map(|(&inode, _)| format!("/{} (inode {inode})", String::from_utf8_lossy(&self.path_of(inode))))
            .collect();
        tracing::error!(
            session = loss.session.0,
            from = loss.end.0,
            to = loss.acknowledged.0,
            entries = loss.entries,
            unknown_bytes = loss.unknown_bytes,
            files = %paths.join(", "),
            "a log was damaged: acknowledged entries behind its last whole entry are lost"
        );
        let snapshot = self.metadata.read()?;
        let is_file = |stored: StoredInode| stored.record.kind() == FileKind::File;
        let exists = |inode| snapshot.inode(inode).is_ok_and(|stored| stored.is_some_and(is_file));
        self.lost.add(loss, loss.to_string(), exists)
    }

    /// Blocks that digests wrote in part and found damaged, where they lay before.
    pub(crate) fn tell_damaged_blocks(&self, found: &[(InodeNumber, BlockAddress)]) {
        for &(inode, address) in found {
            tracing::error!(
                inode = inode.0,
                address = address.0,
                "a block that was written in part is damaged: its checksum is wrong"
            );
        }
    }

    /// Whether a block is damaged, of which a session said so.
    pub(crate) fn verify(&self, inode: InodeNumber, address: BlockAddress) -> Result<Response, Trouble> {
        let block = self.damaged_block(inode, address)?;
        if let Some(block) = block {
            self.tell_damage(inode, block);
        }
        Ok(Response::Verified { is_damaged: block.is_some() })
    }

    /// The block of the file that lies there, if it is one and damaged.
    pub(super) fn damaged_block(
        &self,
        inode: InodeNumber,
        address: BlockAddress,
    ) -> Result<Option<u64>, Error> {
        let _no_digest = self.digester.lock();
        let address = self.home_of(address)?;
        let snapshot = self.metadata.read()?;
        let is_arenas = snapshot.inode(inode)?.is_some_and(|stored| !stored.record.mapped);
        let extents = if is_arenas { snapshot.extents(inode, 0..u64::MAX)? } else { Vec::new() };
        let holds = |extent: &&Extent| {
            (extent.address.0..extent.address.plus(u64::from(extent.blocks) * BLOCK_BYTES).0)
                .contains(&address.0)
        };
        let Some(extent) = extents.iter().find(holds) else { return Ok(None) };
        let block = (address.0 - extent.address.0) / BLOCK_BYTES;
        let is_intact = self.arenas.is_intact(extent.address.plus(block * BLOCK_BYTES))?;
        Ok((!is_intact).then_some(extent.file_block + block))
    }

    pub(super) fn tell_damage(&self, inode: InodeNumber, block: u64) {
        if !self.told_damage.is_news(inode) {
            return;
        }
        let path = self.path_of(inode);
        tracing::error!(
            inode = inode.0,
            path = %String::from_utf8_lossy(&path),
            offset = block * BLOCK_BYTES,
            "a file's content is damaged: its checksum is wrong"
        );
    }

    /// A path below the store's root, for people; empty: there is none, or it cannot be read.
    pub(super) fn path_of(&self, inode: InodeNumber) -> Vec<u8> {
        let found = self.metadata.read().and_then(|snapshot| paths::of_file(&snapshot, inode));
        found.ok().flatten().unwrap_or_default()
    }
}
