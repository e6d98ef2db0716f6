//! The history of a store, from which its required content can be computed.

use crate::model::Model;
use crate::operations::generate::{Generator, Repertoire};
use crate::operations::operation::{FallocateMode, Operation, Pattern};
use crate::programs::doors::Door;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::path::Path;
use std::str::FromStr;

/// Bytes of a page of the kernel's cache.
const PAGE_BYTES: u64 = 4096;

/// A round that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    /// Its operations follow from this,
    pub seed: u64,
    /// and from the door they came by.
    pub door: Door,
    /// What survived the kill.
    pub survived: Survived,
}

/// So many operations survived, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survived {
    /// These are whole.
    pub operations: u64,
    /// The one behind them is a write by a mount, of which the kernel had asked the first part ([`first_part`]).
    pub and_a_part: bool,
}

impl fmt::Display for Survived {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}{}", self.operations, if self.and_a_part { " and a part" } else { "" })
    }
}

impl FromStr for Survived {
    type Err = ();

    fn from_str(text: &str) -> Result<Survived, ()> {
        let (operations, and_a_part) = match text.strip_suffix(" and a part") {
            Some(operations) => (operations, true),
            None => (text, false),
        };
        Ok(Survived { operations: operations.parse().map_err(drop)?, and_a_part })
    }
}

/// A write by a mount that begins within a page the kernel may not have is two questions: for the rest of that page, and for
/// all behind it. A kill between them leaves the first, as it may on ext4. Appends are one question, as are others with O_DIRECT.
pub fn first_part(model: &Model, operation: &Operation) -> Option<Operation> {
    let (slot, offset, data) = match operation {
        Operation::Write { slot, data } => (*slot, None, data),
        Operation::Pwrite { slot, offset, data } => (*slot, Some(*offset), data),
        _ => return None,
    };
    model.flags(slot).filter(|flags| !flags.append && !flags.direct)?;
    let offset = offset.or(model.position(slot))?;
    let length = u32::try_from(PAGE_BYTES - offset % PAGE_BYTES).ok()?;
    let is_cut = offset % PAGE_BYTES != 0 && length < data.length;
    let data = Pattern { length, ..*data };
    is_cut.then_some(Operation::Pwrite { slot, offset, data })
}

/// All rounds that are over, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    rounds: Vec<Round>,
}

/// Longest name of an extended attribute (`XATTR_NAME_MAX` of Linux).
const ATTRIBUTE_BYTES_MAX: usize = 255;

/// The operations of a round, one after the other: what Linux asks of a file system behind that door.
pub fn operations(seed: u64, door: Door) -> impl Iterator<Item = Operation> {
    use FallocateMode::{CollapseRange, InsertRange};
    let repertoire = Repertoire { climbing: false, ..Repertoire::default() };
    let mut generator = Generator::new(repertoire, seed);
    let all = std::iter::from_fn(move || Some(generator.next_operation()));
    let moves_content = |operation: &Operation| {
        matches!(operation, Operation::Fallocate { mode: CollapseRange | InsertRange, .. })
    };
    all.filter(move |operation| {
        door == Door::Run || !moves_content(operation) && !has_unusable_name(operation)
    })
}

/// Whether an attribute's name is one the kernel refuses by itself: in Linux 6.1 behind looking for the file, in 6.18 before.
fn has_unusable_name(operation: &Operation) -> bool {
    use Operation::{FsetExtended, GetExtended, RemoveExtended, SetExtended};
    match operation {
        SetExtended { name, .. }
        | FsetExtended { name, .. }
        | GetExtended { name, .. }
        | RemoveExtended { name, .. } => !(1..=ATTRIBUTE_BYTES_MAX).contains(&name.0.len()),
        _ => false,
    }
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

    /// The store's content after all rounds: every file is closed.
    pub fn model(&self) -> Model {
        let mut model = Model::new();
        for round in &self.rounds {
            let mut operations = operations(round.seed, round.door);
            for operation in operations.by_ref().take(round.survived.operations as usize) {
                // An error is an outcome like any other: it was compared when it happened.
                let _ = model.apply(&operation);
            }
            let next = operations.next().filter(|_| round.survived.and_a_part);
            if let Some(part) = next.and_then(|operation| first_part(&model, &operation)) {
                let _ = model.apply(&part);
            }
            model.crash();
        }
        model
    }
}
