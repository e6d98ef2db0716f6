//! How fast is the digest? Fills a log by hand, then times the digest alone; a goal of the design is to outrun a program
//! that creates 150,000 small files a second, or writes a gigabyte a second, on one core.
//!
//! ```text
//! cargo run --release -p cuesta-sharedfs --example digest_speed -- /dev/shm/digest-speed [work] [laps] [batch_bytes]
//! ```
//!
//! Then it fills the log once more, kills the daemon, so to speak, and times the recovery. Both times are real ones and, as a
//! busy machine would make it look slow, the processor's.
//!
//! Works: `small` (create, write 4 KiB, rename), `large` (append 1 MiB), `append` (128 bytes), `random` (overwrite 4 KiB
//! at random in 256 MiB), `mail` (4 KiB files with names that sort behind each other), `empty` (files without content),
//! `moves` (directories renamed between two deep ones: each asks all its ancestors). Full logs of the last two are the
//! most recovery can meet.

use cuesta_format::control::ClientPage;
use cuesta_format::durability::DurabilityWish;
use cuesta_format::entry::{Header, Salt, crc32c};
use cuesta_format::superblock::{Medium, Superblock};
use cuesta_format::wire::{LeaseMode, PROTOCOL_VERSION, Request, Response, Sends};
use cuesta_format::{
    Geometry, InodeNumber, LeaseGeneration, LogPosition, Operation, SessionId, StoreId, Timestamp,
};
use cuesta_sharedfs::{Options, Progress, SharedFs};
use std::fs::File;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

struct Writer {
    shared: Arc<SharedFs>,
    session: SessionId,
    geometry: Geometry,
    salt: Salt,
    at: LogPosition,
    segments: Vec<File>,
    client: File,
    digested: u64,
    time: Duration,
    processor: Duration,
    entries: u64,
}

impl Writer {
    fn attach(shared: Arc<SharedFs>) -> Writer {
        let mut files = Vec::new();
        let attach = Request::Attach {
            version: PROTOCOL_VERSION,
            pid: std::process::id(),
            program: "digest_speed".into(),
            first: cuesta_format::InodeNumber::NONE,
            resume: SessionId(0),
            durability: DurabilityWish::NONE,
        };
        let Response::Attached(welcome) = shared.handle(SessionId(0), &attach, &mut files) else {
            panic!("not attached");
        };
        let client = File::from(files.remove(1));
        let salt = Salt::new(welcome.store, welcome.session, welcome.log_generation);
        let generation = welcome.log_generation.0.to_ne_bytes();
        client.write_all_at(&generation, offset_of!(ClientPage, log_generation) as u64).unwrap();
        let mut segments = Vec::new();
        let slots = welcome.geometry.ring_slots;
        while segments.len() < slots as usize {
            shared.handle(
                welcome.session,
                &Request::GrowLog { have: segments.len() as u32, slots },
                &mut segments,
            );
        }
        let writer = Writer {
            shared,
            session: welcome.session,
            geometry: welcome.geometry,
            salt,
            at: welcome.start,
            segments: segments.into_iter().map(File::from).collect(),
            client,
            digested: 0,
            time: Duration::ZERO,
            processor: Duration::ZERO,
            entries: 0,
        };
        writer.ask(&Request::Acquire {
            inode: InodeNumber::ROOT,
            mode: LeaseMode::Write,
            ahead: 0,
            beside: Vec::new(),
            kept: None,
            sends: Sends::Nothing,
        });
        writer
    }

    fn ask(&self, request: &Request) -> Response {
        self.shared.handle(self.session, request, &mut Vec::new())
    }

    fn append(&mut self, operation: &Operation<'_>, debit_blocks: u32) {
        let mut bytes = vec![0; 64 + operation.body_bytes()];
        operation.encode_body(&mut bytes[64..]);
        let header = Header {
            kind: operation.kind(),
            flags: operation.flags(),
            body_bytes: operation.body_bytes() as u32,
            debit_blocks,
            position: self.at,
            lease_generation: LeaseGeneration(1),
            inode: operation.inode(),
            argument: operation.argument(),
            time: Timestamp(1),
            acknowledged: LogPosition(0),
        };
        if header.end().0 - self.digested > self.geometry.ring_bytes() {
            self.digest();
        }
        let sealed = header.seal(self.salt, crc32c(&bytes[64..]));
        bytes[..64].copy_from_slice(&sealed);
        let mut done = 0;
        while done < bytes.len() {
            let position = self.at.plus(done as u64);
            let inside = position.0 % self.geometry.segment_bytes;
            let take = ((self.geometry.segment_bytes - inside) as usize).min(bytes.len() - done);
            let segment = &self.segments[self.geometry.slot(position) as usize];
            segment.write_all_at(&bytes[done..done + take], inside).unwrap();
            done += take;
        }
        self.at = header.end();
        self.entries += 1;
    }

    fn digest(&mut self) {
        let word = |value: LogPosition, offset: usize| {
            self.client.write_all_at(&value.0.to_ne_bytes(), offset as u64).unwrap();
        };
        word(self.at, offset_of!(ClientPage, completed));
        self.ask(&Request::Credit { blocks: 40_000 });
        let (started, before) = (Instant::now(), processor_time());
        while let Progress::Digested { .. } = self.shared.digest_session(self.session).unwrap() {}
        self.time += started.elapsed();
        self.processor += processor_time() - before;
        word(self.at, offset_of!(ClientPage, retired));
        self.digested = self.at.0;
    }
}

fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().expect("a folder on a tmpfs");
    let wanted = arguments.next();
    let laps: u64 = arguments.next().map_or(4, |laps| laps.parse().expect("a number of laps"));
    let batch_bytes = arguments.next().map(|bytes| bytes.parse().expect("a number of bytes"));
    let batch_bytes = batch_bytes.unwrap_or(Options::default().digest_batch_bytes);
    for work in ["small", "mail", "empty", "moves", "large", "append", "random"] {
        if wanted.as_ref().is_none_or(|wanted| wanted == work) {
            run(Path::new(&folder), work, laps, batch_bytes);
        }
    }
}

fn create(inode: InodeNumber, name: &[u8]) -> Operation<'_> {
    let parent = InodeNumber::ROOT;
    Operation::Create {
        parent,
        inode,
        mode: 0o100_644,
        uid: 0,
        gid: 0,
        device: 0,
        name,
        target: b"",
        list: b"",
    }
}

const DEPTH: u64 = 2000;

/// The operations of a work.
struct Work<'a> {
    name: &'a str,
    inode: InodeNumber,
    count: u64,
    data: Vec<u8>,
}

impl Work<'_> {
    fn begin(&mut self, writer: &mut Writer) {
        let directory = |parent, inode, name| Operation::Create {
            parent,
            inode,
            mode: 0o040_755,
            uid: 0,
            gid: 0,
            device: 0,
            name,
            target: b"",
            list: b"",
        };
        match self.name {
            "large" | "append" | "random" => writer.append(&create(self.inode, b"file"), 0),
            "moves" => {
                // A chain, the moving directory in it, and in that one a file: it could hold its new parent.
                for depth in 0..DEPTH {
                    let parent = if depth == 0 { InodeNumber::ROOT } else { InodeNumber(1 + depth) };
                    writer.append(&directory(parent, InodeNumber(2 + depth), b"d"), 0);
                }
                let moving = InodeNumber(2 + DEPTH);
                writer.append(&directory(InodeNumber(1 + DEPTH), moving, b"m"), 0);
                writer.append(&directory(moving, InodeNumber(3 + DEPTH), b"inside"), 0);
                for inode in 2..4 + DEPTH {
                    let inode = InodeNumber(inode);
                    writer.ask(&Request::Acquire {
                        inode,
                        mode: LeaseMode::Write,
                        ahead: 0,
                        beside: Vec::new(),
                        kept: None,
                        sends: Sends::Nothing,
                    });
                }
            }
            _ => {}
        }
    }

    fn step(&mut self, writer: &mut Writer) {
        let (inode, count, data) = (self.inode, self.count, &self.data);
        let root = InodeNumber::ROOT;
        match self.name {
            "small" => {
                let temporary = format!("tmp-{}", count % 3);
                let name = format!("{:016x}", mix(count));
                writer.append(&create(inode, temporary.as_bytes()), 0);
                writer.append(&Operation::Write { inode, offset: 0, data: &data[..4096] }, 1);
                writer.append(&rename(root, temporary.as_bytes(), root, name.as_bytes(), inode), 0);
                self.inode.0 += 1;
            }
            "mail" => {
                let name = format!("{}.M{:06}P{}.host", 1_732_000_000 + count / 200, count % 200 * 5000, 77);
                writer.append(&create(inode, name.as_bytes()), 0);
                writer.append(&Operation::Write { inode, offset: 0, data: &data[..4096] }, 1);
                self.inode.0 += 1;
            }
            "empty" => {
                let name = format!("{:016x}", mix(count));
                writer.append(&create(inode, name.as_bytes()), 0);
                self.inode.0 += 1;
            }
            "moves" => {
                let ends = [InodeNumber(1 + DEPTH), InodeNumber(DEPTH)];
                let [from, to] = if count.is_multiple_of(2) { ends } else { [ends[1], ends[0]] };
                writer.append(&rename(from, b"m", to, b"m", InodeNumber(2 + DEPTH)), 0);
            }
            "large" => writer.append(&Operation::Write { inode, offset: count << 20, data }, 257),
            "append" => {
                writer.append(&Operation::Write { inode, offset: count * 128, data: &data[..128] }, 2);
            }
            _ => {
                let offset = mix(count) % (64 << 10) * 4096;
                writer.append(&Operation::Write { inode, offset, data: &data[..4096] }, 1);
            }
        }
        self.count += 1;
    }
}

fn rename<'a>(
    parent: InodeNumber,
    name: &'a [u8],
    new_parent: InodeNumber,
    new_name: &'a [u8],
    inode: InodeNumber,
) -> Operation<'a> {
    let replaced = InodeNumber::NONE;
    Operation::Rename { parent, name, new_parent, new_name, inode, replaced, orphan: false, exchange: false }
}

fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn run(folder: &Path, name: &str, laps: u64, digest_batch_bytes: u64) {
    let _ = std::fs::remove_dir_all(folder);
    std::fs::create_dir_all(folder).unwrap();
    let superblock =
        Superblock { store: StoreId([1; 16]), medium: Medium::Memory, geometry: Geometry::default() };
    SharedFs::create(folder, superblock).unwrap();
    // Fresh memory costs what the kernel takes to clear it; that is not what is measured here.
    let options = Options {
        spare_segments: 0,
        spare_arenas: (laps * 3).min(40) as u32,
        digest_batch_bytes,
        ..Options::default()
    };
    let shared = SharedFs::open(folder, options.clone()).unwrap();
    while shared.prepare().unwrap() {}
    let mut writer = Writer::attach(Arc::clone(&shared));
    let bytes_max = laps * writer.geometry.ring_bytes();
    for _ in 0..64 {
        writer.ask(&Request::InodeNumbers { count: 1 << 16 });
    }
    let mut work = Work { name, inode: InodeNumber(2), count: 0, data: vec![0x5a; 1 << 20] };
    work.begin(&mut writer);
    while writer.at.0 < bytes_max {
        work.step(&mut writer);
    }
    writer.digest();
    let seconds = writer.time.as_secs_f64();
    println!(
        "{name:8} {:8} operations, {:9} entries: {:8.0} operations/s, {:6.0} MB/s of log, {:.2} us of the processor for each operation",
        work.count,
        writer.entries,
        work.count as f64 / seconds,
        writer.at.0 as f64 / seconds / 1e6,
        writer.processor.as_secs_f64() * 1e6 / work.count as f64,
    );
    let full = writer.at.0 + writer.geometry.ring_bytes() - (2 << 20);
    while writer.at.0 < full {
        work.step(&mut writer);
    }
    drop(writer);
    drop(shared);
    let (started, before) = (Instant::now(), processor_time());
    let shared = SharedFs::open(folder, options).unwrap();
    println!(
        "{:8} recovery of {} entries: {:.2?}, {:.2?} of the processor",
        "",
        shared.recovered().entries,
        started.elapsed(),
        processor_time() - before,
    );
    drop(shared);
    std::fs::remove_dir_all(folder).unwrap();
}
