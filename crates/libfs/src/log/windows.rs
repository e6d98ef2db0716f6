//! Windows: blocks that SharedFS granted to this session, which it writes by calls and names in its log
//! (docs/decisions/0063).
//!
//! Mechanism: blocks of the present window are handed out in order, each once. When all are, the session asks for the
//! next window and says which windows it has done with: no thread writes a block of these, and the log names none
//! behind its present end. SharedFS frees what the log never named.
//!
//! Policy: each window is twice as large as the last. A session that got none asks again once its log is longer.
//!
//! On medium `block` an fsync first has the disk take the files of windows that were written since the last one. On `pmem`
//! each write does, because what returned is durable there.

use super::arena_file::ArenaFile;
use super::write_back::WriteBack;
use crate::errno::Error;
use crate::mapped::kept_descriptors::{HeldDescriptor, KeptDescriptors};
use crate::session::session::Session;
use crate::sync::{Arc, Mutex};
use cuesta_format::operation::BlockRun;
use cuesta_format::wire::{Request, Response, WINDOWS_MAX};
use cuesta_format::{BLOCK_BYTES, BlockAddress, LogPosition, Medium, TierNumber};
use cuesta_media::planted::{self, Bug};
use cuesta_media::{GatherError, UserSlice, write_gathered};

/// Blocks of the first window: 4 MiB.
const BLOCKS_FIRST: u32 = 1 << 10;
/// Blocks of a window at most: 64 MiB.
const BLOCKS_MOST: u32 = 16 << 10;
/// A session that got no window asks again when its log has grown by so much.
const ASK_AGAIN_BYTES: u64 = 4 << 20;
/// Buffers that are kept for copies that are summed, and their size: it fits the second cache.
const BUFFERS_MAX: usize = 4;
pub(crate) const BUFFER_BYTES: usize = 128 << 10;

/// The session's windows of one tier.
#[derive(Debug)]
pub(crate) struct Windows {
    tier: TierNumber,
    state: Mutex<State>,
    buffers: Mutex<Vec<Box<[u8]>>>,
    pub(crate) write_back: WriteBack,
}

#[derive(Debug, Default)]
struct State {
    /// The present window, and how many of its blocks are handed out.
    present: Option<(Arc<Window>, u32)>,
    /// Windows of which all blocks are handed out, which SharedFS was not told.
    used_up: Vec<Arc<Window>>,
    /// Files of arenas that are written, or were and may not be on the disk.
    files: Vec<KeptFile>,
    /// Blocks of the last window; 0: there was none.
    blocks_last: u32,
    /// SharedFS had no window. The session asks again when the log is longer than that.
    ask_again: LogPosition,
}

#[derive(Debug)]
struct KeptFile {
    file: Arc<ArenaFile>,
    /// No window lies in it, and the log names blocks of it below this.
    named_below: Option<LogPosition>,
}

/// Blocks of one arena.
#[derive(Debug)]
struct Window {
    address: BlockAddress,
    blocks: u32,
    file: Arc<ArenaFile>,
}

/// Blocks that a thread may write, each once. While they live, their window is not done with.
#[derive(Debug)]
pub(crate) struct StagedRun {
    pub(crate) run: BlockRun,
    window: Arc<Window>,
}

impl StagedRun {
    /// Writes the bytes of `parts` into the run, which is of these windows, `inside` bytes behind its beginning. They must
    /// fit. Waits for the disk while it has much to write and programs sync.
    pub(crate) fn write(
        &self,
        session: &Session,
        windows: &Windows,
        inside: u64,
        parts: &[UserSlice<'_>],
    ) -> Result<(), GatherError> {
        let geometry = session.geometry();
        let file = &self.window.file;
        let offset = file.begins() + geometry.arena_offset(self.run.address) + inside;
        let medium = match self.run.address.tier() {
            TierNumber::FAST => session.welcome.medium,
            _ => Medium::Block,
        };
        let bytes = parts.iter().map(|part| part.len() as u64).sum::<u64>();
        let write = || {
            let written = file.with(|file| write_gathered(file, offset, medium, parts));
            written.unwrap_or(Err(GatherError::Refused(rustix::io::Errno::BADF)))
        };
        let emulated = session.arenas.emulated().filter(|_| self.run.address.tier() == TierNumber::FAST);
        let written = match emulated {
            Some(emulated) => emulated.write_by_call(bytes as usize, write),
            None => write(),
        };
        if let Some(disk) = session.arenas.played(self.run.address.tier()) {
            let place = geometry.place_in_tier(geometry.arena(self.run.address));
            let inside = geometry.arena_offset(self.run.address) + inside;
            disk.written(place + inside, bytes);
        }
        // Before the entry that names the blocks is there: a thread that syncs the entry finds this.
        file.note_write();
        if session.welcome.medium == Medium::Block {
            windows.write_back.note_written(file, offset..offset + bytes);
        }
        written
    }

    /// Flushes the file that the run lies in. Returns whether the flush succeeded.
    pub(crate) fn flush(&self) -> bool {
        planted::active(Bug::SyncForgotten) || self.window.file.flush()
    }
}

impl Windows {
    /// None yet.
    pub(crate) fn of(tier: TierNumber) -> Windows {
        Windows { tier, state: Mutex::default(), buffers: Mutex::default(), write_back: WriteBack::default() }
    }

    /// Takes `blocks` blocks, in as few runs as there are. `None`: SharedFS grants none at present. Call without any
    /// inode's lock.
    pub(crate) fn take(
        &self,
        session: &Session,
        descriptors: &KeptDescriptors,
        blocks: u32,
    ) -> Option<Vec<StagedRun>> {
        let mut state = self.state.lock();
        let mut runs = Vec::new();
        let mut missing = blocks;
        while missing > 0 {
            if let Some(run) = state.take_from_present(missing) {
                missing -= run.run.blocks;
                runs.push(run);
            } else if !state.ask(session, descriptors, self.tier, blocks).unwrap_or(false) {
                // The blocks that were taken stay unwritten, and go back with their window.
                return None;
            }
        }
        Some(runs)
    }

    /// Has the disk take everything that was staged (medium `block`). Says whether it did.
    pub(crate) fn flush(&self, session: &Session) -> bool {
        if planted::active(Bug::SyncForgotten) {
            return true;
        }
        let dirty: Vec<Arc<ArenaFile>> = {
            let state = self.state.lock();
            let files = state.files.iter().map(|kept| &kept.file);
            files.filter(|file| file.is_dirty()).cloned().collect()
        };
        let is_flushed = dirty.iter().all(|file| {
            if let Some(disk) = session.arenas.played(file.arena().tier()) {
                disk.flush();
            }
            file.flush()
        });
        if is_flushed {
            self.write_back.note_flushed();
        } else {
            self.state.lock().leave_present();
        }
        is_flushed
    }

    /// A buffer of [`BUFFER_BYTES`].
    pub(crate) fn buffer(&self) -> Box<[u8]> {
        let kept = self.buffers.try_lock().and_then(|mut buffers| buffers.pop());
        kept.unwrap_or_else(|| vec![0; BUFFER_BYTES].into_boxed_slice())
    }

    /// Gives a buffer back.
    pub(crate) fn keep_buffer(&self, buffer: Box<[u8]>) {
        if let Some(mut buffers) = self.buffers.try_lock()
            && buffers.len() < BUFFERS_MAX
        {
            buffers.push(buffer);
        }
    }
}

impl State {
    fn take_from_present(&mut self, most: u32) -> Option<StagedRun> {
        let (window, taken) = self.present.as_mut()?;
        let blocks = most.min(window.blocks - *taken);
        if blocks == 0 {
            return None;
        }
        let address = window.address.plus(u64::from(*taken) * BLOCK_BYTES);
        *taken += blocks;
        Some(StagedRun { run: BlockRun { address, blocks }, window: Arc::clone(window) })
    }

    /// No more blocks of the present window are handed out.
    fn leave_present(&mut self) {
        if let Some((window, _)) = self.present.take() {
            self.used_up.push(window);
        }
    }

    /// Asks for the next window. Says whether there is one.
    fn ask(
        &mut self,
        session: &Session,
        descriptors: &KeptDescriptors,
        tier: TierNumber,
        least: u32,
    ) -> Result<bool, Error> {
        self.leave_present();
        if session.appender.admitted() < self.ask_again {
            return Ok(false);
        }
        let wanted = (self.blocks_last * 2).max(least).clamp(BLOCKS_FIRST, BLOCKS_MOST);
        let done = self.take_done(session);
        let mut answered = Vec::new();
        let request = Request::Window { tier, blocks: wanted, done };
        let answer = session.call(&request, &mut answered);
        let granted = match (answer, answered.pop()) {
            (Ok(Response::Window { address, blocks, begins }), Some(file)) if blocks > 0 => {
                let file = self.file_of(session, descriptors, (address, begins), file);
                file.map(|file| Window { address, blocks, file })
            }
            (Err(error), _) => return Err(error),
            _ => None,
        };
        self.forget_files(session);
        let Some(window) = granted else {
            self.ask_again = session.appender.admitted().plus(ASK_AGAIN_BYTES);
            self.blocks_last = 0;
            return Ok(false);
        };
        self.blocks_last = window.blocks;
        self.present = Some((Arc::new(window), 0));
        Ok(true)
    }

    /// The windows that no thread writes any more.
    fn take_done(&mut self, session: &Session) -> Vec<(BlockAddress, LogPosition)> {
        let mut done = Vec::new();
        self.used_up.retain(|window| {
            // No thread can take a block of it, so the count only falls. Entries that name its blocks are complete.
            let is_done = Arc::strong_count(window) == 1 && done.len() < WINDOWS_MAX;
            if is_done {
                done.push((window.address, session.appender.completed()));
            }
            !is_done
        });
        done
    }

    /// The file of a window's arena: one that is kept, or the one that came with the window.
    fn file_of(
        &mut self,
        session: &Session,
        descriptors: &KeptDescriptors,
        (address, begins): (BlockAddress, u64),
        file: rustix::fd::OwnedFd,
    ) -> Option<Arc<ArenaFile>> {
        let arena = session.geometry().arena(address);
        if let Some(kept) = self.files.iter_mut().find(|kept| kept.file.arena() == arena) {
            kept.named_below = None;
            return Some(Arc::clone(&kept.file));
        }
        let file = HeldDescriptor::hold(descriptors, file)?;
        let file = Arc::new(ArenaFile::of(arena, file, begins));
        self.files.push(KeptFile { file: Arc::clone(&file), named_below: None });
        Some(file)
    }

    /// Lets go of files that no window lies in. On a disk the session flushes them until their blocks are digested,
    /// for a digest has the disk take what it adopts.
    fn forget_files(&mut self, session: &Session) {
        let waits = session.welcome.medium == Medium::Block;
        self.files.retain_mut(|kept| {
            if Arc::strong_count(&kept.file) > 1 {
                return true;
            }
            let named_below = *kept.named_below.get_or_insert(session.appender.completed());
            waits && session.digested() < named_below
        });
    }
}
