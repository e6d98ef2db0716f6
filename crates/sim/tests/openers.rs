//! Several sessions on one store, each with files of its own open, against the reference model, which knows only one
//! caller: a session that has a removed file open goes on with it, and when the last one closes it, it is gone.
//!
//! Open files go from session to session as in a fork, and from a session that ends to one that begins as in an exec,
//! with nothing between the two but a descriptor. `CUESTA_SIM_SEED` repeats one seed.

use cuesta_sim::generate::{Generator, Repertoire};
use cuesta_sim::model::Model;
use cuesta_sim::operation::{Operation, Slot, answers_agree};
use cuesta_sim::random::Random;
use cuesta_sim::tree::Tree;
use cuesta_sim::world::{self, World};
use std::path::Path;

const OPERATIONS: usize = 400;
const SESSIONS: usize = 3;
const SLOTS: usize = 6;

struct Sessions {
    worlds: Vec<World>,
    /// The session that has what is open in a slot.
    owners: [usize; SLOTS],
}

impl Sessions {
    fn open(directory: &Path) -> Result<Sessions, String> {
        let mut worlds = vec![World::open(directory)?];
        for _ in 1..SESSIONS {
            worlds.push(worlds[0].another()?);
        }
        Ok(Sessions { worlds, owners: std::array::from_fn(|slot| slot % SESSIONS) })
    }

    fn pair(&mut self, one: usize, other: usize) -> Result<[&mut World; 2], String> {
        self.worlds.get_disjoint_mut([one, other]).map_err(|error| error.to_string())
    }

    /// The file open in a slot goes to another session, as in a fork whose parent closes it.
    fn hand_over(&mut self, random: &mut Random) -> Result<(), String> {
        let slot = random.below(SLOTS as u64) as usize;
        let heir = (self.owners[slot] + 1) % SESSIONS;
        let [from, to] = self.pair(self.owners[slot], heir)?;
        to.take_slots(from, &(slot as Slot..slot as Slot + 1))?;
        self.owners[slot] = heir;
        Ok(())
    }

    /// A session ends and another begins, with what it had open if it is executed, else with nothing.
    fn replace(&mut self, model: &mut Model, random: &mut Random) -> Result<(), String> {
        let gone = random.below(SESSIONS as u64) as usize;
        let next = self.worlds[gone].another()?;
        let gone_world = std::mem::replace(&mut self.worlds[gone], next);
        if random.one_in(2) {
            return gone_world.execute(&mut self.worlds[gone]);
        }
        gone_world.detach();
        for slot in (0..SLOTS).filter(|&slot| self.owners[slot] == gone) {
            // Not all of its slots held something.
            let _ = model.apply(&Operation::Close { slot: slot as Slot });
        }
        Ok(())
    }

    fn agree(&self, model: &Model, random: &mut Random) -> Result<(), String> {
        let world = &self.worlds[random.below(SESSIONS as u64) as usize];
        let differences = world.tree()?.differences(&Tree::from(model));
        if !differences.is_empty() {
            return Err(differences.join("\n"));
        }
        self.worlds.iter().try_for_each(World::digest)?;
        let (found, expected) = (world.inodes()?, model.inode_count());
        if found == expected { Ok(()) } else { Err(format!("{found} inodes, expected {expected}")) }
    }
}

fn run_seed(seed: u64) -> Result<(), String> {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let geometry = cuesta_format::Geometry { nvm_bytes: 16 << 20, ..world::small_geometry() };
    world::create(directory.path(), geometry)?;
    let mut sessions = Sessions::open(directory.path())?;
    let mut model = Model::new();
    let repertoire = Repertoire { slots: SLOTS as u8, ..Repertoire::default() };
    let mut generator = Generator::new(repertoire, seed);
    let mut random = Random::new(!seed);
    for step in 0..OPERATIONS {
        let mut operation = generator.next_operation();
        let who = match operation.slot_mut() {
            Some(slot) => sessions.owners[usize::from(*slot)],
            None => random.below(SESSIONS as u64) as usize,
        };
        let found = sessions.worlds[who].helped(|world| world.apply(&operation));
        let expected = model.apply(&operation);
        if !answers_agree(&found, &expected) {
            let tree = Tree::from(&model);
            return Err(format!(
                "step {step}: {who} {operation:?}: {found:?}, expected {expected:?}\n{tree:?}"
            ));
        }
        let at = |reason: String| format!("after step {step}: {reason}");
        if random.one_in(12) {
            sessions.hand_over(&mut random).map_err(at)?;
        }
        if random.one_in(30) {
            sessions.worlds[random.below(SESSIONS as u64) as usize].digest().map_err(at)?;
        }
        if random.one_in(60) {
            sessions.replace(&mut model, &mut random).map_err(at)?;
        }
        if random.one_in(120) {
            // Killed, all of them and the daemon.
            std::mem::forget(sessions);
            model.crash();
            sessions = Sessions::open(directory.path())?;
            sessions.agree(&model, &mut random).map_err(at)?;
        }
        if random.one_in(25) {
            sessions.agree(&model, &mut random).map_err(at)?;
        }
    }
    sessions.agree(&model, &mut random)?;
    sessions.worlds.drain(..).for_each(World::detach);
    world::fsck(directory.path())
}

#[test]
fn files_stay_for_the_sessions_that_have_them_open() {
    let seeds = match std::env::var("CUESTA_SIM_SEED") {
        Ok(seed) => seed.parse().unwrap()..=seed.parse().unwrap(),
        Err(_) => 0..=30u64,
    };
    for seed in seeds {
        if let Err(reason) = run_seed(seed) {
            panic!("seed {seed}: {reason}");
        }
    }
}
