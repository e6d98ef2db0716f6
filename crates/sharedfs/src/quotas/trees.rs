//! Directories that quotas are of: how everything below one comes to count for it, and ceases to.
//!
//! Each inode's record says which directory's quota it counts for ([`InodeRecord::tree`]), so that a digest needs
//! no path to find the payer. A new inode takes that of its directory, and names do not cross from one such
//! directory to another. So it changes for existing inodes only when a quota is set on a directory or taken from
//! it. That is one transaction, however many inodes there are. No session works meanwhile: every session is fenced,
//! and all cached leases are void.
//!
//! | | what counts for directory D from then on |
//! |---|---|
//! | set on D | D and what lies below it, but for what counts for a directory with a quota of its own there |
//! | taken from D | nothing: it counts for whatever the directory that D lies in does |
//!
//! A file with several names counts where it did, or where it was found first: not as nothing, so that it cannot grow
//! without limits once it has one name.

use crate::digest::driver::METADATA_SLACK_LEAST_BYTES;
use crate::metadata::{Snapshot, Transaction};
use crate::requests::{Trouble, find, invalid};
use crate::{Error, SharedFs};
use cuesta_format::quota::{Allowance, Limits, Payer};
use cuesta_format::wire::Refusal;
use cuesta_format::{FileKind, InodeNumber, InodeRecord};

/// Bytes that a rewritten record takes in the metadata store, generously.
const RECORD_BYTES: u64 = 256;

impl SharedFs {
    /// Makes the directory at `path` a quota's, with these limits, or no quota's any more.
    pub(crate) fn change_tree(&self, path: &[u8], limits: Option<Limits>) -> Result<(), Trouble> {
        let _nobody_begins = self.attaching.write();
        let mut digester = self.digester.lock();
        // Every record may be written anew, and digests need their room afterwards.
        let inodes = self.metadata.read()?.counters()?.inodes;
        self.metadata.ensure_slack(METADATA_SLACK_LEAST_BYTES + inodes.saturating_mul(RECORD_BYTES))?;
        let changed = self.halt_all(&mut digester).map_err(Trouble::from).and_then(|()| {
            let mut transaction = self.metadata.begin()?;
            let directory = find(transaction.base(), path)?;
            let stored = transaction.inode(directory)?.ok_or(Trouble::Refused(Refusal::NotFound))?;
            if stored.record.kind() != FileKind::Directory {
                return Err(invalid("only a directory can have a quota"));
            }
            match limits {
                Some(_) => mark(&mut transaction, &stored.record)?,
                None => unmark(&mut transaction, &stored.record)?,
            }
            let payer = Payer::Tree(directory);
            let limits = limits.filter(|limits| !limits.are_none());
            let allowance = limits.map(|limits| Allowance { limits, ..Allowance::default() });
            transaction.put_limits(payer, allowance);
            transaction.commit()?;
            self.quotas_changed(payer, allowance);
            Ok(())
        });
        if let Err(error) = self.let_go_on(&mut digester) {
            // It is done all the same: a session that was left out goes on by its own question.
            tracing::warn!(%error, "a program that was halted while a quota was set has to ask to go on");
        }
        changed
    }
}

/// Inodes in the directory that count for the same payer as the directory count for it from now on.
fn mark(transaction: &mut Transaction, directory: &InodeRecord) -> Result<(), Error> {
    let (before, tree) = (directory.tree, directory.inode);
    if before == tree {
        return Ok(());
    }
    transaction.put_inode(&InodeRecord { tree, ..*directory })?;
    let mut directories = vec![directory.inode];
    while let Some(directory) = directories.pop() {
        for inode in names_in(transaction.base(), directory)? {
            let Some(stored) = transaction.inode(inode)?.filter(|stored| stored.record.tree == before) else {
                continue;
            };
            transaction.put_inode(&InodeRecord { tree, ..stored.record })?;
            if stored.record.kind() == FileKind::Directory {
                directories.push(inode);
            }
        }
    }
    Ok(())
}

fn names_in(snapshot: &Snapshot, directory: InodeNumber) -> Result<Vec<InodeNumber>, Error> {
    let mut inodes = Vec::new();
    snapshot.visit_names(directory, b"", |_, dirent| {
        inodes.push(dirent.inode);
        true
    })?;
    // Near ones lie together.
    inodes.sort_unstable();
    Ok(inodes)
}

/// What counts for the directory, wherever it is, be it without a name, counts for what lies around it.
fn unmark(transaction: &mut Transaction, directory: &InodeRecord) -> Result<(), Trouble> {
    if directory.tree != directory.inode {
        return Err(invalid("the directory has no quota"));
    }
    let tree = match transaction.inode(directory.parent)? {
        Some(above) if directory.inode != InodeNumber::ROOT => above.record.tree,
        _ => InodeNumber::NONE,
    };
    let mut counted = Vec::new();
    transaction.base().visit_inodes(|stored| {
        if stored.record.tree == directory.inode {
            counted.push(stored.record);
        }
    })?;
    for record in counted {
        transaction.put_inode(&InodeRecord { tree, ..record })?;
    }
    Ok(())
}
