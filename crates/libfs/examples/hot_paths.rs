//! Times the paths that must be lean, on a store in /dev/shm with SharedFS digesting in this process, as the
//! daemon does. `hot_paths [NAME]` runs one of them only, for a profiler. The second figure is the processor
//! time of the calling thread. A sustained rate also includes waits for the digest.

use cuesta_format::superblock::Superblock;
use cuesta_format::wire::{Request, Response};
use cuesta_format::{Geometry, Medium, SessionId, StoreId};
use cuesta_libfs::{Base, Client, Credentials, Error, Link, LinkError};
use cuesta_sharedfs::{Options, Progress, SharedFs, policy};
use libc::{O_CREAT, O_RDWR};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ROOT: Credentials = Credentials::of_user(0, 0, Vec::new());

struct InProcess {
    shared: Arc<SharedFs>,
    session: SessionId,
}

impl Link for InProcess {
    fn call(&mut self, request: &Request, descriptors: &mut Vec<OwnedFd>) -> Result<Response, LinkError> {
        let response = self.shared.handle(self.session, request, descriptors);
        if let Response::Attached(welcome) = &response {
            self.session = welcome.session;
        }
        Ok(response)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let only = std::env::args().nth(1);
    let folder = tempfile::tempdir_in("/dev/shm")?;
    let geometry = Geometry { nvm_bytes: 2 << 30, ..Geometry::default() };
    let superblock = Superblock { store: StoreId([7; 16]), medium: Medium::Memory, geometry };
    SharedFs::create(folder.path(), superblock)?;
    let options = Options::default();
    let shared = SharedFs::open(folder.path(), options.clone())?;
    let stop = Arc::new(AtomicBool::new(false));
    let digester = std::thread::spawn({
        let (shared, stop) = (Arc::clone(&shared), Arc::clone(&stop));
        move || {
            while !stop.load(Ordering::Relaxed) {
                let due = !policy::due(&shared.backlogs(), &options, false).is_empty();
                let worked = due && !matches!(shared.digest_step(), Ok(Progress::Idle) | Err(_));
                if !worked {
                    std::thread::park_timeout(Duration::from_micros(500));
                }
            }
        }
    });
    let link = InProcess { shared: Arc::clone(&shared), session: SessionId(0) };
    let client = Client::attach(Box::new(link), "hot_paths")?;
    let paths: [(&str, Path); 6] = [
        ("append-128", append_128),
        ("append-4k", append_4k),
        ("overwrite-4k", overwrite_4k),
        ("pread-4k", pread_4k),
        ("pread-4k-fresh", pread_4k_fresh),
        ("create", create),
    ];
    for (name, path) in paths {
        if only.as_deref().is_none_or(|only| only == name) {
            let Timed { rounds, wall, own } = path(&client)?;
            let each = |time: Duration| time.as_nanos() as f64 / rounds as f64;
            println!("{name:>16}: {:7.0} ns, own {:7.0} ns", each(wall), each(own));
        }
    }
    if only.as_deref().is_none_or(|only| only == "attach") {
        let rounds = 50;
        let start = Start::now();
        for _ in 0..rounds {
            let link = InProcess { shared: Arc::clone(&shared), session: SessionId(0) };
            let short = Client::attach(Box::new(link), "hot_paths")?;
            short.open(&ROOT, Base::Root, b"short", O_CREAT | O_RDWR, 0o644)?;
            short.detach();
        }
        let Timed { wall, .. } = start.end(rounds);
        println!("{:>16}: {:7.0} ns", "attach", wall.as_nanos() as f64 / rounds as f64);
    }
    client.detach();
    stop.store(true, Ordering::Relaxed);
    let _ = digester.join();
    Ok(())
}

type Path = fn(&Client) -> Result<Timed, Error>;

struct Timed {
    rounds: u64,
    wall: Duration,
    own: Duration,
}

struct Start {
    wall: Instant,
    own: Duration,
}

fn own_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

impl Start {
    fn now() -> Start {
        Start { wall: Instant::now(), own: own_time() }
    }

    fn end(&self, rounds: u64) -> Timed {
        Timed { rounds, wall: self.wall.elapsed(), own: own_time() - self.own }
    }
}

fn append(client: &Client, bytes: usize, rounds: u64) -> Result<Timed, Error> {
    let file =
        client.open(&ROOT, Base::Root, format!("append-{bytes}").as_bytes(), O_CREAT | O_RDWR, 0o644)?;
    let buffer = vec![7; bytes];
    let start = Start::now();
    for _ in 0..rounds {
        client.write(&file, &[buffer.as_slice().into()])?;
        client.fsync(&file)?;
    }
    Ok(start.end(rounds))
}

fn append_128(client: &Client) -> Result<Timed, Error> {
    append(client, 128, 2_000_000)
}

fn append_4k(client: &Client) -> Result<Timed, Error> {
    append(client, 4096, 80_000)
}

const FILE_BLOCKS: u64 = 16 << 10;

fn filled(client: &Client) -> Result<Arc<cuesta_libfs::OpenFile>, Error> {
    let file = client.open(&ROOT, Base::Root, b"filled", O_CREAT | O_RDWR, 0o644)?;
    let block = vec![3; 1 << 20];
    for at in 0..FILE_BLOCKS * 4096 / block.len() as u64 {
        client.pwrite(&file, &[block.as_slice().into()], (at << 20) as i64)?;
    }
    client.digest()?;
    Ok(file)
}

fn overwrite_4k(client: &Client) -> Result<Timed, Error> {
    let file = filled(client)?;
    let buffer = vec![9; 4096];
    let mut random = fastrand::Rng::with_seed(1);
    let rounds = 200_000;
    let start = Start::now();
    for _ in 0..rounds {
        client.pwrite(&file, &[buffer.as_slice().into()], random.i64(0..FILE_BLOCKS as i64) * 4096)?;
        client.fsync(&file)?;
    }
    Ok(start.end(rounds))
}

fn read_random(client: &Client, file: &cuesta_libfs::OpenFile, rounds: u64) -> Result<Timed, Error> {
    let mut buffer = vec![0; 4096];
    let mut random = fastrand::Rng::with_seed(1);
    let start = Start::now();
    for _ in 0..rounds {
        let at = random.i64(0..FILE_BLOCKS as i64) * 4096;
        client.pread(file, &mut [buffer.as_mut_slice().into()], at)?;
    }
    Ok(start.end(rounds))
}

/// Reads from arenas.
fn pread_4k(client: &Client) -> Result<Timed, Error> {
    let file = filled(client)?;
    read_random(client, &file, 20_000)?;
    read_random(client, &file, 1_000_000)
}

/// Reads from arenas and the log, scattered by overwriting.
fn pread_4k_fresh(client: &Client) -> Result<Timed, Error> {
    let file = filled(client)?;
    let buffer = vec![9; 4096];
    let mut random = fastrand::Rng::with_seed(2);
    for _ in 0..8_000 {
        client.pwrite(&file, &[buffer.as_slice().into()], random.i64(0..FILE_BLOCKS as i64) * 4096)?;
    }
    read_random(client, &file, 1_000_000)
}

fn create(client: &Client) -> Result<Timed, Error> {
    let buffer = vec![5; 4096];
    client.make_directory(&ROOT, Base::Root, b"made", 0o755)?;
    let rounds = 300_000;
    let start = Start::now();
    for number in 0..rounds {
        let (new, last) = (format!("made/{number}.tmp"), format!("made/{number}"));
        let file = client.open(&ROOT, Base::Root, new.as_bytes(), O_CREAT | O_RDWR, 0o644)?;
        client.write(&file, &[buffer.as_slice().into()])?;
        client.fsync(&file)?;
        let (new, last) = ((Base::Root, new.as_bytes()), (Base::Root, last.as_bytes()));
        client.rename(&ROOT, new, last, Default::default())?;
        client.close(file)?;
    }
    Ok(start.end(rounds))
}
