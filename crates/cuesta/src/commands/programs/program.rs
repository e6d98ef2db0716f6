//! Will this program's system calls be seen? Static and set-id programs ignore LD_PRELOAD.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Scripts may name an interpreter that is a script itself; the kernel follows this many.
const INTERPRETERS_MAX: usize = 5;

/// Why a program cannot be run on a store.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// There is no such command.
    #[error("no such program (neither a file nor in PATH)")]
    NotFound,
    /// It is a directory; a store perhaps.
    #[error("this is a directory, not a program")]
    Directory,
    /// It may not be executed.
    #[error("permission denied")]
    NotExecutable,
    /// It cannot be looked at.
    #[error("{0}")]
    Unreadable(io::Error),
    /// It has no dynamic linker that would load us.
    #[error("{program} is statically linked, so its file accesses cannot be served")]
    Static {
        /// The program, or the interpreter of the script.
        program: String,
    },
    /// It changes its user, so the dynamic linker loads nothing for us.
    #[error("{program} is a set-id program, so its file accesses cannot be served")]
    SetId {
        /// The program, or the interpreter of the script.
        program: String,
    },
}

/// The file that `execvp` would execute for `name`.
pub fn find(name: &OsStr, search_path: &OsStr) -> Result<PathBuf, ProgramError> {
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return match path.metadata() {
            Ok(found) if found.is_dir() => Err(ProgramError::Directory),
            Ok(found) if !is_executable(&found) => Err(ProgramError::NotExecutable),
            Ok(_) => Ok(path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(ProgramError::NotFound),
            Err(error) => Err(ProgramError::Unreadable(error)),
        };
    }
    let candidates = std::env::split_paths(search_path).map(|folder| folder.join(name));
    let mut refused = if Path::new(name).is_dir() { ProgramError::Directory } else { ProgramError::NotFound };
    for candidate in candidates {
        match candidate.metadata() {
            Ok(found) if is_executable(&found) => return Ok(candidate),
            Ok(found) if found.is_file() => refused = ProgramError::NotExecutable,
            _ => {}
        }
    }
    Err(refused)
}

fn is_executable(file: &std::fs::Metadata) -> bool {
    file.is_file() && file.mode() & 0o111 != 0
}

/// Checks that `program`, or the interpreter of the script it is, can be served.
pub fn check(program: &Path) -> Result<(), ProgramError> {
    let mut program = program.to_path_buf();
    for _ in 0..INTERPRETERS_MAX {
        let name = || program.display().to_string();
        let mut file = match File::open(&program) {
            Ok(file) => file,
            // It may be executable without being readable; then it is run as it is.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(ProgramError::NotFound),
            Err(error) => return Err(ProgramError::Unreadable(error)),
        };
        let metadata = file.metadata().map_err(ProgramError::Unreadable)?;
        let mut head = Vec::new();
        file.by_ref().take(256).read_to_end(&mut head).map_err(ProgramError::Unreadable)?;
        if let Some(line) = head.strip_prefix(b"#!") {
            let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default().trim_ascii();
            let interpreter = line.split(u8::is_ascii_whitespace).next().unwrap_or_default();
            program = PathBuf::from(OsStr::from_bytes(interpreter));
            continue;
        }
        if becomes_another(&metadata) {
            return Err(ProgramError::SetId { program: name() });
        }
        return match is_static(&head, &file) {
            Some(true) => Err(ProgramError::Static { program: name() }),
            _ => Ok(()),
        };
    }
    Ok(())
}

/// Whether a program runs with other rights than those of its starter, and so does not see `LD_PRELOAD`: to root a
/// program of root's that is set-id (`sudo`) is like any other.
fn becomes_another(program: &std::fs::Metadata) -> bool {
    let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    program.mode() & 0o4000 != 0 && program.uid() != user
        || program.mode() & 0o2000 != 0 && program.gid() != group
}

/// Whether an ELF file names no dynamic linker; `None` if it is no 64-bit ELF file.
fn is_static(head: &[u8], file: &File) -> Option<bool> {
    const PROGRAM_INTERPRETER: u32 = 3;
    const SEGMENT_HEADER_BYTES: usize = 56;
    if !head.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let word = |at: usize| head.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
    let half = |at: usize| head.get(at..at + 2)?.try_into().ok().map(u16::from_le_bytes);
    let (start, size, count) = (word(32)?, usize::from(half(54)?), usize::from(half(56)?));
    if size < SEGMENT_HEADER_BYTES {
        return None;
    }
    let mut headers = vec![0; size * count];
    file.read_exact_at(&mut headers, start).ok()?;
    let linked =
        headers.chunks_exact(size).any(|header| header.starts_with(&PROGRAM_INTERPRETER.to_le_bytes()));
    Some(!linked)
}

/// Whether a program needs AddressSanitizer's runtime, which must be told that the door comes before it; the door tells it where it
/// executes the program.
pub fn needs_sanitizer(program: &Path) -> bool {
    needed_names(program).is_some_and(|names| {
        let starts = |start: &&[u8]| names.windows(start.len()).any(|window| window == *start);
        [&b"\0libasan.so"[..], b"\0libclang_rt.asan"].iter().any(starts)
    })
}

/// The strings of a program's dynamic section.
fn needed_names(program: &Path) -> Option<Vec<u8>> {
    const LOAD: u32 = 1;
    const DYNAMIC: u32 = 2;
    const STRINGS: u64 = 5;
    const STRING_BYTES: u64 = 10;
    const STRING_BYTES_MAX: u64 = 64 << 20;
    let file = File::open(program).ok()?;
    let mut head = [0; 64];
    file.read_exact_at(&mut head, 0).ok()?;
    if !head.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let word = |bytes: &[u8], at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let half = |at: usize| Some(usize::from(u16::from_le_bytes(head.get(at..at + 2)?.try_into().ok()?)));
    let mut headers = vec![0; half(54)? * half(56)?];
    file.read_exact_at(&mut headers, word(&head, 32)?).ok()?;
    let of_kind =
        |kind: u32| headers.chunks_exact(56).filter(move |header| header.starts_with(&kind.to_le_bytes()));
    let dynamic = of_kind(DYNAMIC).next()?;
    let mut entries = vec![0; usize::try_from(word(dynamic, 32)?.min(1 << 16)).ok()?];
    file.read_exact_at(&mut entries, word(dynamic, 8)?).ok()?;
    let value = |tag: u64| {
        entries.chunks_exact(16).find(|entry| word(entry, 0) == Some(tag)).and_then(|entry| word(entry, 8))
    };
    let (address, bytes) = (value(STRINGS)?, value(STRING_BYTES)?.min(STRING_BYTES_MAX));
    let offset = of_kind(LOAD).find_map(|header| {
        let (offset, start, bytes) = (word(header, 8)?, word(header, 16)?, word(header, 32)?);
        address.checked_sub(start).filter(|within| *within < bytes).map(|within| offset + within)
    })?;
    let mut names = vec![0; usize::try_from(bytes).ok()?];
    file.read_exact_at(&mut names, offset).ok()?;
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn programs_are_found_as_the_shell_finds_them() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tool");
        std::fs::write(&file, "#!/bin/sh\n").unwrap();
        let search = folder.path().as_os_str();
        let name = OsStr::new("tool");
        assert!(matches!(find(name, search), Err(ProgramError::NotExecutable)));
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find(name, search).unwrap(), file);
        assert_eq!(find(file.as_os_str(), OsStr::new("")).unwrap(), file);
        assert!(matches!(find(OsStr::new("nothing"), search), Err(ProgramError::NotFound)));
        assert!(check(&file).is_ok());
    }

    #[test]
    fn what_cannot_be_served_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str, bytes: &[u8], mode| {
            let file = folder.path().join(name);
            std::fs::write(&file, bytes).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            file
        };
        let mut elf = vec![0; 120];
        elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
        elf[32] = 64;
        elf[54] = 56;
        elf[56] = 1;
        elf[64] = 1;
        let lonely = place("static", &elf, 0o755);
        assert!(matches!(check(&lonely), Err(ProgramError::Static { .. })));
        elf[64] = 3;
        assert!(check(&place("dynamic", &elf, 0o755)).is_ok());
        let set_id = place("set-id", &elf, 0o4755);
        assert!(check(&set_id).is_ok(), "its owner stays who it is");
        if rustix::process::getuid().is_root() {
            std::os::unix::fs::chown(&set_id, Some(1), None).unwrap();
            std::fs::set_permissions(&set_id, std::fs::Permissions::from_mode(0o4755)).unwrap();
            assert!(matches!(check(&set_id), Err(ProgramError::SetId { .. })));
        }
        let script = format!("#! {} -x\n", lonely.display());
        assert!(matches!(
            check(&place("script", script.as_bytes(), 0o755)),
            Err(ProgramError::Static { .. })
        ));
        assert!(check(Path::new("/bin/sh")).is_ok());
    }
}
