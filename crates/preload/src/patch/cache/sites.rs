//! The sites of each library build, kept between processes: sweeping libc costs 20 ms, reading its
//! sites back costs microseconds.
//!
//! A cache file is believed only if it lies in a directory and is a file of ours that no other user can
//! write, and if its checksum, its build-id and the bytes at every site agree. Anything else means a
//! sweep. Writing is best-effort, to a new name which then takes the old one's place; after that, an entry that was not used
//! for long goes (`tidying`).

use std::cell::OnceCell;
use std::ffi::{CStr, CString};

use rustix::fs::{
    AtFlags, Mode, OFlags, Stat, Timespec, Timestamps, fstat, futimens, mkdir, mkdirat, open, openat,
    renameat, symlinkat, unlinkat,
};
use rustix::io::Errno;

use crate::patch::Site;
use crate::patch::cache::own_file::Descriptor;
use crate::patch::cache::tidying;

const MAGIC: &[u8; 8] = b"CUSITES1";
const RECORD_BYTES: usize = 12;
const LIMIT_BYTES: usize = 1 << 20;
/// How the names of files with sites begin.
const SITES: &[u8] = b"sites";

/// The name of the file of builds without sites.
const KNOWN: &CStr = c"without-sites";
/// With so many it is begun anew.
const KNOWN_BYTES_MAX: usize = 64 * 1024;

/// A file that is there already needs not be made.
fn exists(errno: Errno) -> Result<(), Errno> {
    if errno == Errno::EXIST { Ok(()) } else { Err(errno) }
}

/// The directory of cache files, opened and found safe.
#[derive(Debug)]
pub struct Cache {
    directory: Descriptor,
    path: CString,
}

/// The cache of a process that starts, opened if it is needed: a program of the store that was started before, of which
/// all is known, does without.
#[derive(Debug)]
pub struct CacheOnDemand<'a> {
    runtime: Option<&'a CStr>,
    opened: OnceCell<Option<Cache>>,
}

impl<'a> CacheOnDemand<'a> {
    /// Of the directory [`Cache::open`] opens.
    pub fn new(runtime: Option<&'a CStr>) -> Self {
        Self { runtime, opened: OnceCell::new() }
    }

    /// The cache, if there can be one.
    pub fn get(&self) -> Option<&Cache> {
        self.opened.get_or_init(|| Cache::open(self.runtime)).as_ref()
    }
}

impl Cache {
    /// Opens `cuesta` in the directory `runtime`, or `/tmp/cuesta-<uid>`, making it if necessary.
    pub fn open(runtime: Option<&CStr>) -> Option<Self> {
        let path = match runtime {
            Some(runtime) => [runtime.to_bytes(), b"/cuesta"].concat(),
            None => [b"/tmp/cuesta-", decimal(user(), &mut [0; DIGITS_MAX])].concat(),
        };
        // SAFETY: the variable is a C string; there is no zero in it, or in the rest.
        let path = unsafe { CString::from_vec_unchecked(path) };
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
        let directory = open(&*path, flags, Mode::empty())
            .or_else(|_| {
                mkdir(&*path, Mode::RWXU)?;
                open(&*path, flags, Mode::empty())
            })
            .ok()?;
        let directory = Descriptor::new(directory);
        private_stat(&directory)?;
        Some(Self { directory, path })
    }

    /// The sites of the build, if a valid file holds them.
    pub fn load(&self, build_id: &[u8]) -> Option<Vec<Site>> {
        let (file, stat) = self.open_file(&file_name(SITES, &[build_id]))?;
        let size = usize::try_from(stat.st_size).ok().filter(|size| *size <= LIMIT_BYTES)?;
        let mut bytes = vec![0u8; size];
        read_exactly(&file, &mut bytes, 0)?;
        decode(&bytes, build_id)
    }

    /// Remembers the sites of the build.
    pub fn store(&self, build_id: &[u8], sites: &[Site]) {
        self.replace(&file_name(SITES, &[build_id]), &encode(build_id, sites), None);
    }

    /// The builds known to have no sites.
    pub fn load_known(&self) -> Vec<[u8; 16]> {
        let Some((file, stat)) = self.open_file(KNOWN) else { return Vec::new() };
        let size = usize::try_from(stat.st_size).unwrap_or(usize::MAX);
        if size > KNOWN_BYTES_MAX {
            let _ = unlinkat(&self.directory, KNOWN, AtFlags::empty());
            return Vec::new();
        }
        let mut known = vec![[0; 16]; size / 16];
        read_exactly(&file, known.as_flattened_mut(), 0).map_or_else(Vec::new, |()| known)
    }

    /// Remembers a build that has none.
    pub fn add_known(&self, key: &[u8; 16]) {
        let flags = OFlags::CREATE | OFlags::APPEND | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        if let Ok(file) = openat(&self.directory, KNOWN, flags, Mode::RUSR | Mode::WUSR) {
            let _ = rustix::io::write(Descriptor::new(file), key);
        }
    }

    /// The path of a folder in which `name` leads to what is behind descriptor `fd`, in whatever process looks.
    pub fn folder_with_link(&self, name: &[u8], fd: i32) -> Option<Vec<u8>> {
        let digits = fd.to_string();
        let folder = [b"needed-", digits.as_bytes(), b"-", name].concat();
        let link = [&folder[..], b"/", name].concat();
        let target = [b"/proc/self/fd/", digits.as_bytes()].concat();
        if symlinkat(&*target, &self.directory, &*link) == Err(Errno::NOENT) {
            mkdirat(&self.directory, &*folder, Mode::RWXU).or_else(exists).ok()?;
            symlinkat(&*target, &self.directory, &*link).or_else(exists).ok()?;
        }
        Some([self.path.to_bytes(), b"/", &folder].concat())
    }

    /// A file of the directory, if no other user can have written it.
    pub fn open_file(&self, name: &CStr) -> Option<(Descriptor, Stat)> {
        let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
        let file = Descriptor::new(openat(&self.directory, name, flags, Mode::empty()).ok()?);
        let stat = private_stat(&file)?;
        Some((file, stat))
    }

    /// Whether there is such a file, which is to be handed on by its path.
    pub fn has_in_use(&self, name: &CStr) -> bool {
        self.open_file(name).is_some_and(|(_, stat)| {
            tidying::note_use(&self.directory, name, &stat);
            true
        })
    }

    /// Where a file of the directory is.
    pub fn path_of(&self, name: &CStr) -> CString {
        let path = [self.path.to_bytes(), b"/", name.to_bytes()].concat();
        // SAFETY: neither a path nor a name has a zero in it.
        unsafe { CString::from_vec_unchecked(path) }
    }

    /// The path of a file with this content, which is made if there is none: one that is there others may be using.
    pub fn provide(&self, kind: &[u8], content: &[u8]) -> Option<CString> {
        let name = file_name(kind, &[&checksum(content).to_le_bytes()]);
        if !self.holds(&name, content) {
            self.replace(&name, content, None);
        }
        self.holds(&name, content).then(|| self.path_of(&name))
    }

    fn holds(&self, name: &CStr, content: &[u8]) -> bool {
        let mut bytes = vec![0; content.len()];
        self.open_file(name).is_some_and(|(file, stat)| {
            tidying::note_use(&self.directory, name, &stat);
            stat.st_size == content.len() as i64
                && read_exactly(&file, &mut bytes, 0).is_some()
                && bytes == content
        })
    }

    /// Gives the file `name` new contents, and the given time of modification, at once.
    pub fn replace(&self, name: &CStr, bytes: &[u8], modified: Option<Timespec>) {
        self.replace_with(name, modified, |_| Some(bytes));
    }

    /// As [`Cache::replace`]; the contents may say which file they are in.
    pub fn replace_with<B: AsRef<[u8]>>(
        &self,
        name: &CStr,
        modified: Option<Timespec>,
        bytes: impl FnOnce(&Stat) -> Option<B>,
    ) {
        let process = std::process::id();
        let temporary = [name.to_bytes(), b".", decimal(process, &mut [0; DIGITS_MAX])].concat();
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let Ok(file) = openat(&self.directory, &*temporary, flags, Mode::RUSR | Mode::WUSR) else { return };
        let file = Descriptor::new(file);
        let stamp = |time| futimens(&file, &Timestamps { last_access: time, last_modification: time });
        let bytes = fstat(&file).ok().and_then(|stat| bytes(&stat));
        let written = bytes.is_some_and(|bytes| write_all(&file, bytes.as_ref()).is_some())
            && modified.is_none_or(|time| stamp(time).is_ok());
        if !written || renameat(&self.directory, &*temporary, &self.directory, name).is_err() {
            let _ = unlinkat(&self.directory, &*temporary, AtFlags::empty());
            return;
        }
        tidying::tidy(&self.directory);
    }
}

fn write_all(file: &Descriptor, mut bytes: &[u8]) -> Option<()> {
    while !bytes.is_empty() {
        let count = rustix::io::write(file, bytes).ok().filter(|count| *count > 0)?;
        bytes = &bytes[count..];
    }
    Some(())
}

/// Fills `bytes` from the file, from `offset` on.
pub fn read_exactly(file: &Descriptor, bytes: &mut [u8], offset: u64) -> Option<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        match rustix::io::pread(file, &mut bytes[filled..], offset + filled as u64) {
            Ok(0) | Err(_) => return None,
            Ok(count) => filled += count,
        }
    }
    Some(())
}

/// The file's attributes, if it is ours and no other user can write it.
fn private_stat(file: &Descriptor) -> Option<Stat> {
    fstat(file).ok().filter(|stat| stat.st_uid == user() && stat.st_mode & 0o022 == 0)
}

/// The name of what belongs to builds.
pub fn file_name(kind: &[u8], build_ids: &[&[u8]]) -> CString {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut name = [kind, b"-", std::env::consts::ARCH.as_bytes()].concat();
    for id in build_ids {
        name.push(b'-');
        for digit in id.iter().flat_map(|byte| [byte >> 4, byte & 15]) {
            name.push(DIGITS[usize::from(digit)]);
        }
    }
    // SAFETY: digits, and the names of a file and of an architecture: there is no zero in them.
    unsafe { CString::from_vec_unchecked(name) }
}

/// The user whose files are believed. The kernel need not be asked: ids cannot have changed yet.
fn user() -> u32 {
    // SAFETY: reads the auxiliary vector.
    unsafe { libc::getauxval(libc::AT_EUID) as u32 }
}

const DIGITS_MAX: usize = 10;

/// A number without the formatting machinery, which costs a start its page faults.
fn decimal(mut number: u32, digits: &mut [u8; DIGITS_MAX]) -> &[u8] {
    let mut start = DIGITS_MAX;
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &digits[start..];
        }
    }
}

fn encode(build_id: &[u8], sites: &[Site]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&(build_id.len() as u32).to_le_bytes());
    bytes.extend_from_slice(build_id);
    for site in sites {
        bytes.extend_from_slice(&site.start.to_le_bytes());
        bytes.extend_from_slice(&site.number.to_le_bytes());
        bytes.extend_from_slice(&[site.length, site.syscall, site.relative[0], site.relative[1], 0, 0]);
    }
    let sum = checksum(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes
}

fn decode(bytes: &[u8], build_id: &[u8]) -> Option<Vec<Site>> {
    let (body, sum) = bytes.split_last_chunk::<4>()?;
    if checksum(body) != u32::from_le_bytes(*sum) {
        return None;
    }
    let rest = body.strip_prefix(MAGIC)?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let records =
        rest.strip_prefix(build_id).filter(|_| u32::from_le_bytes(*length) as usize == build_id.len())?;
    if records.len() % RECORD_BYTES != 0 {
        return None;
    }
    let sites = records.chunks_exact(RECORD_BYTES).map(|record| Site {
        start: u32::from_le_bytes([record[0], record[1], record[2], record[3]]),
        number: u16::from_le_bytes([record[4], record[5]]),
        length: record[6],
        syscall: record[7],
        relative: [record[8], record[9]],
    });
    Some(sites.collect())
}

/// Guards against accidents, and is done in a microsecond; the directory guards against others.
fn checksum(bytes: &[u8]) -> u32 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut sum = bytes.len() as u64;
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        sum = (sum ^ u64::from_le_bytes(word)).wrapping_mul(FACTOR).rotate_left(29);
    }
    (sum ^ sum >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::{Site, decode, encode};

    const SITE: Site = Site { start: 0x1234, length: 7, syscall: 5, number: 257, relative: [0, 3] };

    #[test]
    fn stored_sites_come_back() {
        assert_eq!(decode(&encode(b"id", &[SITE, SITE]), b"id"), Some(vec![SITE, SITE]));
    }

    #[test]
    fn another_build_or_a_flipped_bit_is_refused() {
        let good = encode(b"id", &[SITE]);
        assert_eq!(decode(&good, b"ie"), None);
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&bad, b"id"), None, "bit {bit}");
        }
    }
}
