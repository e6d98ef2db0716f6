//! What happened on a store so far: from it, anybody can compute what the store must hold.

use crate::doors::Door;
use crate::generate::{Generator, Repertoire};
use crate::model::Model;
use crate::operation::{FallocateMode, Operation};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;

/// A round that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    /// Its operations follow from this,
    pub seed: u64,
    /// and from the door they came by.
    pub door: Door,
    /// So many of them survived the kill.
    pub survived: u64,
}

/// All rounds that are over, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    rounds: Vec<Round>,
}

/// The operations of a round, one after the other: what Linux asks of a file system behind that door.
pub fn operations(seed: u64, door: Door) -> impl Iterator<Item = Operation> {
    use FallocateMode::{CollapseRange, InsertRange};
    let repertoire = Repertoire { climbing: false, ..Repertoire::default() };
    let mut generator = Generator::new(repertoire, seed);
    let all = std::iter::from_fn(move || Some(generator.next_operation()));
    let moves_content = |operation: &Operation| {
        matches!(operation, Operation::Fallocate { mode: CollapseRange | InsertRange, .. })
    };
    all.filter(move |operation| door == Door::Run || !moves_content(operation))
}

impl History {
    /// Reads what [`History::save`] wrote.
    pub fn load(path: &Path) -> io::Result<History> {
        Ok(serde_json::from_slice(&std::fs::read(path)?)?)
    }

    /// Writes it all to a file.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        std::fs::write(path, serde_json::to_vec(self)?)
    }

    /// Adds a round.
    pub fn push(&mut self, round: Round) {
        self.rounds.push(round);
    }

    /// What the store holds after all rounds: every file is closed.
    pub fn model(&self) -> Model {
        let mut model = Model::new();
        for round in &self.rounds {
            for operation in operations(round.seed, round.door).take(round.survived as usize) {
                // An error is an outcome like any other: it was compared when it happened.
                let _ = model.apply(&operation);
            }
            model.crash();
        }
        model
    }
}
