//! Named pipes and sockets of the store: LibFS knows their names and judges rights, the kernel joins their ends.
//!
//! Each that is used has a stand-in in a folder of the kernel's, named by its inode's number, which is never given
//! twice. Opening a pipe, binding a socket and sending to one by name are made there. So what the kernel tells of
//! such a descriptor (`fstat`, `getsockname`) it tells of the stand-in, by which others reach it just as well.
//!
//! Where the store is mounted nothing stands in: the kernel opens, binds and reaches what lies at the mount, and programs
//! that work by the mount are joined, too.

use std::ffi::CString;

use cuesta_format::{FileKind, InodeNumber};
use cuesta_libfs::{Error, NewMode};
use rustix::fs::{Mode, OFlags};

use crate::call::{self, Answer, Call, Failure};
use crate::calls::kinds::aside::Aside;
use crate::calls::kinds::by_mount;
use crate::calls::paths::store_path::{self, CROSSINGS, StorePath};
use crate::calls::paths::{links, prefix};
use crate::descriptors::kernel;
use crate::memory::user_memory;
use crate::users::credentials;
use crate::{process, thread};

/// Where the path stands in `struct sockaddr_un`.
const PATH_AT: usize = 2;
/// The most there is of it.
const ADDRESS_BYTES: usize = size_of::<libc::sockaddr_un>();

/// The address of a socket with a name.
struct Address {
    bytes: [u8; ADDRESS_BYTES],
    length: usize,
}

impl Address {
    fn of(path: &[u8]) -> Result<Self, Failure> {
        let mut bytes = [0; ADDRESS_BYTES];
        bytes[..PATH_AT].copy_from_slice(&(libc::AF_UNIX as u16).to_ne_bytes());
        let room =
            bytes.get_mut(PATH_AT..PATH_AT + path.len()).filter(|_| path.len() < ADDRESS_BYTES - PATH_AT);
        room.ok_or(Failure::Errno(libc::ENAMETOOLONG))?.copy_from_slice(path);
        Ok(Self { bytes, length: PATH_AT + path.len() + 1 })
    }

    fn of_stand_in(call: &Call, inode: InodeNumber) -> Result<Self, Failure> {
        let client = process::client()?;
        if client.is_served() {
            // They are out of reach of other users than the store's.
            call.unserved(libc::EOPNOTSUPP)?;
        }
        Self::of(&client.stand_in(inode))
    }
}

/// Where an address leads.
enum Target<T> {
    Store(T),
    /// Out of the store, to a socket of the kernel's.
    Outside(Vec<u8>),
}

/// Opens a pipe; that may wait for the other end.
pub fn open_pipe(inode: InodeNumber, name: &[u8], flags: i32) -> Answer {
    if by_mount::is_mounted() {
        return by_mount::open(inode, name, flags);
    }
    let path = process::client()?.stand_in(inode);
    let path = CString::new(path).map_err(|_| Failure::Errno(libc::EIO))?;
    match rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => {}
        Err(errno) => return Err(errno.into()),
    }
    let arguments =
        [libc::AT_FDCWD as usize, path.as_ptr() as usize, (flags & !by_mount::DECIDED) as usize, 0, 0, 0];
    call::from_kernel(thread::wait(libc::SYS_openat, arguments, true))
}

/// `bind`: a name in the store for a socket.
pub fn bind(call: &Call) -> Answer {
    let place = named(call.word(1), call.word(2))?;
    if by_mount::is_mounted() {
        let (address, _kept) = by_mount(&place)?;
        return there(call, &address);
    }
    let mode = NewMode { bits: mode_unbound(call)?, umask: crate::users::umask::current() };
    let made = at(place, |place| {
        let (client, credentials) = (process::client()?, credentials::effective());
        let (base, path) = place.located()?;
        if client.is_served() {
            // Before there is a name, which others would see; but it may be one out of the store.
            return match client.stat(&credentials, base, path, false) {
                Err(leaves @ Error::Leaves { .. }) => Ok(Err(leaves)),
                _ => call.unserved(libc::EOPNOTSUPP).map(|_| Err(Error::Unsupported)),
            };
        }
        Ok(client.make_node(&credentials, base, path, mode, 0))
    });
    let (inode, place) = match made {
        Ok(Target::Store(made)) => made,
        Ok(Target::Outside(path)) => return elsewhere(call, &Address::of(&path)?),
        Err(Failure::Errno(libc::EEXIST)) => return Err(Failure::Errno(libc::EADDRINUSE)),
        Err(failure) => return Err(failure),
    };
    let answer = Address::of_stand_in(call, inode).and_then(|address| elsewhere(call, &address));
    if answer != Ok(0) {
        let (base, path) = place.located()?;
        process::client()?.unlink(&credentials::effective(), base, path)?;
    }
    answer
}

/// `connect`, to a name in the store.
pub fn connect(call: &Call) -> Answer {
    let place = named(call.word(1), call.word(2))?;
    if by_mount::is_mounted() {
        let (address, _kept) = by_mount(&place)?;
        return there(call, &address);
    }
    elsewhere(call, &target(call, place)?)
}

/// `sendto`, to a name in the store.
pub fn send_to(call: &Call) -> Answer {
    if call.word(4) == 0 {
        return Err(Failure::NotOurs);
    }
    let (address, _kept) = reached(call, named(call.word(4), call.word(5))?)?;
    let mut arguments = call.arguments;
    (arguments[4], arguments[5]) = (address.bytes.as_ptr() as usize, address.length);
    call::from_kernel(thread::wait(libc::SYS_sendto, arguments, true))
}

/// `sendmsg` whose message goes to a name in the store.
pub fn send_message(call: &Call) -> Answer {
    // struct msghdr: the name and its length come first.
    let mut message: [usize; 7] = user_memory::read(call.word(1)).map_err(|_| Failure::NotOurs)?;
    let (address, _kept) = reached(call, named(message[0], message[1] as u32 as usize)?)?;
    (message[0], message[1]) = (address.bytes.as_ptr() as usize, address.length);
    let arguments = [call.word(0), message.as_ptr() as usize, call.word(2), 0, 0, 0];
    call::from_kernel(thread::wait(libc::SYS_sendmsg, arguments, true))
}

/// Whether the message at `message` goes to a name in the store.
pub fn is_for_store(message: usize) -> bool {
    let name = user_memory::read::<[usize; 2]>(message);
    name.is_ok_and(|[name, length]| named(name, length as u32 as usize).is_ok())
}

/// The place a socket's address names; `NotOurs` if it names none in the store.
fn named(address: usize, length: usize) -> Result<StorePath, Failure> {
    let mut bytes = [0; ADDRESS_BYTES];
    let Some(bytes) = bytes.get_mut(..length).filter(|bytes| bytes.len() > PATH_AT) else {
        return Err(Failure::NotOurs);
    };
    user_memory::read_bytes(address, bytes).map_err(|_| Failure::NotOurs)?;
    let (family, path) = bytes.split_at(PATH_AT);
    let path = path.split(|byte| *byte == 0).next().unwrap_or_default();
    // One that starts with zero is no path.
    if family != (libc::AF_UNIX as u16).to_ne_bytes() || path.is_empty() {
        return Err(Failure::NotOurs);
    }
    match store_path::locate_bytes(libc::AT_FDCWD, path) {
        Err(Failure::NotOurs) => {
            let found = links::into_store(libc::AT_FDCWD, path, true).ok_or(Failure::NotOurs)?;
            store_path::locate_bytes(libc::AT_FDCWD, &found)
        }
        place => place,
    }
}

/// Runs `serve` at a place, following it out of the store and back.
fn at<T>(
    mut place: StorePath,
    mut serve: impl FnMut(&StorePath) -> Result<Result<T, Error>, Failure>,
) -> Result<Target<(T, StorePath)>, Failure> {
    for _ in 0..CROSSINGS {
        match serve(&place)? {
            Ok(value) => return Ok(Target::Store((value, place))),
            Err(Error::Leaves { path, .. }) => {
                let outside = store_path::outside(&path)?;
                if prefix::below(&process::configuration()?.prefix, &outside).is_none() {
                    return Ok(Target::Outside(outside));
                }
                place = store_path::locate_bytes(libc::AT_FDCWD, &outside)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(Failure::Errno(libc::ELOOP))
}

/// Where the kernel finds the socket with a name in the store, and what is to be kept until it has.
fn reached(call: &Call, place: StorePath) -> Result<(Address, Option<Aside>), Failure> {
    if by_mount::is_mounted() { by_mount(&place) } else { Ok((target(call, place)?, None)) }
}

/// The same by the mount: by the whole path, or by the folder's descriptor if that is too long for an address.
fn by_mount(place: &StorePath) -> Result<(Address, Option<Aside>), Failure> {
    let path = by_mount::path_of(place)?;
    if path.len() < ADDRESS_BYTES - PATH_AT {
        return Ok((Address::of(&path)?, None));
    }
    let end = path.iter().rposition(|byte| *byte == b'/').ok_or(Failure::Errno(libc::ENAMETOOLONG))?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = Aside::new(rustix::fs::open(&path[..end], flags, Mode::empty())?)?;
    let path = [format!("/proc/self/fd/{}", folder.number()).as_bytes(), &path[end..]].concat();
    Ok((Address::of(&path)?, Some(folder)))
}

/// Where the stand-in of the socket with a name in the store is.
fn target(call: &Call, place: StorePath) -> Result<Address, Failure> {
    let found = at(place, |place| {
        let (client, credentials) = (process::client()?, credentials::effective());
        let (base, path) = place.located()?;
        let stat = client.stat(&credentials, base, path, true);
        Ok(stat.and_then(|stat| {
            client.access(&credentials, base, path, libc::W_OK as u32, true)?;
            Ok(stat.record)
        }))
    })?;
    match found {
        Target::Outside(path) => Address::of(&path),
        Target::Store((record, _)) if record.kind() == FileKind::Socket => {
            Address::of_stand_in(call, record.inode)
        }
        Target::Store(_) => Err(Failure::Errno(libc::ECONNREFUSED)),
    }
}

/// The kind and mode that a local socket without a name has, and its name will have; others can get none.
fn mode_unbound(call: &Call) -> Result<u32, Failure> {
    let mut bytes = [0u8; ADDRESS_BYTES];
    let mut length = ADDRESS_BYTES as u32;
    let arguments = [call.word(0), bytes.as_mut_ptr() as usize, (&raw mut length) as usize, 0, 0, 0];
    // SAFETY: the kernel writes at most as much as `length` says there is.
    match unsafe { crate::arch::syscall(libc::SYS_getsockname as usize, arguments) } {
        0 if bytes[..PATH_AT] == (libc::AF_UNIX as u16).to_ne_bytes() && length as usize <= PATH_AT => {
            Ok(rustix::fs::fstat(kernel::borrow(call.int(0)))?.st_mode)
        }
        0 => Err(Failure::Errno(libc::EINVAL)),
        errno => Err(Failure::Errno(-errno as i32)),
    }
}

/// Makes a call on a socket with another address.
fn there(call: &Call, address: &Address) -> Answer {
    let arguments = [call.word(0), address.bytes.as_ptr() as usize, address.length, 0, 0, 0];
    call::from_kernel(thread::wait(call.number as i64, arguments, true))
}

/// The same with that of a stand-in.
fn elsewhere(call: &Call, address: &Address) -> Answer {
    match there(call, address) {
        // A name without a socket behind it: the process that bound it is gone.
        Err(Failure::Errno(libc::ENOENT)) => Err(Failure::Errno(libc::ECONNREFUSED)),
        answer => answer,
    }
}
