//! Crash exploration of a store with a lower tier: memory over a disk, or a disk over another disk.
//!
//! | the fast tier is | the crash is | recovery must find |
//! |---|---|---|
//! | memory | all processes are killed | the effect of every call that had returned |
//! | a disk | power is lost; each of the two disks has any subset of its unsynced writes | the effect of some number of the calls, at least of those before the last wait for the disk |
//!
//! Recovery is followed by a write to both tiers, and by the checks that no block of either tier is lost or has two
//! owners.

use super::step::{ClientNumber, Step};
use super::store::{
    WorkloadFailure, accounted, crashed, explored, in_memory, is_one_of, nothing_damaged, take,
};
use crate::explorer::{Bounds, Coverage, Memory, Progress, Subject, acknowledged, issued};
use crate::model::Model;
use crate::operations::operation::Operation;
use crate::operations::tree::Tree;
use crate::world::{self, LOWER_TIER_FOLDER, World};
use cuesta_format::Medium;
use cuesta_media::clock::RepeatedClock;
use cuesta_media::recorder::Recorder;
use std::borrow::Cow;
use std::path::Path;
use tempfile::TempDir;

/// The fast tier, and how often a program waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FastTier {
    /// Memory: no program waits.
    Memory,
    /// A disk: a program waits behind every so many calls, and where it calls fsync.
    Disk(usize),
    /// A disk in optimistic mode: a program waits where it calls fsync.
    OptimisticDisk,
}

impl FastTier {
    /// Memory, and a disk on which programs wait behind each call or where they call fsync.
    pub const PESSIMISTIC: [FastTier; 3] = [FastTier::Memory, FastTier::Disk(1), FastTier::Disk(usize::MAX)];
    /// These, and a disk in optimistic mode.
    pub const ALL: [FastTier; 4] =
        [FastTier::Memory, FastTier::Disk(1), FastTier::Disk(usize::MAX), FastTier::OptimisticDisk];

    fn medium(self) -> Medium {
        match self {
            FastTier::Memory => Medium::Memory,
            FastTier::Disk(_) | FastTier::OptimisticDisk => Medium::Block,
        }
    }

    /// Opens the store in `directory`, which recovers it.
    fn open(self, directory: &Path) -> Result<World, String> {
        match self {
            FastTier::Memory | FastTier::Disk(_) => World::open_tiered(directory),
            FastTier::OptimisticDisk => World::open_optimistic_tiered(directory),
        }
    }
}

/// The workload that is run and crashed: calls and digests. Programs of several clients on a disk wait behind each call,
/// or are optimistic. Their logs are independent otherwise, so that a crash need not leave a number of all calls.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The fast tier.
    pub fast: FastTier,
    /// Steps before recording starts.
    pub setup: Vec<Step>,
    /// The steps that are recorded.
    pub steps: Vec<Step>,
}

/// A new store with its clients, and the model of it.
struct Prepared {
    directory: TempDir,
    worlds: Vec<Option<World>>,
    model: Model,
    /// Blocks that are neither free nor a file's.
    kept: u64,
}

impl Prepared {
    fn of(workload: &Workload) -> Result<Prepared, String> {
        let directory = in_memory()?;
        world::create_tiered(workload.fast.medium(), directory.path())?;
        let world = workload.fast.open(directory.path())?;
        let kept = world.blocks_kept()?;
        let clients = workload.setup.iter().chain(&workload.steps).map(Step::client).max().unwrap_or(0);
        let others = (0..clients).map(|_| world.another().map(Some)).collect::<Result<Vec<_>, _>>()?;
        let mut worlds: Vec<_> = std::iter::once(Some(world)).chain(others).collect();
        let mut model = Model::new();
        for step in &workload.setup {
            take(step, &mut worlds, &mut model)?;
        }
        let prepared = Prepared { directory, worlds, model, kept };
        if workload.fast == FastTier::OptimisticDisk {
            prepared.world(0)?.dsync()?;
        }
        Ok(prepared)
    }

    fn world(&self, client: ClientNumber) -> Result<&World, String> {
        self.worlds[client].as_ref().ok_or_else(|| "the client is gone".to_owned())
    }
}

/// Runs `workload` on a new small store and crashes it.
pub fn crash(
    workload: &Workload,
    memory: &mut Memory<Tree>,
    bounds: &Bounds,
    seed: u64,
) -> Result<Coverage, WorkloadFailure> {
    let _clock = RepeatedClock::start();
    let mut prepared = Prepared::of(workload).map_err(WorkloadFailure::Run)?;
    let root = prepared.directory.path().to_owned();
    let trees = vec![crashed(&prepared.model)];
    let mut subject = TieredSubject { fast: workload.fast, kept: prepared.kept, trees };
    let recorder = Recorder::install(&[&root]).map_err(|error| WorkloadFailure::Run(error.to_string()))?;
    let outcome = run(workload, &mut prepared, &mut subject.trees);
    let recording = recorder.take();
    outcome.map_err(WorkloadFailure::Run)?;
    accounted(&recording, &root)?;
    drop(std::mem::take(&mut prepared.worlds));
    explored(recording, &root, &mut subject, memory, bounds, seed)
}

/// Takes the steps under the recorder, and notes the tree behind each call.
fn run(workload: &Workload, prepared: &mut Prepared, trees: &mut Vec<Tree>) -> Result<(), String> {
    let mut unsynced = 0;
    for step in &workload.steps {
        let Step::Call(client, call) = step else {
            take(step, &mut prepared.worlds, &mut prepared.model)?;
            continue;
        };
        issued(0);
        take(step, &mut prepared.worlds, &mut prepared.model)?;
        unsynced += 1;
        let is_synced = match workload.fast {
            FastTier::Memory => true,
            FastTier::Disk(calls) if unsynced >= calls => {
                prepared.world(*client)?.sync()?;
                true
            }
            FastTier::Disk(_) => matches!(call, Operation::Fsync { .. }),
            FastTier::OptimisticDisk if matches!(call, Operation::Fsync { .. }) => {
                prepared.world(*client)?.dsync()?;
                true
            }
            FastTier::OptimisticDisk => false,
        };
        if is_synced {
            (0..std::mem::take(&mut unsynced)).for_each(|_| acknowledged(0));
        }
        trees.push(crashed(&prepared.model));
    }
    Ok(())
}

/// The most blocks that files have in each tier, the fast one first, when `workload` runs and nothing crashes.
pub fn blocks_used_most(workload: &Workload) -> Result<Vec<u64>, String> {
    let _clock = RepeatedClock::start();
    let mut prepared = Prepared::of(workload)?;
    let mut most = prepared.world(0)?.blocks_used()?;
    for step in &workload.steps {
        take(step, &mut prepared.worlds, &mut prepared.model)?;
        let used = prepared.world(0)?.blocks_used()?;
        most.iter_mut().zip(used).for_each(|(most, used)| *most = (*most).max(used));
    }
    Ok(most)
}

/// The states that the store may show after each number of calls.
struct TieredSubject {
    fast: FastTier,
    /// Blocks that are neither free nor a file's in a store without sessions.
    kept: u64,
    trees: Vec<Tree>,
}

impl Subject for TieredSubject {
    type RecoveredState = Tree;

    fn recover(&mut self, directory: &Path) -> Result<Tree, String> {
        let world = self.fast.open(directory)?;
        nothing_damaged(&world)?;
        let tree = world.tree()?;
        world.nothing_nameless()?;
        world.quotas_hold_all()?;
        world.detach();
        Ok(tree)
    }

    fn go_on(&mut self, directory: &Path, recovered: &Tree) -> Result<(), String> {
        // Blocks of the windows that the crash left are free once the store is opened without their sessions.
        let mut world = self.fast.open(directory)?;
        let kept = world.blocks_kept()?;
        if kept != self.kept {
            return Err(format!("{kept} blocks are neither free nor a file's, and {} should be", self.kept));
        }
        world.write_later()?;
        let later = world.tree()?.without_times().differences(&recovered.clone().without_times());
        if !later.is_empty() {
            return Err(format!("a later write changed other files: {}", later.join("; ")));
        }
        world.detach();
        world::fsck_tiered(directory)
    }

    fn reads_are_seen(&self) -> bool {
        true
    }

    fn writes_wait(&self) -> bool {
        self.fast.medium() == Medium::Block
    }

    fn loses_power(&self) -> bool {
        self.fast != FastTier::Memory
    }

    fn disk_of(&self, path: &Path) -> u8 {
        u8::from(path.starts_with(LOWER_TIER_FOLDER))
    }

    fn judge(&self, found: &Tree, progress: &[Progress]) -> Result<(), String> {
        let Progress { acknowledged, issued } = progress[0];
        let allowed = (acknowledged..=issued)
            .map(|count| (format!("{count} calls"), Cow::Borrowed(&self.trees[count as usize])));
        is_one_of(found, allowed)
    }
}
