//! A session written by hand: it encodes entries with `format` and writes them into its segments with pwrite.

#![allow(dead_code)]

#[path = "../../../media/tests/common/medium.rs"]
mod medium;
pub use medium::medium;

use cuesta_format::control::{ClientPage, NoticePage, OPEN_SLOTS_OFFSET};
use cuesta_format::entry::{HEADER_BYTES, Header, Salt, crc32c};
use cuesta_format::parcel::Parcel;
use cuesta_format::superblock::Superblock;
use cuesta_format::wire::{
    DirectoryEntry, Grant, LeaseMode, PROTOCOL_VERSION, Refusal, Report, Request, Response, Resynced, Sends,
};
use cuesta_format::{
    FileKind, Geometry, InodeNumber, LeaseGeneration, LogGeneration, LogPosition, Medium, Operation,
    SessionId, StoreId, Timestamp,
};
use cuesta_sharedfs::{Options, SharedFs};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::{HashSet, VecDeque};
use std::fs::File;
use std::mem::offset_of;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

pub const ROOT: InodeNumber = InodeNumber::ROOT;

/// A process that does not live: no process has so high a number.
pub const NOBODY: u32 = 1 << 30;

/// A small store: 4 arenas of 1 MiB, logs of 8 segments of 64 KiB.
pub fn geometry() -> Geometry {
    Geometry {
        arena_bytes: 1 << 20,
        segment_bytes: 64 << 10,
        ring_slots: 8,
        nvm_bytes: 4 << 20,
        checks_content: true,
    }
}

pub struct Store {
    pub folder: tempfile::TempDir,
}

impl Store {
    pub fn new() -> Store {
        Store::with(geometry())
    }

    pub fn with(geometry: Geometry) -> Store {
        Store::made(geometry, medium())
    }

    pub fn on(medium: Medium) -> Store {
        Store::made(geometry(), medium)
    }

    fn made(geometry: Geometry, medium: Medium) -> Store {
        allow_descriptors();
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let superblock = Superblock { store: StoreId([9; 16]), medium, geometry };
        SharedFs::create(&folder.path().join("tier"), superblock).unwrap();
        Store { folder }
    }

    /// The same store again, with nothing open.
    pub fn copied(&self) -> Store {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let mut copying = std::process::Command::new("cp");
        let copied = copying.args(["-a", "--sparse=always"]).arg(self.tier()).arg(folder.path()).status();
        assert!(copied.unwrap().success());
        Store { folder }
    }

    pub fn tier(&self) -> PathBuf {
        self.folder.path().join("tier")
    }

    pub fn open(&self) -> Arc<SharedFs> {
        SharedFs::open(&self.tier(), options()).unwrap()
    }
}

/// Tests that run side by side have the descriptors of several daemons and all their programs.
fn allow_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
}

pub fn options() -> Options {
    Options { spare_segments: 0, spare_arenas: 0, digest_batch_bytes: 64 << 10, ..Options::default() }
}

pub struct Writer {
    pub shared: Arc<SharedFs>,
    pub session: SessionId,
    pub geometry: Geometry,
    pub salt: Salt,
    pub log_generation: LogGeneration,
    pub lease_generation: LeaseGeneration,
    pub at: LogPosition,
    pub next_inode: u64,
    /// Where the numbers it uses up end, and those it was granted besides.
    inodes_end: u64,
    more_inodes: VecDeque<Range<u64>>,
    pub clock: i64,
    /// Inodes it may change, as far as it was told.
    held: HashSet<InodeNumber>,
    segments: Vec<File>,
    notice: File,
    client: File,
}

impl Writer {
    /// Attaches, with the whole ring and plenty of credit.
    pub fn attach(shared: &Arc<SharedFs>) -> Writer {
        Writer::attach_as(shared, NOBODY)
    }

    /// The same for a process of this number.
    pub fn attach_as(shared: &Arc<SharedFs>, pid: u32) -> Writer {
        let mut writer = Writer::attach_process(shared, pid);
        writer.request(&Request::Credit { blocks: 300 });
        writer
    }

    pub fn attach_without_credit(shared: &Arc<SharedFs>) -> Writer {
        Writer::attach_process(shared, NOBODY)
    }

    fn attach_process(shared: &Arc<SharedFs>, pid: u32) -> Writer {
        let mut descriptors = Vec::new();
        let request = Request::Attach {
            version: PROTOCOL_VERSION,
            pid,
            program: "test".into(),
            first: InodeNumber::NONE,
            resume: SessionId::NOBODY,
            durability: Default::default(),
        };
        let Response::Attached(welcome) = shared.handle(SessionId(0), &request, &mut descriptors) else {
            panic!("not attached");
        };
        let mut pages = descriptors.into_iter().map(File::from);
        let mut writer = Writer {
            shared: Arc::clone(shared),
            session: welcome.session,
            geometry: welcome.geometry,
            salt: Salt::new(welcome.store, welcome.session, welcome.log_generation),
            log_generation: welcome.log_generation,
            lease_generation: welcome.lease_generation,
            at: welcome.start,
            next_inode: welcome.inode_first.0,
            inodes_end: welcome.inode_first.0 + u64::from(welcome.inode_count),
            more_inodes: VecDeque::new(),
            clock: 1000,
            held: HashSet::new(),
            segments: Vec::new(),
            notice: pages.next().unwrap(),
            client: pages.next().unwrap(),
        };
        writer.grow(welcome.geometry.ring_slots);
        writer
    }

    /// Grows the log to `slots` segments; the daemon makes a few at a time.
    pub fn grow(&mut self, slots: u32) {
        while self.segments.len() < slots as usize {
            let mut descriptors: Vec<OwnedFd> = Vec::new();
            let request = Request::GrowLog { have: self.segments.len() as u32, slots };
            let grown = self.shared.handle(self.session, &request, &mut descriptors);
            assert_eq!(grown, Response::Grown { offsets: vec![0; descriptors.len()] });
            assert!(!descriptors.is_empty());
            self.segments.extend(descriptors.into_iter().map(File::from));
        }
    }

    /// Cuts one of its segments short, as a hostile owner can.
    pub fn cut_segment(&self, slot: usize, bytes: u64) {
        self.segments[slot].set_len(bytes).unwrap();
    }

    pub fn request(&mut self, request: &Request) -> Response {
        let answer = self.shared.handle(self.session, request, &mut Vec::new());
        if let Response::InodeNumbers { first, count } = answer {
            self.more_inodes.push_back(first.0..first.0 + u64::from(count));
        }
        answer
    }

    pub fn acquire(&mut self, inode: InodeNumber, mode: LeaseMode) -> Grant {
        let mut granted = self.acquire_ahead(inode, mode, 0);
        assert_eq!(granted.len(), 1);
        granted.remove(0)
    }

    /// The grants when the block of `ahead` numbers around the inode is welcome, too.
    pub fn acquire_ahead(&mut self, inode: InodeNumber, mode: LeaseMode, ahead: u32) -> Vec<Grant> {
        if mode == LeaseMode::Write {
            self.held.insert(inode);
        }
        match self.request(&Request::Acquire {
            inode,
            mode,
            ahead,
            beside: Vec::new(),
            kept: None,
            sends: Sends::Nothing,
        }) {
            Response::Granted { grant, ahead } => [vec![*grant], unpacked(ahead)].concat(),
            other => panic!("{other:?}"),
        }
    }

    pub fn resync(&mut self) -> Resynced {
        let Response::Resynced(resynced) = self.request(&Request::Resync) else { panic!("not resynced") };
        self.held.retain(|inode| !resynced.revoked.contains(inode));
        self.at = resynced.resume;
        self.log_generation = resynced.log_generation;
        self.lease_generation = resynced.lease_generation;
        self.salt = Salt::new(self.shared.superblock().store, self.session, resynced.log_generation);
        resynced
    }

    /// As every operation of a client begins.
    pub fn resync_if_fenced(&mut self) {
        if self.generation() != self.lease_generation {
            self.resync();
        }
    }

    pub fn report(&mut self, from: LogPosition) -> Report {
        let Response::Report(report) = self.request(&Request::Report { from, skip: 0 }) else {
            panic!("no report")
        };
        report
    }

    /// Where the numbers it was granted first end.
    pub fn numbers_end(&self) -> u64 {
        self.inodes_end
    }

    /// A new inode number of this session.
    pub fn number(&mut self) -> InodeNumber {
        while self.next_inode >= self.inodes_end {
            match self.more_inodes.pop_front() {
                Some(more) => (self.next_inode, self.inodes_end) = (more.start, more.end),
                None => drop(self.request(&Request::InodeNumbers { count: 4096 })),
            }
        }
        self.next_inode += 1;
        InodeNumber(self.next_inode - 1)
    }

    /// Writes bytes at a position of the log, wherever its segments lie.
    pub fn write_raw(&self, at: LogPosition, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let position = at.plus(done as u64);
            let inside = position.0 % self.geometry.segment_bytes;
            let take = ((self.geometry.segment_bytes - inside) as usize).min(bytes.len() - done);
            let segment = &self.segments[self.geometry.slot(position) as usize];
            segment.write_all_at(&bytes[done..done + take], inside).unwrap();
            done += take;
        }
    }

    pub fn read_raw(&self, at: LogPosition) -> u8 {
        let mut byte = [0];
        let segment = &self.segments[self.geometry.slot(at) as usize];
        segment.read_exact_at(&mut byte, at.0 % self.geometry.segment_bytes).unwrap();
        byte[0]
    }

    pub fn header(&self, operation: &Operation<'_>, debit_blocks: u32) -> Header {
        Header {
            kind: operation.kind(),
            flags: operation.flags(),
            body_bytes: operation.body_bytes() as u32,
            debit_blocks,
            position: self.at,
            lease_generation: self.lease_generation,
            inode: operation.inode(),
            argument: operation.argument(),
            time: Timestamp(self.clock),
            acknowledged: LogPosition(0),
        }
    }

    /// Appends an entry as it is, without completing it.
    pub fn append_sealed(&mut self, header: &Header, body: &[u8]) {
        let mut bytes = header.seal(self.salt, crc32c(body)).to_vec();
        bytes.extend_from_slice(body);
        bytes.resize(header.entry_bytes() as usize, 0xa5);
        self.write_raw(self.at, &bytes);
        self.at = header.end();
    }

    /// Appends an operation and completes it, under leases on what it changes.
    pub fn append(&mut self, operation: Operation<'_>) {
        for inode in changed_by(&operation) {
            if self.held.insert(inode) {
                // What does not exist is not granted, and what becomes of the operation is for the test to see.
                self.request(&Request::Acquire {
                    inode,
                    mode: LeaseMode::Write,
                    ahead: 0,
                    beside: Vec::new(),
                    kept: None,
                    sends: Sends::Nothing,
                });
            }
        }
        if let Operation::Create { inode, .. } | Operation::CreateUnnamed { inode, .. } = operation {
            self.held.insert(inode);
        }
        self.append_forged(operation);
    }

    /// Appends an operation and completes it, whatever it changes.
    pub fn append_forged(&mut self, operation: Operation<'_>) {
        self.clock += 1;
        let mut body = vec![0; operation.body_bytes()];
        operation.encode_body(&mut body);
        let debit = match operation {
            Operation::Write { offset, data, .. } if !data.is_empty() => {
                offset.saturating_add(data.len() as u64).div_ceil(4096) - offset / 4096
            }
            Operation::Truncate { .. } => 1,
            _ => 0,
        };
        let header = self.header(&operation, debit as u32);
        self.append_sealed(&header, &body);
        self.complete(self.at);
    }

    pub fn complete(&self, at: LogPosition) {
        let offset = offset_of!(ClientPage, completed) as u64;
        self.client.write_all_at(&at.0.to_ne_bytes(), offset).unwrap();
    }

    /// Says that what it says of its log it says of the log as it is: all that is completed is there.
    pub fn vouch(&self) {
        let offset = offset_of!(ClientPage, log_generation) as u64;
        self.client.write_all_at(&self.log_generation.0.to_ne_bytes(), offset).unwrap();
    }

    pub fn retire(&self, at: LogPosition) {
        let offset = offset_of!(ClientPage, retired) as u64;
        self.client.write_all_at(&at.0.to_ne_bytes(), offset).unwrap();
    }

    /// Says that so many slots of open inodes are in use.
    pub fn use_open_slots(&self, slots: u32) {
        let offset = offset_of!(ClientPage, open_slots) as u64;
        self.client.write_all_at(&slots.to_ne_bytes(), offset).unwrap();
    }

    /// Writes anything anywhere into what it shares with the daemon.
    pub fn client_page(&self, at: u64, bytes: &[u8]) {
        self.client.write_all_at(bytes, at).unwrap();
    }

    /// Says what is open, in one of them.
    pub fn open_in_slot(&self, slot: usize, inode: InodeNumber) {
        let offset = (OPEN_SLOTS_OFFSET + 8 * slot) as u64;
        self.client.write_all_at(&inode.0.to_ne_bytes(), offset).unwrap();
    }

    /// Says how many open inodes found no slot.
    pub fn open_unlisted(&self, count: u64) {
        let offset = offset_of!(ClientPage, open_unlisted) as u64;
        self.client.write_all_at(&count.to_ne_bytes(), offset).unwrap();
    }

    fn notice(&self, offset: usize) -> u64 {
        let mut word = [0; 8];
        self.notice.read_exact_at(&mut word, offset as u64).unwrap();
        u64::from_ne_bytes(word)
    }

    pub fn digested(&self) -> LogPosition {
        LogPosition(self.notice(offset_of!(NoticePage, digested)))
    }

    pub fn generation(&self) -> LeaseGeneration {
        LeaseGeneration(self.notice(offset_of!(NoticePage, generation)))
    }

    pub fn credit_limit(&self) -> u64 {
        self.notice(offset_of!(NoticePage, credit_limit))
    }

    pub fn entries_max(&self) -> u64 {
        self.notice(offset_of!(NoticePage, entries_max))
    }

    pub fn digested_entries(&self) -> u64 {
        self.notice(offset_of!(NoticePage, digested_entries))
    }

    pub fn digest(&mut self) {
        assert_eq!(self.request(&Request::Digest), Response::Done);
    }

    /// Has a log digested that is given up for what it holds.
    pub fn digest_to_its_end(&mut self) {
        assert_eq!(self.request(&Request::Digest), Response::Failed(Refusal::SessionEnded));
    }

    // What programs do, one entry each.

    pub fn create_in(&mut self, parent: InodeNumber, name: &[u8], mode: u32) -> InodeNumber {
        let inode = self.number();
        self.create_as(parent, name, mode, inode);
        inode
    }

    pub fn create_as(&mut self, parent: InodeNumber, name: &[u8], mode: u32, inode: InodeNumber) {
        let target: &[u8] = if mode & 0o170_000 == 0o120_000 { b"some/target" } else { b"" };
        let (uid, gid, device) = (1, 2, 0);
        self.append(Operation::Create { parent, inode, mode, uid, gid, device, name, target, list: b"" });
    }

    pub fn file(&mut self, name: &[u8]) -> InodeNumber {
        self.create_in(ROOT, name, 0o100_644)
    }

    pub fn directory(&mut self, name: &[u8]) -> InodeNumber {
        self.create_in(ROOT, name, 0o040_755)
    }

    pub fn write(&mut self, inode: InodeNumber, offset: u64, data: &[u8]) {
        self.append(Operation::Write { inode, offset, data });
    }

    pub fn truncate(&mut self, inode: InodeNumber, size: u64) {
        self.append(Operation::Truncate { inode, size });
    }

    pub fn unlink(&mut self, parent: InodeNumber, name: &[u8], inode: InodeNumber, orphan: bool) {
        self.append(Operation::Unlink { parent, inode, name, orphan });
    }

    pub fn rename(&mut self, inode: InodeNumber, old: (InodeNumber, &[u8]), new: (InodeNumber, &[u8])) {
        self.rename_over(inode, old, new, InodeNumber::NONE);
    }

    pub fn rename_over(
        &mut self,
        inode: InodeNumber,
        (parent, name): (InodeNumber, &[u8]),
        (new_parent, new_name): (InodeNumber, &[u8]),
        replaced: InodeNumber,
    ) {
        self.append(Operation::Rename {
            parent,
            name,
            new_parent,
            new_name,
            inode,
            replaced,
            orphan: false,
            exchange: false,
        });
    }
}

/// The inodes there are already that the operation changes.
fn changed_by(operation: &Operation<'_>) -> Vec<InodeNumber> {
    match *operation {
        Operation::Void | Operation::CreateUnnamed { .. } => Vec::new(),
        Operation::Create { parent, .. } => vec![parent],
        Operation::Link { parent, inode, .. } | Operation::Unlink { parent, inode, .. } => {
            vec![parent, inode]
        }
        Operation::Rename { parent, new_parent, inode, replaced, .. } => {
            [parent, new_parent, inode, replaced].into_iter().filter(|&it| it != InodeNumber::NONE).collect()
        }
        _ => vec![operation.inode()],
    }
}

/// The tree as text: one line an inode's name, with kind, links, size and a checksum of its content.
pub fn dump(shared: &SharedFs) -> Vec<String> {
    let mut lines = Vec::new();
    dump_directory(shared, ROOT, "", &mut lines);
    lines
}

fn dump_directory(shared: &SharedFs, directory: InodeNumber, path: &str, lines: &mut Vec<String>) {
    for entry in shared.read_directory(directory).unwrap() {
        let record = shared.inode_record(entry.dirent.inode).unwrap().expect("a name of an inode");
        let path = format!("{path}/{}", String::from_utf8_lossy(&entry.name));
        let content = match record.kind() {
            cuesta_format::FileKind::File => {
                format!("{:08x}", crc32c(&shared.file_content(record.inode).unwrap()))
            }
            cuesta_format::FileKind::Symlink => {
                String::from_utf8(shared.link_target(record.inode).unwrap().unwrap()).unwrap()
            }
            _ => String::new(),
        };
        let (inode, mode, links, size) = (record.inode, record.mode, record.links, record.size);
        let times = (record.modified.0, record.changed.0);
        lines.push(format!("{path} {inode} {mode:o} {links} {size} {times:?} {content}"));
        if record.kind() == cuesta_format::FileKind::Directory {
            dump_directory(shared, record.inode, &path, lines);
        }
    }
}

/// The content of the file with this path, one level or more below the root.
pub fn content(shared: &SharedFs, path: &str) -> Vec<u8> {
    shared.file_content(find(shared, path).expect("the file exists")).unwrap()
}

/// The inode with this path.
pub fn find(shared: &SharedFs, path: &str) -> Option<InodeNumber> {
    let snapshot = shared.snapshot().unwrap();
    let mut inode = ROOT;
    for name in path.split('/') {
        inode = snapshot.lookup(inode, name.as_bytes()).unwrap()?.inode;
    }
    Some(inode)
}

/// Leaves the daemon's memory behind as a kill would: nothing runs, nothing is written.
pub fn kill(shared: Arc<SharedFs>, writers: Vec<Writer>) {
    std::mem::forget(writers);
    std::mem::forget(shared);
}

/// One that lives until it is dropped.
pub struct Program(pub Child);

impl Program {
    pub fn start() -> Program {
        let mut command = Command::new("sleep");
        Program(command.arg("1000").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

pub fn names_under(path: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

pub const HEADER: u64 = HEADER_BYTES as u64;

/// Grants that came ahead, as if each had been asked for alone.
fn unpacked(ahead: Vec<u8>) -> Vec<Grant> {
    let mut places = Vec::new();
    let parcel = Parcel::open(ahead, |_, at| places.push(at)).unwrap();
    let items = places.into_iter().map(|at| parcel.item(at).unwrap());
    let grants = items.map(|item| {
        let record = item.record();
        let entry = |(name, inode, kind): (&[u8], _, FileKind)| DirectoryEntry {
            name: name.to_vec(),
            inode,
            kind: kind as u8,
        };
        Grant {
            record,
            mode: item.mode(),
            extents: item.extents().collect(),
            extents_complete: true,
            target: if record.kind() == FileKind::Symlink { item.target().to_vec() } else { Vec::new() },
            entries: if record.kind() == FileKind::Directory {
                item.names().map(entry).collect()
            } else {
                Vec::new()
            },
            entries_complete: true,
            entries_changed: false,
            extended: Vec::new(),
            kept: false,
        }
    });
    grants.collect()
}
