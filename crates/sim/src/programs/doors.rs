//! By which doors programs come to a store: `cuesta run`, a mount, or some by each.

use clap::ValueEnum;
use cuesta_fuse::Device;
use serde::{Deserialize, Serialize};

/// One door.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
pub enum Door {
    /// Under `cuesta run`
    Run,
    /// By a mount
    Mount,
}

/// The doors of a campaign.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Doors {
    /// All under `cuesta run`
    #[default]
    Run,
    /// All by a mount
    Mount,
    /// Some at each
    Both,
}

impl Doors {
    /// The door of a process, by its number.
    #[must_use]
    pub fn of(self, number: u64) -> Door {
        match self {
            Doors::Run => Door::Run,
            Doors::Mount => Door::Mount,
            Doors::Both if number % 2 == 1 => Door::Run,
            Doors::Both => Door::Mount,
        }
    }

    /// All there are, for a process that looks.
    #[must_use]
    pub fn all(self) -> &'static [Door] {
        if self.has_mount() { &[Door::Run, Door::Mount] } else { &[Door::Run] }
    }

    /// Whether any program works by a mount.
    #[must_use]
    pub fn has_mount(self) -> bool {
        self != Doors::Run
    }
}

/// Why no mount can be made here, if none can.
#[must_use]
pub fn why_no_mount() -> Option<&'static str> {
    let can = rustix::process::geteuid().is_root() && Device::open().is_ok();
    (!can).then_some("needs root, and FUSE")
}

/// A door's name in arguments.
impl std::fmt::Display for Door {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.to_possible_value().expect("each has a name").get_name())
    }
}
