//! The daemon's state while a store is open.

use super::configuration::Options;
use super::superblocks::Superblocks;
use crate::background::{IdleMemory, Migration, RateLimit};
use crate::damage::{Lost, ToldDamage};
use crate::digest::{Digester, DirectoryChanges};
use crate::kernel::{Doubt, MappedFiles, PassedFiles, StandIns};
use crate::leases::Leases;
use crate::metadata::MetadataStore;
use crate::quotas::Quotas;
use crate::requests::Packed;
use crate::sessions::{
    Control, Epochs, FirstCalls, Incarnation, MarksFile, Recovered, References, SegmentPool, Session,
    SessionTable,
};
use crate::store::observe::{Counters, Events, RequestTimes};
use crate::tiers::Space;
use crate::tiers::{Arenas, Parts, Region};
use cuesta_format::emulation::Profile;
use cuesta_format::superblock::Superblock;
use cuesta_format::{Geometry, SessionId};
use cuesta_media::emulate::Emulated;
use cuesta_media::{Node, Nodes};
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Instant;

/// The daemon's knowledge of its sessions; behind one lock, held for moments.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) table: SessionTable,
    pub(crate) pool: SegmentPool,
    pub(crate) sessions: BTreeMap<SessionId, Session>,
    pub(crate) leases: Leases,
    pub(crate) next_session: SessionId,
}

impl Core {
    /// Where a spare segment is lacking, if `ready` are to be ready and `kept` are enough: on which node, or on any.
    pub(crate) fn lacking(&self, nodes: &Nodes, ready: usize, kept: usize) -> Option<Option<Node>> {
        self.pool.spare().lacking(&self.nodes_in_use(nodes), ready, kept)
    }

    /// The nodes that sessions are on; while there are none, those that a program can run on.
    pub(crate) fn nodes_in_use(&self, nodes: &Nodes) -> BTreeSet<Node> {
        if !nodes.are_several() {
            return BTreeSet::new();
        }
        let in_use: BTreeSet<Node> = self.sessions.values().filter_map(|session| session.node).collect();
        if in_use.is_empty() { nodes.all().collect() } else { in_use }
    }
}

/// An open store.
pub struct SharedFs {
    pub(crate) tier: PathBuf,
    /// The same by a path that other processes know.
    pub(crate) named: PathBuf,
    pub(crate) parts: Arc<Parts>,
    pub(crate) superblock: Superblock,
    /// As its copies say it, with the opening this is.
    pub(crate) superblocks: Mutex<Superblocks>,
    /// The medium that is played on the store's own.
    pub(crate) emulated: Option<Arc<Emulated>>,
    /// The persistent memory the tier is on.
    pub(crate) region: Option<Region>,
    /// The memory nodes that logs can be placed on.
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) incarnation: Incarnation,
    pub(crate) marks: MarksFile,
    pub(crate) epochs: Epochs,
    pub(crate) references: References,
    pub(crate) passed: Mutex<PassedFiles>,
    pub(crate) mapped: MappedFiles,
    pub(crate) options: Options,
    pub(crate) metadata: MetadataStore,
    /// What of it is sent again and again.
    pub(crate) packed: Arc<Packed>,
    pub(crate) directory_changes: DirectoryChanges,
    pub(crate) lost: Lost,
    pub(crate) arenas: Arenas,
    pub(crate) stand_ins: StandIns,
    pub(crate) digester: Mutex<Digester>,
    pub(crate) core: Mutex<Core>,
    /// Control pages of sessions to come.
    pub(crate) controls: Mutex<Vec<Control>>,
    pub(crate) space: Mutex<Space>,
    pub(crate) quotas: Mutex<Quotas>,
    /// Limits how often a question for totals digests everything.
    pub(crate) totals_limit: RateLimit,
    pub(crate) events: Events,
    pub(crate) counters: Counters,
    pub(crate) first_calls: FirstCalls,
    pub(crate) idle_memory: IdleMemory,
    pub(crate) migration: Migration,
    pub(crate) request_times: RequestTimes,
    pub(crate) opened: Instant,
    pub(crate) doubt: Doubt,
    pub(crate) told_damage: ToldDamage,
    pub(crate) recovered: Recovered,
    pub(crate) making: Mutex<()>,
    /// Held for reading while a session begins; for writing, where none may begin.
    pub(crate) attaching: RwLock<()>,
    pub(crate) recovering: AtomicBool,
    /// A digest runs.
    pub(crate) digests: AtomicBool,
    /// When a session was last given what another one was fenced for.
    pub(crate) last_polled_at: Mutex<Option<Instant>>,
    /// Inodes without a name that are kept while the daemon can see that a program has them open.
    pub(crate) watched_orphans: AtomicU64,
    /// When a digest last found the medium full.
    pub(crate) starved: Mutex<Option<Instant>>,
}

/// A session, as the server keeps it.
#[derive(Clone, Debug)]
pub struct SessionHandle {
    /// Its number.
    pub session: SessionId,
    /// Its pages and the eventfd it kicks.
    pub control: Arc<Control>,
}

impl std::fmt::Debug for SharedFs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedFs").field("tier", &self.tier).finish_non_exhaustive()
    }
}

impl SharedFs {
    /// The sizes.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        self.superblock.geometry
    }

    /// The store's superblock.
    #[must_use]
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// The profile of the medium that is played on the store's own.
    pub(crate) fn profile(&self) -> Option<Profile> {
        self.emulated.as_ref().map(|emulated| emulated.profile())
    }

    /// The configuration it runs with.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// What recovery found when the store was opened.
    #[must_use]
    pub fn recovered(&self) -> &Recovered {
        &self.recovered
    }

    /// Whether it was left.
    pub(crate) fn is_left(&self) -> bool {
        self.metadata.is_left()
    }
}
