//! `cuesta mkfs`.

use crate::failure::{Failure, WRONG_USAGE};
use crate::output;
use crate::size::{Size, human};
use crate::store::{Store, TIER_FOLDER};
use cuesta_format::superblock::{Medium, Superblock};
use cuesta_format::{Geometry, StoreId};
use cuesta_media::Protection;
use cuesta_sharedfs::{SharedFs, configuration};
use rustix::rand::{GetRandomFlags, getrandom};
use std::fs::DirBuilder;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

mod survival;

/// Where memory is when the store's directory is not in it.
const MEMORY_FOLDER: &str = "/dev/shm";
/// The fast tier's size when none is given, if there is room.
const NVM_BYTES: u64 = 4 << 30;
/// What logs and the metadata store need beside the arenas, at least.
const OVERHEAD_BYTES: u64 = 96 << 20;

#[derive(Debug, clap::Args)]
#[command(
    long_about = "Make a store: a directory with its configuration, and its fast tier.\n\n\
                  Refuses to overwrite anything. With --medium memory the fast tier lies in shared memory \
                  (/dev/shm, unless STORE itself is on a tmpfs, or --nvm-path says where).",
    after_help = "\
Examples:
  cuesta mkfs ~/store --medium memory
  cuesta mkfs ~/store --medium memory --nvm 512M
  cuesta mkfs /srv/store --medium memory --nvm-path /mnt/tmpfs/nvm

Media:
  memory   shared memory: survives the death of programs and daemon, not a power loss or reboot
  pmem     persistent memory mapped with DAX (not yet)
  block    a file or device, durable after a flush (not yet)

Exit status: 0 made, 1 failed, 2 wrong usage."
)]
pub struct Arguments {
    /// The directory to make; it must not exist, or be empty
    store: PathBuf,
    /// Bytes of the fast tier for file contents [default: 4G, or less if there is less room]
    #[arg(long, value_name = "SIZE")]
    nvm: Option<Size>,
    /// What the fast tier is made of [default: pmem if the path can be mapped with MAP_SYNC, else block]
    #[arg(long, value_enum)]
    medium: Option<MediumName>,
    /// Where the fast tier lies; the directory must not exist, or be empty
    #[arg(long, value_name = "DIR")]
    nvm_path: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum MediumName {
    Memory,
    Pmem,
    Block,
}

pub fn execute(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let folder =
        std::path::absolute(&arguments.store).map_err(|error| Failure::on(&arguments.store, error))?;
    let store = Store::planned(folder)?;
    refuse_to_overwrite(store.folder())?;
    let existing = existing_ancestor(arguments.nvm_path.as_deref().unwrap_or(store.folder()));
    match arguments.medium.unwrap_or_else(|| default_medium(&existing)) {
        MediumName::Memory => {}
        MediumName::Pmem => return Err(not_yet(store.folder(), "pmem")),
        MediumName::Block => return Err(not_yet(store.folder(), "block")),
    }
    let id = random_id(store.folder())?;
    let tier = tier_folder(&store, id, arguments.nvm_path.as_deref())?;
    let geometry = geometry(&tier, arguments.nvm)?;
    let superblock = Superblock { store: id, medium: Medium::Memory, geometry };
    let mut made = Made(Vec::new());
    make(&store, &tier, superblock, &mut made)?;
    made.0.clear();
    output::print(&format!(
        "made {} ({} for file contents in {})\n\
         run a program on it:  cuesta run --store {} -- bash\n",
        store.folder().display(),
        human(geometry.nvm_bytes),
        tier.display(),
        arguments.store.display(),
    ))?;
    survival::warn(&tier);
    Ok(ExitCode::SUCCESS)
}

fn not_yet(folder: &Path, medium: &str) -> Failure {
    Failure::on(
        folder,
        format!("the medium would be {medium}, which is not built yet; use --medium memory and read what it warns of"),
    )
    .exiting(WRONG_USAGE)
}

fn refuse_to_overwrite(folder: &Path) -> Result<(), Failure> {
    match std::fs::read_dir(folder) {
        Ok(mut entries) => match entries.next() {
            Some(_) => {
                Err(Failure::on(folder, "exists and is not empty; mkfs overwrites nothing (remove it first)"))
            }
            None => Ok(()),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotADirectory => {
            Err(Failure::on(folder, "exists and is no directory; mkfs overwrites nothing"))
        }
        Err(error) => Err(Failure::on(folder, error)),
    }
}

/// The directory that decides which file system `path` will be on.
fn existing_ancestor(path: &Path) -> PathBuf {
    let found = path.ancestors().find(|ancestor| ancestor.is_dir());
    found.filter(|ancestor| !ancestor.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_path_buf()
}

fn default_medium(folder: &Path) -> MediumName {
    let map_sync = || -> io::Result<bool> {
        let file = rustix::fs::open(
            folder,
            rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC,
            rustix::fs::Mode::from_raw_mode(0o600),
        )?;
        rustix::fs::ftruncate(&file, 4096)?;
        Ok(cuesta_media::Mapping::of_file(&file, 0, 4096, Protection::ReadWrite, Medium::Pmem, false).is_ok())
    };
    if map_sync().unwrap_or(false) { MediumName::Pmem } else { MediumName::Block }
}

fn random_id(folder: &Path) -> Result<StoreId, Failure> {
    let mut id = [0; 16];
    match getrandom(&mut id[..], GetRandomFlags::empty()) {
        Ok(16) => Ok(StoreId(id)),
        Ok(_) => Err(Failure::on(folder, "the kernel gave too few random bytes")),
        Err(errno) => Err(Failure::on(folder, errno)),
    }
}

fn tier_folder(store: &Store, id: StoreId, given: Option<&Path>) -> Result<PathBuf, Failure> {
    let tier = match given {
        Some(path) => std::path::absolute(path).map_err(|error| Failure::on(path, error))?,
        None if survival::is_memory(&existing_ancestor(store.folder())) => store.tier(),
        None => Path::new(MEMORY_FOLDER).join(format!("cuesta-{id}")),
    };
    if given.is_some() {
        refuse_to_overwrite(&tier)?;
    }
    if !survival::is_memory(&existing_ancestor(&tier)) {
        return Err(Failure::on(
            &tier,
            "is not in memory; --medium memory needs a tmpfs (give --nvm-path DIR on one)",
        ));
    }
    Ok(tier)
}

/// The sizes of the new store: what was asked for, or what there is room for.
fn geometry(tier: &Path, asked: Option<Size>) -> Result<Geometry, Failure> {
    let place = existing_ancestor(tier);
    let room = rustix::fs::statvfs(&place).map_err(|errno| Failure::on(&place, errno))?;
    let room = room.f_bavail.saturating_mul(room.f_frsize).saturating_sub(OVERHEAD_BYTES);
    let bytes = asked.map_or(NVM_BYTES.min(room / 4 * 3), |Size(bytes)| bytes);
    if bytes > room {
        return Err(Failure::on(
            &place,
            format!(
                "has room for {} beside logs and metadata, not for {} (give a smaller --nvm; a container gets \
                 more by docker run --shm-size)",
                human(room),
                human(bytes)
            ),
        ));
    }
    let arena_bytes = match bytes >> 20 {
        0..64 => 1 << 20,
        64..1024 => 16 << 20,
        _ => Geometry::default().arena_bytes,
    };
    let geometry =
        Geometry { arena_bytes, nvm_bytes: bytes / arena_bytes * arena_bytes, ..Geometry::default() };
    geometry.check().map_err(|error| Failure::on(tier, error).exiting(WRONG_USAGE))
}

/// What was made so far; removed again unless all of it was.
struct Made(Vec<PathBuf>);

impl Drop for Made {
    fn drop(&mut self) {
        for path in self.0.iter().rev() {
            let removed = if path.is_symlink() || path.is_file() {
                std::fs::remove_file(path)
            } else {
                std::fs::remove_dir_all(path)
            };
            if let Err(error) = removed {
                output::warning(format_args!("{}: cannot be removed again: {error}", path.display()));
            }
        }
    }
}

fn make(store: &Store, tier: &Path, superblock: Superblock, made: &mut Made) -> Result<(), Failure> {
    let mut folders = DirBuilder::new();
    folders.mode(0o700);
    let make_folder = |path: &Path, made: &mut Made| match folders.create(path) {
        Ok(()) => {
            made.0.push(path.to_path_buf());
            Ok(())
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(Failure::on(path, format!("cannot be made: {error}"))),
    };
    make_folder(store.folder(), made)?;
    make_folder(tier, made)?;
    if tier != store.tier() {
        let link = store.folder().join(TIER_FOLDER);
        symlink(tier, &link).map_err(|error| Failure::on(&link, error))?;
        made.0.push(link);
    }
    SharedFs::create(tier, superblock).map_err(|error| Failure::on(tier, error))?;
    // Last: without a configuration the directory is no store.
    let text = format!(
        "# Store {}: medium memory, fast tier in {}.\n{}",
        superblock.store,
        tier.display(),
        configuration::template()
    );
    std::fs::write(store.configuration(), text).map_err(|error| Failure::on(&store.configuration(), error))
}
