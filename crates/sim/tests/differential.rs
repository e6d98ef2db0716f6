//! LibFS and SharedFS against the reference model: the same random calls, the same answers, the
//! same tree; with digests in between, logs that wrap, and the store opened again.
//!
//! `CUESTA_SIM_SEED` repeats one seed.

use cuesta_sim::generate::{Generator, Repertoire};
use cuesta_sim::model::Model;
use cuesta_sim::operation::{Operation, PathText, answers_agree};
use cuesta_sim::random::Random;
use cuesta_sim::tree::Tree;
use cuesta_sim::world::{self, World};

const OPERATIONS: usize = 400;

fn repertoire() -> Repertoire {
    Repertoire { extended_bytes_max: 6000, ..Repertoire::default() }
}

fn run_seed(seed: u64) -> Result<(), String> {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let geometry = cuesta_format::Geometry { nvm_bytes: 16 << 20, ..world::small_geometry() };
    world::create(directory.path(), geometry)?;
    let mut world = World::open(directory.path())?;
    let mut model = Model::new();
    let mut generator = Generator::new(repertoire(), seed);
    let mut chance = Random::new(!seed);
    for step in 0..OPERATIONS {
        let operation = generator.next_operation();
        world = one(world, &mut model, &operation).map_err(|reason| format!("step {step}: {reason}"))?;
        if chance.one_in(40) {
            world.digest().map_err(|reason| format!("step {step}: {reason}"))?;
        }
        if chance.one_in(150) {
            world.detach();
            model.crash();
            world::fsck(directory.path()).map_err(|reason| format!("step {step}: {reason}"))?;
            world = World::open(directory.path())?;
        }
        if chance.one_in(25) {
            agree(&world, &model).map_err(|reason| format!("after step {step}: {reason}"))?;
        }
    }
    agree(&world, &model)?;
    world.detach();
    model.crash();
    agree(&World::open(directory.path())?, &model)?;
    world::fsck(directory.path())
}

/// One call on both.
fn one(mut world: World, model: &mut Model, operation: &Operation) -> Result<World, String> {
    let (found, expected) = (world.helped(|world| world.apply(operation)), model.apply(operation));
    match answers_agree(&found, &expected) {
        true => Ok(world),
        false => Err(format!("{operation:?}: {found:?}, expected {expected:?}\n{:?}", Tree::from(&*model))),
    }
}

fn agree(world: &World, model: &Model) -> Result<(), String> {
    let differences = world.tree()?.differences(&Tree::from(model));
    if differences.is_empty() { Ok(()) } else { Err(differences.join("\n")) }
}

#[test]
fn the_store_answers_as_the_model_does() {
    let seeds = match std::env::var("CUESTA_SIM_SEED") {
        Ok(seed) => seed.parse().unwrap()..=seed.parse().unwrap(),
        Err(_) => 0..=60u64,
    };
    for seed in seeds {
        if let Err(reason) = run_seed(seed) {
            panic!("seed {seed}: {reason}");
        }
    }
}

/// Seed 770150: each time round the path becomes longer than any that a call may have.
#[test]
fn a_loop_of_links_is_a_loop_however_long_it_makes_the_path() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    world::create(directory.path(), world::small_geometry()).unwrap();
    let mut world = World::open(directory.path()).unwrap();
    let mut model = Model::new();
    let path = |text: &str| PathText(text.as_bytes().to_vec());
    for target in ["/a/", "a/"] {
        let target = path(&format!("{target}{}", "n".repeat(250)));
        for operation in [
            Operation::Symlink { target, path: path("/a") },
            Operation::Chmod { path: path("/a/file"), mode: 0o644 },
            Operation::Unlink { path: path("/a") },
        ] {
            world = one(world, &mut model, &operation).unwrap();
        }
    }
}
