//! Which directory lies above which, while directories move: a link-cut tree of the directories a batch asked
//! about.
//!
//! A directory must not move below itself. Walking up from its new place tells, but a log may hold a hundred
//! thousand moves, each at a depth of thousands, and recovery has two seconds. Here a question and a move cost the
//! logarithm of the depth, whatever moved before. The path last asked about is kept as a balanced tree (splay), and
//! the paths hang together as the directories do.

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Directory {
    /// Below it in the balanced tree of its path: [nearer to the root, farther from it].
    children: [u32; 2],
    /// Above it there; of the uppermost, the directory its path hangs from.
    parent: u32,
}

/// The directories, by numbers given in the order they were added.
#[derive(Debug, Default)]
pub struct Ancestry {
    directories: Vec<Directory>,
}

impl Ancestry {
    /// Forgets everything, keeping the memory.
    pub fn clear(&mut self) {
        self.directories.clear();
    }

    /// Adds a directory, for now without one above it.
    pub fn add(&mut self) -> u32 {
        self.directories.push(Directory { children: [NONE; 2], parent: NONE });
        self.directories.len() as u32 - 1
    }

    /// Puts a directory that has none above it into `parent`, which does not lie below it.
    pub fn attach(&mut self, directory: u32, parent: u32) {
        self.expose(directory);
        self.directories[directory as usize].parent = parent;
    }

    /// Takes a directory out of the one above it.
    pub fn detach(&mut self, directory: u32) {
        self.expose(directory);
        let above = std::mem::replace(&mut self.directories[directory as usize].children[0], NONE);
        if above != NONE {
            self.directories[above as usize].parent = NONE;
        }
    }

    /// Whether `upper` is `lower` or lies above it.
    pub fn is_above(&mut self, upper: u32, lower: u32) -> bool {
        if upper == lower {
            return true;
        }
        self.expose(lower);
        self.splay(upper);
        // If both are on the path just exposed, `upper` has taken the top of its tree from `lower`.
        self.side(lower).is_some()
    }

    /// Which child of its path's tree a directory is; `None`: it is that tree's top.
    fn side(&self, directory: u32) -> Option<usize> {
        let parent = self.directories.get(self.directories[directory as usize].parent as usize)?;
        parent.children.iter().position(|&child| child == directory)
    }

    fn rotate(&mut self, directory: u32, side: usize) {
        let parent = self.directories[directory as usize].parent;
        let grandparent = self.directories[parent as usize].parent;
        if let Some(side) = self.side(parent) {
            self.directories[grandparent as usize].children[side] = directory;
        }
        let moved = std::mem::replace(&mut self.directories[directory as usize].children[1 - side], parent);
        self.directories[parent as usize].children[side] = moved;
        if moved != NONE {
            self.directories[moved as usize].parent = parent;
        }
        self.directories[parent as usize].parent = directory;
        self.directories[directory as usize].parent = grandparent;
    }

    /// Makes a directory the top of its path's tree.
    fn splay(&mut self, directory: u32) {
        while let Some(side) = self.side(directory) {
            let parent = self.directories[directory as usize].parent;
            if let Some(above) = self.side(parent) {
                let first = if above == side { parent } else { directory };
                self.rotate(first, if first == parent { above } else { side });
            }
            if let Some(side) = self.side(directory) {
                self.rotate(directory, side);
            }
        }
    }

    /// Makes the way from the root to a directory one path, which ends there, and the directory the top of its tree.
    fn expose(&mut self, directory: u32) {
        let (mut below, mut at) = (NONE, directory);
        while at != NONE {
            self.splay(at);
            self.directories[at as usize].children[1] = below;
            (below, at) = (at, self.directories[at as usize].parent);
        }
        self.splay(directory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_agrees_with_walking_up() {
        let seed = 31;
        let mut random = fastrand::Rng::with_seed(seed);
        for round in 0..200 {
            let mut ancestry = Ancestry::default();
            let count = random.usize(2..60);
            let mut parents: Vec<Option<usize>> = vec![None; count];
            for (number, place) in parents.iter_mut().enumerate() {
                assert_eq!(ancestry.add() as usize, number);
                if number > 0 {
                    let parent = if random.bool() { number - 1 } else { random.usize(0..number) };
                    ancestry.attach(number as u32, parent as u32);
                    *place = Some(parent);
                }
            }
            for step in 0..200 {
                let (moved, target) = (random.usize(0..count), random.usize(0..count));
                let mut at = Some(target);
                while at.is_some_and(|at| at != moved) {
                    at = at.and_then(|at| parents[at]);
                }
                let above = ancestry.is_above(moved as u32, target as u32);
                assert_eq!(above, at.is_some(), "seed {seed}, round {round}, step {step}");
                if !above && random.bool() {
                    ancestry.detach(moved as u32);
                    ancestry.attach(moved as u32, target as u32);
                    parents[moved] = Some(target);
                }
            }
        }
    }

    #[test]
    fn a_deep_way_is_walked_once() {
        let mut ancestry = Ancestry::default();
        let depth = 20_000;
        for number in 0..depth {
            ancestry.add();
            if number > 0 {
                ancestry.attach(number, number - 1);
            }
        }
        let moved = ancestry.add();
        ancestry.attach(moved, 0);
        // Walking up each time would be 4 billion steps.
        for number in 0..200_000 {
            let to = depth - 1 - number % 2;
            assert!(!ancestry.is_above(moved, to) && ancestry.is_above(1, to));
            ancestry.detach(moved);
            ancestry.attach(moved, to);
        }
    }
}
