//! Taking entries of the cache away that are not used any more.
//!
//! Mechanism: the process that makes an entry looks at all there are, and at when each was used last; that is a walk through one
//! folder, beside work that takes far longer. Nothing is looked at while a program starts and finds what it needs.
//!
//! Policy: builds of this library and of the system's come and go, and which of them will be started again cannot be
//! known. So an entry goes when it has not been used for a week; and the ones not used for longest go while all together are
//! too large. A process that needs a missing entry makes it anew. A file that is open or mapped stays what it is when its name goes; but
//! some are handed on by their path, to a loader that opens it a moment later. The process that hands one on has noted its use within
//! [`NOTED_S`] ([`note_use`]), and nothing goes that was used within [`KEPT_S`].

use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;

use rustix::fd::AsFd;
use rustix::fs::{
    AtFlags, Mode, OFlags, RawDir, Stat, Timespec, Timestamps, UTIME_OMIT, openat, statat, unlinkat,
    utimensat,
};
use rustix::time::{ClockId, clock_gettime};

use crate::patch::cache::own_file::Descriptor;

/// How old the note of an entry's use may be while it is handed on by its path.
pub const NOTED_S: i64 = 60 * 60;
/// An entry that was used within this time stays.
const KEPT_S: i64 = 3 * NOTED_S;
/// An entry that was not used for so long goes.
const UNUSED_S_MAX: i64 = 7 * 24 * 60 * 60;
/// All entries together, as far as time allows.
const BYTES_MAX: u64 = 64 << 20;
const FOLDER_BUFFER_BYTES: usize = 8192;

struct Entry {
    name: CString,
    used: i64,
    bytes: u64,
}

/// Seconds, as files are stamped with them.
pub fn now() -> i64 {
    clock_gettime(ClockId::Realtime).tv_sec
}

/// Notes that the entry is used, unless that was done a moment ago: the kernel itself notes it once a day, or not at all.
pub fn note_use(folder: impl AsFd, name: &CStr, stat: &Stat) {
    if now() - used(stat) < NOTED_S / 2 {
        return;
    }
    let at = |seconds, nanoseconds| Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let times = Timestamps { last_access: at(now(), 0), last_modification: at(0, UTIME_OMIT) };
    let _ = utimensat(folder, name, &times, AtFlags::SYMLINK_NOFOLLOW);
}

/// When it was made, or used last: whichever is known to be later.
fn used(stat: &Stat) -> i64 {
    stat.st_atime.max(stat.st_mtime)
}

/// Takes away what is not worth its room. Best-effort, as all of the cache is.
pub fn tidy(folder: impl AsFd) {
    let now = now();
    let Some(mut entries) = entries(&folder) else { return };
    entries.sort_unstable_by_key(|entry| entry.used);
    let mut bytes: u64 = entries.iter().map(|entry| entry.bytes).sum();
    for entry in &entries {
        let unused = now - entry.used;
        if unused < KEPT_S || unused < UNUSED_S_MAX && bytes <= BYTES_MAX {
            break;
        }
        let _ = unlinkat(&folder, &entry.name, AtFlags::empty());
        bytes -= entry.bytes;
    }
}

/// The files of the folder.
fn entries(folder: impl AsFd) -> Option<Vec<Entry>> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let folder = Descriptor::new(openat(folder, c".", flags, Mode::empty()).ok()?);
    let mut buffer = vec![MaybeUninit::uninit(); FOLDER_BUFFER_BYTES];
    let mut names = RawDir::new(&folder, &mut buffer);
    let mut entries = Vec::new();
    while let Some(name) = names.next() {
        let name = name.ok()?.file_name().to_owned();
        let Ok(stat) = statat(&folder, &name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        if stat.st_mode & libc::S_IFMT == libc::S_IFREG {
            let bytes = (stat.st_blocks as u64).saturating_mul(512);
            entries.push(Entry { name, used: used(&stat), bytes });
        }
    }
    Some(entries)
}

#[cfg(test)]
mod tests {
    use std::fs::{File, FileTimes};
    use std::path::Path;
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::patch::Cache;

    const HOUR_S: i64 = 60 * 60;
    const DAY_S: i64 = 24 * HOUR_S;

    fn place(folder: &Path, name: &str, bytes: usize, used_s_ago: i64) {
        let file = File::create(folder.join(name)).expect("made");
        std::io::Write::write_all(&mut &file, &vec![1; bytes]).expect("written");
        let time = SystemTime::now() - Duration::from_secs(used_s_ago as u64);
        file.set_times(FileTimes::new().set_accessed(time).set_modified(time)).expect("stamped");
    }

    fn names(folder: &Path) -> Vec<String> {
        let name = |entry: std::io::Result<std::fs::DirEntry>| entry.expect("an entry").file_name();
        let mut names: Vec<String> = std::fs::read_dir(folder)
            .expect("a folder")
            .map(|entry| name(entry).into_string().expect("a plain name"))
            .collect();
        names.sort();
        names
    }

    fn cache_in(folder: &tempfile::TempDir) -> (Cache, std::path::PathBuf) {
        let runtime = CString::new(folder.path().to_str().expect("a plain path")).expect("no zero");
        (Cache::open(Some(&runtime)).expect("a cache"), folder.path().join("cuesta"))
    }

    #[test]
    fn an_entry_unused_for_a_week_goes_when_a_new_one_comes() {
        let folder = tempfile::tempdir().expect("folder");
        let (cache, path) = cache_in(&folder);
        place(&path, "libc.so.6-of-an-old-build", 4096, 8 * DAY_S);
        place(&path, "sites-of-an-old-library", 100, 400 * DAY_S);
        place(&path, "libc.so.6-of-this-build", 4096, 6 * DAY_S);
        std::fs::create_dir(path.join("needed-1000-libx.so")).expect("a folder");
        assert!(cache.open_file(c"libc.so.6-of-this-build").is_some());
        assert_eq!(names(&path).len(), 4, "nothing goes when nothing comes");
        cache.replace(c"new", b"new", None);
        assert_eq!(names(&path), ["libc.so.6-of-this-build", "needed-1000-libx.so", "new"]);
    }

    #[test]
    fn the_entry_unused_longest_goes_while_all_is_too_large() {
        const PART: usize = BYTES_MAX as usize / 4;
        let folder = tempfile::tempdir().expect("folder");
        let (cache, path) = cache_in(&folder);
        for hours in 1..=7 {
            place(&path, &format!("used-{hours}"), PART, hours * HOUR_S);
        }
        cache.replace(c"new", b"new", None);
        assert_eq!(names(&path), ["new", "used-1", "used-2", "used-3"], "below the limit");
        for hours in 4..=7 {
            place(&path, &format!("used-{hours}"), PART, hours * HOUR_S / 4);
        }
        cache.replace(c"newer", b"new", None);
        assert_eq!(names(&path).len(), 9 - 1, "only one was not used a short time ago");
    }

    #[test]
    fn an_entry_handed_on_by_its_path_is_noted_as_used() {
        let folder = tempfile::tempdir().expect("folder");
        let (cache, path) = cache_in(&folder);
        let list = cache.provide(b"libraries", b"content").expect("made");
        let list = Path::new(list.to_str().expect("a plain path"));
        place(&path, list.file_name().expect("a name").to_str().expect("plain"), 0, 30 * DAY_S);
        std::fs::write(list, b"content").expect("written");
        let time = SystemTime::now() - Duration::from_secs(30 * DAY_S as u64);
        let stamp = |file: File| file.set_times(FileTimes::new().set_accessed(time).set_modified(time));
        stamp(File::options().write(true).open(list).expect("there")).expect("stamped");
        let before = std::fs::metadata(list).expect("there");
        assert!(cache.provide(b"libraries", b"content").is_some());
        cache.replace(c"new", b"new", None);
        let after = std::fs::metadata(list).expect("it is still there");
        assert_eq!(before.modified().expect("known"), after.modified().expect("known"));
        assert!(after.accessed().expect("known") > time + Duration::from_secs(DAY_S as u64));
    }
}
