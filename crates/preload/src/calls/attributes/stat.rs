//! What `stat` shows, and changing it.

use crate::call::{Answer, Call, Failure};
use crate::calls::attributes::device::device;
use crate::calls::paths::store_path::{self, Named};
use crate::calls::paths::{crossing, descriptor_files, own_listing};
use crate::descriptors::Pin;
use crate::memory::user_memory;
use crate::process;
use crate::store::{Base, Client, OpenFile, Target};
use crate::users::credentials;
use cuesta_format::wire::StoreTotals;
use cuesta_format::{FileKind, InodeRecord, Timestamp};
use cuesta_libfs::{Credentials, Error, SetAttributes, SetTime, Stat};

const MODE_BITS: u32 = 0o7777;

/// What `statfs` calls the file system: "cues".
const FILE_SYSTEM: i64 = 0x6375_6573;

const BLOCK_BYTES: i64 = 4096;

const NAME_LIMIT: i64 = 255;

/// An owner or group that stays as it is.
const UNCHANGED: u32 = u32::MAX;

/// What `statfs` shows as the file system's number. A mount by FUSE has none, and so this door says none where the store is mounted.
fn file_system_number() -> [i32; 2] {
    match process::configuration() {
        Ok(store) if store.device.is_some_and(|device| libc::major(device) != 0) => {
            let number = device();
            [number as i32, (number >> 32) as i32]
        }
        _ => [0; 2],
    }
}

fn fill(stat: &InodeRecord) -> libc::stat {
    // SAFETY: all fields are integers.
    let mut out: libc::stat = unsafe { std::mem::zeroed() };
    out.st_dev = device();
    out.st_ino = stat.inode.0;
    out.st_nlink = u64::from(stat.links);
    out.st_mode = stat.mode;
    out.st_uid = stat.uid;
    out.st_gid = stat.gid;
    out.st_rdev = stat.device;
    out.st_size = stat.size as i64;
    out.st_blksize = BLOCK_BYTES;
    out.st_blocks = (stat.blocks * (BLOCK_BYTES as u64 / 512)) as i64;
    (out.st_atime, out.st_atime_nsec) = split(stat.accessed);
    (out.st_mtime, out.st_mtime_nsec) = split(stat.modified);
    (out.st_ctime, out.st_ctime_nsec) = split(stat.changed);
    out
}

fn split(time: Timestamp) -> (i64, i64) {
    (time.seconds(), i64::from(time.nanoseconds()))
}

fn fill_extended(stat: &InodeRecord) -> libc::statx {
    // SAFETY: all fields are integers.
    let mut out: libc::statx = unsafe { std::mem::zeroed() };
    out.stx_mask = libc::STATX_BASIC_STATS | libc::STATX_BTIME;
    out.stx_blksize = BLOCK_BYTES as u32;
    out.stx_nlink = stat.links;
    out.stx_uid = stat.uid;
    out.stx_gid = stat.gid;
    out.stx_mode = stat.mode as u16;
    out.stx_ino = stat.inode.0;
    out.stx_size = stat.size;
    out.stx_blocks = stat.blocks * (BLOCK_BYTES as u64 / 512);
    out.stx_dev_major = libc::major(device());
    out.stx_dev_minor = libc::minor(device());
    out.stx_rdev_major = libc::major(stat.device);
    out.stx_rdev_minor = libc::minor(stat.device);
    let times = [stat.accessed, stat.born, stat.changed, stat.modified];
    let fields = [&mut out.stx_atime, &mut out.stx_btime, &mut out.stx_ctime, &mut out.stx_mtime];
    for (field, time) in fields.into_iter().zip(times) {
        field.tv_sec = time.seconds();
        field.tv_nsec = time.nanoseconds();
    }
    out
}

/// All that may be asked of a `stat`; the kernel refuses the rest.
const STAT_FLAGS: i32 =
    libc::AT_SYMLINK_NOFOLLOW | libc::AT_NO_AUTOMOUNT | libc::AT_EMPTY_PATH | libc::AT_STATX_SYNC_TYPE;
/// All that may be asked of a change of attributes.
const CHANGE_FLAGS: i32 = libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH;

/// No mask of `statx` has it.
const STATX_RESERVED: u32 = 1 << 31;

pub fn stat(call: &Call, directory: Option<usize>, path: usize, buffer: usize, flags: i32) -> Answer {
    let write = |stat: Stat| user_memory::write(call.word(buffer), &fill(&stat.record)).map(|()| 0);
    match look(call, (directory, path), flags, STAT, write) {
        Err(Failure::NotOurs) => own_listing::attributes(
            call,
            path,
            call.word(buffer).wrapping_add(std::mem::offset_of!(libc::stat, st_size)),
        ),
        answer => answer,
    }
}

pub fn stat_open(call: &Call) -> Answer {
    let pin = call.pin(0)?;
    let stat = process::client()?.stat_open(pin.file()?)?;
    user_memory::write(call.word(1), &fill(&stat.record))?;
    Ok(0)
}

pub fn statx(call: &Call) -> Answer {
    let syncs = call.int(2) & libc::AT_STATX_SYNC_TYPE;
    if syncs == libc::AT_STATX_SYNC_TYPE || call.word(3) as u32 & STATX_RESERVED != 0 {
        return Err(Failure::NotOurs);
    }
    let write = |stat: Stat| user_memory::write(call.word(4), &fill_extended(&stat.record)).map(|()| 0);
    match look(call, (Some(0), 1), call.int(2), STAT, write) {
        Err(Failure::NotOurs) => own_listing::attributes(
            call,
            1,
            call.word(4).wrapping_add(std::mem::offset_of!(libc::statx, stx_size)),
        ),
        answer => answer,
    }
}

type OfNamed<T> = fn(&Client, &Credentials, Base<'_>, &[u8], bool) -> Result<T, Error>;

/// A question about the file that a path names, or about an open file.
struct Question<T> {
    named: OfNamed<T>,
    open: fn(&Client, &OpenFile) -> Result<T, Error>,
}

const STAT: Question<Stat> = Question { named: Client::stat, open: Client::stat_open };

const TOTALS: Question<StoreTotals> = Question { named: Client::statfs, open: Client::statfs_open };

#[inline]
fn look<T>(
    call: &Call,
    named: Named,
    flags: i32,
    question: Question<T>,
    write: impl Fn(T) -> Answer,
) -> Answer {
    let itself = store_path::itself(call, named.0, named.1, flags);
    // Of a descriptor alone newer kernels answer whatever the other flags are.
    let is_descriptor = named.0.is_some_and(|index| call.int(index) >= 0) && matches!(itself, Ok(Some(_)));
    if flags & !STAT_FLAGS != 0 && !is_descriptor {
        return Err(Failure::NotOurs);
    }
    if let Some(pin) = itself? {
        return write((question.open)(process::client()?, pin.file()?)?);
    }
    let follow = flags & libc::AT_SYMLINK_NOFOLLOW == 0;
    let answer = crossing::at_name(
        call,
        named,
        |client, credentials, base, place| (question.named)(client, credentials, base, &place.path, follow),
        &write,
    );
    match answer {
        Err(Failure::NotOurs) if follow => {
            let pin = descriptor_files::itself(call, named.1)?;
            write((question.open)(process::client()?, pin.file()?)?)
        }
        answer => answer,
    }
}

pub fn access(call: &Call, directory: Option<usize>, path: usize, mode: i32, flags: i32) -> Answer {
    if mode & !0o7 != 0 || flags & !(libc::AT_EACCESS | libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH) != 0
    {
        // The kernel refuses that before it looks at the path.
        return Err(Failure::NotOurs);
    }
    let asks_for_effective = flags & libc::AT_EACCESS != 0;
    let whose = if asks_for_effective { credentials::effective } else { credentials::real };
    if let Some(pin) = store_path::itself(call, directory, path, flags)? {
        return descriptor_files::check(&pin, &whose(), mode as u32).map(|()| 0);
    }
    let follow = flags & libc::AT_SYMLINK_NOFOLLOW == 0;
    let answer = crossing::at_name(
        call,
        (directory, path),
        |client, _, base, place| client.access(&whose(), base, &place.path, mode as u32, follow),
        |()| Ok(0),
    );
    match answer {
        Err(Failure::NotOurs) if follow => {
            descriptor_files::check(&descriptor_files::itself(call, path)?, &whose(), mode as u32).map(|()| 0)
        }
        answer => answer,
    }
}

fn set(call: &Call, named: Named, flags: i32, attributes: SetAttributes) -> Answer {
    if flags & !CHANGE_FLAGS != 0 {
        return Err(Failure::NotOurs);
    }
    if let Some(pin) = store_path::itself(call, named.0, named.1, flags)? {
        return set_behind(&pin, attributes);
    }
    let follow = flags & libc::AT_SYMLINK_NOFOLLOW == 0;
    let serve = |client: &Client,
                 credentials: &Credentials,
                 base: Base<'_>,
                 place: &store_path::StorePath|
     -> Result<(), Error> {
        client.set_attributes(credentials, Target::Path { base, path: &place.path, follow }, attributes)
    };
    match crossing::at_name(call, named, serve, |()| Ok(0)) {
        Err(Failure::NotOurs) if follow => set_behind(&descriptor_files::itself(call, named.1)?, attributes),
        answer => answer,
    }
}

/// Sets attributes of the file behind a descriptor, be it one for paths only.
#[cold]
fn set_behind(pin: &Pin, attributes: SetAttributes) -> Answer {
    let file = pin.file()?;
    if file.kind() == FileKind::Symlink && attributes.mode.is_some() {
        return Err(Failure::Errno(libc::EOPNOTSUPP));
    }
    process::client()?.set_attributes_behind(&credentials::effective(), file, attributes)?;
    Ok(0)
}

fn set_open(pin: &Pin, attributes: SetAttributes) -> Answer {
    let file: &OpenFile = pin.file()?;
    process::client()?.set_attributes(&credentials::effective(), Target::File(file), attributes)?;
    Ok(0)
}

fn mode(mode: usize) -> SetAttributes {
    SetAttributes { mode: Some(mode as u32 & MODE_BITS), ..SetAttributes::default() }
}

pub fn change_mode(call: &Call, directory: Option<usize>, path: usize, to: usize, flags: i32) -> Answer {
    set(call, (directory, path), flags, mode(to))
}

pub fn change_mode_open(call: &Call) -> Answer {
    set_open(&call.pin(0)?, mode(call.word(1)))
}

fn owner(user: usize, group: usize) -> SetAttributes {
    let changed = |id: usize| Some(id as u32).filter(|id| *id != UNCHANGED);
    SetAttributes { uid: changed(user), gid: changed(group), chown: true, ..SetAttributes::default() }
}

pub fn change_owner(call: &Call, directory: Option<usize>, path: usize, ids: usize, flags: i32) -> Answer {
    set(call, (directory, path), flags, owner(call.word(ids), call.word(ids + 1)))
}

pub fn change_owner_open(call: &Call) -> Answer {
    set_open(&call.pin(0)?, owner(call.word(1), call.word(2)))
}

fn times(accessed: SetTime, modified: SetTime) -> SetAttributes {
    SetAttributes { accessed, modified, ..SetAttributes::default() }
}

fn time(seconds: i64, nanoseconds: i64) -> Result<SetTime, Failure> {
    match nanoseconds {
        libc::UTIME_NOW => Ok(SetTime::Now),
        libc::UTIME_OMIT => Ok(SetTime::Omit),
        0..1_000_000_000 => Ok(SetTime::To(Timestamp::new(seconds, nanoseconds as u32))),
        _ => Err(Failure::Errno(libc::EINVAL)),
    }
}

pub fn change_times(call: &Call) -> Answer {
    let attributes = match call.word(2) {
        0 => times(SetTime::Now, SetTime::Now),
        address => {
            let [accessed, modified]: [[i64; 2]; 2] = user_memory::read(address)?;
            if [accessed[1], modified[1]] == [libc::UTIME_OMIT; 2] {
                // The kernel does not even look at the path.
                return Err(Failure::NotOurs);
            }
            match (time(accessed[0], accessed[1]), time(modified[0], modified[1])) {
                (Ok(accessed), Ok(modified)) => times(accessed, modified),
                _ if call.int(3) & !CHANGE_FLAGS != 0 => return Err(Failure::Errno(libc::EINVAL)),
                // A file that is not there is missed first.
                _ if call.word(1) == 0 => {
                    let pin = call.pin(0)?;
                    if call.int(3) == 0 {
                        pin.file()?.check_not_path()?;
                    }
                    return Err(Failure::Errno(libc::EINVAL));
                }
                _ => {
                    return look(call, (Some(0), 1), call.int(3), STAT, |_| {
                        Err(Failure::Errno(libc::EINVAL))
                    });
                }
            }
        }
    };
    if call.word(1) == 0 && call.int(0) != libc::AT_FDCWD {
        // Without any path it is the descriptor's call, which one for paths only is refused.
        return match call.int(3) {
            0 => set_open(&call.pin(0)?, attributes),
            _ => Err(Failure::NotOurs),
        };
    }
    set(call, (Some(0), 1), call.int(3), attributes)
}

/// `utime` has whole seconds, `utimes` and `futimesat` have microseconds.
pub fn change_times_old(call: &Call) -> Answer {
    let number = call.number as i64;
    let (named, address): (Named, usize) = match number {
        libc::SYS_futimesat => ((Some(0), 1), call.word(2)),
        _ => ((None, 0), call.word(1)),
    };
    let attributes = if address == 0 {
        times(SetTime::Now, SetTime::Now)
    } else if number == libc::SYS_utime {
        let [accessed, modified]: [i64; 2] = user_memory::read(address)?;
        times(time(accessed, 0)?, time(modified, 0)?)
    } else {
        let [accessed, modified]: [[i64; 2]; 2] = user_memory::read(address)?;
        if !(0..1_000_000).contains(&accessed[1]) || !(0..1_000_000).contains(&modified[1]) {
            // The kernel refuses that before it looks at the path.
            return Err(Failure::NotOurs);
        }
        times(time(accessed[0], accessed[1] * 1000)?, time(modified[0], modified[1] * 1000)?)
    };
    if named.0.is_some() && call.word(1) == 0 && call.int(0) != libc::AT_FDCWD {
        return set_open(&call.pin(0)?, attributes);
    }
    set(call, named, 0, attributes)
}

fn write_totals(buffer: usize, totals: StoreTotals) -> Answer {
    // SAFETY: all fields are integers.
    let mut out: libc::statfs = unsafe { std::mem::zeroed() };
    out.f_type = FILE_SYSTEM;
    out.f_bsize = BLOCK_BYTES;
    out.f_frsize = BLOCK_BYTES;
    out.f_blocks = totals.blocks;
    out.f_bfree = totals.blocks_free;
    out.f_bavail = totals.blocks_free;
    out.f_files = totals.inodes.saturating_add(totals.inodes_free);
    out.f_ffree = totals.inodes_free;
    out.f_namelen = NAME_LIMIT;
    // SAFETY: the field is two integers, as many bytes.
    out.f_fsid = unsafe { std::mem::transmute::<[i32; 2], libc::fsid_t>(file_system_number()) };
    user_memory::write(buffer, &out)?;
    Ok(0)
}

pub fn statfs(call: &Call) -> Answer {
    look(call, (None, 0), 0, TOTALS, |totals| write_totals(call.word(1), totals))
}

pub fn statfs_open(call: &Call) -> Answer {
    let pin = call.pin(0)?;
    write_totals(call.word(1), process::client()?.statfs_open(pin.file()?)?)
}
