//! The files behind paths that name descriptors of ours.
//!
//! In the kernel such a path leads to the placeholder, which is the wrong file. A call that follows the path means the file behind the
//! descriptor, as it is now. A call that does not (`lstat`, `unlink`) means the link, which the kernel has.

use crate::call::{Call, Failure};
use crate::calls::names::opened::Opened;
use crate::calls::paths::descriptor_paths::{names_program, passed};
use crate::calls::paths::prefix;
use crate::calls::programs::running;
use crate::descriptors::Pin;
use crate::memory::user_memory::UserPath;
use crate::process;
use crate::store::{Base, Client, OpenFile};
use crate::users::credentials;
use cuesta_format::{FileKind, InodeNumber};
use cuesta_libfs::{Credentials, Error};

/// The kernel puts this behind the name of a file that has none any more.
const DELETED: &[u8] = b" (deleted)";

const READ: u32 = libc::R_OK as u32;

const WRITE: u32 = libc::W_OK as u32;

/// The flags that mean something together with `O_PATH`.
const PATH_FLAGS: i32 = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;

/// The description that the path at argument `path` of `call` names.
pub fn itself(call: &Call, path: usize) -> Result<Pin, Failure> {
    let path = UserPath::read(call.word(path))?;
    match passed(path.as_bytes()) {
        Some((pin, b"")) => Ok(pin),
        _ => Err(Failure::NotOurs),
    }
}

/// The target of the link at argument `path`: where the file was opened.
pub fn target(call: &Call, path: usize) -> Result<Vec<u8>, Failure> {
    if let Some(program) = process::program()
        && names_program(UserPath::read(call.word(path))?.as_bytes())
    {
        let is_gone = process::client().is_ok_and(|client| is_gone(client, running::own_inode(client)));
        return Ok([program, if is_gone { DELETED } else { b"" }].concat());
    }
    let pin = itself(call, path)?;
    // The names of the standard streams are links to links.
    let is_stream = prefix::normal(UserPath::read(call.word(path))?.as_bytes())
        .is_some_and(|path| path.starts_with(b"/dev/std"));
    if is_stream {
        return Err(Failure::NotOurs);
    }
    let mut target = process::configuration()?.prefix.clone();
    target.extend_from_slice(pin.path());
    if process::client()?.stat_open(pin.file()?)?.record.links == 0 {
        target.extend_from_slice(DELETED);
    }
    Ok(target)
}

/// Whether the inode has no name any more.
fn is_gone(client: &Client, inode: Option<InodeNumber>) -> bool {
    let Some(inode) = inode else { return false };
    let file = match client.reopen_number(&credentials::effective(), inode, libc::O_PATH, 0) {
        Ok(file) => file,
        Err(error) => return error != Error::Denied,
    };
    let is_gone = client.stat_open(&file).is_ok_and(|stat| stat.record.links == 0);
    let _ = client.close(file);
    is_gone
}

/// Whether `credentials` have `rights` to the file.
pub fn check(pin: &Pin, credentials: &Credentials, rights: u32) -> Result<(), Failure> {
    let client = process::client()?;
    let file = pin.file()?;
    if file.kind() == FileKind::Directory {
        return Ok(client.access(credentials, Base::Directory(file), b".", rights, true)?);
    }
    Ok(client.access_open(credentials, file, rights)?)
}

/// The file behind a description, for a purpose its flags do not allow; no rights are checked.
pub fn reopen(pin: &Pin, flags: i32) -> Result<OpenFile, Failure> {
    Ok(process::client()?.reopen(&credentials::effective(), pin.file()?, flags)?)
}

/// Opens what is behind a description once more, as by a path to it.
pub fn open(pin: &Pin, flags: i32) -> Result<Opened, Failure> {
    let name = pin.path().to_vec();
    let (client, credentials) = (process::client()?, credentials::effective());
    let file = pin.file()?;
    if file.kind() == FileKind::Directory {
        let file = client.open(&credentials, Base::Directory(file), b".", flags, 0)?;
        return Ok(Opened::File(file, name));
    }
    if flags & libc::O_DIRECTORY != 0 {
        return Err(Failure::Errno(libc::ENOTDIR));
    }
    if flags & libc::O_PATH != 0 {
        return Ok(Opened::File(reopen(pin, flags & PATH_FLAGS)?, name));
    }
    match file.kind() {
        FileKind::File | FileKind::Fifo => {}
        FileKind::Symlink => return Err(Failure::Errno(libc::ELOOP)),
        FileKind::Socket => return Err(Failure::Errno(libc::ENXIO)),
        FileKind::CharacterDevice | FileKind::BlockDevice => return Ok(Opened::Device(file.inode(), name)),
        FileKind::Directory => return Err(Failure::Errno(libc::EISDIR)),
    }
    let truncates = flags & libc::O_TRUNC != 0;
    let rights = match flags & libc::O_ACCMODE {
        libc::O_RDONLY if truncates => READ | WRITE,
        libc::O_RDONLY => READ,
        libc::O_WRONLY => WRITE,
        // The fourth way, which neither reads nor writes, takes both rights as well.
        _ => READ | WRITE,
    };
    check(pin, &credentials, rights)?;
    if flags & libc::O_NOATIME != 0 && !credentials.owns(&client.stat_open(file)?.record) {
        return Err(Failure::Errno(libc::EPERM));
    }
    if file.kind() == FileKind::Fifo {
        return Ok(Opened::Pipe(file.inode(), name));
    }
    if rights & WRITE != 0 {
        client.check_not_running(&client.stat_open(file)?.record)?;
    }
    if truncates {
        set_size(pin, 0)?;
    }
    Ok(Opened::File(reopen(pin, flags)?, name))
}

/// Sets the size of the file behind a description, as by a path to it.
pub fn truncate(pin: &Pin, size: i64) -> Result<(), Failure> {
    match pin.file()?.kind() {
        _ if size < 0 => Err(Failure::Errno(libc::EINVAL)),
        FileKind::File => {
            check(pin, &credentials::effective(), WRITE)?;
            let client = process::client()?;
            client.check_not_running(&client.stat_open(pin.file()?)?.record)?;
            set_size(pin, size)
        }
        FileKind::Directory => Err(Failure::Errno(libc::EISDIR)),
        _ => Err(Failure::Errno(libc::EINVAL)),
    }
}

fn set_size(pin: &Pin, size: i64) -> Result<(), Failure> {
    let client = process::client()?;
    let file = reopen(pin, libc::O_WRONLY)?;
    let answer = client.truncate_open(&file, size);
    client.close(file)?;
    Ok(answer?)
}
