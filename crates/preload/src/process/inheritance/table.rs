//! The table that a program leaves to the one it executes: its open files of the store, its working directory
//! there, its Landlock rules, and the memory that holds shared offsets. Text, one line each, in a variable of the environment or,
//! if it is long, in a memory file whose descriptor the variable names; the next program trusts it no further
//! than its own user's environment, and skips lines it cannot read.

use crate::descriptors::description::{Description, Inherited, Shared};
use crate::descriptors::kernel::{self, borrow};
use crate::descriptors::{self, cells, record_locks, references, working_directory};
use crate::process;
use crate::process::inheritance::written::{Library, Written};
use crate::starting::environment;
use crate::starting::handed_over::HandedOver;
use crate::store::Token;
use crate::users::{confinement, socket_folder};
use rustix::fs::MemfdFlags;
use std::ffi::{CStr, CString};
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};

const HEX_DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Set in the environment of a program that inherits, and in no other.
const VARIABLE: &str = "CUESTA_TABLE";

/// The last word of the line about a program without sites.
const WITHOUT_SITES: &str = "plain";

/// Longer text goes into a memory file: arguments and environment share a limit.
const VARIABLE_BYTES_MAX: usize = 4096;

impl Library {
    fn word(&self) -> String {
        let HandedOver { folder, path, inode } = &self.original;
        format!("{}:{inode}:{}:{}", self.copy.as_raw_fd(), hex(folder), hex(path))
    }

    fn of_word(word: &str) -> Option<Self> {
        let mut parts = word.split(':');
        let fd = parts.next()?.parse().ok()?;
        // SAFETY: the program before exec left this descriptor for us alone.
        let copy = unsafe { OwnedFd::from_raw_fd(fd) };
        let inode = parts.next()?.parse().ok()?;
        let (folder, path) = (unhex(parts.next()?)?, unhex(parts.next()?)?);
        Some(Self { copy, original: HandedOver { folder, path, inode } })
    }
}

/// The name and path that a program takes that was executed from a copy, or by its interpreter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The name the kernel would show, before it is cut off.
    pub command: Vec<u8>,
    /// Where the program lies, if the kernel cannot know.
    pub program: Option<Vec<u8>>,
    /// Whether its file is known to make no system calls itself: there is nothing to patch in it.
    pub is_without_sites: bool,
}

/// The inheritance, before it is written.
#[derive(Debug, Default)]
pub struct Table {
    identity: Option<Identity>,
    /// Descriptions with the descriptors that refer to them.
    open: Vec<(Vec<i32>, Inherited)>,
    directory: Option<(Vec<u8>, Inherited)>,
    libraries: Vec<Library>,
    /// The folder of the socket for other users' programs.
    users_folder: Option<i32>,
    /// Its Landlock rules, as one word.
    confinement: Option<String>,
}

impl Table {
    /// What this process (or the vfork child it is) would hand over; `None` if nothing.
    pub fn of_this_process(identity: Option<Identity>, libraries: Vec<Library>) -> Option<Self> {
        references::keep_for_exec(survives_exec);
        let groups = descriptors::grouped(survives_exec);
        let mut open: Vec<_> = groups.iter().map(|(pin, fds)| (fds.clone(), pin.to_inherit())).collect();
        if socket_folder::is_another_user() {
            // Memory that the store's user shares is not for another user's programs: files with an offset there stay behind.
            open.retain(|(_, inherited)| matches!(inherited.shared, None | Some(Shared::Served(_))));
        }
        let directory = working_directory::pin()
            .zip(working_directory::name())
            .map(|(pin, name)| (name, pin.without_offset()));
        let users_folder = socket_folder::get();
        let confinement = confinement::word();
        let has_something = !open.is_empty()
            || directory.is_some()
            || identity.is_some()
            || !libraries.is_empty()
            || users_folder.is_some()
            || confinement.is_some();
        has_something.then_some(Self { identity, open, directory, libraries, users_folder, confinement })
    }

    /// The table as the next program reads it.
    pub fn write(self) -> Option<Written> {
        let mut text = Vec::new();
        let shares_offsets =
            self.open.iter().any(|(_, inherited)| matches!(inherited.shared, Some(Shared::Cell(_))));
        let cells = match cells::file() {
            Some(cells) if shares_offsets => Some(inheritable(borrow(cells))?),
            _ => None,
        };
        if let Some(cells) = &cells {
            writeln!(text, "cells {}", cells.as_raw_fd()).ok()?;
        }
        if let Some(confinement) = &self.confinement {
            writeln!(text, "confined {confinement}").ok()?;
        }
        let mut kept = Vec::new();
        if let Some(users_folder) = self.users_folder {
            let users_folder = inheritable(borrow(users_folder))?;
            writeln!(text, "way {}", users_folder.as_raw_fd()).ok()?;
            kept.push(users_folder);
        }
        if let Some(Identity { command, program, is_without_sites }) = &self.identity {
            let program = program.as_ref().map(|program| hex(program)).unwrap_or_default();
            let sites = if *is_without_sites { WITHOUT_SITES } else { "" };
            writeln!(text, "identity {} {program} {sites}", hex(command)).ok()?;
        }
        for (fds, inherited) in &self.open {
            let mut inherited = inherited.clone();
            let kind = match &mut inherited.shared {
                Some(Shared::Served(token)) => {
                    let survivor = inheritable(borrow(*token))?;
                    *token = survivor.as_raw_fd();
                    kept.push(survivor);
                    if record_locks::may_be_held(inherited.inode) { "open" } else { "unlocked" }
                }
                _ => "open",
            };
            let fds: Vec<String> = fds.iter().map(i32::to_string).collect();
            writeln!(text, "{kind} {} {}", fds.join(","), line(&inherited)).ok()?;
        }
        if let Some((name, inherited)) = &self.directory {
            let mut inherited = inherited.clone();
            if let Some(Shared::Served(token)) = inherited.shared {
                let token = inheritable(borrow(token))?;
                inherited.shared = Some(Shared::Served(token.as_raw_fd()));
                kept.push(token);
            }
            writeln!(text, "directory {} {}", hex(name), line(&inherited)).ok()?;
        }
        if !self.libraries.is_empty() {
            let libraries: Vec<String> = self.libraries.iter().map(Library::word).collect();
            writeln!(text, "libraries {}", libraries.join(",")).ok()?;
        }
        let libraries = self.libraries;
        if text.len() <= VARIABLE_BYTES_MAX {
            let text = [VARIABLE.as_bytes(), b"=", &text].concat();
            return Some(Written { variable: CString::new(text).ok()?, file: None, cells, libraries, kept });
        }
        let file = inheritable(rustix::fs::memfd_create("cuesta-table", MemfdFlags::CLOEXEC).ok()?.as_fd())?;
        let mut written = 0;
        while written < text.len() {
            written += rustix::io::pwrite(&file, &text[written..], written as u64).ok()?;
        }
        let variable = CString::new(format!("{VARIABLE}={}", file.as_raw_fd())).ok()?;
        Some(Written { variable, file: Some(file), cells, libraries, kept })
    }

    /// Takes over what the program before exec left. Call once, before there are threads.
    pub fn adopt(variable: &CStr) -> Adopted {
        let Ok(value) = variable.to_str() else { return Adopted::default() };
        let Ok(fd) = value.parse::<i32>() else { return adopt_lines(value) };
        // SAFETY: the program before exec left this descriptor for us alone.
        let mut file = std::fs::File::from(unsafe { OwnedFd::from_raw_fd(fd) });
        let mut text = String::new();
        match file.read_to_string(&mut text) {
            Ok(_) => adopt_lines(&text),
            Err(_) => Adopted::default(),
        }
    }
}

/// The part of the inheritance that the rest of the start needs.
#[derive(Debug, Default)]
pub struct Adopted {
    /// The libraries the loader was handed.
    pub libraries: Vec<HandedOver>,
    /// As [`Identity::is_without_sites`].
    pub is_without_sites: bool,
}

/// A copy of the descriptor, out of the way, that survives an exec.
fn inheritable(file: rustix::fd::BorrowedFd<'_>) -> Option<OwnedFd> {
    let copy = kernel::set_aside(file).ok()?;
    rustix::io::fcntl_setfd(&copy, rustix::io::FdFlags::empty()).ok()?;
    Some(copy)
}

fn adopt_lines(text: &str) -> Adopted {
    let mut adopted = Adopted::default();
    for line in text.lines() {
        let _ = adopt_line(line, &mut adopted);
    }
    adopted
}

fn adopt_line(line: &str, adopted: &mut Adopted) -> Option<()> {
    let mut words = line.split(' ');
    match words.next()? {
        "cells" => {
            let fd: i32 = words.next()?.parse().ok()?;
            // SAFETY: the program before exec left this descriptor for us alone.
            cells::adopt(unsafe { OwnedFd::from_raw_fd(fd) })
        }
        "libraries" => {
            let handed_over: Vec<_> =
                words.next()?.split(',').map(Library::of_word).collect::<Option<_>>()?;
            // SAFETY: this is the constructor's doing.
            unsafe { environment::forget_folders(handed_over.len()) };
            // The loader has mapped the copies.
            adopted.libraries.extend(handed_over.into_iter().map(|library| library.original));
            Some(())
        }
        "confined" => {
            confinement::inherit(words.next()?);
            Some(())
        }
        "way" => {
            socket_folder::adopt(take(words.next()?.parse().ok()?)?);
            Some(())
        }
        "identity" => {
            let command = unhex(words.next()?)?;
            process::take_identity(&command, words.next().and_then(unhex));
            adopted.is_without_sites = words.next() == Some(WITHOUT_SITES);
            Some(())
        }
        kind @ ("open" | "unlocked") => {
            let fds = words.next()?.split(',').map(str::parse).collect::<Result<Vec<i32>, _>>().ok()?;
            let mut inherited = parse(&mut words)?;
            if let Some(Shared::Served(fd)) = inherited.shared {
                inherited.shared = Some(Shared::Served(take(fd)?.into_number()));
            }
            let pin = descriptors::describe(Description::inherited(&inherited));
            if kind == "open" {
                record_locks::inherit(&pin);
            }
            for fd in fds {
                descriptors::install(fd, pin.clone());
            }
            Some(())
        }
        "directory" => {
            let name = unhex(words.next()?)?;
            let mut inherited = parse(&mut words)?;
            if let Some(Shared::Served(fd)) = inherited.shared {
                inherited.shared = Some(Shared::Served(take(fd)?.into_number()));
            }
            working_directory::inherit(descriptors::describe(Description::inherited(&inherited)), name);
            Some(())
        }
        _ => None,
    }
}

/// A descriptor that the program before exec left for us alone, which no further program is to have.
fn take(fd: i32) -> Option<Token> {
    // SAFETY: as the caller says.
    let file = unsafe { OwnedFd::from_raw_fd(fd) };
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::CLOEXEC).ok()?;
    Some(Token::new(file))
}

/// The lowest descriptor of ours that the next program would inherit.
pub fn inherited_descriptor() -> Option<i32> {
    descriptors::all().into_iter().map(|(fd, _)| fd).find(|fd| survives_exec(*fd))
}

/// Whether the next program has a descriptor.
pub fn survives_exec(fd: i32) -> bool {
    rustix::io::fcntl_getfd(borrow(fd)).is_ok_and(|flags| !flags.contains(rustix::io::FdFlags::CLOEXEC))
}

/// A description as text.
pub fn line(inherited: &Inherited) -> String {
    let shared = match inherited.shared {
        None => "own".to_owned(),
        Some(Shared::Cell(place)) => format!("cell:{place}"),
        Some(Shared::Passed(number)) => format!("passed:{number}"),
        Some(Shared::Served(token)) => format!("served:{token}"),
    };
    let Inherited { inode, flags, offset, path, .. } = inherited;
    format!("{inode} {flags} {offset} {shared} {}", hex(path))
}

/// Reads the words of such a text.
pub fn parse<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<Inherited> {
    Some(Inherited {
        inode: words.next()?.parse().ok()?,
        flags: words.next()?.parse().ok()?,
        offset: words.next()?.parse().ok()?,
        shared: match words.next()?.split_once(':') {
            Some(("cell", place)) => Some(Shared::Cell(place.parse().ok()?)),
            Some(("passed", number)) => Some(Shared::Passed(number.parse().ok()?)),
            Some(("served", token)) => Some(Shared::Served(token.parse().ok()?)),
            _ => None,
        },
        path: unhex(words.next()?)?,
    })
}

/// Bytes as hexadecimal digits behind a dot, so that no bytes are still a word.
fn hex(bytes: &[u8]) -> String {
    let mut word = String::with_capacity(1 + 2 * bytes.len());
    word.push('.');
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            word.push(char::from(HEX_DIGITS[usize::from(digit)]));
        }
    }
    word
}

/// Written out: every program that starts comes by here.
fn unhex(word: &str) -> Option<Vec<u8>> {
    let digits = word.as_bytes().strip_prefix(b".")?;
    if digits.len() % 2 != 0 {
        return None;
    }
    let mut bytes = Vec::with_capacity(digits.len() / 2);
    for pair in digits.chunks_exact(2) {
        bytes.push(value_of(pair[0])? << 4 | value_of(pair[1])?);
    }
    Some(bytes)
}

fn value_of(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Inherited, Shared, line, parse};

    #[test]
    fn a_description_survives_the_line_it_is_written_as() {
        let all = [None, Some(Shared::Cell(7)), Some(Shared::Passed(1 << 40))].map(|shared| Inherited {
            inode: 9,
            flags: 0o2001,
            offset: 1 << 40,
            shared,
            path: b"/a b\n".to_vec(),
        });
        for inherited in all {
            let text = line(&inherited);
            let back = parse(&mut text.split(' ')).expect("readable");
            assert_eq!(line(&back), text);
            assert_eq!((back.path, back.shared), (inherited.path, inherited.shared));
        }
    }
}
