//! The options that say when calls that ask for durability return.

use crate::messages::failure::{Failure, WRONG_USAGE};
use crate::stores::store::Store;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use cuesta_format::durability::{DurabilityWish, OPTIMISTIC_MS};
use cuesta_format::{Durability, Medium};
use cuesta_sharedfs::read_superblock;

/// Of a program, or a mount.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct DurabilityArguments {
    /// When fsync returns, on a disk: once the disk has everything, or at once [default: as cuesta.toml says]
    #[arg(long, value_name = "MODE", value_parser = mode_parser())]
    pub durability: Option<Durability>,
    /// In optimistic mode, in how many milliseconds the disk has everything [default: as cuesta.toml says]
    #[arg(long, value_name = "MS", value_parser = bound_parser())]
    pub optimistic_ms_max: Option<u32>,
}

/// A mode by its name.
pub fn mode_parser() -> impl TypedValueParser<Value = Durability> {
    PossibleValuesParser::new(Durability::ALL.map(Durability::name))
        .try_map(|name| name.parse::<Durability>())
}

/// A bound in milliseconds.
pub fn bound_parser() -> impl TypedValueParser<Value = u32> {
    let (least, most) = (i64::from(*OPTIMISTIC_MS.start()), i64::from(*OPTIMISTIC_MS.end()));
    clap::value_parser!(u32).range(least..=most)
}

impl DurabilityArguments {
    /// The wish of the program or the mount, for the daemon. A store whose medium cannot do it is refused.
    pub fn wish(self, store: &Store) -> Result<DurabilityWish, Failure> {
        let DurabilityArguments { durability, optimistic_ms_max } = self;
        if durability == Some(Durability::Optimistic)
            && let Ok(superblock) = read_superblock(&store.tier())
        {
            refuse_other_media(superblock.medium)?;
        }
        Ok(DurabilityWish { durability, optimistic_ms_max })
    }
}

/// Fails unless a store on this medium can be optimistic.
pub fn refuse_other_media(medium: Medium) -> Result<(), Failure> {
    let why = match medium {
        Medium::Block => return Ok(()),
        Medium::Memory => "no call waits for a disk there, and a power loss takes everything",
        Medium::Pmem => "what returned survives a power loss there anyway",
    };
    let what = format!("--durability optimistic is for stores on a disk; this one is on {medium}: {why}");
    Err(Failure::new(what).exiting(WRONG_USAGE))
}
