//! The interface that all policies have. The owner of a policy tells it what programs do, and asks which piece moves next.

use crate::piece::{Moment, Piece, Side};
use cuesta_format::InodeNumber;
use std::fmt::Debug;

/// A piece that is to move, and why.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// What moves.
    pub piece: Piece,
    /// How the policy rates it, as in [`Standing`].
    pub score: f64,
    /// The rule that chose it, for people.
    pub rule: &'static str,
}

/// How a policy sees a piece.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    /// The higher, the longer the piece stays in the upper tier. Each policy counts something else, as its rule says.
    pub score: f64,
    /// A few words about the score, for people.
    pub rule: &'static str,
}

/// The limits of a policy, and the age at which content is cold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// So many pieces are known at most.
    pub pieces_max: usize,
    /// Content that was written less than so long ago does not move down, unless it is urgent.
    pub cold_ms: u64,
}

/// Decides which piece moves next between two tiers.
///
/// A piece that it chose is unknown to it until it is told what became of it, by [`Policy::placed`]. It may forget pieces when it knows too
/// many: its owner finds them again by a look at all files, and tells it with [`Policy::found`].
pub trait Policy: Debug + Send {
    /// A piece was found by a look at all files. Nothing is known of it but when its file was changed last.
    fn found(&mut self, piece: Piece, side: Side, changed: Moment);
    /// A piece was written, and lies there now.
    fn written(&mut self, piece: Piece, side: Side, at: Moment);
    /// A piece was read so many times, as far as reads were seen, and lies there.
    fn read(&mut self, piece: Piece, side: Side, times: u32, at: Moment);
    /// A piece that was chosen moved there, or stayed there because it could not be moved.
    fn placed(&mut self, piece: Piece, side: Side, at: Moment);
    /// A piece is no more.
    fn forget(&mut self, piece: Piece);
    /// All pieces of a file from one on are no more.
    fn forget_from(&mut self, inode: InodeNumber, index: u64);
    /// The piece that leaves the upper tier next. `None`: nothing that is known may leave it. If it is urgent, pieces leave however warm
    /// they are.
    fn next_down(&mut self, at: Moment, is_urgent: bool) -> Option<Choice>;
    /// The piece that comes to the upper tier next. `None`: none is worth it. Without room, one is worth it only if it stands higher than one
    /// that would have to leave.
    fn next_up(&mut self, at: Moment, has_room: bool) -> Option<Choice>;
    /// How it sees a piece. `None`: it does not know it.
    fn standing(&self, piece: Piece, at: Moment) -> Option<Standing>;
    /// How many pieces it knows.
    fn known(&self) -> usize;
}
