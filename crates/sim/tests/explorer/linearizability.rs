//! Planted bugs that break linearizability are caught by the check of a history: sessions of LibFS in threads of this
//! process, each its own client of one SharedFS, make the calls that processes make in the campaign.

use crate::{planting, seed};
use cuesta_format::Geometry;
use cuesta_media::planted::{Bug, plant};
use cuesta_sim::linearizability::here;
use cuesta_sim::linearizability::history::Contradiction;
use cuesta_sim::world::small_geometry;

const SESSIONS: usize = 4;
const CALLS: usize = 600;
/// A history may come out as it would without the bug: one of eight does on an idle machine.
const RUNS_MAX: u64 = 40;

fn run(seed: u64) -> Result<(), Contradiction> {
    let geometry =
        Geometry { nvm_bytes: 16 << 20, segment_bytes: 64 << 10, ring_slots: 8, ..small_geometry() };
    let history = here::run(geometry, seed, SESSIONS, CALLS).unwrap();
    history.check()
}

fn caught(bug: Bug) {
    let _alone = planting();
    if let Err(violation) = run(seed()) {
        panic!("without the bug: {violation}");
    }
    plant(Some(bug));
    let caught =
        (seed()..seed() + RUNS_MAX).find_map(|seed| run(seed).err().map(|violation| (seed, violation)));
    plant(None);
    match caught {
        Some((seed, violation)) => println!("{bug:?}: seed {seed}: {violation}"),
        None => panic!("{bug:?} is not caught in {RUNS_MAX} runs"),
    }
}

#[test]
fn a_stale_read_is_caught() {
    caught(Bug::StaleRead);
}

#[test]
fn a_lost_update_is_caught() {
    caught(Bug::LostUpdate);
}
