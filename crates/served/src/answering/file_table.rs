//! The table of open files, where the next daemon finds it.
//!
//! A token is the reading end of a named pipe in a folder of the tier's, which only the daemon's user may enter. The pipe's
//! name is the number of a slot of a table beside it: which inode the file is of, and its number, flags and offset, as
//! they are at any moment. Pipes and the holders of their ends are the kernel's, and stay when a daemon dies; so the next one opens
//! its ends of them again, finds out which have no holder, and has the state of all others from the table.
//!
//! A call that moves an offset first notes the offset and its own number. A process that repeats the call, because it was not
//! answered by the daemon that died, has it done from there.

use cuesta_format::geometry::USERS_FILES_FOLDER;
use cuesta_format::{InodeNumber, Medium};
use cuesta_media::{Mapping, Protection};
use parking_lot::Mutex;
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, Dir, FallocateFlags, FileType, Mode, OFlags, fallocate, fstat, ftruncate, mkdirat, mknodat,
    openat, unlinkat,
};
use rustix::io::Errno;
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const TABLE: &str = "table";
/// Of the table: another is begun anew.
const VERSION: u64 = 1;
const SLOT_BYTES: u64 = 64;
/// The first slot says what the table is.
const SLOTS: u32 = 1 << 17;
/// No daemon ever gave so many files a number: a record that says so is damaged, and others are numbered behind it.
const NUMBERS_MAX: u64 = 1 << 62;
/// The least that a pipe can hold.
const PIPE_BYTES: usize = 4096;
/// The most pipes that the table keeps for the next files.
const SPARES_MAX: usize = 64;
const PIPE_FLAGS: OFlags = OFlags::NONBLOCK.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const FOLDER_MODE: Mode = Mode::from_raw_mode(0o700);
const FILE_MODE: Mode = Mode::from_raw_mode(0o600);

/// The words of a slot.
#[derive(Clone, Copy)]
enum Word {
    Number,
    Inode,
    /// Flags, and above them whether the offset is shared by memory.
    Flags,
    /// User, and above it group.
    Who,
    Offset,
    /// Where the offset was before the call that moves it,
    Before,
    /// and what that call is known by.
    Operation,
}

/// The record of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) number: u64,
    pub(crate) inode: InodeNumber,
    pub(crate) flags: i32,
    pub(crate) user: u32,
    pub(crate) group: u32,
    pub(crate) offset: u64,
    /// Processes share it by memory, which the next daemon does not have.
    pub(crate) has_cell: bool,
}

/// The place of one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(u32);

/// A file that the daemon before kept, and that a process still has.
pub(crate) struct SurvivingFile {
    pub(crate) slot: Slot,
    pub(crate) record: Record,
    /// Our end of its pipe.
    pub(crate) pipe: OwnedFd,
}

/// A pipe for a file just opened.
pub(crate) struct Made {
    pub(crate) slot: Slot,
    pub(crate) token: OwnedFd,
    pub(crate) pipe: Arc<OwnedFd>,
    /// The pipe was another file's before.
    pub(crate) is_used: bool,
}

/// A pipe of which no process has the other end, for the next file.
struct Spare {
    slot: Slot,
    pipe: Arc<OwnedFd>,
}

/// The folder and the table.
pub(crate) struct FileTable {
    folder: OwnedFd,
    file: OwnedFd,
    /// Of the table, the pipes and the folder.
    device: u64,
    table: Mapping,
    free: Mutex<Free>,
    spares: Mutex<Vec<Spare>>,
}

struct Free {
    given_back: Vec<u32>,
    /// From here on all are free.
    next: u32,
}

fn name(slot: u32) -> String {
    slot.to_string()
}

impl FileTable {
    /// Opens the table in the tier, and finds the files that a process still has. The rest goes.
    pub(crate) fn open(tier: &Path) -> io::Result<(FileTable, Vec<SurvivingFile>)> {
        let path = tier.join(USERS_FILES_FOLDER);
        match mkdirat(CWD, &path, FOLDER_MODE) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
        let folder = openat(CWD, &path, flags, Mode::empty())?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&folder, TABLE, flags, FILE_MODE)?;
        let bytes = u64::from(SLOTS) * SLOT_BYTES;
        let is_whole = fstat(&file)?.st_size.unsigned_abs() == bytes;
        ftruncate(&file, bytes)?;
        let device = fstat(&file)?.st_dev;
        // A page that is not there could not be had later, on a full medium.
        fallocate(&file, FallocateFlags::empty(), 0, SLOT_BYTES)?;
        let table = Mapping::of_file(file.as_fd(), 0, bytes, Protection::ReadWrite, Medium::Memory, false)
            .map_err(io::Error::other)?;
        let mut kept = FileTable {
            folder,
            file,
            device,
            table,
            free: Mutex::new(Free { given_back: Vec::new(), next: 1 }),
            spares: Mutex::default(),
        };
        let is_ours = is_whole && kept.word(Slot(0), Word::Number).load(Ordering::Acquire) == VERSION;
        let found = kept.look(is_ours)?;
        kept.word(Slot(0), Word::Number).store(VERSION, Ordering::Release);
        Ok((kept, found))
    }

    /// The device that the pipes lie on.
    pub(crate) fn device(&self) -> u64 {
        self.device
    }

    /// Goes through the pipes; keeps none that `is_ours` does not vouch for.
    fn look(&mut self, is_ours: bool) -> io::Result<Vec<SurvivingFile>> {
        let mut found = Vec::new();
        for entry in Dir::read_from(&self.folder)? {
            let entry = entry?;
            let Some(number) = entry.file_name().to_str().ok().and_then(|name| name.parse().ok()) else {
                continue;
            };
            let is_known = |number: &u32| {
                is_ours && (1..SLOTS).contains(number) && self.record(Slot(*number)).number < NUMBERS_MAX
            };
            let pipe = Some(number).filter(is_known);
            match pipe.and_then(|number| self.open_end(number)) {
                Some(pipe) => {
                    let slot = Slot(number);
                    found.push(SurvivingFile { slot, record: self.record(slot), pipe });
                }
                None => drop(unlinkat(&self.folder, entry.file_name(), AtFlags::empty())),
            }
        }
        // By a number a program means one file: of two records with the same neither is believed.
        let mut counts: HashMap<u64, u32> = HashMap::new();
        found.iter().for_each(|found: &SurvivingFile| *counts.entry(found.record.number).or_default() += 1);
        let (mut found, doubtful): (Vec<SurvivingFile>, Vec<SurvivingFile>) =
            found.into_iter().partition(|found| counts.get(&found.record.number) == Some(&1));
        for SurvivingFile { slot, .. } in doubtful {
            // One that stays is found to be doubtful by the next daemon, or made anew.
            let _ = unlinkat(&self.folder, name(slot.0), AtFlags::empty());
        }
        found.sort_unstable_by_key(|found| found.slot.0);
        let free = self.free.get_mut();
        for SurvivingFile { slot, .. } in &found {
            free.given_back.extend(free.next..slot.0);
            free.next = slot.0 + 1;
        }
        Ok(found)
    }

    /// Our end of a pipe; `None`: no process has the other.
    fn open_end(&self, slot: u32) -> Option<OwnedFd> {
        let pipe = openat(&self.folder, name(slot), PIPE_FLAGS | OFlags::WRONLY, Mode::empty()).ok()?;
        let is_pipe = FileType::from_raw_mode(fstat(&pipe).ok()?.st_mode) == FileType::Fifo;
        is_pipe.then_some(pipe)
    }

    /// The word; every slot is inside the table.
    fn word(&self, slot: Slot, word: Word) -> &AtomicU64 {
        static SPARE: AtomicU64 = AtomicU64::new(0);
        let place = u64::from(slot.0) * SLOT_BYTES + word as u64 * 8;
        self.table.atomic_u64(place).unwrap_or(&SPARE)
    }

    fn record(&self, slot: Slot) -> Record {
        let word = |word| self.word(slot, word).load(Ordering::Acquire);
        let (flags, who) = (word(Word::Flags), word(Word::Who));
        Record {
            number: word(Word::Number),
            inode: InodeNumber(word(Word::Inode)),
            flags: flags as u32 as i32,
            has_cell: flags >> 32 != 0,
            user: who as u32,
            group: (who >> 32) as u32,
            offset: word(Word::Offset),
        }
    }

    /// Gives a file a pipe, a spare one if there is one, and stores its record in the table.
    pub(crate) fn make(&self, record: &Record) -> Result<Made, Errno> {
        let spare = self.spares.lock().pop();
        if let Some(Spare { slot, pipe }) = spare {
            self.store(slot, record);
            // The next daemon believes the slot as soon as the pipe has a reader, so the record comes first.
            if let Ok(token) = self.open_token(slot) {
                return Ok(Made { slot, token, pipe, is_used: true });
            }
            self.give_back(slot);
        }
        let slot = self.take()?;
        self.store(slot, record);
        self.make_pipe(slot).inspect_err(|_| self.give_back(slot))
    }

    fn store(&self, slot: Slot, record: &Record) {
        let store = |word, value| self.word(slot, word).store(value, Ordering::Release);
        store(Word::Number, record.number);
        store(Word::Inode, record.inode.0);
        store(Word::Flags, u64::from(record.flags as u32) | u64::from(record.has_cell) << 32);
        store(Word::Who, u64::from(record.user) | u64::from(record.group) << 32);
        store(Word::Offset, record.offset);
        store(Word::Operation, 0);
    }

    fn take(&self) -> Result<Slot, Errno> {
        let mut free = self.free.lock();
        if let Some(slot) = free.given_back.pop() {
            return Ok(Slot(slot));
        }
        let slot = free.next;
        if slot >= SLOTS {
            return Err(Errno::NFILE);
        }
        fallocate(&self.file, FallocateFlags::empty(), u64::from(slot) * SLOT_BYTES, SLOT_BYTES)?;
        free.next += 1;
        Ok(Slot(slot))
    }

    fn make_pipe(&self, slot: Slot) -> Result<Made, Errno> {
        let name = name(slot.0);
        let make = || mknodat(&self.folder, &name, FileType::Fifo, FILE_MODE, 0);
        match make() {
            Err(Errno::EXIST) => {
                unlinkat(&self.folder, &name, AtFlags::empty())?;
                make()?;
            }
            made => made?,
        }
        let token = self.open_token(slot)?;
        let pipe = openat(&self.folder, &name, PIPE_FLAGS | OFlags::WRONLY, Mode::empty())?;
        // A larger one counts for more against what the kernel allows the daemon's user: a proof is all that goes through.
        let _ = rustix::pipe::fcntl_setpipe_size(&pipe, PIPE_BYTES);
        Ok(Made { slot, token, pipe: Arc::new(pipe), is_used: false })
    }

    fn open_token(&self, slot: Slot) -> Result<OwnedFd, Errno> {
        openat(&self.folder, name(slot.0), PIPE_FLAGS | OFlags::RDONLY, Mode::empty())
    }

    /// Keeps the pipe of a closed file for another file. No process may have its token. Making a pipe costs as much as the
    /// rest of an `open`.
    pub(crate) fn keep_pipe(&self, slot: Slot, pipe: &Arc<OwnedFd>) {
        let mut spares = self.spares.lock();
        if spares.len() < SPARES_MAX {
            spares.push(Spare { slot, pipe: Arc::clone(pipe) });
        } else {
            drop(spares);
            self.give_back(slot);
        }
    }

    /// Nobody has the file any more.
    pub(crate) fn give_back(&self, slot: Slot) {
        // If it stays, the next daemon finds that it has no holder, or makes it anew.
        let _ = unlinkat(&self.folder, name(slot.0), AtFlags::empty());
        self.free.lock().given_back.push(slot.0);
    }

    /// The file has other flags now.
    pub(crate) fn set_flags(&self, slot: Slot, flags: i32) {
        let word = self.word(slot, Word::Flags);
        let above = word.load(Ordering::Acquire) >> 32 << 32;
        word.store(above | u64::from(flags as u32), Ordering::Release);
    }

    /// A call is about to move the offset from `offset`, or from where the same call found it that was not answered:
    /// that is answered. 0 is no call's.
    pub(crate) fn begin_move(&self, slot: Slot, operation: u64, offset: u64) -> u64 {
        let (before, last) = (self.word(slot, Word::Before), self.word(slot, Word::Operation));
        if operation != 0 && last.load(Ordering::Acquire) == operation {
            return before.load(Ordering::Acquire);
        }
        last.store(0, Ordering::Release);
        before.store(offset, Ordering::Release);
        last.store(operation, Ordering::Release);
        offset
    }

    /// Whether no call but `operation` began to move the offset last.
    pub(crate) fn is_last_move(&self, slot: Slot, operation: u64) -> bool {
        self.word(slot, Word::Operation).load(Ordering::Acquire) == operation
    }

    /// It is here now.
    pub(crate) fn end_move(&self, slot: Slot, offset: u64) {
        self.word(slot, Word::Offset).store(offset, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: u64) -> Record {
        let inode = InodeNumber(number + 100);
        Record {
            number,
            inode,
            flags: libc::O_RDWR,
            user: 7,
            group: 8,
            offset: 9,
            has_cell: number.is_multiple_of(2),
        }
    }

    /// Opens the table again, once it finds as many files. A child that another test forks has copies of all tokens until it
    /// executes its program.
    fn open_with(tier: &Path, files: usize) -> (FileTable, Vec<SurvivingFile>) {
        loop {
            let (kept, found) = FileTable::open(tier).unwrap();
            if found.len() <= files {
                return (kept, found);
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn the_next_daemon_finds_files_that_have_a_holder() {
        let tier = tempfile::tempdir().unwrap();
        let (kept, found) = FileTable::open(tier.path()).unwrap();
        assert!(found.is_empty());
        let [one, two, three] = [1, 2, 3].map(|number| kept.make(&record(number)).unwrap());
        kept.set_flags(two.slot, libc::O_RDWR | libc::O_APPEND);
        assert_eq!(kept.begin_move(three.slot, 5, 9), 9);
        kept.end_move(three.slot, 20);
        let (gone, tokens) = (one.token, [two.token, three.token]);
        drop((kept, gone, one.pipe, two.pipe, three.pipe));

        let (kept, found) = open_with(tier.path(), 2);
        let records: Vec<Record> = found.iter().map(|found| found.record).collect();
        let appends = Record { flags: libc::O_RDWR | libc::O_APPEND, ..record(2) };
        assert_eq!(records, [appends, Record { offset: 20, ..record(3) }]);
        assert_eq!(kept.begin_move(three.slot, 6, 20), 20, "another call");
        assert_eq!(kept.begin_move(three.slot, 6, 30), 20, "the same call once more");
        let made = kept.make(&record(4)).unwrap();
        assert_eq!(made.slot, one.slot, "it was free");
        drop((kept, found, tokens));
        let (_, found) = open_with(tier.path(), 1);
        assert_eq!(found.iter().map(|found| found.slot).collect::<Vec<_>>(), [made.slot]);
    }

    #[test]
    fn a_pipe_that_is_kept_serves_the_next_file_and_the_next_daemon_does_not_take_it_for_one() {
        let tier = tempfile::tempdir().unwrap();
        let (kept, _) = FileTable::open(tier.path()).unwrap();
        let [one, two] = [1, 2].map(|number| kept.make(&record(number)).unwrap());
        for Made { slot, token, pipe, .. } in [one, two] {
            drop(token);
            kept.keep_pipe(slot, &pipe);
        }
        let next = kept.make(&record(3)).unwrap();
        assert!(next.is_used);
        assert_eq!(rustix::io::write(&*next.pipe, b"proof"), Ok(5));
        let mut shown = [0; 5];
        assert_eq!(rustix::io::read(&next.token, &mut shown), Ok(5), "they are ends of one pipe");
        let Made { slot, token, pipe, .. } = next;
        drop((kept, pipe));
        let (_, found) = open_with(tier.path(), 1);
        let found: Vec<_> = found.iter().map(|found| (found.slot, found.record)).collect();
        assert_eq!(found, [(slot, record(3))]);
        drop(token);
    }

    #[test]
    fn records_with_unknown_numbers_have_no_holder() {
        let tier = tempfile::tempdir().unwrap();
        let (kept, _) = FileTable::open(tier.path()).unwrap();
        let made = [NUMBERS_MAX - 1, 7, NUMBERS_MAX, 7, u64::MAX].map(|number| {
            let record = Record { number, ..record(1) };
            kept.make(&record).unwrap()
        });
        drop(kept);
        let (_, found) = FileTable::open(tier.path()).unwrap();
        assert_eq!(found.iter().map(|found| found.slot).collect::<Vec<_>>(), [made[0].slot]);
    }

    #[test]
    fn a_table_of_another_version_says_nothing() {
        let tier = tempfile::tempdir().unwrap();
        let (kept, _) = FileTable::open(tier.path()).unwrap();
        let made = kept.make(&record(1)).unwrap();
        kept.word(Slot(0), Word::Number).store(VERSION + 1, Ordering::Release);
        drop(kept);
        assert!(FileTable::open(tier.path()).unwrap().1.is_empty());
        drop(made);
    }
}
