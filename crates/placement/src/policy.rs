//! The interface that all policies have. Who owns a policy tells it what programs do, and asks which piece moves next.

use crate::benefit::Benefit;
use crate::frequency::Frequency;
use crate::piece::{Moment, Piece, Side};
use crate::ziggurat::Ziggurat;
use cuesta_format::InodeNumber;
use std::fmt::{self, Debug, Display};
use std::str::FromStr;

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
    /// The higher, the longer the piece stays in the upper tier. What is counted is the policy's own matter; its rule says it.
    pub score: f64,
    /// What the score is, for people.
    pub rule: &'static str,
}

/// What a policy must not exceed, and what is asked of it.
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
/// many: whoever owns it finds them again by a look at all files, and tells it with [`Policy::found`].
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

/// The policies that there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The content that was written longest ago goes down (Ziggurat, §5).
    #[default]
    Ziggurat,
    /// The content that was used only once goes down first (S3-FIFO).
    Frequency,
    /// The content whose place saves the least time goes down.
    Benefit,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 3] = [Kind::Ziggurat, Kind::Frequency, Kind::Benefit];

    /// Its name in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Ziggurat => "ziggurat",
            Kind::Frequency => "frequency",
            Kind::Benefit => "benefit",
        }
    }

    /// A policy that knows nothing yet.
    #[must_use]
    pub fn begin(self, limits: Limits) -> Box<dyn Policy> {
        match self {
            Kind::Ziggurat => Box::new(Ziggurat::new(limits)),
            Kind::Frequency => Box::new(Frequency::new(limits)),
            Kind::Benefit => Box::new(Benefit::new(limits)),
        }
    }
}

impl Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Kind, String> {
        let found = Kind::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| format!("there is no policy {name:?}: it is ziggurat, frequency or benefit"))
    }
}
