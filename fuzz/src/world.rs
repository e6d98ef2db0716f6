//! A store with two sessions: one that means harm, and an honest one whose file must stay as it is.

#[path = "../../crates/sharedfs/tests/common/mod.rs"]
pub mod common;

use crate::script::{self, Step};
use common::{Store, Writer, content};
use cuesta_format::entry::Header;
use cuesta_format::wire::{LeaseMode, Request, Response, Sends};
use cuesta_format::{InodeNumber, LogPosition, Operation, Timestamp};
use cuesta_sharedfs::check::{Mode, check};
use cuesta_sharedfs::{Ending, SharedFs};
use std::sync::Arc;

/// Where the honest session's file is.
const PATH: &str = "honest/file";

/// The store, open, and who is attached.
pub struct World {
    store: Store,
    shared: Arc<SharedFs>,
    honest: Writer,
    /// Who means harm.
    pub hostile: Writer,
    directory: InodeNumber,
    file: InodeNumber,
    expected: Vec<u8>,
}

impl World {
    /// With a file of the honest session's that is digested in part.
    #[must_use]
    pub fn new() -> World {
        let store = Store::new();
        let shared = store.open();
        let mut honest = Writer::attach(&shared);
        let directory = honest.directory(b"honest");
        let file = honest.create_in(directory, b"file", 0o100_600);
        let expected = vec![7; 9000];
        honest.write(file, 0, &expected);
        honest.digest();
        let hostile = Writer::attach(&shared);
        let mut world = World { store, shared, honest, hostile, directory, file, expected };
        world.work();
        world
    }

    /// The honest session changes its file, and sees that it is its own.
    pub fn work(&mut self) {
        if self.honest.generation() != self.honest.lease_generation {
            self.honest.resync();
        }
        let at = self.expected.len() * 3 / 7;
        let byte = self.expected[at].wrapping_add(1);
        // A few entries of a log that is large enough for thousands are retired as they go.
        self.honest.write(self.file, at as u64, &[byte; 3]);
        self.expected[at..at + 3].fill(byte);
        self.honest.digest();
        self.honest.retire(self.honest.at);
        assert!(content(&self.shared, PATH) == self.expected, "an honest session's file was changed");
    }

    /// Asks as the hostile session.
    pub fn ask(&mut self, request: &Request) -> Response {
        self.hostile.request(request)
    }

    /// Does one step of a script.
    #[must_use]
    pub fn step(mut self, step: Step) -> World {
        let hostile = &mut self.hostile;
        match step {
            Step::Entry { kind, flags, inode, argument, debit, body } => {
                let header = Header {
                    kind: script::kind(kind),
                    flags,
                    body_bytes: body.len() as u32,
                    debit_blocks: debit.into(),
                    inode: script::inode(inode),
                    argument,
                    time: Timestamp(argument as i64),
                    ..hostile.header(&Operation::Void, 0)
                };
                // One that means harm may write where it has not retired; not where it digests, or nothing would be seen.
                if header.end().0 < hostile.digested().0 + hostile.geometry.ring_bytes() {
                    hostile.append_sealed(&header, &body);
                    hostile.complete(hostile.at);
                }
            }
            Step::Digest => drop(hostile.request(&Request::Digest)),
            Step::Acquire { inode, write } => {
                let inode = script::inode(inode);
                // What it is granted it may change.
                if inode != self.directory && inode != self.file {
                    let mode = if write { LeaseMode::Write } else { LeaseMode::Read };
                    let ask = Request::Acquire {
                        inode,
                        mode,
                        ahead: 0,
                        beside: Vec::new(),
                        kept: None,
                        sends: Sends::Nothing,
                    };
                    hostile.request(&ask);
                }
            }
            Step::GiveBack { inode } => {
                hostile.request(&Request::GiveBack { inodes: vec![script::inode(inode)] });
            }
            Step::Honest => {
                self.work();
                let ask = |inode| Request::Acquire {
                    inode,
                    mode: LeaseMode::Read,
                    ahead: 64,
                    beside: Vec::new(),
                    kept: None,
                    sends: Sends::Nothing,
                };
                self.honest.request(&ask(InodeNumber::ROOT));
                self.resync();
            }
            Step::Rewrite { back, bytes } => {
                let ring = hostile.geometry.ring_bytes() as usize;
                let from = hostile.at.0.saturating_sub(back.into());
                hostile.write_raw(LogPosition(from), &bytes[..bytes.len().min(ring)]);
            }
            Step::Complete { at } => hostile.complete(LogPosition(at)),
            Step::Retire { at } => hostile.retire(LogPosition(at)),
            Step::Open { slots, slot, inode, unlisted } => {
                hostile.use_open_slots(slots);
                hostile.open_in_slot(slot.into(), script::inode(inode));
                hostile.open_unlisted(unlisted);
            }
            Step::Cut { slot, bytes } => {
                let slots = hostile.geometry.ring_slots as usize;
                hostile.cut_segment(usize::from(slot) % slots, bytes.into());
            }
            Step::Map { inode } => {
                let inode = script::inode(inode);
                if inode != self.file {
                    hostile.request(&Request::Map { inode });
                }
            }
            Step::Restart => return self.restart(),
        }
        self
    }

    /// The hostile session goes on after a fence, if it is not over.
    fn resync(&mut self) {
        let hostile = &mut self.hostile;
        if hostile.generation() != hostile.lease_generation
            && matches!(hostile.request(&Request::Resync), Response::Resynced(_))
        {
            hostile.resync();
        }
    }

    /// Another one that means harm comes.
    pub fn renew_hostile(&mut self) {
        self.hostile = Writer::attach(&self.shared);
    }

    fn end_hostile(&mut self) {
        self.shared.end_session(self.hostile.session, Ending::GivenUp).expect("a session ends");
    }

    /// The hostile session ends, the daemon goes without a word, and the next one comes.
    fn restart(mut self) -> World {
        self.end_hostile();
        let World { store, shared, honest, hostile, directory, file, expected } = self;
        drop((shared, honest, hostile));
        let shared = store.open();
        let [honest, hostile] = [Writer::attach(&shared), Writer::attach(&shared)];
        World { store, shared, honest, hostile, directory, file, expected }
    }

    /// Nothing was damaged, and the store can be used.
    pub fn finish(mut self) {
        self.end_hostile();
        self.work();
        let World { store, shared, honest, hostile, .. } = self;
        drop((shared, honest, hostile));
        let report = check(&store.tier(), Mode::Repair).expect("the store can be checked");
        assert!(report.is_clean(), "{report:?}");
    }
}

impl Default for World {
    fn default() -> World {
        World::new()
    }
}
