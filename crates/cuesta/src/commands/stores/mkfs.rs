//! `cuesta mkfs`.

use crate::commands::programs::durability::{mode_parser, refuse_other_media};
use crate::commands::stores::calibrate::refuse_faster;
use crate::messages::failure::{Failure, WRONG_USAGE};
use crate::messages::output;
use crate::messages::size::{Size, human};
use crate::stores::owner::become_owner;
use crate::stores::places;
use crate::stores::store::Store;
use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use cuesta_format::emulation::Profile;
use cuesta_format::geometry::DEVICE_LINK;
use cuesta_format::superblock::{Medium, Superblock};
use cuesta_format::{BLOCK_BYTES, Durability, Geometry, StoreId};
use cuesta_media::{Mapping, Protection};
use cuesta_sharedfs::trust::{self, TIER_NAME, TrustedFolder};
use cuesta_sharedfs::{LowerTier, Region, SharedFs, configuration, create_lower_tier};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};
use std::collections::BTreeMap;
use std::fs::{DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

mod device;
mod refusals;
mod sizes;
mod survival;
pub mod tiers;

use refusals::{refuse_device, refuse_to_overwrite};
use sizes::{ARENA_BYTES_MIN, sizes};
use tiers::AskedTier;

/// Where memory is when the store's directory is not in it.
const MEMORY_FOLDER: &str = "/dev/shm";
/// The fast tier's size when none is given, if there is room.
const NVM_BYTES: u64 = 4 << 30;
/// What logs and the metadata store need beside the arenas, at least: on a disk, where a whole log and spare segments are made at once,
/// and in memory.
const OVERHEAD_BYTES_ON_DISK: u64 = 160 << 20;
const OVERHEAD_BYTES: u64 = 96 << 20;

#[derive(Debug, clap::Args)]
#[command(
    long_about = "Make a store: a directory with its configuration, and its fast tier.\n\n\
                  Refuses to overwrite anything. With --medium memory the fast tier lies in shared memory \
                  (/dev/shm, unless STORE itself is on a tmpfs, or --nvm-path says where); with --medium block or pmem \
                  in STORE itself, or where --nvm-path says, which must be on a disk, or mounted with DAX; or be persistent \
                  memory without a file system (/dev/dax0.0): then file contents and logs lie there, and all else in STORE, \
                  which must be on a disk.",
    after_help = "\
Examples:
  cuesta mkfs ~/store
  cuesta mkfs ~/store --medium memory --nvm 512M
  cuesta mkfs /srv/store --medium memory --checksums on
  cuesta mkfs /srv/store --medium pmem --nvm-path /mnt/dax/nvm
  cuesta mkfs /srv/store --nvm-path /dev/dax0.0
  cuesta mkfs ~/builds --durability optimistic
  cuesta mkfs ~/slow --medium memory --emulate optane-pmm
  cuesta mkfs ~/store --medium memory --nvm 1G --tier disk=/mnt/disk/tier:100G
  cuesta mkfs ~/store --medium memory --tier disk=/mnt/ssd/tier:100G,profile=hdd

Media:
  memory   shared memory: survives the death of programs and daemon, not a power loss or reboot
  pmem     persistent memory, on a file system mounted with DAX or a device of bytes: survives power loss as well
  block    files on a disk: what a program synced survives a power loss, as on other file systems

Exit status: 0 made, 1 failed, 2 wrong usage."
)]
pub struct Arguments {
    /// The directory to make; it must not exist, or be empty
    store: PathBuf,
    /// Bytes of the fast tier for file contents [default: 4G, or less if there is less room]
    #[arg(long, value_name = "SIZE")]
    nvm: Option<Size>,
    /// What the fast tier is made of [default: by where it lies: pmem where DAX works, memory on a tmpfs, else block]
    #[arg(long, value_parser = medium_parser())]
    medium: Option<Medium>,
    /// Whether each block of content gets a checksum, which every read compares [default: on for block, else off]
    #[arg(long, value_name = "WHETHER")]
    checksums: Option<Checksums>,
    /// The slower medium to play on it: a name (optane-pmm), or figures (see cuesta calibrate --help)
    #[arg(long, value_name = "PROFILE", default_value_t, hide_default_value = true)]
    emulate: Profile,
    /// When fsync returns, on a disk: once the disk has everything, or at once (see cuesta.toml) [default: pessimistic]
    #[arg(long, value_name = "MODE", value_parser = mode_parser())]
    durability: Option<Durability>,
    /// Where the fast tier lies: a directory, which must not exist, or be empty; or a device of bytes (/dev/dax0.0)
    #[arg(long, value_name = "PLACE")]
    nvm_path: Option<PathBuf>,
    /// A tier below the fast one, for long runs of content and for what the fast tier has no room for; may be given again for the next
    /// one below. PATH is a directory on a disk, which must not exist, or be empty; or a disk without a file system (/dev/sdb).
    /// PROFILE is a slower disk to play on it: nvme, sata-ssd, hdd, optane-ssd, or figures (see cuesta calibrate --help)
    #[arg(long, value_name = "NAME=PATH:SIZE[,profile=PROFILE]")]
    tier: Vec<AskedTier>,
    /// Take a device of bytes from the store that it holds, or a disk whatever it holds, which is lost
    #[arg(long)]
    overwrite_device: bool,
}

/// Checksums of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Checksums {
    /// They are kept, and compared
    On,
    /// There are none
    Off,
}

fn medium_parser() -> impl TypedValueParser<Value = Medium> {
    PossibleValuesParser::new(Medium::ALL.map(Medium::name)).try_map(|name| name.parse::<Medium>())
}

pub fn execute(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let folder =
        std::path::absolute(&arguments.store).map_err(|error| Failure::on(&arguments.store, error))?;
    let store = Store::planned(folder)?;
    refuse_device(store.folder())?;
    if store.folder().is_dir() {
        // An empty one that is there already stays its owner's, and so does the store.
        become_owner(store.folder())?;
    }
    refuse_to_overwrite(store.folder())?;
    let id = random_id(store.folder())?;
    let given = arguments.nvm_path.as_deref();
    if let Some(Size(bytes)) = arguments.nvm
        && bytes < ARENA_BYTES_MIN
    {
        let least = human(ARENA_BYTES_MIN);
        return Err(Failure::new(format!(
            "--nvm {bytes}: a fast tier of {} does not hold one arena; it takes {least} at least",
            human(bytes)
        ))
        .exiting(WRONG_USAGE));
    }
    if let Some(device) = device::named(given)? {
        return on_device(arguments, &store, id, &device);
    }
    if arguments.overwrite_device && arguments.tier.is_empty() {
        let why = "--overwrite-device: no device is named (--nvm-path /dev/daxN.M)";
        return Err(Failure::new(why).exiting(WRONG_USAGE));
    }
    let (medium, tier) = match arguments.medium {
        Some(medium) => (medium, tier_folder(&store, medium, given)?),
        None => match tier_folder(&store, Medium::Pmem, given) {
            Ok(tier) => (Medium::Pmem, tier),
            Err(_) => {
                let tier = places::existing_ancestor(given.unwrap_or(store.folder()));
                let medium = if places::is_memory(&tier) { Medium::Memory } else { Medium::Block };
                (medium, tier_folder(&store, medium, given)?)
            }
        },
    };
    refuse_faster(&places::existing_ancestor(&tier), medium, arguments.emulate)?;
    let checks_content = match arguments.checksums {
        Some(asked) => asked == Checksums::On,
        None => medium == Medium::Block,
    };
    let geometry = Geometry { checks_content, ..geometry(&tier, medium, arguments.nvm)? };
    let superblock = Superblock { store: id, medium, geometry };
    let durability = arguments.durability.unwrap_or_default();
    if durability == Durability::Optimistic {
        refuse_other_media(medium)?;
    }
    let lower = tiers::planned(&arguments.tier, &geometry, arguments.overwrite_device)?;
    make(&store, &tier, None, superblock, &lower, (arguments.emulate, durability))?;
    let region = if medium == Medium::Pmem { Region::of(&tier) } else { None };
    tell(arguments, &store, &tier, superblock, region)?;
    if medium == Medium::Memory {
        survival::warn(&tier, !lower.is_empty());
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes a store whose segments and arenas lie on a device of bytes.
fn on_device(arguments: &Arguments, store: &Store, id: StoreId, device: &Path) -> Result<ExitCode, Failure> {
    let unfit = [
        (
            arguments.medium.is_some_and(|medium| medium != Medium::Pmem),
            "is persistent memory: --medium pmem",
        ),
        (
            arguments.checksums == Some(Checksums::On),
            "takes no checksums of content (a file system mounted with DAX does)",
        ),
        (
            arguments.durability == Some(Durability::Optimistic),
            "needs no optimistic durability: what returned survives a power loss anyway",
        ),
        (!arguments.emulate.is_none(), "plays no other medium (a file system mounted with DAX does)"),
    ];
    if let Some((_, why)) = unfit.iter().find(|(is_so, _)| *is_so) {
        return Err(Failure::on(device, *why).exiting(WRONG_USAGE));
    }
    device::refuse(device, &places::existing_ancestor(store.folder()), arguments.overwrite_device)?;
    let geometry = device::geometry(device, arguments.nvm)?;
    let superblock = Superblock { store: id, medium: Medium::Pmem, geometry };
    let lower = tiers::planned(&arguments.tier, &geometry, arguments.overwrite_device)?;
    let modes = (arguments.emulate, Durability::default());
    make(store, &store.tier(), Some(device), superblock, &lower, modes)?;
    tell(arguments, store, device, superblock, Region::of_device_of_bytes(device))?;
    Ok(ExitCode::SUCCESS)
}

fn tell(
    arguments: &Arguments,
    store: &Store,
    place: &Path,
    superblock: Superblock,
    region: Option<Region>,
) -> Result<(), Failure> {
    let Superblock { medium, geometry, .. } = superblock;
    let below = match arguments.tier.len() {
        0 => String::new(),
        1 => ", over one lower tier".to_owned(),
        several => format!(", over {several} lower tiers"),
    };
    output::print(&format!(
        "made {} ({} for file contents in {}, medium {medium}{}{}{}{below})\n\
         run a program on it:  cuesta run --store {} -- bash\n",
        store.folder().display(),
        human(geometry.nvm_bytes),
        place.display(),
        output::persistence(region.map(|region| region.domain), region.and_then(|region| region.node)),
        if geometry.checks_content { ", with checksums" } else { "" },
        if arguments.emulate.is_none() { String::new() } else { format!(", playing {}", arguments.emulate) },
        output::shell_word(&arguments.store),
    ))?;
    Ok(())
}

/// Why files in `folder` cannot be mapped such that what is flushed needs no fsync, if so.
fn refusal_of_pmem(folder: &Path) -> Option<Errno> {
    let try_mapping = || {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR)?;
        rustix::fs::ftruncate(&file, BLOCK_BYTES)?;
        Mapping::of_file(&file, 0, BLOCK_BYTES, Protection::ReadWrite, Medium::Pmem, false)
            .map_err(|error| error.errno())
    };
    try_mapping().err()
}

fn random_id(folder: &Path) -> Result<StoreId, Failure> {
    let mut id = [0; 16];
    match getrandom(&mut id[..], GetRandomFlags::empty()) {
        Ok(16) => Ok(StoreId(id)),
        Ok(_) => Err(Failure::on(folder, "the kernel gave too few random bytes")),
        Err(errno) => Err(Failure::on(folder, errno)),
    }
}

/// The name of a fast tier in shared memory. It is not the store's, which may stand where others read it.
fn tier_name() -> Result<String, Failure> {
    Ok(format!("cuesta-{}", random_id(Path::new(MEMORY_FOLDER))?))
}

/// Where the fast tier is to lie, on `medium`.
fn tier_folder(store: &Store, medium: Medium, given: Option<&Path>) -> Result<PathBuf, Failure> {
    let tier = match given {
        Some(path) => std::path::absolute(path).map_err(|error| Failure::on(path, error))?,
        None if medium == Medium::Memory
            && !places::is_memory(&places::existing_ancestor(store.folder())) =>
        {
            Path::new(MEMORY_FOLDER).join(tier_name()?)
        }
        None => store.tier(),
    };
    if given.is_some() {
        refuse_device(&tier)?;
        refuse_to_overwrite(&tier)?;
    }
    let place = places::existing_ancestor(&tier);
    match medium {
        Medium::Memory if !places::is_memory(&place) => Err(Failure::on(
            &tier,
            "is not in memory; --medium memory needs a tmpfs (give --nvm-path DIR on one)",
        )),
        Medium::Pmem => match refusal_of_pmem(&place) {
            Some(errno) => Err(Failure::on(
                &place,
                format!(
                    "is not on a file system mounted with DAX ({errno}), which --medium pmem needs; give --nvm-path \
                     DIR on one (ext4 or XFS on persistent memory, mount -o dax), or use --medium {}",
                    if places::is_memory(&place) { Medium::Memory } else { Medium::Block }
                ),
            )),
            None => Ok(tier),
        },
        Medium::Block if places::is_memory(&place) => Err(Failure::on(
            &tier,
            "is in memory, where nothing is written to a disk; give --nvm-path DIR on one, or use --medium memory",
        )),
        Medium::Memory | Medium::Block => Ok(tier),
    }
}

/// The sizes of the new store: the ones asked for, or as much as there is room for.
fn geometry(tier: &Path, medium: Medium, asked: Option<Size>) -> Result<Geometry, Failure> {
    let place = places::existing_ancestor(tier);
    let room = rustix::fs::statvfs(&place).map_err(|errno| Failure::on(&place, errno))?;
    let overhead = if medium == Medium::Block { OVERHEAD_BYTES_ON_DISK } else { OVERHEAD_BYTES };
    let free = room.f_bavail.saturating_mul(room.f_frsize);
    let room = free.saturating_sub(overhead);
    let bytes = asked.map_or(NVM_BYTES.min(room / 4 * 3).max(ARENA_BYTES_MIN), |Size(bytes)| bytes);
    if bytes > room {
        return Err(Failure::on(
            &place,
            format!(
                "has room for {}; logs and metadata need {}, and file contents {} ({}{})",
                human(free),
                human(overhead),
                human(bytes),
                if bytes > ARENA_BYTES_MIN {
                    "give a smaller --nvm, or another --nvm-path"
                } else {
                    "give another --nvm-path"
                },
                match medium {
                    Medium::Memory => "; a container gets more by docker run --shm-size=1g",
                    Medium::Pmem | Medium::Block => "",
                }
            ),
        ));
    }
    sizes(tier, bytes, 0)
}

/// The files made so far; removed again unless all of them were made.
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

fn make(
    store: &Store,
    tier: &Path,
    device: Option<&Path>,
    superblock: Superblock,
    lower: &BTreeMap<String, LowerTier>,
    modes: (Profile, Durability),
) -> Result<(), Failure> {
    let mut made = Made(Vec::new());
    make_all(store, tier, device, superblock, lower, modes, &mut made)?;
    made.0.clear();
    Ok(())
}

fn make_all(
    store: &Store,
    tier: &Path,
    device: Option<&Path>,
    superblock: Superblock,
    lower: &BTreeMap<String, LowerTier>,
    (emulate, durability): (Profile, Durability),
    made: &mut Made,
) -> Result<(), Failure> {
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
    let distrusted = |error: trust::TrustError| Failure::new(error.to_string());
    let us = rustix::process::geteuid().as_raw();
    make_folder(store.folder(), made)?;
    TrustedFolder::open(store.folder(), us).map_err(distrusted)?;
    make_folder(tier, made)?;
    // In a place where all users make folders, another user may have made this one first.
    let trusted = TrustedFolder::open(tier, us).map_err(distrusted)?;
    if tier != store.tier() {
        let link = store.folder().join(TIER_NAME);
        symlink(tier, &link).map_err(|error| Failure::on(&link, error))?;
        made.0.push(link);
    }
    if let Some(device) = device {
        let link = tier.join(DEVICE_LINK);
        symlink(device, &link).map_err(|error| Failure::on(&link, error))?;
        made.0.push(link);
    }
    SharedFs::create(trusted.path(), superblock).map_err(|error| Failure::on(tier, error))?;
    for tier in lower.values() {
        if !tier.path.exists() {
            made.0.push(tier.path.clone());
        }
        create_lower_tier(superblock.store, tier).map_err(|error| Failure::on(&tier.path, error))?;
    }
    trust::create_identity(store.folder(), tier, superblock.store).map_err(distrusted)?;
    // Last: without a configuration the directory is no store.
    let text = format!(
        "# Store {}: medium {}, fast tier in {}.\n{}{}",
        superblock.store,
        superblock.medium,
        device.unwrap_or(tier).display(),
        configuration::template(emulate, durability),
        configuration::tiers_template(lower),
    );
    std::fs::write(store.configuration(), text)
        .and_then(|()| settle(store))
        .map_err(|error| Failure::on(&store.configuration(), error))
}

/// The store that was told to be made is there after a power loss.
fn settle(store: &Store) -> io::Result<()> {
    File::open(store.configuration())?.sync_all()?;
    File::open(store.folder())?.sync_all()?;
    // A folder above that may be searched and not read: then the kernel knows when.
    match store.folder().parent().map(File::open) {
        Some(Ok(parent)) => parent.sync_all(),
        _ => Ok(()),
    }
}
