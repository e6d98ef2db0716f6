//! exec: handing over what the next program inherits, and executing programs that lie in the store.
//!
//! The next program finds its table of descriptors in a sealed memory file named by `CUESTA_TABLE`; the
//! environment it gets has the preload and Cuesta's own variables whatever its caller passed.

use std::ffi::{CStr, CString};

use cuesta_format::FileKind;
use cuesta_libfs::Base;
use rustix::fd::{AsRawFd as _, OwnedFd};
use rustix::fs::MemfdFlags;

use super::path;
use super::{Answer, Call, Failure, descriptor_names};
use crate::descriptors::Pin;
use crate::inheritance::{Table, Written};
use crate::user_memory::UserPath;
use crate::{gate, process, thread, user_memory};

/// Most arguments or variables looked at.
const LIST_LIMIT: usize = 1 << 20;
/// Variables every program under Cuesta has.
const KEPT: [&CStr; 4] = [c"LD_PRELOAD", c"CUESTA_SOCKET", c"CUESTA_AT", c"CUESTA_PATCH"];
const TABLE_VARIABLE: &str = "CUESTA_TABLE";

/// What the kernel reads during an exec; kept until it is done with it.
#[derive(Debug, Default)]
pub struct ExecImage {
    strings: Vec<CString>,
    pointers: Vec<usize>,
}

impl ExecImage {
    /// The environment of `variables` (addresses of the application's strings), completed.
    fn new(variables: &[usize], table: Option<i32>) -> Result<Self, Failure> {
        let mut image = Self::default();
        let mut has_preload = false;
        for address in variables {
            if starts_with(*address, TABLE_VARIABLE.as_bytes()) {
                continue;
            }
            let kept = KEPT.iter().position(|name| starts_with(*address, name.to_bytes()));
            match kept {
                // Another library may be preloaded as well, but not instead.
                Some(0) => {
                    image.strings.push(with_preload(*address)?);
                    has_preload = true;
                }
                Some(_) => {}
                None => image.pointers.push(*address),
            }
        }
        let missing = KEPT.iter().skip(usize::from(has_preload));
        image.strings.extend(missing.filter_map(|name| process::variable(name)));
        if let Some(table) = table {
            image.strings.extend(CString::new(format!("{TABLE_VARIABLE}={table}")));
        }
        image.pointers.extend(image.strings.iter().map(|string| string.as_ptr() as usize));
        image.pointers.push(0);
        Ok(image)
    }
}

/// Whether the string at `address` is the variable `name`.
fn starts_with(address: usize, name: &[u8]) -> bool {
    let mut start = [0u8; 16];
    let length = name.len() + 1;
    user_memory::read_bytes(address, &mut start[..length]).is_ok()
        && &start[..name.len()] == name
        && start[name.len()] == b'='
}

fn with_preload(address: usize) -> Result<CString, Failure> {
    let theirs = UserPath::read(address)?;
    let Some(ours) = process::preload_path() else {
        return CString::new(theirs.as_bytes()).map_err(|_| Failure::Errno(libc::EINVAL));
    };
    let mut value = theirs.as_bytes().to_vec();
    let has_ours = value.windows(ours.len()).any(|window| window == ours);
    if !has_ours {
        value.push(b':');
        value.extend_from_slice(ours);
    }
    CString::new(value).map_err(|_| Failure::Errno(libc::EINVAL))
}

fn list(address: usize) -> Result<Vec<usize>, Failure> {
    let mut list = Vec::new();
    if address == 0 {
        return Ok(list);
    }
    while list.len() < LIST_LIMIT {
        match user_memory::read(address.wrapping_add(list.len() * size_of::<usize>()))? {
            0 => return Ok(list),
            item => list.push(item),
        }
    }
    Err(Failure::Errno(libc::E2BIG))
}

/// A new process: a plain fork passes the gate and is made here, on a stack the child has a copy of; any other
/// is made by the site's stub.
pub fn make_process(call: &Call) -> Answer {
    process::before_child();
    if thread::is_vforked() || !is_fork(call)? {
        return Err(Failure::NotOurs);
    }
    let answer = gate::pass(|| call.kernel(call.arguments));
    if answer == 0 {
        process::forked();
    }
    Ok(answer)
}

/// Whether the child gets a copy of this thread's memory and stack.
fn is_fork(call: &Call) -> Result<bool, Failure> {
    let (flags, stack) = match call.number as i64 {
        libc::SYS_fork => (0, 0),
        libc::SYS_clone => (call.word(0) as u64, call.word(1) as u64),
        // struct clone_args: flags, pidfd, child_tid, parent_tid, exit_signal, stack.
        libc::SYS_clone3 => {
            let arguments: [u64; 6] = user_memory::read(call.word(0)).map_err(|_| Failure::NotOurs)?;
            (arguments[0], arguments[5])
        }
        _ => return Ok(false),
    };
    Ok(flags & libc::CLONE_VM as u64 == 0 && stack == 0)
}

pub fn execute(
    call: &Call,
    directory: Option<usize>,
    path: usize,
    arguments: usize,
    variables: usize,
    flags: i32,
) -> Answer {
    process::configuration()?;
    let program = program_in_store(call, directory, path, flags)?;
    if program.is_none() && !exists(call, directory, path, flags) {
        return Err(Failure::NotOurs);
    }
    let table = Table::of_this_process().and_then(|table| table.write());
    let table_fd = table.as_ref().map(Written::descriptor);
    let image = ExecImage::new(&list(call.word(variables))?, table_fd)?;
    let mut out = *call;
    out.arguments[variables] = image.pointers.as_ptr() as usize;
    if thread::is_vforked() {
        // Leaves with the child: nobody comes back here to free it.
        // SAFETY: the reference ends within the statement.
        unsafe { thread::delta() }.get_or_insert_default().exec = Some(image);
    }
    // A vfork child shares this thread's state with its parent, which is not inside.
    if thread::is_vforked() {
        thread::leave();
    }
    let answer = match &program {
        None => out.kernel(out.arguments),
        Some(program) => {
            let empty = c"".as_ptr() as usize;
            let fd = program.as_raw_fd() as usize;
            let arguments =
                [fd, empty, call.word(arguments), out.word(variables), libc::AT_EMPTY_PATH as usize, 0];
            let number = libc::SYS_execveat as usize;
            Call { number, arguments }.kernel(arguments)
        }
    };
    thread::enter();
    Ok(answer)
}

/// Whether the kernel would find a program; shells try one directory after the other.
fn exists(call: &Call, directory: Option<usize>, path: usize, flags: i32) -> bool {
    let directory = directory.map_or(libc::AT_FDCWD as usize, |index| call.word(index));
    let flags = flags & (libc::AT_EMPTY_PATH | libc::AT_SYMLINK_NOFOLLOW);
    let arguments = [directory, call.word(path), libc::F_OK as usize, flags as usize, 0, 0];
    // SAFETY: only asks about a path.
    unsafe { crate::arch::syscall(libc::SYS_faccessat2 as usize, arguments) == 0 }
}

/// A copy of the program, if it lies in the store: the kernel cannot read it there.
fn program_in_store(
    call: &Call,
    directory: Option<usize>,
    path: usize,
    flags: i32,
) -> Result<Option<OwnedFd>, Failure> {
    let place = match path::locate(call, directory, path) {
        Ok(place) => place,
        Err(Failure::NotOurs) if flags & libc::AT_SYMLINK_NOFOLLOW == 0 => {
            return match descriptor_names::itself(call, path) {
                Ok(pin) => copy_open(&pin).map(Some),
                Err(_) => Ok(None),
            };
        }
        Err(Failure::NotOurs) => return Ok(None),
        // An empty path names the descriptor itself.
        Err(Failure::Errno(libc::ENOENT)) if flags & libc::AT_EMPTY_PATH != 0 => {
            return copy_open(&call.pin(0)?).map(Some);
        }
        Err(failure) => return Err(failure),
    };
    let base = match &place.base {
        Some(base) => Base::Directory(base.file()?),
        None => Base::Root,
    };
    let client = process::client()?;
    let credentials = process::credentials();
    client.access(&credentials, base, &place.path, libc::X_OK as u32, true)?;
    let file = client.open(&credentials, base, &place.path, libc::O_RDONLY, 0)?;
    let copy = copy(&file);
    client.close(file)?;
    copy.map(Some)
}

/// A copy of the program that is open, be it for paths only.
fn copy_open(pin: &Pin) -> Result<OwnedFd, Failure> {
    if pin.file()?.kind() != FileKind::File {
        return Err(Failure::Errno(libc::EACCES));
    }
    descriptor_names::check(pin, libc::X_OK as u32)?;
    let file = descriptor_names::reopen(pin, libc::O_RDONLY)?;
    let copy = copy(&file);
    process::client()?.close(file)?;
    copy
}

fn copy(file: &cuesta_libfs::OpenFile) -> Result<OwnedFd, Failure> {
    let client = process::client()?;
    // Not close-on-exec: a script's interpreter opens it by its descriptor.
    let memory = rustix::fs::memfd_create("cuesta-program", MemfdFlags::empty())?;
    let mut buffer = vec![0u8; 1 << 20];
    let mut offset = 0;
    loop {
        let count = client.pread(file, &mut [buffer.as_mut_slice().into()], offset as i64)?;
        if count == 0 {
            return Ok(memory);
        }
        let mut written = 0;
        while written < count {
            written += rustix::io::pwrite(&memory, &buffer[written..count], offset + written as u64)?;
        }
        offset += count as u64;
    }
}
