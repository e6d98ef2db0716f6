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
    let outcome = run(seed());
    plant(None);
    match outcome {
        Err(violation) => println!("{bug:?}: {violation}"),
        Ok(()) => panic!("{bug:?} is not caught"),
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
