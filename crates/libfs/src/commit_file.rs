//! The log's commit file (medium `block`): what is waited for is written there past the kernel's pages, which takes a fast disk
//! little more than half as long as having it write the pages (docs/decisions/0034).
//!
//! SharedFS is asked for it when the session has waited for the disk some times: a program that saves one file does without. Where
//! there is none, or it fails, the log's own pages are written as before.

use crate::client::Client;
use crate::mapped_descriptors::Kept;
use crate::sync::{Arc, Mutex};
use cuesta_format::wire::{Request, Response};
use cuesta_media::{DirectWriter, Piece, Window};
use rustix::fd::OwnedFd;
use std::time::Duration;

/// What a session has of it.
#[derive(Debug)]
pub(crate) struct CommitFile(Mutex<State>);

#[derive(Debug)]
enum State {
    /// It was not asked for, and waited for so often.
    Waited(u32),
    /// There is none, or it failed.
    Without,
    /// There is one.
    Here(Held, DirectWriter),
}

/// Its descriptor.
#[derive(Debug)]
enum Held {
    /// Among those of a program, by its door.
    Kept(Arc<Kept>),
    /// This process has no door, and its descriptors are its own.
    Own(OwnedFd),
}

impl Default for CommitFile {
    fn default() -> Self {
        CommitFile(Mutex::new(State::Waited(0)))
    }
}

impl Client {
    /// Writes pieces of the log to its commit file, durably. `false`: the log's own pages must be written.
    pub(crate) fn commit(&self, window: &Window, pieces: &[Piece]) -> bool {
        let mut state = self.commit_file.0.lock();
        if let State::Waited(waits) = &mut *state {
            if *waits < self.session.welcome.commit_file_waits {
                *waits += 1;
                return false;
            }
            *state =
                self.ask_for_commit_file().map_or(State::Without, |(held, writer)| State::Here(held, writer));
        }
        let State::Here(held, writer) = &*state else { return false };
        let written = match held {
            Held::Own(file) => writer.write(file, window, pieces),
            Held::Kept(kept) => match kept.get() {
                Some(file) => writer.write(&file, window, pieces),
                // A thread whose descriptors are others'.
                None => return false,
            },
        };
        if written.is_err() {
            *state = State::Without;
        }
        written.is_ok()
    }

    fn ask_for_commit_file(&self) -> Option<(Held, DirectWriter)> {
        let mut descriptors = Vec::new();
        let Ok(Response::Done) = self.session.call(&Request::CommitFile, &mut descriptors) else {
            return None;
        };
        let file = descriptors.pop()?;
        let held = if self.mapped_descriptors.has_keeper() {
            Held::Kept(self.mapped_descriptors.keep(&file)?)
        } else {
            Held::Own(file)
        };
        let awake = Duration::from_micros(self.session.welcome.awake_us.into());
        Some((held, DirectWriter::new(awake).ok()?))
    }
}
