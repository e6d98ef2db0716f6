//! The medium that the configuration has played on the store's own, and the disks that lower tiers play.
//!
//! What all processes of the store share of it is a file of the tier, so that sessions and daemons to come go on with it.

use crate::Error;
use crate::tiers::{Arenas, LowerTier};
use cuesta_format::emulation::Profile;
use cuesta_format::geometry::CHANNELS_FILE;
use cuesta_format::{Medium, TierNumber};
use cuesta_media::create_allocated;
use cuesta_media::emulate::{CHANNELS_BYTES, Emulated, PlayedDisk};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

/// Begins to play `asked`, if it asks for anything.
pub(crate) fn begin(tier: &Path, medium: Medium, asked: Profile) -> Result<Option<Arc<Emulated>>, Error> {
    if asked.is_none() {
        return Ok(None);
    }
    if medium == Medium::Block {
        return Err(Error::EmulatedDisk(asked));
    }
    provide_channels(tier)?;
    Ok(Some(Emulated::new(asked, channels(tier)?)?))
}

/// Begins to play the disks that lower tiers are asked to play. A tier that is missing plays none.
pub(crate) fn begin_on_lower_tiers(tier: &Path, arenas: &Arenas, lower: &[LowerTier]) -> Result<(), Error> {
    for lower in lower.iter().filter(|lower| !lower.profile.is_none()) {
        let number = TierNumber(lower.number);
        if let Ok(arenas) = arenas.tier(number) {
            provide_channels(tier)?;
            arenas.play(PlayedDisk::new(lower.profile, number, channels(tier)?)?);
        }
    }
    Ok(())
}

fn provide_channels(tier: &Path) -> Result<(), Error> {
    let path = tier.join(CHANNELS_FILE);
    if !path.exists() {
        create_allocated(&path, CHANNELS_BYTES)?;
    }
    Ok(())
}

/// A descriptor of what is shared.
pub(crate) fn channels(tier: &Path) -> Result<OwnedFd, Error> {
    let file = File::options().read(true).write(true).open(tier.join(CHANNELS_FILE));
    file.map(OwnedFd::from).map_err(Error::io("open the channels of the medium that is played"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_plays_no_medium_and_memory_plays_the_one_asked() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let asked: Profile = "optane-pmm".parse().unwrap();
        let refused = begin(folder.path(), Medium::Block, asked).unwrap_err().to_string();
        assert!(refused.contains("emulate = \"optane-pmm\"") && refused.contains("block"), "{refused}");
        assert!(begin(folder.path(), Medium::Block, Profile::default()).unwrap().is_none());
        // The second process goes on with the same file.
        for _ in 0..2 {
            let emulated = begin(folder.path(), Medium::Memory, asked).unwrap();
            assert_eq!(emulated.map(|emulated| emulated.profile()), Some(asked));
        }
    }
}
