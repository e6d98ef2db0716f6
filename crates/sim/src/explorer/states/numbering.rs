//! Names files by the order in which they appeared instead of by inode, so that a seed chooses the
//! same states in every run.

use cuesta_media::recorder::{Event, Recording, RegionKey};
use std::collections::HashMap;

/// The same recording with its regions numbered from 1; a file made under the inode number of one
/// that is gone gets a number of its own.
pub(in crate::explorer) fn by_appearance(mut recording: Recording) -> Recording {
    let mut numbers: HashMap<RegionKey, u64> = HashMap::new();
    let mut last = 0;
    let mut name = |region: &mut RegionKey, anew: bool| {
        let number = numbers.entry(*region).or_default();
        if *number == 0 || anew {
            last += 1;
            *number = last;
        }
        *region = RegionKey { device: 0, inode: *number };
    };
    for file in &mut recording.base {
        name(&mut file.region, true);
    }
    for recorded in &mut recording.events {
        match &mut recorded.event {
            Event::Appear { region, .. } => name(region, true),
            Event::Store { region, .. }
            | Event::Written { region, .. }
            | Event::Flush { region, .. }
            | Event::SetLen { region, .. }
            | Event::Rename { region, .. } => {
                name(region, false);
            }
            Event::Remove { .. } | Event::Fence | Event::Mark(_) => {}
        }
    }
    recording
}
