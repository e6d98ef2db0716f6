//! Opens a store: superblock, tables, metadata, arenas, then recovery of every log.
//!
//! The result is one [`SharedFs`]; no other file makes one.

use super::boot::Boot;
use super::configuration::Options;
use super::core::{Core, SharedFs};
use super::emulation;
use super::superblocks::Superblocks;
use super::used_blocks::load_allocator;
use crate::Error;
use crate::background::{IdleMemory, Migration, RateLimit};
use crate::damage::{Lost, ToldDamage, is_untold};
use crate::digest::DirectoryChanges;
use crate::kernel::{Doubt, MappedFiles, StandIns};
use crate::leases::Leases;
use crate::metadata::{Files, MetadataStore, Owner, Watch};
use crate::quotas::Quotas;
use crate::requests::Packed;
use crate::sessions::{
    Epochs, FirstCalls, Incarnation, MarksFile, Recovered, References, SegmentPool, SessionTable,
};
use crate::store::observe::{Counters, Events, RequestTimes};
use crate::tiers::Space;
use crate::tiers::{Credits, LowerTier, Parts, blocks_of, medium_of_files, open_arenas, region};
use cuesta_format::geometry::METADATA_FILE;
use cuesta_format::session_table::TableHead;
use cuesta_format::superblock::Superblock;
use cuesta_format::{Durability, Medium};
use cuesta_media::{Nodes, persist};
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

impl SharedFs {
    /// Opens the store in `tier` and digests whatever logs still hold: afterwards no session is left but those of
    /// processes that live and may come back ([`SharedFs::resume`]).
    pub fn open(tier: &Path, options: Options) -> Result<Arc<SharedFs>, Error> {
        SharedFs::open_named(tier, tier, options)
    }

    /// The same by a path that may mean something to this process alone; others find the tier at `named`.
    pub fn open_named(tier: &Path, named: &Path, options: Options) -> Result<Arc<SharedFs>, Error> {
        if is_untold(tier) {
            return Err(Error::Repairing);
        }
        SharedFs::open_untold(tier, named, options)
    }

    /// The same by a repair, which tells what it loses when it has ended.
    pub(crate) fn open_untold(tier: &Path, named: &Path, options: Options) -> Result<Arc<SharedFs>, Error> {
        let mut superblocks = Superblocks::read(tier)?;
        superblocks.heal(tier)?;
        let superblock = superblocks.superblock;
        let Superblock { medium, geometry, .. } = superblock;
        if options.durability == Durability::Optimistic && medium != Medium::Block {
            return Err(Error::OptimisticMedium(medium));
        }
        let region = match medium {
            Medium::Pmem => region(tier),
            Medium::Memory | Medium::Block => None,
        };
        persist::announce(medium, options.persistence_domain.of(region));
        // Only this medium's memory is the kernel's to choose.
        let nodes = if medium == Medium::Memory { Nodes::of_machine() } else { Nodes::default() };
        let nodes = Arc::new(nodes);
        let parts = Parts::open(tier, superblock.store, &geometry)?;
        let medium_of_files = medium_of_files(tier, medium);
        let (mut table, occupied) =
            SessionTable::open(tier, geometry.ring_slots, superblock.store, medium_of_files)?;
        let boot = Boot::of(tier, table.head().boot);
        let emulated = emulation::begin(tier, medium, options.emulate)?;
        let incarnation = Incarnation::begin(tier, table.head().incarnation)?;
        table.set_head(TableHead {
            store: superblock.store,
            incarnation: incarnation.number(),
            ..table.head()
        })?;
        let epochs = Epochs::open(tier, superblock.store, incarnation.page())?;
        let marks = MarksFile::of(tier);
        marks.provide(medium)?;
        let references = References::open(tier)?;
        let mapped = MappedFiles::open(references.folder()?, medium_of_files)?;
        let cache_bytes = options.metadata_cache_bytes;
        let owner = Owner { store: superblock.store, now: superblocks.opening };
        let files = Files::new(&tier.join(METADATA_FILE), medium_of_files).of(owner);
        let metadata = MetadataStore::open_caching(files, cache_bytes)?;
        let packed = Arc::new(Packed::default());
        metadata.watch(Arc::clone(&packed) as Arc<dyn Watch>);
        let owned = occupied.iter().flat_map(|(_, record)| record.all_segments()).collect();
        let pool = SegmentPool::open(&parts, &geometry, &owned, &nodes)?;
        let generation = Some(superblocks.opening.generation + 1);
        let lower = options.lower_tiers();
        let arenas = open_arenas(&parts, &superblock, &metadata.read()?, &lower, &nodes, generation)?;
        emulation::begin_on_lower_tiers(tier, &arenas, &lower)?;
        if let Some(emulated) = &emulated {
            metadata.emulate(emulated);
            table.emulate(emulated);
            arenas.fast().emulate(emulated);
        }
        let (mut allocator, windows) = load_allocator(&metadata, &arenas, geometry, &occupied)?;
        for tier in lower.iter().filter(|tier| tier.removing).map(LowerTier::number) {
            if arenas.has(tier) {
                allocator.refuse_writes(tier);
            }
        }
        let credits = Credits::new(blocks_of(&arenas));
        let next_session = table.head().next_session;
        let stand_ins = StandIns::open(tier, named)?;
        let quotas = Quotas::open(&metadata.read()?)?;
        let mut shared = SharedFs {
            tier: tier.to_owned(),
            named: named.to_owned(),
            parts,
            superblock,
            superblocks: Mutex::new(superblocks),
            emulated,
            region,
            nodes,
            incarnation,
            epochs,
            marks,
            references,
            passed: Mutex::default(),
            mapped,
            metadata,
            packed,
            directory_changes: DirectoryChanges::default(),
            lost: Lost::open(tier)?,
            arenas,
            stand_ins,
            digester: Mutex::default(),
            core: Mutex::new(Core {
                table,
                pool,
                sessions: BTreeMap::new(),
                leases: Leases::new(Duration::from_micros(options.lease_hold_us)).shipping(options.ship),
                next_session,
            }),
            controls: Mutex::default(),
            space: Mutex::new(Space { allocator, credits, windows }),
            quotas: Mutex::new(quotas),
            totals_limit: RateLimit::default(),
            events: Events::new(options.trace_events as usize),
            options,
            counters: Counters::default(),
            first_calls: FirstCalls::default(),
            idle_memory: IdleMemory::default(),
            migration: Migration::default(),
            request_times: RequestTimes::default(),
            opened: Instant::now(),
            doubt: Doubt::left_in(tier),
            told_damage: ToldDamage::default(),
            recovered: Recovered::default(),
            making: Mutex::new(()),
            attaching: RwLock::new(()),
            recovering: AtomicBool::new(true),
            digests: AtomicBool::new(false),
            last_polled_at: Mutex::default(),
            watched_orphans: AtomicU64::new(0),
            starved: Mutex::default(),
        };
        let lost_memory = boot.is_another() || shared.options.assume_power_loss;
        shared.recovered = shared.recover(occupied, boot.is_another(), lost_memory)?;
        boot.remember(tier)?;
        let core = shared.core.get_mut();
        core.table.set_head(TableHead { boot: boot.short_name(), ..core.table.head() })?;
        shared.say_opened()?;
        shared.recovering = AtomicBool::new(false);
        shared.epochs.begin();
        if shared.options.durability == Durability::Optimistic {
            shared.go_by_epochs()?;
        }
        shared.stand_ins.sweep(&shared.metadata)?;
        shared.mapped.sweep(&shared.metadata)?;
        Ok(Arc::new(shared))
    }
}
