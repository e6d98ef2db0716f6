//! The kernel's list of mounts, as far as stores are in it.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// The kernel's name for such mounts.
pub const KIND: &str = "fuse.cuesta";
/// Where the kernel lists them.
const MOUNTS: &str = "/proc/self/mountinfo";
/// A mount at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    /// The kernel's number for the mount; that of one that is gone may be another's.
    pub number: u64,
    /// Where.
    pub at: PathBuf,
    /// Its source as the kernel shows it: the maker of the mount may have said anything.
    pub source: String,
    /// The user that made it.
    pub user: u32,
}

/// The mounts of stores that this process can see, the innermost of each place last.
pub fn mounts() -> io::Result<Vec<Mounted>> {
    let mut found = Vec::new();
    for line in BufReader::new(File::open(MOUNTS)?).split(b'\n') {
        found.extend(mounted(&line?));
    }
    Ok(found)
}

/// A line of the kernel's list: six fields and more, a dash, the kind, the source and what the file system says of
/// itself. Where only a part of the tree is bound there is no store.
fn mounted(line: &[u8]) -> Option<Mounted> {
    let mut fields = line.split(|&byte| byte == b' ');
    let number = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let (root, at) = (fields.nth(2)?, fields.next()?);
    if root != b"/" {
        return None;
    }
    let mut behind = fields.skip_while(|&field| field != b"-").skip(1);
    if behind.next()? != KIND.as_bytes() {
        return None;
    }
    let source = String::from_utf8_lossy(&unescaped(behind.next()?)).into_owned();
    let own = std::str::from_utf8(behind.next()?).ok()?;
    let user = own.split(',').find_map(|word| word.strip_prefix("user_id=")?.parse().ok())?;
    Some(Mounted { number, at: PathBuf::from(std::ffi::OsString::from_vec(unescaped(at))), source, user })
}

/// Spaces and the like stand there in octal.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, behind)) = rest.split_first() {
        let octal = behind.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()).filter(|_| byte == b'\\') {
            Some(escaped) => {
                out.push(escaped);
                rest = &behind[3..];
            }
            None => {
                out.push(byte);
                rest = behind;
            }
        }
    }
    out
}

/// The lines of the kernel's list about mounts of stores at a place.
pub(crate) fn mount_lines(at: &Path) -> io::Result<Vec<Vec<u8>>> {
    let mut found = Vec::new();
    for line in BufReader::new(File::open(MOUNTS)?).split(b'\n') {
        let line = line?;
        if mounted(&line).is_some_and(|mounted| mounted.at == at) {
            found.push(line);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt as _;

    #[test]
    fn lines_of_the_kernel_s_list_are_read() {
        let line =
            br"97 66 0:51 / /mnt/a\040b rw,nosuid shared:5 - fuse.cuesta /srv/my\040store rw,user_id=7";
        let found = mounted(line).unwrap();
        assert_eq!(
            (found.at.as_os_str().as_bytes(), found.source.as_str()),
            (b"/mnt/a b".as_slice(), "/srv/my store")
        );
        assert_eq!((found.number, found.user), (97, 7));
        assert_eq!(mounted(br"x 66 0:51 / /mnt rw - fuse.cuesta /store rw,user_id=0"), None);
        assert_eq!(mounted(br"97 66 0:51 / /mnt rw - fuse.sshfs somewhere rw,user_id=0"), None);
        assert_eq!(mounted(br"97 66 0:51 /part /mnt rw - fuse.cuesta /store rw,user_id=0"), None);
        assert_eq!(mounted(b""), None);
        assert_eq!(unescaped(br"a\b\0"), br"a\b\0");
    }
}
