//! The arena files of one tier, mapped for as long as the daemon runs.
//!
//! An arena is as long as it will ever be from the start, but gets its memory in steps: no session waits for the
//! kernel to clear all of it. Only the last arena may lack some. How far it has come is written down nowhere: after
//! a restart it goes on behind the last block in use. Allocating again blocks that have their room costs nothing
//! and cannot fail.

use super::page_size::PageSizes;
use super::stamps::ArenaStamps;
use super::written_arenas::{WrittenArenas, is_shortage};
use crate::Error;
use crate::tiers::blocks::Run;
use crate::tiers::device::{Part, Parts};
use cuesta_format::geometry::arena_path;
use cuesta_format::stamp::STAMP_BYTES;
use cuesta_format::superblock::Medium;
use cuesta_format::{ArenaId, BLOCK_BYTES, BlockAddress, Geometry, TierNumber};
use cuesta_media::emulate::{Emulated, PlayedDisk};
use cuesta_media::mapped_files::punch;
use cuesta_media::{
    HUGE_PAGE_BYTES, Mapping, MediaError, Node, Nodes, Protection, SharedMemory, discard, flush_file,
    write_back,
};
use parking_lot::{Mutex, RwLock};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// Memory is given to an arena in steps of this size. The kernel clears a huge page in a quarter of a millisecond,
/// and as much in small ones in one.
pub(crate) const STEP_BYTES: u64 = HUGE_PAGE_BYTES;
/// On a disk nothing is cleared, but each step is a commit of the file system below. Where there is no room for
/// such a step, there may be for a small one.
const STEP_BYTES_ON_DISK: u64 = 16 << 20;

/// Blocks that have their memory now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grown {
    /// Whose.
    pub arena: ArenaId,
    /// Which.
    pub blocks: Range<u32>,
    /// Those of them that the medium does not take.
    pub bad: Vec<u32>,
    /// The memory node that was to give them their memory.
    pub wanted: Option<Node>,
    /// The one they lie on, on a machine with several.
    pub node: Option<Node>,
}

/// How far the last arena has come.
#[derive(Debug)]
struct Last {
    allocated: u64,
    /// Where it lies, once that was needed.
    part: Option<Part>,
    page_sizes: PageSizes,
}

/// Gives a part of an arena its memory. Answers the blocks that the medium does not take.
fn provide(mapping: &Mapping, file: &OwnedFd, part: Range<u64>, huge: bool) -> Result<Vec<u32>, MediaError> {
    match mapping.provide(file, part.start, part.end - part.start, huge) {
        Err(error) if is_bad_medium(&error) => {}
        provided => return provided.map(|()| Vec::new()),
    }
    let mut bad = Vec::new();
    for offset in part.step_by(BLOCK_BYTES as usize) {
        match mapping.provide(file, offset, BLOCK_BYTES, false) {
            Err(error) if is_bad_medium(&error) => bad.push((offset / BLOCK_BYTES) as u32),
            provided => provided?,
        }
    }
    Ok(bad)
}

/// Whether it says of a part of the medium that it can be neither cleared nor touched.
fn is_bad_medium(error: &MediaError) -> bool {
    matches!(error.errno(), Errno::IO | Errno::FAULT | Errno::HWPOISON)
}

/// All arenas of a tier, numbered from 0 without gaps.
#[derive(Debug)]
pub struct TierArenas {
    tier: TierNumber,
    parts: Arc<Parts>,
    geometry: Geometry,
    medium: Medium,
    nodes: Arc<Nodes>,
    mapped: RwLock<Vec<Arc<Mapping>>>,
    emulated: OnceLock<Arc<Emulated>>,
    played: OnceLock<Arc<PlayedDisk>>,
    /// Where content is written by calls.
    written: Option<WrittenArenas>,
    last: Mutex<Last>,
    /// The disk does not take room back.
    keeps_room: AtomicBool,
    /// The disk failed a write. The kernel tells of that once.
    has_lost_writes: AtomicBool,
    /// Says in them in which opening they were written.
    stamps: OnceLock<Arc<ArenaStamps>>,
    /// Steps that may have small pages.
    small: Mutex<VecDeque<(ArenaId, u64)>>,
}

impl TierArenas {
    /// Maps the arenas there are. The last one counts as whole until [`TierArenas::resume`].
    pub fn open(
        tier: TierNumber,
        parts: &Arc<Parts>,
        geometry: Geometry,
        medium: Medium,
        nodes: &Arc<Nodes>,
    ) -> Result<TierArenas, Error> {
        let geometry = geometry.of_tier(tier);
        let id = |index: u32| ArenaId::new(tier, index.into());
        let mut mapped = Vec::new();
        for arena in 0..geometry.arenas_max() {
            if !parts.has_arena(id(arena)) {
                break;
            }
            let mapping = match parts.is_device() || parts.disk().is_some() {
                true => {
                    let part = parts.arena(id(arena), &geometry, OFlags::RDWR)?;
                    part.map(Protection::ReadWrite, medium)?
                }
                false => {
                    let path = parts.tier().join(arena_path(id(arena)));
                    Mapping::open(&path, Protection::ReadWrite, medium)?
                }
            };
            // Behind what it holds may lie its stamp.
            let bytes = geometry.arena_file_bytes();
            if mapping.len() != bytes && mapping.len() != bytes + STAMP_BYTES as u64 {
                return Err(Error::Damaged(format!("arena {} is {} bytes long", id(arena), mapping.len())));
            }
            mapped.push(Arc::new(mapping));
        }
        let last =
            Mutex::new(Last { allocated: geometry.arena_bytes, part: None, page_sizes: PageSizes::new() });
        let steps =
            |arena| (0..geometry.arena_bytes / STEP_BYTES).map(move |step| (id(arena), step * STEP_BYTES));
        let small = Mutex::new((0..mapped.len() as u32).flat_map(steps).collect());
        let (mapped, emulated) = (RwLock::new(mapped), OnceLock::new());
        let nodes = Arc::clone(nodes);
        let written = match medium {
            Medium::Block => Some(WrittenArenas::open(parts, geometry)?),
            Medium::Memory | Medium::Pmem => None,
        };
        let parts = Arc::clone(parts);
        let stamps = OnceLock::new();
        Ok(TierArenas {
            tier,
            parts,
            geometry,
            medium,
            nodes,
            mapped,
            emulated,
            played: OnceLock::new(),
            written,
            last,
            keeps_room: AtomicBool::new(false),
            has_lost_writes: AtomicBool::new(false),
            stamps,
            small,
        })
    }

    /// From now on each arena says in which opening of the store it was written, where that is of use.
    pub(crate) fn stamp(&self, stamps: ArenaStamps) {
        // A disk is itself, and no copy.
        let is_disk = self.parts.disk().is_some();
        if self.geometry.checks_content && self.medium == Medium::Block && !is_disk {
            let _ = self.stamps.set(Arc::new(stamps));
        }
    }

    /// What says so.
    pub(crate) fn stamps(&self) -> Option<&Arc<ArenaStamps>> {
        self.stamps.get()
    }

    /// Has them, and those to come, play another medium.
    pub fn emulate(&self, emulated: &Arc<Emulated>) {
        let _ = self.emulated.set(Arc::clone(emulated));
        self.all().iter().for_each(|mapping| mapping.emulate(emulated));
    }

    /// Has them, and those to come, play another disk.
    pub(crate) fn play(&self, disk: Arc<PlayedDisk>) {
        let _ = self.played.set(disk);
        self.all().iter().for_each(|mapping| mapping.read_no_more_than_needed());
    }

    /// The disk that they play.
    pub(crate) fn played(&self) -> Option<&PlayedDisk> {
        self.played.get().map(Arc::as_ref)
    }

    /// Blocks are about to be read. What that takes on the disk that is played is for [`settle`] to wait for.
    ///
    /// [`settle`]: cuesta_media::emulate::settle
    pub(super) fn play_read(&self, address: BlockAddress, bytes: u64) {
        let Some(disk) = self.played.get() else { return };
        let (geometry, arena) = (&self.geometry, self.geometry.arena(address));
        let Ok(mapping) = self.mapping(arena) else { return };
        let begins = geometry.place_in_tier(arena);
        disk.read(&mapping, begins, geometry.arena_offset(address), bytes);
        if geometry.checks_content {
            let blocks = (address.0 % BLOCK_BYTES + bytes).div_ceil(BLOCK_BYTES);
            disk.read(&mapping, begins, geometry.sum_offset(address), blocks * size_of::<u32>() as u64);
        }
    }

    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    pub(crate) fn written(&self) -> Option<&WrittenArenas> {
        self.written.as_ref()
    }

    /// The tier's number.
    #[must_use]
    pub fn number(&self) -> TierNumber {
        self.tier
    }

    /// How stores to them become durable.
    #[must_use]
    pub fn medium(&self) -> Medium {
        self.medium
    }

    fn id(&self, index: u32) -> ArenaId {
        ArenaId::new(self.tier, index.into())
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.mapped.read().len() as u32
    }

    /// Takes only the first `blocks` blocks of the last arena to have their memory.
    pub fn resume(&self, blocks: u32) {
        self.last.lock().allocated = u64::from(blocks) * BLOCK_BYTES;
    }

    /// Gives the last arena another step of memory, or begins a new one, if the tier's size allows it and the
    /// medium has room. A whole step comes from the memory node `wanted`, if that has some.
    pub fn grow(&self, wanted: Option<Node>) -> Result<Grown, Error> {
        let mut last = self.last.lock();
        if self.count() == 0 || last.allocated == self.geometry.arena_bytes {
            last.part = Some(self.begin()?);
            last.allocated = 0;
        }
        let arena = self.id(self.count() - 1);
        let from = last.allocated;
        let step = if self.medium == Medium::Block { STEP_BYTES_ON_DISK } else { STEP_BYTES };
        let step_end = |bytes| (from + 1).next_multiple_of(bytes).min(self.geometry.arena_bytes);
        let mut to = step_end(step);
        if last.part.is_none() {
            last.part = Some(self.part(arena, OFlags::RDWR)?);
        }
        let last = &mut *last;
        let (mut bad, mut node) = (Vec::new(), None);
        let wanted = wanted.filter(|_| from.is_multiple_of(STEP_BYTES));
        if let Some(part) = &last.part {
            let file = &*part.file;
            let huge = last.page_sizes.next_is_huge();
            let started = Instant::now();
            let mapping = self.mapping(arena)?;
            let provide = |mapping: &Mapping, file: &OwnedFd, part: Range<u64>, huge: bool| {
                // A disk has its room from the start.
                if self.parts.disk().is_some() { Ok(Vec::new()) } else { provide(mapping, file, part, huge) }
            };
            if let Some(wanted) = wanted {
                // A mapping that says where would be cut there, and this one lives.
                let step =
                    Mapping::of_file(file, from, to - from, Protection::ReadWrite, self.medium, false)?;
                step.prefer(wanted);
            }
            bad = match provide(&mapping, file, from..to, huge) {
                Err(error) if error.is_full() && step > STEP_BYTES => {
                    to = step_end(STEP_BYTES);
                    provide(&mapping, file, from..to, huge)
                }
                provided => provided,
            }?;
            node = self.node_of(&mapping, from..to);
            if huge {
                last.page_sizes.took(started.elapsed());
            } else if to - from == STEP_BYTES {
                self.small.lock().push_back((arena, from));
            }
        }
        last.allocated = to;
        let blocks = (from / BLOCK_BYTES) as u32..(to / BLOCK_BYTES) as u32;
        Ok(Grown { arena, blocks, bad, wanted, node })
    }

    /// Whether blocks have room only once it was made, of a lower tier: files do, and a disk has all of it.
    pub(crate) fn makes_room_below(&self) -> bool {
        self.tier != TierNumber::FAST && self.parts.disk().is_none()
    }

    /// Makes room for blocks again of which the disk had it back. Blocks that have room keep it.
    pub(crate) fn make_room(&self, run: Run) -> Result<Grown, Error> {
        let arena = self.geometry.arena(run.address);
        let offset = self.geometry.arena_offset(run.address);
        let part = self.part(arena, OFlags::RDWR)?;
        self.mapping(arena)?.provide(&*part.file, offset, u64::from(run.blocks) * BLOCK_BYTES, false)?;
        let first = (offset / BLOCK_BYTES) as u32;
        Ok(Grown { arena, blocks: first..first + run.blocks, bad: Vec::new(), wanted: None, node: None })
    }

    /// Whether the disk takes room back, as far as is known.
    pub(crate) fn takes_room_back(&self) -> bool {
        !self.keeps_room.load(Ordering::Relaxed)
    }

    /// It does not.
    pub(crate) fn keep_room(&self) {
        self.keeps_room.store(true, Ordering::Relaxed);
    }

    /// Gives the disk the room of blocks back that hold nothing.
    pub(crate) fn give_back(&self, run: Run) -> Result<(), Error> {
        let Some(files) = &self.written else { return Ok(()) };
        let written = files.file(self.geometry.arena(run.address)).map_err(Error::errno("open an arena"))?;
        let offset = written.offset + self.geometry.arena_offset(run.address);
        let bytes = u64::from(run.blocks) * BLOCK_BYTES;
        let given = match self.parts.disk().is_some() {
            true => discard(written.file.as_fd(), offset, bytes),
            false => punch(&*written.file, offset, bytes),
        };
        given.map_err(Error::errno("give room of an arena back"))
    }

    /// Where the steps lie that the first `blocks` blocks of an arena are in, on a machine with several memory nodes.
    pub fn nodes(&self, arena: ArenaId, blocks: u32) -> Result<Vec<(Range<u32>, Node)>, Error> {
        if !self.nodes.are_several() {
            return Ok(Vec::new());
        }
        let mapping = self.mapping(arena)?;
        let steps = (0..blocks).step_by((STEP_BYTES / BLOCK_BYTES) as usize);
        let step = |first: u32| {
            let step = first..blocks.min(first + (STEP_BYTES / BLOCK_BYTES) as u32);
            let bytes = u64::from(step.start) * BLOCK_BYTES..u64::from(step.end) * BLOCK_BYTES;
            Some((step, self.node_of(&mapping, bytes)?))
        };
        Ok(steps.filter_map(step).collect())
    }

    /// The node that a step's memory lies on; none, where it is of several: one had no more of it on the way.
    fn node_of(&self, mapping: &Mapping, step: Range<u64>) -> Option<Node> {
        let first = self.nodes.at(mapping, step.start)?;
        (self.nodes.at(mapping, step.end - 1)? == first).then_some(first)
    }

    /// Makes one step of small pages a huge one, where there is any. For idle times: a session that uses the
    /// memory meanwhile waits for some milliseconds. Says whether there was one.
    pub fn collapse(&self) -> Result<bool, Error> {
        let Some((arena, from)) = self.small.lock().pop_front() else { return Ok(false) };
        // Where it cannot be done now, it stays as it is.
        self.mapping(arena)?.collapse(from)?;
        Ok(true)
    }

    /// Makes one more arena, without memory.
    fn begin(&self) -> Result<Part, Error> {
        let arena = self.id(self.count());
        if arena.index() >= self.geometry.arenas_max() {
            return Err(Error::NoSpace);
        }
        let (blocks, len) = (self.geometry.arena_bytes, self.geometry.arena_file_bytes());
        let part = self.parts.make_arena(arena, &self.geometry)?;
        let mapped = part.map(Protection::ReadWrite, self.medium).and_then(|mapping| {
            if len > blocks && self.parts.disk().is_none() {
                mapping.provide(&*part.file, blocks, len - blocks, false)?;
            }
            Ok(mapping)
        });
        let mapping = mapped.inspect_err(|_| {
            // The error to report is the first one. A part left behind would be in the way of the next
            // attempt.
            if self.parts.disk().is_none() {
                let _ = self.parts.remove(&arena_path(arena));
            }
        })?;
        if let Some(emulated) = self.emulated.get() {
            mapping.emulate(emulated);
        }
        if self.played.get().is_some() {
            mapping.read_no_more_than_needed();
        }
        self.mapped.write().push(Arc::new(mapping));
        Ok(part)
    }

    fn part(&self, arena: ArenaId, access: OFlags) -> Result<Part, Error> {
        self.parts.arena(arena, &self.geometry, access)
    }

    /// The arena's mapping.
    pub fn mapping(&self, arena: ArenaId) -> Result<Arc<Mapping>, Error> {
        let mapping = self.mapped.read().get(arena.index() as usize).cloned();
        mapping.ok_or_else(|| Error::Damaged(format!("arena {arena} does not exist")))
    }

    /// All mappings, by arena.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Mapping>> {
        self.mapped.read().clone()
    }

    /// Makes what this thread stored in arenas durable.
    pub fn fence(&self) -> Result<(), Error> {
        let mapped = self.all();
        if let Some(disk) = self.played.get() {
            disk.flush_written();
        }
        Ok(SharedMemory::fence_all(mapped.iter().map(|mapping| &***mapping))?)
    }

    /// A descriptor that allows reading only, to hand to a session, and where in it the arena begins.
    pub fn descriptor(&self, arena: ArenaId) -> Result<(OwnedFd, u64), Error> {
        self.mapping(arena)?;
        let part = self.part(arena, OFlags::RDONLY)?;
        let file = part.file.try_clone().map_err(Error::io("copy a descriptor"))?;
        Ok((file, part.offset))
    }

    /// A descriptor that allows writing, to hand to a session with a window, and where in it the arena begins.
    pub(super) fn writable_descriptor(&self, arena: ArenaId) -> Result<(OwnedFd, u64), Error> {
        self.mapping(arena)?;
        let part = self.part(arena, OFlags::RDWR)?;
        let file = part.file.try_clone().map_err(Error::io("copy a descriptor"))?;
        Ok((file, part.offset))
    }

    /// Has the disk take all that was written to an arena by calls (medium `block`).
    pub(crate) fn flush(&self, arena: ArenaId) -> Result<(), Error> {
        let Some(files) = &self.written else { return Ok(()) };
        if let Some(disk) = self.played.get() {
            disk.flush();
        }
        if self.has_lost_writes.load(Ordering::Acquire) {
            return Err(Error::errno("sync an arena")(Errno::IO));
        }
        match files.file(arena) {
            Ok(written) => flush_file(written.file.as_fd()).map_err(Error::errno("sync an arena")),
            // The mapping has the same pages, and needs no descriptor.
            Err(errno) if is_shortage(errno) => {
                let mapping = self.mapping(arena)?;
                Ok(mapping.sync(0, mapping.len())?)
            }
            Err(errno) => Err(Error::errno("open an arena to sync it")(errno)),
        }
    }

    /// Has the disk take blocks that a session wrote (medium `block`). A flush has to follow.
    pub(super) fn write_back(&self, run: Run) {
        let Some(files) = &self.written else { return };
        if let Ok(written) = files.file(self.geometry.arena(run.address)) {
            let offset = written.offset + self.geometry.arena_offset(run.address);
            if let Some(disk) = self.played.get() {
                disk.write_back();
            }
            if write_back(written.file.as_fd(), offset, u64::from(run.blocks) * BLOCK_BYTES).is_err() {
                self.has_lost_writes.store(true, Ordering::Release);
            }
        }
    }

    /// Copies bytes out of one arena; the range must not cross its end.
    pub(super) fn read(&self, address: BlockAddress, inside: u64, out: &mut [u8]) -> Result<(), Error> {
        let mapping = self.mapping(self.geometry.arena(address))?;
        self.play_read(address.plus(inside), out.len() as u64);
        Ok(mapping.read(self.geometry.arena_offset(address) + inside, out)?)
    }
}
