//! A set of files, of which threads choose one that exists or one that does not. A chosen file is the thread's until it is
//! given back.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::error::{BenchError, Context};

/// Bytes of a write of [`Fileset::prepare`].
const PREPARED_AT_ONCE: usize = 1 << 20;

/// The sizes of the files.
#[derive(Clone, Copy, Debug)]
pub enum Sizes {
    /// All the same.
    Fixed {
        /// Bytes of each.
        bytes: u64,
    },
    /// A gamma distribution of shape 1.5.
    Gamma {
        /// The mean.
        mean_bytes: u64,
    },
}

impl Sizes {
    fn choose(self, random: &mut fastrand::Rng) -> u64 {
        match self {
            Sizes::Fixed { bytes } => bytes,
            // Of shape 1 is an exponential distribution, of shape 1/2 half the square of a normal one.
            Sizes::Gamma { mean_bytes } => {
                let [one, two, three] = [(); 3].map(|()| 1.0 - random.f64());
                let normal = (-2.0 * two.ln()).sqrt() * (std::f64::consts::TAU * three).cos();
                let of_shape = -one.ln() + normal * normal / 2.0;
                ((mean_bytes as f64 / 1.5) * of_shape) as u64
            }
        }
    }
}

/// The number of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIndex(u32);

#[derive(Debug, Default)]
struct Idle {
    existing: Vec<FileIndex>,
    absent: Vec<FileIndex>,
}

/// The files. Those that no thread uses are either there or not.
#[derive(Debug)]
pub struct Fileset {
    dir: PathBuf,
    sizes: Vec<u64>,
    idle: Mutex<Idle>,
}

impl Fileset {
    /// So many files, of which none is there.
    pub fn new(dir: &Path, files: u32, sizes: Sizes, random: &mut fastrand::Rng) -> Fileset {
        let absent = (0..files).map(FileIndex).collect();
        let sizes = (0..files).map(|_| sizes.choose(random)).collect();
        Fileset { dir: dir.to_owned(), sizes, idle: Mutex::new(Idle { existing: Vec::new(), absent }) }
    }

    /// Writes so many of them.
    pub fn prepare(&self, files: u32) -> Result<(), BenchError> {
        let content = vec![7; PREPARED_AT_ONCE];
        (0..files).map(FileIndex).try_for_each(|index| {
            let mut file = File::create_new(self.path(index)).context("making a file of the set")?;
            write_all(&mut file, self.bytes(index), &content)
        })
    }

    /// The first `files` are there: another process has prepared them.
    pub fn note_prepared(&self, files: u32) {
        let mut idle = self.idle.lock().expect("no panic under this lock");
        let Idle { existing, absent } = &mut *idle;
        existing.extend((0..files).map(FileIndex));
        absent.retain(|index| index.0 >= files);
    }

    /// A file that is there.
    pub fn take_existing(&self, random: &mut fastrand::Rng) -> Result<FileIndex, BenchError> {
        take(&mut self.idle.lock().expect("no panic under this lock").existing, random)
    }

    /// A file that is not.
    pub fn take_absent(&self, random: &mut fastrand::Rng) -> Result<FileIndex, BenchError> {
        take(&mut self.idle.lock().expect("no panic under this lock").absent, random)
    }

    /// A file that was taken is there.
    pub fn give_existing(&self, index: FileIndex) {
        self.idle.lock().expect("no panic under this lock").existing.push(index);
    }

    /// A file that was taken is gone.
    pub fn give_absent(&self, index: FileIndex) {
        self.idle.lock().expect("no panic under this lock").absent.push(index);
    }

    /// How many are there, while no thread uses one.
    pub fn count_existing(&self) -> usize {
        self.idle.lock().expect("no panic under this lock").existing.len()
    }

    /// Its path.
    pub fn path(&self, index: FileIndex) -> PathBuf {
        self.dir.join(format!("{:08}", index.0))
    }

    /// Its size when it is written as a whole.
    pub fn bytes(&self, index: FileIndex) -> u64 {
        self.sizes[index.0 as usize]
    }
}

fn take(idle: &mut Vec<FileIndex>, random: &mut fastrand::Rng) -> Result<FileIndex, BenchError> {
    if idle.is_empty() {
        return Err(BenchError::Unusable("a set of files has too few of them for so many threads".into()));
    }
    Ok(idle.swap_remove(random.usize(..idle.len())))
}

/// Writes so many bytes, each time as much of `content` as there is.
pub fn write_all(file: &mut File, bytes: u64, content: &[u8]) -> Result<(), BenchError> {
    let mut left = bytes;
    while left > 0 {
        let part = left.min(content.len() as u64);
        file.write_all(&content[..part as usize]).context("writing a file of the set")?;
        left -= part;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_mean_and_the_variance_of_the_distribution() {
        let mut random = fastrand::Rng::with_seed(5);
        let sizes: Vec<f64> =
            (0..50_000).map(|_| Sizes::Gamma { mean_bytes: 16_384 }.choose(&mut random) as f64).collect();
        let mean = sizes.iter().sum::<f64>() / sizes.len() as f64;
        let variance = sizes.iter().map(|size| (size - mean).powi(2)).sum::<f64>() / sizes.len() as f64;
        assert!((mean / 16_384.0 - 1.0).abs() < 0.03, "{mean}");
        let wanted = 1.5 * (16_384.0_f64 / 1.5).powi(2);
        assert!((variance / wanted - 1.0).abs() < 0.1, "{variance}, not {wanted}");
    }

    #[test]
    fn a_file_is_one_threads_until_it_is_given_back() {
        let dir = tempfile::tempdir().unwrap();
        let mut random = fastrand::Rng::with_seed(5);
        let set = Fileset::new(dir.path(), 3, Sizes::Fixed { bytes: 10 }, &mut random);
        set.prepare(2).unwrap();
        set.note_prepared(2);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
        let (one, two) = (set.take_existing(&mut random).unwrap(), set.take_existing(&mut random).unwrap());
        assert_ne!(one, two);
        assert!(set.take_existing(&mut random).is_err());
        set.give_absent(one);
        set.give_existing(two);
        assert_eq!(set.take_existing(&mut random).unwrap(), two);
        assert!(set.take_absent(&mut random).is_ok() && set.take_absent(&mut random).is_ok());
        assert!(set.take_absent(&mut random).is_err());
    }
}
