//! Which store should hold the metadata, and in which layout? The program behind
//! `docs/decisions/0001-metadata-store.md`.
//!
//! It plays the digest: batches of 60,000 new small files (a directory entry, an inode and one
//! extent each, sorted) go into a store that grows past a million files, one transaction a batch.
//! Then it times small commits, look-ups, and the opening of a copy of the file as a kill would
//! leave it. Run it on a tmpfs:
//!
//! ```text
//! cargo run --release -p cuesta-sharedfs --features compare-lmdb \
//!     --example metadata_store_decision -- /dev/shm/decision [filter]
//! ```

use cuesta_format::{BlockAddress, Extent, FileKind, InodeNumber, InodeRecord, Timestamp};
use cuesta_media::Medium;
use cuesta_sharedfs::metadata::{Dirent, MetadataStore};
use redb::{Database, ReadableDatabase, StorageBackend, TableDefinition};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Bound;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

const BATCH_FILES: u64 = 60_000;
const BATCHES: u64 = 18;
const SMALL_COMMITS: u64 = 500;
const LOOKUPS: u64 = 200_000;
/// What an encoded inode takes without extents, and what one extent adds.
const INODE_BYTES: usize = 92;
const EXTENT_BYTES: usize = 20;

const TABLES: [&str; 3] = ["dirents", "inodes", "extents"];
const DIRENTS: usize = 0;
const INODES: usize = 1;
const EXTENTS: usize = 2;

/// How a file's metadata is cut into keys.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Layout {
    /// Directory entry, inode record, extent record.
    Separate,
    /// Directory entry, inode record with the first extents inside.
    Inlined,
    /// Directory entry; one value holds this many consecutive inode records.
    Chunked(u64),
}

/// How the names of a directory follow each other.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Names {
    /// A mail server's: seconds first, so that new ones sort behind old ones.
    Mail,
    /// Hashes: new ones fall between old ones.
    Hashed,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Insert {
    /// One descent of the tree per key.
    Put,
    /// A cursor that stays where it is while the keys fit the gap it stands in.
    Cursor,
}

struct Batch {
    dirents: Vec<(Vec<u8>, [u8; 9])>,
    first_inode: u64,
}

fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn dirent_key(names: Names, file: u64) -> Vec<u8> {
    let mut key = 1u64.to_be_bytes().to_vec();
    let noise = mix(file + 1);
    let name = match names {
        Names::Mail => {
            format!("{}.M{:06}P{}.host,S=4096", 1_732_000_000 + file / 200, file % 200 * 5000, noise % 9000)
        }
        Names::Hashed => format!("{noise:016x}{:016x}", mix(noise)),
    };
    key.extend_from_slice(name.as_bytes());
    key
}

impl Batch {
    fn new(names: Names, number: u64) -> Batch {
        let first = number * BATCH_FILES;
        let mut dirents: Vec<_> = (first..first + BATCH_FILES)
            .map(|file| {
                let mut value = [1u8; 9];
                value[..8].copy_from_slice(&(file + 2).to_le_bytes());
                (dirent_key(names, file), value)
            })
            .collect();
        dirents.sort();
        Batch { dirents, first_inode: first + 2 }
    }

    /// Hands every pair the batch puts into a table to `put`, in the order of the keys.
    fn each(&self, layout: Layout, table: usize, put: &mut Put<'_>) -> Result<(), Failure> {
        if table == DIRENTS {
            for (key, value) in &self.dirents {
                put(key, value)?;
            }
            return Ok(());
        }
        let inodes = self.first_inode..self.first_inode + BATCH_FILES;
        let mut value = Vec::new();
        if table == EXTENTS {
            for inode in inodes.filter(|_| layout == Layout::Separate) {
                put(&extent_key(inode), &mix(inode).to_le_bytes())?;
            }
            return Ok(());
        }
        let per_chunk = match layout {
            Layout::Chunked(inodes) => inodes,
            _ => 1,
        };
        for chunk in inodes.step_by(per_chunk as usize) {
            value.clear();
            for inode in chunk..chunk + per_chunk {
                record(inode, layout != Layout::Separate, &mut value);
            }
            put(&(chunk / per_chunk).to_be_bytes(), &value)?;
        }
        Ok(())
    }
}

type Failure = Box<dyn std::error::Error>;
type Put<'a> = dyn FnMut(&[u8], &[u8]) -> Result<(), Failure> + 'a;

fn record(inode: u64, with_extent: bool, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&inode.to_le_bytes());
    out.resize(start + INODE_BYTES, 0x5a);
    if with_extent {
        out.extend_from_slice(&mix(inode).to_le_bytes());
        out.resize(start + INODE_BYTES + EXTENT_BYTES, 0);
    }
}

fn extent_key(inode: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&inode.to_be_bytes());
    key
}

/// A file mapped in whole; grown by fallocate. The stand-in for the store's own backend.
#[derive(Debug)]
struct MappedBackend {
    file: File,
    base: usize,
    len: AtomicU64,
    dirty: Mutex<Vec<(u64, usize)>>,
}

const MAPPED_BYTES: usize = 4 << 30;
const GROWTH_BYTES: u64 = 64 << 20;

impl MappedBackend {
    fn new(path: &Path) -> io::Result<MappedBackend> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let len = file.metadata()?.len();
        // SAFETY: a fresh mapping at an address the kernel chooses, unmapped on drop.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                MAPPED_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(MappedBackend { file, base: base as usize, len: len.into(), dirty: Mutex::new(Vec::new()) })
    }

    fn check(&self, offset: u64, len: usize) -> io::Result<usize> {
        if offset + len as u64 > self.len.load(Ordering::Acquire) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(self.base + offset as usize)
    }
}

impl Drop for MappedBackend {
    fn drop(&mut self) {
        // SAFETY: the whole range was mapped by `new`, and nothing else refers to it.
        unsafe { libc::munmap(self.base as *mut _, MAPPED_BYTES) };
    }
}

impl StorageBackend for MappedBackend {
    fn len(&self) -> io::Result<u64> {
        Ok(self.len.load(Ordering::Acquire))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let from = self.check(offset, out.len())?;
        // SAFETY: the range was checked to lie inside the file, whose pages are allocated.
        unsafe { std::ptr::copy_nonoverlapping(from as *const u8, out.as_mut_ptr(), out.len()) };
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let allocated = self.file.metadata()?.len();
        if len > allocated {
            let wanted = len.next_multiple_of(GROWTH_BYTES);
            // SAFETY: a plain system call on a descriptor we own.
            if unsafe { libc::fallocate(self.file.as_raw_fd(), 0, 0, wanted as i64) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        self.len.store(len, Ordering::Release);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        for (offset, len) in std::mem::take(&mut *self.dirty.lock().unwrap()) {
            for line in (offset..offset + len as u64).step_by(64) {
                // SAFETY: the line lies inside the mapping; write() checked it.
                unsafe { flush_line(self.base + line as usize) };
            }
        }
        std::sync::atomic::fence(Ordering::SeqCst);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let to = self.check(offset, data.len())?;
        // SAFETY: the range was checked to lie inside the file, whose pages are allocated.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), to as *mut u8, data.len()) };
        self.dirty.lock().unwrap().push((offset, data.len()));
        Ok(())
    }
}

#[cfg(target_arch = "x86_64")]
unsafe fn flush_line(address: usize) {
    // SAFETY: the caller gives an address inside a mapping of ours; clwb changes no memory.
    unsafe { std::arch::asm!("clwb [{}]", in(reg) address, options(nostack, preserves_flags)) };
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn flush_line(_address: usize) {}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Commit {
    Plain,
    TwoPhase,
    QuickRepair,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Engine {
    RedbFile,
    RedbMapped,
    /// The store as it was built after the decision, gathering of a batch included.
    Cuesta,
    #[cfg(feature = "compare-lmdb")]
    Lmdb,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    engine: Engine,
    layout: Layout,
    names: Names,
    insert: Insert,
    commit: Commit,
    cache_bytes: usize,
}

/// The operations that the measurement asks of an engine.
trait Store {
    /// One transaction: all of a batch.
    fn digest(&self, batch: &Batch) -> Result<(), Failure>;
    /// One transaction: these pairs replace what the inode table holds.
    fn update_inodes(&self, pairs: &[(u64, Vec<u8>)]) -> Result<(), Failure>;
    /// Looks names up in one read transaction.
    fn look_up(&self, keys: &[Vec<u8>]) -> Result<(), Failure>;
}

struct Redb {
    database: Database,
    case: Case,
}

impl Redb {
    fn open(case: Case, path: &Path) -> Result<Redb, Failure> {
        let mut builder = Database::builder();
        builder.set_cache_size(case.cache_bytes);
        let database = match case.engine {
            Engine::RedbFile => builder.create(path)?,
            _ => builder.create_with_backend(MappedBackend::new(path)?)?,
        };
        Ok(Redb { database, case })
    }

    fn begin(&self) -> Result<redb::WriteTransaction, Failure> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_two_phase_commit(self.case.commit == Commit::TwoPhase);
        transaction.set_quick_repair(self.case.commit == Commit::QuickRepair);
        Ok(transaction)
    }
}

fn definition(table: usize) -> TableDefinition<'static, &'static [u8], &'static [u8]> {
    TableDefinition::new(TABLES[table])
}

impl Store for Redb {
    fn digest(&self, batch: &Batch) -> Result<(), Failure> {
        let transaction = self.begin()?;
        for index in [DIRENTS, INODES, EXTENTS] {
            let mut table = transaction.open_table(definition(index))?;
            if self.case.insert == Insert::Put {
                batch.each(self.case.layout, index, &mut |key, value| {
                    table.insert(key, value)?;
                    Ok(())
                })?;
                continue;
            }
            // The cursor is re-seated whenever a key does not fit the gap it stands in, which the
            // table tells by refusing it; the pairs are collected, for a cursor borrows the table.
            let mut pairs = Vec::new();
            batch.each(self.case.layout, index, &mut |key, value| {
                pairs.push((key.to_vec(), value.to_vec()));
                Ok(())
            })?;
            let mut next = 0;
            while next < pairs.len() {
                let mut cursor = table.lower_bound_mut(Bound::Included(&pairs[next].0[..]))?;
                while next < pairs.len() {
                    let (key, value) = &pairs[next];
                    match cursor.insert_before(&key[..], &value[..]) {
                        Ok(()) => next += 1,
                        Err(redb::CursorError::UnorderedKey) => break,
                        Err(error) => return Err(error.into()),
                    }
                }
                cursor.close()?;
            }
        }
        transaction.commit()?;
        Ok(())
    }

    fn update_inodes(&self, pairs: &[(u64, Vec<u8>)]) -> Result<(), Failure> {
        let transaction = self.begin()?;
        {
            let mut table = transaction.open_table(definition(INODES))?;
            for (key, value) in pairs {
                table.insert(&key.to_be_bytes()[..], &value[..])?;
            }
        }
        transaction.commit()?;
        Ok(())
    }

    fn look_up(&self, keys: &[Vec<u8>]) -> Result<(), Failure> {
        let table = self.database.begin_read()?.open_table(definition(DIRENTS))?;
        for key in keys {
            table.get(&key[..])?.ok_or("a name is missing")?;
        }
        Ok(())
    }
}

#[cfg(feature = "compare-lmdb")]
mod lmdb;

impl Store for MetadataStore {
    fn digest(&self, batch: &Batch) -> Result<(), Failure> {
        let mut transaction = self.begin()?;
        for (key, value) in &batch.dirents {
            let name = &key[8..];
            let inode = InodeNumber(u64::from_le_bytes(value[..8].try_into()?));
            if transaction.lookup(InodeNumber::ROOT, name)?.is_some() {
                return Err("a new name is there already".into());
            }
            transaction.put_dirent(InodeNumber::ROOT, name, Dirent { inode, kind: FileKind::File });
        }
        for inode in batch.first_inode..batch.first_inode + BATCH_FILES {
            let inode = InodeNumber(inode);
            transaction.put_inode(&InodeRecord::new(inode, 0o100_600, 0, 0, Timestamp(0)))?;
            let extent = Extent { file_block: 0, blocks: 1, address: BlockAddress(mix(inode.0) << 12) };
            transaction.write_extents(inode, 0..1, &[extent])?;
        }
        Ok(transaction.commit()?)
    }

    fn update_inodes(&self, pairs: &[(u64, Vec<u8>)]) -> Result<(), Failure> {
        let mut transaction = self.begin()?;
        for (inode, _) in pairs {
            let inode = InodeNumber(*inode);
            transaction.put_inode(&InodeRecord::new(inode, 0o100_644, 0, 0, Timestamp(1)))?;
        }
        Ok(transaction.commit()?)
    }

    fn look_up(&self, keys: &[Vec<u8>]) -> Result<(), Failure> {
        let snapshot = self.read()?;
        for key in keys {
            snapshot.lookup(InodeNumber::ROOT, &key[8..])?.ok_or("a name is missing")?;
        }
        Ok(())
    }
}

fn open(case: Case, path: &Path) -> Result<Box<dyn Store>, Failure> {
    Ok(match case.engine {
        #[cfg(feature = "compare-lmdb")]
        Engine::Lmdb => Box::new(lmdb::Lmdb::open(case.layout, path)?),
        Engine::Cuesta if path.exists() => Box::new(MetadataStore::open(path, Medium::Memory)?),
        Engine::Cuesta => Box::new(MetadataStore::create(path, Medium::Memory)?),
        _ => Box::new(Redb::open(case, path)?),
    })
}

fn median(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

fn microseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e6
}

fn measure(case: Case, folder: &Path) -> Result<(), Failure> {
    let path = folder.join("store");
    let copy = folder.join("copy");
    let store = open(case, &path)?;
    let mut per_file = Vec::new();
    for number in 0..BATCHES {
        let batch = Batch::new(case.names, number);
        let start = Instant::now();
        store.digest(&batch)?;
        per_file.push(microseconds(start) / BATCH_FILES as f64);
    }
    let worst = per_file[1..].iter().copied().fold(0.0, f64::max);
    let first = per_file[0];
    // The second half is what a store of half a million files and more costs.
    let typical = median(&mut per_file[BATCHES as usize / 2..]);

    let files = BATCHES * BATCH_FILES;
    let per_value = match case.layout {
        Layout::Chunked(inodes) => inodes,
        _ => 1,
    };
    let mut small = Vec::new();
    for number in 0..SMALL_COMMITS {
        let pairs: Vec<_> = (0..10)
            .map(|change| {
                let inode = mix(number * 10 + change) % files + 2;
                let mut value = Vec::new();
                for inode in 0..per_value {
                    record(inode, case.layout != Layout::Separate, &mut value);
                }
                (inode / per_value, value)
            })
            .collect();
        let start = Instant::now();
        store.update_inodes(&pairs)?;
        small.push(microseconds(start));
    }
    let small = median(&mut small);

    let keys: Vec<_> = (0..LOOKUPS).map(|number| dirent_key(case.names, mix(number) % files)).collect();
    let start = Instant::now();
    store.look_up(&keys)?;
    let look_up = microseconds(start) / LOOKUPS as f64;

    let bytes = fs::metadata(&path)?.len();
    fs::copy(&path, &copy)?;
    drop(store);
    let start = Instant::now();
    let reopened = open(case, &copy)?;
    reopened.look_up(&keys[..10])?;
    let reopen = microseconds(start) / 1000.0;
    drop(reopened);

    println!(
        "| {:?} | {:?} | {:?} | {:?} | {:?} | {} | {first:.2} | {typical:.2} | {worst:.2} | {small:.0} | {look_up:.2} | {reopen:.0} | {} |",
        case.engine,
        case.layout,
        case.names,
        case.insert,
        case.commit,
        case.cache_bytes >> 20,
        bytes >> 20,
    );
    Ok(())
}

fn cases() -> Vec<Case> {
    let base = Case {
        engine: Engine::RedbMapped,
        layout: Layout::Inlined,
        names: Names::Mail,
        insert: Insert::Put,
        commit: Commit::Plain,
        cache_bytes: 256 << 20,
    };
    let mut cases = Vec::new();
    for names in [Names::Mail, Names::Hashed] {
        let base = Case { names, ..base };
        cases.push(Case { engine: Engine::RedbFile, ..base });
        cases.push(Case { engine: Engine::Cuesta, layout: Layout::Chunked(16), ..base });
        for layout in
            [Layout::Separate, Layout::Inlined, Layout::Chunked(8), Layout::Chunked(16), Layout::Chunked(32)]
        {
            for insert in [Insert::Put, Insert::Cursor] {
                cases.push(Case { layout, insert, ..base });
            }
            #[cfg(feature = "compare-lmdb")]
            cases.push(Case { engine: Engine::Lmdb, layout, ..base });
        }
        for commit in [Commit::TwoPhase, Commit::QuickRepair] {
            cases.push(Case { layout: Layout::Chunked(16), insert: Insert::Cursor, commit, ..base });
        }
        for cache_bytes in [16 << 20, 64 << 20, 1 << 30] {
            cases.push(Case {
                layout: Layout::Chunked(16),
                insert: Insert::Cursor,
                commit: Commit::QuickRepair,
                cache_bytes,
                ..base
            });
        }
    }
    cases
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("usage: FOLDER [FILTER]")?);
    let filter = arguments.next().unwrap_or_default();
    println!(
        "| engine | layout | names | insert | commit | cache MiB | first batch µs/file | late µs/file | worst µs/file | commit of 10 µs | look-up µs | open after kill ms | MiB |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|"
    );
    for case in cases() {
        if !format!("{case:?}").contains(&filter) {
            continue;
        }
        fs::create_dir_all(&folder)?;
        let measured = measure(case, &folder);
        fs::remove_dir_all(&folder)?;
        measured?;
    }
    Ok(())
}
