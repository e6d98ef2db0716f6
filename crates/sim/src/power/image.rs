//! The bytes of a disk with a volatile cache. No I/O.
//!
//! A write is in the cache until a flush that began behind it ends. A loss of power leaves everything flushed, and of each write
//! that was in the cache none, all, or some sectors.

use crate::operations::random::Random;

/// Sizes of the pieces that a write is torn into.
const SECTOR_BYTES: [usize; 2] = [512, 4096];

/// A write in the cache.
#[derive(Debug)]
struct Cached {
    offset: usize,
    before: Box<[u8]>,
    after: Box<[u8]>,
}

/// How much of the cache a loss of power spares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spared {
    /// Nothing.
    Nothing,
    /// All of it: the programs alone lose their memory.
    Everything,
    /// The writes up to one of them, which is torn.
    Prefix,
    /// Each write or not.
    Writes,
    /// Each sector of each write or not.
    Sectors,
}

impl Spared {
    /// All of them.
    pub const ALL: [Spared; 5] =
        [Spared::Nothing, Spared::Everything, Spared::Prefix, Spared::Writes, Spared::Sectors];
}

/// A disk's bytes.
#[derive(Debug)]
pub struct Image {
    bytes: Box<[u8]>,
    cached: Vec<Cached>,
    /// The number of the first write in the cache.
    first: u64,
}

impl Image {
    /// A disk full of zeros. The kernel gives it memory as it is written.
    #[must_use]
    pub fn zeros(bytes: usize) -> Image {
        Image { bytes: vec![0; bytes].into_boxed_slice(), cached: Vec::new(), first: 0 }
    }

    /// How many bytes it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The bytes from `offset` on, at most `count`.
    #[must_use]
    pub fn read(&self, offset: usize, count: usize) -> &[u8] {
        let from = offset.min(self.bytes.len());
        &self.bytes[from..(from + count).min(self.bytes.len())]
    }

    /// Writes into the cache. `false`: the disk has no such place.
    pub fn write(&mut self, offset: usize, content: &[u8]) -> bool {
        let Some(place) = self.bytes.get_mut(offset..).and_then(|rest| rest.get_mut(..content.len())) else {
            return false;
        };
        self.cached.push(Cached { offset, before: (&*place).into(), after: content.into() });
        place.copy_from_slice(content);
        true
    }

    /// The number of the next write: a flush that begins now covers all writes before it.
    #[must_use]
    pub fn next_write(&self) -> u64 {
        self.first + self.cached.len() as u64
    }

    /// A flush ends that covers the writes before number `to`.
    pub fn flushed(&mut self, to: u64) {
        let count = to.saturating_sub(self.first).min(self.cached.len() as u64);
        self.cached.drain(..count as usize);
        self.first += count;
    }

    /// How many writes are in the cache.
    #[must_use]
    pub fn cached(&self) -> usize {
        self.cached.len()
    }

    /// The power goes, and comes back.
    pub fn lose_power(&mut self, spared: Spared, random: &mut Random) {
        let next = self.next_write();
        let cached = std::mem::take(&mut self.cached);
        self.first = next;
        for write in cached.iter().rev() {
            self.bytes[write.offset..][..write.before.len()].copy_from_slice(&write.before);
        }
        let prefix = random.below(cached.len() as u64 + 1) as usize;
        for (number, write) in cached.iter().enumerate() {
            match spared {
                Spared::Nothing => {}
                Spared::Everything => self.keep(write, |_| true),
                Spared::Prefix if number < prefix => self.keep(write, |_| true),
                Spared::Prefix if number > prefix => {}
                Spared::Writes => {
                    let is_spared = random.one_in(2);
                    self.keep(write, |_| is_spared);
                }
                Spared::Prefix | Spared::Sectors => {
                    let bytes = *random.pick(&SECTOR_BYTES);
                    let drawn: Vec<bool> =
                        (0..=write.after.len() / bytes).map(|_| random.one_in(2)).collect();
                    self.keep(write, |at| drawn[at / bytes]);
                }
            }
        }
    }

    /// Takes over the sectors of a write that `is_spared` names by their offsets in it.
    fn keep(&mut self, write: &Cached, is_spared: impl Fn(usize) -> bool) {
        for (number, piece) in write.after.chunks(SECTOR_BYTES[0]).enumerate() {
            let at = number * SECTOR_BYTES[0];
            if is_spared(at) {
                self.bytes[write.offset + at..][..piece.len()].copy_from_slice(piece);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk with a flushed `a` everywhere and, above that, three writes in the cache.
    fn image() -> Image {
        let mut image = Image::zeros(16 << 10);
        assert!(image.write(0, &[b'a'; 16 << 10]));
        image.flushed(image.next_write());
        for (number, letter) in (b'b'..=b'd').enumerate() {
            assert!(image.write(number * 4096, &[letter; 8192]));
        }
        assert_eq!(image.cached(), 3);
        image
    }

    fn letters(image: &Image) -> Vec<u8> {
        image
            .read(0, usize::MAX >> 1)
            .chunks(512)
            .map(|sector| {
                assert!(sector.iter().all(|byte| *byte == sector[0]), "no sector is torn");
                sector[0]
            })
            .collect()
    }

    #[test]
    fn a_loss_of_power_leaves_what_was_flushed_and_some_of_the_rest() {
        let mut met = std::collections::BTreeSet::new();
        for spared in Spared::ALL {
            for seed in 0..20 {
                let mut image = image();
                image.lose_power(spared, &mut Random::new(seed));
                let found = letters(&image);
                match spared {
                    Spared::Nothing => assert_eq!(found, [b'a'; 32]),
                    Spared::Everything => assert_eq!((found[0], found[8], found[31]), (b'b', b'c', b'd')),
                    _ => {}
                }
                assert_eq!(image.cached(), 0);
                met.insert(found);
            }
        }
        assert!(met.len() > 20, "{}", met.len());
    }

    #[test]
    fn a_flush_covers_the_writes_before_it() {
        let mut image = image();
        let to = image.next_write();
        assert!(image.write(0, b"later"));
        image.flushed(to);
        image.lose_power(Spared::Nothing, &mut Random::new(1));
        assert_eq!(letters(&image)[..9], *b"bbbbbbbbc");
        assert!(!image.write(16 << 10, b"x"));
    }
}
