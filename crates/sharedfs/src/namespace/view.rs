//! The inodes and names a batch touches, over the committed state before it.

use super::ancestry::Ancestry;
use super::calls::Calls;
use super::extended::Attributes;
use super::lookup::Lookup;
use super::names::{Names, place_in};
use super::pieces::{Content, Part};
use super::shift;
use super::shift::{Shift, Shifted};
use crate::Error;
use crate::digest::dependencies::Dependencies;
use crate::metadata::ExtentList;
use crate::tiers::Claims;
use cuesta_format::{InodeNumber, InodeRecord, SessionId};
use hashbrown::HashMap;

const NO_PIECE: u32 = u32::MAX;
const NO_PLACE: u32 = u32::MAX;

/// Deepest directory whose way to the root is followed.
const DEPTH_MAX: usize = 1 << 20;

/// An inode that was touched.
#[derive(Clone, Debug)]
pub struct Node {
    /// As it is now.
    pub record: InodeRecord,
    /// As it was before the batch; `None` if the batch made it.
    pub before: Option<InodeRecord>,
    /// Its extents before the batch.
    pub extents: ExtentList,
    /// The parts of it that the batch moved; `extents` and `before` do not count any more for where content
    /// lies.
    pub shifted: Option<Box<Shifted>>,
    /// Something of it changed.
    pub changed: bool,
    /// A program that wrote it waits for what it writes.
    pub is_synchronous: bool,
    /// It is gone.
    pub removed: bool,
    /// It has no name but stays for this session, or for none in particular.
    pub holder: Option<SessionId>,
    /// The same before the batch.
    pub held_before: Option<SessionId>,
    /// Some of its content was cut, be it stored anew since.
    pub is_cut: bool,
    /// Place of a symbolic link's target in the copied log.
    pub target: (u32, u32),
    first_piece: u32,
    last_piece: u32,
    /// Its number in the ancestry, of a directory that was asked about.
    place: u32,
}

impl Node {
    fn new(record: InodeRecord, before: Option<InodeRecord>, extents: ExtentList) -> Node {
        Node {
            record,
            before,
            extents,
            shifted: None,
            changed: before.is_none(),
            is_synchronous: false,
            removed: false,
            holder: None,
            held_before: None,
            is_cut: false,
            target: (0, 0),
            first_piece: NO_PIECE,
            last_piece: NO_PIECE,
            place: NO_PLACE,
        }
    }

    /// Whether content was stored or cut.
    #[must_use]
    pub fn has_pieces(&self) -> bool {
        self.first_piece != NO_PIECE
    }
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    part: Part,
    next: u32,
}

/// Everything a batch has touched so far.
#[derive(Debug, Default)]
pub struct View {
    nodes: Vec<Node>,
    node_of: HashMap<InodeNumber, u32>,
    /// Directory entries.
    pub names: Names,
    /// Extended attributes.
    pub extended: Attributes,
    /// Calls that took effect.
    pub calls: Calls,
    /// Parts of other logs that the batch must not survive without.
    pub(crate) dependencies: Dependencies,
    /// Blocks of windows that the batch names.
    pub(crate) claims: Claims,
    pieces: Vec<Piece>,
    ancestry: Ancestry,
    trusting: bool,
}

impl View {
    /// Forgets everything, keeping the memory. `trusting` allows names to be taken as new without looking.
    pub fn clear(&mut self, trusting: bool) {
        self.trusting = trusting;
        self.nodes.clear();
        self.node_of.clear();
        self.names.clear();
        self.extended.clear();
        self.calls.clear();
        self.dependencies.clear();
        self.claims.clear();
        self.pieces.clear();
        self.ancestry.clear();
    }

    /// Forgets everything, to apply the same batch again.
    pub fn restart(&mut self) {
        self.clear(self.trusting);
    }

    /// The inode's number in the view, loading it if it was not touched before; `None` if there is no such
    /// inode, or no more.
    pub fn find(&mut self, store: &impl Lookup, inode: InodeNumber) -> Result<Option<u32>, Error> {
        if let Some(&at) = self.node_of.get(&inode) {
            return Ok((!self.nodes[at as usize].removed).then_some(at));
        }
        let Some(stored) = store.inode(inode)? else { return Ok(None) };
        let mut node = Node::new(stored.record, Some(stored.record), stored.extents);
        if stored.record.links == 0 {
            node.held_before = store.holder(inode);
            node.holder = node.held_before;
        }
        Ok(Some(self.insert(inode, node)))
    }

    /// Whether the inode's number was ever used, as far as can be told.
    pub fn is_known(&mut self, store: &impl Lookup, inode: InodeNumber) -> Result<bool, Error> {
        Ok(self.node_of.contains_key(&inode) || store.inode(inode)?.is_some())
    }

    /// Adds an inode that the batch makes.
    pub fn create(&mut self, batch: &[u8], record: InodeRecord, target: &[u8]) -> u32 {
        let mut node = Node::new(record, None, ExtentList::Inline(Vec::new()));
        if !target.is_empty() {
            node.target = place_in(batch, target);
        }
        self.insert(record.inode, node)
    }

    fn insert(&mut self, inode: InodeNumber, node: Node) -> u32 {
        let at = self.nodes.len() as u32;
        self.nodes.push(node);
        self.node_of.insert(inode, at);
        at
    }

    /// The node with a number.
    #[must_use]
    pub fn node_mut(&mut self, at: u32) -> &mut Node {
        &mut self.nodes[at as usize]
    }

    /// A node.
    pub fn node(&self, at: u32) -> &Node {
        &self.nodes[at as usize]
    }

    /// The node with a number, to change it.
    pub fn change(&mut self, at: u32) -> &mut Node {
        let node = &mut self.nodes[at as usize];
        node.changed = true;
        node
    }

    /// Whether the batch took the inode away.
    #[must_use]
    pub fn is_removed(&self, inode: InodeNumber) -> bool {
        self.node_of.get(&inode).is_some_and(|&at| self.nodes[at as usize].removed)
    }

    /// Whether the directory `upper` is `lower` or lies above it; `None`: the way up from `lower` leads nowhere.
    pub fn is_above(&mut self, store: &impl Lookup, upper: u32, lower: u32) -> Result<Option<bool>, Error> {
        if !self.follow_up(store, lower)? {
            return Ok(None);
        }
        let (upper, lower) = (self.nodes[upper as usize].place, self.nodes[lower as usize].place);
        Ok(Some(upper != NO_PLACE && self.ancestry.is_above(upper, lower)))
    }

    /// Adds a directory and all above it to the ancestry. `false`: there is no root above it.
    fn follow_up(&mut self, store: &impl Lookup, directory: u32) -> Result<bool, Error> {
        let mut way = Vec::new();
        let mut at = directory;
        let mut above = loop {
            let node = &self.nodes[at as usize];
            if node.place != NO_PLACE {
                break node.place;
            }
            way.push(at);
            if node.record.inode == InodeNumber::ROOT {
                break NO_PLACE;
            }
            let parent = node.record.parent;
            match self.find(store, parent)? {
                Some(parent) if way.len() < DEPTH_MAX => at = parent,
                _ => return Ok(false),
            }
        };
        for &at in way.iter().rev() {
            let place = self.ancestry.add();
            if above != NO_PLACE {
                self.ancestry.attach(place, above);
            }
            self.nodes[at as usize].place = place;
            above = place;
        }
        Ok(true)
    }

    /// Gives a directory another parent, which was asked about.
    pub fn move_directory(&mut self, at: u32, to: u32) {
        let parent = &self.nodes[to as usize];
        let (parent, above) = (parent.record.inode, parent.place);
        let node = self.change(at);
        node.record.parent = parent;
        let place = node.place;
        if place == NO_PLACE {
            return;
        }
        self.ancestry.detach(place);
        if above == NO_PLACE {
            // The new parent was not asked about: the ancestry lacks it, and begins anew.
            self.ancestry.clear();
            self.nodes.iter_mut().for_each(|node| node.place = NO_PLACE);
        } else {
            self.ancestry.attach(place, above);
        }
    }

    /// How many inodes, names and extended attributes were touched.
    #[must_use]
    pub fn touched(&self) -> usize {
        self.nodes.len() + self.names.all().len() + self.extended.touched()
    }

    /// All nodes, in the order they were first touched.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The entry's number in the view, loading it if it was not touched before. A name that is `expected_new` is taken
    /// to be new without looking: that is a third of the digest of new files, and the commit notices.
    pub fn name(
        &mut self,
        store: &impl Lookup,
        batch: &[u8],
        parent: InodeNumber,
        name: &[u8],
        expected_new: bool,
    ) -> Result<u32, Error> {
        if let Some(at) = self.names.find(batch, parent, name) {
            return Ok(at);
        }
        let new_directory =
            self.node_of.get(&parent).is_some_and(|&at| self.nodes[at as usize].before.is_none());
        let on_trust = expected_new && self.trusting && !new_directory;
        let before = if new_directory || on_trust { None } else { store.name(parent, name)? };
        Ok(self.names.add(batch, parent, name, before, on_trust))
    }

    /// The number in the view of an extended attribute of the inode at `at`, loading it if it was not touched before.
    pub fn extended(
        &mut self,
        store: &impl Lookup,
        batch: &[u8],
        at: u32,
        name: &[u8],
    ) -> Result<u32, Error> {
        let Node { record, before, .. } = &self.nodes[at as usize];
        let inode = record.inode;
        if let Some(found) = self.extended.find(batch, inode, name) {
            return Ok(found);
        }
        let had_some = before.is_some_and(|before| before.extended > 0);
        let before = if had_some { store.extended(inode, name)? } else { None };
        Ok(self.extended.add(batch, inode, name, before))
    }

    /// Adds a piece of content to a file. Nothing is left of the last one if it covers that: a program that
    /// writes one place again and again leaves one piece.
    pub fn push_piece(&mut self, at: u32, start: u64, end: u64, content: Content) {
        let part = Part { start, end, content };
        let node = &mut self.nodes[at as usize];
        node.is_cut |= content == Content::Gone;
        if let Some(last) = self.pieces.get_mut(node.last_piece as usize)
            && start <= last.part.start
            && last.part.end <= end
        {
            last.part = part;
            return;
        }
        let number = self.pieces.len() as u32;
        self.pieces.push(Piece { part, next: NO_PIECE });
        if node.last_piece == NO_PIECE {
            node.first_piece = number;
        } else {
            self.pieces[node.last_piece as usize].next = number;
        }
        node.last_piece = number;
    }

    /// Moves a file's content, be it from before the batch or of it.
    pub fn shift(&mut self, store: &impl Lookup, at: u32, by: Shift) -> Result<(), Error> {
        let node = &mut self.nodes[at as usize];
        let mut shifted = match (node.shifted.take(), &node.extents) {
            (Some(shifted), _) => shifted,
            (None, extents) => {
                let extents = match extents {
                    ExtentList::Inline(extents) => extents.clone(),
                    ExtentList::Table => store.table_extents(node.record.inode)?,
                };
                let size = node.before.map_or(0, |before| before.size);
                Box::new(Shifted { extents, size, freed: Vec::new() })
            }
        };
        shift::extents(&mut shifted, by);
        node.shifted = Some(shifted);
        node.changed = true;
        let pieces: Vec<Part> = self.pieces(&self.nodes[at as usize]).collect();
        let node = &mut self.nodes[at as usize];
        (node.first_piece, node.last_piece) = (NO_PIECE, NO_PIECE);
        for piece in pieces {
            for part in shift::piece(&piece, by) {
                self.push_piece(at, part.start, part.end, part.content);
            }
        }
        Ok(())
    }

    /// The pieces of a file, in log order.
    pub fn pieces(&self, node: &Node) -> impl Iterator<Item = Part> {
        let mut next = node.first_piece;
        std::iter::from_fn(move || {
            let piece = self.pieces.get(next as usize)?;
            next = piece.next;
            Some(piece.part)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::pieces::Resolver;
    use super::*;
    use cuesta_format::Timestamp;

    fn file() -> InodeRecord {
        InodeRecord::new(InodeNumber(9), 0o100_644, 0, 0, Timestamp::new(0, 0))
    }

    /// The content of each of the first bytes: neighbours may be joined or not.
    fn painted(parts: &[Part]) -> Vec<Option<Content>> {
        let at = |byte: u64| {
            let found = parts.iter().find(|part| (part.start..part.end).contains(&byte))?;
            Some(found.cut(byte, byte + 1).content)
        };
        (0..20).map(at).collect()
    }

    /// With the remembered pieces a file comes to the same content as with all of them.
    #[test]
    fn pieces_that_were_covered_at_once_are_not_missed() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..1000 {
            let mut view = View::default();
            let at = view.create(&[], file(), &[]);
            let mut all = Vec::new();
            for number in 0..random.u32(1..12) {
                let start = random.u64(0..8);
                let (end, content) = match random.u8(0..6) {
                    0 => (u64::MAX, Content::Gone),
                    1 => (start + random.u64(1..8), Content::Gone),
                    _ => (start + random.u64(1..8), Content::Log(100 * number)),
                };
                all.push(Part { start, end, content });
                view.push_piece(at, start, end, content);
            }
            let remembered: Vec<Part> = view.pieces(&view.nodes()[at as usize]).collect();
            let mut resolver = Resolver::default();
            let expected = painted(resolver.resolve(all.iter().copied()));
            assert_eq!(painted(resolver.resolve(remembered.into_iter())), expected, "{all:?}");
        }
        let mut view = View::default();
        let at = view.create(&[], file(), &[]);
        (0..10).for_each(|number| view.push_piece(at, 64, 128, Content::Log(100 * number)));
        let last = Part { start: 64, end: 128, content: Content::Log(900) };
        assert_eq!(view.pieces(&view.nodes()[at as usize]).collect::<Vec<_>>(), [last]);
    }
}
