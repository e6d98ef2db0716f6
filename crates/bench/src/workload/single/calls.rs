//! Single calls, one kind after the other, on few files: what each costs by itself, without any that was batched, cached or
//! put off for the next one to pay. But for the first two, no file system behind FUSE can answer them from what the kernel
//! keeps.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, StatxFlags, statx};

use crate::error::{BenchError, Context};
use crate::figures::measure::{Figure, Outcome};

const PAGE_BYTES: usize = 4096;
/// Pages of the file that is read and written.
const PAGES: u64 = 16;
/// Pages that are appended before the file is cut again.
const APPENDED_PAGES: u64 = 1024;
/// Names in the directory that is listed.
const NAMES: u32 = 100;
/// Calls before those that are measured.
const WARM_UP: u64 = 64;
/// Calls between two looks at the clock.
const BATCH: u64 = 16;

/// The calls.
#[derive(Clone, Copy, Debug)]
pub struct Calls;

/// The figure that is measured, and the call, which is told how many there were before.
type Kind<'a> = (Figure, Box<dyn FnMut(u64) -> std::io::Result<()> + 'a>);

impl Calls {
    /// Measures in `dir`, each kind for its part of `time`.
    pub fn run(self, dir: &Path, time: Duration) -> Result<Outcome, BenchError> {
        let path = dir.join("file");
        std::fs::write(&path, vec![7; PAGES as usize * PAGE_BYTES]).context("making a file")?;
        let file = OpenOptions::new().read(true).write(true).open(&path).context("opening it")?;
        let kinds: Vec<Kind<'_>> =
            on_file(&path, &file)?.into_iter().chain(on_content(dir, &file)?).chain(on_names(dir)).collect();
        let each = time / kinds.len() as u32;
        let mut outcome = Outcome::default();
        for (figure, mut call) in kinds {
            outcome = outcome.with(figure, mean_us(each, &mut *call).context(format!("{figure:?}"))?);
        }
        let mode_seen = file.metadata().context("looking at the file")?.permissions().mode() & 0o7770;
        if mode_seen != 0o600 {
            return Err(BenchError::Corrupt(format!("mode {mode_seen:o} instead of 600")));
        }
        Ok(outcome)
    }
}

fn on_file<'a>(path: &'a Path, file: &'a File) -> Result<Vec<Kind<'a>>, BenchError> {
    Ok(vec![
        (Figure::StatAgain, Box::new(move |_| std::fs::metadata(path).map(drop))),
        (Figure::StatAnew, {
            // The kernel's cached attributes do not answer this one.
            let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
            Box::new(move |_| Ok(statx(file, c"", flags, StatxFlags::BASIC_STATS).map(drop)?))
        }),
        (Figure::OpenClose, Box::new(move |_| File::open(path).map(drop))),
        (Figure::ChangeMode, {
            let mode = |n: u64| PermissionsExt::from_mode(0o600 + (n % 8) as u32);
            Box::new(move |n| std::fs::set_permissions(path, mode(n)))
        }),
    ])
}

fn on_content<'a>(dir: &Path, file: &'a File) -> Result<Vec<Kind<'a>>, BenchError> {
    let past_cache = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(dir.join("file"))
        .context("opening a file for direct reads")?;
    let mut appended = OpenOptions::new()
        .append(true)
        .create(true)
        .open(dir.join("appended"))
        .context("making a file to append to")?;
    let page = Page::new();
    let (mut again, mut direct) = (Page::new(), Page::new());
    let at = |n: u64| n % PAGES * PAGE_BYTES as u64;
    Ok(vec![
        (Figure::ReadAgain, Box::new(move |_| file.read_exact_at(&mut again.0, 0))),
        (Figure::ReadAnew, Box::new(move |n| past_cache.read_exact_at(&mut direct.0, at(n)))),
        (Figure::WritePage, Box::new(move |n| file.write_all_at(&[n as u8; PAGE_BYTES], at(n)))),
        (Figure::AppendPage, {
            Box::new(move |n| {
                if n.is_multiple_of(APPENDED_PAGES) {
                    appended.set_len(0)?;
                }
                appended.write_all(&page.0)
            })
        }),
        (Figure::WriteSync, {
            Box::new(move |n| {
                file.write_all_at(&[n as u8; PAGE_BYTES], at(n))?;
                file.sync_all()
            })
        }),
        (Figure::Cut, Box::new(move |n| file.set_len((PAGES - n % 2) * PAGE_BYTES as u64))),
    ])
}

fn on_names<'a>(dir: &Path) -> Vec<Kind<'a>> {
    let named = |name: &str| dir.join(name);
    let (made, moved, linked, link) = (named("made"), named("moved"), named("linked"), named("link"));
    let (made_directory, listed, absent) = (named("directory"), named("listed"), named("absent"));
    vec![
        (Figure::LookForNone, Box::new(move |n| none_is_there(&absent.with_extension(n.to_string())))),
        (Figure::MakeRemove, {
            Box::new(move |_| {
                File::create_new(&made)?;
                std::fs::remove_file(&made)
            })
        }),
        (Figure::MakeRemoveDirectory, {
            Box::new(move |_| {
                std::fs::create_dir(&made_directory)?;
                std::fs::remove_dir(&made_directory)
            })
        }),
        (Figure::Rename, {
            let other = moved.with_extension("away");
            Box::new(move |n| {
                if n == 0 {
                    File::create(&moved)?;
                }
                let (from, to) = if n.is_multiple_of(2) { (&moved, &other) } else { (&other, &moved) };
                std::fs::rename(from, to)
            })
        }),
        (Figure::LinkRemove, {
            Box::new(move |n| {
                if n == 0 {
                    File::create(&linked)?;
                }
                std::fs::hard_link(&linked, &link)?;
                std::fs::remove_file(&link)
            })
        }),
        (Figure::List, Box::new(move |n| list(&listed, n == 0))),
    ]
}

fn none_is_there(path: &PathBuf) -> std::io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(_) => Err(std::io::ErrorKind::AlreadyExists.into()),
    }
}

/// Reads a directory, which is filled for the first time.
fn list(directory: &Path, is_first: bool) -> std::io::Result<()> {
    if is_first {
        std::fs::create_dir(directory)?;
        (0..NAMES).try_for_each(|n| File::create(directory.join(format!("name-{n}"))).map(drop))?;
    }
    let names = std::fs::read_dir(directory)?.count();
    if names == NAMES as usize { Ok(()) } else { Err(std::io::ErrorKind::InvalidData.into()) }
}

/// A page at an address that reads past the cache can have.
#[repr(align(4096))]
struct Page([u8; PAGE_BYTES]);

impl Page {
    fn new() -> Box<Page> {
        Box::new(Page([7; PAGE_BYTES]))
    }
}

/// Microseconds a call takes on average, over `time`.
fn mean_us(time: Duration, call: &mut dyn FnMut(u64) -> std::io::Result<()>) -> std::io::Result<f64> {
    (0..WARM_UP).try_for_each(&mut *call)?;
    let start = Instant::now();
    let mut calls = 0;
    while start.elapsed() < time || calls == 0 {
        (WARM_UP + calls..WARM_UP + calls + BATCH).try_for_each(&mut *call)?;
        calls += BATCH;
    }
    Ok(start.elapsed().as_secs_f64() * 1e6 / calls as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_is_made_and_timed() {
        let dir = tempfile::tempdir().unwrap();
        let outcome = Calls.run(dir.path(), Duration::from_millis(12)).unwrap();
        assert_eq!(outcome.figures.len(), 16);
        assert!(outcome.figures.values().all(|&us| us > 0.0));
    }
}
