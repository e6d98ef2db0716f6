//! The policies that there are, by their names.

use crate::benefit::Benefit;
use crate::frequency::Frequency;
use crate::policy::{Limits, Policy};
use crate::ziggurat::Ziggurat;
use std::fmt::{self, Display};
use std::str::FromStr;

/// The policies that there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The content that was written longest ago goes down (Ziggurat, §5).
    Ziggurat,
    /// The content that was used only once goes down first (S3-FIFO).
    Frequency,
    /// The content whose place saves the least time goes down.
    #[default]
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
