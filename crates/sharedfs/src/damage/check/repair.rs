//! The safe repairs: each only makes a count, a mark or a name agree with the rest of the store. Content is never
//! dropped: an inode that lost its names gets one in the root. Only the entries of an inode that does not exist go
//! (no inode will have its number again), and extents in the table that an inode's record does not speak of. Giving
//! up content that is missing is no safe repair: the caller must ask for it.

use super::problem::Problem;
use super::report::Mode;
use super::survey::{Survey, last_block_tail};
use crate::Error;
use crate::metadata::{Dirent, MetadataStore, Transaction};
use crate::tiers::{Arenas, runs_of};
use cuesta_format::{BLOCK_BYTES, Extent, FileKind, Geometry, InodeNumber, InodeRecord};
use cuesta_media::clock;

/// Whether a problem has a repair that is safe, or is wanted all the same.
pub(crate) fn has_repair(problem: &Problem, mode: Mode) -> bool {
    let is_wanted = mode == Mode::RepairWithLoss && problem.is_loss();
    is_wanted
        || matches!(
            problem,
            Problem::Dangling { .. }
                | Problem::NoDirectory { .. }
                | Problem::EntryKind { .. }
                | Problem::Links { .. }
                | Problem::Entries { .. }
                | Problem::Parent { .. }
                | Problem::Nameless(_)
                | Problem::Orphan { .. }
                | Problem::BehindEnd { .. }
                | Problem::Leaked { .. }
                | Problem::Unmarked { .. }
                | Problem::Window { .. }
                | Problem::Tail(_)
                | Problem::Extended { .. }
                | Problem::Lists { .. }
                | Problem::Usage { .. }
                | Problem::Tree { .. }
                | Problem::StrayExtended(_)
                | Problem::Call(_)
                | Problem::StrayExtents(_)
        )
}

/// Repairs `problems` of what was surveyed, in one transaction.
pub(crate) fn repair(
    metadata: &MetadataStore,
    arenas: &Arenas,
    geometry: Geometry,
    survey: &Survey,
    problems: &[Problem],
) -> Result<(), Error> {
    let mut transaction = metadata.begin()?;
    let mut freed = Vec::new();
    for problem in problems {
        repair_one(&mut transaction, arenas, problem, &mut freed)?;
    }
    let mut used = survey.used.clone();
    for run in freed.iter().flat_map(|extent| runs_of(&geometry, extent)) {
        if let Some(bitmap) = used.get_mut(&geometry.arena(run.address)) {
            bitmap.clear((geometry.arena_offset(run.address) / BLOCK_BYTES) as u32, run.blocks);
        }
    }
    for (&arena, used) in &used {
        let mut bytes = Vec::new();
        used.to_bytes(&mut bytes);
        transaction.put_arena(arena, bytes);
    }
    Ok(transaction.commit()?)
}

fn change(
    transaction: &mut Transaction,
    inode: InodeNumber,
    change: impl FnOnce(&mut InodeRecord),
) -> Result<(), Error> {
    if let Some(mut stored) = transaction.inode(inode)? {
        change(&mut stored.record);
        transaction.put_inode(&stored.record)?;
    }
    Ok(())
}

fn repair_one(
    transaction: &mut Transaction,
    arenas: &Arenas,
    problem: &Problem,
    freed: &mut Vec<Extent>,
) -> Result<(), Error> {
    match problem {
        Problem::Dangling { parent, raw, .. } | Problem::NoDirectory { parent, raw, .. } => {
            transaction.remove_dirent(*parent, raw);
        }
        Problem::EntryKind { parent, raw, inode, .. } => {
            if let Some(stored) = transaction.inode(*inode)? {
                transaction.put_dirent(*parent, raw, Dirent { inode: *inode, kind: stored.record.kind() });
            }
        }
        Problem::Links { inode, names, .. } => {
            change(transaction, *inode, |record| record.links = *names)?;
        }
        Problem::Entries { inode, entries, .. } => {
            change(transaction, *inode, |record| record.size = *entries)?;
        }
        Problem::Parent { inode, holder, .. } => {
            change(transaction, *inode, |record| record.parent = *holder)?;
        }
        Problem::Nameless(inode) => give_a_name(transaction, *inode)?,
        Problem::Window { session, address } => transaction.put_window(*session, *address, None),
        Problem::Orphan { inode, session } => transaction.remove_orphan(*inode, *session),
        Problem::BehindEnd { inode, from_block } => {
            freed.extend(transaction.write_extents(*inode, *from_block..u64::MAX, &[])?);
        }
        Problem::Tail(inode) => {
            if let Some(stored) = transaction.inode(*inode)? {
                let block = stored.record.size / BLOCK_BYTES;
                let extents = transaction.extents(*inode, block..block + 1)?;
                if let Some((address, inside)) = last_block_tail(&stored.record, &extents) {
                    arenas.clear(address, inside, BLOCK_BYTES - inside)?;
                }
            }
        }
        Problem::Extended { inode, counted, .. } => {
            let bytes = u32::try_from(*counted).unwrap_or(u32::MAX);
            change(transaction, *inode, |record| record.extended = bytes)?;
        }
        Problem::Lists { inode, access, default } => {
            change(transaction, *inode, |record| {
                (record.access_list, record.default_list) = (*access, *default);
            })?;
        }
        Problem::Usage { payer, right, kept } => transaction.correct_usage(*payer, *kept, *right),
        Problem::Tree { inode, right, .. } => change(transaction, *inode, |record| record.tree = *right)?,
        Problem::StrayExtended(inode) => transaction.remove_all_extended(*inode)?,
        Problem::Call(key) => transaction.remove_unreadable_call(key),
        Problem::StrayExtents(inode) => transaction.remove_stray_extents(*inode)?,
        Problem::NoRoot => {
            let root = InodeRecord::new(InodeNumber::ROOT, 0o040_755, 0, 0, clock::now());
            transaction.put_inode(&InodeRecord { parent: InodeNumber::ROOT, links: 2, ..root })?;
        }
        Problem::Blocks { inode, .. } => {
            let left = transaction.extents(*inode, 0..u64::MAX)?;
            transaction.replace_extents(*inode, &left, &[])?;
        }
        Problem::Totals { inodes, blocks, .. } => transaction.put_totals(*inodes, *blocks),
        Problem::MissingMapped(inode) => change(transaction, *inode, |record| record.mapped = false)?,
        _ => {}
    }
    Ok(())
}

/// An inode without a name appears in the root, under its number.
fn give_a_name(transaction: &mut Transaction, inode: InodeNumber) -> Result<(), Error> {
    let Some(stored) = transaction.inode(inode)? else { return Ok(()) };
    let kind = stored.record.kind();
    let name = format!("lost+found.{inode}");
    transaction.put_dirent(InodeNumber::ROOT, name.as_bytes(), Dirent { inode, kind });
    let is_directory = kind == FileKind::Directory;
    change(transaction, InodeNumber::ROOT, |root| {
        root.size += 1;
        root.links += u32::from(is_directory);
    })?;
    change(transaction, inode, |record| {
        if is_directory {
            record.parent = InodeNumber::ROOT;
            record.links = record.links.max(2);
        } else {
            record.links = 1;
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::checking::check;
    use super::super::report::{Finding, Mode, Verdict};
    use super::*;
    use crate::SharedFs;
    use crate::metadata::plant_extent;
    use cuesta_format::geometry::METADATA_FILE;
    use cuesta_format::superblock::Superblock;
    use cuesta_format::{Medium, StoreId};

    #[test]
    fn extents_that_no_record_speaks_of_go() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let geometry = Geometry {
            arena_bytes: 1 << 20,
            segment_bytes: 64 << 10,
            ring_slots: 8,
            nvm_bytes: 4 << 20,
            checks_content: true,
        };
        let superblock = Superblock { store: StoreId([9; 16]), medium: Medium::Memory, geometry };
        SharedFs::create(folder.path(), superblock).unwrap();
        let nobody = InodeNumber(77);
        for inode in [nobody, InodeNumber::ROOT] {
            for file_block in [0, 9] {
                plant_extent(&folder.path().join(METADATA_FILE), inode, file_block);
            }
        }
        let found = |mode, verdict| {
            let report = check(folder.path(), mode).unwrap();
            let expected = [InodeNumber::ROOT, nobody]
                .map(|inode| Finding { problem: Problem::StrayExtents(inode), verdict });
            assert_eq!(report.findings, expected);
        };
        found(Mode::Report, Verdict::Repairable);
        found(Mode::Repair, Verdict::Repaired);
        assert_eq!(check(folder.path(), Mode::Report).unwrap().findings, []);
    }
}
